"""Any file a user may name: table, event log, arrays or graph, told apart by ending or first bytes."""

from __future__ import annotations

import os
from typing import Any

from somcot.chains import MarkovChain
from somcot.readers.formats import kind_of
from somcot.readers.inputs import Input, identify
from somcot.samples import Samples
from somcot.timed import ContinuousChain

__all__ = ["read"]


def read(
    path: str | os.PathLike[str] | Input,
    *,
    format: str | None = None,  # noqa: A002
    **options: Any,
) -> Samples | MarkovChain | ContinuousChain:
    r"""Read a process from a file, whatever its kind.

    Parameters
    ----------
    path : path or "-"
        Tables (.csv .tsv .jsonl .parquet) or a folder of them, event logs (.xes), arrays (.npy .npz), graphs
        (.graphml .gml .edges) or PRISM files (.tra); "-" is standard input.
    format : str, optional
        One of csv, tsv, jsonl, parquet, xes, npy, npz, graphml, gml, edges, tra, where the ending does not tell.
    **options
        Those of `from_table`, `from_xes`, `read_arrays`, `read_graph` or `read_prism`; the ones of other kinds of file
        are refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "clicks.csv")
    >>> _ = file.write_text("user,page\n1,home\n1,cart\n2,home\n2,home\n")
    >>> read(file, sequence="user", state="page")
    Samples(2 states, 2 transitions, 2 episodes)
    """
    source = path if isinstance(path, Input) else identify(path, format)
    kind = kind_of(source.format)
    allowed = kind.options()
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"{source.name}: {option} is not for {kind.plural}, which take {', '.join(allowed)}; leave it out"
            )
    found: Samples | MarkovChain | ContinuousChain = kind.load()(source, **options)
    return found
