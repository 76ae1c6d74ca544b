"""
From graphs to clusters
=======================

Graphs of three families: how far apart they are, a tree of them, and a map.
"""

import matplotlib.pyplot as plt
import networkx as nx

import somcot
from somcot import plots, readers

# %%
# A walker on a graph sees how many neighbours a node has, nothing else.
graphs = {}
for k in range(4):
    graphs[f"ring {k}"] = nx.cycle_graph(8 + k)
    graphs[f"star {k}"] = nx.star_graph(5 + k)
    graphs[f"grid {k}"] = nx.grid_2d_graph(4, 4 + k)
walks = {name: readers.from_graph(graph, initial="stationary") for name, graph in graphs.items()}
found = somcot.distance_matrix(walks, "degree", discount=0.9)

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
plots.matrix(found, ax=axes[0])
plots.dendrogram(found, ax=axes[1])
plots.embedding(found, ax=axes[2], n_clusters=3)
print(found)
plt.show()
