"""Costs between the members of a plan, each different one worked out and scaled once."""

from __future__ import annotations

from typing import Any

import numpy as np

from somcot.many.groups import Member, cost_between
from somcot.many.plan import Plan, Units, units_of

__all__ = ["CostBook"]


class CostBook:
    """Costs of a run of jobs, each different one once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.units: list[Units] = []
        self._known: dict[Any, int] = {}

    def number(self, x: Member, y: Member) -> int:
        """Where the cost between two members stands."""
        assert x.model is not None
        assert y.model is not None
        shared = not callable(self.plan.cost)
        named = isinstance(self.plan.cost, str) and self.plan.cost != "labels"
        key = (x.model.chain.states, y.model.chain.states) if shared and not named else (id(x), id(y))
        if key not in self._known:
            table = cost_between(self.plan.cost, x, y)
            self._known[key] = len(self.units)
            self.units.append(units_of(np.asarray(table, dtype=np.float64)))
        return self._known[key]
