"""
An event log, May and June
==========================

A shop records which page a visitor opens next. Was anything different in June?
"""

import matplotlib.pyplot as plt

import somcot
from somcot import plots, readers
from somcot.data import clickstream

# %%
# Two files with a row for every click. A session that ended stays ended.
may, june = (
    readers.from_table(clickstream.path(month), sequence="session", time="time", state="page", terminated=True)
    for month in ("may", "june")
)
print(may)
print(june)

# %%
# Without a cost, states are compared by their labels: 1 whenever the two visitors are on different pages. So the
# distance is the share of steps, weighted by the discount, on which they are.
result = somcot.distance(may, june, discount=0.9, confidence=0.9)
print(result)
print(somcot.same_process(may, june, discount=0.9, rng=0))

# %%
# Where does it come from? Marked steps are no accident (false discovery rate 5 %).
print(result.contributions(5))
plots.contributions(result, names=("May", "June"))

# %%
# And who corresponds to whom: each row is the law of June's page while the May visitor is on this one.
plots.encoder(result, names=("May", "June"))
plt.show()
