"""Streams: right law, same draws however asked, ends as statuses, bad pairs refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain, block_chain, random_walk, streams
from somcot.samples import Samples
from tests.notes import noted


def anything(value: Any) -> Any:
    """Hide a type the checker would refuse."""
    return value


def law(pairs: tuple[Any, Any], n: int) -> Any:
    counts = np.zeros((n, n))
    np.add.at(counts, pairs, 1.0)
    return counts / counts.sum()


def noise(nu: Any, n: int) -> float:
    """Expected l1 distance of n samples from their law."""
    return float(np.sqrt(2 / np.pi) * np.sqrt(nu * (1 - nu) / n).sum())


@pytest.mark.parametrize("discount", [0.3, 0.9, 0.99])
@pytest.mark.parametrize(
    "chain",
    [
        random_walk(5, 0.7),
        block_chain(random_walk(3), 2),
        MarkovChain(np.eye(3)[[1, 2, 0]], [0.2, 0.3, 0.5]),
        MarkovChain([[1.0]]),
    ],
    ids=["walk", "blocks", "cycle", "one state"],
)
def test_chain_is_drawn_from_its_occupancy(chain: MarkovChain, discount: float) -> None:
    nu = chain.occupancy(discount)
    found = law(streams.from_chain(chain, discount, 0).draw(40_000), chain.n_states)
    assert np.abs(found - nu).sum() <= 1.6 * noise(nu, 40_000) + 1e-12
    assert found[nu == 0].sum() == 0


def test_sparse_chain_draws_as_its_dense_twin() -> None:
    from scipy.sparse import csr_array

    dense = random_walk(6, 0.3)
    sparse = MarkovChain(csr_array(dense.transition))
    one, two = (streams.from_chain(chain, 0.9, 1).draw(500) for chain in (dense, sparse))
    np.testing.assert_array_equal(one, two)


def test_stopping_time_may_be_zero() -> None:
    """P(G = 0) = 1 - discount: with a chain that never returns, the start must be seen that often."""
    chain = MarkovChain([[0.0, 1.0], [0.0, 1.0]])
    states, _ = streams.from_chain(chain, 0.75, 2).draw(20_000)
    assert np.mean(states == 0) == pytest.approx(0.25, abs=0.015)


def sources() -> dict[str, Any]:
    samples = random_walk(4).sample_occupancy(57, 0.9, rng=0)
    return {
        "chain": lambda: streams.from_chain(random_walk(4), 0.9, 3),
        "simulator": lambda: streams.from_simulator(lambda: 0, lambda s, rng: int(rng.integers(4)), 0.9, rng=3),
        "random": lambda: streams.from_samples(samples, 0.9, 3),
        "recorded": lambda: streams.from_samples(samples, 0.9, order="recorded"),
        "iterable": lambda: streams.from_iterable([(i % 4, (i + 1) % 4) for i in range(600)]),
    }


@pytest.mark.parametrize("name", list(sources()))
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=6))
def test_draws_do_not_depend_on_how_one_asks(name: str, sizes: list[int]) -> None:
    make = sources()[name]
    whole = make().draw(sum(sizes))
    stream = make()
    parts = [stream.draw(n) for n in sizes]
    for i in range(2):
        pieces = np.concatenate([part[i] for part in parts]) if parts else np.zeros(0)
        np.testing.assert_array_equal(pieces, whole[i])


def test_a_generator_is_left_where_it_would_be_whatever_was_asked() -> None:
    def left(n: int) -> float:
        rng = np.random.default_rng(0)
        streams.from_chain(random_walk(4), 0.9, rng).draw(n)
        return float(rng.random())

    assert left(1) == left(100) == left(4096) != left(4097)


@pytest.mark.parametrize("name", list(sources()))
@pytest.mark.parametrize("used", [0, 1, 56, 57, 58, 400, 5000])
def test_a_stream_goes_on_from_its_state(name: str, used: int) -> None:
    import json

    make = sources()[name]
    stream, other = make(), make()
    stream.draw(used)
    other.restore(json.loads(json.dumps(stream.state())))
    for _ in range(3):
        np.testing.assert_array_equal(stream.draw(37), other.draw(37))


def test_any_bit_generator_can_be_saved() -> None:
    import json

    for bits in (np.random.MT19937, np.random.Philox, np.random.SFC64):
        stream = streams.from_chain(random_walk(3), 0.9, np.random.Generator(bits(1)))
        other = streams.from_chain(random_walk(3), 0.9, np.random.Generator(bits(2)))
        stream.draw(10)
        other.restore(json.loads(json.dumps(stream.state())))
        np.testing.assert_array_equal(stream.draw(50), other.draw(50))


def test_simulator_is_stopped_geometrically() -> None:
    chain = random_walk(4, 0.6)
    P = chain.transition
    stream = streams.from_simulator(lambda: 0, lambda s, rng: int(rng.choice(4, p=P[s])), 0.8, np.random.default_rng(0))
    nu = chain.occupancy(0.8)
    assert np.abs(law(stream.draw(8_000), 4) - nu).sum() <= 1.6 * noise(nu, 8_000)
    np.testing.assert_array_equal(stream.initial, [1.0])


def test_simulator_may_ask_for_the_generator_in_either_way() -> None:
    def by_name(state: int, *, rng: np.random.Generator) -> int:
        return (state + int(rng.integers(2))) % 3

    def by_place(state: int, generator: np.random.Generator) -> int:
        return (state + int(generator.integers(2))) % 3

    def closure(state: int, table: tuple[int, ...] = (1, 2, 0)) -> int:
        return table[state]

    one = streams.from_simulator(lambda rng: 0, by_name, 0.9, 5).draw(100)
    two = streams.from_simulator(lambda rng: 0, by_place, 0.9, 5).draw(100)
    np.testing.assert_array_equal(one, two)
    states, following = streams.from_simulator(lambda: 0, closure, 0.9, 5).draw(100)
    np.testing.assert_array_equal(following, (states + 1) % 3)


def test_simulator_with_labels_and_random_first_states() -> None:
    first = itertools.cycle(["a", "b", "b", "b"])
    stream = streams.from_simulator(lambda: next(first), lambda s: "c", 0.5, 0, states=["a", "b", "c"])
    assert stream.initial is not None
    assert stream.initial.tolist() == [0.25, 0.75, 0.0]
    assert set(stream.draw(50)[1].tolist()) == {2}
    with pytest.raises(streams.StreamError, match="'z' is not a state"):
        streams.from_simulator(lambda: "z", lambda s: s, 0.5, 0, states=["a"]).draw(1)


def test_recorded_order_is_one_pass_and_random_order_many() -> None:
    samples = random_walk(4).sample_occupancy(30, 0.9, rng=0)
    recorded = streams.from_samples(samples, 0.9, order="recorded")
    now, following = recorded.draw(100)
    np.testing.assert_array_equal(now, samples.now)
    np.testing.assert_array_equal(following, samples.following)
    assert len(recorded.draw(1)[0]) == 0
    pairs = streams.from_samples(samples, 0.9, 1).draw(60)
    for half in (slice(0, 30), slice(30, 60)):
        np.testing.assert_array_equal(
            law((pairs[0][half], pairs[1][half]), 4), law((samples.now, samples.following), 4)
        )
    assert not np.array_equal(pairs[0][:30], pairs[0][30:]) or not np.array_equal(pairs[0][:30], samples.now)


def test_episodes_are_drawn_from_the_occupancy_of_their_chain() -> None:
    """A walk that drifts away from its start: raw steps have another law than the discounted occupancy."""
    samples = random_walk(5, 0.8).sample(200, 60, rng=0)
    nu = samples.chain().occupancy(0.7)
    stream = streams.from_samples(samples, 0.7, 0)
    assert np.abs(law(stream.draw(20_000), 5) - nu).sum() <= 1.6 * noise(nu, 20_000)
    for order in ("recorded", "shuffled"):
        with noted("raw-steps"):
            raw = streams.from_samples(samples, 0.7, 0, order=order)
        assert np.abs(law(raw.draw(12_000), 5) - nu).sum() > 0.5


def test_samples_of_another_discount_are_refused() -> None:
    samples = random_walk(3).sample_occupancy(10, 0.9, rng=0)
    with pytest.raises(ValueError, match=r"discount: found 0.8.*0.9"):
        streams.from_samples(samples, 0.8)
    with pytest.raises(ValueError, match="order: found 'backwards'"):
        streams.from_samples(samples, 0.9, order="backwards")


def test_start_law_of_samples() -> None:
    given_law = Samples.from_transitions([0, 1, 1], [1, 1, 0], discount=0.5, initial=[0.5, 0.5])
    law_of_first = streams.from_samples(given_law, 0.5).initial
    assert law_of_first is not None
    assert law_of_first.tolist() == [0.5, 0.5]


def test_iterables_may_be_endless() -> None:
    stream = streams.from_iterable((i % 3, (i + 1) % 3) for i in itertools.count())
    states, following = stream.draw(1000)
    np.testing.assert_array_equal(states, np.arange(1000) % 3)
    np.testing.assert_array_equal(following, (states + 1) % 3)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: streams.from_chain(anything(3), 0.9), TypeError, "chain: found int"),
        (lambda: streams.from_chain(random_walk(3), 1.0), ValueError, "discount: found 1.0"),
        (lambda: streams.from_chain(random_walk(3), 0.9, 0).draw(-1), ValueError, "n: found -1"),
        (
            lambda: streams.from_simulator(anything(0), lambda s: s, 0.9),
            TypeError,
            "reset: found 0, expected a callable",
        ),
        (lambda: streams.from_iterable([], initial=-1), ValueError, "initial: found -1"),
        (lambda: streams.from_iterable([], n_states=2, initial=4), ValueError, "initial: found state 4"),
        (lambda: streams.from_iterable([], n_states=3, states=["a"]), ValueError, "n_states: found 3"),
        (lambda: streams.from_iterable([("a", "x")], states=["a"]).draw(1), ValueError, "'x' is not a state"),
        (
            lambda: streams.from_iterable(anything([([1], "a")]), states=["a"]).draw(1),
            ValueError,
            "cannot be looked up",
        ),
        (lambda: streams.from_iterable(anything(["ab"])).draw(1), ValueError, "found 'ab', expected pairs"),
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_check_pairs_takes_what_arrays_take() -> None:
    states, following = streams.check_pairs("x", ([0, 1], np.array([1, 1], dtype=np.uint8)), 2)
    assert states.dtype == following.dtype == np.int64
    assert len(streams.check_pairs("x", ([], []), 2)[0]) == 0
    assert isinstance(streams.from_chain(random_walk(2), 0.9), streams.Stream)


def test_an_error_of_the_source_itself_loses_nothing() -> None:
    """A stream that breaks down hands its own error on, with the result of the steps before."""

    class Breaking:
        calls = 0

        def draw(self, n: int) -> tuple[list[int], list[int]]:
            self.calls += 1
            if self.calls > 3:
                raise OSError("the line is dead")
            return [0, 1] * (n // 2) + [0] * (n % 2), [1, 0] * (n // 2) + [1] * (n % 2)

    walk = random_walk(2)
    with pytest.raises(OSError, match="the line is dead") as caught:
        somcot.distance(
            Breaking(), walk, [[0.0, 1.0], [1.0, 0.0]], discount=0.9, method="somcot", n_steps=500_000, rng=0
        )
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.n_steps > 0
    assert 0.0 <= partial.distance <= 1.0


class Described:
    """A stream of someone else's that says something about itself; `state` is no way back without `restore`."""

    n_states, states, initial, discount, n_pairs = 2, ["a", "b"], [0.5, 0.5], 0.9, 7
    quick, state = True, 3

    def draw(self, n: int) -> tuple[list[int], list[int]]:
        return [0] * n, [1] * n


def test_any_process_becomes_one_record() -> None:
    chain = random_walk(2)
    known = streams.as_source("x", chain, 0.9, rng=0)
    assert (known.chain, known.n_states, known.n_pairs, known.quick) == (chain, 2, None, True)
    recorded = streams.as_source("x", chain.sample_occupancy(9, 0.9, rng=0), 0.9, rng=0)
    assert (recorded.chain, recorded.n_pairs, recorded.discount) == (None, 9, 0.9)
    assert streams.as_source("x", known, 0.9) is known
    said = streams.as_source("x", Described(), 0.9)
    assert (said.n_states, said.states, said.discount, said.n_pairs) == (2, ("a", "b"), 0.9, 7)
    assert said.initial is not None
    assert said.initial.tolist() == [0.5, 0.5]
    assert not said.quick  # someone else's code may hang
    assert said.state() is None
    result = somcot.distance(Described(), chain, np.eye(2), discount=0.9, method="somcot", rng=0)
    assert (result.n_steps, result.states_x) == (7, ("a", "b"))


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("n_states", 2.5, "x.n_states: found 2.5, expected a whole number"),
        ("states", ["a", "a"], "x.states: label 'a' appears more than once"),
        ("initial", [[1.0]], "x.initial: found 2 dimension"),
        ("discount", 0.5, "discount: found 0.9, but stream x draws at discount 0.5"),
        ("n_pairs", -1, "x.n_pairs: found -1"),
    ],
)
def test_a_wrong_description_is_refused(field: str, value: Any, match: str) -> None:
    stream = Described()
    setattr(stream, field, value)
    with pytest.raises((TypeError, ValueError), match=match):
        streams.as_source("x", stream, 0.9)


def test_a_stream_says_what_it_is() -> None:
    walk = somcot.random_walk(3)
    assert repr(streams.from_chain(walk, 0.9, rng=0)) == "Stream(3 states, endless, discount 0.9)"
    recorded = walk.sample(2, 5, rng=0)
    assert repr(streams.from_samples(recorded, 0.9, rng=0)).startswith("Stream(3 states, ")
