"""Decision processes from data: distances with intervals, and bounds for policies of a model."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from benchmarks.mdp_families import record

import somcot
from somcot import mdp
from somcot.inference.pooling import Homogeneity, kept_shares
from somcot.mdp import MDP, RecordedMDP, distance, transfer_bound
from somcot.mdp.estimates import _Pair
from somcot.plumbing.arrays import Floats
from tests.mdp_instances import random_mdp
from tests.notes import noted
from tests.test_recorded_mdp import recorded

# --- Distances


def started(process: MDP, initial: Any) -> MDP:
    return MDP(process.transitions, process.rewards, initial=initial, states=process.states, actions=process.actions)


def test_known_processes_are_coupled_from_their_starts() -> None:
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    x, y = (started(random_mdp(rng, 5, 3), rng.dirichlet(np.ones(5))) for _ in range(2))
    result = distance(x, y, discount=0.9)
    expected = ot.emd2(x.initial, y.initial, mdp.metric(x, y, discount=0.9))
    assert result.distance == pytest.approx(expected, abs=1e-12)
    assert result.bounds.low <= result.distance <= result.bounds.high
    assert result.bounds.high - result.bounds.low < 1e-11
    assert result.claim == "proved"
    assert result.state_law.sum() == pytest.approx(1.0)
    assert result._repr_html_()


def test_a_policy_makes_chains() -> None:
    rng = np.random.default_rng(1)
    x, y = random_mdp(rng, 4, 2), random_mdp(rng, 4, 2)
    policy = rng.dirichlet(np.ones(2), size=4)
    chains = [mdp.on_policy(process, policy) for process in (x, y)]
    expected = somcot.distance(chains[0], chains[1], "features", discount=0.9)
    result = distance(x, y, discount=0.9, policy=policy)
    assert result.distance == pytest.approx(expected.distance, abs=1e-12)
    np.testing.assert_allclose(result.state_law, expected.state_law, atol=1e-9)
    assert result.distance <= distance(x, y, discount=0.9).distance


def test_states_and_actions_are_matched_by_label() -> None:
    rng = np.random.default_rng(2)
    x = random_mdp(rng, 4, 2)
    turned = MDP(x.transitions[::-1, ::-1, ::-1], x.rewards[::-1, ::-1], initial=0, states=[3, 2, 1, 0], actions=[1, 0])
    assert distance(x, turned, discount=0.9).distance < 1e-12
    data, again = recorded(x, 2000, rng), recorded(x, 2000, rng)
    mirrored = RecordedMDP(
        data.states[::-1], (1, 0), (3 - again.now, 1 - again.action, 3 - again.following, again.reward), again.offsets,
        x.initial[::-1],
    )  # fmt: skip
    assert distance(data, mirrored, discount=0.9).plugin == pytest.approx(distance(data, again, discount=0.9).plugin)


def test_what_is_pooled_is_nearer_than_what_is_counted() -> None:
    """Two recordings of one process: the counted tables are far apart, the estimate is not."""
    rng = np.random.default_rng(3)
    true = random_mdp(rng, 6, 2)
    found = [
        distance(recorded(true, 1000, rng), recorded(true, 1000, rng), discount=0.9, confidence=0.9, rng=1)
        for _ in range(6)
    ]
    counted, estimated = np.mean([[r.plugin or 0.0, r.distance] for r in found], axis=0)
    assert estimated < counted / 3
    assert sum(r.confidence_interval.low == 0 for r in found if r.confidence_interval) >= 4
    assert found[0].claim == "estimated"
    assert found[0].samples == (1000, 1000)


def test_the_counted_distance_is_that_of_the_tables() -> None:
    rng = np.random.default_rng(4)
    x, y = (recorded(random_mdp(rng, 4, 2), 400, rng, noise=0.2) for _ in range(2))
    result = distance(x, y, discount=0.9)
    assert result.plugin == pytest.approx(distance(x.mdp(), y.mdp(), discount=0.9).distance, abs=1e-12)
    assert result.plugin is not None
    assert result.distance <= result.plugin
    assert result.confidence_interval is None


def test_untried_actions_do_what_they_do_on_the_other_side() -> None:
    x = RecordedMDP.from_transitions([0, 1, 0, 1], [0, 0, 0, 1], [0.0, 1.0, 0.0, 1.0], [1, 0, 1, 0], initial=0)
    y = RecordedMDP.from_transitions([0, 1, 0, 1], [0, 0, 1, 1], [0.0, 1.0, 0.0, 1.0], [1, 0, 1, 0], initial=0)
    result = distance(x, y, discount=0.9)
    assert result.plugin == 0
    assert [note.code for note in result.notes if hasattr(note, "code")] == ["untried-pairs"]


def test_equal_seeds_equal_bits(tmp_path: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = recorded(random_mdp(rng, 4, 2), 300, rng), recorded(random_mdp(rng, 4, 2), 300, rng)
    one, other = (distance(x, y, discount=0.9, confidence=0.9) for _ in range(2))
    assert one.confidence_interval == other.confidence_interval
    one.save(tmp_path / "result")
    assert somcot.Result.load(tmp_path / "result").distance == one.distance


def test_refused_distances() -> None:
    rng = np.random.default_rng(6)
    x = random_mdp(rng, 3, 2)
    y = MDP(x.transitions, x.rewards, states=["a", "b", "c"])
    with pytest.raises(ValueError, match="policy: it is for the states of x, and y has others"):
        distance(x, y, discount=0.9, policy=[0, 0, 0])
    with pytest.raises(TypeError, match="y: found ndarray, expected an MDP"):
        distance(x, x.transitions, discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y: its actions are not those of x"):
        distance(x, random_mdp(rng, 3, 3), discount=0.9)


# --- Bounds for policies of a model


def garnet(rng: np.random.Generator, n: int = 8, m: int = 2) -> MDP:
    P = np.zeros((n, m, n))
    for s, a in itertools.product(range(n), range(m)):
        P[s, a, rng.choice(n, 3, replace=False)] = rng.dirichlet(np.ones(3))
    return MDP(P, rng.random((n, m)))


def mixed(x: MDP, y: MDP, share: float) -> MDP:
    return MDP((1 - share) * x.transitions + share * y.transitions, x.rewards)


def value(process: MDP, policy: Any, discount: float) -> float:
    chain = mdp.on_policy(process, policy)
    P = np.asarray(chain.transition)
    return float(chain.initial @ np.linalg.solve(np.eye(len(P)) - discount * P, np.asarray(chain.features)))


@pytest.mark.parametrize("method", ["delta", "proved"])
def test_bounds_hold(method: str) -> None:
    held = np.zeros(3)
    for seed in range(20):
        rng = np.random.default_rng([7, seed])
        real, other = garnet(rng), garnet(rng)
        model = mixed(real, other, 0.3)
        bound = transfer_bound(model, recorded(real, 2000, rng), discount=0.9, method=method)
        truth = value(real, bound.policy, 0.9)
        best = float(mdp.optimal(real, discount=0.9).values[0])
        assert bound.value_model == pytest.approx(value(model, bound.policy, 0.9))
        low, high = bound.value_recorded[1:]
        held += [
            abs(truth - bound.value_model) <= bound.value_error,
            best - truth <= bound.policy_loss,
            low <= truth <= high,
        ]
        assert bound.proved is (method == "proved")
    assert (held >= 17).all()  # at least 0.95 of many draws: benchmarks.transfer


def test_the_standard_error_is_that_of_repeated_recordings() -> None:
    rng = np.random.default_rng(8)
    real = garnet(rng)
    policy = [0] * 8
    found = [transfer_bound(real, recorded(real, 4000, rng, noise=0.2), discount=0.9, policy=policy) for _ in range(60)]
    spread = np.std([bound.value_recorded.estimate for bound in found])
    said = np.mean([(b.value_recorded.high - b.value_recorded.low) / 2 / 1.96 for b in found])
    assert said == pytest.approx(spread, rel=0.3)


def test_the_best_upper_end_is_that_of_all_policies() -> None:
    """The search over policies against all of them, on processes of two to four states."""
    from somcot.mdp import value_bounds

    missed = 0
    for seed in range(40):
        rng = np.random.default_rng([9, seed])
        n, m = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        real = random_mdp(rng, n, m)
        data = recorded(real, int(rng.integers(40, 400)), rng, noise=0.1)
        options = value_bounds.Options(0.9, 0.95, "worst", None, "delta")
        world = value_bounds.World.of(mixed(real, random_mdp(rng, n, m), 0.3), data, options)
        optimum = MDP(world.with_free(0), world.rewards_with(0))
        beyond = mdp.optimal(optimum, discount=0.9).values
        tops = []
        for actions in itertools.product(range(m), repeat=n):
            up = value_bounds.estimate(world, world.placed(np.eye(m)[list(actions)]), 0, 0.9, beyond)
            tops.append(up.value + value_bounds.margin(world, up, 0.95))
        found = value_bounds.best_high(world, world.placed(np.eye(m)[[0] * n]), options)
        assert found <= min(max(tops), world.ends[1]) + 1e-9
        missed += found < min(max(tops), world.ends[1]) - 1e-9
    assert missed <= 2  # rows with one or two visits


def test_actions_never_tried_are_the_worst_unless_the_model_is_trusted() -> None:
    model = MDP([[[0, 1], [1, 0]], [[0, 1], [1, 0]]], [[0, 0], [1, 1]])
    data = RecordedMDP.from_transitions(
        [0, 0, 1, 0] * 50, [1, 0, 1, 1] * 50, [0.0, 0.0, 1.0, 0.0] * 50, [0, 1, 0, 0] * 50, initial=0
    )
    worst = transfer_bound(model, data, discount=0.9)
    assert worst.policy == (0, 0)
    assert worst.unvisited == pytest.approx(0.9)
    assert worst.value_recorded.low < 0.2
    trusting = transfer_bound(model, data, discount=0.9, unvisited="model")
    assert trusting.value_recorded.estimate == pytest.approx(9.0)
    assert trusting.value_error < worst.value_error
    narrow = transfer_bound(model, data, discount=0.9, value_range=(8.0, 10.0))
    assert narrow.value_recorded.low == pytest.approx(0.9 * 8.0, abs=0.9)


def test_more_data_is_wanted_where_the_variance_is() -> None:
    rng = np.random.default_rng(10)
    real = garnet(rng)
    rows = transfer_bound(real, recorded(real, 2000, rng), discount=0.9).largest_contributions
    assert rows
    assert sum(row.share for row in rows) <= 1 + 1e-9
    assert list(rows) == sorted(rows, key=lambda row: -row.share)
    assert all(row.action == mdp.optimal(real, discount=0.9).policy[int(str(row.state))] for row in rows)


def test_a_policy_fitted_to_the_steps_needs_other_steps() -> None:
    rng = np.random.default_rng(11)
    real = garnet(rng)
    model, data = mixed(real, garnet(rng), 0.5), recorded(real, 4000, rng)
    seen: list[int] = []

    def fit(part: RecordedMDP) -> Any:
        seen.append(part.n_episodes)
        return mdp.optimal(part, discount=0.9).policy

    one = transfer_bound(model, data, discount=0.9, holdout=0.25, policy=fit, rng=0)
    other = transfer_bound(model, data, discount=0.9, holdout=0.25, rng=0)
    assert seen == [150]
    assert one.policy == other.policy
    assert one.value_recorded == other.value_recorded
    with pytest.raises(ValueError, match=r"policy: found a function.*holdout"):
        transfer_bound(model, data, discount=0.9, policy=fit)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "exact"}, ValueError, "method: found 'exact'"),
        ({"unvisited": "best"}, ValueError, "unvisited: found 'best'"),
        ({"confidence": None}, ValueError, "confidence: found None"),
        ({"value_range": (1, 0)}, ValueError, "value_range: found"),
        ({"value_range": 3}, ValueError, "value_range: found 3, expected two"),
        ({"value_range": (0, 1, 2)}, ValueError, "value_range: found .0, 1, 2., expected two"),
        ({"value_range": (0.0, 0.1)}, ValueError, "value_range: found .0.0, 0.1., but the policy earns"),
        ({"holdout": 2}, ValueError, "holdout: found 2"),
        ({"holdout": 0.001}, ValueError, "holdout: 0.001 of"),
        ({"recorded": MDP([[[1.0]]], [[0.0]])}, TypeError, "recorded: found MDP, expected a RecordedMDP"),
        ({"model": MDP([[[1.0]]], [[0.0]])}, ValueError, "recorded: its actions are not those of the model"),
        ({"policy": [0]}, ValueError, "policy: shape"),
    ],
)
def test_refused_bounds(change: dict[str, Any], error: type[Exception], message: str) -> None:
    rng = np.random.default_rng(12)
    real = garnet(rng)
    good: dict[str, Any] = {"model": real, "recorded": recorded(real, 200, rng), "discount": 0.9}
    with pytest.raises(error, match=message):
        transfer_bound(**{**good, **change})


def test_it_is_shown() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(13)
    real = garnet(rng)
    bound = transfer_bound(real, recorded(real, 500, rng), discount=0.9)
    assert "large samples" in repr(bound)
    assert "share of the uncertainty" in bound._repr_html_()
    assert bound.plot() is not None


def test_what_the_known_side_excludes_is_pooled_too() -> None:
    """That rows differ is certain then; by how much is as noisy as ever."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        known = garnet(rng)
        moved = mixed(known, garnet(rng), 0.2)
        truth = mdp.distance(known, moved, discount=0.9).distance
        result = mdp.distance(known, recorded(moved, 1000, rng), discount=0.9)
        assert result.plugin is not None
        assert 0.6 * truth < result.distance < result.plugin


def test_a_value_that_the_recording_never_shows_has_an_error() -> None:
    """Two rare steps in a row: on the counted process the first leads to nothing of value, so it would have none."""
    P = np.zeros((3, 1, 3))
    P[0, 0, [0, 1]], P[1, 0, [0, 2]], P[2, 0, 2] = (0.7, 0.3), (0.7, 0.3), 1.0
    model = MDP(P, [[0], [0], [1]])
    s = [0] * 4 + [1] * 4 + [2] * 4
    data = RecordedMDP.from_transitions(
        s, [0] * 12, [float(k == 2) for k in s], [0] * 8 + [2] * 4, initial=0, n_states=3, n_actions=1
    )
    found = transfer_bound(model, data, discount=0.9).value_recorded
    assert found.estimate == 0
    assert found.high > 1


def test_margins_are_those_of_welch_and_satterthwaite() -> None:
    """Two rows with noisy rewards, each followed once: the value is a sum of two means, as in Welch's test."""
    from scipy import stats

    from somcot.mdp import value_bounds

    rng = np.random.default_rng(14)
    g, sizes, spreads = 0.9, (4, 9), (1.0, 3.0)
    drawn = [rng.normal(size=n) * scale for n, scale in zip(sizes, spreads, strict=True)]
    means = [part.mean() for part in drawn]
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    model = MDP(P, [[means[0]], [means[1]], [0.0]])
    s = [0] * 4 + [1] * 9 + [2] * 5
    data = RecordedMDP.from_transitions(
        s, [0] * 18, [*drawn[0], *drawn[1], *[0.0] * 5], [min(k + 1, 2) for k in s], initial=0
    )
    options = value_bounds.Options(g, 0.95, "worst", None, "delta")
    world = value_bounds.World.of(model, data, options)
    found = value_bounds.estimate(world, np.ones((5, 1)), 0, g)
    # The model's two observations of a row have its mean and a share of the largest possible variance.
    low, high = data.reward.min(), data.reward.max()
    most = [(m - low) * (high - m) for m in (*means, 0.0)]
    squares = [((part - part.mean()) ** 2).sum() for part in drawn]
    share = sum(squares) / (4 * most[0] + 9 * most[1] + 5 * most[2])
    parts = [
        g ** (2 * k) * (squares[k] + 2 * share * most[k]) / (n + 1) / n for k, n in enumerate(sizes)
    ]  # fmt: skip
    # The last state earns 0 in all five visits; only the model's observations of it vary.
    parts.append((g**2 / (1 - g)) ** 2 * 2 * share * most[2] / 6 / 5)
    freedom = sum(parts) ** 2 / sum(v**2 / d for v, d in zip(parts, (5, 10, 6), strict=True))
    wanted = stats.t.ppf(0.975, freedom) * np.sqrt(sum(parts))
    assert value_bounds.margin(world, found, 0.95) == pytest.approx(wanted, rel=1e-9)


def test_an_estimated_initial_distribution_adds_its_error() -> None:
    """Steps are certain, so only the first states of 40 episodes vary."""
    P = np.zeros((2, 1, 2))
    P[:, 0, 1] = 1.0
    real = MDP(P, [[1.0], [0.0]], initial=[0.5, 0.5])
    rng = np.random.default_rng(15)
    found = []
    for _ in range(200):
        first = rng.integers(2, size=40)
        now, flags = np.stack([first, np.ones(40, int)], axis=1).ravel(), np.tile([False, True], 40)
        rewards = (now == 0) * 1.0
        data = RecordedMDP.from_transitions(
            now, np.zeros(80, int), rewards, np.ones(80, int), truncated=flags, n_states=2, n_actions=1
        )
        found.append(transfer_bound(real, data, discount=0.9, policy=[0, 0]).value_recorded)
    held = np.mean([low <= 0.5 <= high for _, low, high in found])
    assert 0.9 <= held <= 0.995
    assert np.std([one.estimate for one in found]) == pytest.approx(0.5 / np.sqrt(40), rel=0.15)


def test_states_that_the_model_lacks_count_as_unvisited() -> None:
    P = np.zeros((3, 1, 3))
    P[0, 0, [1, 2]], P[1, 0, 0], P[2, 0, 0] = 0.5, 1.0, 1.0
    real = MDP(P, [[0.0], [1.0], [1.0]])
    data = recorded(real, 400, np.random.default_rng(16))
    model = MDP([[[0, 1]], [[1, 0]]], [[0.0], [1.0]])
    with noted("states-not-in-model", somcot.UnseenStateWarning, about="model", share=(1, 3), state="2"):
        bound = transfer_bound(model, data, discount=0.9)
    assert bound.unvisited > 0.05
    assert bound.value_recorded.low < 0.5 * bound.value_recorded.estimate
    with pytest.raises(ValueError, match="model: it has none of the recorded states, such as 0"):
        transfer_bound(MDP(P, real.rewards, states=["a", "b", "c"]), data, discount=0.9)


def test_actions_never_tried_are_where_more_data_would_help_most() -> None:
    model = MDP([[[0, 1], [1, 0]], [[0, 1], [1, 0]]], [[0, 0], [1, 1]])
    data = RecordedMDP.from_transitions(
        [0, 0, 1, 0] * 50, [1, 0, 1, 1] * 50, [0.0, 0.0, 1.0, 0.0] * 50, [0, 1, 0, 0] * 50, initial=0
    )
    first = transfer_bound(model, data, discount=0.9).largest_contributions[0]
    assert (first.state, first.action, first.visits) == (1, 0, 0)
    assert 0.5 < first.share <= 1.0


def test_equal_processes_are_at_distance_zero() -> None:
    """A recording and its own table, in which rows are divided in another order."""
    for seed in range(12):
        rng = np.random.default_rng([17, seed])
        data = recorded(random_mdp(rng, 6, 3), 300, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert mdp.distance(data.mdp(), data, discount=0.9).distance == 0.0


@pytest.mark.parametrize(("good", "n"), [(16, 16), (0, 9), (3, 12), (40, 50)])
def test_the_interval_of_a_proportion_is_that_of_wilson(good: int, n: int) -> None:
    """The first step leads to a state that pays 1 or to one that pays nothing, and the episode ends there."""
    from scipy import stats

    P = np.zeros((4, 1, 4))
    P[0, 0, 1:3], P[1:, 0, 3] = (0.9, 0.1), 1.0
    model = MDP(P, [[0.0], [1.0], [0.0], [0.0]], states=[0, 1, 2, "terminated"])
    second = np.where(np.arange(n) < good, 1, 2)
    now, flags = np.stack([np.zeros(n, int), second], axis=1).ravel(), np.tile([False, True], n)
    later = np.stack([second, second], axis=1).ravel()
    data = RecordedMDP.from_transitions(
        now, [0] * 2 * n, (now == 1) * 1.0, later, terminated=flags, initial=0, n_states=3, n_actions=1
    )
    bound = transfer_bound(model, data, discount=0.9, policy=[0] * 4, unvisited="model")
    # (p - good / n)^2 = q p (1 - p), where n + 2 observations have n + 1 degrees of freedom.
    q, p = stats.t.ppf(0.975, n + 1) ** 2 * (n + 2) / (n + 1) / n, good / n
    low, high = np.sort(np.roots([1 + q, -2 * p - q, p**2]).real)
    assert bound.value_recorded == pytest.approx((0.9 * p, 0.9 * low, 0.9 * high), abs=1e-7)


def test_rows_seen_on_one_side_are_not_pooled() -> None:
    """They show neither that the processes are equal nor that they differ."""
    rng = np.random.default_rng(6)
    true = random_mdp(rng, 5, 2)
    x, y = (recorded(true, 300, rng) for _ in range(2))
    rows = y.now * y.n_actions + y.action
    keep = rows >= 4  # the first four rows are seen in x only
    alone = RecordedMDP.from_transitions(
        y.now[keep], y.action[keep], y.reward[keep], y.following[keep], initial=x.initial, n_states=5, n_actions=2
    )
    shares = _Pair.of(x, alone, None, 0.9, 1).kept[0]
    assert (shares[:4] == 1.0).all()
    assert (shares[4:10] < 1.0).any()


def moody(rng: np.random.Generator, n: int, share: float = 0.5) -> RecordedMDP:
    """n episodes of 10 steps: a hidden coin makes the second state likely in all steps of an episode, and rewards."""
    coin = rng.random((n, 1)) < share
    path = (rng.random((n, 11)) < np.where(coin, 0.8, 0.2)).astype(int)
    reward = coin + 0.1 * rng.normal(size=(n, 10))
    return RecordedMDP.from_transitions(
        path[:, :-1].ravel(), np.zeros(10 * n, int), reward.ravel(), path[:, 1:].ravel(),
        truncated=np.tile(np.arange(10) == 9, n), n_states=2, n_actions=1,
    )  # fmt: skip


def test_the_interval_is_that_of_a_further_normal_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where recordings drawn on the path are as far apart as their processes, give or take 0.001."""
    from scipy.stats import t as student

    rng = np.random.default_rng(22)
    pair = _Pair.of(moody(rng, 60, 0.2), moody(rng, 60, 0.8), None, 0.9, 1)
    means = {0.0: pair.solve(*pair.between(0.0)).value, 1.0: pair.pooled, 2.0: pair.counted.value}
    noise = np.tile([-0.001, 0.001], 10)
    monkeypatch.setattr(_Pair, "_distances", lambda self, t, rng: means[t] + noise)
    for confidence in (0.5, 0.9, 0.99):
        value, interval = pair.estimate(confidence, rng)
        half = student.ppf(0.5 + 0.5 * confidence, 19) * np.sqrt(1.0 + 1.0 / 20) * noise.std(ddof=1)
        assert interval is not None
        assert (value, interval.high) == pytest.approx((pair.pooled, pair.pooled + half), rel=1e-12)
        assert interval.low == pytest.approx(max(pair.pooled - half, means[0.0]), rel=1e-12)


def test_what_steps_of_an_episode_share_is_drawn_with_it() -> None:
    """Rows, mean rewards and first states vary between draws as between recordings, not as with independent steps."""
    rng = np.random.default_rng(18)

    def parts(pair: _Pair) -> Floats:
        law, reward = pair.x.tables
        return np.array([law[0, 1], law[2, 1], reward[1] + law[1] @ pair.paid[1]])

    wanted = [parts(_Pair.of(moody(rng, 60), moody(rng, 60), None, 0.9, 1)) for _ in range(300)]
    pairs = [_Pair.of(moody(rng, 60), moody(rng, 60), None, 0.9, 1) for _ in range(10)]
    for t in (0.0, 2.0):
        drawn = [[parts(pair.drawn(t, rng)) for _ in range(40)] for pair in pairs]
        np.testing.assert_allclose(np.mean(np.std(drawn, axis=1), axis=0), np.std(wanted, axis=0), rtol=0.2)


def test_tests_know_how_much_steps_of_an_episode_vary_together() -> None:
    """The variance of a mean reward is about five times that of independent steps where a coin is shared by ten."""
    rng = np.random.default_rng(20)
    alike = _Pair.of(moody(rng, 200), moody(rng, 200), None, 0.9, 1).calibrated(rng)
    assert (alike.effects[1] > 3).all()
    assert alike.effects[0][:2].mean() > 1.5
    true = random_mdp(rng, 4, 2)
    independent = _Pair.of(recorded(true, 4000, rng), recorded(true, 4000, rng), None, 0.9, 1).calibrated(rng)
    np.testing.assert_allclose([effects.mean() for effects in independent.effects], 1.0, atol=0.1)
    assert not independent.tests[1][1].any()  # its rewards have no noise: their means differ by rounding
    # 40 pairs of equal processes: the statistics of mean rewards are those of chance, and fewer are taken to differ.
    pairs = [_Pair.of(moody(rng, 60), moody(rng, 60), None, 0.9, 1) for _ in range(40)]
    sides = pairs, [pair.calibrated(rng) for pair in pairs]
    before, after = (np.mean([pair.tests[1][0] / pair.effects[1] for pair in some]) for some in sides)
    assert after < 1.5 < before / 1.5
    before, after = (np.mean([pair.kept[1] > 0.5 for pair in some]) for some in sides)
    assert after < 2 * before / 3


def test_rows_that_all_changed_a_little_are_pooled_by_their_sizes() -> None:
    """The largest distance over actions is not too large, as it is where differences are taken to be normal."""
    found = []
    for seed in range(16):
        rng = np.random.default_rng([21, seed])
        P, Q = (np.zeros((6, 3, 6)) for _ in range(2))
        for table in (P, Q):
            for s, a in itertools.product(range(6), range(3)):
                table[s, a, rng.choice(6, 3, replace=False)] = rng.dirichlet(np.ones(3))
        true = MDP(P, rng.random((6, 3)))
        moved = MDP(0.8 * P + 0.2 * Q, true.rewards)
        x, y = recorded(true, 1000, rng), recorded(moved, 1000, rng)
        exact, result = (distance(*pair, discount=0.9, rng=seed, threads=1) for pair in ((true, moved), (x, y)))
        assert result.plugin is not None
        pair, normal = (_Pair.of(x, y, None, 0.9, 1) for _ in range(2))
        rows = kept_shares(Homogeneity(*normal.tests[0])).shares
        normal.kept = rows, pair.kept[1]
        found.append(np.array([result.plugin, normal.pooled, pair.pooled, result.distance]) - exact.distance)
    counted, normal_bias, pooled_bias, bias = np.mean(found, axis=0)
    assert normal_bias > counted / 3
    assert max(abs(pooled_bias), abs(bias)) < counted / 6
    assert distance(x, y, discount=0.9, confidence=0.9, rng=15, threads=1).distance == result.distance


def test_drawn_recordings_are_those_of_the_path() -> None:
    """On average: unequal numbers of visits, and one side known."""
    rng = np.random.default_rng(19)
    x, y = moody(rng, 40, 0.3), moody(rng, 120, 0.7)
    known = MDP([[[0.5, 0.5]], [[0.4, 0.6]]], [[0.5], [0.2]], initial=[0.5, 0.5])
    for other in (y, known):
        pair = _Pair.of(x, other, None, 0.9, 1)
        for t in (0.0, 1.5):
            drawn = [pair.drawn(t, rng).x for _ in range(400)]
            path = pair.between(t)[0]
            for wanted, values in (
                (path.law, [side.tables.law for side in drawn]),
                (path.reward, [side.tables.reward for side in drawn]),
                (pair.x.visits, [side.visits for side in drawn]),
            ):
                error = np.std(values, axis=0) / 20
                assert (np.abs(np.mean(values, axis=0) - wanted) <= 5 * error + 0.005).all()


def test_calibrated_tests_are_right_on_average_under_equality() -> None:
    """The mean statistic of many equal pairs is what the calibration of a few expects, with a known side too."""
    for recordings, one_known in ((equal_garnets, False), (equal_moods, False), (equal_moods, True)):
        found: list[list[Floats]] = [[], []]
        for seed in range(150):
            rng = np.random.default_rng([31, seed])
            true, x, y = recordings(rng)
            pair = _Pair.of(true if one_known else x, y, None, 0.9, 1)
            test = pair.tests[recordings is equal_moods]
            found[0].append(np.array([test[0].sum(), test[1].sum()]))
            if seed < 15:
                effect = pair.calibrated(rng).effects[recordings is equal_moods]
                found[1].append(np.array([(effect * test[1]).sum(), test[1].sum()]))
        (T, df), (effects, tested) = (np.sum(part, axis=0) for part in found)
        assert effects / tested == pytest.approx(T / df, rel=0.02 if recordings is equal_garnets else 0.12)


def equal_garnets(rng: np.random.Generator) -> tuple[MDP, RecordedMDP, RecordedMDP]:
    """Few visits to each row, so that draws lack outcomes."""
    P = np.zeros((6, 4, 6))
    for s, a in itertools.product(range(6), range(4)):
        P[s, a, rng.choice(6, 3, replace=False)] = rng.dirichlet(np.ones(3))
    true = MDP(P, rng.random((6, 4)))
    return true, recorded(true, 500, rng), recorded(true, 500, rng)


def equal_moods(rng: np.random.Generator) -> tuple[MDP, RecordedMDP, RecordedMDP]:
    true = MDP([[[0.68, 0.32]], [[0.32, 0.68]]], [[0.2], [0.8]], initial=[0.5, 0.5])
    return true, moody(rng, 100), moody(rng, 100)


def visited(true: MDP, tried: Any, n: int, rng: np.random.Generator) -> RecordedMDP:
    """n steps from each tried action of each state, each an episode."""
    s, a = (np.repeat(part, n) for part in np.nonzero(tried))
    t = (true.transitions.cumsum(axis=2)[s, a] < rng.random((len(s), 1))).sum(axis=1)
    return RecordedMDP.from_transitions(
        s, a, true.rewards[s, a], t, truncated=np.ones(len(s), bool), initial=0, n_states=3, n_actions=2
    )


@pytest.mark.filterwarnings("ignore::somcot.UnseenStateWarning")
def test_the_upper_end_is_for_whatever_untried_actions_do() -> None:
    """No processes with these tables where actions were tried are farther apart; and value iteration agrees."""
    rng = np.random.default_rng(5)
    for seed in range(4):
        true = random_mdp(np.random.default_rng(seed), 3, 2)
        ends = float(true.rewards.min()) - 0.2, float(true.rewards.max()) + 0.1
        tried = [np.ones((3, 2), bool) for _ in range(2)]
        tried[0][1, 1] = tried[1][2, 0] = False
        if seed % 2:
            tried[1][1, 1] = False
        sides = [visited(true, part, 40, rng) for part in tried]
        x, y = sides
        policy = [[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]] if seed > 1 else None
        pair = _Pair.of(x, y, None if policy is None else np.array(policy), 0.8, 1)
        largest = pair.compared._replace(ends=ends).solve(*pair.tables).value
        # Untried actions lead to one of the states, or to two more that earn the ends forever.
        values = []
        fills = itertools.product(itertools.product(range(5), ends), repeat=int(sum((~part).sum() for part in tried)))
        for filled in itertools.islice(fills, 0, None, 1 if seed % 2 == 0 else 13):
            each, found = iter(filled), []
            for side, part in zip(sides, tried, strict=True):
                P, R = np.zeros((5, 2, 5)), np.array([[ends[0]] * 2] * 4 + [[ends[1]] * 2])
                P[:3, :, :3], R[:3] = side.mdp().transitions, side.mdp().rewards
                P[3, :, 3] = P[4, :, 4] = 1.0
                for s, a in np.argwhere(~part):
                    where, R[s, a] = next(each)
                    P[s, a] = np.eye(5)[where]
                found.append(MDP(P, R, initial=0))
            law = None if policy is None else [*policy, [0.5, 0.5], [0.5, 0.5]]
            values.append(distance(*found, discount=0.8, policy=law, threads=1).distance)
        assert max(values) <= largest + 1e-12
        assert largest == pytest.approx(largest_by_iteration(pair, ends, policy), abs=1e-6)
        assert pair.counted.value <= largest


def largest_by_iteration(pair: _Pair, ends: tuple[float, float], policy: Any) -> float:
    """Each pair of rewards that are free is at opposite ends; a free next state is a fourth, free forever."""
    ot = pytest.importorskip("ot")
    d, rows = np.zeros((4, 4)), []
    for tables, untried in zip(pair.tables, pair.compared.untried, strict=True):
        law, free = tables.law[:-1].reshape(3, 2, 3), untried.reshape(3, 2)
        mass = np.concatenate([np.where(free[..., None], 0.0, law), free[..., None]], axis=2)
        rows.append((np.where(free, 0.0, tables.reward.reshape(3, 2)), mass, free))
    for _ in range(80):
        new = np.zeros((4, 4))
        for s, t in itertools.product(range(4), repeat=2):
            for weights in np.eye(2) if policy is None else [None]:
                shown, laws, part = [], [], []
                for state, (reward, mass, free) in zip((s, t), rows, strict=True):
                    law = np.eye(4)[3:].repeat(2, axis=0) if state == 3 else mass[state]
                    share = np.array(policy[min(state, 2)]) if weights is None else weights
                    shown.append(0.0 if state == 3 else float(share @ reward[state]))
                    laws.append(share @ law)
                    part.append(1.0 if state == 3 else float(share @ free[state]))
                gap = max(
                    abs(shown[0] + part[0] * a - shown[1] - part[1] * b) for a, b in itertools.product(ends, repeat=2)
                )
                new[s, t] = max(new[s, t], 0.2 * gap + 0.8 * ot.emd2(*laws, d))
        d = new
    return float(d[0, 0])


@pytest.mark.filterwarnings("ignore::somcot.UnseenStateWarning")
def test_states_are_not_compared_by_actions_that_neither_side_tried() -> None:
    """Else they would be taken to stay and earn 0, which is far from rewards near 100."""
    rng = np.random.default_rng(8)
    true = MDP(random_mdp(rng, 3, 2).transitions, [[100.0, 101.0], [100.0, 102.0], [101.0, 100.0]])
    moved = MDP(random_mdp(rng, 3, 2).transitions, true.rewards)
    tried = np.array([[True, True], [True, False], [True, True]])
    x, y = (visited(side, tried, 200, rng) for side in (true, moved))
    result = distance(x, y, discount=0.9, confidence=0.9)
    assert result.plugin is not None
    assert result.plugin <= 2.0
    # The other action of that state, twice: then only what it does is compared.
    copies = [side.mdp() for side in (x, y)]
    tables = [(side.transitions.copy(), side.rewards.copy()) for side in copies]
    for P, R in tables:
        P[1, 1], R[1, 1] = P[1, 0], R[1, 0]
    filled = distance(*(MDP(P, R, initial=0) for P, R in tables), discount=0.9).distance
    assert result.plugin <= filled + 1e-12
    half, first = [[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]], [0, 0, 0]
    plugins = [distance(x, y, discount=0.9, policy=policy).plugin for policy in (half, first)]
    assert plugins[0] == pytest.approx(plugins[1], abs=1e-12)
    wider = distance(x, y, discount=0.9, confidence=0.9, reward_range=(0.0, 200.0))
    assert result.confidence_interval is not None
    assert wider.confidence_interval is not None
    assert wider.distance == result.distance
    assert wider.confidence_interval.low == result.confidence_interval.low
    assert wider.confidence_interval.high > 20.0 > result.confidence_interval.high
    with pytest.raises(ValueError, match="reward_range"):
        distance(x, y, discount=0.9, reward_range=(1.0, 0.0))
    with pytest.raises(ValueError, match="rewards from 100 to 101"):
        distance(x, y, discount=0.9, reward_range=(101.0, 200.0))


def test_what_transitions_earn_is_pooled_with_the_rows() -> None:
    """Rewards of next states follow the rows everywhere on the path; pooled apart, they contradicted these."""
    rng = np.random.default_rng(23)
    P, pay = rng.dirichlet(np.ones(4), size=(4, 2)), rng.integers(0, 3, size=(4, 2, 4)).astype(float)
    Q = 0.8 * P + 0.2 * rng.dirichlet(np.ones(4), size=(4, 2))
    x, y = (record(MDP(rows, (rows * pay).sum(axis=2)), 800, rng, outcome=pay) for rows in (P, Q))
    pair = _Pair.of(x, y, None, 0.9, 1)
    for t in (0.0, 0.5, 1.0, 1.5, 2.0):
        for law, reward in pair.between(t):
            total = reward + (law[:-1] * pair.paid).sum(axis=1)
            np.testing.assert_allclose(total, (law[:-1] * pay.reshape(8, 4)).sum(axis=1), atol=1e-12)
    # A draw has no other rewards than its own steps, which are exactly what their transitions pay.
    drawn = pair.drawn(1.0, rng).x
    np.testing.assert_allclose(drawn.tables.reward, pair.x.tables.reward, atol=1e-12)


def test_rewards_of_actions_alone_stay_with_them() -> None:
    rng = np.random.default_rng(24)
    P, R = rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2))
    x, y = (record(MDP(P, R), 500, rng) for _ in range(2))
    pair = _Pair.of(x, y, None, 0.9, 1)
    np.testing.assert_allclose(pair.paid, 0.0, atol=1e-12)
    np.testing.assert_allclose(pair.x.tables.reward.reshape(4, 2), R, atol=1e-12)
