"""Readers: from files, frames, trajectories, environments and graphs to `Samples` or `MarkovChain`.

One module per kind of source; optional packages are imported on use.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:  # for type checkers; at run time `__getattr__` imports
    from somcot.readers.array_files import from_dtrajs, from_model, read_arrays, read_baseline
    from somcot.readers.graphs import from_graph, read_graph
    from somcot.readers.opening import read
    from somcot.readers.prism import from_prism, read_prism
    from somcot.readers.replay import from_replay_buffer, transitions_of
    from somcot.readers.rl import from_env, from_minari, from_tabular
    from somcot.readers.tables.counting import count_table
    from somcot.readers.tables.event_tables import fit_bins, from_table, from_xes
    from somcot.readers.tables.groups import split_periods, split_table
    from somcot.readers.tables.state_labels import Bins, join_rare, tidy_labels
    from somcot.readers.tables.vector_tables import read_vectors
    from somcot.readers.traces import from_traces

__all__ = [
    "Bins",
    "count_table",
    "fit_bins",
    "from_dtrajs",
    "from_env",
    "from_graph",
    "from_minari",
    "from_model",
    "from_prism",
    "from_replay_buffer",
    "from_table",
    "from_tabular",
    "from_traces",
    "from_xes",
    "join_rare",
    "read",
    "read_arrays",
    "read_baseline",
    "read_graph",
    "read_prism",
    "read_vectors",
    "split_periods",
    "split_table",
    "tidy_labels",
    "transitions_of",
]

# Loaded on first use: the table of formats, shown by `somcot --help`, needs none of them.
_HOMES = {
    "array_files": ("from_dtrajs", "from_model", "read_arrays", "read_baseline"),
    "opening": ("read",),
    "graphs": ("from_graph", "read_graph"),
    "prism": ("from_prism", "read_prism"),
    "replay": ("from_replay_buffer", "transitions_of"),
    "rl": ("from_env", "from_minari", "from_tabular"),
    "tables.counting": ("count_table",),
    "tables.event_tables": ("fit_bins", "from_table", "from_xes"),
    "tables.groups": ("split_periods", "split_table"),
    "tables.state_labels": ("Bins", "join_rare", "tidy_labels"),
    "tables.vector_tables": ("read_vectors",),
    "traces": ("from_traces",),
}


def __getattr__(name: str) -> _Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'somcot.readers' has no attribute {name!r}")
    value = globals()[name] = getattr(_importlib.import_module(f"somcot.readers.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
