"""
Centres by novelty, in two dimensions
=====================================

A training row becomes the centre of a hidden unit if the activities that it raises in the
centres so far sum to less than the overlap threshold. The radius decides how much of the
plane one unit covers: the smaller it is, the more rows are novel, and the closer the border
between the classes follows the data.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Polygon
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION = "#0072B2", "#D55E00"

parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own

# %%
# Two noisy spirals
# -----------------


def make_spirals(n_rows, noise, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    turn = 3 * np.pi * np.sqrt(rng.uniform(0.02, 1, size=n_rows))
    angle = turn + np.pi * y
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / np.pi
    return X + rng.normal(scale=noise, size=X.shape), y


X, y = make_spirals(600 if args.quick else 2000, noise=0.17, seed=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Smaller and smaller units
# -------------------------
# With a number for ``radius`` every row that is novel becomes a centre, and the number is both
# the radius of selection and the width of the units. Kernel and weights of the features are
# given too, so that nothing but the radius differs.

radii = [1.6, 0.8, 0.4, 0.2, 0.1, 0.05]
network = RBFClassifier(kernel="triangular", feature_weights=None, random_state=0)
models = [clone(network).set_params(radius=radius).fit(X_train, y_train) for radius in radii]
accuracies = [model.score(X_test, y_test) for model in models]
print(f"{'radius':>7}{'centres':>9}{'accuracy':>10}")
for radius, model, accuracy in zip(radii, models, accuracies, strict=True):
    print(f"{radius:7.2f}{len(model.centers_):9}{accuracy:10.1%}")

# %%
# The picture
# -----------
# A triangular unit ends where the Manhattan distance is 2.5066 radii, which is a diamond.
# Points of the plane that no unit reaches are given the class of the nearest centre.

COLOURS = ListedColormap([BLUE, VERMILION])
LIMIT = 3.6


def plot_regions(ax, model):
    line = np.linspace(-LIMIT, LIMIT, 200)
    grid = np.stack(np.meshgrid(line, line), axis=-1)
    answer = model.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.imshow(answer, extent=[-LIMIT, LIMIT] * 2, origin="lower", cmap=COLOURS, alpha=0.25)


def plot_extents(ax, model, n):
    """Where the first `n` units end, in the order in which they were found."""
    corners = 2.5066 * model.radius_ * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    for centre in model.centers_[:n]:
        ax.add_patch(Polygon(centre + corners, fill=False, linewidth=1.2))
    ax.scatter(*model.centers_[:n].T, marker="x", color="black", s=30)


fig, axes = plt.subplots(2, 3, figsize=(11, 7.8), layout="constrained")
for ax, model, accuracy in zip(axes.flat, models, accuracies, strict=True):
    plot_regions(ax, model)
    ax.scatter(*X_train.T, c=y_train, s=2, cmap=COLOURS, alpha=0.5)
    ax.scatter(
        *model.centers_.T, c=model.center_labels_, s=18, cmap=COLOURS, ec="white", linewidth=0.6
    )
    plot_extents(ax, model, 4)
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), xticks=[], yticks=[])
    ax.set_title(f"radius {model.radius_:g}: {len(model.centers_)} centres, {accuracy:.1%}")
best = int(np.argmax(accuracies))
fig.suptitle(
    f"Finer units follow the arms; {len(models[best].centers_)} of {len(X_train)} rows as centres "
    "are enough\n"
    "large dots: centres; crosses and diamonds: four units and their extent"
)
fig.savefig("novelty_2d.png", dpi=120)
