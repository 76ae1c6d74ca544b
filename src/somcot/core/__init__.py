"""Bellman improvement: selection of state pairs, reduction of problems, and exact transport for each pair."""
