"""`somcot.testing.assert_same_process`."""

from __future__ import annotations

from pathlib import Path

import pytest

import somcot
from somcot.testing import assert_same_process

pytestmark = pytest.mark.filterwarnings("ignore::somcot.DataWarning")

WALK, OTHER = somcot.random_walk(5), somcot.random_walk(5, 0.8)


def test_equal_processes_pass_and_return_the_test() -> None:
    test = assert_same_process(WALK.sample(200, 20, rng=1), WALK.sample(200, 20, rng=2), margin=0.1, discount=0.9)
    assert test.verdict == "equivalent"


def test_a_changed_process_fails_and_says_what_changed() -> None:
    with pytest.raises(AssertionError, match="Changed") as failure:
        assert_same_process(OTHER.sample(200, 20, rng=1), WALK.sample(200, 20, rng=2), margin=0.1, discount=0.9)
    lines = str(failure.value).splitlines()
    assert lines[1] == "Largest differences:"
    assert len(lines) == 5
    # A step up has probability 0.5 in the reference and 0.8 now.
    up = next(line for line in lines[2:] if "in the reference" in line)
    before, now = (float(part.split()[0]) for part in up.partition(": ")[2].split(", "))
    assert abs(before - 0.5) < 0.1
    assert abs(now - 0.5) > 0.2


def test_inconclusive_fails_unless_it_may_pass() -> None:
    pair = WALK.sample(12, 20, rng=1), WALK.sample(12, 20, rng=2)
    with pytest.raises(AssertionError, match=r"Inconclusive.*sequences per side"):
        assert_same_process(*pair, margin=0.02, discount=0.9)
    assert assert_same_process(*pair, margin=0.02, discount=0.9, inconclusive="pass").verdict == "inconclusive"
    changed = OTHER.sample(200, 20, rng=1), WALK.sample(200, 20, rng=2)
    with pytest.raises(AssertionError, match="Changed"):
        assert_same_process(*changed, margin=0.1, discount=0.9, inconclusive="pass")


def test_files_and_strata(tmp_path: Path) -> None:
    reference = WALK.sample(150, 20, rng=3)
    reference.save(tmp_path / "baseline.somcot")
    labels = (["u", "v"] * 75, ["u", "u", "v"] * 50)
    by_file = assert_same_process(
        WALK.sample(150, 20, rng=4), tmp_path / "baseline.somcot", margin=0.15, discount=0.9, strata=labels
    )
    direct = assert_same_process(WALK.sample(150, 20, rng=4), reference, margin=0.15, discount=0.9, strata=labels)
    assert by_file.equivalence_pvalue == direct.equivalence_pvalue
    assert direct.distance is not None
    assert direct.distance.estimate is not None
    assert direct.distance.estimate.strata == 2


def test_the_reference_sets_the_discount() -> None:
    """What is compared with a reference must not change the measure."""
    short, long = WALK.sample(100, 10, rng=5), WALK.sample(100, 40, rng=6)
    for reference, other in ((short, long), (long, short)):
        found = assert_same_process(other, reference, margin=0.9)
        assert found.distance is not None
        assert found.distance.discount == (0.9 if reference is short else 0.975)


def test_bad_arguments() -> None:
    x = WALK.sample(12, 20, rng=0)
    with pytest.raises(ValueError, match="inconclusive: found 'skip'"):
        assert_same_process(x, x, margin=0.1, inconclusive="skip")
    with pytest.raises(TypeError, match="actual: found MarkovChain"):
        assert_same_process(WALK, x, margin=0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="margin: found 3"):
        assert_same_process(x, x, margin=3.0)
    with pytest.raises(FileNotFoundError):
        assert_same_process(x, "no/such/file.somcot", margin=0.1)
