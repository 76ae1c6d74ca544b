"""The solver that CONTRIBUTING.md walks through works as it is written there."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import somcot
from somcot.solvers import METHODS, Method

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_solver_passes_the_linter() -> None:
    pytest.importorskip("ruff")
    solver = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    name = "src/somcot/solvers/value_iteration.py"
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        done = subprocess.run(call, input=solver, cwd=PAGE.parent, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_value_iteration_as_the_page_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solver, row = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    module = ModuleType("somcot.solvers.value_iteration")
    exec(compile(solver, "CONTRIBUTING.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(METHODS, "vi", eval(row, {"Method": Method}))
    reward = [1.0, 0.0, 0.0, 0.0, -1.0]
    cost = somcot.costs.absolute(reward, reward)
    x, y = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    exact = somcot.distance(x, y, cost, discount=0.8)
    found = somcot.distance(x, y, cost, discount=0.8, method="vi", tolerance=1e-9)
    assert found.converged
    assert found.method == "vi"
    assert found.distance == pytest.approx(exact.distance, abs=3e-9)
    assert found.bounds.low <= exact.distance <= found.bounds.high
    assert found.encoder.sum(axis=1) == pytest.approx(1.0)
    assert not somcot.distance(x, y, cost, discount=0.8, method="vi", max_sweeps=3).converged
