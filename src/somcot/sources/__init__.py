"""Behind `streams`: buffers that can be resumed, and geometric stopping."""
