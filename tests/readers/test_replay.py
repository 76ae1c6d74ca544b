"""Replay buffers of several packages hold the same steps; what is read of them is the same process."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from somcot.mdp import RecordedMDP
from somcot.readers import Bins, from_replay_buffer
from tests.notes import noted

# Two environments, five steps each: (state, action, reward, next state, terminated, truncated)
NO = (False, False)
ONE = [(0, 1, 0.0, 1, *NO), (1, 1, 1.0, 2, True, False), (0, 0, 0.0, 0, False, True), (0, 1, 0.0, 1, *NO),
       (1, 0, 0.5, 0, *NO)]  # fmt: skip
TWO = [(0, 0, 0.0, 0, *NO), (0, 1, 0.0, 1, *NO), (1, 1, 1.0, 2, True, False), (0, 0, 0.0, 0, *NO), (0, 1, 2.0, 1, *NO)]


def columns(steps: list[Any]) -> list[Any]:
    return [np.array(part) for part in zip(*steps, strict=True)]


def expected(*runs: list[Any]) -> RecordedMDP:
    """All runs after each other, each cut at its end."""
    steps = [(*step[:5], step[5] or (k == len(run) - 1 and not step[4])) for run in runs for k, step in enumerate(run)]
    s, a, r, t, ended, cut = columns(steps)
    return RecordedMDP.from_transitions(s, a, r, t, terminated=ended, truncated=cut)


def same(found: RecordedMDP, wanted: RecordedMDP) -> None:
    assert found.states == wanted.states
    assert found.actions == wanted.actions
    for part in ("now", "action", "following", "reward", "offsets"):
        np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part), err_msg=part)


def ring(size: int, *, once: bool = False) -> Any:
    """The layout of Stable-Baselines3: (size, n_envs, ...); `once` stores next observations in the next row."""
    buffer = SimpleNamespace(pos=0, full=False)
    buffer.observations, buffer.next_observations = np.zeros((2, size, 2, 1), np.int64)
    buffer.actions = np.zeros((size, 2, 1), np.int64)
    buffer.rewards, buffer.dones, buffer.timeouts = np.zeros((3, size, 2), np.float32)
    for one, two in zip(ONE, TWO, strict=True):
        both, at = (one, two), buffer.pos
        buffer.observations[at, :, 0] = [step[0] for step in both]
        if once:
            buffer.observations[(at + 1) % size, :, 0] = [step[3] for step in both]
        else:
            buffer.next_observations[at, :, 0] = [step[3] for step in both]
            buffer.timeouts[at] = [step[5] for step in both]
        buffer.actions[at, :, 0] = [step[1] for step in both]
        buffer.rewards[at] = [step[2] for step in both]
        buffer.dones[at] = [step[4] or step[5] for step in both]
        buffer.pos = (at + 1) % size
        buffer.full = buffer.full or buffer.pos == 0
    if once:
        del buffer.next_observations
    return buffer


def test_a_ring_of_two_environments() -> None:
    same(from_replay_buffer(ring(8)), expected(ONE, TWO))


def test_a_ring_that_has_been_overwritten_is_read_from_its_oldest_step() -> None:
    same(from_replay_buffer(ring(4)), expected(ONE[1:], TWO[1:]))


def test_a_ring_that_stores_observations_once() -> None:
    """Without timeouts every end counts as terminated; the row that was overwritten last is no step any more."""
    ended = [[(*step[:4], step[4] or step[5], False) for step in run] for run in (ONE, TWO)]
    same(from_replay_buffer(ring(8, once=True)), expected(*ended))
    same(from_replay_buffer(ring(4, once=True)), expected(*(run[2:] for run in ended)))


def test_episodes_of_d3rlpy() -> None:
    episodes = [
        SimpleNamespace(observations=np.array([[0], [1]]), actions=np.array([[1], [1]]),
                        rewards=np.array([[0.0], [1.0]]), terminated=True),
        SimpleNamespace(observations=np.array([[0], [0], [1]]), actions=np.array([[0], [1], [0]]),
                        rewards=np.zeros((3, 1)), terminated=False),
    ]  # fmt: skip
    for buffer in (episodes, SimpleNamespace(episodes=episodes)):
        with noted("last-step-unknown", about="buffer", share=(1, 2)):
            found = from_replay_buffer(buffer)
        same(found, expected(ONE[:2], [(0, 0, 0.0, 0, False, False), (0, 1, 0.0, 1, False, False)]))


def test_a_mapping_and_the_nested_one_of_torchrl() -> None:
    s, a, r, t, ended, cut = columns(ONE)
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    flat = dict(zip(names, (s, a, r, t, ended, cut), strict=True))
    same(from_replay_buffer(flat), expected(ONE))
    for after in ("obs_next", "obs2"):  # Tianshou, Spinning Up
        short = dict(zip(("obs", "act", "rew", after, "terminated", "truncated"), flat.values(), strict=True))
        same(from_replay_buffer(short), expected(ONE))
    later = {"observation": t[:, None], "reward": r[:, None], "terminated": ended[:, None], "truncated": cut[:, None]}
    nested = {"observation": s[:, None], "action": np.eye(2, dtype=np.int64)[a], "next": later}
    same(from_replay_buffer(nested), expected(ONE))
    # Its environments also store the flags of the observation before the step, of which none is ever set.
    before = dict.fromkeys(("done", "terminated", "truncated"), np.zeros((len(s), 1), bool))
    same(from_replay_buffer(nested | before), expected(ONE))
    both = [np.stack([one, two]) for one, two in zip(columns(ONE), columns(TWO), strict=True)]
    later = dict(
        zip(
            ("observation", "reward", "terminated", "truncated"),
            (both[k][..., None] for k in (3, 2, 4, 5)),
            strict=True,
        )
    )
    same(from_replay_buffer({"observation": both[0][..., None], "action": both[1], "next": later}), expected(ONE, TWO))


def test_ends_are_flags_of_either_kind_and_missing_ones_are_noted() -> None:
    s, a, r, t, ended, cut = columns(ONE)
    steps = {"observations": s, "actions": a, "rewards": r, "next_observations": t}
    same(from_replay_buffer({**steps, "dones": ended | cut, "timeouts": cut}), expected(ONE))
    terminal = [(*step[:4], step[4] or step[5], False) for step in ONE]
    same(from_replay_buffer({**steps, "dones": (ended | cut)[:, None]}), expected(terminal))
    with noted("ends-not-stored", about="buffer"):
        found = from_replay_buffer(steps)
    assert "terminated" not in found.states
    with pytest.raises(ValueError, match="buffer: it has 4 terminated and 5 rewards"):
        from_replay_buffer({**steps, "terminals": ended[1:]})


def test_episodes_of_one_length_may_have_been_cut_off() -> None:
    done = np.tile([False, False, True], 4)
    states = np.arange(12) % 3
    steps = {"observations": states, "actions": 0 * states, "rewards": 0.0 * states, "next_observations": states + 1}
    with noted("ends-at-one-length", about="buffer", n=4, length=3):
        from_replay_buffer({**steps, "dones": done})
    # Flags that tell the two apart, and other lengths, leave nothing to say.
    from_replay_buffer({**steps, "dones": done, "timeouts": done})
    done[1] = True
    from_replay_buffer({**steps, "dones": done})


def test_minari_episodes() -> None:
    episodes = [
        SimpleNamespace(observations=np.array([0, 1, 2]), actions=np.array([1, 1]), rewards=np.array([0.0, 1.0]),
                        terminations=np.array([False, True]), truncations=np.array([False, False])),
        SimpleNamespace(observations=np.array([0, 0]), actions=np.array([0]), rewards=np.array([0.0]),
                        terminations=np.array([False]), truncations=np.array([True])),
    ]  # fmt: skip
    same(from_replay_buffer(SimpleNamespace(iterate_episodes=lambda: iter(episodes))), expected(ONE[:3]))


def test_states_are_what_encode_makes_of_observations() -> None:
    s, a, r, t, ended, cut = columns(ONE)
    steps = {"obs": s + 0.25, "action": a, "reward": r, "next_obs": t + 0.25, "terminated": ended, "truncated": cut}
    same(from_replay_buffer(steps, encode=Bins([1.0, 2.0])), expected(ONE))
    named = from_replay_buffer(steps, encode=lambda seen: np.where(seen < 1, "low", "high"))
    assert named.states == ("high", "low", "terminated")
    assert named.visits.tolist() == [[1, 1], [1, 2], [0, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": [0.5, 1.0]}, "buffer: observation 0"),
        ({"action": [0.5, 1.0]}, "buffer: actions such as"),
        ({"reward": [np.nan, 1.0]}, "rewards: entry 0"),
        ({"reward": [0.0]}, "buffer: it has 2 observations and 1 rewards"),
        ({"next_obs": None}, "buffer: found no next_observations"),
        ({"action": None}, "buffer: found no actions"),
        ({"obs": [], "action": [], "reward": [], "next_obs": []}, "buffer: found no transition"),
        ({"obs": [1, 1], "next_obs": [1, 1]}, "states: all transitions are in the one state"),
    ],
)
@pytest.mark.filterwarnings("ignore:buffer. found no flags")
def test_bad_buffers(change: dict[str, Any], message: str) -> None:
    steps = {"obs": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_obs": [1, 0], **change}
    with pytest.raises(ValueError, match=message):
        from_replay_buffer({name: np.array(part) for name, part in steps.items() if part is not None})


@pytest.mark.filterwarnings("ignore:buffer. found no flags")
def test_something_else() -> None:
    for buffer in (3, SimpleNamespace()):
        with pytest.raises(TypeError, match="buffer: found"):
            from_replay_buffer(buffer)
    steps = {"obs": [0, 1], "action": [0, 1], "reward": [0, 1], "next_obs": [1, 0]}
    with pytest.raises(ValueError, match="encode: returned shape"):
        from_replay_buffer(steps, encode=lambda seen: [1])
    with pytest.raises(TypeError, match="encode: found int"):
        from_replay_buffer(steps, encode=3)  # type: ignore[arg-type]


def test_the_buffer_of_an_agent_of_stable_baselines() -> None:
    buffers, gym = pytest.importorskip("stable_baselines3.common.buffers"), pytest.importorskip("gymnasium")
    buffer = buffers.ReplayBuffer(8, gym.spaces.Discrete(3), gym.spaces.Discrete(2), device="cpu", n_envs=2)
    for one, two in zip(ONE, TWO, strict=True):
        s, a, r, t, ended, cut = columns([one, two])
        buffer.add(s, t, a[:, None], r, ended | cut, [{"TimeLimit.truncated": bool(flag)} for flag in cut])
    same(from_replay_buffer(buffer), expected(ONE[1:], TWO[1:]))


class FakeAgent:
    """An agent of Stable-Baselines3 that acts at random; its buffer has the attributes and dtypes of the real one."""

    def __init__(self, policy: str, env: str, *, seed: int, **options: Any) -> None:
        gymnasium = pytest.importorskip("gymnasium")
        self.env, self.seed, self.replay_buffer = gymnasium.make(env), seed, SimpleNamespace(pos=0, full=False)

    def learn(self, n: int) -> FakeAgent:
        buffer, rng = self.replay_buffer, np.random.default_rng(self.seed)
        buffer.observations, buffer.next_observations = np.zeros((2, 2 * n, 1, 1), np.int64)
        buffer.actions = np.zeros((2 * n, 1, 1), np.int64)
        buffer.rewards, buffer.dones, buffer.timeouts = np.zeros((3, 2 * n, 1), np.float32)
        state = self.env.reset(seed=self.seed)[0]
        for at in range(n):
            action = int(rng.integers(4))
            after, reward, terminated, truncated, _ = self.env.step(action)
            buffer.observations[at], buffer.actions[at], buffer.next_observations[at] = state, action, after
            buffer.rewards[at], buffer.dones[at], buffer.timeouts[at] = reward, terminated or truncated, truncated
            state = self.env.reset()[0] if terminated or truncated else after
        buffer.pos = n
        return self


def test_the_listing_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the layout of the buffer in place of the package, which takes minutes to install."""
    page = (Path(__file__).parents[2] / "docs/actions.md").read_text()
    (code,) = re.findall(r"^```\{code-block\} python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) < 30
    monkeypatch.setitem(sys.modules, "stable_baselines3", SimpleNamespace(DQN=FakeAgent))
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "page", "exec"), names)
    assert names["data"].n_transitions == names["agent"].replay_buffer.pos
    assert names["small"].mdp.n_states == 8
    assert len(names["small"].policy) == names["first"].n_states
    # The optimal policy earns 0.18 from the start, so a valid upper bound of the loss is not far below that.
    assert names["bound"].value_recorded.low <= 0.19
    assert names["bound"].policy_loss > 0.05
    assert not names["bound"].proved


def test_a_full_buffer_of_torchrl_is_read_from_its_oldest_step() -> None:
    """Steps are where the ring stored them; the writer knows where the next one goes."""

    class Buffer:
        def __init__(self, held: dict[str, Any], cursor: int, axis: int) -> None:
            self.held, self.dim_extend = held, axis
            self.writer = SimpleNamespace(_cursor=cursor)

        def __len__(self) -> int:
            return len(ONE)

        def __getitem__(self, _: slice) -> dict[str, Any]:
            return self.held

    for axis, runs in ((0, (ONE,)), (1, (ONE, TWO))):
        parts = [np.stack(part) if axis else part[0] for part in zip(*map(columns, runs), strict=True)]
        s, a, r, t, ended, cut = (np.roll(part, 2, axis) for part in parts)
        later = {"observation": t, "reward": r[..., None], "terminated": ended[..., None], "truncated": cut[..., None]}
        held = {"observation": s, "action": a, "next": later}
        same(from_replay_buffer(Buffer(held, 2, axis)), expected(*runs))


def test_observations_of_several_parts_are_refused() -> None:
    buffer = SimpleNamespace(pos=1, full=False, rewards=np.zeros((2, 1)), dones=np.zeros((2, 1)))
    buffer.observations = buffer.next_observations = {"image": np.zeros((2, 1)), "goal": np.zeros((2, 1))}
    with pytest.raises(TypeError, match="buffer: its observations have entries image, goal; pass one of them"):
        from_replay_buffer(buffer)
