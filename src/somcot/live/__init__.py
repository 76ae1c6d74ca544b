"""Online monitoring: detecting that a process has changed since the reference, and by how much."""
