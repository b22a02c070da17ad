"""What a parameter does: networks in the plane that differ in nothing else."""

import numpy as np
from plane import centres, dots, extents, grid, moons, panels, regions, show

from sklearn_fsvc import RBFClassifier, TanhClassifier

PLAIN = {"feature_weights": None, "random_state": 0}
TRIANGLES = PLAIN | {"kernel": "triangular"}


def draw(ax, model, title, extent=False):
    """Regions, training rows and centres of a fitted model; the accuracy is that on new rows."""
    X_train, X_test, y_train, y_test = moons()
    model.fit(X_train, y_train)
    regions(ax, model)
    dots(ax, X_train, y_train, 2, alpha=0.5)
    centres(ax, model)
    if extent:
        extents(ax, model.centers_[[0, 3]], model.radius_)
    words = f"{len(model.centers_)} centres, {model.score(X_test, y_test):.1%}"
    ax.set_title(f"{title}\n{words}", fontsize=9)


def one_at_a_time(name, values, extent=False, **others):
    fig, axes = panels(len(values), height=2.2)
    for ax, value in zip(axes[0], values, strict=True):
        draw(ax, RBFClassifier(**TRIANGLES | others | {name: value}), f"{name}={value}", extent)
    return fig


def radius():
    return one_at_a_time("radius", [1.0, 0.4, 0.15, 0.04], extent=True, n_hidden=60)


def overlap():
    return one_at_a_time("overlap", [0.5, 1.0, 2.0, 4.0], extent=True, radius=0.3)


def n_hidden():
    return one_at_a_time("n_hidden", [5, 20, 80, 300], radius=0.4)


def kernel():
    """Above, the activation of one unit; below, the network of many."""
    X_train, X_test, y_train, y_test = moons()
    networks = {
        'kernel="triangular"': RBFClassifier(60, **TRIANGLES),
        'kernel="laplacian"': RBFClassifier(60, **PLAIN, kernel="laplacian"),
        'kernel="gaussian",\nmetric="euclidean"': RBFClassifier(
            60, **PLAIN, kernel="gaussian", metric="euclidean"
        ),
        "TanhClassifier\n(no centres)": TanhClassifier(60, random_state=0),
    }
    fig, axes = panels(len(networks), n_rows=2, height=4.1)
    for (above, below), (title, model) in zip(axes.T, networks.items(), strict=True):
        model.fit(X_train, y_train)
        show(above, one_unit(model), cmap="RdBu", vmin=-1, vmax=1)
        above.set_title(title, fontsize=9)
        regions(below, model)
        dots(below, X_train, y_train, 2, alpha=0.5)
        if hasattr(model, "centers_"):
            centres(below, model)
        below.set_title(f"60 units: {model.score(X_test, y_test):.1%}", fontsize=9)
    axes[0, 0].set_ylabel("one unit")
    axes[1, 0].set_ylabel("the network")
    return fig


def one_unit(model):
    """The activation of the first unit at the points of the grid, from its formula."""
    points = grid()
    if not hasattr(model, "centers_"):
        return np.tanh(points @ model.components_[0] + model.hidden_intercept_[0])
    apart = points - model.centers_[0]
    if model.kernel_ == "gaussian":
        return np.exp(-(apart**2).sum(axis=1) / (2 * model.radius_**2))
    distance = np.abs(apart).sum(axis=1)
    if model.kernel_ == "laplacian":
        return np.exp(-distance / model.radius_)
    return np.maximum(0, 1 - distance / (2.5066 * model.radius_))


PICTURES = {
    "radius.png": radius, "overlap.png": overlap, "n_hidden.png": n_hidden, "kernel.png": kernel,
}  # fmt: skip
