"""Codes learned from replay transitions: on a ring whose positions are seen in two ways each."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from somcot.plumbing.errors import DataWarning  # noqa: E402
from somcot.readers import from_replay_buffer  # noqa: E402
from somcot.torch import StateAbstraction  # noqa: E402

QUICK: dict[str, Any] = {"n_codes": 10, "steps": (250, 120), "rounds": 2, "rng": 1}


def ring(n: int = 3000, seed: int = 0, *, ends: bool = False) -> tuple[dict[str, Any], Any]:
    """Steps on a ring of five, reward at 0, noisy one-hot views; with `ends`, position 3 ends an episode."""
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=n)
    s, t = np.zeros(n, int), np.zeros(n, int)
    at = 0
    for i in range(n):
        s[i], t[i] = at, (at + 2 * a[i] - 1) % 5
        at = 0 if ends and t[i] == 3 else t[i]

    def view(states: Any) -> Any:
        seen = np.eye(10, dtype=np.float32)[2 * states + rng.integers(2, size=n)]
        return seen + 0.1 * rng.normal(size=seen.shape).astype(np.float32)

    now, later = view(s), view(t)
    if not ends:
        later[:-1] = now[1:]
    steps = {"observations": now, "actions": a, "rewards": (s == 0) * 1.0, "next_observations": later}
    return (steps | {"terminated": t == 3} if ends else steps), s


@pytest.fixture(scope="module")
def learned() -> tuple[StateAbstraction, dict[str, Any], Any]:
    steps, s = ring()
    return StateAbstraction(discount=0.8, embedding=4, **QUICK).fit(steps), steps, s


def truth(discount: float) -> Any:
    from somcot import mdp

    P = np.zeros((5, 2, 5))
    for s in range(5):
        P[s, 0, (s - 1) % 5] = P[s, 1, (s + 1) % 5] = 1
    R = np.zeros((5, 2))
    R[0] = 1
    return mdp.MDP(P, R)


def test_the_metric_is_that_of_the_hidden_states(learned: Any) -> None:
    from somcot import mdp

    abstraction, steps, s = learned
    exact = mdp.metric(mdp.MDP(truth(0.8).transitions.mean(1)[:, None], truth(0.8).rewards[:, :1]), discount=0.8)
    found = abstraction.distance(steps["observations"][:300], steps["observations"][:300])
    assert np.abs(found - exact[np.ix_(s[:300], s[:300])]).mean() < 0.05
    assert np.array_equal(found, found.T)
    assert abstraction.held_out.next_code > abstraction.held_out.marginal + 0.5
    assert "held-out" in repr(abstraction)


def test_over_actions_and_under_a_given_policy(learned: Any) -> None:
    from somcot import mdp

    abstraction, steps, s = learned
    every = abstraction.metric_under(None)
    assert (every >= abstraction.metric_under("recorded") - 0.05).all()
    codes = abstraction.encode(steps["observations"])
    exact = mdp.metric(truth(0.8), discount=0.8)
    assert np.abs(every[np.ix_(codes[:200], codes[:200])] - exact[np.ix_(s[:200], s[:200])]).mean() < 0.1
    k = len(abstraction.counts) - 1
    right = np.tile([0.0, 1.0], (k, 1))
    assert abstraction.metric_under(right).shape == (k + 1, k + 1)
    with pytest.raises(ValueError, match="policy: found shape"):
        abstraction.metric_under(right[:2])
    with pytest.raises(ValueError, match="policy: found a negative entry"):
        abstraction.metric_under(right - 0.5)


def test_the_embedding_follows_the_metric(learned: Any) -> None:
    abstraction, steps, _ = learned
    points = abstraction.embed(steps["observations"][:200])
    assert points.shape == (200, 4)
    apart = np.abs(points[:, None] - points[None]).sum(-1)
    found = abstraction.distance(steps["observations"][:200], steps["observations"][:200])
    assert np.corrcoef(apart.ravel(), found.ravel())[0, 1] > 0.9


def test_a_fitted_one_can_be_pickled(learned: Any) -> None:
    abstraction, steps, _ = learned
    # Refined codes, whose features are predictions of a network, not the encoder's own.
    assert abstraction.held_out != abstraction.history[0]
    loaded = pickle.loads(pickle.dumps(abstraction))
    seen = steps["observations"][:500]
    np.testing.assert_array_equal(loaded.encode(seen), abstraction.encode(seen))
    np.testing.assert_array_equal(loaded.embed(seen), abstraction.embed(seen))
    np.testing.assert_array_equal(loaded.metric, abstraction.metric)
    assert repr(loaded) == repr(abstraction)


def test_codes_are_states_of_a_recorded_process(learned: Any) -> None:
    abstraction, steps, _ = learned
    with pytest.warns(DataWarning, match="terminated"):  # the steps have no flags of ends
        data = from_replay_buffer(steps, encode=abstraction.encode)
    np.testing.assert_array_equal(data.outcomes.number.sum(), abstraction.counts.sum())
    visits = abstraction.counts.sum(axis=2)
    np.testing.assert_array_equal(data.visits, visits[[int(str(code)) for code in data.states]])


def rewarded_key(n: int = 4000, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """A line of five with a key: action 2 takes it at 0, and at 4 turns it into a rare reward."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, size=n, p=[0.45, 0.45, 0.1])
    s, rewards = np.zeros(n + 1, int), np.zeros(n)
    for i in range(n):
        key, x = divmod(s[i], 5)
        if a[i] < 2:
            x = min(max(x + 2 * a[i] - 1, 0), 4)
        elif x == 4:
            key, rewards[i] = 0, key
        elif x == 0:
            key = 1
        s[i + 1] = 5 * key + x
    seen = np.eye(10, dtype=np.float32)[s] + 0.2 * rng.normal(size=(n + 1, 10)).astype(np.float32)
    return {"observations": seen[:-1], "actions": a, "rewards": rewards, "next_observations": seen[1:]}, s[:-1]


def test_a_rare_reward_reaches_far_states_round_by_round() -> None:
    """Codes must not all go to the state that is rewarded, and one round of refinement is not enough."""
    steps, s = rewarded_key()
    learned = StateAbstraction(16, discount=0.8, steps=(150, 120), rng=0).fit(steps)
    counts = np.zeros((len(learned.counts), 10))
    np.add.at(counts, (learned.encode(steps["observations"]), s), 1.0)
    assert counts.max(axis=1).sum() / counts.sum() > 0.95
    # Two rounds without progress end the refinement, and the best one is kept.
    assert learned.held_out == max(learned.history, key=lambda found: found.information)
    assert len(learned.history) <= 11


@pytest.mark.parametrize(("steps", "kept"), [((250, 3), [0]), ((5, 60), [1, 2, 3, 4])])
def test_the_codes_kept_are_those_that_were_counted(steps: tuple[int, int], kept: list[int]) -> None:
    """Also if the round kept is not the last: its network must not go on learning with the trunk."""
    recorded, _ = ring(800)
    learned = StateAbstraction(**{**QUICK, "steps": steps, "rounds": 4}).fit(recorded)
    assert learned.history.index(learned.held_out) in kept
    codes = learned.encode(recorded["observations"])
    np.testing.assert_array_equal(np.bincount(codes, minlength=len(learned.counts)), learned.counts.sum(axis=(1, 2)))


def test_equal_seeds_and_a_network_of_ones_own() -> None:
    steps, _ = ring(600)
    network = torch.nn.Sequential(torch.nn.Linear(10, 24), torch.nn.ReLU())
    before = [p.clone() for p in network.parameters()]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = StateAbstraction(encoder=network, **{**QUICK, "steps": (40, 20)}).fit(steps)
    assert torch.equal(torch.rand(3), expected)  # the global random state is left alone
    other = StateAbstraction(encoder=network, **{**QUICK, "steps": (40, 20)}).fit(steps)
    np.testing.assert_array_equal(one.encode(steps["observations"]), other.encode(steps["observations"]))
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_the_end_of_an_episode_is_a_state() -> None:
    steps, _ = ring(1500, ends=True)
    abstraction = StateAbstraction(**{**QUICK, "steps": (60, 40)}).fit(steps)
    assert abstraction.counts[:, :, -1].sum() == steps["terminated"].sum()
    assert (abstraction.kernel[-1, :, -1] == 1).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"actions": None}, ValueError, "transitions: found no actions"),
        ({"rewards": np.full(3000, np.nan)}, ValueError, "transitions: rewards: entry 0 is nan"),
        ({"actions": np.linspace(0, 1, 3000)}, ValueError, "actions: entry 1 is"),
        ({"actions": np.zeros(7, int)}, ValueError, "transitions: found actions of shape"),
        ({"rewards": np.zeros((3000, 2))}, ValueError, "transitions: found rewards of shape"),
        ({"terminated": np.zeros(7)}, ValueError, "transitions: found terminated of shape"),
        ({"next_observations": np.zeros((3000, 9))}, ValueError, "transitions: found next_observations of shape"),
        ({"observations": np.zeros((0, 10))}, ValueError, "transitions: found 0 steps"),
        ({"observations": np.full((3000, 10), np.inf)}, ValueError, "transitions: observations: row 0 is not finite"),
    ],
)
def test_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    steps, _ = ring()
    with pytest.raises(error, match=message):
        StateAbstraction(**QUICK).fit({**steps, **change})


def test_refused_options() -> None:
    with pytest.raises(ValueError, match="over: found 'all'"):
        StateAbstraction(over="all")
    with pytest.raises(TypeError, match="encoder: found int"):
        StateAbstraction(encoder=3)
    with pytest.raises(ValueError, match="steps: found 100"):
        StateAbstraction(steps=100)  # type: ignore[arg-type]
    steps, _ = ring(60)
    for network in (torch.nn.Linear(7, 4), torch.nn.Flatten(0), torch.nn.Unflatten(1, (2, 5))):
        with pytest.raises(ValueError, match="encoder: "):
            StateAbstraction(encoder=network, **QUICK).fit(steps)
    with pytest.raises(ValueError, match="not fitted yet"):
        StateAbstraction().encode(np.zeros((1, 10)))
