"""Many processes: distance matrices, drift between periods, model selection, and computation on a cluster."""
