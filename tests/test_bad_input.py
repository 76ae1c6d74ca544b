"""Every mistake gets an error that names the argument, the place, what was found and what to do."""
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import somcot
from somcot import MarkovChain, MemoryLimitError, costs, readers
from somcot.report import contributions
from tests.notes import noted

GOOD = np.array([[0.5, 0.5], [0.2, 0.8]])
NAN, INF = float("nan"), float("inf")
CHAIN = MarkovChain(GOOD)
DATA = CHAIN.sample(50, 20, rng=0)


def chain(*args: Any, **kwargs: Any) -> Callable[[], object]:
    return lambda: MarkovChain(*args, **kwargs)


def ask(x: Any = CHAIN, y: Any = CHAIN, cost: Any = ((0, 1), (1, 0)), **kwargs: Any) -> Callable[[], object]:
    return lambda: somcot.distance(x, y, cost, **{"discount": 0.9, **kwargs})


CASES: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    # kernels
    ("nan", chain([[0.5, 0.5], [NAN, 1]]), ValueError, r"transition: entry \(1, 0\) is nan.* 1 of 4"),
    ("inf", chain([[0.5, 0.5], [INF, 1]]), ValueError, r"transition: entry \(1, 0\) is inf"),
    ("sparse nan", chain(csr_array([[0.5, 0.5], [NAN, 1]])), ValueError, r"transition: entry \(1, 0\) is nan.* 1 of 4"),
    (
        "row sum",
        chain([[0.5, 0.43], [0, 1]]),
        ValueError,
        "row of state 0 sums to 0.93.*normalize=True",
    ),
    (
        "labelled row",
        chain([[1, 0], [0.5, 0.4]], states=["home", "cart"]),
        ValueError,
        "row of state 'cart' sums to 0.9",
    ),
    ("several rows", chain([[0.5, 0.4], [0.5, 0.4]]), ValueError, r"\(2 such rows\)"),
    ("sparse row", chain(csr_array([[0.5, 0.4], [0, 1]])), ValueError, "row of state 0 sums to 0.9"),
    ("above tolerance", chain([[0.5, 0.5 + 2e-8], [0, 1]]), ValueError, "row of state 0 sums to 1.00000002"),
    ("empty row", chain([[0, 0], [0, 1]]), ValueError, "state 0 sums to 0,.*add transitions"),
    ("empty row normalised", chain([[0, 0], [0, 1]], normalize=True), ValueError, "add transitions"),
    ("negative", chain([[1.5, -0.5], [0, 1]]), ValueError, "from state 0 to 1 is -0.5"),
    ("sparse negative", chain(csr_array([[1.5, -0.5], [0, 1]])), ValueError, "from state 0 to 1 is -0.5"),
    ("not square", chain([[0.5, 0.5]]), ValueError, r"transition: shape is \(1, 2\).*square"),
    ("empty", chain(np.zeros((0, 0))), ValueError, r"transition: shape is \(0, 0\)"),
    ("vector", chain([0.5, 0.5]), ValueError, r"transition: found 1 dimension\(s\), shape \(2,\), expected 2"),
    ("ragged", chain([[1.0], [0.5, 0.5]]), ValueError, "transition: rows have different lengths"),
    ("text", chain([["a", "b"], ["c", "d"]]), TypeError, "transition: found entries of type <U1"),
    ("complex", chain([[1j, 1], [0, 1]]), TypeError, "transition: found entries of type complex128"),
    ("sparse complex", chain(csr_array([[1j, 1], [0, 1]])), TypeError, "transition: found entries of type complex128"),
    ("objects", chain([[None, 1], [{}, 1]]), TypeError, "transition: found entries of type object"),
    ("masked", chain(np.ma.masked_less(GOOD, 0.3)), ValueError, "transition: found masked entries"),
    ("overflow", chain([[1e308, 1e308], [0, 1]], normalize=True), ValueError, "row is too large"),
    ("none", chain(None), ValueError, r"transition: found 0 dimension\(s\)"),
    # start laws
    ("start index", chain(GOOD, 2), ValueError, "initial: 2 is not a state.* 0, 1"),
    ("start negative", chain(GOOD, -1), ValueError, "initial: -1 is not a state"),
    ("start bool", chain(GOOD, states=["a", "b"], initial=True), ValueError, "initial: True is not a state"),
    ("start True", chain(GOOD, True), ValueError, "initial: True is not a state"),
    ("start of unknown", chain(GOOD, {9: 1.0}), ValueError, "initial: 9 not among .*0, 1"),
    ("start half", chain(GOOD, {0: 0.5}), ValueError, "initial: probabilities sum to 0.5"),
    ("start in the long run", chain(GOOD, "stationary"), ValueError, r"initial: .* 0, 1.*stationary\(\)"),
    ("start float", chain(GOOD, 0.5), ValueError, "initial: 0.5 is not a state"),
    (
        "start label",
        chain(GOOD, "c", states=["a", "b"]),
        ValueError,
        "initial: 'c' is not a state.* 'a', 'b'",
    ),
    ("start length", chain(GOOD, [1.0]), ValueError, "initial: found 1 probabilities for 2 states"),
    ("start sum", chain(GOOD, [0.5, 0.4]), ValueError, "initial: probabilities sum to 0.9.*normalize"),
    ("start zero", chain(GOOD, [0.0, 0.0], normalize=True), ValueError, "initial: .*positive"),
    ("start below 0", chain(GOOD, [1.5, -0.5]), ValueError, "initial: the probability of state 1 is -0.5"),
    ("start nan", chain(GOOD, [NAN, 1.0]), ValueError, "initial: entry 0 is nan"),
    # labels
    ("too few labels", chain(GOOD, states=["a"]), ValueError, "states: found 1 labels for 2 states"),
    ("repeated label", chain(GOOD, states=["a", "a"]), ValueError, "states: label 'a'.*once"),
    ("nan label", chain(GOOD, states=["a", NAN]), ValueError, "states: label 1 is NaN"),
    (
        "unhashable label",
        chain(GOOD, states=["a", ["b"]]),
        TypeError,
        r"states: label 1 is \['b'\].*not hashable",
    ),
    ("one string", chain(GOOD, states="ab"), TypeError, "states: found the text 'ab'"),
    # costs
    ("cost shape", ask(cost=np.zeros((3, 2))), ValueError, r"cost: shape is \(3, 2\), expected \(2, 2\)"),
    ("cost turned", ask(y=MarkovChain(np.eye(3)), cost=np.zeros((3, 2))), ValueError, "transpose it"),
    ("cost vector", ask(cost=[0, 1]), ValueError, r"cost: found 1 dimension\(s\)"),
    ("cost nan", ask(cost=[[0, NAN], [1, 0]]), ValueError, r"cost: entry \(0, 1\) is nan.* 1 of 4"),
    ("cost inf", ask(cost=[[0, INF], [INF, 0]]), ValueError, r"cost: entry \(0, 1\) is inf.* 2 of 4"),
    ("cost text", ask(cost=[["a", "b"], ["c", "d"]]), TypeError, "cost: found entries of type <U1"),
    (
        "cost range",
        ask(cost=[[-1e308, 1e308], [0, 0]]),
        ValueError,
        "cost: .*-1e.308 to 1e.308",
    ),
    ("rewards nan", lambda: costs.absolute([0, NAN], [0, 1]), ValueError, "a: entry 1 is nan"),
    ("rewards matrix", lambda: costs.absolute([[0, 1]], [0, 1]), ValueError, r"a: found 2 dimension\(s\)"),
    (
        "features",
        lambda: costs.euclidean([[0, 1]], [[0, 1, 2]]),
        ValueError,
        "b: .*3 features.*2",
    ),
    ("label text", lambda: costs.labels("ab", ["a"]), TypeError, "states_x: found the text 'ab'"),
    # discount, method, options
    *(
        (
            f"discount {g}",
            ask(discount=g),
            ValueError,
            f"discount: found {g}",
        )
        for g in (0.0, -0.5, 1.5, NAN, INF)
    ),
    ("discount text", ask(discount="high"), TypeError, "discount: found 'high'"),
    ("discount digits", ask(discount="0.9"), TypeError, "discount: found '0.9'"),
    ("method list", ask(method=[]), ValueError, r"method: found \[\]"),
    ("time limit", ask(method="lp", time_limit=-1), ValueError, "time_limit: found -1"),
    ("discount none", ask(discount=None), TypeError, "discount, horizon, rate, total: "),
    ("method", ask(method="magic"), ValueError, "method: found 'magic', .*'auto', 'exact'"),
    (
        "option",
        ask(n_iter=3),
        TypeError,
        "n_iter: .*'exact'.*max_sweeps",
    ),
    ("threads", ask(threads=0), ValueError, "threads: found 0"),
    ("threads float", ask(threads=1.5), TypeError, "threads: found 1.5"),
    ("sweeps", ask(max_sweeps=0), ValueError, "max_sweeps: found 0"),
    ("sweeps bool", ask(max_sweeps=True), TypeError, "max_sweeps: found True"),
    (
        "matrix for chain",
        ask(x=GOOD),
        TypeError,
        "x: found ndarray, expected .*MarkovChain",
    ),
    (
        "list for chain",
        ask(y=[[1.0]]),
        TypeError,
        "y: found list",
    ),
    ("none for chain", ask(y=None), TypeError, "y: found NoneType, expected .*MarkovChain"),
    ("metric discount", lambda: somcot.metric(CHAIN, CHAIN, np.eye(2), discount=2), ValueError, "discount: found 2.0"),
    ("occupancy discount", lambda: CHAIN.occupancy(1.1), ValueError, "discount: found 1.1"),
    # generators
    ("walk size", lambda: somcot.random_walk(0), ValueError, "n: found 0"),
    ("walk size float", lambda: somcot.random_walk(2.5), TypeError, "n: found 2.5"),
    ("walk theta", lambda: somcot.random_walk(3, 1.5), ValueError, "theta: found 1.5"),
    ("walk stay", lambda: somcot.random_walk(3, stay=NAN), ValueError, "stay: found nan"),
    ("walk start", lambda: somcot.random_walk(3, start=3), ValueError, "initial: 3 is not a state"),
    ("copies", lambda: somcot.block_chain(CHAIN, 0), ValueError, "n_copies: found 0"),
    ("episodes", lambda: CHAIN.sample(0, 5), ValueError, "n_episodes: found 0"),
    ("walk theta text", lambda: somcot.random_walk(3, "a"), TypeError, "theta: found 'a'"),
    (
        "copies of a matrix",
        lambda: somcot.block_chain(GOOD, 2),
        TypeError,
        "chain: found ndarray",
    ),
    ("labels of a number", chain(GOOD, states=5), TypeError, "states: found 5"),
    # options of the wrong type
    ("epsilon", ask(method="sinkhorn", epsilon="a"), TypeError, "epsilon: found 'a'"),
    (
        "epsilon zero",
        ask(method="sinkhorn", epsilon=0),
        ValueError,
        "epsilon: found 0.0",
    ),
    ("tolerance", ask(method="saddle", tolerance=None), TypeError, "tolerance: found None"),
    (
        "noise text",
        ask(x=DATA, method="saddle", stop_at_noise="a"),
        TypeError,
        "stop_at_noise: found 'a'",
    ),
    ("noise of nothing", ask(method="saddle", stop_at_noise=0.5), ValueError, "stop_at_noise: .*tolerance="),
    ("progress", ask(method="somcot", n_steps=9, progress="yes"), TypeError, "progress: found 'yes'"),
    ("order", ask(method="somcot", n_steps=9, order="z"), ValueError, "order: found 'z'"),
    ("pairs", lambda: somcot.streams.from_iterable(5), TypeError, "pairs: found 5"),
    *(
        (
            f"seed {seed!r}",
            ask(x=DATA, y=DATA, rng=seed),
            TypeError,
            f"rng: found {seed!r}",
        )
        for seed in ("a", 1.5, -1)
    ),
    (
        "keep_coupling",
        ask(method="somcot", n_steps=9, keep_coupling="x"),
        TypeError,
        "keep_coupling: found 'x'",
    ),
    ("progress of none", ask(progress="yes"), TypeError, "progress: found 'yes'"),
    (
        "progress of a test",
        lambda: somcot.same_process(DATA, DATA, discount=0.9, progress=2),
        TypeError,
        "progress: found 2",
    ),
    ("pool", lambda: costs.from_features([1, 2], [1, 2], pool="no"), TypeError, "pool: found 'no'"),
    ("steps", lambda: contributions(None, [[1]], steps="no"), TypeError, "steps: found 'no'"),
    ("check", lambda: DATA.chain(check="no"), TypeError, "check: found 'no'"),
    ("sliding", lambda: readers.from_dtrajs([0, 1, 0], sliding="no"), TypeError, "sliding: found 'no'"),
    (
        "directed",
        lambda: readers.read_graph("x.edges", directed="no"),
        TypeError,
        "directed: found 'no'",
    ),
    (
        "permutations without end",
        lambda: somcot.same_process(DATA, DATA, discount=0.9, n_permutations=10**20),
        ValueError,
        "n_permutations: found 100000000000000000000,.* 10,000,000",
    ),
    (
        "a count of 5,000 digits",
        lambda: somcot.same_process(DATA, DATA, discount=0.9, n_permutations=10**5000),
        ValueError,
        "n_permutations: found a number of some 5000 digits",
    ),
    ("time limit", ask(method="lp", time_limit="a"), TypeError, "time_limit: found 'a'"),
    ("sample seed", lambda: CHAIN.sample(2, 5, rng="a"), TypeError, "rng: found 'a'"),
    ("unknown name", lambda: getattr(somcot, "nonsense"), AttributeError, "has no attribute 'nonsense'"),  # noqa: B009
]


@pytest.mark.parametrize(("call", "error", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_clear_error(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("method", ["exact", "sinkhorn"])
def test_more_than_memory_holds_is_refused_at_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "100k")
    walk, features = somcot.random_walk(50, start=25), np.random.default_rng(0).random(50)  # nothing to merge
    with pytest.raises(MemoryLimitError, match=r"needs about .* the limit is 100 kB"):
        somcot.distance(walk, walk, costs.absolute(features, features), discount=0.9, method=method)


def test_too_many_pairs_are_refused_before_anything_is_allocated() -> None:
    from scipy.sparse import eye_array

    from somcot.core.pairs import choose
    from somcot.problem import UnitProblem

    many, one = MarkovChain(eye_array(3_000_000, format="csr")), MarkovChain([[1.0]])
    cost = np.broadcast_to(np.zeros(1), (1, 3_000_000))
    assert somcot.distance(one, many, cost, discount=0.9).distance == 0.0
    wide = np.broadcast_to(np.zeros(1), (3_000_000, 3_000_000))
    with pytest.raises(MemoryLimitError, match=r"3000000 x 3000000 .*288 TB"):
        choose(UnitProblem(many.support, many.support, wide, 0.9), "reachable")


def test_input_is_neither_kept_nor_changed() -> None:
    kernel = GOOD.copy()
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    kernel.setflags(write=False)
    cost.setflags(write=False)
    x = MarkovChain(kernel)
    first = somcot.distance(x, x, cost, discount=0.9).distance
    assert first == 0.0
    np.testing.assert_array_equal(kernel, GOOD)
    with pytest.raises(ValueError, match="read-only"):
        x.transition[0, 0] = 1.0
    with pytest.raises(AttributeError):
        x.initial = np.array([0.0, 1.0])  # type: ignore[misc]


def test_unusual_but_valid_input() -> None:
    from fractions import Fraction

    third = Fraction(1, 3)
    chain = MarkovChain([[third, 2 * third], [1, 0]])
    assert chain.transition[0, 0] == pytest.approx(1 / 3)
    assert MarkovChain(np.array([[True, False], [False, True]])).n_states == 2
    assert MarkovChain(np.eye(2, dtype=np.float32)).transition.dtype == np.float64
    duplicated = csr_array((np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert MarkovChain(duplicated).support.indptr.tolist() == [0, 1, 2, 3]


def test_a_labelled_frame_keeps_its_labels() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[0.9, 0.1], [0.5, 0.5]], index=["a", "b"], columns=["b", "a"])
    chain = MarkovChain(frame, "b")
    assert chain.states == ("a", "b")
    np.testing.assert_array_equal(chain.transition, [[0.1, 0.9], [0.5, 0.5]])
    assert MarkovChain(frame.loc[:, ["a", "b"]], states=["x", "y"]).states == ("x", "y")
    with pytest.raises(ValueError, match=r"rows and columns .*different labels"):
        MarkovChain(pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "c"]))


def test_constant_tiny_cost_has_a_tiny_bracket() -> None:
    result = somcot.distance(CHAIN, CHAIN, np.full((2, 2), 1e-300), discount=0.9)
    assert result.distance == 1e-300
    assert result.bounds.high - result.bounds.low <= 1e-309


def test_labels_that_only_look_alike() -> None:
    with noted("labels-look-alike", one="1", other="'1'"):
        assert costs.labels([1, 2], ["1", "2"]).all()


@pytest.mark.parametrize(
    "table", [lambda n: costs.labels(range(n), range(n)), lambda n: costs.absolute(range(n), range(n))]
)
def test_a_cost_that_memory_cannot_hold_is_refused_at_once(
    table: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the table was made: that stalls a machine for minutes."""
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1M")
    with pytest.raises(MemoryLimitError, match="a cost between 2,000 and 2,000 states needs about"):
        table(2000)


def test_a_cost_that_memory_can_hold_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1M")
    assert costs.labels(range(300), range(300)).shape == (300, 300)  # 0.72 MB


def test_neighbourhoods_end() -> None:
    with pytest.raises(ValueError, match=r"rounds: found 1001, .*1,000"):
        costs.neighbourhood(CHAIN, CHAIN, 1001)
