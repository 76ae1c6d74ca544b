"""From the steps of a replay buffer to a few codes, and the exact metric of the counted process over them.

1. An encoder is trained to tell which action led from one observation to a later one (a multi-step inverse model, which
   ignores whatever actions do not move) and to predict the next rewards.
2. Its features are clustered into codes: many clusters by k-means, merged where they are close, so that rarely seen
   states get codes too.
3. Rounds of learned partition refinement: a network predicts the reward and the next code for every action, and its
   predictions are clustered into the next codes. Observations of one state predict the same, so they are merged. States
   far from any reward are told apart last, so the rounds go on while held-out steps are predicted better.
4. Transitions between codes are counted, and the metric of the counted process is exact.

PyTorch is imported by this module; `somcot.torch` offers its class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from somcot.cells import kmeans
from somcot.chains import Support
from somcot.plumbing.arrays import Array, Bools, Floats, Ints
from somcot.plumbing.checks import check_count, check_discount, check_positive, real_array

__all__ = ["HeldOut", "StateAbstraction"]

_PARTS = ("observations", "actions", "rewards", "next_observations")
_STEPS_AHEAD = 4  # of the inverse model
_HORIZON, _MOST = 2.0, 64  # rewards predicted ahead, in units of 1 / (1 - discount), and at most
_FEATURES = 16  # of the first clustering
_CLUSTERED, _AXES = 8000, 20  # observations and principal axes used by k-means
_FINER = 4  # clusters for each code, before they are merged
_HELD_OUT = 0.1  # share of the episodes
_DECAY = 0.3  # weight decay: without it the networks learn the noise of single observations by heart
_PATIENCE = 2  # rounds without progress before refinement stops


class HeldOut(NamedTuple):
    """How well the counted process predicts episodes that were held out; larger is better.

    Attributes
    ----------
    next_code, reward : float
        Mean log-likelihood of the next code, and of the reward (Gaussian), given code and action.
    marginal : float
        That of the next code if nothing is known but how frequent codes are.
    """

    next_code: float
    reward: float
    marginal: float

    @property
    def information(self) -> float:
        """What code and action tell about the next code, in nats: `next_code` minus `marginal`."""
        return self.next_code - self.marginal


class StateAbstraction:
    """Codes of observations learned from recorded transitions, and the bisimulation metric over them.

    Parameters
    ----------
    n_codes : int
        Number of codes: more than there are states, by about a factor of two. Codes of one state get distance 0 or
        little more.
    discount : float
    encoder : torch.nn.Module, optional
        Maps a batch of observations to features, (n, ...) to (n, d); by default a network with two layers. It is
        copied, then trained.
    over : {"policy", "actions"}
        The metric under the policy that recorded the steps, or the largest over all actions.
    embedding : int, optional
        Also train a network whose embeddings, of this dimension, have L1 distances close to the metric: `embed`.
    rounds : int
        Rounds of refinement at most. They end when two in a row do not raise the held-out information, and the best
        round is kept.
    steps : (int, int)
        Training steps of the encoder and of each round.
    batch_size : int
    learning_rate : float
    device : str
        Where the networks are trained.
    rng : int
        Seed. The random state of PyTorch is left as it was.

    Examples
    --------
    Positions on a ring of four, each seen as one of two numbers; the reward is at position 0:

    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=2000); s = np.append(0, np.cumsum(2 * a - 1)) % 4
    >>> seen = np.eye(8)[2 * s + rng.integers(2, size=2001)]
    >>> steps = {"observations": seen[:-1], "actions": a, "rewards": (s[:-1] == 0) * 1.0, "next_observations": seen[1:]}
    >>> learned = StateAbstraction(n_codes=6, embedding=2, steps=(200, 100), rounds=2).fit(steps)
    >>> codes = learned.encode(np.eye(8))
    >>> bool((learned.metric[codes[0], codes] < 0.05).sum() == 2)   # the two views of position 0
    True
    >>> learned.embed(seen[:9]).shape, learned.distance(seen[:2], seen).shape, learned.metric_under("recorded").shape
    ((9, 2), (2, 2001), (7, 7))
    """

    def __init__(
        self, n_codes: int = 40, *, discount: float = 0.9, encoder: torch.nn.Module | None = None, over: str = "policy",
        embedding: int | None = None, rounds: int = 10, steps: tuple[int, int] = (1200, 300), batch_size: int = 256,
        learning_rate: float = 3e-3, device: str = "cpu", rng: int = 0,
    ) -> None:  # fmt: skip
        if over not in ("policy", "actions"):
            raise ValueError(f"over: found {over!r}, expected 'policy' or 'actions'")
        if encoder is not None and not isinstance(encoder, torch.nn.Module):
            raise TypeError(f"encoder: found {type(encoder).__name__}, expected a torch.nn.Module")
        self.n_codes, self.discount = check_count("n_codes", n_codes, 2), check_discount(discount)
        self.encoder, self.over, self.device, self.rng = encoder, over, device, check_count("rng", rng, 0)
        self.embedding = None if embedding is None else check_count("embedding", embedding)
        self.rounds, self.batch_size = check_count("rounds", rounds), check_count("batch_size", batch_size)
        if np.size(steps) != 2:
            raise ValueError(f"steps: found {steps!r}, expected two numbers: of the encoder, and of each round")
        self.steps = tuple(check_count("steps", n) for n in steps)
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.history: list[HeldOut] = []

    # --- Training

    def fit(self, transitions: Any) -> StateAbstraction:
        """Learn codes from recorded transitions.

        Parameters
        ----------
        transitions : mapping or record
            With observations (n, ...), actions (n,), rewards (n,), next_observations (n, ...), and optionally
            terminated and truncated (n,), in order of time: what ``readers.transitions_of(buffer)`` returns.
        """
        data = _Replay.of(transitions)
        rng = np.random.default_rng(self.rng)
        with torch.random.fork_rng(devices=[]):  # PyTorch's global state is left as it was
            torch.manual_seed(self.rng)
            self._scale = data.scale
            train, test = data.split(rng)
            trunk = self._trunk(data)
            features = self._inverse_model(data, train, trunk, rng)
            latest = self._round(features, data, train, test, rng, whiten=True)
            self._kept, self.history, since = latest, [latest.held_out], 0
            while len(self.history) <= self.rounds and since < _PATIENCE:  # each round predicts the codes of the last
                features = self._refined(data, latest, train, trunk, rng)
                latest = self._round(features, data, train, test, rng)
                self.history.append(latest.held_out)
                better = latest.held_out.information > self._kept.held_out.information
                self._kept, since = (latest, 0) if better else (self._kept, since + 1)
            self.__dict__.pop("metric", None)  # cached by an earlier fit
            self._embedding = None if self.embedding is None else self._embedded(data, self._kept.now, rng)
        return self

    def _trunk(self, data: _Replay) -> torch.nn.Module:
        """A copy of the user's network, or two layers."""
        if self.encoder is not None:
            return copy.deepcopy(self.encoder).to(self.device, torch.float32)  # the user's network stays untrained
        size = int(np.prod(data.observations.shape[1:]))
        layers = [torch.nn.Flatten(), torch.nn.Linear(size, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)]
        return torch.nn.Sequential(*layers, torch.nn.ReLU()).to(self.device)

    def _width(self, data: _Replay, trunk: torch.nn.Module) -> int:
        """Number of features."""
        batch = self._seen(data.observations[:2])
        try:
            shape = tuple(trunk(batch).shape)
        except RuntimeError as error:
            raise ValueError(f"encoder: does not take observations of shape {tuple(batch.shape)}: {error}") from None
        if len(shape) != 2 or shape[0] != 2:
            raise ValueError(f"encoder: found output of shape {shape} for two observations, expected (2, features)")
        return int(shape[1])

    def _seen(self, observations: Array) -> Tensor:
        """A batch for the networks."""
        mean, scale = self._scale
        batch = (np.asarray(observations, dtype=np.float32) - mean) / scale
        return torch.as_tensor(batch, device=self.device)

    def _run(self, network: Callable[[Tensor], Tensor], observations: Array) -> Floats:
        """The outputs for all observations, batch by batch."""
        pieces = (observations[begin : begin + 4096] for begin in range(0, len(observations), 4096))
        with torch.no_grad():
            return np.concatenate([network(self._seen(piece)).cpu().double().numpy() for piece in pieces])

    def _minimise(self, modules: list[torch.nn.Module], n_steps: int, rate: float, loss: Callable[[], Tensor]) -> None:
        trained = torch.nn.ModuleList(modules).train()
        parameters = [p for p in trained.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(parameters, self.learning_rate, weight_decay=_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate * self.learning_rate, total_steps=n_steps)
        for _ in range(n_steps):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
            schedule.step()
        trained.eval()

    def _inverse_model(
        self, data: _Replay, train: Ints, trunk: torch.nn.Module, rng: np.random.Generator
    ) -> Callable[[Tensor], Tensor]:
        """Which action was taken, from an observation and one of the next four; and rewards as far as the discount."""
        head = torch.nn.Linear(self._width(data, trunk), _FEATURES).to(self.device)
        guess = torch.nn.Sequential(
            torch.nn.Linear(2 * _FEATURES + _STEPS_AHEAD, 64), torch.nn.ReLU(), torch.nn.Linear(64, data.n_actions)
        ).to(self.device)
        horizon = min(round(_HORIZON / (1.0 - self.discount)), _MOST)
        earn = torch.nn.Linear(_FEATURES, horizon).to(self.device)
        (rewards, is_known), left = data.rewards_ahead(horizon), data.steps_left

        def loss() -> Tensor:
            i = rng.choice(train, self.batch_size)
            ahead = np.minimum(rng.integers(1, _STEPS_AHEAD + 1, self.batch_size), left[i])
            now = head(trunk(self._seen(data.observations[i])))
            later = head(trunk(self._seen(data.next_observations[i + ahead - 1])))
            which = torch.nn.functional.one_hot(torch.as_tensor(ahead - 1), _STEPS_AHEAD).to(now)
            actions = torch.as_tensor(data.actions[i], device=self.device)
            target = torch.as_tensor(rewards[i], device=self.device, dtype=now.dtype)
            mask = torch.as_tensor(is_known[i], device=self.device)
            inverse = torch.nn.functional.cross_entropy(guess(torch.cat([now, later, which], 1)), actions)
            return inverse + ((earn(now) - target) ** 2)[mask].mean()

        self._minimise([trunk, head, guess, earn], self.steps[0], 2.0, loss)
        features: Callable[[Tensor], Tensor] = copy.deepcopy(torch.nn.Sequential(trunk, head))  # the trunk learns on
        return features

    def _refined(
        self, data: _Replay, latest: _Round, train: Ints, trunk: torch.nn.Module, rng: np.random.Generator
    ) -> Callable[[Tensor], Tensor]:
        """Predicted reward and next code of every action, all in one row of features."""
        m, k = data.n_actions, latest.coder.k + 1  # the last code is the end of an episode
        head = torch.nn.Linear(self._width(data, trunk), m * (1 + k)).to(self.device)
        following = torch.as_tensor(latest.following, device=self.device)
        rewards = torch.as_tensor(data.rewards / data.reward_scale, device=self.device, dtype=torch.float32)
        rows = torch.arange(self.batch_size)

        def loss() -> Tensor:
            i = rng.choice(train, self.batch_size)
            out = head(trunk(self._seen(data.observations[i]))).view(self.batch_size, m, 1 + k)
            out = out[rows, torch.as_tensor(data.actions[i])]
            where = torch.as_tensor(i)
            error = ((out[:, 0] - rewards[where]) ** 2).mean()
            return error + torch.nn.functional.cross_entropy(out[:, 1:], following[where])

        self._minimise([trunk, head], self.steps[1], 3.0, loss)
        network = copy.deepcopy(torch.nn.Sequential(trunk, head))
        # Rewards in units of their range: like probabilities, they differ by at most 1. In units of their spread, a
        # rare reward is so large that most codes would divide the few states that have it.
        guesses = self._run(lambda seen: network(seen)[:, :: 1 + k], data.observations[train[:_CLUSTERED]])
        return partial(_predictions, network, m, max(float(np.ptp(guesses)), 1e-9))

    # --- Codes, counts and the metric

    def _round(
        self, features: Callable[[Tensor], Tensor], data: _Replay, train: Ints, test: Ints, rng: np.random.Generator, *,
        whiten: bool = False,
    ) -> _Round:  # fmt: skip
        """Cluster features into codes, and count what follows each code and action."""
        chosen = rng.choice(train, min(len(train), _CLUSTERED), replace=False)
        points = self._run(features, data.observations[chosen])
        mean, spread = points.mean(axis=0), points.std(axis=0) + 1e-6 if whiten else np.ones(points.shape[1])
        points = (points - mean) / spread
        axes = np.linalg.svd(points[:2000], full_matrices=False)[2][:_AXES].T
        centres = kmeans(points @ axes, _FINER * self.n_codes, rng)
        coder = _Coder(features, mean, spread, axes, centres, _merged(centres, self.n_codes))
        now = coder.codes(self._run(features, data.observations))
        later = coder.codes(self._run(features, data.next_observations))
        following = np.where(data.terminated, coder.k, later)  # the end of episodes is an additional absorbing state
        counts, earned = np.zeros((coder.k + 1, data.n_actions, coder.k + 1)), np.zeros((coder.k + 1, data.n_actions))
        np.add.at(counts, (now[train], data.actions[train], following[train]), 1.0)
        np.add.at(earned, (now[train], data.actions[train]), data.rewards[train])
        held_out = _held_out(counts, earned, (now, data.actions, following, data.rewards), test)
        np.add.at(counts, (now[test], data.actions[test], following[test]), 1.0)
        np.add.at(earned, (now[test], data.actions[test]), data.rewards[test])
        return _Round(coder, now, following, counts, earned, held_out, data.observations.shape[1:])

    def encode(self, observations: Any) -> Ints:
        """The code of each observation, (n,); this method can be ``encode=`` of ``readers.from_replay_buffer``."""
        coder = self._fitted.coder
        return coder.codes(self._run(coder.features, self._checked(observations)))

    @property
    def counts(self) -> Floats:
        """Number of steps by code, action and next code, (k, n_actions, k); the last code is the end."""
        return self._fitted.counts

    @property
    def held_out(self) -> HeldOut:
        """How well the counted process predicts the episodes that were held out, after the round that was kept."""
        return self._fitted.held_out

    @property
    def kernel(self) -> Floats:
        """Relative frequencies of the next codes, (k, n_actions, k); untried actions stay, the last code is the end."""
        counts = self.counts
        visits = counts.sum(axis=2, keepdims=True)
        stay = np.repeat(np.eye(len(counts))[:, None], counts.shape[1], axis=1)  # unvisited codes stay where they are
        table: Floats = np.where(visits > 0, counts / np.maximum(visits, 1.0), stay)
        return table

    @property
    def rewards(self) -> Floats:
        """Mean reward of each action in each code, (k, n_actions)."""
        means: Floats = self._fitted.earned / np.maximum(self.counts.sum(axis=2), 1.0)
        return means

    @cached_property
    def metric(self) -> Floats:
        """The exact bisimulation metric of the counted process, (k, k), as `over` says."""
        return self.metric_under(None if self.over == "actions" else "recorded")

    def metric_under(self, policy: Any = "recorded") -> Floats:
        """The exact metric under a policy over codes, (k, k).

        Parameters
        ----------
        policy : "recorded", None or array_like, shape (k, n_actions)
            The policy that recorded the steps; the largest over all actions; or the probability of each action in each
            code, such as the mean over its observations.
        """
        from somcot.solvers.strategy_iteration import Game, solve  # compiled code, loaded when used

        P, r, n = self.kernel, self.rewards, len(self.counts)
        if policy is not None:
            if isinstance(policy, str) and policy == "recorded":
                visits = self.counts.sum(axis=2)
                law = visits + (visits.sum(axis=1, keepdims=True) == 0)  # uniform where nothing was recorded
            else:
                law = real_array("policy", policy, 2)
                if law.shape not in (r.shape, (n - 1, r.shape[1])):
                    raise ValueError(f"policy: found shape {law.shape}, expected {(n - 1, r.shape[1])}")
                if (law < 0).any() or not law.sum(axis=1).all():
                    raise ValueError("policy: found a negative entry or a row of zeros, expected probabilities")
                law = np.vstack([law, np.ones((n - len(law), r.shape[1]))])  # at the end, any action
            law = law / law.sum(axis=1, keepdims=True)
            P, r = np.einsum("sa,sat->st", law, P)[:, None], (law * r).sum(axis=1)[:, None]
        support = Support.from_rows(np.vstack([P.reshape(-1, n), np.eye(n)[:1]]))  # nothing depends on the start
        return solve(Game(support, support, r, r, self.discount, True)).metric

    def distance(self, one: Any, other: Any) -> Floats:
        """The metric between the codes of two batches of observations, (n, m)."""
        return np.asarray(self.metric[np.ix_(self.encode(one), self.encode(other))])

    # --- An embedding, if wanted

    def _embedded(self, data: _Replay, codes: Ints, rng: np.random.Generator) -> torch.nn.Module:
        """A network whose L1 distances are regressed on the metric."""
        trunk = self._trunk(data)
        last = torch.nn.Linear(self._width(data, trunk), self.embedding or 1)
        network = torch.nn.Sequential(trunk, last).to(self.device)
        self._unit = float(self.metric.mean()) or 1.0  # targets of order 1 are easier to learn
        target = torch.as_tensor(self.metric / self._unit, device=self.device, dtype=torch.float32)

        def loss() -> Tensor:
            i = rng.integers(len(codes), size=self.batch_size)
            points, at = network(self._seen(data.observations[i])), torch.as_tensor(codes[i])
            return ((torch.cdist(points, points, p=1) - target[at][:, at]) ** 2).mean()

        self._minimise([network], max(self.steps[0] * 5 // 6, 1), 4 / 3, loss)
        return network

    def embed(self, observations: Any) -> Floats:
        """Embeddings of observations, (n, embedding), whose L1 distances approximate the metric."""
        seen = self._checked(observations)
        if self._embedding is None:
            raise ValueError("embedding: found None, expected the dimension of the embedding when the object was made")
        points: Floats = self._run(self._embedding, seen) * self._unit
        return points

    @property
    def _fitted(self) -> _Round:
        if not self.history:
            raise ValueError("StateAbstraction: not fitted yet; call fit(transitions) first")
        return self._kept

    def _checked(self, observations: Any) -> Array:
        array, shape = _numbers("observations", observations), self._fitted.shape
        if array.shape[1:] != shape:
            raise ValueError(f"observations: found shape {array.shape}, expected (n, {', '.join(map(str, shape))})")
        return array

    def __repr__(self) -> str:
        if not self.history:
            return f"StateAbstraction({self.n_codes} codes, not fitted)"
        found = self.held_out
        return (
            f"StateAbstraction({self._kept.coder.k} codes; log-likelihood of held-out steps: "
            f"next code {found.next_code:.3f} (marginal {found.marginal:.3f}), reward {found.reward:.3f})"
        )


def _predictions(network: torch.nn.Module, n_actions: int, unit: float, seen: Tensor) -> Tensor:
    """Features: predicted reward and law of the next code for every action; no closure, so that it can be pickled."""
    out = network(seen).view(len(seen), n_actions, -1)
    return torch.cat([out[:, :, :1] / unit, out[:, :, 1:].softmax(-1)], 2).flatten(1)


class _Coder(NamedTuple):
    """From features to codes: that of the nearest centre on the leading principal axes."""

    features: Callable[[Tensor], Tensor]
    mean: Floats
    spread: Floats
    axes: Floats
    centres: Floats
    merged: Ints

    @property
    def k(self) -> int:
        return int(self.merged.max()) + 1

    def codes(self, points: Floats) -> Ints:
        points = (points - self.mean) / self.spread @ self.axes
        nearest: Ints = ((self.centres**2).sum(axis=1) - 2.0 * points @ self.centres.T).argmin(axis=1)
        return self.merged[nearest]


class _Round(NamedTuple):
    """What one round of clustering gives: codes of all steps, and their counts."""

    coder: _Coder
    now: Ints
    following: Ints
    counts: Floats
    earned: Floats
    held_out: HeldOut
    shape: tuple[int, ...]  # of an observation


class _Replay(NamedTuple):
    """Recorded steps in order of time."""

    observations: Array
    actions: Ints
    rewards: Floats
    next_observations: Array
    terminated: Bools
    episode: Ints
    n_actions: int

    @classmethod
    def of(cls, given: Any) -> _Replay:
        names = (*_PARTS, "terminated", "truncated")
        held = given if isinstance(given, Mapping) else {name: getattr(given, name, None) for name in names}
        parts: dict[str, Any] = {name: held.get(name) for name in names}
        for name in _PARTS:
            if parts[name] is None:
                raise ValueError(f"transitions: found no {name}, expected {', '.join(_PARTS)}")
        seen, later = (_numbers(f"transitions: {name}", parts[name]) for name in ("observations", "next_observations"))
        n = len(seen)
        if n < 20:
            raise ValueError(f"transitions: found {n} steps, expected at least 20")
        for name in ("actions", "rewards", "terminated", "truncated"):  # columns in some buffers; flags may be missing
            part = _array(np.zeros(n) if parts[name] is None else parts[name])
            if part.size != n:
                raise ValueError(f"transitions: found {name} of shape {part.shape} for {n} observations")
            parts[name] = part.reshape(n)
        if later.shape != seen.shape:
            raise ValueError(f"transitions: found next_observations of shape {later.shape}, observations {seen.shape}")
        rewards, actions = real_array("transitions: rewards", parts["rewards"], 1), parts["actions"]
        if actions.dtype.kind == "f" and not (actions == np.floor(actions)).all():
            place = int((actions != np.floor(actions)).argmax())
            raise ValueError(f"transitions: actions: entry {place} is {actions[place]}, expected discrete actions")
        labels, codes = np.unique(actions, return_inverse=True)
        terminated, truncated = (parts[name].astype(np.bool_) for name in ("terminated", "truncated"))
        apart = (later[:-1] != seen[1:]).reshape(n - 1, -1).any(axis=1)  # the next step begins elsewhere
        episode = np.append(0, np.cumsum(terminated[:-1] | truncated[:-1] | apart))
        return cls(seen, codes.astype(np.int64), rewards, later, terminated, episode, len(labels))

    @property
    def scale(self) -> tuple[Array, float]:
        """Mean of each coordinate, and one standard deviation for all."""
        mean = self.observations.mean(axis=0, dtype=np.float64).astype(np.float32)
        some = self.observations[:: max(len(self.observations) // 2000, 1)]
        return mean, float(np.std(some - mean)) or 1.0

    @property
    def reward_scale(self) -> float:
        return float(self.rewards.std()) or 1.0

    @property
    def steps_left(self) -> Ints:
        """Number of steps of the episode from each step on, itself included."""
        last = np.append(np.flatnonzero(np.diff(self.episode)), len(self.episode) - 1)
        left: Ints = last[self.episode] - np.arange(len(self.episode)) + 1
        return left

    def rewards_ahead(self, n: int) -> tuple[Floats, Bools]:
        """The next n rewards in units of their spread, 0 after the end of an episode, and whether they are known."""
        left = self.steps_left
        at = np.arange(len(self.rewards))[:, None] + np.arange(n)
        inside = np.arange(n) < left[:, None]
        last = np.minimum(np.arange(len(left)) + left - 1, len(left) - 1)
        values = np.where(inside, self.rewards[np.minimum(at, len(self.rewards) - 1)], 0.0)
        return values / self.reward_scale, inside | self.terminated[last][:, None]

    def split(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Steps to train on and steps held out, by whole episodes, or the last steps of a single one."""
        n = int(self.episode[-1]) + 1
        if n < 10:
            cut = int((1.0 - _HELD_OUT) * len(self.rewards))
            return np.arange(cut), np.arange(cut, len(self.rewards))
        out = np.zeros(n, np.bool_)
        out[rng.permutation(n)[: max(round(_HELD_OUT * n), 1)]] = True
        return np.flatnonzero(~out[self.episode]), np.flatnonzero(out[self.episode])


def _array(values: Any) -> Array:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def _numbers(name: str, values: Any) -> Array:
    array = _array(values)
    if array.dtype.kind not in "biuf" or array.ndim < 1:
        raise TypeError(f"{name}: found entries of type {array.dtype}, expected numbers")
    array = array[:, None] if array.ndim == 1 else array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise ValueError(f"{name}: row {row} is not finite; remove or replace it")
    return array


def _held_out(counts: Floats, earned: Floats, steps: tuple[Ints, Ints, Ints, Floats], test: Ints) -> HeldOut:
    """Log-likelihoods of the held-out steps; one more observation, spread as all next codes, smooths each row."""
    now, action, following, reward = (part[test] for part in steps)
    total = counts.sum(axis=(0, 1)) + 1.0
    share = total / total.sum()
    visits = counts.sum(axis=2)
    row = (counts[now, action, following] + share[following]) / (visits[now, action] + 1.0)
    mean = float(earned.sum() / max(visits.sum(), 1.0))
    expected = (earned[now, action] + mean) / (visits[now, action] + 1.0)
    variance = max(float(np.mean((reward - expected) ** 2)), 1e-12)
    likelihood = -0.5 * (np.log(2.0 * np.pi * variance) + 1.0)
    return HeldOut(float(np.log(row).mean()), float(likelihood), float(np.log(share[following]).mean()))


def _merged(centres: Floats, k: int) -> Ints:
    """The code of each cluster: clusters are merged by how far apart they are, however many points they hold.

    k-means alone spends most codes on frequent states, and rare ones share the rest.
    """
    if len(centres) <= k:
        return np.arange(len(centres))
    from scipy.cluster.hierarchy import fcluster, linkage

    _, codes = np.unique(fcluster(linkage(centres, "average"), k, "maxclust"), return_inverse=True)
    return codes.astype(np.int64)
