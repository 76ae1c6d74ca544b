"""
Are the synthetic sequences like the real ones?
===============================================

A generator is to replace real sessions, for tests or for privacy. The usual score compares how often each page occurs,
which a generator of pages in random order passes. The distance compares the processes, and its interval says how much
of it may be chance. Simulators of event logs are compared in the same way.
"""

import csv
import warnings
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot.data import clickstream

# %%
# Real sessions of the bundled shop in two halves: one to make the generators from, one to judge them by.
rows: dict[str, list[str]] = {}
with clickstream.path("may").open() as file:
    for row in csv.DictReader(file):
        rows.setdefault(row["session"], []).append(row["page"])
known, held_out = list(rows.values())[:2500], list(rows.values())[2500:]

# %%
# Four generators: pages in random order, a Markov chain, the same chain with sharpened probabilities (as a language
# model at a low temperature), and copies of 30 real sessions.
rng = np.random.default_rng(0)
pages = sorted({page for session in known for page in session})
counts = np.zeros((len(pages) + 1, len(pages)))  # the last row is for the first page
for session in known:
    codes = [pages.index(page) for page in session]
    np.add.at(counts, ([-1, *codes[:-1]], codes), 1)


def walk(temperature: float) -> list[str]:
    """A session of the chain, which ends as real ones do."""
    session, code = list[str](), -1
    while not session or session[-1] not in clickstream.ENDS:
        weights = counts[code] ** (1 / temperature)
        code = int(rng.choice(len(pages), p=weights / weights.sum()))
        session.append(pages[code])
    return session


def shuffled() -> list[str]:
    """Pages in random order, with the last one of a real session."""
    session = known[rng.integers(len(known))]
    return [*rng.permutation(session[:-1]).tolist(), session[-1]]


generated = {
    "another half of reality": known,
    "Markov chain": [walk(1.0) for _ in range(2500)],
    "sharpened chain": [walk(0.8) for _ in range(2500)],
    "copies of 30 sessions": [known[k] for k in rng.integers(30, size=2500)],
    "random order": [shuffled() for _ in range(2500)],
}

# %%
# The first line shows what chance alone does. By the mix of pages (Jensen-Shannon divergence), random order is as good
# as reality.


def mix(sessions: list[list[str]]) -> np.ndarray:
    """The share of each page."""
    found = Counter(page for session in sessions for page in session)
    return np.array([found[page] for page in pages]) / sum(found.values())


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon."""
    return float(sum((a * np.log2(2 * a / (p + q)))[a > 0].sum() for a in (p, q)) / 2)


warnings.simplefilter("ignore", somcot.DataWarning)  # which intervals reach 0, and which sequences have memory
real = somcot.Samples.from_trajectories(held_out, terminated=True)
results = {}
for name, sessions in generated.items():
    samples = somcot.Samples.from_trajectories(sessions, terminated=True)
    result = results[name] = somcot.distance(real, samples, discount=0.9, confidence=0.9)
    print(f"{name:24} mix {divergence(mix(held_out), mix(sessions)):.4f}   distance {result.distance:.3f}", end="  ")
    print("[{:.3f}, {:.3f}]".format(*result.confidence_interval[:2]) if result.confidence_interval else "")

# %%
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for k, result in enumerate(results.values()):
    assert result.confidence_interval is not None
    ax.plot(result.confidence_interval[:2], [-k, -k], color="C0", linewidth=2)
    ax.plot(result.distance, -k, "o", color="C0")
ax.set_yticks(-np.arange(len(results)), list(results), fontsize=11)
ax.set(xlabel="distance from held-out sessions, 90 % interval", xlim=(-0.005, None))
plt.show()

# %%
# What the sharpened chain does too often, and too rarely:
for step in results["sharpened chain"].contributions(4).transitions:
    before, after = step.probability_x, step.probability_y
    print(f"{step.state} -> {step.next_state}: {before:.0%} of the steps from there, {after:.0%} generated")
