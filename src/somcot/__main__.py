"""``python -m somcot``."""

from somcot.cli import main

if __name__ == "__main__":
    main()
