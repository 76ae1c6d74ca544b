"""One Bellman step and its linear algebra: which state pairs matter, exact transport for each, policy evaluation."""
