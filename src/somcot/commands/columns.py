"""Tables for screens: steps that differ, pairs of states that contribute, who corresponds to whom, visits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from somcot.commands.answers import Answer
from somcot.makeup import PairShare, TransitionShare
from somcot.plumbing.text import decimals, label_text, percent
from somcot.problem import Data
from somcot.report.words import of_time

__all__ = ["file_name", "most_visited", "parts"]

_TOP = 5
_MATCHES = 8
_LABEL = 28


def parts(answer: Answer) -> Columns:
    """Where the distance comes from and who corresponds to whom, side by side where the terminal is wide enough."""
    tables = [_matches(answer)]
    if answer.result.makeup is not None:
        found = answer.result.contributions(_TOP)
        pairs = (
            [_pairs(answer, found.pairs, "What comes of it, side by side" if found.transitions else "Side by side")]
            if found.pairs
            else []
        )
        tables = [*([_steps(answer, found.transitions)] if found.transitions else []), *pairs, *tables]
    return Columns(tables, padding=(1, 4))


def _steps(answer: Answer, steps: tuple[TransitionShare, ...]) -> Table:
    table = _titled("Steps that differ and matter most")
    table.add_column("from", overflow="fold")
    table.add_column("to", overflow="fold")
    for name in answer.names:
        table.add_column(Text(file_name(name, 14)), justify="right")
    table.add_column("adds", justify="right")
    if answer.result.n_samples:
        table.add_column("clear")
    for t, verdict in zip(steps, _verdicts(answer, steps), strict=True):
        table.add_row(
            Text(label_text(t.state, _LABEL)), Text(label_text(t.next_state, _LABEL)), percent(t.probability_x),
            percent(t.probability_y), decimals(t.amount), *verdict,
        )  # fmt: skip
    return table


def _pairs(answer: Answer, pairs: tuple[PairShare, ...], title: str) -> Table:
    table = _titled(title)
    first, second = (file_name(name, 14) for name in answer.names)
    table.add_column(Text(f"in {first}"), overflow="fold")
    table.add_column(Text(f"while in {second}"), overflow="fold")
    table.add_column("time", justify="right")
    table.add_column("adds", justify="right")
    if answer.result.n_samples:
        table.add_column("clear")
    for p, verdict in zip(pairs, _verdicts(answer, pairs), strict=True):
        table.add_row(
            Text(label_text(p.x, _LABEL)), Text(label_text(p.y, _LABEL)),
            percent(of_time(answer.result, p.occupancy)), decimals(p.amount), *verdict,
        )  # fmt: skip
    return table


def _verdicts(answer: Answer, shares: Sequence[PairShare | TransitionShare]) -> list[tuple[str, ...]]:
    """A last cell for each row: whether it is no accident. Of known chains nothing is, so nothing need be said."""
    if not answer.result.n_samples:
        return [()] * len(shares)
    if answer.result.discount == 1.0:
        return [("?",)] * len(shares)  # no errors with this clock
    return [("yes" if share.marked else "no",) for share in shares]


def _matches(answer: Answer) -> Table:
    table = _titled("Strongest correspondences")
    first, second = (file_name(name, 18) for name in answer.names)
    table.add_column(Text(f"state in {first}"), overflow="fold")
    table.add_column(Text(f"goes with, in {second}"), overflow="fold")
    table.add_column("how often", justify="right")
    table.add_column("time", justify="right")
    for match in answer.result.matches()[:_MATCHES]:
        table.add_row(
            Text(label_text(match.x, _LABEL)), Text(label_text(match.y, _LABEL)), percent(match.probability),
            percent(of_time(answer.result, match.occupancy)),
        )  # fmt: skip
    return table


def most_visited(data: Data) -> Table:
    """The states that were left most often."""
    table = _titled("Most visited")
    table.add_column("state")
    table.add_column("steps from it", justify="right")
    table.add_column("share", justify="right")
    for k in np.argsort(-data.visits, kind="stable")[:_MATCHES]:
        share = data.visits[k] / max(data.n_transitions, 1)
        table.add_row(Text(label_text(data.states[k], 30)), f"{data.visits[k]:,}", percent(share))
    return table


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def file_name(name: str, longest: int = 36) -> str:
    """The end of a path, which tells more than its beginning."""
    shown = label_text(name, 4096)
    return shown if len(shown) <= longest else "\u2026" + shown[1 - longest :]
