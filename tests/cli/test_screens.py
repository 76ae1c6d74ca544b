"""Screens: what the number means comes first, wide terminals hold more, and nothing is claimed beyond what is known."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import somcot
from somcot.cli import screens
from somcot.cli.application import app
from somcot.cli.inputs import NamedProcess
from somcot.cli.output import ShownResult
from somcot.plumbing.html import Bullets, Fact, Lead, Notes, Picture, Section, Table
from somcot.plumbing.notes import Note


def shown(answer: ShownResult, width: int) -> str:
    screen = StringIO()
    screens.show_distance(Console(file=screen, width=width, highlight=False, markup=False), answer)
    return screen.getvalue()


def answer_to(x: somcot.MarkovChain | somcot.Samples, y: somcot.MarkovChain | somcot.Samples) -> ShownResult:
    cost = somcot.costs.labels(x.states, y.states)
    result = somcot.distance(x, y, cost, discount=0.9, confidence=0.9, rng=0)
    notes: list[str] = [Note("empty-traces", side, n=1) for side in "xy"]
    notes.append(Note("overlapping-steps", effect="interval is too narrow"))
    return ShownResult(result, NamedProcess("may.csv", x), NamedProcess("june.csv", y), cost, "labels", 0, notes, "")


@pytest.fixture(scope="module")
def recorded() -> ShownResult:
    x, y = (somcot.random_walk(5, theta).sample(200, 20, rng=k) for k, theta in enumerate((0.3, 0.6)))
    answer = answer_to(x, y)
    answer.state_name = "place"
    return answer


def test_of_known_chains_nothing_is_called_clear(recorded: ShownResult) -> None:
    assert "significant" in shown(recorded, 100)
    assert "significant" not in shown(answer_to(somcot.random_walk(4, 0.3), somcot.random_walk(4, 0.6)), 100)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_and_begins_with_the_meaning(width: int, recorded: ShownResult) -> None:
    text = shown(recorded, width)
    assert max(map(len, text.splitlines())) <= width
    order = [
        "of the steps that matter",
        "With 90 % confidence",
        "distance ",
        "Notes",
        "Transitions with the largest",
        "Strongest",
    ]
    assert sorted(order, key=text.index) == order
    assert "(place)" in text


def test_wide_terminals_show_tables_side_by_side(recorded: ShownResult) -> None:
    def beside(width: int) -> bool:
        return any(
            "Transitions with the largest" in line and "Pairs of states with the largest" in line
            for line in shown(recorded, width).splitlines()
        )

    assert not beside(80)
    assert beside(120)


def test_notes_are_said_once_of_both_the_most_important_first(recorded: ShownResult) -> None:
    text = shown(recorded, 120)
    notes = [line.rstrip() for line in text.splitlines() if line.startswith("- ")]
    assert notes[0].startswith("- steps overlap")
    assert notes[-1] == "- may.csv and june.csv: 1 trace has no event [empty-traces]"


def test_known_chains_are_proved_and_nothing_of_them_is_chance() -> None:
    x, y = (somcot.MarkovChain([[p, 1 - p], [0.5, 0.5]], states=["home", "cart"]) for p in (0.9, 0.8))
    text = shown(answer_to(x, y), 80)
    assert "On 10.6 % of the steps that matter, june.csv is in a different state than may.csv." in " ".join(
        text.replace("│", " ").split()
    )
    assert "proved to" in text
    assert "confidence" not in text
    assert "permutation" not in text
    assert "yes" not in text


def test_a_method_that_keeps_no_parts_still_shows_the_rest() -> None:
    walk = somcot.random_walk(3)
    cost = np.ones((3, 3))
    result = somcot.distance(walk, walk, cost, discount=0.9, method="somcot", n_steps=50, rng=0)
    sides = NamedProcess("a.npy", walk), NamedProcess("b.npy", walk)
    text = shown(ShownResult(result, *sides, cost, "cost.csv", 0, [], ""), 80)
    assert "without an error bound" in " ".join(text.replace("│", " ").split())
    assert "Strongest correspondences" in text
    assert "with the largest contributions" not in text


def test_sections_of_every_kind() -> None:
    screen = StringIO()
    table = Table(("page", "visits"), [("[b]home[/b]", "12"), ("x" * 99, "3"), ("", "0")], "lr", "Visits")
    screens.show(
        Console(file=screen, width=80),
        [
            Section("answer", "[title]", [Lead("Yes."), "It is.", Fact("p", "p-value", "0.01", strong=True)]),
            Section("parts", "Parts", [table, Picture(lambda: "<svg>"), Bullets(["one", ("tw", "o")])]),
            Section("notes", "", [Notes(["mind the gap"])]),
            Section("empty", "Nothing", []),
            Section("more", "For experts", ["secret"], closed=True),
        ],
    )
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert lines[0].startswith("\u256d\u2500 [title]")
    assert "p-value  0.01" in lines[3]
    rest = lines[5:]
    assert rest[:3] == ["Parts", "Visits", f"page{' ' * 36}  visits"]
    assert rest[3] == f"[b]home[/b]{' ' * 29}      12"
    assert rest[4] == f"{'x' * 19}\u2026{'x' * 20}       3"
    assert rest[5] == f"{' ' * 47}0"
    assert rest[6:] == ["1. one", "2. two", "Notes", "- mind the gap"]


def test_only_attributes_with_values_are_called_known(tmp_path: Path) -> None:
    calls = [{"role": "assistant", "tool_calls": [{"function": {"name": name}}]} for name in ("read", "edit", "test")]
    (tmp_path / "a.json").write_text(json.dumps({"task_id": "bug", "messages": calls}))
    shown = " ".join(CliRunner().invoke(app, ["info", str(tmp_path / "a.json")]).stdout.split())
    assert "task, agent are known" in shown
    assert "cost" not in shown


def test_several_files_are_described_and_one_is_one(tmp_path: Path) -> None:
    texts = {"a": "s,go\ns,stop\n", "b": "s,go\ns,stop\nt,go\nt,stop\nt,go\n"}
    for name, rows in texts.items():
        (tmp_path / f"{name}.csv").write_text(f"sequence,state\n{rows}")
    run = ["info", *(str(tmp_path / f"{name}.csv") for name in texts)]
    shown = " ".join(CliRunner().invoke(app, run).stdout.split())
    assert "1 transition in 1 sequence, 2 states" in shown
    assert "3 transitions in 2 sequences, 2 states" in shown
    lines = CliRunner().invoke(app, [*run, "--json"]).stdout.splitlines()
    assert [json.loads(line)["n_episodes"] for line in lines] == [1, 2]


def test_labels_that_begin_alike_differ_on_the_screen(tmp_path: Path) -> None:
    names = [f"Amend Request for Quotation of the Requester{more}" for more in ("", " Manager")]
    rows = "".join(f"{k},{name}\n" for k in range(9) for name in names)
    (tmp_path / "log.csv").write_text(f"sequence,state\n{rows}")
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "log.csv"), "--end", "left"]).stdout
    lines = [line.split("  ")[0] for line in shown.splitlines() if line.startswith("Amend")]
    assert len(set(lines)) == len(names)


def test_notes_have_codes_and_at_most_two_are_alike() -> None:
    screen = StringIO()
    few = [Note("few-visits", f"week {k}", counts=f"{k} transition(s) out of 'a'", effect="interval") for k in range(5)]
    screens.show_notes(Console(file=screen, width=200), [*few, "mind the gap", *few])
    lines = screen.getvalue().splitlines()
    assert [line.rstrip().endswith("[few-visits]") for line in lines[1:]] == [True, True, False, False]
    assert lines[-1].startswith("- and 3 more")
