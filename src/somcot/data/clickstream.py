"""A fictitious web shop before and after a redesign: two known chains, and sessions drawn from them.

``python -m somcot.data.clickstream`` writes may.csv and june.csv again, byte for byte. Python's own generator is used,
whose numbers do not change between versions.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from somcot.chains import MarkovChain

__all__ = ["chain", "path", "write"]

N_SESSIONS = 5000
MONTHS = {"may": datetime(2026, 5, 1), "june": datetime(2026, 6, 1)}  # first days

PAGES = ("home", "search", "category", "product", "reviews", "cart", "login", "shipping", "payment", "help", "bought",
         "left")  # fmt: skip
ENDS = ("bought", "left")
START = {"home": 0.55, "search": 0.2, "product": 0.25}

_MAY: dict[str, dict[str, float]] = {
    "home": {"search": 0.35, "category": 0.35, "product": 0.1, "help": 0.03, "left": 0.17},
    "search": {"search": 0.2, "product": 0.5, "category": 0.08, "home": 0.06, "left": 0.16},
    "category": {"category": 0.15, "product": 0.55, "search": 0.1, "home": 0.06, "left": 0.14},
    "product": {"product": 0.18, "reviews": 0.2, "cart": 0.18, "search": 0.12, "category": 0.12, "left": 0.2},
    "reviews": {"product": 0.5, "cart": 0.2, "reviews": 0.15, "left": 0.15},
    "cart": {"login": 0.45, "product": 0.25, "cart": 0.08, "help": 0.04, "left": 0.18},
    "login": {"shipping": 0.6, "login": 0.12, "help": 0.06, "left": 0.22},
    "shipping": {"payment": 0.72, "cart": 0.08, "help": 0.04, "left": 0.16},
    "payment": {"bought": 0.74, "payment": 0.08, "shipping": 0.05, "left": 0.13},
    "help": {"home": 0.4, "cart": 0.15, "help": 0.15, "left": 0.3},
}
# The redesign puts reviews on the product page more prominently and lets guests skip the login.
_JUNE: dict[str, dict[str, float]] = {
    **_MAY,
    "product": {"product": 0.1, "reviews": 0.36, "cart": 0.2, "search": 0.08, "category": 0.08, "left": 0.18},
    "reviews": {"product": 0.34, "cart": 0.34, "reviews": 0.2, "left": 0.12},
    "cart": {"login": 0.12, "shipping": 0.5, "product": 0.18, "cart": 0.06, "help": 0.02, "left": 0.12},
}
_STEPS = {"may": _MAY, "june": _JUNE}


def chain(month: str) -> MarkovChain:
    """The chain that the sessions of a month were drawn from.

    Examples
    --------
    >>> chain("may")
    MarkovChain(12 states, 48 transitions, starts in 3 states)
    """
    steps = _STEPS[month]
    # Pages without steps, on which sessions end, stay.
    rows = [[steps.get(a, {a: 1.0}).get(b, 0.0) for b in PAGES] for a in PAGES]
    return MarkovChain(rows, [START.get(page, 0.0) for page in PAGES], states=PAGES)


def path(month: str) -> Path:
    """The bundled file of a month, with the columns session, time and page."""
    return Path(str(files("somcot").joinpath("data", f"{month}.csv")))


def write(folder: Path) -> None:
    """Draw the sessions of both months again, in order from seed 0, and write them to a folder.

    The seed was fixed before anything was computed from the draw; whether the interval of the demo holds the truth is
    left to chance.
    """
    # Python's generator rather than NumPy's, whose streams may change between versions.
    draw = random.Random(0)
    for month, first_day in MONTHS.items():
        lines = ["session,time,page\n"]
        for number in range(N_SESSIONS):
            moment = first_day + timedelta(seconds=draw.randrange(30 * 86_400))
            for page in _session(_STEPS[month], draw):
                lines.append(f"{month[0]}{number + 1:04},{moment.isoformat()},{page}\n")
                moment += timedelta(seconds=1 + int(draw.expovariate(1 / 40)))
        (folder / f"{month}.csv").write_text("".join(lines), encoding="utf-8", newline="")


def _session(steps: dict[str, dict[str, float]], draw: random.Random) -> Iterator[str]:
    page = _pick(START, draw)
    yield page
    while page not in ENDS:
        page = _pick(steps[page], draw)
        yield page


def _pick(probabilities: dict[str, float], draw: random.Random) -> str:
    total = list(itertools.accumulate(probabilities.values()))
    # Sums of probabilities may end slightly below 1.
    return list(probabilities)[min(bisect.bisect_right(total, draw.random()), len(total) - 1)]


if __name__ == "__main__":
    write(Path(__file__).parent)
