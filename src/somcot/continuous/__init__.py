"""Behind Trajectories: cells, linear twins, checks and the answer."""
