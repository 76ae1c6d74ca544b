"""After a warm-up nothing is left to compile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from somcot.cli.setup import warm_kernels

PREPARE = """
import warnings
from scipy.sparse import csr_array
import somcot
from somcot import certificates, streams
warnings.simplefilter("ignore")
x = somcot.random_walk(5)
y = somcot.MarkovChain(csr_array(somcot.block_chain(somcot.random_walk(5, 0.7), 2).transition), [0.1] * 10)
cost = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 1, 0, 0, 0, 0, 0, 0, -1, -1])
episodes = x.sample(30, 20, rng=1), y.sample(30, 20, rng=2)
pairs = x.sample_occupancy(500, 0.9, rng=1), y.sample_occupancy(500, 0.9, rng=2)
def ask(a, b, **options):
    result = somcot.distance(a, b, cost, discount=0.9, **options)
    return result.encoder, result.plan, result.matches(), result.gradient, result.residuals
"""
QUESTIONS = {
    "exact": "ask(x, y); ask(x, y, pairs='all', threads=1)",
    "data": "ask(*episodes, confidence=0.9); ask(*pairs, confidence=0.9); ask(x, episodes[1], method='plugin')",
    "bootstrap": "ask(*episodes, confidence=0.9, interval='bootstrap', n_resamples=3, standard_error='episodes')",
    "saddle": "ask(x, y, method='saddle', max_steps=20); ask(*pairs, method='saddle', stop_at_noise=0.5)",
    "sinkhorn": "ask(x, y, method='sinkhorn', epsilon=0.5)",
    "lp": "ask(x, y, method='lp')",
    "somcot": "ask(x, y, method='somcot', n_steps=50); ask(x, y, method='somcot', n_steps=50, keep_coupling=True)",
    "observed": "ask(x, y, method='somcot', n_steps=50, support='observed', batch_size=3, steps='theorem')",
    "streams": "live = streams.from_simulator(lambda: 0, lambda s: (s + 1) % 5, 0.9); "
    "ask(live, streams.from_samples(pairs[1], 0.9), n_steps=50, support='observed', checkpoint='state.ck')",
    "metric": "somcot.metric(x, y, cost, discount=0.9)",
    "wide": "import numpy; P = numpy.random.default_rng(1).random((30, 30)); "
    "somcot.metric(somcot.MarkovChain(P, normalize=True), somcot.MarkovChain(P.T, normalize=True), P, discount=0.9)",
    "gradients": "warm = somcot.gradients.WarmStart(); "
    "[somcot.gradients.value_and_gradient(somcot.Problem(x, y, cost, g), warm, threads=2) for g in (0.8, 0.9)]",
    "actions": "rows = [[[0.5, 0.5, 0], [0.2, 0.3, 0.5]], [[0, 1, 0], [0.1, 0.1, 0.8]], [[0.3, 0.3, 0.4]] * 2]; "
    "somcot.mdp.aggregate(somcot.mdp.MDP(rows, [[0, 1], [1, 0], [2, 2]]), discount=0.9, n_classes=2)",
    "test": "somcot.same_process(episodes[0], x.sample(9, 9, rng=3), cost[:, ::2], discount=0.9, n_permutations=3)",
    "certificates": "p = somcot.Problem(x, y, cost, 0.9); certificates.bracket(p, 0 * cost); "
    "certificates.lower_bound(p, 3); certificates.upper_bound(p, somcot.distance(x, y, cost, discount=0.9).plan)",
}
TABLE = ["--sequence", "session", "--time", "time", "--state", "page", "--terminated", "all"]
COMMANDS = [
    ["demo"],
    ["distance", "out/may.csv", "out/june.csv", *TABLE, "--discount", "0.9", "--html", "report.html"],
    ["test", "out/may.csv", "out/june.csv", *TABLE, "--discount", "0.9", "--permutations", "3"],
    ["metric", "out/may.csv", "out/june.csv", *TABLE, "--discount", "0.9"],
    ["info", "out/may.csv", *TABLE],
    ["reproduce", "encoder", "--quick"],
]

Run = Callable[..., str]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A folder of its own for compiled code, warmed up, and a way to run Python with it."""
    cache, home = tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("home")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-W", "ignore", *arguments]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "compiled in" in run("-m", "somcot", "warm-up")
    return cache, run


def compiled(cache: Path) -> set[str]:
    """One file for each kernel and each list of types it was compiled for."""
    return {str(path.relative_to(cache)) for path in cache.rglob("*.nbc")}


def test_each_question_is_reported() -> None:
    found = list(warm_kernels())
    assert len({step.name for step in found}) == len(found) >= 6
    assert all(step.n_compiled >= 0 and step.seconds > 0 for step in found)
    assert [step.n_compiled for step in warm_kernels()] == [0] * len(found)


@pytest.mark.slow
def test_nothing_is_left_to_compile(fresh: tuple[Path, Run]) -> None:
    cache, run = fresh
    before = compiled(cache)
    assert before
    left = {}
    for name, question in QUESTIONS.items():
        run("-c", PREPARE + question)
        left[name], before = compiled(cache) - before, compiled(cache)
    for command in COMMANDS:
        said = run("-m", "somcot", *command)
        assert "compiling" not in said
        left[" ".join(command)], before = compiled(cache) - before, compiled(cache)
    assert not any(left.values()), left
