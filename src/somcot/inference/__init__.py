"""Estimates from data with confidence intervals, and tests."""
