"""Remedies of the library in the words of the command line."""

from __future__ import annotations

__all__ = ["as_option"]

_SPELLED = {
    "pass terminated=True": "pass --terminated all",
    "total=True: the": "--total: the",
    "discount=1: est": "--discount 1: est",
    "terminated=True": "--terminated all",
    "pass end='left', say, instead of terminated": "pass --end left, say, instead of --terminated",
    "pass end='left'": "pass --end left",
    "leave end out": "leave --end out",
    "pass tidy=True": "pass --tidy",
    "pass lifecycle='all'": "pass --lifecycle all",
    "overlap (sliding=True)": "overlap (--sliding)",
    "with sliding=False": "without --sliding",
    "somcot.same_process tests": "somcot test says",
    "use standard_error='episodes', or make words": "pass --standard-error episodes, or, in Python, make words",
    "; samples.with_order(2) makes words": "; in Python, samples.with_order(2) makes words",
    "pass gaps='cut'": "pass --missing cut",
    "or pass scale=1.0": "or pass --scale 1",
    "with method='auto' and a discount": "with --method auto and a discount",
    "not with method='": "not with --method '",
    "; somcot.discretise makes": "; in Python, somcot.discretise makes",
    " (somcot.markov_order), so intervals are too narrow; make words the states: samples.with_order(2)": (
        ", so intervals are too narrow; for single pairs: somcot distance --standard-error episodes"
    ),
    "missing='cut' (--missing cut)": "--missing cut",
    "time='file' (--time file)": "--time file",
}


def as_option(text: str) -> str:
    """A message with options where the library names arguments.

    Examples
    --------
    >>> as_option("two states differ; pass tidy=True")
    'two states differ; pass --tidy'
    """
    for argument, option in _SPELLED.items():
        text = text.replace(argument, option)
    return text
