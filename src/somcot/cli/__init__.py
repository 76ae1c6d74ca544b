"""What the command line does behind its options: read the files, ask the question, show the answer."""
