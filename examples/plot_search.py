"""
Every hidden size for the price of one
======================================

Accuracy against the number of hidden units, for several radii and ridge penalties, from
one call of `HiddenSizeSearchCV`; and the same by scikit-learn's ``GridSearchCV``, for the
clock. With ``selection_radius`` given, the centres of a smaller network are the first of a
larger one, and with a kernel given, distances serve every radius: all sizes, radii and
penalties share one pass over the rows in each fold.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier
from sklearn_fsvc.demo import load_images
from sklearn_fsvc.inspection import HiddenSizeDisplay

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION = "#0072B2", "#D55E00"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
# A few thousand rows show the shape of the curves, and GridSearchCV can do them.
X_train, y_train = X_train[:4000], y_train[:4000]
sizes = [25, 100, 400] if args.quick else [25, 50, 100, 200, 300, 400, 600, 800]


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


# %%
# The grid
# --------
# The largest network finds its own selection radius, and a width for its units; widths
# around that one are searched.

triangles = {"kernel": "triangular", "feature_weights": None, "random_state": 0}
found = RBFClassifier(sizes[-1], **triangles).fit(X_train, y_train)
selection_radius = float(found.selection_radius_)
radii = [round(factor * found.radius_) for factor in (0.7, 1.0, 1.5)]
grid = {"n_hidden": sizes, "alpha": [0.01, 0.1, 1.0, 10.0], "radius": radii}
model = RBFClassifier(selection_radius=selection_radius, **triangles)

# %%
# Both searches
# -------------

splits = 3 if args.quick else 5
search, own_time = seconds(HiddenSizeSearchCV(model, grid, cv=splits).fit, X_train, y_train)
peer, peer_time = seconds(GridSearchCV(model, grid, cv=splits).fit, X_train, y_train)
columns = [f"split{k}_test_score" for k in range(splits)]
apart = max(np.abs(search.cv_results_[c] - peer.cv_results_[c]).max() for c in columns)
n_fits = splits * len(search.cv_results_["params"])
print(f"{name}, {len(X_train)} rows, {n_fits} fits")
print(f"HiddenSizeSearchCV {own_time:6.2f} s  {search.best_params_}")
print(f"GridSearchCV       {peer_time:6.2f} s  {peer.best_params_}")
print(f"{peer_time / own_time:.1f} times faster; scores differ by {apart:.1e} at most")
print(f"test accuracy {search.score(X_test, y_test):.2%}")

# %%
# Accuracy and time
# -----------------
# A line for each penalty, a panel for each radius. What a candidate takes is its share of
# the search; in GridSearchCV it is a fit of its own.

results = search.cv_results_


def of(alpha, radius):
    """Rows of the results with that penalty and radius, by size."""
    return [results["params"].index({"n_hidden": n, "alpha": alpha, "radius": radius})
            for n in sizes]  # fmt: skip


fig, axes = plt.subplots(1, 4, figsize=(15, 4.4), layout="constrained")
for ax, radius in zip(axes, radii, strict=False):
    ax.sharey(axes[0])
    display = HiddenSizeDisplay.from_estimator(search, by="alpha", where={"radius": radius}, ax=ax)
    ax.set_title(f"radius {radius}: {display.means.max():.1%} at best")
for ax in axes[1:3]:
    ax.set_ylabel("")
    ax.get_legend().remove()
for label, found, colour in (
    ("GridSearchCV", peer.cv_results_, VERMILION), ("HiddenSizeSearchCV", results, BLUE),
):  # fmt: skip
    times = [
        np.median([found["mean_fit_time"][of(a, r)[i]] for a in grid["alpha"] for r in radii])
        for i in range(len(sizes))
    ]
    axes[3].plot(sizes, 1000 * np.array(times), color=colour, marker="o", label=label)
axes[3].set(yscale="log", ylabel="a candidate's fit on one fold (ms)")
axes[3].set_title(f"{n_fits} fits: {own_time:.2g} s, not {peer_time:.3g} s")
axes[3].legend()
for ax in axes:
    ax.set_xscale("log", base=2)
    shown = sizes if args.quick else [25, 50, 100, 200, 400, 800]
    ax.set_xticks(shown, shown)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("hidden units")
    ax.grid(alpha=0.3)
fig.suptitle(f"{name}: {len(X_train)} training rows")
fig.savefig("search.png", dpi=120)
