"""
Markov state models with error bars
===================================

Two simulations of a molecule as discrete trajectories. Did a mutation change the kinetics, and by how much?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from deeptime.markov.msm import BayesianMSM

import somcot
from somcot import costs, msm, plots, readers

# %%
# A double well of six states on a line; the mutant's barrier is lower.
barrier = {"wild type": 0.02, "mutant": 0.06}


def simulated(crossing: float, seed: int) -> list[np.ndarray]:
    hop = np.full(5, 0.3)
    hop[2] = crossing
    kernel = np.diag(hop, 1) + np.diag(hop, -1)
    kernel += np.diag(1 - kernel.sum(axis=1))
    chain = somcot.MarkovChain(kernel, np.full(6, 1 / 6))
    draws = [chain.sample(1, 2000, rng=seed + k) for k in range(8)]
    return [np.append(draw.now, draw.following[-1]) for draw in draws]


wild, mutant = (simulated(crossing, 100 * k) for k, crossing in enumerate(barrier.values()))

# %%
# The first frames were chosen by hand, so both processes start in their stationary distributions; the cost is the
# distance along the line. The interval is computed from the trajectories.
position = np.arange(6.0)
cost = costs.absolute(position, position)
a, b = (readers.from_dtrajs(side, lag=1, initial="stationary") for side in (wild, mutant))
result = somcot.distance(a, b, cost, discount=0.99, confidence=0.9)
print(result)

# %%
# The distance for several lag times, with discounts of the same horizon in frames. Numbers of different lags are not
# comparable: they fall with the lag, also of Markov processes such as these. From which lag on models hold is tested.
sweep = msm.lag_sweep(wild, mutant, [1, 2, 5, 10], cost, discount=0.99)
print(f"Markov from lag {sweep.stable_from} on")
plots.intervals({f"lag {lag}, p = {p:.2g}": each for (lag, each), p in zip(sweep, sweep.pvalues, strict=True)})

# %%
# The posterior of a Bayesian model gives a distribution of distances. It reflects the uncertainty of the models, but
# the distance of two noisy models is biased upwards, which the interval above corrects.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    posteriors = [BayesianMSM(n_samples=60, lagtime=1).fit_fetch(side, lagtime=1) for side in (wild, mutant)]
draws = msm.posterior_distances(posteriors[0], posteriors[1], cost, discount=0.99)
print(draws)
_, ax = plt.subplots(layout="constrained")
ax.hist(draws.values, bins=15, color="C0", alpha=0.7)
ax.set(xlabel="distance", ylabel="draws", title="distances of models drawn from the posteriors")
plt.show()
