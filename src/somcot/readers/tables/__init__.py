"""Event tables: from rows of any source to sequences, counts, groups and vectors."""
