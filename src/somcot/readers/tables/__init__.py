"""Event tables: rows of any source to sequences, counts, groups and vectors."""
