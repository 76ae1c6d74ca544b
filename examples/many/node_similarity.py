"""
Which nodes play the same role?
===============================

A node is described by the random walk that starts there. Two nodes are similar if the walks visit similar nodes, near
or far, in one network or in two. SimRank and embeddings by proximity find neighbours instead.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import somcot
from somcot import readers

# %%
# Zachary's karate club split in two, around its instructor (0) and its president (33), who share four of 16 and 17
# friends. With the cost ``"degree"``, the metric of all pairs compares how many friends a walk's members have.
club = nx.karate_club_graph()
for _, _, edge in club.edges(data=True):
    edge.clear()  # unweighted friendships
walk = readers.from_graph(club, initial="stationary")
metric = somcot.metric(walk, walk, "degree", discount=0.9)
simrank = nx.simrank_similarity(club)
for member in (0, 33, 16):
    near = [walk.states[k] for k in np.argsort(metric[walk.states.index(member)], kind="stable")[1:4]]
    linked = sorted(simrank[member], key=simrank[member].get, reverse=True)[1:4]
    print(f"most like member {member}: {near} by the metric, {linked} by SimRank")

# %%
# The metric names the other leader first; SimRank puts him twentieth. Distance 0 means that the whole views of the
# network are alike: members with exchangeable places.
same = {tuple(walk.states[k] for k in np.flatnonzero(row < 1e-9)) for row in metric if np.count_nonzero(row < 1e-9) > 1}
print("exchangeable:", sorted(same))

# %%
# Both similarities to the instructor, from dark (alike) to light; he is marked by a square.
place = nx.spring_layout(club, seed=2)
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
index = walk.states.index(0)
shades = {
    "distance of walks": [metric[index][walk.states.index(v)] for v in club],
    "SimRank": [-simrank[0][v] for v in club],
}
for ax, (title, values) in zip(axes, shades.items(), strict=True):
    ranks = np.argsort(np.argsort(values))
    nx.draw_networkx_edges(club, place, ax=ax, edge_color="0.8")
    for mark, chosen in (("o", list(club)[1:]), ("s", [0])):
        nx.draw_networkx_nodes(
            club, place, chosen, ax=ax, node_shape=mark, node_color=ranks[chosen], cmap="viridis", vmin=0, vmax=40
        )
    nx.draw_networkx_labels(club, place, {0: "0", 33: "33"}, ax=ax, font_color="white", font_size=11)
    ax.set_title(f"like the instructor: {title}")
    ax.set_axis_off()
plt.show()

# %%
# The nodes may belong to different networks. Who in Les Misérables is most like the instructor? Nobody is as near as
# the president (0.95).
novel = nx.les_miserables_graph()
for _, _, edge in novel.edges(data=True):
    edge.clear()
characters = readers.from_graph(novel, initial="stationary")
across = somcot.metric(walk, characters, "degree", discount=0.9)[index]
for k in np.argsort(across)[:3]:
    print(f"{characters.states[k]}: {across[k]:.2f}")
