"""
Calibrating a simulator with PyTorch
====================================

A simulator of a machine has three parameters: the probabilities of wear, failure and repair. Gradient descent adjusts
them until the earnings of the simulator behave like those of the recorded machine. The loss is the exact distance with
exact derivatives: it needs no temperature and no inner loop.
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-torch.png'
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

import somcot
import somcot.torch

NAMES = ("wear", "failure", "repair")
CONDITIONS = ("new", "good", "worn", "broken")
EARNS = torch.tensor([1.0, 0.8, 0.3, -1.0], dtype=torch.float64)


# %%
# The simulator: from three probabilities to a transition kernel.
def machine(knobs: Any) -> Any:
    wear, failure, repair = knobs
    kept, zero = (1 - wear) * (1 - failure), torch.zeros((), dtype=torch.float64)
    lost = wear * (1 - failure)
    rows = [
        [kept, lost, zero, failure],
        [zero, kept, lost, failure],
        [zero, zero, 1 - failure, failure],
        [repair, zero, zero, 1 - repair],
    ]
    return torch.stack([torch.stack(row) for row in rows])


# %%
# The data: 200 recorded shifts of 50 hours. The cost of a pair of conditions is the difference of their earnings.
truth = torch.tensor([0.12, 0.05, 0.35], dtype=torch.float64)
world = somcot.MarkovChain(machine(truth).numpy(), states=CONDITIONS).sample(200, 50, rng=0)
recorded = world.chain()
order = [recorded.states.index(name) for name in CONDITIONS]
counted = torch.tensor(np.asarray(recorded.transition)[np.ix_(order, order)])
cost = (EARNS[:, None] - EARNS[None, :]).abs()

# %%
# Gradient descent, from wrong values of all parameters.
logits = torch.logit(torch.tensor([0.4, 0.3, 0.1], dtype=torch.float64)).requires_grad_()
optimiser = torch.optim.Adam([logits], lr=0.05)
loss, path = somcot.torch.DistanceLoss(discount=0.95, cost=cost), []
for step in range(201):
    distance = loss(machine(logits.sigmoid()), counted)
    path.append((distance.item(), *logits.sigmoid().tolist()))
    optimiser.zero_grad()
    distance.backward()
    optimiser.step()
    if step % 50 == 0:
        print(f"step {step:3}: distance {path[-1][0]:.4f}")
best = min(path)
print("found:", *(f"{name} {value:.3f}" for name, value in zip(NAMES, best[1:], strict=True)))
print("truth:", *(f"{name} {value:.3f}" for name, value in zip(NAMES, truth.tolist(), strict=True)))

# %%
# The recording is finite, so the least distance is not 0, and the parameters fit the recording, not the truth.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
values = np.array(path)
left.semilogy(values[:, 0])
left.set(xlabel="step", ylabel="distance from the recorded machine")
for k, name in enumerate(NAMES):
    (line,) = right.plot(values[:, k + 1], label=name)
    right.axhline(float(truth[k]), color=line.get_color(), linestyle=":")
right.set(xlabel="step", ylabel="knob; dotted: the truth")
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=80)
plt.show()

# %%
# The printed output and the figure, recorded with PyTorch 2.13 (``make test-loss`` compares them):
#
# .. literalinclude:: ../../recorded/torch_loss.txt
#    :language: text
#
# .. image:: ../../images/loss-torch.png
#    :alt: The distance falls by two orders of magnitude; three knobs approach the truth
