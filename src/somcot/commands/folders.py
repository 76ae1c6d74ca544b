"""Folders too large to be held as episodes: counted file by file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from somcot.commands.reading import flag
from somcot.plumbing.errors import DataWarning, warn
from somcot.readers import count_table
from somcot.readers.folders import parts_of
from somcot.readers.inputs import Input
from somcot.recorded.counts import Counts

__all__ = ["counted"]

LARGE = 500_000_000  # bytes of a folder from which on its episodes are forgotten; a number, so that machines agree
_KNOWN = ("state", "sequence", "time", "reward", "terminated", "initial", "encoding", "delimiter")


def counted(source: Input, options: Mapping[str, Any]) -> Counts | None:
    """The counts of a large folder of tables, with a note; None for all else."""
    if source.path is None or not source.path.is_dir():
        return None
    n_bytes = sum(part.path.stat().st_size for part in parts_of(source.path))
    if n_bytes < LARGE:
        return None
    given = {name: value for name, value in options.items() if value is not None}
    states = given.get("state")
    if isinstance(states, list) and len(states) == 1:
        given["state"] = states[0]
    refused = [flag(name) for name in given if name not in _KNOWN]
    refused += ["several --state"] if isinstance(given.get("state"), list) else []
    refused += ["--terminated COLUMN"] if isinstance(given.get("terminated"), str) else []
    if refused:
        raise ValueError(
            f"{source.name}: {n_bytes / 1e9:.1f} GB, so it is counted file by file, which does not know "
            f"{', '.join(refused)}; prepare the columns first, or name a smaller folder"
        )
    warn(
        f"{source.name}: {n_bytes / 1e9:.1f} GB, so transitions are counted file by file and episodes forgotten; "
        "tests deal single transitions anew, not episodes",
        DataWarning,
    )
    return count_table(source.path, **given)
