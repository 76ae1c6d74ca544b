"""Entry point of the ``somcot`` command and of ``python -m somcot``; Ctrl-C works from the first import on."""

from somcot.cli import signals

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``somcot`` command."""
    signals.leave_at_once()
    from somcot.cli import application as cli  # the slowest import; an interrupt here loses no work

    signals.obey()
    try:
        cli.main()
    except SystemExit as left:
        signals.decided(left.code if isinstance(left.code, int) else 1)
        raise
    except KeyboardInterrupt:  # a second Ctrl-C, while the first is being reported
        signals.decided(signals.interruption()[1])


if __name__ == "__main__":
    main()
