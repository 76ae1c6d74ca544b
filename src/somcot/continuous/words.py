"""What an answer says about itself, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from somcot.cells import Continuous
from somcot.inference.rules import SATURATED

__all__ = ["message", "notes"]


def message(value: float, plain: float, continuous: Continuous) -> str:
    """The sentence for people."""
    return f"Estimated from recordings of real vectors: {value:.6g}; {continuous.summary(plain)}."


def notes(continuous: Continuous, suspicion: str | None, plain: float) -> Iterator[str]:
    """Everything there is to warn of, in the order of importance."""
    check, twin = continuous.shift_check, continuous.twin
    if check is not None and not check.passed and continuous.route != "map":
        yield (
            f"shift check: a shift of {check.distance:.3g} of your own recordings is measured as {check.final:.3g}; "
            f"the distance may be as wrong ({twin.reason})"
        )
    elif continuous.route == "approximate":
        yield f"the distance is approximate and has no interval: nothing says what cells add to it ({twin.reason})"
    if suspicion is not None:
        yield suspicion
    if continuous.cells.saturation > SATURATED:
        yield (
            f"few data even for {continuous.cells.n_cells} cells (saturation {continuous.cells.saturation:.1f}, at "
            "most 3 is safe): the estimate may be too high; record more, or lower the discount"
        )
    if plain == 0.0 and suspicion is None:
        yield "both recordings are the same"
