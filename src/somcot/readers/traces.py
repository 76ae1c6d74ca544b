"""placeholder"""
from somcot.samples import Samples
def is_trace(head): return False
def open_traces(source, rules): raise NotImplementedError
def from_traces(data, *, format=None) -> Samples: raise NotImplementedError
