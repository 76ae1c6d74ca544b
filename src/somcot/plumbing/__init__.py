"""What every room of the house needs: checks, memory, files, compiled code."""
