"""Compare HiddenSizeSearchCV with GridSearchCV, and probabilities with CalibratedClassifierCV.

python benchmarks/search.py --data DIR [--device cpu] [--only tanh,rbf,...] [--each 1] [--json FILE]

DIR contains mnist/ (IDX files) and letter/letter.csv.gz. Both search 12 sizes and 6 penalties
(and 4 radii; with random centres 2 kernels and alpha="auto", too) in 5 folds over all 60,000
images. GridSearchCV is timed on `each` candidates of every size, spread over the rest of the
grid (0: all), and its time is scaled to all candidates.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ParameterGrid

from _data import read_letter
from _report import arguments, report
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images

ALPHAS = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
RADII = [8000.0, 12000.0, 18000.0, 27000.0]
# As many units as there are novel samples among 48,000 images, and more.
SELECTION_RADIUS = 11_000.0
# With a given kernel, radii share their distances.
KERNEL = "triangular"
# The value of "auto" for uint8, but the same in all folds.
SCALE = 0.4 / 66


def sizes(largest):
    return [round(largest * part / 12) for part in range(1, 13)]


def cases(options, largest):
    """Return {name: (estimator, param_grid)}."""
    both = {"n_hidden": sizes(largest), "alpha": ALPHAS}
    with_radius = both | {"radius": RADII}
    with_kernel = with_radius | {"kernel": ["triangular", "laplacian"], "alpha": [*ALPHAS, "auto"]}
    tanh = TanhClassifier(random_state=0, **options)
    rbf = RBFClassifier(random_state=0, kernel=KERNEL, **options)
    return {
        "tanh": (clone(tanh).set_params(scale=SCALE), both),
        "tanh-auto": (tanh, both),
        "rbf": (clone(rbf).set_params(selection_radius=SELECTION_RADIUS), with_radius),
        "rbf-own": (rbf, with_radius),
        "rbf-random": (clone(rbf).set_params(selection="random"), with_kernel),
    }


def sample(grid, each, best):
    """Return candidates of every size, spread over the rest of the grid, and the best one."""
    candidates = list(ParameterGrid(grid))
    if not each:
        return candidates
    chosen = [best]
    for i, size in enumerate(grid["n_hidden"]):
        here = [c for c in candidates if c["n_hidden"] == size]
        step = len(here) / each
        chosen += [here[int((k + i / 12) * step) % len(here)] for k in range(each)]
    return [c for i, c in enumerate(chosen) if c not in chosen[:i]]


def seconds(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def split_scores(search, candidates):
    results = search.cv_results_
    table = np.array([results[f"split{k}_test_score"] for k in range(5)]).T
    rows = [results["params"].index(candidate) for candidate in candidates]
    return table[rows]


def compare(name, estimator, grid, X, y, args):
    """Report the times of both searches, and the difference of their scores."""
    options = {"cv": 5, "refit": False}
    ours, time_ours = seconds(HiddenSizeSearchCV(estimator, grid, **options).fit, X, y)
    n = len(ParameterGrid(grid))
    rows = [(f"{name}: {5 * n} fits, ours, s", time_ours)]
    rows.append((f"{name}: best accuracy, %", 100 * ours.best_score_))
    print(name, ours.best_params_, flush=True)
    if args.alone:
        return rows
    chosen = sample(grid, args.each, ours.best_params_)
    listed = [{k: [v] for k, v in candidate.items()} for candidate in chosen]
    peer, time_peer = seconds(GridSearchCV(estimator, listed, **options).fit, X, y)
    # The best one is an additional candidate of its size.
    time_peer *= n / len(chosen)
    apart = np.abs(split_scores(ours, chosen) - split_scores(peer, chosen))
    return [
        *rows,
        (f"{name}: GridSearchCV, s, from {len(chosen)} of {n} candidates", time_peer),
        (f"{name}: GridSearchCV / ours", time_peer / time_ours),
        (f"{name}: split scores compared", apart.size),
        (f"{name}: of them further apart than 1e-6", int((apart > 1e-6).sum())),
        (f"{name}: furthest apart, images of 12,000", round(12_000 * apart.max())),
        (f"{name}: the same best candidate", int(peer.best_params_ == ours.best_params_)),
    ]


def probabilities(name, X, y, X_test, y_test, n_hidden, options):
    """Report log-loss and time of ours, and of scikit-learn's five-fold calibration."""
    rows = []
    for kind in (RBFClassifier, TanhClassifier):
        ours = kind(n_hidden, random_state=0, **options)
        label = f"{name}, {kind.__name__}({n_hidden})"
        ours.fit(X[:4000], y[:4000])  # compile and prepare first
        _, time_ours = seconds(ours.fit, X, y)
        rows.append((f"{label}: log-loss", log_loss(y_test, ours.predict_proba(X_test))))
        for method in ("sigmoid", "temperature"):
            peer = CalibratedClassifierCV(clone(ours), cv=5, method=method)
            _, time_peer = seconds(peer.fit, X, y)
            loss = log_loss(y_test, peer.predict_proba(X_test))
            rows.append((f"{label}: log-loss of CalibratedClassifierCV, {method}", loss))
            rows.append((f"{label}: its fit / ours, {method}", time_peer / time_ours))
    return rows


def main(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    X, y = X[: args.rows], y[: args.rows]
    options = {"device": args.device}
    wanted = args.only.split(",")
    RBFClassifier(100, **options).fit(X[:2000], y[:2000])  # compile
    TanhClassifier(100, **options).fit(X[:2000], y[:2000])
    title = f"searches, MNIST, {len(X)} images, device {args.device}, up to {args.largest} units"
    for name, (estimator, grid) in cases(options, args.largest).items():
        if name in wanted:
            report(args, f"{title}, {name}", compare(name, estimator, grid, X, y, args))
    if "single" in wanted:
        rows = []
        for kind in (TanhClassifier, RBFClassifier):
            model = kind(args.largest, random_state=0, **options)
            model.fit(X, y)
            rows.append((f"{kind.__name__}: one fit, s", seconds(model.fit, X, y)[1]))
        report(args, f"{title}, single fits", rows)
    if "probability" in wanted:
        rows = probabilities("MNIST", X, y, X_test, y_test, args.largest, options)
        rows += probabilities("letter", *read_letter(args.data), args.largest, options)
        report(args, f"{title}, probabilities", rows)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path},
            device={"default": "cpu"},
            only={"default": "tanh,tanh-auto,rbf,rbf-own,rbf-random,single,probability"},
            each={"type": int, "default": 1},
            alone={"action": "store_true", "help": "without GridSearchCV"},
            rows={"type": int, "default": 60_000},
            largest={"type": int, "default": 2048},
        )
    )
