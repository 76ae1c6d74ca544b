"""Markov decision processes: bisimulation metrics, aggregation of states, and estimates from recorded transitions.

The metric is that of Ferns, Panangaden and Precup: two states are close if every action yields similar rewards and
leads to states that are close.
"""

from somcot.mdp.distances import Aggregation, aggregate, bracket, metric
from somcot.mdp.estimates import distance
from somcot.mdp.process import MDP, Plan, on_policy, optimal
from somcot.mdp.recorded import RecordedMDP
from somcot.mdp.transfer import TransferBound, transfer_bound

__all__ = [
    "MDP", "Aggregation", "Plan", "RecordedMDP", "TransferBound", "aggregate", "bracket", "distance", "metric",
    "on_policy", "optimal", "transfer_bound",
]  # fmt: skip
