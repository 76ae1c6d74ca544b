"""Compiled code: decorators, disk cache, fixed-order arithmetic, and the quarantine for Numba's internals."""
