"""What an answer says about itself, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from somcot.cells import Continuous
from somcot.inference.rules import SATURATED

__all__ = ["FEWEST", "message", "notes"]

FEWEST = 20  # transitions of each side without which no interval means anything


def message(value: float, plain: float, continuous: Continuous) -> str:
    """The sentence for people."""
    return f"Estimated from recordings of real vectors: {value:.6g}; {continuous.summary(plain)}."


def notes(continuous: Continuous, suspicion: str | None, plain: float, *, interval: bool = True) -> Iterator[str]:
    """Everything there is to warn of, in the order of importance; `interval`: whether one was asked for."""
    check = continuous.shift_check
    failed = check is not None and not check.passed and continuous.route != "map"
    if continuous.route == "approximate":
        yield f"the distance is approximate{' and has no interval' * interval}: {_unvouched(continuous)}"
    if failed and check is not None:
        why = "" if continuous.route == "approximate" else f" ({continuous.twin.reason})"
        yield (
            f"shift check: a shift of {check.distance:.3g} of your own recordings is measured as {check.final:.3g}; "
            f"the distance may be as wrong{why}"
        )
    if suspicion is not None:
        yield suspicion
    if continuous.cells.saturation > SATURATED:
        yield (
            f"few data even for {continuous.cells.n_cells} cells (saturation {continuous.cells.saturation:.1f}, at "
            "most 3 is safe): the estimate may be too high; record more, or lower the discount"
        )
    if plain == 0.0 and suspicion is None:
        yield "both recordings are the same"


def _unvouched(continuous: Continuous) -> str:
    """Why nothing vouches for what cells say, and what would help."""
    few = min(data.n_transitions for data in continuous.cells.recordings)
    if few < FEWEST:
        return f"found {few} transition{'s' * (few != 1)} on one side, and {FEWEST} on each are the least; record more"
    why = [f"cells alone are off by an unknown amount; {continuous.twin.reason}"]
    help_ = "a lower discount, or coordinates in which a step is nearly linear"
    found = continuous.map
    if found is not None:
        seen = f" (the best was: {found.words})" if found.words and found.verdict == "different" else ""
        why.append(f"and no map between the two was confirmed{seen}: {'; '.join(found.reasons)}")
        if found.verdict == "refused":
            help_ = f"more or shorter episodes, {help_}"
    return f"{', '.join(why)}. What helps: {help_}"
