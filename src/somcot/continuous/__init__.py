"""Distances between recordings of real vectors: cells, linear twins, checks and the estimate."""
