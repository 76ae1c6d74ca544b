"""`somcot test`, `sample-size` and `baseline`: decide whether a process has changed, plan for it, keep a reference.

With ``--margin``, the exit code of `somcot test` is the verdict. Slow modules are imported inside the functions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import somcot
from somcot.cli.options import (
    ALARM,
    By,
    Cost,
    FileA,
    FileOrGroup,
    Force,
    Groups,
    Json,
    OutputOptions,
    Reading,
    Seed,
    StrataOptions,
    SuggestedBelowOne,
    VectorOptions,
)

if TYPE_CHECKING:
    from somcot.cli.inputs import NamedProcess
    from somcot.inference.permutation import SameProcessResult

__all__ = ["INCONCLUSIVE", "baseline", "junit", "markdown", "same_process", "sample_size"]

INCONCLUSIVE = 6  # exit code
# Three codes, so that CI can distinguish too few data from a change.
_CODES = {"equivalent": 0, "changed": ALARM, "inconclusive": INCONCLUSIVE}
_SHOWN = 5  # transitions in a summary


def same_process(
    a: FileA,
    b: FileOrGroup = None,
    *,
    by: By = None,
    groups: Groups = None,
    discount: SuggestedBelowOne = None,
    cost: Cost = "labels",
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="Largest distance that counts as equal. Exit code 0: equivalent, 3: changed, 6: inconclusive.",
        ),
    ] = None,
    grouping: StrataOptions,
    permutations: Annotated[
        int, typer.Option(min=1, max=10_000_000, metavar="N", help="Number of random permutations.")
    ] = 199,
    vectors: VectorOptions,
    seed: Seed = 0,
    json: Json = False,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="With --margin: write a JUnit report.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="With --margin: write a summary in Markdown.")
    ] = None,
    force: Force = False,
    reading: Reading,
) -> int:
    """Test whether two recordings come from the same process, or differ by less than a margin."""
    from somcot.cli import screens
    from somcot.cli.cost_and_cells import library_name, read_pair
    from somcot.cli.inputs import suggested_discount
    from somcot.cli.output import caught, check_targets, console, deliver, names_of, notes_of, print_json, process_facts
    from somcot.plumbing.checks import check_discount
    from somcot.plumbing.files import write_bytes

    # Everything that needs no data is checked before reading.
    if discount is not None:
        check_discount(discount)
    vectors.check()
    files = {"--junit": junit_file, "--markdown": markdown_file}
    for option, path in files.items():
        if path is not None and margin is None:
            raise ValueError(f"{option}: a verdict needs a margin; pass --margin D too, such as --margin 0.05")
    check_targets(files, (a, *([b] if b else []), cost), force=force)
    strata = grouping.arguments(vectors.wanted)
    with caught() as messages:
        x, y, table, cost_name, more = read_pair(a, b, reading, cost, vectors, by, groups, grouping.columns)
        if not vectors.wanted:  # a name stands for the cost between all states of both sides, which permutations need
            table = library_name(cost) or table
            _refuse_without_episodes(x, y)  # vectors have a test of their own
        within = grouping.check(x, y)
        sides: tuple[Any, Any] = (x.value, y.value)
        # After reading, as the suggestion depends on the lengths of the sequences.
        discount = discount or suggested_discount([x, y])
        outcome = somcot.same_process(
            sides[0], sides[1], table, discount=discount, n_permutations=permutations, rng=seed,
            progress=sys.stderr.isatty(), margin=margin, **(strata | more),
        )  # fmt: skip
    # One object for the screen, JSON, JUnit and Markdown, so that they cannot disagree.
    content = _tested(outcome) | strata | within | {"discount": discount, "cost": cost_name, "seed": seed}
    content |= {"x": process_facts(x), "y": process_facts(y), "warnings": notes_of(messages, x, y)}
    names = names_of(x, y)

    def show() -> None:
        if json:
            print_json(content)
        else:
            screens.show_test(console(), content, names)

    def write() -> None:
        for path, text in ((junit_file, junit), (markdown_file, markdown)):
            if path is not None:
                # Labels may contain surrogates, from file names that are not UTF-8.
                write_bytes(path, text(content, names).encode("utf-8", errors="replace"))

    deliver(show, write)
    return 0 if outcome.verdict is None else _CODES[outcome.verdict]


def _refuse_without_episodes(*sides: NamedProcess) -> None:
    from somcot.samples import Samples

    for side in sides:
        if not isinstance(side.value, Samples):
            raise ValueError(
                f"{side.name}: no recorded episodes; the test permutes whole episodes, use somcot distance instead"
            )


def _tested(outcome: SameProcessResult) -> dict[str, Any]:
    """The test in the JSON object, and what a margin adds to it."""
    return {
        "somcot": somcot.__version__, "command": "test", "pvalue": outcome.pvalue, "statistic": outcome.statistic,
        "n_permutations": outcome.n_permutations, "stopped_early": outcome.stopped_early, **_verdict(outcome),
    }  # fmt: skip


def _verdict(outcome: SameProcessResult) -> dict[str, Any]:
    """What a margin adds to the JSON object."""
    if outcome.verdict is None or outcome.distance is None:
        return {}
    from somcot.inference.permutation import decision

    result = outcome.distance
    shares = () if result.makeup is None else result.contributions(_SHOWN).transitions
    assert result.confidence_interval is not None
    estimate = result.estimate
    mix = None if estimate is None else estimate.mix
    return {
        "margin": outcome.margin,
        "verdict": outcome.verdict,
        "meaning": decision(outcome),
        "exit_code": _CODES[outcome.verdict],
        "equivalence_pvalue": outcome.equivalence_pvalue,
        "sequences_needed": outcome.sequences_needed,
        "distance": result.distance,
        "confidence_interval": result.confidence_interval._asdict(),
        "active_share": result.active_share,
        "before_end": None if result.before_end is None else result.before_end._asdict(),
        "mix": mix,
        "contributions": [share._asdict() for share in shares],
    }


# --- Summaries for programs and pull requests


def junit(content: Mapping[str, Any], names: tuple[str, str]) -> str:
    """A JUnit report with one test case: it passes if equivalent, fails if changed, is skipped if inconclusive."""
    from xml.sax.saxutils import escape, quoteattr  # imports modules for the network

    verdict, message = content["verdict"], _clean(content["meaning"])
    inner = {"equivalent": ""}.get(verdict)
    lines = "\n".join(_change_lines(content, names))
    if inner is None:
        # Skipped rather than failed: CI should show that nothing was decided.
        tag = "failure" if verdict == "changed" else "skipped"
        inner = f"<{tag} message={quoteattr(message)}>{escape(_clean(lines))}</{tag}>"
    name = quoteattr(_clean(f"{names[1]} within {content['margin']:g} of {names[0]}"))
    failures, skipped = int(verdict == "changed"), int(verdict == "inconclusive")
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuite name="somcot" tests="1" failures="{failures}" errors="0" skipped="{skipped}">'
        f'<testcase classname="somcot.test" name={name}>{inner}'
        f"<system-out>{escape(message)}</system-out></testcase></testsuite>\n"
    )


def markdown(content: Mapping[str, Any], names: tuple[str, str]) -> str:
    """A summary for a pull request: the verdict, the figures behind it, and the largest differences."""
    from somcot.contributions import BeforeEnd
    from somcot.plumbing.text import shown_pvalue
    from somcot.report.sentences import mix_in_words

    mark = {"equivalent": "✅", "changed": "❌", "inconclusive": "❔"}[content["verdict"]]
    low, high, level = content["confidence_interval"].values()
    rows = [
        ("reference", _cell(f"{names[0]}: {_size(content['x'])}")),
        ("compared", _cell(f"{names[1]}: {_size(content['y'])}")),
        ("distance", f"{content['distance']:.4g} ({100 * level:g} % interval {low:.4g} to {high:.4g})"),
        ("margin", f"{content['margin']:g} (p-value {shown_pvalue(content['equivalence_pvalue'])} for a larger one)"),
        ("no difference", f"p = {content['pvalue']:.3g}"),
    ]
    if content.get("before_end") is not None:
        rows.insert(3, ("before the end", BeforeEnd(**content["before_end"]).worded(content["active_share"])))
    if content["mix"] is not None:
        rows.append(("mix", mix_in_words(content["distance"], content["mix"])))
        rows.append(("within", _cell(content["compared_within"])))
    # The sentence begins with the verdict, which is the heading here.
    sentence = content["meaning"].partition(": ")[2]
    text = [f"### {mark} {content['verdict'].capitalize()}", "", f"{sentence[0].upper()}{sentence[1:]}", ""]
    text += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    if content["contributions"]:
        text += ["", "Largest differences between transitions:", ""]
        text += [f"| from | to | {_cell(names[0])} | {_cell(names[1])} |", "|---|---|---:|---:|"]
        text += [
            f"| {_cell(str(s['state']))} | {_cell(str(s['next_state']))} | {s['probability_x']:.3f} | "
            f"{s['probability_y']:.3f} |"
            for s in content["contributions"]
        ]
    if content["warnings"]:
        text += ["", *(f"- {_cell(str(note))}" for note in content["warnings"])]
    return "\n".join([*text, "", "<!-- somcot -->", ""])


def _size(facts: Mapping[str, Any]) -> str:
    from somcot.plumbing.text import number_of

    return f"{number_of(facts['n_episodes'], 'sequence')}, {number_of(facts['n_transitions'], 'transition')}"


def _change_lines(content: Mapping[str, Any], names: tuple[str, str]) -> list[str]:
    # One line for each, whatever the labels contain.
    lines = (
        f"{s['state']} -> {s['next_state']}: {s['probability_x']:.3f} in {names[0]}, {s['probability_y']:.3f} in "
        f"{names[1]}"
        for s in content["contributions"]
    )
    return [" ".join(line.split()) for line in lines]


_ODD = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u200d\u2010-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def _clean(text: str) -> str:
    """Without control characters, which XML does not allow, and marks that reverse the direction of writing."""
    # XML cannot represent control characters, not even escaped; a reversed label can imitate another one.
    return _ODD.sub("?", text)


def _cell(text: str) -> str:
    """Text in a table of Markdown: labels cannot add columns, lines, links, mentions, formulas or HTML."""
    text = " ".join(_clean(text).split())
    # The backslash comes first, as the other replacements add backslashes.
    for sign in "\\`*_{}[]()#|~!$":
        text = text.replace(sign, f"\\{sign}")
    # The ampersand before < and >, for the same reason; zero-width spaces prevent mentions and addresses.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"@|:(?=//)|www(?=\.)", lambda found: f"{found[0]}&#8203;", text, flags=re.IGNORECASE)


# --- Planning and references


def sample_size(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A pilot recording.")],
    *,
    effect: Annotated[float, typer.Option(metavar="D", help="Distance the test should detect.")],
    power: Annotated[float, typer.Option(metavar="P", help="Probability of finding it.")] = 0.8,
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="One minus the level of the test.")] = 0.95,
    kind: Annotated[
        str,
        typer.Option(metavar="rows|row|exits|initial", help="What differs: all states a little, one, exits, starts."),
    ] = "rows",
    state_changed: Annotated[
        str | None,
        typer.Option("--in-state", metavar="STATE", help="With --kind row: the state; most visited by default."),
    ] = None,
    discount: SuggestedBelowOne = None,
    cost: Cost = "labels",
    seed: Seed = 0,
    output: OutputOptions,
    reading: Reading,
) -> int:
    """How many sequences does a test need to find a difference of a given size?"""
    from somcot.cli import screens
    from somcot.cli.cost_and_cells import reward_column, shared_cost
    from somcot.cli.inputs import read_processes, suggested_discount
    from somcot.cli.output import caught, console, deliver, notes_of, print_json, process_facts

    if output.html is not None:
        raise ValueError("--html: somcot sample-size writes no report; --plot FILE writes the power curve")
    if state_changed is not None and kind != "row":
        raise ValueError("--in-state: names the state of --kind row; pass --kind row too, or leave it out")
    output.check(file, cost)
    with caught() as messages:
        (pilot,) = read_processes([file], reading, reward_column(cost))
        discount = discount or suggested_discount([pilot])
        # Labels may be numbers, options are text.
        labels = {str(label): label for label in pilot.value.states}
        if state_changed is not None and state_changed not in labels:  # --state is a column here
            raise ValueError(f"--in-state: {state_changed!r} is not a state of {pilot.name}")
        where = None if state_changed is None else labels[state_changed]
        table: Any = shared_cost(cost, {pilot.name: pilot.value})
        sequences: Any = pilot.value
        plan = somcot.sample_size(
            sequences, effect=effect, power=power, confidence=confidence, kind=kind, state=where, cost=table,
            discount=discount, rng=seed,
        )  # fmt: skip
    notes = notes_of(messages, pilot, pilot)
    content = {
        "somcot": somcot.__version__, "command": "sample-size", "n_sequences": plan.n_sequences,
        "effect": effect,
        "power": power, "confidence": confidence, "kind": kind, "share": plan.share, "discount": discount, "cost": cost,
        "extrapolated": plan.extrapolated, "error": plan.error, "pilot_error": plan.pilot_error, "seed": seed,
        "points": [point._asdict() for point in plan.points],
        "pilot": process_facts(pilot), "warnings": notes,
    }  # fmt: skip

    def show() -> None:
        if output.json:
            print_json(content)
        else:
            screens.show_plan(console(), plan, notes)

    def write() -> None:
        if output.plot is not None:
            from somcot.cli.matrix import draw

            draw(plan.plot, output.plot)

    deliver(show, write)
    if not output.json:
        screens.show_written(console(), (output.plot,))
    return 0


def baseline(
    files: Annotated[list[str], typer.Argument(metavar="RUNS", help="Recordings: files or folders.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write, ending in .somcot.")],
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to keep with each sequence, for --strata; may be repeated."),
    ] = None,
    force: Force = False,
    json: Json = False,
    reading: Reading,
) -> int:
    """Write recordings to one small file that can be committed: codes of states and attributes, no contents."""
    from functools import reduce

    from somcot.cli.inputs import known_attributes, read_processes
    from somcot.cli.output import caught, check_targets, console, print_json
    from somcot.cli.screens import show_notes, show_written
    from somcot.plumbing.text import number_of
    from somcot.samples import Samples

    if out.suffix.lower() != ".somcot":
        raise ValueError(f"--out: found {str(out)!r}, expected a file ending in .somcot")
    check_targets({"--out": out}, files, force=force)
    with caught() as messages:
        processes = read_processes(files, reading, attributes=attribute or ())
        parts = []
        for process in processes:
            if not isinstance(process.value, Samples) or process.value.offsets is None:
                raise ValueError(f"{process.name}: no recorded sequences; a baseline keeps whole sequences")
            for name in attribute or ():
                if name not in process.value.episode_attributes:
                    raise ValueError(f"--attribute {name}: the sequences of {process.name} have no such attribute")
            parts.append(process.value)
        # From left to right, so that states are numbered by first occurrence.
        recording = reduce(Samples.merge, parts)
        recording.save(out)
    facts = {
        "somcot": somcot.__version__, "command": "baseline", "file": str(out), "n_bytes": out.stat().st_size,
        "n_sequences": recording.n_episodes, "n_transitions": recording.n_transitions, "n_states": recording.n_states,
        "attributes": list(recording.episode_attributes), "warnings": messages,
    }  # fmt: skip
    if json:
        print_json(facts)
        return 0
    kept = ", ".join(known_attributes(recording)) or "none"
    console().print(
        f"{number_of(recording.n_episodes, 'sequence')}, {number_of(recording.n_transitions, 'transition')}, "
        f"{number_of(recording.n_states, 'state')}, {facts['n_bytes']:,} bytes; attributes: {kept}"
    )
    show_written(console(), (out,))
    show_notes(console(), messages)
    return 0
