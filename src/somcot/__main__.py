"""The ``somcot`` command, also as ``python -m somcot``: Ctrl-C is obeyed before anything else is loaded."""

from somcot.commands import signals

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``somcot`` command."""
    signals.leave_at_once()
    from somcot import cli

    cli.main()


if __name__ == "__main__":
    main()
