"""Every clock from the command line: answers for people and programs, reports, figures, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from tests.command_server import Command

RATES = np.array([[-1.0, 1.0, 0.0], [2.0, -3.0, 1.0], [0.0, 2.0, -2.0]])
VISITS = "user,page\n" + "".join(
    f"{user},{page}\n" for user in range(30) for page in ("home", "cart", "home")[: 1 + user % 3]
)
TABLE = ("--sequence", "user", "--state", "page", "--end", "left")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("clocks")
    np.save(here / "a.npy", somcot.random_walk(5).transition)
    np.save(here / "b.npy", somcot.random_walk(5, 0.7).transition)
    np.save(here / "r.npy", RATES)
    np.savez(here / "s.npz", rates=RATES / 2, states=[0, 1, 2], initial=[1.0, 0.0, 0.0])
    (here / "may.csv").write_text(VISITS)
    (here / "june.csv").write_text(VISITS.replace("0,cart", "0,home"))
    wrong = RATES.copy()
    wrong[0, 0] = -2.0
    np.save(here / "wrong.npy", wrong)
    return here


def ask(command: Command, folder: Path, *words: str) -> dict[str, Any]:
    done = command(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_clock_is_the_one_of_the_library(command: Command, folder: Path) -> None:
    a, b = (somcot.MarkovChain(np.load(folder / f"{name}.npy"), np.full(5, 0.2)) for name in "ab")
    cases: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
        (("--discount", "1"), {"discount": 1}),
        (("--horizon", "20"), {"horizon": 20}),
    )
    for words, clock in cases:
        found = ask(command, folder, "distance", "a.npy", "b.npy", *words)
        assert found["distance"] == somcot.distance(a, b, **clock).distance
        values = ask(command, folder, "metric", "a.npy", "b.npy", *words)["metric"]
        np.testing.assert_array_equal(values, somcot.metric(a, b, **clock))
        found = ask(command, folder, "matrix", "a.npy", "b.npy", *words)
        assert found["values"] == somcot.distance_matrix([a, b], **clock).values.tolist()
        assert {name: found[name] for name in clock} == clock
    fast, slow = somcot.ContinuousChain(RATES, np.full(3, 1 / 3)), somcot.ContinuousChain(RATES / 2)
    found = ask(command, folder, "distance", "r.npy", "s.npz", "--rate", "0.3")
    assert found["distance"] == somcot.distance(fast, slow, rate=0.3).distance
    assert found["clock"] == {"name": "rate", "value": 0.3, "settling": None}
    values = ask(command, folder, "matrix", "r.npy", "s.npz", "--rate", "0.3")["values"]
    assert values[0][1] == found["distance"]
    assert (found["x"]["kind"], found["y"]["n_transitions"]) == ("rates", 4)
    found = ask(command, folder, "distance", "may.csv", "june.csv", *TABLE, "--total")
    assert found["clock"]["name"] == "total"
    assert found["meaning"].startswith("Until both have ended, june.csv is in a different state (page) than may.csv")
    assert found["contributions"]["pairs"][0]["standard_error"] is None
    assert not any(share["marked"] for share in found["contributions"]["transitions"])


def test_reports_and_figures_of_every_clock(command: Command, folder: Path) -> None:
    cases = [
        (("a.npy", "b.npy", "--discount", "1"), "This is the long-run average"),
        (("a.npy", "b.npy", "--horizon", "4"), "the mean of c(X_t, Y_t) over t = 0, ..., T - 1, where c is the cost"),
        (("r.npy", "s.npz", "--rate", "0.25"), "At discount rate 0.25 about the first 4 units of time matter"),
        (("may.csv", "june.csv", *TABLE, "--total"), "intervals are not available with this clock"),
    ]
    for k, (words, said) in enumerate(cases):
        done = command("distance", *words, "--html", f"{k}.html", "--plot", f"{k}.png", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert said in (folder / f"{k}.html").read_text()
        assert (folder / f"{k}.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("a.npy", "b.npy", "--discount", "0.9", "--horizon", "3"), "--discount and --horizon: only one clock"),
        (("a.npy", "b.npy", "--horizon", "0"), "horizon: found 0, expected at least 1"),
        (("a.npy", "b.npy", "--total"), "x: state 0 never ends"),
        (("a.npy", "b.npy", "--rate", "1"), "--rate: a.npy is a process in discrete time"),
        (("r.npy", "s.npz", "--rate", "-1"), "rate: found -1.0"),
        (("r.npy", "s.npz", "--discount", "0.9"), "r.npy: holds rates of a chain in continuous time; pass --rate R"),
        (("wrong.npy", "s.npz", "--rate", "1"), "wrong.npy: rates: row of state 0 sums to -1, expected 0"),
    ],
)
def test_refusals(command: Command, folder: Path, words: tuple[str, ...], found: str) -> None:
    done = command("distance", *words, cwd=folder)
    assert done.returncode == 2
    assert found in done.stderr
