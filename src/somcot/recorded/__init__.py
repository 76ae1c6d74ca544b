"""Behind `Samples`: from labels and rows to counts and fitted chains."""
