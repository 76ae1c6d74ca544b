"""
How sensitive is the distance? (JAX)
====================================

Two queues, one with a slower clerk. By how much would the distance change if the clerk were slightly faster, and which
transition matters most? ``somcot.jax`` has exact derivatives under ``jit``, ``vmap`` and ``grad``.
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-jax.png'
import sys
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import somcot.jax

jax.config.update("jax_enable_x64", True)
PLACES, DISCOUNT = 8, 0.9


# %%
# A queue with eight places: a customer arrives with probability 0.4 and is served with probability `service`.
def queue(service: Any) -> Any:
    up, down = 0.4 * (1 - service), 0.6 * service
    kernel = up * jnp.eye(PLACES, k=1) + down * jnp.eye(PLACES, k=-1)
    return kernel + jnp.diag(1 - kernel.sum(axis=1))


waiting = jnp.arange(float(PLACES))
cost = jnp.abs(waiting[:, None] - waiting[None, :])  # how many more are waiting
usual = queue(0.6)


def distance(service: Any) -> Any:
    return somcot.jax.distance(queue(service), usual, cost, DISCOUNT)


# %%
# Forty clerks at once: value and derivative in one compiled call.
services = jnp.linspace(0.2, 0.95, 40)
values, slopes = jax.jit(jax.vmap(jax.value_and_grad(distance)))(services)
print(f"service .3: distance {distance(0.3):.6f}, derivative {jax.grad(distance)(0.3):.6f}")
differences = (distance(0.3 + 1e-6) - distance(0.3 - 1e-6)) / 2e-6
print(f"by finite differences                       {differences:.6f}")

# %%
# Which transition matters most? The derivative in the logarithm of every probability of the slow clerk's queue.
slow = queue(0.3)
slope = slow * jax.grad(lambda kernel: somcot.jax.distance(kernel, usual, cost, DISCOUNT))(slow)
state, following = np.unravel_index(int(jnp.argmax(slope)), slope.shape)
print(f"most: {state} -> {following}, {float(slope[state, following]):+.4f} for a relative change of 1")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(services, values, label="distance")
left.plot(services, slopes, label="its derivative")
left.axvline(0.6, color="gray", linestyle=":")
left.set(xlabel="probability that one is served", ylabel="customers")
left.legend(frameon=False)
left.spines[["top", "right"]].set_visible(False)
limit = float(jnp.abs(slope).max())
figure.colorbar(right.imshow(np.asarray(slope), cmap="RdBu_r", vmin=-limit, vmax=limit), ax=right)
right.set(title="what each transition does to the distance", xlabel="next length", ylabel="length of the queue")
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=80)
plt.show()

# %%
# The printed output and the figure, recorded with JAX (``make test-loss`` compares them):
#
# .. literalinclude:: ../../recorded/jax_sensitivity.txt
#    :language: text
#
# .. image:: ../../images/loss-jax.png
#    :alt: Distance and derivative along the service probability; the derivative in every transition
