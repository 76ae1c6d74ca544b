"""Readers: from files, frames, trajectories, environments and graphs to `Samples` or `MarkovChain`.

One module per world; packages they need are imported when used.
"""

from somcot.readers.bins import Bins
from somcot.readers.dtrajs import from_dtrajs, from_model, read_arrays
from somcot.readers.files import read
from somcot.readers.graphs import from_graph, read_graph
from somcot.readers.prism import from_prism, read_prism
from somcot.readers.rl import from_env, from_minari
from somcot.readers.spelling import join_rare, tidy_labels
from somcot.readers.tables import fit_bins, from_table, from_xes
from somcot.readers.tabular import from_tabular

__all__ = [
    "Bins",
    "fit_bins",
    "from_dtrajs",
    "from_env",
    "from_graph",
    "from_minari",
    "from_model",
    "from_prism",
    "from_table",
    "from_tabular",
    "from_xes",
    "join_rare",
    "read",
    "read_arrays",
    "read_graph",
    "read_prism",
    "tidy_labels",
]
