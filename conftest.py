"""Doctests of the doors to packages that need not be installed run where they are."""

from importlib.util import find_spec

NEEDED = {"jax": "jax", "torch": "torch", "abstraction": "torch"}
collect_ignore = [f"src/somcot/{name}.py" for name, package in NEEDED.items() if find_spec(package) is None]
