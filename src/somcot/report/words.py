"""The answer in words, for reports and screens."""

from somcot.plumbing.text import figure
from somcot.result import Result

__all__ = ["METHODS", "sentence"]

METHODS = {
    "auto": "estimate from data, corrected for bias",
    "exact": "exact: policy iteration with exact transport",
    "plugin": "exact distance of the chains estimated from the data",
    "saddle": "the paper's saddle point on the observed occupancies",
    "somcot": "SOMCOT, the paper's stochastic algorithm",
    "sinkhorn": "Sinkhorn value iteration, an upper bound",
    "lp": "linear program",
}


def sentence(result: Result, names: tuple[str, str] = ("X", "Y")) -> str:
    """The answer in words.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> sentence(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), ("May", "June"))
    'The distance between May and June is 0.0000 (proved to ...).'
    """
    text = f"The distance between {names[0]} and {names[1]} is {figure(result.distance)}"
    if result.confidence_interval is None:
        return f"{text} (proved to {result.bounds.high - result.bounds.low:.1g})."
    low, high, level = result.confidence_interval
    return f"{text}. With {100 * level:g} % confidence the true distance lies between {figure(low)} and {figure(high)}."
