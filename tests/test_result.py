"""The Result: what it prints, and files that hold no code."""

from __future__ import annotations

import json
from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from types import GenericAlias
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import somcot
from somcot import Bounds, ConfidenceInterval, MarkovChain, Result
from somcot.plumbing import records as checkpoint
from somcot.plumbing import records as storage
from somcot.result import DETAILS
from tests.instances import blocks, walks


@pytest.fixture(scope="module")
def result() -> Result:
    return somcot.distance(*blocks(4, 2, 0.7), discount=0.9)


def test_prints_one_line(result: Result) -> None:
    text = str(result)
    assert text.startswith(f"{result.distance:.6g}, proved to ")
    assert "exact" in text
    assert "\n" not in text
    assert repr(result) == f"<somcot.Result {text}>"
    sampled = replace(result, samples=(1000, 2000), confidence_interval=ConfidenceInterval(0.1, 0.2, 0.9))
    assert ", estimated, 90 % interval [0.1, 0.2], from 1,000 + 2,000 transitions, exact" in str(sampled)
    assert sampled.n_samples == 3000
    assert float(result) == result.distance


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")
def test_claims_no_more_than_it_has() -> None:
    """Proved for known chains, estimated for data, nothing for streams; and the word gap is kept for the cross-fit."""
    x, y, cost = walks(5, 0.7)
    a, b = x.sample(20, 30, rng=1), y.sample(20, 30, rng=2)
    known, data = (x, y, cost), (a, b, cost)
    for method in ("exact", "lp", "sinkhorn", "saddle", "plugin"):
        found = somcot.distance(*known, discount=0.9, method=method)
        assert found.claim == "proved"
        assert found.bounds.low <= found.distance <= found.bounds.high
        assert f", proved to {found.bounds.high - found.bounds.low:.1g}, {method}, " in str(found)
    for method in ("auto", "exact", "lp", "sinkhorn", "saddle", "plugin"):
        found = somcot.distance(*data, discount=0.9, method=method)
        assert found.claim == "estimated"
        assert f", estimated, no interval, from 600 + 600 transitions, {method}, " in str(found)
    for processes in (known, data):
        found = somcot.distance(*processes, discount=0.9, method="somcot", n_steps=50, rng=0)
        assert found.claim == "nothing proved"
        assert ", after 50 steps, nothing proved, from 50 + 50 transitions, somcot, " in str(found)
    interval = somcot.distance(*data, discount=0.9, confidence=0.8)
    low, high, _ = interval.confidence_interval or (0.0, 0.0, 0.0)
    assert f", estimated, 80 % interval [{low:.4g}, {high:.4g}], from " in str(interval)
    assert "gap" not in str(interval)


def test_records_print_on_one_line() -> None:
    x, y, cost = walks(5, 0.7)
    found = somcot.distance(x, y, cost, discount=0.9)
    test = somcot.same_process(x.sample(12, 9, rng=1), y.sample(12, 9, rng=2), cost, discount=0.9, n_permutations=19)
    assert repr(found.plan).startswith("Coupling(5 x 5 state pairs, ")
    assert "transition_x, transition_y, cost" in repr(found.gradient)
    assert f"pvalue={test.pvalue}" in repr(test)
    assert all(len(repr(record)) < 120 for record in (found.plan, found.gradient, test))


def test_potential_gives_the_distance() -> None:
    result = somcot.distance(*walks(5, 0.7), discount=0.95)
    assert 0.05 * result.potential[0, 0] == pytest.approx(result.distance, abs=1e-12)
    shifted = somcot.distance(*walks(5, 0.7)[:2], 3.0 * walks(5, 0.7)[2] - 7.0, discount=0.95)
    assert 0.05 * shifted.potential[0, 0] == pytest.approx(shifted.distance, abs=1e-11)


def test_trace_records_the_way(result: Result) -> None:
    assert result.trace["step"].tolist() == list(range(1, result.n_steps + 1))
    assert result.trace["distance"][-1] == pytest.approx(result.distance, abs=1e-12)
    assert result.trace["residual"][-1] <= 1e-12


def test_arrays_fit_where_their_type_is_an_alias(tmp_path: Path) -> None:
    """NumPy 2.5 has `NDArray` as an alias that `get_origin` does not look through."""

    class Alias:
        __value__ = np.ndarray[Any, Any]

        def __class_getitem__(cls, parts: Any) -> Any:
            return GenericAlias(cls, parts)

    row = make_dataclass("Row", [("values", GenericAlias(Alias, (np.float64,)))])
    path = tmp_path / "row.ck"
    storage.save(path, row(np.zeros(2)), "row")
    assert storage.load(path, "row", row, ()).values.tolist() == [0.0, 0.0]
    storage.save(path, row("text"), "row")
    with pytest.raises(ValueError, match=r"Row\.values is a str that does not fit"):
        storage.load(path, "row", row, ())


def test_save_and_load(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "result.safetensors"
    result.save(path)
    again = Result.load(path)
    names = [f.name for f in fields(Result) if f.name != "details"]
    for name in (*names, *DETAILS):
        before, after = getattr(result, name), getattr(again, name)
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, after)
        elif name == "trace":
            assert before.keys() == after.keys()
        elif name not in ("maps", "plan", "gradient", "makeup"):
            assert before == after, name
            assert type(before) is type(after)
    np.testing.assert_array_equal(result.coupling(), again.coupling())
    np.testing.assert_array_equal(result.encoder, again.encoder)
    np.testing.assert_array_equal(result.decoder, again.decoder)
    assert result.gradient is not None
    assert again.gradient is not None
    np.testing.assert_array_equal(result.gradient.transition_x, again.gradient.transition_x)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("written", "other"), [("Makeup", "ContributionInputs")])
def test_classes_in_files_keep_their_first_names(result: Result, written: str, other: str, tmp_path: Path) -> None:
    path = tmp_path / "result"
    result.save(path)
    arrays, record = storage.read_arrays(path)
    text = json.dumps(record)
    assert f'"{written}"' in text
    assert f'"{other}"' not in text
    storage.write_arrays(path, arrays, json.loads(text.replace(f'"{written}"', f'"{other}"')))
    for again in (result, Result.load(path)):
        assert again.makeup is not None
        assert [pair.amount for pair in again.contributions(3).pairs] == [
            p.amount for p in result.contributions(3).pairs
        ]


@pytest.mark.parametrize("name", ["bounds", "distance", "potential"])
def test_a_file_without_a_field_is_refused(result: Result, name: str, tmp_path: Path) -> None:
    path = tmp_path / "result"
    result.save(path)
    arrays, record = storage.read_arrays(path)
    del record["tree"]["fields"][name]
    storage.write_arrays(path, arrays, record)
    with pytest.raises(ValueError, match=rf"not a somcot result file \(Result: without \['{name}'\]"):
        Result.load(path)


def test_labels_that_cannot_be_saved_are_named(tmp_path: Path) -> None:
    chain = MarkovChain(np.eye(1), states=[frozenset({1})])
    with pytest.raises(TypeError, match=r"states_x: frozenset\(\{1\}\) of type frozenset cannot be saved"):
        somcot.distance(chain, chain, [[0.0]], discount=0.5).save(tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"not a result", b"\x80\x04pickled", b"\xff" * 100])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="file: not a somcot result file"):
        Result.load(path)


def test_foreign_and_damaged_safetensors_are_refused(result: Result, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    save_file({"weights": np.zeros(3)}, foreign)
    with pytest.raises(ValueError, match="not a somcot result file"):
        Result.load(foreign)
    other = tmp_path / "other"
    storage.save(other, result, "sample")
    with pytest.raises(ValueError, match=r"not a somcot result file \(it is a sample\)"):
        Result.load(other)
    incomplete = tmp_path / "incomplete"
    storage.save(incomplete, Bounds(0.0, 1.0), "result")
    with pytest.raises(ValueError, match=r"not a somcot result file \(it holds a Bounds\)"):
        Result.load(incomplete)
    checkpoint.write_arrays(incomplete, {}, {"kind": "result", "tree": {"record": "Popen", "fields": {"args": "date"}}})
    with pytest.raises(ValueError, match="not a somcot result file"):
        Result.load(incomplete)
    whole = tmp_path / "whole"
    result.save(whole)
    whole.write_bytes(whole.read_bytes()[:-10])
    with pytest.raises(ValueError, match="not a somcot result file"):
        Result.load(whole)
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "missing")


def test_result_without_a_coupling_says_so(result: Result) -> None:
    with pytest.raises(ValueError, match="keep_coupling=True"):
        replace(result, plan=None).coupling()
