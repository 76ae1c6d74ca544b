"""
Has the agent changed?
======================

Two folders with sessions of a coding agent, before and after a new prompt. The agent uses the same tools equally often,
but sometimes in another order. A test of the tool mix cannot see this.
``somcot distance before/ after/`` does the same on the command line.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot.readers import from_traces

# %%
# The sessions, in the notation of Anthropic's messages. Yours come from Claude Code, OpenTelemetry, an evaluation, ...
# After the new prompt, one in ten neighbouring calls has changed places.
rng = np.random.default_rng(0)
START = {"Grep": {"pattern": "total"}, "Read": {"file_path": "a.py"}, "Edit": {"file_path": "a.py"}}
COMMANDS = ("pytest -q", "git diff", "python reproduce.py")


def session() -> list[tuple[str, dict[str, str]]]:
    """Search and read a few times, then edit and test until the tests pass."""
    calls = [("Grep", START["Grep"])]
    calls += [("Read", START["Read"]) for _ in range(rng.integers(1, 5))]
    for _ in range(rng.integers(1, 4)):
        calls += [
            ("Edit", START["Edit"]),
            ("Bash", {"command": str(rng.choice(COMMANDS))}),
            ("Bash", {"command": "pytest -q"}),
        ]
    return calls


def swapped(calls: list[tuple[str, dict[str, str]]]) -> list[tuple[str, dict[str, str]]]:
    """The same calls; one in ten neighbours has changed places."""
    calls = list(calls)
    for k in range(len(calls) - 1):
        if rng.random() < 0.1:
            calls[k], calls[k + 1] = calls[k + 1], calls[k]
    return calls


def record(path: Path, calls: list[tuple[str, dict[str, str]]]) -> None:
    """Write a session as the API would have it."""
    blocks = [{"type": "tool_use", "id": str(k), "name": tool, "input": given} for k, (tool, given) in enumerate(calls)]
    path.write_text(json.dumps([{"role": "assistant", "content": [block]} for block in blocks]))


home = Path(tempfile.mkdtemp())
for name in ("before", "after"):
    (home / name).mkdir()
    for k in range(60):
        record(home / name / f"{k:02d}.json", session() if name == "before" else swapped(session()))

# %%
# A folder is a recording. The states are the tools; commands of the shell are divided by what they do.
before, after = from_traces(home / "before"), from_traces(home / "after")
print(before, before.states)

# %%
# How far apart, and is it noise?
result = somcot.distance(before, after, discount=0.9, confidence=0.9)
print(result)
print("same process: p =", somcot.same_process(before, after, discount=0.9, rng=0).pvalue)

# %%
# What has changed.
print(result.contributions(4))

# %%
# The shares of the tools are the same up to noise.
shares = [samples.visits / samples.visits.sum() for samples in (before, after)]
places = np.arange(len(before.states))
for k, (name, share) in enumerate(zip(("before", "after"), shares, strict=True)):
    plt.bar(places + 0.4 * k, share, 0.4, label=name)
plt.xticks(places + 0.2, [str(state) for state in before.states])
plt.ylabel("share of the calls")
plt.legend()
plt.show()
