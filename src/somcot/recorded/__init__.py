"""From labels and rows to counts and fitted chains: the implementation behind `Samples`."""
