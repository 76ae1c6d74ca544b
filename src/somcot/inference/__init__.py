"""From data to an estimate with an interval, and tests."""
