"""Measurements side by side with other packages, in one run, as ratios of CPU time."""
