"""Doctests of the doors to packages that need not be installed run where they are."""

from importlib.util import find_spec

collect_ignore = [f"src/somcot/{name}.py" for name in ("jax", "torch") if find_spec(name) is None]
