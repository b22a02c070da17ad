"""
The programs of FSVC as presets
===============================

The programs in which this network was first published are special cases of `RBFClassifier`:
FSVC corrects its readout row by row, FSVC-NT ("no training") adds up the activities of the
centres of each class, and SFSVC does the same with squared Euclidean distances and selects
within each class. The default of this package is a ridge readout, with a kernel, a width and
a penalty that have the least error on rows that were held out.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator
from sklearn.base import clone
from sklearn.metrics import pairwise_distances
from threadpoolctl import threadpool_limits

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc.demo import load_images

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
# A few thousand rows show the shape of the curves.
X_train, y_train = X_train[:4000], y_train[:4000]

presets = {
    "FSVC": RBFClassifier(selection="global", readout="lms", random_state=0),
    "FSVC-NT": RBFClassifier(selection="global", readout="none", random_state=0),
    "SFSVC": RBFClassifier(
        selection="per_class", metric="sqeuclidean", readout="none", random_state=0
    ),
    "default (ridge)": RBFClassifier(random_state=0),
}


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


def log_scale(axis):
    """A logarithmic axis with plain numbers: 1, 2, 5, 10, and so on."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


# %%
# A range of radii
# ----------------
# A radius is in units of the distance, and squared distances are on another scale. So the
# radii are parts of the one whose triangle ends at the median distance between rows, and the
# parts are squared where the distance is. They select the centres; the units of the programs
# are as wide, and those of the default as wide as held-out rows want them.

parts = [0.45, 0.7, 1.0] if args.quick else [0.4, 0.5, 0.6, 0.7, 0.8, 0.95, 1.1, 1.3]


def selection_radii(metric):
    distances = pairwise_distances(X_train[:500].astype(float), metric=metric)
    median = np.median(distances[np.triu_indices_from(distances, 1)])
    power = 2 if metric == "sqeuclidean" else 1
    return median / 2.5066 * np.power(parts, power)


def measure(preset, radius):
    """Number of centres, accuracy and seconds of a fit."""
    model = clone(preset).set_params(selection_radius=radius)
    _, fit_time = seconds(model.fit, X_train, y_train)
    return len(model.centers_), model.score(X_test, y_test), fit_time


# %%
# Centres, accuracy and time
# --------------------------
# The fits beforehand compile the kernels. More than one thread for linear algebra would
# make the times depend on what else the machine does.

results = {}
for label, preset in presets.items():
    radii = selection_radii(preset.metric)
    measure(preset, radii[-1])
    with threadpool_limits(1):
        results[label] = [measure(preset, radius) for radius in radii]
    print(f"{name}, {label}\n{'radius':>11}{'centres':>9}{'accuracy':>10}{'fit':>10}")
    for radius, (n_centres, accuracy, fit_time) in zip(radii, results[label], strict=True):
        print(f"{radius:11.1f}{n_centres:9}{accuracy:10.2%}{fit_time:8.3f} s")
    print()

# %%
# The picture
# -----------

styles = zip([BLUE, GREEN, PURPLE, VERMILION], "o^vs", strict=True)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for (label, found), (colour, marker) in zip(results.items(), styles, strict=True):
    n_centres, accuracy, fit_time = zip(*found, strict=True)
    left.plot(n_centres, accuracy, color=colour, marker=marker, label=label)
    right.plot(n_centres, fit_time, color=colour, marker=marker)
for ax in (left, right):
    log_scale(ax.xaxis)
    ax.set_xlabel("centres")
    ax.grid(alpha=0.3)
ticks = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99]
left.set_yscale("logit", nonpositive="clip")  # as much room for 98 % to 99 % as for 30 % to 50 %
limits = left.get_ylim()
left.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
left.set_yticks([], minor=True)
left.set_ylim(limits)
left.set_ylabel("accuracy")
left.set_title("A trained readout needs fewer centres")
left.legend(loc="lower right")
log_scale(right.yaxis)
right.set_ylabel("fit time (s)")
right.set_title("LMS takes ten passes; the default looks for its width first")
fig.suptitle(f"{name}: {len(X_train)} training rows")
fig.savefig("presets.png", dpi=120)
