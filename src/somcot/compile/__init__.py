"""Compiled code: decorators, disk cache, fixed-order arithmetic, and all uses of Numba's internals."""
