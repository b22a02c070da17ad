"""Rows in the plane, and what is drawn of a network there: regions, centres, extents of units."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Polygon
from page import WIDTH
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from sklearn_fsvc._src.inspection.displays import BLUE, VERMILION

COLOURS = ListedColormap([BLUE, VERMILION])
DIAMOND = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
BOX = (-1.9, 2.9, -1.6, 2.1)  # around the moons


def moons():
    """X_train, X_test, y_train, y_test: two noisy crescents, of which no model gets all right."""
    return train_test_split(*make_moons(2400, noise=0.25, random_state=0), train_size=400,
                            random_state=0)  # fmt: skip


def panels(n_columns, n_rows=1, height=2.3):
    """A figure as wide as the page, and its axes, without ticks."""
    fig, axes = plt.subplots(
        n_rows, n_columns, figsize=(WIDTH, height), layout="constrained", squeeze=False
    )
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    return fig, axes


def grid(box=BOX, n=240):
    """Points of the plane, of shape (n * n, 2)."""
    ticks = np.meshgrid(np.linspace(*box[:2], n), np.linspace(*box[2:], n))
    return np.stack(ticks, axis=-1).reshape(-1, 2)


def show(ax, values, box=BOX, **how):
    """One value for each point of the grid."""
    n = int(np.sqrt(len(values)))
    ax.imshow(values.reshape(n, n), extent=box, origin="lower", aspect="equal", **how)
    ax.set(xlim=box[:2], ylim=box[2:], autoscale_on=False)


def regions(ax, model, box=BOX, near=None):
    """Which class is predicted where, and nothing where no row of `near` is close."""
    points = grid(box)
    classes = model.predict(points).astype(float)
    if near is not None:
        far = NearestNeighbors(n_neighbors=1).fit(near).kneighbors(points)[0][:, 0] > 0.4
        classes[far] = np.nan
    show(ax, classes, box, cmap=COLOURS, alpha=0.28, vmin=0, vmax=1)


def dots(ax, X, y, size, **how):
    ax.scatter(*X.T, c=y, s=size, cmap=COLOURS, **how)


def centres(ax, model, size=20):
    dots(ax, model.centers_, model.center_labels_, size, ec="white", linewidth=0.6)


def extents(ax, places, radius, **how):
    """Where triangles of this radius end: a diamond, for the distance is Manhattan's."""
    how = {"fill": False, "linewidth": 1.0} | how
    for place in places:
        ax.add_patch(Polygon(place + 2.5066 * radius * DIAMOND, **how))
