"""Explicit files of PRISM: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot import mdp
from somcot.mdp import MDP
from somcot.readers import from_prism, read, read_prism

# The die of Knuth and Yao: 7 tosses, then a face for good (states 7 to 12).
DIE = """13 20
0 1 0.5
0 2 0.5
1 3 0.5
1 4 0.5
2 5 0.5
2 6 0.5
3 1 0.5
3 7 0.5
4 8 0.5
4 9 0.5
5 10 0.5
5 11 0.5
6 2 0.5
6 12 0.5
7 7 1
8 8 1
9 9 1
10 10 1
11 11 1
12 12 1
"""
# Two states, the second with a single choice.
CHOICES = "2 3 4\n0 0 0 0.3 wait\n0 0 1 0.7 wait\n0 1 1 1 go\n1 0 0 1 wait\n"


@pytest.fixture
def die(tmp_path: Path) -> Path:
    file = tmp_path / "die.tra"
    file.write_text(DIE)
    file.with_suffix(".lab").write_text(
        '0="init" 1="deadlock" 2="done"\n0: 0\n' + "".join(f"{s}: 2\n" for s in range(7, 13))
    )
    file.with_suffix(".srew").write_text("# a comment\n13 6\n" + "".join(f"{s} {s - 6}\n" for s in range(7, 13)))
    return file


def test_a_die_from_coins_is_fair(die: Path) -> None:
    chain = from_prism(die)
    assert isinstance(chain, somcot.MarkovChain)
    assert chain.initial.tolist() == [1.0, *[0.0] * 12]
    assert chain.attributes is not None
    assert chain.attributes["done"] == (0,) * 7 + (1,) * 6
    np.testing.assert_array_equal(chain.features, [0] * 7 + [1, 2, 3, 4, 5, 6])
    visits = chain.state_occupancy(0.999999)
    np.testing.assert_allclose(visits[7:], 1 / 6, atol=1e-5)
    assert read(die).n_states == read_prism(die).n_states == 13
    for third in (from_prism(die, initial=3), read_prism(die, initial="3")):
        assert third.initial[3] == 1.0


def test_files_may_be_named_and_zipped(die: Path, tmp_path: Path) -> None:
    import gzip

    other = tmp_path / "other.tra.gz"
    other.write_bytes(gzip.compress(DIE.encode()))
    bare = from_prism(other)
    assert bare.attributes is None  # type: ignore[union-attr]
    named = from_prism(other, labels=die.with_suffix(".lab"), rewards=die.with_suffix(".srew"))
    np.testing.assert_array_equal(named.features, from_prism(die).features)  # type: ignore[union-attr]


def test_choices_become_actions(tmp_path: Path) -> None:
    file = tmp_path / "choices.tra"
    file.write_text(CHOICES)
    file.with_suffix(".srew").write_text("2 1\n1 2.5\n")
    with pytest.raises(ValueError, match=r"choices\.tra: state 1 .*'go' .*missing='repeat'"):
        from_prism(file)
    process = from_prism(file, missing="repeat")
    assert isinstance(process, MDP)
    assert process.actions == ("go", "wait")
    expected = np.array([[[0.0, 1.0], [0.3, 0.7]], [[1.0, 0.0], [1.0, 0.0]]])
    np.testing.assert_allclose(process.transitions, expected)
    np.testing.assert_array_equal(process.rewards, [[0, 0], [2.5, 2.5]])
    best = mdp.optimal(process, discount=0.9).values
    assert best[0] == pytest.approx(0.9 * best[1])
    with pytest.raises(ValueError, match=r"a decision process"):
        read(file)
    file.write_text("1 2 2\n0 0 0 1\n0 1 0 1\n")
    file.with_suffix(".srew").unlink()
    unnamed = from_prism(file)
    assert isinstance(unnamed, MDP)
    assert unnamed.actions == (0, 1)


BAD = {
    "empty": ("", "is ''|empty"),
    "no header": ("0 1 0.5 x\n", "line 1 is '0 1 0.5 x', expected the numbers of states and transitions"),
    "no states": ("0 0\n", "declares 0 states"),
    "short": ("2 3\n0 1 1\n1 0 1\n", "has 2 transitions, its first line declares 3; is it complete"),
    "state outside": ("2 2\n0 2 1\n1 0 1\n", "line 2 names state 2, expected 0 to 1"),
    "words": ("2 2\n0 one 1\n1 0 1\n", "line 2 is '0 one 1', expected numbers"),
    "no probability": ("2 2\n0 1\n1 0 1\n", "line 2 is '0 1', expected 2 numbers and a probability"),
    "negative": ("2 2\n0 1 -1\n1 0 1\n", "line 2 has the probability -1.0, expected at least 0"),
    "nan": ("2 2\n0 1 nan\n1 0 1\n", "line 2 has the value nan, expected a finite number"),
    "row": ("2 2\n0 1 0.4\n1 0 1\n", "the probabilities of state 0 sum to 0.4, expected 1"),
    "deadlock": ("2 1\n0 1 1\n", "no transition leaves state 1; PRISM adds loops"),
    "deadlock among many": ("2 2\n0 1 0.5\n0 0 0.5\n", "the probabilities of state 1 sum to 0, expected 1; PRISM adds"),
    "too many states": ("999999999999 1\n0 0 1\n", "no transition leaves state 1; PRISM adds loops"),
    "sizes beyond all": ("1" * 5000 + " 1\n0 0 1\n", "expected the numbers of states"),
    "sizes in other signs": ("² 1\n0 0 1\n", "line 1 is '² 1', expected the numbers of states"),
    "choice outside": ("1 1 1\n0 " + "1" * 30 + " 0 1\n", "line 2 names choice 1{30}, expected 0 to 0"),
    "two choices of one name": ("1 2 2\n0 0 0 1 a\n0 1 0 1 a\n", "state 0 has two choices called 'a'"),
    "no choice": ("2 1 1\n0 0 1 1\n", "no transition leaves state 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_transitions_are_refused_with_their_place(case: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.tra"
    file.write_text(BAD[case][0])
    with pytest.raises(ValueError, match=BAD[case][1]) as caught:
        from_prism(file)
    assert "bad.tra" in str(caught.value)


BESIDE = {
    "labels": (".lab", "x y\n", "expected names of labels"),
    "label number": (".lab", '0="init"\n0: 7\n', "line 2 is '0: 7', expected a state, a colon and label numbers"),
    "labelled state": (".lab", '0="init"\n99: 0\n', "line 2 names state 99"),
    "reward header": (".srew", "5 1\n0 1\n", "line 1 is '5 1', expected the number of states, 13"),
    "reward": (".srew", "13 1\n0 nan\n", "line 2 has the value nan"),
    "reward words": (".srew", "13 1\n0 1 2\n", "expected a state and its reward"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_bad_labels_and_rewards_are_refused(case: str, die: Path) -> None:
    ending, text, message = BESIDE[case]
    die.with_suffix(ending).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        from_prism(die)
    assert f"die{ending}" in str(caught.value)
