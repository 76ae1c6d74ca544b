"""Many processes at once: matrices of distances, groups, model selection, clusters of machines."""
