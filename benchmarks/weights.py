"""Compare kinds of random weights: accuracy by size, scale="auto" against a grid, and cost.

python benchmarks/weights.py --data DIR [--json FILE] [--device cuda] [--only NAME,...]

    sizes    accuracy of each kind on MNIST, letter and optd64, for several sizes
    scale    scale="auto" against the best of a grid, for each kind
    reach    range of the biases, in standard deviations of the inner products: mean scores on small
             problems of one to three features, and on datasets of up to 4000 samples
    price    MNIST with `--units` class-informed units in receptive fields: accuracy, time to fit,
             and the share of drawing the weights
    xgboost  the same for XGBoost (hist, 200 trees), if it is installed

See `_data.py` for DIR. Accuracies are means over `--seeds` networks.
"""

import time
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.datasets import make_moons, make_swiss_roll

from _data import read_fsvc, read_letter
from _report import arguments, report
from _tabular_data import find_tables, read_table, splits
from sklearn_fsvc import TanhClassifier, TanhRegressor, make_tabular_pipeline
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.hidden_layers import scale as weights_scale
from sklearn_fsvc._src.hidden_layers import tanh
from sklearn_fsvc._src.hidden_layers.tanh import WEIGHTS
from sklearn_fsvc._src.tuning import medians

RANGES = (0, 1, 1.7, 2, 2.5, 3, 3.5)
SIZES = (256, 512, 1024, 2048, 4096)
GRID = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
MNIST = {"weights": "class_informed", "image_shape": (28, 28)}


def data_sets(folder):
    """Yield name, split and kinds of layers, {name: parameters}."""
    *mnist, mnist_shape = load_images(folder)
    for name, parts, image_shape in (
        ("MNIST", mnist, mnist_shape),
        ("letter", read_letter(folder), None),
        ("optd64", read_fsvc(folder, "optd64"), (8, 8)),
    ):
        kinds = {kind: {"weights": kind} for kind in WEIGHTS}
        if image_shape is not None:
            kinds |= {
                f"{kind}, patches": {"weights": kind, "image_shape": image_shape}
                for kind in WEIGHTS
            }
        yield name, parts, kinds


def accuracy(args, parts, n_hidden, **params):
    """Return the mean accuracy in %, and its standard deviation over the seeds."""
    X, y, X_test, y_test = parts
    scores = [
        100 * TanhClassifier(n_hidden, random_state=seed, device=args.device, **params)
        .fit(X, y)
        .score(X_test, y_test)
        for seed in range(args.seeds)
    ]  # fmt: skip
    return float(np.mean(scores)), float(np.std(scores))


def sizes(args):
    for name, parts, kinds in data_sets(args.data):
        rows = []
        for kind, params in kinds.items():
            for size in SIZES:
                mean, spread = accuracy(args, parts, size, **params)
                rows += [(f"{kind}: {size}", mean), (f"{kind}: {size}, std", spread)]
        report(args, f"weights: accuracy on {name}, {args.seeds} seeds, %", rows)


def standardised(parts):
    """Return centred features, divided by their common standard deviation, for the grid."""
    X, y, X_test, y_test = parts
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    mean = X.mean(axis=0)
    spread = np.sqrt(np.square(X - mean).mean())
    return (X - mean) / spread, y, (X_test - mean) / spread, y_test


def scale(args):
    for name, parts, kinds in data_sets(args.data):
        parts, rows = standardised(parts), []
        for kind, params in kinds.items():
            auto, _ = accuracy(args, parts, args.units, **params)
            grid = {s: accuracy(args, parts, args.units, scale=s, **params)[0] for s in GRID}
            best = max(grid, key=grid.get)
            rows += [
                (f"{kind}: auto, %", auto),
                (f"{kind}: best of the grid, %", grid[best]),
                (f"{kind}: its scale", best),
                (f"{kind}: auto - best, points", auto - grid[best]),
            ]
        title = f"weights: scale on {name}, {args.units} units, {args.seeds} seeds"
        report(args, title, rows, device=args.device)


def small_problems(rng, n=2000):
    """Yield name, X, y with one to three features; float y is for regression."""
    for turns in (1, 2, 3):
        t, y = np.sqrt(rng.random(2 * n)), rng.integers(0, 2, 2 * n)
        angle = 2 * np.pi * turns * t + np.pi * y
        X = (t * [np.cos(angle), np.sin(angle)]).T
        yield f"{turns} turns of two spirals", X + rng.normal(0, 0.02, X.shape), y
    X = rng.uniform(-1, 1, (2 * n, 2))
    yield "board of 4 x 4 fields", X, np.floor(2 * X).astype(int).sum(axis=1) % 2
    X, y = make_moons(2 * n, noise=0.2, random_state=0)
    yield "moons", X, y
    X = rng.normal(size=(2 * n, 1))
    yield "sine", X, np.sin(6 * X[:, 0]) + rng.normal(0, 0.1, 2 * n)
    X, y = make_swiss_roll(2 * n, noise=0.1, random_state=0)
    yield "Swiss roll", X, y


def tables(folder):
    """Yield name, training samples and targets, and test samples and targets."""
    for path in find_tables(folder):
        table = read_table(path)
        train, test = splits(table, "small")[0]
        columns = make_tabular_pipeline(TanhRegressor())[:-1]
        X = columns.fit_transform(table.X.iloc[train])
        yield table.name, X, table.y[train], columns.transform(table.X.iloc[test]), table.y[test]


def reach(args):
    halves = (
        (name, X[::2], y[::2], X[1::2], y[1::2])
        for name, X, y in small_problems(np.random.default_rng(0))
    )
    for title, sets in (("small problems", halves), ("tables", tables(args.data))):
        scores = {}
        for _, X, y, X_test, y_test in sets:
            kind = TanhRegressor if y.dtype.kind == "f" else TanhClassifier
            model = kind(args.units, random_state=0, device=args.device)
            for each in RANGES:
                with mock.patch.object(weights_scale, "_REACH", each):
                    score = model.fit(X, y).score(X_test, y_test)
                scores.setdefault(each, []).append(100 * score)
        rows = [(f"{each} deviations", float(np.mean(results))) for each, results in scores.items()]
        rows.append(("sets", len(scores[RANGES[0]])))
        report(args, f"weights: reach of biases, {title}: mean accuracy and R2, %", rows)


def price(args):
    parts = X, y, X_test, y_test = load_images(args.data)[:4]
    clf = TanhClassifier(args.units, random_state=0, device=args.device, **MNIST)
    draw, drawing = tanh.fit_tanh_layer, []

    def timed(*arguments):
        start = time.perf_counter()
        layer = draw(*arguments)  # at its end it is on the host
        drawing.append(time.perf_counter() - start)
        return layer

    with mock.patch.object(tanh, "fit_tanh_layer", timed):
        fit = medians({"fit": lambda: clf.fit(X, y)}, args.repeats, seconds=600)["fit"]
    drawing = float(np.median(drawing[1:]))  # the first one warms up
    mean, spread = accuracy(args, parts, args.units, **MNIST)
    gaussian, _ = accuracy(args, parts, args.units, image_shape=MNIST["image_shape"])
    plain, _ = accuracy(args, parts, args.units)
    rows = [
        ("fit, s", fit),
        ("drawing the weights, s", drawing),
        ("drawing / fit", drawing / fit),
        ("accuracy of seed 0, %", 100 * clf.score(X_test, y_test)),
        (f"accuracy, mean of {args.seeds} seeds, %", mean),
        ("accuracy, std over seeds, points", spread),
        ("accuracy of Gaussian weights in patches, %", gaussian),
        ("accuracy of Gaussian weights, %", plain),
    ]
    report(args, f"weights: MNIST, {args.units} units", rows, device=args.device)


def xgboost(args):
    from xgboost import XGBClassifier

    X, y, X_test, y_test, _ = load_images(args.data)
    models = {"XGBoost": XGBClassifier(n_estimators=200, tree_method="hist")}
    for units in (2048, 8192):
        models[f"{units} units"] = TanhClassifier(
            units, random_state=0, device=args.device, **MNIST
        )
    rows, seconds = [], {}
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds[name] = time.perf_counter() - start
        rows.append((f"{name}: fit, s", seconds[name]))
        rows.append((f"{name}: accuracy, %", 100 * float(np.mean(model.predict(X_test) == y_test))))
        rows.append((f"{name}: fit / that of XGBoost", seconds[name] / seconds["XGBoost"]))
    report(args, "weights: MNIST beside XGBoost", rows, device=args.device)


if __name__ == "__main__":
    parts = {f.__name__: f for f in (sizes, scale, reach, price, xgboost)}
    args = arguments(
        data={"required": True, "type": Path},
        device={"default": "cpu"},
        only={"default": ",".join(parts)},
        units={"type": int, "default": 2048},
        seeds={"type": int, "default": 4},
        repeats={"type": int, "default": 3},
    )
    for name in args.only.split(","):
        parts[name](args)
