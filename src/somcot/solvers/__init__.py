"""Solvers. Each takes a problem and returns a Result."""
