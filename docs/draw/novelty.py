"""Novelty selection: samples are presented one after another, and some become centres."""

import numpy as np
from plane import BLUE, VERMILION, extents, panels
from sklearn.datasets import make_moons

from sklearn_fsvc import RBFProjector

RADIUS = 0.3
BOX = (-2.0, 3.0, -1.5, 2.0)


def selection():
    """Four steps: the samples so far, the centres among them, and the sample that is presented."""
    X = make_moons(300, noise=0.12, random_state=3)[0]
    network = RBFProjector(None, radius=RADIUS, shuffle=False).fit(X)
    H, kept = network.transform(X), network.support_
    # What each row raised in the centres that were there when it came.
    activities = np.array([H[i, kept < i].sum() for i in range(len(X))])
    assert (np.flatnonzero(activities < 1) == kept).all()
    passed = next(i for i in range(8, len(X)) if i not in kept)
    later = next(i for i in kept if i > 30)
    fig, axes = panels(4, height=2.2)
    for ax, row in zip(axes[0], (kept[1], passed, later, len(X) - 1), strict=True):
        moment(ax, X, row, kept, activities[row])
    last = axes[0, -1]
    last.set_title(f"sample {len(X)}, the last:\n{len(kept)} centres cover all samples", fontsize=9)
    return fig


def moment(ax, X, row, kept, activity):
    so_far = kept[kept < row]
    extents(ax, X[so_far], RADIUS, fill=True, fc=BLUE, ec="none", alpha=0.10)
    extents(ax, X[so_far], RADIUS, ec=BLUE, alpha=0.55, linewidth=0.7)
    ax.plot(*X[:row].T, ".", color="0.35", markersize=2)
    ax.plot(*X[so_far].T, "o", color=BLUE, markersize=5)
    ax.plot(*X[row], "*", color=VERMILION, markersize=13, mec="white", mew=0.8)
    verdict = "becomes a centre" if row in kept else "no centre"
    sign = "< 1" if row in kept else "≥ 1"
    ax.set_title(f"sample {row + 1}: sum {activity:.2f} {sign},\n{verdict}", fontsize=9)
    ax.set(xlim=BOX[:2], ylim=BOX[2:], aspect="equal")


PICTURES = {"novelty.png": selection}
