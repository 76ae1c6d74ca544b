"""Markov decision processes: bisimulation metrics between states, and aggregation of states.

The metric is that of Ferns, Panangaden and Precup: two states are close if every action yields similar rewards and
leads to states that are close.
"""

from somcot.mdp.distances import Aggregation, aggregate, bracket, metric
from somcot.mdp.process import MDP, Plan, on_policy, optimal
from somcot.mdp.recorded import RecordedMDP

__all__ = ["MDP", "Aggregation", "Plan", "RecordedMDP", "aggregate", "bracket", "metric", "on_policy", "optimal"]
