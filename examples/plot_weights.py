"""
Random weights that know the data
=================================

What each kind of random weights looks like, and what it is worth: accuracy against hidden
size, with and without receptive fields. Nothing is trained but the readout, whatever the
kind.

With MNIST, all rows and up to 4096 units take about two minutes on two cores.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier, TanhProjector
from sklearn_fsvc.demo import load_images

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
largest = 64 if args.quick else 4096 if name == "MNIST" else 1024
sizes = [largest >> k for k in (4, 3, 2, 1, 0)]
kinds = {
    "gaussian": (BLUE, "o"),
    "orthogonal": (VERMILION, "s"),
    "class_informed": (GREEN, "^"),
    "constrained": (PURPLE, "D"),
}


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


# %%
# The weights as images
# ---------------------
# Eight units of each kind: on the left they see the whole image, on the right a random
# rectangle of it. Class-informed units are random sums of the images of one class, so those of
# digits in turn; constrained units are one image less another one of a different class.

fig, axes = plt.subplots(4, 17, figsize=(13, 3.9), layout="constrained")
for row, kind in zip(axes, kinds, strict=True):
    for start, shape in ((0, None), (9, image_shape)):
        projector = TanhProjector(8, weights=kind, image_shape=shape, random_state=0)
        projector.fit(X_train, y_train)
        for ax, w in zip(row[start:], projector.components_, strict=False):
            limit = np.abs(w).max() or 1  # a field of the margin may be empty
            ax.imshow(w.reshape(image_shape), cmap="RdBu", vmin=-limit, vmax=limit)
    for ax in row:
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(kind, rotation=0, ha="right", va="center")
    row[8].axis("off")
axes[0, 0].set_title("the whole image", loc="left")
axes[0, 9].set_title("receptive fields", loc="left")
fig.suptitle(f"{name}: weights of eight hidden units (blue: positive, red: negative)")
fig.savefig("weights.png", dpi=120)

# %%
# Accuracy against hidden size
# ----------------------------
# Smaller networks are the first units of larger ones, so that `HiddenSizeSearchCV` scores all
# sizes of a kind in one pass over the training rows. Its only split is that into training and
# test rows.

X, y = np.concatenate([X_train, X_test]), np.concatenate([y_train, y_test])
split = [(np.arange(len(y_train)), np.arange(len(y_train), len(y)))]


def accuracies(kind, shape):
    network = TanhClassifier(weights=kind, image_shape=shape, random_state=0)
    search = HiddenSizeSearchCV(network, {"n_hidden": sizes}, cv=split, refit=False)
    return 100 * search.fit(X, y).cv_results_["mean_test_score"]


print(f"{name}: accuracy on {len(y_test)} test rows, %")
print(f"{'units':26}" + "".join(f"{size:8}" for size in sizes) + "    time")
found = {}
for kind in kinds:
    for shape in (None, image_shape):
        found[kind, shape], time = seconds(accuracies, kind, shape)
        label = kind if shape is None else f"{kind}, fields"
        print(f"{label:26}" + "".join(f"{s:8.2f}" for s in found[kind, shape]) + f"{time:6.1f} s")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
for ax, shape in ((left, None), (right, image_shape)):
    for kind, (colour, marker) in kinds.items():
        ax.plot(sizes, found[kind, shape], color=colour, marker=marker, label=kind)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, sizes)
    ax.set_xlabel("hidden units")
    ax.grid(alpha=0.3)
left.set_ylabel("accuracy on the test rows (%)")
left.set_title("the whole image")
right.set_title("receptive fields")
right.legend(loc="lower right")
fig.suptitle(f"{name}: {len(y_train)} training rows")
fig.savefig("weights_accuracy.png", dpi=120)
