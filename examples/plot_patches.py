"""
Units that are patches of images
================================

Which patches of the training images become units, where in an image they answer, and what that
is worth: accuracy against the number of columns of H, beside networks that see whole
images. Nothing is trained but the readout.

With MNIST, all rows take about ten minutes on two cores.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sklearn_fsvc import HiddenSizeSearchCV, PatchClassifier, RBFClassifier, TanhClassifier
from sklearn_fsvc.demo import load_images

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
n_hidden = 20 if args.quick else 50 if args.data is None else 200

# %%
# The patches
# -----------
# Above, patches as they are in the training images: small pieces of strokes. Below, the same as
# the patches of other images meet them: less their mean, divided by their standard
# deviation, and whitened, so that little is left of what all patches have in common.

clf = PatchClassifier(n_hidden, image_shape=image_shape, random_state=0)
start = perf_counter()
clf.fit(X_train, y_train)
print(f"{name}: {n_hidden} patches, {clf.readout_coef_.shape[1]} columns of H, "
      f"fit in {perf_counter() - start:.1f} s, "
      f"{clf.score(X_test, y_test):.2%} of the test rows right")  # fmt: skip

n_shown = 12
height, width = clf.patches_.shape[1:3]
fig, axes = plt.subplots(2, n_shown, figsize=(12, 2.6), layout="constrained")
for (above, below), patch, unit in zip(axes.T, clf.patches_, clf.components_, strict=False):
    above.imshow(patch[:, :, 0], cmap="gray_r")
    limit = np.abs(unit).max()
    below.imshow(unit.reshape(height, width), cmap="RdBu", vmin=-limit, vmax=limit)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("in the image")
axes[1, 0].set_ylabel("whitened")
fig.suptitle(f"{name}: {n_shown} of the {n_hidden} patches of {height} x {width} pixels")
fig.savefig("patches.png", dpi=120)

# %%
# Where they answer
# -----------------
# Each unit is multiplied with the patches in all places of an image. What is above the threshold
# (blue), and below it on the other side (red), is averaged over the cells of the grid: these
# averages are what the readout sees. The network itself stores no such map.

image = X_test[0].reshape(image_shape).astype(float)
patches = sliding_window_view(image, (height, width)).reshape(-1, height * width)
patches = patches - patches.mean(axis=1, keepdims=True)
patches /= np.sqrt(patches.var(axis=1, keepdims=True) + clf.floor_)
products = (patches @ clf.whitening_ - clf.shift_) @ clf.components_.T
answers = np.sign(products) * np.maximum(0, np.abs(products) - clf.threshold_)
places = image_shape[0] - height + 1, image_shape[1] - width + 1

n_maps = 6
fig, axes = plt.subplots(2, n_maps + 1, figsize=(12, 3.6), layout="constrained")
axes[0, 0].imshow(image, cmap="gray_r")
axes[0, 0].set_title("image")
axes[1, 0].axis("off")
for j, (above, below) in enumerate(axes[:, 1:].T):
    above.imshow(clf.patches_[j, :, :, 0], cmap="gray_r")
    above.set_title(f"patch {j}")
    limit = np.abs(answers).max()
    below.imshow(answers[:, j].reshape(places), cmap="RdBu", vmin=-limit, vmax=limit)
    for axis, n_cells, n_places in zip("yx", clf.pool_, places, strict=True):
        draw = below.axhline if axis == "y" else below.axvline
        for cell in range(1, n_cells):
            draw(cell * n_places // n_cells - 0.5, color="0.6", linewidth=0.7)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
fig.suptitle("What patches answer in each place of an image, and the cells that are averaged")
fig.savefig("patches_maps.png", dpi=120)

# %%
# Accuracy against the number of columns
# --------------------------------------
# What a readout costs depends on the columns of H. Smaller networks are the first units of
# larger ones, so that `HiddenSizeSearchCV` scores all sizes in one pass. Its only split is
# that into training and test rows.

X, y = np.concatenate([X_train, X_test]), np.concatenate([y_train, y_test])
split = [(np.arange(len(y_train)), np.arange(len(y_train), len(y)))]
networks = {
    "patches": (PatchClassifier(image_shape=image_shape, random_state=0), BLUE, "o"),
    "tanh, class-informed, fields": (
        TanhClassifier(weights="class_informed", image_shape=image_shape, random_state=0),
        VERMILION, "s",
    ),
    "RBF, random centres": (
        RBFClassifier(selection="random", kernel="laplacian", random_state=0), GREEN, "^",
    ),
}  # fmt: skip
most = clf.readout_coef_.shape[1]
fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
print(f"{name}: accuracy on {len(y_test)} test rows, %")
for label, (network, colour, marker) in networks.items():
    of_unit = most // n_hidden if label == "patches" else 1
    sizes = [min(most, len(X_train) // 2 * of_unit) // of_unit >> k for k in (3, 2, 1, 0)]
    start = perf_counter()
    search = HiddenSizeSearchCV(network, {"n_hidden": sizes}, cv=split, refit=False).fit(X, y)
    scores = 100 * search.cv_results_["mean_test_score"]
    columns = of_unit * np.array(sizes)
    print(f"{label:30}" + ", ".join(f"{c}: {s:.2f}" for c, s in zip(columns, scores, strict=True))
          + f"; {perf_counter() - start:.1f} s")  # fmt: skip
    ax.plot(columns, scores, color=colour, marker=marker, label=label)
ax.set_xscale("log", base=2)
ax.set_xlabel("columns of H")
ax.set_ylabel("accuracy on the test rows (%)")
ax.set_title(f"{name}: {len(y_train)} training rows")
ax.grid(alpha=0.3)
ax.legend(loc="lower right")
fig.savefig("patches_accuracy.png", dpi=120)
