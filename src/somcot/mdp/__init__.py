"""Markov decision processes: how far apart states are when somebody acts, and which states can be merged.

The metric is that of Ferns, Panangaden and Precup: two states are close when every action brings similar rewards now
and leads to states that are close again.
"""

from somcot.mdp.distances import Aggregation, aggregate, bracket, metric
from somcot.mdp.process import MDP, Plan, on_policy, optimal

__all__ = ["MDP", "Aggregation", "Plan", "aggregate", "bracket", "metric", "on_policy", "optimal"]
