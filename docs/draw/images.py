"""What hidden units see of an image: digits of 8 x 8 pixels."""

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from page import WIDTH
from sklearn.datasets import load_digits

from sklearn_fsvc import PatchClassifier, RBFClassifier, TanhProjector

SHAPE = (8, 8)
N_SHOWN = 10


def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


def picture(ax, image, signed=False):
    """Grey for pixels; for weights, blue is positive, red is negative and white is 0."""
    limit = np.abs(image).max() or 1
    how = {"cmap": "RdBu", "vmin": -limit} if signed else {"cmap": "gray_r", "vmin": 0}
    ax.imshow(image, vmax=limit, **how)


def frame(n_rows, n_columns, height):
    fig, axes = plt.subplots(n_rows, n_columns, figsize=(WIDTH, height), layout="constrained")
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("0.7")
    return fig, axes


def units():
    """Ten units of each of four kinds of networks, as images."""
    X, y = digits()
    rbf = RBFClassifier(400, kernel="triangular", random_state=0).fit(X, y)
    rows = {"RBF units:\ntraining images": first_of_each_class(rbf)}
    for weights in ("gaussian", "class_informed"):
        for image_shape in (None, SHAPE):
            tanh = TanhProjector(
                N_SHOWN, weights=weights, image_shape=image_shape, random_state=0
            ).fit(X, y)
            where = "the whole image" if image_shape is None else "receptive fields"
            rows[f'tanh, "{weights}",\n{where}'] = tanh.components_
    fig, axes = frame(len(rows), N_SHOWN, 4.0)
    for line, (label, images) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(label, rotation=0, ha="right", va="center")
        for ax, image in zip(line, images, strict=True):
            picture(ax, image.reshape(SHAPE), signed=label.startswith("tanh"))
    return fig


def first_of_each_class(model):
    return [model.centers_[model.center_labels_ == label][0] for label in model.classes_]


def patches():
    """Which patches are units, and where in one image they are active."""
    X, y = digits()
    clf = PatchClassifier(40, image_shape=SHAPE, pool=2, random_state=0).fit(X, y)
    image, n = X[5].reshape(SHAPE), 7
    fig, axes = frame(2, n + 1, 2.2)
    picture(axes[0, 0], image)
    axes[0, 0].set_title("an image", fontsize=9)
    axes[1, 0].axis("off")
    answers = in_all_places(clf, image)
    limit = np.abs(answers[..., :n]).max()
    for j, (above, below) in enumerate(axes[:, 1:].T):
        picture(above, clf.patches_[j, :, :, 0])
        below.imshow(answers[..., j], cmap="RdBu", vmin=-limit, vmax=limit)
        cells(below, clf.pool_, answers.shape[:2])
    axes[0, 1].set_ylabel("patch")
    axes[1, 1].set_ylabel("activations")
    return fig


def in_all_places(clf, image):
    """The activation of each unit in each place, shape (rows, columns, units): see docs/images.rst.

    Positive where the patch is like the unit, negative where it is like its negative.
    """
    height, width = clf.patches_.shape[1:3]
    seen = sliding_window_view(image.astype(float), (height, width))
    places = seen.shape[:2]
    seen = seen.reshape(-1, height * width)
    seen = seen - seen.mean(axis=1, keepdims=True)
    seen /= np.sqrt(seen.var(axis=1, keepdims=True) + clf.floor_)
    products = (seen @ clf.whitening_ - clf.shift_) @ clf.components_.T
    answers = np.sign(products) * np.maximum(0, np.abs(products) - clf.threshold_)
    return answers.reshape(*places, -1)


def cells(ax, pool, places):
    """Lines between the cells over which activations are averaged."""
    for line, n_cells, n_positions in zip((ax.axhline, ax.axvline), pool, places, strict=True):
        for cell in range(1, n_cells):
            line(cell * n_positions // n_cells - 0.5, color="0.5", linewidth=0.8)


PICTURES = {"units.png": units, "patches.png": patches}
