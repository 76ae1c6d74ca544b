"""Real environments and datasets: episodes, ends, rewards and bins are what was recorded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.readers import Bins, from_env, from_minari
from tests.notes import noted

gym = pytest.importorskip("gymnasium")

POLE = Bins([0.0], [0.0], [-0.05, 0.05], [0.0])


def balance(observation: Any) -> int:
    return int(observation[2] + 0.5 * observation[3] > 0)


class Ladder(gym.Env):  # type: ignore[misc, name-defined]
    """Climb from 0 to 3, which ends the episode; the reward is the state left."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.steps = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        reward = float(self.state)
        self.state, self.steps = min(self.state + int(action), 3), self.steps + 1
        return self.state, reward, self.state == 3, self.limit is not None and self.steps >= self.limit, {}


def test_a_terminated_end_is_absorbing() -> None:
    samples = from_env(Ladder(), lambda observation: 1, n_steps=9)
    assert samples.states == (0, 1, 2, "terminated")
    assert from_env(Ladder(), lambda observation: 1, n_steps=9, terminal=False).states == (0, 1, 2, 3)
    assert np.asarray(samples.counts()).tolist() == [[0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [0, 0, 0, 0]]
    assert samples.terminated is not None
    assert samples.terminated.tolist() == [True, True, True]
    assert samples.terminal.tolist() == [False, False, False, True]
    assert samples.features is not None
    assert samples.features.tolist() == [0.0, 1.0, 2.0, 0.0]


def test_a_truncated_end_only_stops_the_episode() -> None:
    samples = from_env(Ladder(limit=2), lambda observation: 1, n_steps=6)
    assert samples.terminated is None
    assert not samples.terminal.any()
    assert np.asarray(samples.counts()).tolist() == [[0, 3, 0], [0, 0, 3], [0, 0, 0]]


def test_the_last_episode_may_be_cut_short() -> None:
    samples = from_env(Ladder(), lambda observation: 1, n_steps=4)
    assert samples.n_transitions == 4
    assert samples.terminated is not None
    assert samples.terminated.tolist() == [True, False]


def test_episodes_cut_short_are_advised_to_be_longer() -> None:
    """`from_env` has no `end`, and its finished episodes have a final state."""
    chances = np.random.default_rng(0)
    cut = from_env(Ladder(limit=2), lambda observation: int(chances.integers(2)), n_steps=40, rng=0)
    with pytest.warns(somcot.UnseenStateWarning, match="absorbing: 2; record longer, or pass end='left', say, if"):
        cut.chain()


def test_cart_pole_side_by_side() -> None:
    samples = from_env("CartPole-v1", balance, n_steps=2000, n_envs=4, bins=POLE, rng=3)
    assert samples.n_transitions == 2000
    again = from_env("CartPole-v1", balance, n_steps=2000, n_envs=4, bins=POLE, rng=3)
    np.testing.assert_array_equal(samples.now, again.now)
    assert samples.features is not None
    assert set(samples.features[:-1].tolist()) == {1.0}


def test_seeds_that_follow_each_other_share_no_environment() -> None:
    first, second = (
        from_env("Pendulum-v1", lambda seen: [0.0], n_steps=1600, n_envs=8, rng=rng, vectors=True) for rng in (0, 1)
    )
    starts = [{tuple(episode[0]) for episode in part.episodes} for part in (first, second)]
    assert len(starts[0]) == 8
    assert starts[0].isdisjoint(starts[1])


def test_cart_pole_falls_at_random() -> None:
    samples = from_env("CartPole-v1", None, n_steps=1000, bins=POLE, rng=0)
    assert samples.terminated is not None
    assert samples.terminated.sum() >= samples.n_episodes - 8
    assert samples.terminal[samples.states.index("terminated")]
    transition = samples.chain().transition
    end = samples.states.index("terminated")
    assert isinstance(transition, np.ndarray)
    assert transition[end, end] == 1.0


def test_pendulum_only_truncates_and_covers_its_bounds() -> None:
    samples = from_env(
        "Pendulum-v1", lambda observation: [0.0], n_steps=3000, n_envs=5, bins=[3, 3, 5], rng=0, env_options={"g": 9.8}
    )
    assert samples.terminated is None
    assert samples.n_episodes == 15
    assert all(isinstance(label, tuple) and len(label) == 3 for label in samples.states)
    assert any("[1.6, 4.8)" in str(label) for label in samples.states)


def test_policies_of_every_kind_agree() -> None:
    class Model:
        def predict(self, observations: Any, deterministic: bool) -> tuple[Any, None]:
            assert deterministic
            return (observations[:, 2] + 0.5 * observations[:, 3] > 0).astype(int), None

    def batch(observations: Any) -> Any:
        return observations[:, 2] + 0.5 * observations[:, 3] > 0

    options: dict[str, Any] = {"n_steps": 300, "n_envs": 3, "bins": POLE, "rng": 1}
    one = from_env("CartPole-v1", balance, **options)
    for policy, batched in ((Model(), False), (batch, True)):
        np.testing.assert_array_equal(one.now, from_env("CartPole-v1", policy, batched=batched, **options).now)


def test_transform_turns_observations_before_binning() -> None:
    def angle(observations: Any) -> Any:
        return np.arctan2(observations[:, 1], observations[:, 0])

    samples = from_env("Pendulum-v1", None, n_steps=400, transform=angle, bins=Bins([-1.5, 0.0, 1.5]), rng=0)
    assert set(samples.states) <= {"(-inf, -1.5)", "[-1.5, 0)", "[0, 1.5)", "[1.5, inf)"}


def test_refused() -> None:
    with pytest.raises(ValueError, match="observations are continuous"):
        from_env("CartPole-v1", balance, n_steps=10)
    with pytest.raises(ValueError, match="'NoSuchEnv-v0' cannot be made"):
        from_env("NoSuchEnv-v0", balance)
    with pytest.raises(TypeError, match="expected a Gymnasium environment"):
        from_env(3, balance)
    with pytest.raises(TypeError, match="policy: found int"):
        from_env("CartPole-v1", 3, bins=POLE)
    with pytest.raises(ValueError, match=r"policy: returned actions of shape \(2,\)"):
        from_env("CartPole-v1", lambda observation: [0, 1], bins=POLE)
    with pytest.raises(TypeError, match=r"policy: returned \[None\].*int64"):
        from_env(Ladder(), lambda observation: None)
    with pytest.raises(TypeError, match=r"policy: returned \[0.5\].*int64"):
        from_env(Ladder(), lambda observation: 0.5)
    with pytest.raises(TypeError, match="batched: found 'no'"):
        from_env(Ladder(), batched="no")


@pytest.mark.parametrize("said", [None, 1, (1, 2, 3)])
def test_a_model_that_predicts_nothing(said: Any) -> None:
    with pytest.raises(TypeError, match=r"policy: predict\(\) returned"):
        from_env(Ladder(), SimpleNamespace(predict=lambda observations, deterministic: said))


@pytest.mark.parametrize(
    "space",
    [gym.spaces.Graph(gym.spaces.Discrete(3), None), gym.spaces.Sequence(gym.spaces.Discrete(3)), gym.spaces.Text(3)],
    ids=["Graph", "Sequence", "Text"],
)
def test_observations_without_a_shape_are_refused(space: Any) -> None:
    class Loose(Ladder):
        observation_space = space

        def reset(self, **options: Any) -> Any:
            return self.observation_space.sample(), {}

        def step(self, action: int) -> Any:
            return self.observation_space.sample(), 0.0, False, False, {}

    with pytest.raises(ValueError, match=f"env: observations .*{type(space).__name__} space"):
        from_env(Loose(), n_steps=5)


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        (gym.spaces.Dict({"place": gym.spaces.Box(0, 1, (2,)), "fuel": gym.spaces.Discrete(3)}), "place"),
        (gym.spaces.Tuple([gym.spaces.Box(0, 1, (2,)), gym.spaces.Discrete(3)]), "2 parts"),
    ],
    ids=["Dict", "Tuple"],
)
def test_observations_of_several_parts_are_refused(space: Any, parts: str) -> None:
    class Parted(Ladder):
        observation_space = space

        def reset(self, **options: Any) -> Any:
            return self.observation_space.sample(), {}

        def step(self, action: int) -> Any:
            return self.observation_space.sample(), 0.0, False, False, {}

    kind = type(space).__name__
    for options in ({"vectors": True}, {"bins": 3}, {}):
        with pytest.raises(ValueError, match=rf"env: observations are of a {kind} space \(.*{parts}.*FlattenObs"):
            from_env(Parted(), n_steps=5, **options)
    flat = gym.wrappers.FlattenObservation(Parted())
    assert from_env(flat, n_steps=5, rng=0, vectors=True).d == 5
    recorded = SimpleNamespace(observation_space=space, iterate_episodes=lambda: iter(()))
    with pytest.raises(ValueError, match=f"dataset: observations are of a {kind} space"):
        from_minari(recorded, vectors=True)


def test_several_whole_numbers_are_a_label() -> None:
    """Blackjack: (sum, card of the dealer, usable ace)."""
    samples = from_env("Blackjack-v1", lambda seen: int(seen[0] < 17), n_steps=300, rng=0, terminal=False)
    assert all(isinstance(label, tuple) and len(label) == 3 for label in samples.states)
    sums = np.array(samples.states)[:, 0]
    left = np.flatnonzero(np.asarray(samples.counts()).sum(axis=1))
    assert samples.n_transitions == 300
    assert sums.min() >= 4
    stays = np.asarray(samples.counts()).diagonal()[left] == np.asarray(samples.counts()).sum(axis=1)[left]
    assert ((sums[left] >= 17) == stays).all()  # who holds ends where they are, who does not gets a card


def test_actions_of_several_kinds_are_for_chance_alone() -> None:
    class Both(Ladder):
        action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(2)])

        def step(self, action: Any) -> Any:
            return super().step(action[0])

    assert from_env(Both(), n_steps=5, rng=0).n_transitions == 5
    with pytest.raises(TypeError, match="policy: the actions are of a Tuple space"):
        from_env(Both(), lambda observation: (1, 1), n_steps=5)


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two recorded episodes of the ladder: one reached the top, one was stopped."""
    minari = pytest.importorskip("minari")
    buffer = pytest.importorskip("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = [
        buffer.EpisodeBuffer(
            id=k, observations=np.array(states), actions=np.ones(len(states) - 1, int),
            rewards=np.array(states[:-1], float), terminations=np.array([False] * (len(states) - 2) + [ended]),
            truncations=np.array([False] * (len(states) - 2) + [not ended]), infos={},
        )
        for k, (states, ended) in enumerate([([0, 1, 2, 3], True), ([0, 0, 1], False)])
    ]  # fmt: skip
    return minari.create_dataset_from_buffers(
        "ladder/test-v0", episodes, observation_space=Ladder.observation_space, action_space=Ladder.action_space
    )


@pytest.mark.filterwarnings("ignore")
def test_minari_dataset_by_object_and_id(dataset: Any) -> None:
    for given in (dataset, "ladder/test-v0"):
        samples = from_minari(given)
        assert samples.states == (0, 1, 2, "terminated")
        assert np.asarray(samples.counts()).tolist() == [[1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
        assert samples.terminated is not None
        assert samples.terminated.tolist() == [True, False]
        assert samples.features is not None
        assert samples.features.tolist() == [0.0, 1.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="not on this machine"):
        from_minari("ladder/other-v0")


@pytest.mark.filterwarnings("ignore")
def test_minari_dataset_of_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    buffer = pytest.importorskip("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    points = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    episodes = [
        buffer.EpisodeBuffer(
            id=k, observations=run, actions=np.zeros(4, int), rewards=np.zeros(4), infos={},
            terminations=np.array([False, False, False, k == 0]), truncations=np.array([False, False, False, k == 1]),
        )
        for k, run in enumerate(points)
    ]  # fmt: skip
    space = gym.spaces.Box(-9, 9, (3,))
    minari.create_dataset_from_buffers(
        "points/test-v0", episodes, observation_space=space, action_space=gym.spaces.Discrete(1)
    )
    found = from_minari("points/test-v0", vectors=True)
    np.testing.assert_array_equal(np.stack(found.episodes), points)
    assert found.terminated.tolist() == [True, False]
    assert found.rewards is not None
    assert found.actions is None
    with_actions = from_minari("points/test-v0", vectors=True, actions=True)
    assert with_actions.actions is not None
    assert with_actions.actions.shape == (8, 1)
    with pytest.raises(ValueError, match="or vectors=True for Trajectories"):
        from_minari("points/test-v0")


@pytest.mark.filterwarnings("ignore")
def test_minari_dataset_of_several_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    buffer = pytest.importorskip("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    parts = np.array([4, 9, 15, 15]), np.array([1, 1, 1, 1])
    episode = buffer.EpisodeBuffer(
        id=0, observations=parts, actions=np.zeros(3, int), rewards=np.zeros(3), infos={},
        terminations=np.array([False, False, True]), truncations=np.zeros(3, bool),
    )  # fmt: skip
    space = gym.spaces.Tuple([gym.spaces.Discrete(32), gym.spaces.Discrete(2)])
    minari.create_dataset_from_buffers(
        "cards/test-v0", [episode], observation_space=space, action_space=gym.spaces.Discrete(2)
    )
    found = from_minari("cards/test-v0", terminal=False)
    assert found.states == ((4, 1), (9, 1), (15, 1))
    assert np.asarray(found.counts()).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_two_policies_can_be_compared() -> None:
    up, idle = (from_env(Ladder(), policy, n_steps=60) for policy in (lambda o: 1, lambda o: 0))
    cost = somcot.costs.labels(up.states, idle.states)
    value = somcot.distance(up.chain(), idle.chain(), cost, discount=0.5).distance
    assert value == pytest.approx(0.5)  # together at the start, apart ever after


def test_actions_are_counted_into_a_decision_process() -> None:
    taken = iter([0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1])
    process = from_env(Ladder(), lambda observation: next(taken), n_steps=10, actions=True)
    assert process.states == (0, 1, 2, "terminated")
    assert process.actions == (0, 1)
    np.testing.assert_array_equal(process.transitions[:, 0], np.eye(4))
    np.testing.assert_array_equal(process.transitions[:, 1], np.eye(4)[[1, 2, 3, 3]])
    np.testing.assert_array_equal(process.rewards, [[0, 0], [1, 1], [2, 2], [0, 0]])
    np.testing.assert_array_equal(process.initial, [1, 0, 0, 0])


def test_actions_that_nobody_tried_are_said() -> None:
    with noted("untried-actions", somcot.UnseenStateWarning, share=(3, 8), state="0", action=0):
        process = from_env(Ladder(), lambda observation: 1, n_steps=9, actions=True).mdp()
    np.testing.assert_array_equal(process.transitions[:, 0], np.eye(4))
    assert process.rewards[:3, 0].tolist() == [0.0, 0.0, 0.0]


def test_a_frozen_lake_that_was_walked_is_the_lake_of_the_table() -> None:
    from somcot.readers import from_tabular

    walked = from_env("FrozenLake-v1", None, n_steps=20_000, n_envs=4, actions=True, rng=0)
    table = from_tabular("FrozenLake-v1")
    seen = [table.states.index(state) for state in walked.states]
    assert set(walked.states) == {*range(16), "terminated"} - {5, 7, 11, 12, 15}  # holes and goal are left at once
    often = [walked.states.index(state) for state in (0, 1, 2, 4, 8)]
    expected = table.transitions[np.ix_(seen, range(4), seen)]
    np.testing.assert_allclose(walked.transitions[often], expected[often], atol=0.1)
    assert walked.rewards[walked.states.index(14)].max() > 0.1
    assert (walked.rewards[often] == 0).all()


def test_actions_that_are_not_discrete() -> None:
    with pytest.raises(ValueError, match=r"env: actions are Box.*expected a discrete space"):
        from_env("Pendulum-v1", None, n_steps=10, bins=3, actions=True)
    with pytest.raises(TypeError, match="actions: found 'yes'"):
        from_env(Ladder(), None, n_steps=10, actions="yes")  # type: ignore[call-overload]


def test_vectors_keep_rewards_and_actions() -> None:
    taken: list[float] = []

    def act(observation: Any) -> list[float]:
        taken.append(float(np.sign(observation[1])))
        return taken[-1:]

    data = from_env("Pendulum-v1", act, n_steps=40, n_envs=1, rng=0, vectors=True, actions=True)
    assert data.actions is not None
    assert data.rewards is not None
    np.testing.assert_array_equal(data.actions[:, 0], taken)
    angle = np.arctan2(data.now[:, 1], data.now[:, 0])
    expected = -(angle**2 + 0.1 * data.now[:, 2] ** 2 + 0.001 * data.actions[:, 0] ** 2)
    np.testing.assert_allclose(data.rewards, expected, atol=1e-4)


def test_bins_do_not_depend_on_the_recording() -> None:
    """Without bounds two recordings would have different edges, hence no state in common."""
    with pytest.raises(ValueError, match=r"bins: coordinate 1 of the observations of CartPole-v1 has no bounds"):
        from_env("CartPole-v1", balance, n_steps=50, bins=7, rng=0)
    with pytest.raises(ValueError, match="bins: coordinate 0"):
        from_env("Pendulum-v1", None, n_steps=50, bins=7, rng=0, transform=lambda seen: seen[:, 2])
    one, other = (from_env("Pendulum-v1", None, n_steps=400, bins=3, rng=seed) for seed in (0, 1))
    assert len(set(one.states) & set(other.states)) > 10


FIVE = [
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake8x8-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {"is_rainy": True}),
]


@pytest.mark.parametrize(("name", "options"), FIVE)
def test_readers_agree_on_the_end_of_an_episode(name: str, options: dict[str, Any]) -> None:
    """A roll-out under a policy has the rows of the table under that policy, among them those of the end."""
    from somcot.mdp import on_policy
    from somcot.readers import from_tabular

    table = from_tabular(name, env_options=options)
    n, n_actions = table.n_states - 1, table.n_actions
    rng = np.random.default_rng(5)
    policy = 0.5 * np.eye(n_actions)[rng.integers(n_actions, size=n)] + 0.5 / n_actions
    if not name.startswith("Frozen"):  # mostly on the way to the goal, so that episodes end
        best = somcot.mdp.optimal(table, discount=0.9).policy
        policy = 0.2 * policy + 0.8 * np.eye(n_actions)[[int(str(best[s])) for s in range(n)]]
    steps = 30_000
    draws = iter(rng.random(4 * steps))

    def act(state: Any) -> int:
        return int(np.searchsorted(np.cumsum(policy[int(state)])[:-1], next(draws)))

    samples = from_env(name, act, n_steps=steps, n_envs=4, rng=0, env_options=options)
    chain = on_policy(table, np.vstack([policy, np.eye(n_actions)[0]]))
    place = [table.states.index(state) for state in samples.states]
    assert samples.states[-1] == "terminated"
    counts = np.zeros((len(place), len(place)))
    np.add.at(counts, (samples.now, samples.following), 1)
    expected = np.asarray(chain.transition)[np.ix_(place, place)]
    assert not counts[expected == 0].any()
    visits = counts.sum(axis=1, keepdims=True)
    apart = np.abs(counts - visits * expected) / np.sqrt(visits * expected * (1 - expected) + 1.0)
    assert apart.max() < 6.0  # standard errors, over at most some thousand entries
    assert counts[:, -1].sum() > 20
    assert samples.features is not None
    assert chain.features is not None
    often = visits[:, 0] > 500
    np.testing.assert_allclose(samples.features[often], chain.features[place][often], atol=0.25 * np.ptp(table.rewards))


def test_two_policies_are_as_far_apart_by_both_readers() -> None:
    """The quickstart's policies: 0.806 by one reader and 0.644 by the other before there was one convention."""
    from somcot.mdp import on_policy
    from somcot.readers import from_tabular

    careful = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
    bold = [1, 2, 1, 0, 1, 0, 1, 0, 2, 1, 1, 0, 0, 2, 2, 0]
    table = from_tabular("FrozenLake-v1")
    chains = [on_policy(table, [*plan, 0]) for plan in (careful, bold)]
    exact = somcot.distance(chains[0], chains[1], discount=0.95).distance
    sides = [
        from_env("FrozenLake-v1", lambda field, plan=plan: plan[field], n_steps=20_000, rng=0)
        for plan in (careful, bold)
    ]
    assert exact == pytest.approx(0.644, abs=0.001)
    assert somcot.distance(sides[0], sides[1], discount=0.95).distance == pytest.approx(exact, abs=0.03)
