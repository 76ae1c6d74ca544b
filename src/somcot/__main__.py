"""The ``somcot`` command, also as ``python -m somcot``: Ctrl-C is obeyed before anything else is loaded."""

from somcot.cli import signals

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``somcot`` command."""
    signals.leave_at_once()
    from somcot.cli import application as cli  # takes longest, and there is nothing to lose yet

    signals.obey()
    try:
        cli.main()
    except SystemExit as left:
        signals.decided(left.code if isinstance(left.code, int) else 1)
        raise
    except KeyboardInterrupt:  # a second one, while the first was being explained
        signals.decided(signals.interruption()[1])


if __name__ == "__main__":
    main()
