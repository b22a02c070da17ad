"""
How many hidden units
=====================

Accuracy and fit time against the size of the hidden layer, by cross-validation. The three
models are ordinary scikit-learn estimators, so that ``GridSearchCV`` does all the work:
`RBFClassifier`, `TanhClassifier`, and `TanhProjector` as the first step of a pipeline that
ends in a logistic regression.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector
from sklearn_fsvc.demo import load_images
from sklearn_fsvc.inspection import HiddenSizeDisplay

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip)")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
X_train, y_train, X_test, y_test, image_shape = load_images(args.data)
name = "8 x 8 digits" if args.data is None else "MNIST"
# A few thousand rows show the shape of the curves.
X_train, y_train = X_train[:4000], y_train[:4000]
if X_train.dtype == np.uint8:
    # The logistic regression wants small numbers, and the other models do not mind.
    X_train, X_test = X_train / np.float32(255), X_test / np.float32(255)
sizes = [25, 100, 400] if args.quick else [12, 25, 50, 100, 200, 400, 800]


def log_scale(axis):
    """A logarithmic axis with plain numbers: 1, 2, 5, 10, and so on."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


# %%
# The searches
# ------------
# One model at a time, on one thread: more would hardly help models of this size, and make
# their times depend on what else the machine does. The small fits beforehand compile the
# kernels. In each fit `RBFClassifier` finds its kernel and its width with networks of up to 600
# units, which takes the same time for few units as for many.

searches = {
    "RBFClassifier": (RBFClassifier(random_state=0), "n_hidden"),
    "TanhClassifier": (TanhClassifier(random_state=0), "n_hidden"),
    "TanhProjector + LogisticRegression": (
        make_pipeline(TanhProjector(random_state=0), LogisticRegression(max_iter=2000)),
        "tanhprojector__n_components",
    ),
}


def grid_search(model, parameter):
    model.fit(X_train[:200], y_train[:200]).predict(X_test[:200])
    search = GridSearchCV(model, {parameter: sizes}, cv=3 if args.quick else 5)
    with threadpool_limits(1):
        return search.fit(X_train, y_train)


def print_table(label, search):
    print(f"{name}, {label}")
    print(f"{'units':>8}{'accuracy':>12}{'spread':>9}{'fit':>11}")
    columns = ("mean_test_score", "std_test_score", "mean_fit_time")
    rows = zip(sizes, *(search.cv_results_[column] for column in columns), strict=True)
    for size, mean, spread, fit_time in rows:
        print(f"{size:8}{mean:12.2%}{spread:9.2%}{fit_time:9.3f} s")
    best = sizes[search.best_index_]
    print(f"{best} units are best, test accuracy {search.score(X_test, y_test):.2%}\n")


results = {}
for label, (model, parameter) in searches.items():
    search = grid_search(model, parameter)
    print_table(label, search)
    results[label] = search

# %%
# Accuracy and time
# -----------------

styles = dict(zip(results, [(BLUE, "o"), (VERMILION, "s"), (GREEN, "^")], strict=True))
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for label, search in results.items():
    look = dict(zip(("color", "marker"), styles[label], strict=True))
    HiddenSizeDisplay.from_estimator(search, ax=left, line_kw={"label": label, **look})
    right.plot(sizes, search.cv_results_["mean_fit_time"], **look)
right.set_xscale("log", base=2)
right.set_xticks(sizes, sizes)
right.set_xlabel("hidden units")
right.grid(alpha=0.3)
log_scale(right.yaxis)
right.set_ylabel("fit time (s)")
best = max(results, key=lambda label: results[label].best_score_)
left.set_title(f"{best} is the best, {results[best].best_score_:.1%}")
times = {label: search.cv_results_["mean_fit_time"][-1] for label, search in results.items()}
fastest, fit_time = min(times.items(), key=lambda pair: pair[1])
right.set_title(f"{fastest} is the fastest, {sizes[-1]} units in {fit_time:.2f} s")
fig.suptitle(f"{name}: {len(X_train)} training rows")
fig.savefig("hidden_size.png", dpi=120)
