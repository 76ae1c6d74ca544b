"""Gymnasium environments, rolled out under a policy or as transition tables, and Minari datasets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from somcot.mdp import MDP, RecordedMDP
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_flag
from somcot.readers.episodes import (
    BinNumbers,
    Episode,
    Observations,
    Space,
    Transform,
    check_actions,
    label,
    to_mdp,
    to_samples,
    to_trajectories,
)
from somcot.readers.tables import Array
from somcot.recorded.counts import Start
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "from_env",
    "from_minari",
    "from_tabular",
]


# --- Environments rolled out under a policy, and Minari datasets

Environment: TypeAlias = Any  # a Gymnasium environment, or its id
Dataset: TypeAlias = Any  # a Minari dataset, or its id
Policy: TypeAlias = Any  # a function of observations, or an object with predict()
Act: TypeAlias = Callable[[Observations], Array]

_MOST_ENVS = 100_000


@overload
def from_env(
    env: Environment, policy: Policy | None = None, *, vectors: Literal[True], **options: object
) -> Trajectories: ...
@overload
def from_env(
    env: Environment, policy: Policy | None = None, *, actions: Literal[True], **options: object
) -> RecordedMDP: ...
@overload
def from_env(
    env: Environment, policy: Policy | None = None, *, actions: Literal[False] = False, **options: object
) -> Samples: ...
def from_env(  # type: ignore[misc]  # the options are those below
    env: Environment,
    policy: Policy | None = None,
    *,
    n_steps: int = 10_000,
    n_envs: int = 8,
    bins: BinNumbers = None,
    transform: Transform = None,
    terminal: Hashable | None = None,
    batched: bool = False,
    rng: int | None = None,
    env_options: Mapping[str, object] | None = None,
    actions: bool = False,
    vectors: bool = False,
) -> Samples | RecordedMDP | Trajectories:
    """Roll out a Gymnasium environment under a policy.

    Parameters
    ----------
    env : str, gymnasium.Env or gymnasium.vector.VectorEnv
        For an id, `n_envs` environments are created and run in parallel.
    policy : callable, stable-baselines3 model or None
        ``policy(observation)`` returns an action; a model is called as ``predict(observations, deterministic=True)``;
        None acts at random.
    n_steps : int
        Number of steps to record, over all environments.
    n_envs : int
        Number of parallel environments if `env` is an id.
    bins : int, sequence of int, or Bins, optional
        Bins for continuous observations: a number per dimension, or one for all, which divide the bounds of the
        observation space. If it has none, pass the same `Bins` for all recordings, so that they share their edges.
    transform : callable, optional
        Maps a batch of observations, shape (n, ...), to the values that are binned or used as labels, shape (n, ...).
    terminal : hashable or False, optional
        Label of the state in which terminated episodes end, by default "terminated", as in `from_tabular` and
        `RecordedMDP`: where an episode ended does not matter, only that it did. False: the final observation itself is
        absorbing, so that ends in different places differ.
    batched : bool
        Whether the policy takes a batch of observations, shape (n_envs, ...), and returns as many actions.
    rng : int, optional
        Seed of environments and random actions.
    env_options : mapping, optional
        Passed to ``gymnasium.make_vec``, such as ``{"g": 9.81}``.
    actions : bool
        Keep the actions: a recorded decision process, for environments with discrete actions. The policy should try
        all of them in every state, as random actions do. With `vectors`, any actions are kept with the vectors.
    vectors : bool
        Keep the observations as vectors of real numbers, without bins.

    Returns
    -------
    Samples, or RecordedMDP with ``actions=True``, or Trajectories with ``vectors=True``
        A terminated end is absorbing; a truncated one only stops the episode. ``features`` is the mean reward on
        leaving each state. Trajectories have ``rewards``, and ``actions`` if requested.

    Examples
    --------
    >>> from somcot.readers import Bins
    >>> samples = from_env("CartPole-v1", lambda observation: int(observation[2] > 0), n_steps=500,
    ...                    bins=Bins([0.0], [0.0], [-0.05, 0.05], [0.0]), rng=0)
    >>> samples.n_transitions, samples.states[-1]
    (500, 'terminated')
    """
    n_steps = check_count("n_steps", n_steps, at_most=10**12)
    check_flag("batched", batched)
    vector, created = _vector_env(env, check_count("n_envs", n_envs, at_most=_MOST_ENVS), dict(env_options or {}))
    try:
        _refuse_loose("env", vector.single_observation_space)
        if rng is not None:
            # Environments take no generator but count up from a seed: those of another `rng` must not be among them.
            rng = _MOST_ENVS * check_count("rng", rng, at_least=0)
        # Seeded here as well: random actions are drawn by the space, not by the environment.
        vector.action_space.seed(rng)
        # Before the roll-out, which may take minutes.
        if check_flag("actions", actions) and not check_flag("vectors", vectors):
            check_actions("env", vector.single_action_space)
        act = _actor(vector, policy, batched)
        episodes = _roll_out(vector, act, n_steps, rng)
    finally:
        # An environment that the caller passed in is the caller's to close.
        if created:
            vector.close()
    name = env if isinstance(env, str) else type(getattr(env, "unwrapped", env)).__name__
    if check_flag("vectors", vectors):
        _refuse_with_vectors(bins=bins, terminal=terminal)
        return to_trajectories(name, episodes, transform, actions=actions)
    if actions:
        return _decisions(name, episodes, vector.single_observation_space, vector.single_action_space,
                          (bins, transform, terminal))  # fmt: skip
    return to_samples(name, episodes, vector.single_observation_space, bins, transform, terminal)


@overload
def from_minari(dataset: Dataset, *, vectors: Literal[True], **options: object) -> Trajectories: ...
@overload
def from_minari(dataset: Dataset, *, actions: Literal[True], **options: object) -> RecordedMDP: ...
@overload
def from_minari(dataset: Dataset, *, vectors: Literal[False] = False, **options: object) -> Samples: ...
def from_minari(  # type: ignore[misc]  # the options are those below
    dataset: Dataset,
    *,
    bins: BinNumbers = None,
    transform: Transform = None,
    terminal: Hashable | None = None,
    vectors: bool = False,
    actions: bool = False,
) -> Samples | RecordedMDP | Trajectories:
    """Read a Minari dataset.

    Parameters
    ----------
    dataset : str or minari.MinariDataset
        An id of a dataset on this machine, or the dataset.
    bins, transform, terminal, vectors, actions
        As for `from_env`.

    Examples
    --------
    >>> from_minari("D4RL/door/human-v2", vectors=True, actions=True)   # doctest: +SKIP
    Trajectories(39 coordinates, 6729 transitions, 25 episodes)
    """
    name = dataset if isinstance(dataset, str) else getattr(getattr(dataset, "spec", None), "dataset_id", "dataset")
    if isinstance(dataset, str):
        dataset = _load_minari(dataset)
    if not hasattr(dataset, "iterate_episodes"):
        raise TypeError(f"dataset: found {type(dataset).__name__}, expected a Minari dataset or its id")
    _refuse_loose(str(name), dataset.observation_space)
    episodes = []
    for i, recorded in enumerate(dataset.iterate_episodes()):
        rewards = [float(r) for r in recorded.rewards]
        if len(recorded.terminations) != len(rewards):
            raise ValueError(
                f"{name}: episode {i} has {len(rewards)} rewards and {len(recorded.terminations)} terminations, "
                "expected as many"
            )
        ended = bool(recorded.terminations[-1]) if len(rewards) else False
        observations = recorded.observations  # Dict and Tuple observations are stored by component
        seen = list(zip(*observations, strict=True)) if isinstance(observations, tuple) else list(observations)
        episodes.append(Episode(seen, rewards, ended, list(recorded.actions) if actions else []))
    if check_flag("vectors", vectors):
        _refuse_with_vectors(bins=bins, terminal=terminal)
        return to_trajectories(str(name), episodes, transform, actions=check_flag("actions", actions))
    if check_flag("actions", actions):
        check_actions(str(name), dataset.action_space)
        return _decisions(str(name), episodes, dataset.observation_space, dataset.action_space,
                          (bins, transform, terminal))  # fmt: skip
    return to_samples(str(name), episodes, dataset.observation_space, bins, transform, terminal)


def _decisions(
    name: str, episodes: list[Episode], space: Space, choices: Space, how: tuple[BinNumbers, Transform, Hashable]
) -> RecordedMDP:
    """Label the observations and count what follows each action."""
    stepped = [e for e in episodes if e.rewards]
    return to_mdp(name, stepped, label(name, stepped, space, *how), choices)


def _refuse_with_vectors(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: vectors=True keeps observations as they are; leave one of the two out")


def _load_minari(name: str) -> Dataset:
    try:
        import minari
    except ImportError:
        raise ImportError("reading Minari datasets needs minari: pip install 'minari[hdf5]'") from None
    try:
        return minari.load_dataset(name)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise ValueError(
            f"dataset: {name!r} is not on this machine ({error}); get it with: minari download {name}"
        ) from None


def _vector_env(env: Environment, n_envs: int, options: dict[str, Any]) -> tuple[Environment, bool]:
    """The environment as a vector environment with next-step autoreset, and whether it was created here."""
    try:
        import gymnasium
    except ImportError:
        raise ImportError("environments need gymnasium: pip install 'gymnasium[classic-control]'") from None
    if isinstance(env, str):
        try:
            # sync: subprocesses would make the order of random numbers depend on the operating system.
            made = gymnasium.make_vec(env, num_envs=n_envs, vectorization_mode="sync", **options)
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise ValueError(f"env: {env!r} cannot be made ({error})") from None
        return made, True
    if isinstance(env, gymnasium.Env):
        return gymnasium.vector.SyncVectorEnv([lambda: env]), False
    if not isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(f"env: found {type(env).__name__}, expected a Gymnasium environment or its id")
    # Other modes replace the final observation by the first of the next episode, and the last step would lead there.
    mode = getattr(env.metadata.get("autoreset_mode"), "value", "NextStep")
    if mode != "NextStep":
        raise ValueError(f"env: resets itself in mode {mode!r}, expected 'NextStep'; make it with that autoreset_mode")
    return env, False


def _refuse_loose(name: str, space: Space) -> None:
    """Refuse observations without a fixed shape, which a batch keeps as objects, and composite observations."""
    kind = type(space).__name__
    if kind == "Tuple" and all(type(part).__name__ == "Discrete" for part in space.spaces):
        return  # a tuple of integers is a label, as in Blackjack
    if kind in ("Dict", "Tuple"):
        parts = ", ".join(map(str, space.spaces)) if kind == "Dict" else f"{len(space.spaces)} parts"
        raise ValueError(
            f"{name}: observations are of a {kind} space ({parts[:80]}), expected one array; select numbers "
            "first: gymnasium.wrappers.FlattenObservation makes one array of all parts"
        )
    if kind in ("Graph", "Sequence", "Text", "OneOf"):
        raise ValueError(
            f"{name}: observations are of a {kind} space, not arrays of one shape; "
            "wrap the environment so that it returns arrays"
        )


def _actor(vector: Environment, policy: Policy | None, batched: bool) -> Act:
    """A function from a batch of observations to a batch of actions."""
    if policy is None:
        return lambda observations: vector.action_space.sample()
    has_model = hasattr(policy, "predict")
    if not has_model and not callable(policy):
        raise TypeError(f"policy: found {type(policy).__name__}, expected a function or an object with predict()")
    space = vector.single_action_space
    if space.shape is None:
        raise TypeError(
            f"policy: the actions are of a {type(space).__name__} space; only None, at random, can act there"
        )
    n = vector.num_envs

    def act(observations: Observations) -> Array:
        if has_model:
            # Stable-Baselines3 models; deterministic, so that equal seeds give equal recordings.
            returned = _predicted(policy.predict(observations, deterministic=True))
        else:
            returned = policy(observations) if batched else [policy(_pick(observations, i)) for i in range(n)]
        try:
            actions = np.asarray(returned, dtype=space.dtype)
        except (TypeError, ValueError):
            raise TypeError(f"policy: returned {returned!r}, expected actions of type {space.dtype}") from None
        # Integers only if the space has integers: 1.5 would become 1.
        if actions.dtype.kind in "iu" and not np.array_equal(actions, np.asarray(returned)):
            raise TypeError(f"policy: returned {returned!r:.60}, expected actions of type {space.dtype}")
        # Checked by size, because (n,) and (n, 1) are both common for one number.
        if actions.size != n * int(np.prod(space.shape)):
            raise ValueError(f"policy: returned actions of shape {actions.shape[1:]}, expected {space.shape}")
        actions = actions.reshape(n, *space.shape)
        if wrong := [action for action in actions if not space.contains(action)]:
            raise ValueError(f"policy: returned {wrong[0]}, expected an action of {space}")
        return actions

    return act


def _predicted(answer: object) -> ArrayLike:
    """The actions in the return value of `predict`: a pair of actions and a state."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"policy: predict() returned {answer!r:.60}, expected a pair of actions and a state")
    actions: ArrayLike = answer[0]
    return actions


def _pick(observations: Observations, i: int) -> Observations:
    """Entry i of a batch, which may be a dictionary or tuple of batches."""
    if isinstance(observations, dict):
        return {key: _pick(part, i) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_pick(part, i) for part in observations)
    return observations[i]


def _roll_out(vector: Environment, act: Act, n_steps: int, rng: int | None) -> list[Episode]:
    """Record until there are enough steps; reset steps do not count."""
    n = vector.num_envs
    observations, _ = vector.reset(seed=rng)
    running: list[Episode | None] = [Episode([_copied(observations, i)]) for i in range(n)]
    finished: list[Episode] = []
    left = n_steps
    while left > 0:
        actions = act(observations)
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        for i in range(n):
            episode = running[i]
            if episode is None:  # this step was the reset
                running[i] = Episode([_copied(observations, i)])
                continue
            # Environments run in step, so the last round may return more steps than were requested.
            if left <= 0:
                break
            left -= 1
            episode.observations.append(_copied(observations, i))
            episode.rewards.append(float(rewards[i]))
            episode.actions.append(actions[i])
            if terminated[i] or truncated[i]:
                episode.terminated = bool(terminated[i])
                finished.append(episode)
                running[i] = None
    # Unfinished episodes count as truncated: their steps are as good as any.
    return finished + [episode for episode in running if episode is not None and episode.rewards]


def _copied(observations: Observations, i: int) -> Observations:
    # A copy, since environments may reuse one buffer for all observations.
    return np.array(_pick(observations, i))


# --- Environments with a transition table, as decision processes


def from_tabular(
    env: Environment, *, initial: Hashable | ArrayLike | None = None, env_options: Mapping[str, object] | None = None
) -> MDP:
    """Read the transition table ``P`` of an environment such as FrozenLake, Taxi or CliffWalking.

    Parameters
    ----------
    env : str or gymnasium.Env
        An id, or an environment with a list ``P[s][a]`` of (probability, next state, reward, terminated).
    initial : state or array_like, optional
        Initial distribution; by default the environment's ``initial_state_distrib``, or else state 0.
    env_options : mapping, optional
        Options for creating the environment from an id: ``{"is_slippery": False}``.

    Returns
    -------
    MDP
        Rewards are the expected rewards on leaving a state. Steps that terminate lead to an additional state,
        "terminated", which is absorbing and earns nothing.

    Examples
    --------
    >>> from_tabular("FrozenLake-v1")
    MDP(17 states, 4 actions)
    """
    created = isinstance(env, str)
    if env_options and not created:
        raise ValueError("env_options: env is an environment that already has its options; pass its id instead")
    made = _make(env, dict(env_options or {})) if created else env
    try:
        bare = getattr(made, "unwrapped", made)
        table = getattr(bare, "P", None)
        if table is None:
            raise TypeError(
                f"env: {type(bare).__name__} has no table P of its transitions; roll it out with readers.from_env"
            )
        start = getattr(bare, "initial_state_distrib", None) if initial is None else initial
    finally:
        if created:
            made.close()
    transitions, rewards = _read(table)
    # Whether any step terminates; if none does, the additional state would be a state that nothing reaches.
    ends = transitions[:-1, :, -1].any()
    states: list[Hashable] = [*range(len(table)), "terminated"]
    distribution = _start(0 if start is None else start, len(table), bool(ends))
    if ends:
        return MDP(transitions, rewards, initial=distribution, states=states)
    return MDP(transitions[:-1, :, :-1], rewards[:-1], initial=distribution, states=states[:-1])


def _make(name: str, options: dict[str, Any]) -> Environment:
    try:
        import gymnasium
    except ImportError:
        raise ImportError("environments need gymnasium: pip install gymnasium") from None
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(f"env: {name!r} cannot be made ({error})") from None


def _read(table: Mapping[int, Mapping[int, list[tuple[float, int, float, bool]]]]) -> tuple[Floats, Floats]:
    """Transitions and expected rewards, with an additional last state for steps that terminate."""
    if not len(table):
        raise ValueError("env: its table P has no states")
    n, n_actions = len(table), len(table[0])
    transitions, rewards = np.zeros((n + 1, n_actions, n + 1)), np.zeros((n + 1, n_actions))
    transitions[n, :, n] = 1.0
    for s in range(n):
        if len(table[s]) != n_actions:
            raise ValueError(
                f"env: state {s} has {len(table[s])} actions and state 0 has {n_actions}, expected as many"
            )
        for a in range(n_actions):
            for probability, following, reward, terminated in table[s][a]:
                if not 0 <= following < n:
                    raise ValueError(f"env: P[{s}][{a}] leads to state {following}, expected one of 0 to {n - 1}")
                transitions[s, a, n if terminated else following] += probability
                rewards[s, a] += probability * reward
    return transitions, rewards


def _start(initial: Any, n: int, ends: bool) -> Start:
    """A distribution over the states of the table gets a 0 for the additional state."""
    is_law = not isinstance(initial, (str, bytes)) and np.ndim(initial) == 1 and len(initial) == n
    return np.append(initial, 0.0) if is_law and ends else initial
