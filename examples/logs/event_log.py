"""
An event log, May and June
==========================

A web shop records the pages that visitors open. Did their behaviour change in June?
"""

import matplotlib.pyplot as plt

import somcot
from somcot import plots, readers
from somcot.data import clickstream

# %%
# Two files with a row for every click. All sessions terminate.
may, june = (
    readers.from_table(clickstream.path(month), sequence="session", time="time", state="page", terminated=True)
    for month in ("may", "june")
)
print(may)
print(june)

# %%
# Without a cost, states are compared by label: the cost is 1 if the two visitors are on different pages. So the
# distance is the discounted share of steps on which the pages differ.
result = somcot.distance(may, june, discount=0.9, confidence=0.9)
print(result)
print(somcot.same_process(may, june, discount=0.9, rng=0))

# %%
# The largest contributions. Marked transitions are significant (false discovery rate 5 %).
print(result.contributions(5))
plots.contributions(result, names=("May", "June"))

# %%
# The corresponding pages: each row is the distribution of June's page while the May visitor is on this one.
plots.encoder(result, names=("May", "June"))
plt.show()
