"""Decision processes from data: how often bounds and intervals hold, how wide they are.

    python -m benchmarks.transfer [--draws 1000] [--first 0] [--out FILE] [--only TEXT]
    python -m benchmarks.transfer --distances [--draws 100] [--first 0] [--out FILE] [--only TEXT]

The first is about `mdp.transfer_bound`, the second about `mdp.distance` at a confidence of 0.9.

Families: `benchmarks.mdp_families`, written down before they were run. Beside the two methods of `mdp.transfer_bound`,
the bisimulation bound from the exact processes: the metric divided by 1 - discount, which needs no data at all.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.mdp_families import (
    DISTANCES,
    TRANSFERS,
    DistanceFamily,
    TransferFamily,
    garnet,
    lake,
    machine,
    record,
    recorded_pair,
    river,
)
from somcot import mdp
from somcot.mdp import MDP, RecordedMDP
from somcot.plumbing.arrays import Floats

COMPARED = 20  # first draws of a run, with the proved bound and the bisimulation metric too


def drawn(family: TransferFamily, rng: np.random.Generator) -> tuple[MDP, MDP, RecordedMDP, float, dict[str, Any]]:
    """Model, real process, recording, discount and options."""
    options: dict[str, Any] = {"holdout": 0.5, "rng": rng} if family.fitted else {}
    n, m, branching = family.shape
    if family.kind in ("garnet", "coins"):
        P, R = garnet(n, m, branching, rng), rng.random((n, m))
        other = garnet(n, m, branching, rng)
        chance = rng.random((n, m, n)) if family.kind == "coins" else None
        model_law = (1 - family.model) * P + family.model * other
        uniform = np.full(n, 1 / n)
        start: Any = 0 if family.start_known else uniform
        rewards = [R if chance is None else (Q * chance).sum(axis=2) for Q in (P, model_law)]
        real, model = MDP(P, rewards[0], initial=start), MDP(model_law, rewards[1], initial=start)
        anywhere = record(real, family.n, rng, starts=uniform, outcome=chance, noise=family.noise)
        return model, real, started(anywhere, real.initial if family.start_known else None), 0.9, options
    if family.kind == "lake":
        (model, _), (real, outcome) = lake(family.model), lake(family.real)
        options["value_range"] = (0.0, 1.0)  # an episode earns at most 1
        return model, real, record(real, family.n, rng, length=100, outcome=outcome), 0.95, options
    if family.kind == "river":
        (model, _), (real, outcome) = river(family.model, n), river(family.real, n)
        return model, real, record(real, family.n, rng, length=50, outcome=outcome), 0.95, options
    if family.kind == "machine":
        (model, _), (real, outcome) = machine(family.model), machine(family.real)
        usual = np.tile([0.8, 0.2], (real.n_states, 1))  # logged by a crew that mostly lets it run
        data = record(real, family.n, rng, length=100, outcome=outcome, behaviour=usual)
        return model, real, data, 0.95, options
    from somcot.readers import from_tabular

    if family.kind == "cliff":
        model, real = (from_tabular("CliffWalking-v1", env_options={"is_slippery": slips}) for slips in (False, True))
        return model, real, record(real, family.n, rng, length=100), 0.95, options
    model, real = (from_tabular("Taxi-v4", env_options={"is_rainy": rainy}) for rainy in (False, True))
    data = record(real, family.n, rng, length=200)
    return model, real, data, 0.95, {"value_range": (-20.0, 20.0)}


def started(data: RecordedMDP, initial: Floats | None) -> RecordedMDP:
    """The same steps with a known initial distribution, or without."""
    return RecordedMDP(
        data.states, data.actions, (data.now, data.action, data.following, data.reward), data.offsets, initial
    )


class Draw(NamedTuple):
    """What one recording gave: the truth, whether the bounds hold, and the bounds."""

    apart: float
    error_holds: bool
    error: float
    interval_holds: bool
    loss: float
    loss_holds: bool
    loss_bound: float
    seconds: float


def draw(family: TransferFamily, k: int, compared: bool = False) -> tuple[Draw, tuple[float, float] | None]:
    """The k-th draw; if compared, with the proved bound and the bisimulation bound."""
    rng = np.random.default_rng([k, sum(map(ord, family.name))])
    model, real, data, discount, options = drawn(family, rng)
    began = time.process_time()
    bound = mdp.transfer_bound(model, data, discount=discount, **options)
    seconds = time.process_time() - began
    chain = mdp.on_policy(real, bound.policy)
    P = np.asarray(chain.transition)
    V: Floats = np.linalg.solve(np.eye(len(P)) - discount * P, np.asarray(chain.features))
    value = float(real.initial @ V)
    loss = float(real.initial @ mdp.optimal(real, discount=discount).values) - value
    apart = abs(value - bound.value_model)
    low, high = bound.value_recorded[1:]
    found = Draw(
        apart, apart <= bound.value_error + 1e-9, bound.value_error, low - 1e-9 <= value <= high + 1e-9,
        loss, loss <= bound.policy_loss + 1e-9, bound.policy_loss, seconds,
    )  # fmt: skip
    if not compared or family.kind in ("taxi", "cliff") or family.fitted or not family.start_known:
        return found, None
    sure = mdp.transfer_bound(model, data, discount=discount, method="proved", policy=bound.policy, **options)
    sides = [mdp.on_policy(process, bound.policy) for process in (model, real)]
    single = [MDP(np.asarray(c.transition)[:, None], np.asarray(c.features)[:, None]) for c in sides]
    return found, (sure.value_error, mdp.metric(*single, discount=discount, threads=1)[0, 0] / (1 - discount))


def row(family: TransferFamily, draws: int, first: int = 0) -> str:
    """One line of the table; `first` is the number of the first draw, for other seeds."""
    found = [draw(family, first + k, k < COMPARED) for k in range(draws)]
    others = [other for _, other in found if other is not None]
    return line(family.name, [one for one, _ in found], others)


def line(name: str, found: list[Draw], others: list[tuple[float, float]]) -> str:
    """One line of the table from all draws."""
    middle, share = Draw(*np.median(found, axis=0)), Draw(*np.mean(found, axis=0))
    parts = [
        name, f"{len(found)}", f"{middle.apart:.3f}", f"{share.error_holds:.3f}", f"{middle.error:.3f}",
        f"{share.interval_holds:.3f}", f"{middle.loss:.3f}", f"{share.loss_holds:.3f}", f"{middle.loss_bound:.3f}",
        *([f"{value:.3f}" for value in np.median(others, axis=0)] if others else ["", ""]),
        f"{1000 * share.seconds:.0f} ms",
    ]  # fmt: skip
    return "| " + " | ".join(parts) + " |"


HEAD = """| family | draws | value error, truth | bound holds | bound | interval of the value holds | policy loss: \
truth | bound holds | bound | proved bound | bisimulation, exact processes | CPU |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


DISTANCE_HEAD = """| family | draws | truth | bias: counted, estimate | standard deviation: counted, estimate \
| interval holds | its width | CPU |
|---|---|---|---|---|---|---|---|"""


def distance_draw(family: DistanceFamily, k: int) -> tuple[float, ...]:
    """Truth, distance of the counted tables, estimate, whether the interval holds, its width and the CPU seconds."""
    rng = np.random.default_rng([k, 1, sum(map(ord, family.name))])
    x, y, known_x, known_y, policy = recorded_pair(family, rng)
    truth = mdp.distance(x, y, discount=0.9, policy=policy, threads=1).distance
    began = time.process_time()
    result = mdp.distance(known_x, known_y, discount=0.9, policy=policy, confidence=0.9, rng=rng, threads=1)
    seconds = time.process_time() - began
    assert result.plugin is not None
    assert result.confidence_interval is not None
    low, high, _ = result.confidence_interval
    return truth, result.plugin, result.distance, low - 1e-9 <= truth <= high + 1e-9, high - low, seconds


def distance_row(name: str, found: list[tuple[float, ...]]) -> str:
    """One line of the table about distances."""
    a = np.array(found, dtype=float)
    error = a[:, 1:3] - a[:, :1]
    bias, spread = error.mean(axis=0), error.std(axis=0)
    truth, _, _, held, width, seconds = a.mean(axis=0)
    parts = [
        name, f"{len(a)}", f"{truth:.4f}", f"{bias[0]:+.4f}, {bias[1]:+.4f}", f"{spread[0]:.4f}, {spread[1]:.4f}",
        f"{held:.2f}", f"{width:.4f}", f"{seconds:.2f} s",
    ]  # fmt: skip
    return "| " + " | ".join(parts) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--distances", action="store_true")
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw, for other seeds")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [DISTANCE_HEAD if options.distances else HEAD]
    print(lines[0], flush=True)
    if options.distances:
        chosen = [family for family in DISTANCES if options.only in family.name]
        numbers = range(options.first, options.first + (options.draws or 100))
        made = (distance_row(f.name, [distance_draw(f, k) for k in numbers]) for f in chosen)
    else:
        bounds = [family for family in TRANSFERS if options.only in family.name]
        made = (row(f, min(options.draws or 1000, 100 if f.kind == "taxi" else 10_000), options.first) for f in bounds)
    for line in made:
        lines.append(line)
        print(line, flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
