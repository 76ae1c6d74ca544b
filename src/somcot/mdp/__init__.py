"""Markov decision processes: how far apart states are when somebody acts, and which states can be merged.

The metric is that of Ferns, Panangaden and Precup: two states are close when every action brings similar rewards now
and leads to states that are close again.
"""

from somcot.mdp.aggregation import Aggregation, aggregate
from somcot.mdp.distances import bracket, metric
from somcot.mdp.planning import Plan, optimal
from somcot.mdp.process import MDP, on_policy

__all__ = ["MDP", "Aggregation", "Plan", "aggregate", "bracket", "metric", "on_policy", "optimal"]
