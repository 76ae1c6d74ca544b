"""The answer in words, for reports and screens: proved, estimated or neither, and never more than that."""

from __future__ import annotations

from collections.abc import Iterable

from somcot.plumbing.text import figure
from somcot.result import Claim, Result

__all__ = ["before_correction", "named", "sentence"]


def sentence(result: Result, names: tuple[str, str] = ("X", "Y")) -> str:
    """The answer in words.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> sentence(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), ("May", "June"))
    'The distance between May and June is 0.0000 (proved to ...).'
    """
    text = f"The distance between {names[0]} and {names[1]} is"
    number = figure(result.distance)
    if result.claim is Claim.PROVED:
        return f"{text} {number} (proved to {result.bounds.high - result.bounds.low:.1g})."
    if result.claim is Claim.NOTHING:
        put = f"the distance between {names[0]} and {names[1]} is put at {number}"
        return f"After {result.n_steps:,} steps {put}; nothing is proved about how near that is."
    text += f" estimated at {number}"
    if result.confidence_interval is None:
        return f"{text}; no interval was asked for, so its error is not known."
    low, high, level = result.confidence_interval
    return f"{text}. With {100 * level:g} % confidence the true distance lies between {figure(low)} and {figure(high)}."


def before_correction(result: Result) -> tuple[str, str] | None:
    """A name and the words for the distance of the estimated chains, and what is proved of it; None without data."""
    if result.plugin is None:
        return None
    name = "estimated chains" if result.estimate is None else "before correction"
    return name, f"{result.plugin:.6g}, proved to {result.bounds.high - result.bounds.low:.1g} for the estimated chains"


def named(messages: Iterable[str], names: tuple[str, str]) -> list[str]:
    """Messages about x and y in the names of the two, each once; one that holds for both is said of both.

    Examples
    --------
    >>> named(["x: few data", "y: few data", "y: odd", "no interval"], ("May", "June"))
    ['May and June: few data', 'June: odd', 'no interval']
    """
    unique = list(dict.fromkeys(messages))
    told: dict[str, list[str]] = {}  # what is said, and of whom
    for message in unique:
        side, _, rest = message.partition(": ")
        about = {"x": [names[0]], "y": [names[1]]}.get(side, []) if rest else []
        told.setdefault(rest if about else message, []).extend(about)
    said = (f"{' and '.join(about)}: {text}" if about else text for text, about in told.items())
    return list(dict.fromkeys(said))  # a message may have come with a name already
