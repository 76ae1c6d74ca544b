"""Plot of a policy's way from a model to the recorded process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from somcot.mdp import TransferBound
from somcot.plots.drawing import axes, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["transfer"]


def transfer(bound: TransferBound, *, ax: Axes | None = None) -> Axes:
    """What the model promises, what the recording supports, and where more steps would help.

    The best value that any policy may have in the recorded process ends the light bar: what the policy may lose.

    Parameters
    ----------
    bound : TransferBound
    ax : matplotlib Axes, optional
    """
    ax = axes(ax)
    estimate, low, high = bound.value_recorded
    best = low + bound.policy_loss
    ax.barh(0, best - low, left=low, height=0.5, color="0.9", zorder=1, label="a better policy may earn")
    ax.barh(0, high - low, left=low, height=0.25, color="C0", alpha=0.35, zorder=2, label="this policy earns")
    ax.plot([estimate, estimate], [-0.2, 0.2], color="C0", linewidth=2.5, zorder=3)
    ax.plot(
        bound.value_model, 0, marker="D", markersize=9, color="C1", linestyle="none", zorder=4, label="the model says"
    )
    ax.annotate(
        f"value error at most {bound.value_error:.3g}, policy loss at most {bound.policy_loss:.3g}",
        (0.5, 0.97), xycoords="axes fraction", ha="center", va="top",
    )  # fmt: skip
    if bound.largest_contributions:
        rows = bound.largest_contributions[:3]
        wanted = ", ".join(f"{shown(row.action)} in {shown(row.state)} ({100 * row.share:.0f} %)" for row in rows)
        ax.annotate(f"record more of: {wanted}", (0.5, 0.03), xycoords="axes fraction", ha="center", color="0.35")
    ax.set_ylim(-0.9, 0.9)
    ax.set_yticks([])
    kind = "proved" if bound.proved else "large samples"
    ax.set_xlabel(f"expected sum of discounted rewards ({100 * bound.confidence:g} %, {kind})")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, frameon=False)
    return ax
