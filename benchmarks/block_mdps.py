"""Block MDPs: hidden states seen as noisy images of 12 x 12 pixels with a distractor, and what is known about them.

`TUNED` were used while the recipe was made, by the benchmark's authors or before. `UNSEEN` were written down before
anything was run on them; then rewards were predicted further ahead because of gears24, so `LATER` were written down.
`FRESH` were written down when it was known that the recipe misses door24, before anything was changed because of it.
`LAST` were written down when it was known that key24 of them was missed, before predicted rewards were rescaled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import mdp
from somcot.plumbing.arrays import Floats, Ints

__all__ = ["FRESH", "LAST", "LATER", "TUNED", "UNSEEN", "Block", "Recording", "collect", "make", "truth"]

TUNED = ("room3", "garnet12", "line14", "ladder15")
UNSEEN = ("torus16", "garnet18", "reset21", "door24", "carry18", "gears24")
LATER = ("wheel20", "garnet22", "waiting16")
FRESH = ("key24", "cellar20", "tides24", "maze25", "hubs20", "pump18")
LAST = ("switches20", "slope22", "taxi27")
NOISE, BAR, HORIZON, SIZE = 0.4, 1.5, 60, 12


class Block(NamedTuple):
    """A hidden decision process, its templates and the policy that records it."""

    transitions: Floats  # (n, m, n)
    rewards: Floats  # (n, m)
    reward_noise: float
    templates: Floats  # (n, 12, 12)
    policy: Floats  # (n, m)


class Recording(NamedTuple):
    """Steps of all episodes, one after the other, with the hidden states."""

    observations: NDArray[np.float32]
    actions: Ints
    rewards: Floats
    next_observations: NDArray[np.float32]
    truncated: NDArray[np.bool_]
    hidden: Ints
    next_hidden: Ints


def _grid(
    rows: int, columns: int, slip: float, walls: frozenset[tuple[int, int]] = frozenset(), *, wrap: bool = False
) -> Floats:
    """Moves up, down, left, right; with probability `slip` one of the four at random."""
    n = rows * columns
    P = np.zeros((n, 4, n))
    for s in range(n):
        r, c = divmod(s, columns)
        for a in range(4):
            for b, (dr, dc) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
                if wrap:
                    t = (r + dr) % rows * columns + (c + dc) % columns
                else:
                    t = min(max(r + dr, 0), rows - 1) * columns + min(max(c + dc, 0), columns - 1)
                t = s if (s, t) in walls or (t, s) in walls else t
                P[s, a, t] += (1 - slip) * (a == b) + slip / 4
    return P


def _garnet(n: int, m: int, branching: int, rng: np.random.Generator) -> Floats:
    P = np.zeros((n, m, n))
    for s in range(n):
        for a in range(m):
            P[s, a, rng.choice(n, branching, replace=False)] = rng.dirichlet(np.ones(branching))
    return P


def _blocks(rows: int, columns: int, width: int, step: tuple[int, int]) -> Floats:
    out = np.zeros((rows * columns, SIZE, SIZE))
    for s in range(rows * columns):
        r, c = divmod(s, columns)
        out[s, step[0] * r : step[0] * r + width, step[1] * c : step[1] * c + width] = 1
    return out


def _masks(n: int, rng: np.random.Generator, k: int = 16) -> Floats:
    out = np.zeros((n, SIZE * SIZE))
    for s in range(n):
        out[s, rng.choice(SIZE * SIZE, k, replace=False)] = 1
    return out.reshape(n, SIZE, SIZE)


def _uniform(n: int, m: int) -> Floats:
    return np.full((n, m), 1.0 / m)


def make(name: str) -> Block:
    """A block MDP by name."""
    rng = np.random.default_rng(sum(map(ord, name)))
    makers = {
        "room3": _room3, "garnet12": _garnet12, "line14": _line14, "ladder15": _ladder15, "torus16": _torus16,
        "garnet18": _garnet18, "reset21": _reset21, "door24": _door24, "carry18": _carry18, "gears24": _gears24,
        "wheel20": _wheel20, "garnet22": _garnet22, "waiting16": _waiting16, "key24": _key24,
        "cellar20": _cellar20, "tides24": _tides24, "maze25": _maze25, "hubs20": _hubs20, "pump18": _pump18,
        "switches20": _switches20, "slope22": _slope22, "taxi27": _taxi27,
    }  # fmt: skip
    return makers[name](rng)


# --- Used while the recipe was made


def _room3(rng: np.random.Generator) -> Block:
    R = np.zeros((9, 4))
    R[8] = 1
    return Block(_grid(3, 3, 0.15), R, 0.0, _blocks(3, 3, 4, (4, 4)), _uniform(9, 4))


def _garnet12(rng: np.random.Generator) -> Block:
    P = _garnet(12, 3, 3, rng)
    R = np.repeat(rng.random((12, 1)) * (rng.random((12, 1)) < 0.4), 3, 1)
    return Block(P, R, 0.0, _masks(12, rng), _uniform(12, 3))


def _line(n: int, wrong: float) -> Floats:
    P = np.zeros((n, 2, n))
    for x in range(n):
        for a, d in enumerate((-1, 1)):
            for e, p in ((d, 1 - wrong), (-d, wrong)):
                P[x, a, min(max(x + e, 0), n - 1)] += p
    return P


def _line14(rng: np.random.Generator) -> Block:
    R = np.zeros((14, 2))
    R[13] = 1
    return Block(_line(14, 0.15), R, 0.0, _masks(14, rng), _uniform(14, 2))


def _ladder15(rng: np.random.Generator) -> Block:
    """Climb, wait, or fall: the upper rungs and the reward are rarely seen."""
    P, R = np.zeros((15, 3, 15)), np.zeros((15, 3))
    R[14] = 1
    for x in range(15):
        P[x, 0, min(x + 1, 14)] += 0.9
        P[x, 0, 0] += 0.1
        P[x, 1, x] += 0.5
        P[x, 1, max(x - 1, 0)] += 0.5
        P[x, 2, max(x - 3, 0)] += 1
    return Block(P, R, 0.0, _masks(15, rng, 12), _uniform(15, 3))


# --- Written down before anything was run on them


def _torus16(rng: np.random.Generator) -> Block:
    """A room without walls: whoever leaves on one side enters on the other. Two rewards; uniform policy."""
    R = np.zeros((16, 4))
    R[5], R[15] = 1, -0.4
    return Block(_grid(4, 4, 0.2, wrap=True), R, 0.0, _blocks(4, 4, 3, (3, 3)), _uniform(16, 4))


def _garnet18(rng: np.random.Generator) -> Block:
    """Rewards depend on the action and are noisy; the policy prefers an action in each state."""
    P = _garnet(18, 4, 2, rng)
    R = rng.random((18, 4)) * (rng.random((18, 1)) < 0.35)
    policy = 0.6 * np.eye(4)[rng.integers(4, size=18)] + 0.1
    return Block(P, R, 0.1, _masks(18, rng), policy)


def _reset21(rng: np.random.Generator) -> Block:
    """A line of 21 with a button that leads back to its start; the policy mostly goes right, the end is rare."""
    P = np.zeros((21, 3, 21))
    P[:, :2] = _line(21, 0.1)
    P[:, 2, 0] = 1
    R = np.zeros((21, 3))
    R[20] = 1
    return Block(P, R, 0.0, _masks(21, rng, 14), np.tile([0.3, 0.6, 0.1], (21, 1)))


def _door24(rng: np.random.Generator) -> Block:
    """Two rooms of 4 x 3 with one door; the policy drifts to the right."""
    walls = frozenset((6 * r + 2, 6 * r + 3) for r in (0, 1, 3))
    R = np.zeros((24, 4))
    R[23], R[0] = 1, 0.3
    return Block(_grid(4, 6, 0.15, walls), R, 0.0, _blocks(4, 6, 2, (3, 2)), np.tile([0.2, 0.2, 0.2, 0.4], (24, 1)))


def _carry18(rng: np.random.Generator) -> Block:
    """A room of 3 x 3: what is grabbed in one corner is worth something in the other; uniform policy."""
    move = _grid(3, 3, 0.1)
    P, R = np.zeros((18, 5, 18)), np.zeros((18, 5))
    for load in (0, 1):
        P[9 * load : 9 * load + 9, :4, 9 * load : 9 * load + 9] = move
        for s in range(9):
            after = 1 if s == 0 else 0 if (s == 8 and load) else load
            P[9 * load + s, 4, 9 * after + s] = 1
    R[17, 4] = 1
    t = np.zeros((18, SIZE, SIZE))
    t[:9] = t[9:] = _blocks(3, 3, 3, (3, 3))
    t[9:, 9:12, 9:12] = 1
    return Block(P, R, 0.0, t, _uniform(18, 5))


def _gears24(rng: np.random.Generator) -> Block:
    """Twelve phases and two gears: the fast one skips a phase; reward at phase 0, more in the slow gear."""
    P, R = np.zeros((24, 2, 24)), np.zeros((24, 2))
    for gear in (0, 1):
        for phase in range(12):
            P[12 * gear + phase, 0, 12 * gear + (phase + 1 + gear) % 12] += 0.9
            P[12 * gear + phase, 0, 12 * gear + phase] += 0.1
            P[12 * gear + phase, 1, 12 * (1 - gear) + phase] = 1
    R[0], R[12] = 1, 0.4
    return Block(P, R, 0.0, _masks(24, rng, 14), np.tile([0.8, 0.2], (24, 1)))


# --- Written down after the rewards predicted were made to reach as far as the discount


def _wheel20(rng: np.random.Generator) -> Block:
    """A ring of twenty: back, stay, forward, which fails now and then; two rewards; the policy goes forward."""
    P, R = np.zeros((20, 3, 20)), np.zeros((20, 3))
    for s in range(20):
        for a in range(3):
            P[s, a, (s + a - 1) % 20] += 0.85
            P[s, a, s] += 0.15
    R[0], R[7] = 1, -0.5
    return Block(P, R, 0.0, _masks(20, rng, 14), np.tile([0.25, 0.25, 0.5], (20, 1)))


def _garnet22(rng: np.random.Generator) -> Block:
    """Three successors of each action, few rewards, noisy ones; another policy in each state."""
    P = _garnet(22, 3, 3, rng)
    R = np.repeat(rng.random((22, 1)) * (rng.random((22, 1)) < 0.25), 3, 1)
    return Block(P, R, 0.2, _masks(22, rng), rng.dirichlet(np.full(3, 2.0), size=22))


def _waiting16(rng: np.random.Generator) -> Block:
    """A queue of up to fifteen: slow or fast service, which costs; long queues are rare and cost more."""
    P, R = np.zeros((16, 2, 16)), np.zeros((16, 2))
    for s in range(16):
        for a, served in enumerate((0.35, 0.65)):
            for change, p in ((1, 0.45 * (1 - served)), (-1, 0.55 * served)):
                P[s, a, min(max(s + change, 0), 15)] += p
            P[s, a, s] += 1 - 0.45 * (1 - served) - 0.55 * served
            R[s, a] = -s / 15 - 0.2 * a
    return Block(P, R, 0.0, _masks(16, rng, 14), _uniform(16, 2))


# --- Written down after door24 was missed, before the recipe was changed


def _key24(rng: np.random.Generator) -> Block:
    """Rooms of 3 x 4 with a key in one corner, which opens the chest in the other and is then gone; drift upwards."""
    move = _grid(3, 4, 0.1)
    P, R = np.zeros((24, 5, 24)), np.zeros((24, 5))
    for key in (0, 1):
        P[12 * key : 12 * key + 12, :4, 12 * key : 12 * key + 12] = move
        for s in range(12):
            after = 1 if s == 8 else 0 if s == 3 else key
            P[12 * key + s, 4, 12 * after + s] = 1
    R[12 + 3, 4] = 1
    t = np.zeros((24, SIZE, SIZE))
    t[:12] = t[12:] = _blocks(3, 4, 2, (3, 3))
    t[12:, 10:12, :3] = 1
    return Block(P, R, 0.0, t, np.tile([0.3, 0.15, 0.15, 0.2, 0.2], (24, 1)))


def _cellar20(rng: np.random.Generator) -> Block:
    """A ring of twelve and a cellar of eight below it: rarely entered, easily left, with half of the rewards."""
    P, R = np.zeros((20, 3, 20)), np.zeros((20, 3))
    for s in range(12):
        P[s, 0, (s + 1) % 12], P[s, 1, (s - 1) % 12], P[s, 2, s] = 1, 1, 1
    P[4, 2, 4], P[4, 2, 12] = 0.7, 0.3
    for s in range(12, 20):
        P[s, 0, min(s + 1, 19)] += 0.8
        P[s, 0, max(s - 1, 12)] += 0.2
        P[s, 1, 4], P[s, 1, s] = 0.5, 0.5
        P[s, 2, s] = 1
    R[9], R[19], R[15] = 0.5, 1, -0.5
    return Block(P, R, 0.05, _masks(20, rng, 12), np.tile([0.5, 0.35, 0.15], (20, 1)))


def _tides24(rng: np.random.Generator) -> Block:
    """Twelve cells, two tides that no action changes and that turn now and then: each rewards another corner."""
    move = _grid(3, 4, 0.15)
    P, R = np.zeros((24, 4, 24)), np.zeros((24, 4))
    for tide in (0, 1):
        for other, p in ((tide, 0.96), (1 - tide, 0.04)):
            P[12 * tide : 12 * tide + 12, :, 12 * other : 12 * other + 12] = p * move
    R[0], R[12 + 11], R[12 + 5] = 1, 0.7, -0.5
    t = np.zeros((24, SIZE, SIZE))
    t[:12] = t[12:] = _blocks(3, 4, 3, (3, 3))
    t[12:, 9:12, 4:8] = 1
    return Block(P, R, 0.0, t, np.tile([0.2, 0.3, 0.3, 0.2], (24, 1)))


def _maze25(rng: np.random.Generator) -> Block:
    """A maze of 5 x 5 with small squares; the policy prefers other moves in each field."""
    below, beside = (0, 1, 3, 8, 10, 12, 16), (6, 11, 13, 18, 22)
    walls = {(s, s + 5) for s in below} | {(s, s + 1) for s in beside}
    R = np.zeros((25, 4))
    R[24], R[4], R[20] = 1, 0.4, -0.3
    policy = 0.6 * rng.dirichlet(np.ones(4), size=25) + 0.1
    return Block(_grid(5, 5, 0.1, frozenset(walls)), R, 0.0, _blocks(5, 5, 2, (2, 2)), policy)


def _hubs20(rng: np.random.Generator) -> Block:
    """Successors are drawn from a few hubs, so that most states are rare; noisy rewards of each action."""
    popular = 1.0 / (1.0 + np.arange(20.0))
    P = np.zeros((20, 3, 20))
    for s in range(20):
        for a in range(3):
            P[s, a, rng.choice(20, 3, replace=False, p=popular / popular.sum())] = rng.dirichlet(np.ones(3))
    R = rng.random((20, 3)) * (rng.random((20, 1)) < 0.5)
    return Block(P, R, 0.1, _masks(20, rng, 12), rng.dirichlet(np.ones(3), size=20))


def _pump18(rng: np.random.Generator) -> Block:
    """Six places and three levels of water: pumping at place 0 raises it, it leaks; full means reward at place 5."""
    P, R = np.zeros((18, 3, 18)), np.zeros((18, 3))
    for level in range(3):
        for x in range(6):
            for a in range(3):
                y = min(max(x + (a == 1) - (a == 0), 0), 5)
                up = min(level + (a == 2 and x == 0), 2)
                P[6 * level + x, a, 6 * up + y] += 0.85
                P[6 * level + x, a, 6 * max(level - 1, 0) + y] += 0.15
            R[6 * level + x] = (0.5 * level if x == 5 else 0.0) - 0.1 * (level == 0)
    t = np.zeros((18, SIZE, SIZE))
    for s in range(18):
        t[s, 2 : 4 + 3 * (s // 6), 2 * (s % 6) : 2 * (s % 6) + 2] = 1
    return Block(P, R, 0.0, t, np.tile([0.3, 0.4, 0.3], (18, 1)))


# --- Written down after key24 was missed, before predicted rewards were rescaled


def _switches20(rng: np.random.Generator) -> Block:
    """Five places on a ring and two switches, at places 0 and 2: both on is worth a reward at place 4."""
    P, R = np.zeros((20, 3, 20)), np.zeros((20, 3))
    for on in range(4):
        for x in range(5):
            s = 5 * on + x
            for a, step in ((0, -1), (1, 1)):
                P[s, a, 5 * on + (x + step) % 5] += 0.85
                P[s, a, s] += 0.15
            after = on ^ {0: 1, 2: 2}.get(x, 0) if not (x == 4 and on == 3) else 0
            P[s, 2, 5 * after + x] = 1
    R[19, 2] = 1
    t = np.zeros((20, SIZE, SIZE))
    for s in range(20):
        t[s, :3, 2 * (s % 5) : 2 * (s % 5) + 3] = 1
        t[s, 8:11, 1:4] = (s // 5) & 1
        t[s, 8:11, 7:10] = (s // 5) >> 1
    return Block(P, R, 0.0, t, np.tile([0.3, 0.5, 0.2], (20, 1)))


def _slope22(rng: np.random.Generator) -> Block:
    """Uphill against the wind, downhill, or rest: effort costs a little everywhere, the rare top gives much."""
    P, R = np.zeros((22, 3, 22)), np.zeros((22, 3))
    for s in range(22):
        for a, up in enumerate((0.75, 0.1, 0.3)):
            P[s, a, min(s + 1, 21)] += up
            P[s, a, max(s - 1, 0)] += 1 - up
    R[:, 0], R[21] = -0.05, 3
    return Block(P, R, 0.05, _masks(22, rng, 12), np.tile([0.6, 0.2, 0.2], (22, 1)))


def _taxi27(rng: np.random.Generator) -> Block:
    """A room of 3 x 3 and a passenger who waits in a corner, rides, or has not come yet; the fifth action serves."""
    move = _grid(3, 3, 0.1)
    P, R = np.zeros((27, 5, 27)), np.zeros((27, 5))
    for who in range(3):
        for s in range(9):
            still = np.zeros(9)
            still[s] = 1
            served = 1 if (who, s) == (0, 2) else 2 if (who, s) == (1, 6) else who
            for a in range(5):
                cell, now = (move[s, a], who) if a < 4 else (still, served)
                comes = 0.15 if now == 2 else 0.0
                P[9 * who + s, a, 9 * now : 9 * now + 9] += (1 - comes) * cell
                P[9 * who + s, a, :9] += comes * cell
    R[9 + 6, 4] = 1
    t = np.zeros((27, SIZE, SIZE))
    for who in range(3):
        t[9 * who : 9 * who + 9] = _blocks(3, 3, 3, (3, 3))
    t[:9, 9:12, :3] = t[9:18, 9:12, 9:12] = 1
    return Block(P, R, 0.0, t, np.tile([0.15, 0.2, 0.2, 0.15, 0.3], (27, 1)))


# --- Data and truth


def collect(name: str, n: int, seed: int) -> Recording:
    """About n steps in episodes of 60 that start anywhere; the bar wanders on its own."""
    block = make(name)
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    N, m = block.rewards.shape
    episodes = n // HORIZON + 1
    next_law, action_law = block.transitions.cumsum(-1), block.policy.cumsum(-1)
    s = rng.integers(N, size=episodes)
    hidden, actions, rewards = [s], [], []
    for _ in range(HORIZON):
        a = np.minimum((action_law[s] < rng.random(episodes)[:, None]).sum(1), m - 1)
        t = np.minimum((next_law[s, a] < rng.random(episodes)[:, None]).sum(1), N - 1)
        rewards.append(block.rewards[s, a] + block.reward_noise * rng.normal(size=episodes))
        actions.append(a)
        hidden.append(t)
        s = t
    L = np.array(hidden).T
    walk = np.c_[np.zeros(episodes), rng.integers(-1, 2, size=(episodes, HORIZON)).cumsum(1)]
    bar = (rng.integers(SIZE, size=(episodes, 1)) + walk).astype(int) % SIZE
    seen = block.templates[L].astype(np.float32) + NOISE * rng.normal(size=(*L.shape, SIZE, SIZE)).astype(np.float32)
    seen += np.float32(BAR) * (np.arange(SIZE)[None, None, None, :] == bar[:, :, None, None])
    last = np.tile(np.arange(HORIZON) == HORIZON - 1, episodes)
    return Recording(
        seen[:, :-1].reshape(-1, SIZE, SIZE), np.array(actions).T.ravel(), np.array(rewards).T.ravel(),
        seen[:, 1:].reshape(-1, SIZE, SIZE), last, L[:, :-1].ravel(), L[:, 1:].ravel(),
    )  # fmt: skip


def truth(name: str, discount: float) -> Floats:
    """The exact metric of the hidden states under the recording policy."""
    block = make(name)
    P = np.einsum("sa,sat->st", block.policy, block.transitions)
    r = (block.policy * block.rewards).sum(1)
    return mdp.metric(mdp.MDP(P[:, None], r[:, None]), discount=discount, threads=1)
