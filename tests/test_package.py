"""The package as a whole: what it exports and what importing it brings in."""

from __future__ import annotations

import subprocess
import sys

import somcot


def test_everything_promised_is_there() -> None:
    for name in somcot.__all__:
        assert hasattr(somcot, name)
    assert "certificates" in dir(somcot)
    assert somcot.certificates.__name__ == "somcot.certificates"


def test_import_is_light() -> None:
    """Compiled code and optional packages are loaded when used, not on import."""
    code = (
        "import somcot, sys; print([m for m in ('numba', 'scipy', 'matplotlib', 'typer', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
