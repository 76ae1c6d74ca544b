"""Every experiment and figure of the paper, one file and one command each: ``somcot reproduce NAME``."""
