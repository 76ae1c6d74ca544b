"""Shared utilities: input checks, errors and notes, memory limits, files, text, HTML and linear systems."""
