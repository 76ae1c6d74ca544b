"""Replay buffers and datasets of reinforcement learning packages, read by their attributes; none is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from somcot.cells import Cells
from somcot.mdp import RecordedMDP
from somcot.plumbing.arrays import Array, Bools, Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.readers.tables.state_labels import Bins

__all__ = ["Transitions", "from_replay_buffer", "transitions_of"]

Buffer: TypeAlias = Any  # of another package
Encoder: TypeAlias = Callable[[Array], Any] | Bins | Cells | None

# Names of the parts in mappings, the first that is there. TorchRL comes first: it keeps the outcome of a step in
# "next", while its own "done" and "terminated" are those of the observation before the step.
_NAMES: dict[str, tuple[Any, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    # Short names are those of Tianshou and Spinning Up.
    "actions": ("actions", "action", "act"),
    "rewards": (("next", "reward"), "rewards", "reward", "rew"),
    "next_observations": (
        ("next", "observation"), "next_observations", "next_observation", "next_obs", "next_states", "obs_next", "obs2",
    ),
    "terminated": (("next", "terminated"), "terminated", "terminals", "terminations"),
    "truncated": (("next", "truncated"), "truncated", "timeouts", "truncations"),
    "done": (("next", "done"), "dones", "done"),  # either of the two
}  # fmt: skip


class Transitions(NamedTuple):
    """Recorded steps in order of time, one row for each; flags tell how episodes ended."""

    observations: Array
    actions: Array
    rewards: Floats
    next_observations: Array
    terminated: Bools
    truncated: Bools


def from_replay_buffer(buffer: Buffer, *, encode: Encoder = None) -> RecordedMDP:
    """Count the transitions of a replay buffer or an offline dataset into a decision process.

    Parameters
    ----------
    buffer : replay buffer
        Of Stable-Baselines3 or CleanRL, d3rlpy (a buffer or a list of episodes), TorchRL (a buffer or a TensorDict) or
        Minari (a dataset), or a mapping with the arrays observations, actions, rewards, next_observations, terminals
        and timeouts (or dones: every end that is not a timeout is then a termination). It is read by its attributes,
        so the package it comes from is not imported.
    encode : callable, Bins or Cells, optional
        Turns observations into states: a function of all observations, shape (n, ...), that returns a label (or a row
        of integers) for each; `Bins`; or the cells of `somcot.discretise`. By default observations are states, which
        must then be integers.

    Returns
    -------
    RecordedMDP
        Steps that terminate lead to the state "terminated"; truncated ones only end an episode.

    Examples
    --------
    >>> steps = {"observations": [0, 1, 0], "actions": [1, 1, 0], "rewards": [0, 1, 0], "next_observations": [1, 2, 0],
    ...          "terminals": [False, True, False], "timeouts": [False, False, True]}
    >>> from_replay_buffer(steps)
    RecordedMDP(3 states, 2 actions, 3 transitions, 2 episodes)
    >>> from_replay_buffer(steps, encode=lambda seen: ["low" if o < 1 else "high" for o in seen]).states
    ('high', 'low', 'terminated')
    """
    steps = transitions_of(buffer)
    states, following = (_encoded(encode, part) for part in (steps.observations, steps.next_observations))
    return RecordedMDP.from_transitions(
        states, _discrete(steps.actions), steps.rewards, following,
        terminated=steps.terminated, truncated=steps.truncated,
    )  # fmt: skip


def transitions_of(buffer: Buffer) -> Transitions:
    """The steps of a replay buffer in order of time, observations as they are.

    Examples
    --------
    >>> steps = {"observations": [[0.0], [1.0]], "actions": [0, 1], "rewards": [0.0, 1.0],
    ...          "next_observations": [[1.0], [2.0]], "terminals": [False, True]}
    >>> transitions_of(steps).terminated.tolist()
    [False, True]
    """
    # What this function returned may be passed again, so that readers compose.
    if isinstance(buffer, Transitions):
        return buffer
    if hasattr(buffer, "iterate_episodes"):
        steps = _joined([_of_minari(i, episode) for i, episode in enumerate(buffer.iterate_episodes())])
    # By attributes, not by type: importing the package to test a type would make it a dependency.
    elif hasattr(buffer, "pos") and hasattr(buffer, "full") and hasattr(buffer, "observations"):
        steps = _of_ring(buffer)
    else:
        episodes = _episodes(buffer)
        steps = _of_mapping(buffer) if episodes is None else _of_d3rlpy(episodes)
    lengths = {name: len(part) for name, part in steps._asdict().items()}
    for name, n in lengths.items():
        if n != lengths["rewards"]:
            raise ValueError(f"buffer: it has {n} {name} and {lengths['rewards']} rewards, expected as many")
    if not lengths["rewards"]:
        raise ValueError("buffer: found no transition; fill it before it is read")
    return steps


# --- The layouts


def _of_ring(buffer: Buffer) -> Transitions:
    """Stable-Baselines3 and CleanRL: arrays (size, n_envs, ...), overwritten from the start when full."""
    size = len(buffer.rewards)
    # The oldest step is at `pos` once the ring is full, at 0 before.
    order = np.roll(np.arange(size), -int(buffer.pos)) if buffer.full else np.arange(int(buffer.pos))
    later = getattr(buffer, "next_observations", None)
    if later is None:  # stored once, as the next row; the oldest row was overwritten by the newest step
        later = np.roll(_array(buffer.observations), -1, axis=0)
        order = order[1:] if buffer.full else order
    done = _flags(buffer.dones)
    late = getattr(buffer, "timeouts", None)
    # Without `timeouts` every end counts as a termination.
    truncated = np.zeros_like(done) if late is None else _flags(late)
    last = np.zeros_like(done)
    if len(order):
        last[order[-1]] = True  # one environment's steps end here, and the next one's follow

    def by_env(array: Array) -> Array:
        # Steps of one environment must follow each other, or episodes of different environments would be joined.
        chosen = _array(array)[order]
        return np.swapaxes(chosen, 0, 1).reshape(-1, *chosen.shape[2:])

    ended = done & ~truncated
    return Transitions(
        by_env(buffer.observations), by_env(buffer.actions), by_env(buffer.rewards).astype(np.float64), by_env(later),
        # The last recorded step of each environment did not end its episode; the recording did.
        by_env(ended), by_env((done & truncated) | (last & ~ended)),
    )  # fmt: skip


def _episodes(buffer: Buffer) -> Any:
    """The episodes of d3rlpy, from a buffer or a list; None if it is something else."""
    episodes: Any = getattr(buffer, "episodes", buffer if isinstance(buffer, (list, tuple)) else None)
    parts = ("observations", "actions", "rewards", "terminated")
    is_list = episodes is not None and len(episodes) > 0 and not isinstance(episodes, Mapping)
    return episodes if is_list and all(hasattr(episodes[0], part) for part in parts) else None


def _of_d3rlpy(episodes: Any) -> Transitions:
    """T observations, actions and rewards an episode: what follows the last action is stored only if it terminated."""
    parts = []
    for episode in episodes:
        seen, ended = _array(episode.observations), bool(episode.terminated)
        # Without a termination the observation after the last action is unknown, and a guess would be a false
        # transition.
        kept = len(seen) if ended else len(seen) - 1
        if kept > 0:
            flags = np.arange(kept) == kept - 1
            parts.append(
                Transitions(
                    seen[:kept], np.asarray(episode.actions)[:kept],
                    np.asarray(episode.rewards, dtype=np.float64).reshape(len(seen), -1)[:kept, 0],
                    # After a termination the next observation is never used; the last one fills the row.
                    np.concatenate([seen[1:], seen[-1:]])[:kept], flags & ended, flags & (not ended),
                )
            )  # fmt: skip
    cut = sum(not episode.terminated for episode in episodes)
    if cut:
        warn(Note("last-step-unknown", "buffer", share=Share(cut, len(episodes))), DataWarning)
    return _joined(parts)


def _of_minari(i: int, episode: Any) -> Transitions:
    """T + 1 observations, T of everything else."""
    seen, rewards = _array(episode.observations), np.asarray(episode.rewards, dtype=np.float64)
    if len(seen) != len(rewards) + 1:
        raise ValueError(
            f"buffer: episode {i} has {len(seen)} observations for {len(rewards)} steps, expected one more"
        )
    terminated, truncated = _flags(episode.terminations), _flags(episode.truncations)
    # An episode that stops without a flag was cut off, which is a truncation.
    last = np.arange(len(rewards)) == len(rewards) - 1
    return Transitions(
        seen[:-1], np.asarray(episode.actions), rewards, seen[1:], terminated, (truncated | last) & ~terminated
    )


def _of_mapping(buffer: Buffer) -> Transitions:
    """A mapping of arrays, or what a buffer of TorchRL returns for all of its indices."""
    held = buffer
    if not hasattr(held, "keys") and hasattr(held, "__getitem__") and hasattr(held, "__len__"):
        held = buffer[:] if len(buffer) else {}
    if not hasattr(held, "keys"):
        raise TypeError(
            f"buffer: found {type(buffer).__name__}, expected a replay buffer of Stable-Baselines3, CleanRL, d3rlpy or "
            "TorchRL, a Minari dataset, or a mapping with observations, actions, rewards and next_observations"
        )
    if buffer is not held and not len(buffer):
        raise ValueError("buffer: found no transition; fill it before it is read")
    parts = {name: _part(held, names) for name, names in _NAMES.items()}
    # A full buffer of TorchRL is overwritten from the start: its oldest step is where the next one will be written.
    oldest = int(getattr(getattr(buffer, "writer", None), "_cursor", 0))
    if oldest:
        axis = int(getattr(buffer, "dim_extend", 0) or 0)
        parts = {name: None if part is None else np.roll(part, -oldest, axis) for name, part in parts.items()}
    for name in ("observations", "actions", "rewards"):
        if parts[name] is None:
            raise ValueError(f"buffer: found no {name} among {', '.join(map(str, held.keys())) or 'no entries'}")
    rewards = np.asarray(parts["rewards"], dtype=np.float64)
    n = rewards.size
    terminated, truncated, done = (_ends(parts[name], name, n) for name in ("terminated", "truncated", "done"))
    if parts["terminated"] is None:
        if parts["done"] is None:
            warn(Note("ends-not-stored", "buffer"), DataWarning)
        # As in `_of_ring`: without timeouts every end counts as a termination.
        terminated = done & ~truncated
        if parts["truncated"] is None:
            _note_equal_lengths(terminated)
    if parts["next_observations"] is None:
        raise ValueError(
            "buffer: found no next_observations; shift observations by a step, and leave out the last step of each "
            "episode"
        )
    seen, actions, later = (
        _flat(part, rewards.shape)
        for part in (parts["observations"], parts["actions"], parts["next_observations"])
        if part is not None
    )
    lead = _lead(rewards.shape)
    if len(lead) > 1:  # several environments side by side, in time along the last of these axes
        # Neighbouring environments follow each other in the flattened arrays; this keeps them apart.
        truncated = truncated | (np.arange(n) % lead[-1] == lead[-1] - 1)
    return Transitions(seen, actions, rewards.ravel(), later, terminated, truncated & ~terminated)


def _note_equal_lengths(ended: Bools) -> None:
    """Warn if episodes end at one length only, as those that a time limit cuts off do."""
    lengths = np.diff(np.flatnonzero(ended), prepend=-1)
    if len(lengths) > 2 and lengths[0] > 1 and (lengths == lengths[0]).all():
        warn(Note("ends-at-one-length", "buffer", n=len(lengths), length=int(lengths[0])), DataWarning)


def _part(held: Any, names: tuple[Any, ...]) -> Array | None:
    """The first of the parts that is there; tuples are paths, as in a TensorDict."""
    for name in names:
        value = held
        for key in name if isinstance(name, tuple) else (name,):
            value = value[key] if hasattr(value, "keys") and key in set(value.keys()) else None
        if value is not None:
            return _array(value)
    return None


def _array(value: Any) -> Array:
    """A NumPy array of an array of any package."""
    if isinstance(value, (Mapping, tuple)):
        found = f"entries {', '.join(map(str, value))}" if isinstance(value, Mapping) else f"{len(value)} parts"
        raise TypeError(
            f"buffer: its observations have {found:.80}; pass one of them, or all joined into one array, in a mapping "
            "with observations, actions, rewards, next_observations, terminals and timeouts"
        )
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _lead(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes over steps: rewards of TorchRL are (n, 1), or (n_envs, T, 1)."""
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape


def _flat(array: Array, shape: tuple[int, ...]) -> Array:
    """One row for each step."""
    lead = _lead(shape)
    # Parts without the axes of the rewards are left for the check of the lengths, which names them.
    return array.reshape(-1, *array.shape[len(lead) :]) if array.shape[: len(lead)] == lead else array


def _flags(values: Any) -> Bools:
    array = _array(values)
    return array if array.dtype == np.bool_ else array != 0


def _ends(values: Array | None, name: str, n: int) -> Bools:
    """Flags of all steps in a row, whatever their axes; none is set if they are not stored."""
    flags = np.zeros(n, np.bool_) if values is None else _flags(values).ravel()
    if len(flags) != n:
        raise ValueError(f"buffer: it has {len(flags)} {name} and {n} rewards, expected as many")
    return flags


def _joined(parts: list[Transitions]) -> Transitions:
    if not parts:
        raise ValueError("buffer: found no episode with a step; fill it before it is read")
    return Transitions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# --- Observations as states, actions as integers


def _encoded(encode: Encoder, observations: Array) -> Any:
    """One label for each observation."""
    if encode is None:
        flat = observations.reshape(len(observations), -1)
        if flat.dtype.kind == "f":
            whole = flat == np.floor(flat)
            if not whole.all():
                i = int(np.argwhere(~whole)[0, 0])
                raise ValueError(
                    f"buffer: observation {i} is {flat[i].tolist()!s:.60}, not an integer; pass encode, such as Bins, "
                    "the cells of somcot.discretise, or a function that returns a label for each"
                )
            # Frameworks store integers as floats; labels must compare equal to those of other readers.
            flat = flat.astype(np.int64)
        return flat[:, 0] if flat.shape[1] == 1 else flat
    if isinstance(encode, Bins):
        return encode.codes(observations.reshape(len(observations), -1).astype(np.float64))
    if isinstance(encode, Cells):
        return encode.assign(observations.reshape(len(observations), -1).astype(np.float64))
    if not callable(encode):
        raise TypeError(
            f"encode: found {type(encode).__name__}, expected a function of observations, Bins, or cells of "
            "somcot.discretise"
        )
    states = encode(observations)
    if np.shape(states)[:1] != (len(observations),):
        raise ValueError(f"encode: returned shape {np.shape(states)} for {len(observations)} observations")
    return states


def _discrete(actions: Array) -> Array:
    """Actions as integers: one column, or one-hot rows."""
    table = actions.reshape(len(actions), -1)
    whole: Array | None = (
        table.astype(np.int64) if table.dtype.kind in "biu" or (table == np.floor(table)).all() else None
    )
    if whole is None:
        raise ValueError(
            f"buffer: actions such as {table[0].tolist()!s:.60} are not discrete; bin them and pass the steps to "
            "mdp.RecordedMDP.from_transitions"
        )
    # Rows of 0 and 1 with a single 1 in each; a single column of flags is an action of its own.
    if table.shape[1] > 1 and (whole.sum(axis=1) == 1).all() and np.isin(whole, (0, 1)).all():
        whole = whole.argmax(axis=1)[:, None]  # one-hot, as TorchRL stores them
    return whole[:, 0] if whole.shape[1] == 1 else whole
