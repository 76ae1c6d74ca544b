"""
A figure of the paper
=====================

``somcot reproduce all`` draws every figure of the paper with its numbers. This is one of them, smaller: how the step
sizes of SOMCOT decide how fast it converges.
"""

import matplotlib.pyplot as plt

from somcot.experiments.steps import EXPERIMENT

# %%
record = EXPERIMENT.run(EXPERIMENT.quick, 0, None)
EXPERIMENT.plot(record)
plt.show()
