"""The picture of the README and of the front page, which is kept: _static/spirals.png."""

import numpy as np
from plane import centres, panels, regions
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier

RADII = (1.6, 0.8, 0.4)  # too wide, on the way, good
BOX = (-3.6, 3.6, -3.6, 3.6)


def make_spirals(n_rows, noise, seed):
    """Points on two arms, X (n_rows, 2), and the numbers of their arms, y (n_rows,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    turn = 3 * np.pi * np.sqrt(rng.uniform(0.02, 1, size=n_rows))
    angle = turn + np.pi * y
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / np.pi
    return X + rng.normal(scale=noise, size=X.shape), y


def spirals():
    """The regions and centres of three networks, side by side."""
    X, y = make_spirals(2000, noise=0.17, seed=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    fig, axes = panels(len(RADII), height=3.0)
    for ax, radius in zip(axes[0], RADII, strict=True):
        network = RBFClassifier(
            radius=radius, kernel="triangular", feature_weights=None, random_state=0
        )
        network.fit(X_train, y_train)
        regions(ax, network, BOX, near=X_train)
        centres(ax, network)
        ax.set_title(
            f"{len(network.centers_)} of {len(X_train):,} samples as centres: "
            f"{network.score(X_test, y_test):.1%}",
            fontsize=9,
        )
    return fig


PICTURES = {"../_static/spirals.png": spirals}
