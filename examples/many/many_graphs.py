"""
From graphs to clusters
=======================

Distances between graphs of three families, with a dendrogram and a map.
"""

import matplotlib.pyplot as plt
import networkx as nx

import somcot
from somcot import plots, readers

# %%
# Random walks on the graphs, compared by the degrees of the nodes.
graphs = {}
for k in range(4):
    graphs[f"ring {k}"] = nx.cycle_graph(8 + k)
    graphs[f"star {k}"] = nx.star_graph(5 + k)
    graphs[f"grid {k}"] = nx.grid_2d_graph(4, 4 + k)
walks = {name: readers.from_graph(graph, initial="stationary") for name, graph in graphs.items()}
distances = somcot.distance_matrix(walks, "degree", discount=0.9)

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
plots.matrix(distances, ax=axes[0])
plots.dendrogram(distances, ax=axes[1])
plots.embedding(distances, ax=axes[2], n_clusters=3)
print(distances)
plt.show()
