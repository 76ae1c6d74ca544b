"""
Reproducing the paper
=====================

``somcot reproduce all`` reproduces every figure of the paper as PNG and SVG, with its data as JSON and a page that
compares each with its acceptance figures. This is the quick version of one of them: which walk explains the
observations if every state is observed as one of several irrelevant variants?
"""

import matplotlib.pyplot as plt

from somcot.paper.model_selection import EXPERIMENT

# %%
# A fair walk and block chains of walks with drift. The quick version uses one size and two seeds.
record = EXPERIMENT.run(EXPERIMENT.quick, 0, None)

# %%
# The results, compared with those of a correct implementation:
print(*record.checks, sep="\n")

# %%
# SOMCOT, the paper's algorithm, at two lengths of run; the default estimator on the same samples; and the exact
# distances of the known chains. All have their minimum at the correct value. SOMCOT's distances differ from the exact
# ones with the paper's step sizes: see :doc:`../../reproduction`.
EXPERIMENT.plot(record)
plt.show()
