"""
Handwritten digits with both networks
=====================================

An RBF network and a tanh network with the same number of hidden units. Neither trains its
hidden layer: the RBF units sit on training images that were novel when they came by, the
tanh units have random weights. Only the linear readout is fitted, in one pass.

Without arguments the digits are those that scikit-learn bundles. For MNIST, download its
four files and name their folder with ``--data``.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import confusion_matrix

from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc.demo import load_images
from sklearn_fsvc.inspection import ExplanationDisplay

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
n_hidden = min(4096, len(X_train) // 3)
print(f"{name}: {len(X_train)} training and {len(X_test)} test images\n")


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


# %%
# Accuracy and time
# -----------------
# A first fit compiles the kernels. A small one beforehand keeps that out of the times.

rbf = RBFClassifier(n_hidden, random_state=0)
tanh = TanhClassifier(n_hidden, random_state=0)
for model in (RBFClassifier(10, random_state=0), TanhClassifier(10, random_state=0)):
    model.fit(X_train[:200], y_train[:200]).predict(X_test[:200])

models = {"RBFClassifier": rbf, "TanhClassifier": tanh}
answers, accuracies = {}, {}
print(f"{'':16}{'units':>6}{'accuracy':>10}{'fit':>10}{'predict':>10}")
for label, model in models.items():
    _, fit_time = seconds(model.fit, X_train, y_train)
    answers[label], predict_time = seconds(model.predict, X_test)
    accuracies[label] = np.mean(answers[label] == y_test)
    print(
        f"{label:16}{model.readout_coef_.shape[1]:6}{accuracies[label]:10.2%}"
        f"{fit_time:8.2f} s{predict_time:8.3f} s"
    )

# %%
# The hidden units
# ----------------
# A row of a hidden layer has one weight for each pixel, so it can be shown as an image. RBF
# centres are training images and have classes: each class gets as many as it takes to cover
# it.


def mosaic(images):
    """Images (rows, columns, n_pixels) as one image, with gaps that stay blank."""
    rows, columns, _ = images.shape
    tiles = np.pad(
        images.reshape(rows, columns, *image_shape),
        [(0, 0), (0, 0), (1, 1), (1, 1)],
        constant_values=np.nan,
    )
    height, width = tiles.shape[2:]
    return tiles.swapaxes(1, 2).reshape(rows * height, columns * width)


def centres_by_class(model, n_rows):
    images = np.full((n_rows, len(model.classes_), X_train.shape[1]), np.nan)
    for column, digit in enumerate(model.classes_):
        found = model.centers_[model.center_labels_ == digit][:n_rows]
        images[: len(found), column] = found
    return images


fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
left.imshow(mosaic(centres_by_class(rbf, 6)), cmap="gray_r")
right.imshow(mosaic(tanh.components_[:60].reshape(6, 10, -1)), cmap="gray_r")
fewest, most = rbf.n_support_.argmin(), rbf.n_support_.argmax()
left.set_title(f"RBF: novel images, fewest of {fewest} and most of {most}")
right.set_title("tanh: random weights")
step = image_shape[1] + 2
left.set_xticks(
    step * (np.arange(10) + 0.5) - 0.5,
    [f"{digit}\n{count}" for digit, count in zip(rbf.classes_, rbf.n_support_, strict=True)],
)
left.set_xlabel("class, and how many centres it has")
right.set_xticks([])
for ax in (left, right):
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
fig.suptitle(f"{name}: an RBF unit is an image with a class, a tanh unit is noise")
fig.savefig("mnist_hidden_units.png", dpi=120)

# %%
# Which digits are taken for which
# --------------------------------
# The diagonal holds nearly everything, so only what is off it is coloured.


def plot_confusions(ax, answer, largest):
    counts = confusion_matrix(y_test, answer)
    wrong = counts * (1 - np.eye(len(counts), dtype=int))
    ax.imshow(wrong, cmap="Blues", vmin=0, vmax=largest)
    for (true, answered), count in np.ndenumerate(counts):
        if count:
            dark = wrong[true, answered] > 0.6 * largest
            grey = "0.6" if true == answered else "white" if dark else "black"
            ax.text(answered, true, count, ha="center", va="center", color=grey, fontsize=8)
    ax.set(xlabel="answered", ylabel="true", xticks=range(10), yticks=range(10))


def most_mistaken(answer):
    counts = confusion_matrix(y_test, answer)
    np.fill_diagonal(counts, 0)
    return counts.max()


by_both = np.sum((answers["RBFClassifier"] != y_test) & (answers["TanhClassifier"] != y_test))
largest = max(most_mistaken(answer) for answer in answers.values())
fig, axes = plt.subplots(1, 2, figsize=(11, 5.6), layout="constrained")
for ax, (label, answer) in zip(axes, answers.items(), strict=True):
    plot_confusions(ax, answer, largest)
    ax.set_title(f"{label}: {np.sum(answer != y_test)} of {len(y_test)} wrong")
fig.suptitle(f"{name}: the networks find the same digits hard, {by_both} are mistaken by both")
fig.savefig("mnist_confusions.png", dpi=120)

# %%
# The worst mistakes
# ------------------
# Wrong answers in the order of how far the score of the answer was above that of the truth.


def worst_mistakes(model, answer, n):
    scores = model.decision_function(X_test)
    rows = np.flatnonzero(answer != y_test)
    truth = scores[rows, np.searchsorted(model.classes_, y_test[rows])]
    return rows[np.argsort(truth - scores[rows].max(axis=1))[:n]]


def plot_mistakes(part, label):
    axes = part.subplots(2, 5)
    for ax in axes.flat:
        ax.set_axis_off()
    answer = answers[label]
    for ax, row in zip(axes.flat, worst_mistakes(models[label], answer, axes.size), strict=False):
        ax.imshow(X_test[row].reshape(image_shape), cmap="gray_r")
        ax.set_title(f"{y_test[row]} as {answer[row]}", fontsize=10)
    part.suptitle(f"{label}, accuracy {accuracies[label]:.2%}")


fig = plt.figure(figsize=(11, 3.8), layout="constrained")
fig.suptitle(f"{name}: the most confident mistakes ('4 as 9' is a 4 taken for a 9)")
for part, label in zip(fig.subfigures(1, 2, wspace=0.05), models, strict=True):
    plot_mistakes(part, label)
fig.savefig("mnist_worst_mistakes.png", dpi=120)

# %%
# Why a digit was taken for another
# ---------------------------------
# The units of an RBF network are training images, so that an answer can be traced to those that
# had the most to say: blue ones speak for it, red ones against it. First the image itself.

rows = worst_mistakes(rbf, answers["RBFClassifier"], 3)
display = ExplanationDisplay.from_estimator(rbf, X_test[rows], n=7, image_shape=image_shape)
display.figure_.suptitle(f"{name}: the training images behind three mistakes")
display.figure_.savefig("mnist_explanations.png", dpi=120)
