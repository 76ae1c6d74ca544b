"""
Which node is which?
====================

The same club, twice: the second network has other names for its members and lost some of its friendships. Who is who?
No name and no attribute is used, only how the network looks from each member.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from scipy.optimize import linear_sum_assignment

import somcot
from somcot import readers

# %%
# Zachary's club, and a copy with its members renamed at random. A pair of members costs what their surroundings differ
# by: how many neighbours one meets after 0, 1, 2 steps.
club = nx.karate_club_graph()
for _, _, edge in club.edges(data=True):
    edge.clear()  # friendships without strengths
rng = np.random.default_rng(0)
names = dict(enumerate(rng.permutation(club.number_of_nodes()).tolist()))


def copy(n_lost: int, seed: int) -> nx.Graph:
    """The renamed club without some friendships, in one piece still."""
    lost, order = nx.relabel_nodes(club, names), np.random.default_rng(seed)
    while n_lost:
        edges = sorted(lost.edges)
        a, b = edges[order.integers(len(edges))]
        lost.remove_edge(a, b)
        if nx.is_connected(lost):
            n_lost -= 1
        else:
            lost.add_edge(a, b)
    return lost


def walk(graph: nx.Graph) -> somcot.MarkovChain:
    return readers.from_graph(graph, initial="stationary")


whole = walk(copy(0, 0))
result = somcot.distance(walk(club), whole, "neighbourhood", discount=0.9)
print(result)

# %%
# Distance 0: the two are one network. The metric says for every pair of members how different their places are, and
# the cheapest assignment puts names to them. Members who have the same neighbours are exchangeable, for anybody.


def share_found(graph: nx.Graph) -> float:
    """Members that are assigned to themselves, or to somebody with the same friends."""
    a, b = walk(club), walk(graph)
    metric = somcot.metric(a, b, somcot.costs.between("neighbourhood", a, b), discount=0.9)
    rows, columns = linear_sum_assignment(metric)
    whom = {int(a.states[i]): int(b.states[j]) for i, j in zip(rows, columns, strict=True)}
    back = {new: old for old, new in names.items()}
    return float(np.mean([set(club[i]) - {back[j]} == set(club[back[j]]) - {i} for i, j in whom.items()]))


print(f"found: {share_found(copy(0, 0)):.0%}")

# %%
# With friendships lost it becomes a matter of degree. Five copies for each number of lost ones:
lost = [0, 1, 2, 4, 8, 12]
found = np.array([[share_found(copy(n, seed)) for seed in range(5)] for n in lost])
away = [somcot.distance(walk(club), walk(copy(n, 0)), "neighbourhood", discount=0.9).distance for n in lost]
for n, shares, distance in zip(lost, found, away, strict=True):
    print(f"{n:2} of {club.number_of_edges()} lost: {shares.mean():.0%} of the members found, distance {distance:.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
metric = somcot.metric(walk(club), whole, somcot.costs.between("neighbourhood", walk(club), whole), discount=0.9)
order = [whole.states.index(names[i]) for i in range(len(names))]
figure.colorbar(left.imshow(metric[:, order], cmap="viridis"), ax=left, label="distance", shrink=0.85)
left.set(title="distance of every pair; the diagonal is right", xlabel="copy", ylabel="club")
right.fill_between(lost, found.min(axis=1), found.max(axis=1), alpha=0.2)
right.plot(lost, found.mean(axis=1), "o-")
right.axhline(1 / 34, color="gray", linestyle=":", label="by chance")
right.set(xlabel="friendships lost (of 78)", ylabel="share of members found", ylim=(0, 1.03))
right.legend(frameon=False)
plt.show()
