"""Recordings and their counts as notebooks show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from somcot.plumbing.cards import SHOWN, card, table
from somcot.plumbing.text import label_text, percent

if TYPE_CHECKING:
    from somcot.recorded.counts import Counts

__all__ = ["counts_card"]


def counts_card(title: str, counts: Counts, ended: int | None = None) -> str:
    """What was recorded, and the states that were left most often; `ended` episodes ended for good, where known."""
    visits = counts.visits
    rows = [
        (label_text(counts.states[k], 40), f"{visits[k]:,}", percent(visits[k] / max(counts.n_transitions, 1)))
        for k in np.argsort(-visits, kind="stable")[:SHOWN]
    ]
    facts = [("states", f"{counts.n_states:,}"), ("transitions", f"{counts.n_transitions:,}")]
    if counts.discount is not None:
        facts.append(("drawn", f"independently, at discount {counts.discount:g}"))
    else:
        of_them = "" if ended is None else f", of which {ended:,} ended for good"
        facts.append(("episodes", f"{counts.n_episodes:,}{of_them}"))
    known = None if counts.rewards is None else counts.features
    if known is not None and np.isfinite(known).any():
        facts.append(("rewards", f"from {np.nanmin(known):.4g} to {np.nanmax(known):.4g}"))
    return card(title, facts, table(["most visited", "!steps from it", "!share"], rows))
