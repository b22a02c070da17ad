"""Compare the softmax readout with TanhProjector and LogisticRegression.

python benchmarks/softmax.py --data DIR [--units 4096] [--rows 60000] [--alpha 1] [--max-iter 2000]
    [--repeats 1] [--device cpu] [--json FILE]    DIR contains mnist/, see _data.py

Both in one process, on the same layer: make_pipeline(TanhProjector(units),
LogisticRegression(C=1 / alpha)), which stores H, and TanhClassifier(units, readout="softmax",
alpha=alpha), which does not. The baseline is run twice: with its defaults, which stop it after 100
iterations, and with enough iterations for objectives that differ by less than about 1e-4. Peak
allocations are those of NumPy, in separate fits of a few iterations (--memory).

With --device cuda both run on the GPU: scikit-learn receives CuPy arrays by SciPy's array API.
"""

import os
import sys

if "cuda" in sys.argv:  # SciPy reads it at import
    os.environ.setdefault("SCIPY_ARRAY_API", "1")

import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import Pipeline, make_pipeline

from _report import arguments, report
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.estimators import readouts
from sklearn_fsvc._src.readouts.softmax import train_softmax

FEW = 3  # iterations of fits whose memory is measured
PEER, OURS = "TanhProjector + LogisticRegression", "TanhClassifier, softmax"
DEFAULT_PEER = f"{PEER}, its defaults"


def models_of(args):
    options = {"random_state": 0, "device": args.device}
    layer, C = TanhProjector(args.units, **options), 1 / args.alpha
    return {
        DEFAULT_PEER: make_pipeline(layer, LogisticRegression(C=C)),
        PEER: make_pipeline(layer, LogisticRegression(C=C, tol=1e-6, max_iter=args.max_iter)),
        OURS: TanhClassifier(
            args.units, readout="softmax", alpha=args.alpha, feature_weights=None, **options
        ),
    }


def images(args):
    """Return X, y, X_test, y_test."""
    X, y, X_test, y_test, _ = load_images(args.data / "mnist")
    X, X_test = X[: args.rows] / np.float32(255), X_test / np.float32(255)
    return X, y[: args.rows], X_test, y_test


def where_it_runs(name, X, device):
    """Return samples for scikit-learn: on the GPU as CuPy arrays."""
    if device != "cuda" or name == OURS:
        return X
    import cupy

    return cupy.asarray(X)


def on_host(array):
    return array.get() if hasattr(array, "get") else array


def seconds(model, X, y):
    """Return the wall and CPU seconds of a fit."""
    start = time.perf_counter(), time.process_time()
    model.fit(X, y)
    return time.perf_counter() - start[0], time.process_time() - start[1]


def peak(model, X, y):
    """Return the peak allocation in GB of a fit of few iterations, without its samples."""
    few = clone(model)
    if isinstance(few, Pipeline):
        few.set_params(logisticregression__max_iter=FEW)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            few.fit(X, y)
        return tracemalloc.get_traced_memory()[1] / 1e9
    finally:
        tracemalloc.stop()


def counted(passes):
    """Record the number of passes over the data of each softmax fit."""

    def train(*args, **options):
        results = train_softmax(*args, **options)
        passes.append(results.n_passes)
        return results

    readouts.train_softmax = train


def quality(model, X, y, X_test, y_test, alpha):
    """Return rows of the report on a fitted model."""
    readout = model[-1] if isinstance(model, Pipeline) else model
    coef = on_host(readout.coef_ if isinstance(model, Pipeline) else readout.readout_coef_)
    p, p_test = (on_host(model.predict_proba(part)) for part in (X, X_test))
    penalty = alpha / 2 * float((coef.astype(float) ** 2).sum())
    predictions = readout.classes_[p_test.argmax(axis=1)]
    return [
        ("iterations", float(np.max(readout.n_iter_))),
        ("objective", log_loss(y, p, normalize=False) + penalty),
        ("accuracy, %", 100 * accuracy_score(y_test, predictions)),
        ("log-loss", log_loss(y_test, p_test)),
    ]


def compare(args):
    X, y, X_test, y_test = images(args)
    models, passes = models_of(args), []
    clone(models[OURS]).set_params(n_hidden=50).fit(X[:2000], y[:2000])  # compile
    counted(passes)
    there = {name: [where_it_runs(name, x, args.device) for x in (X, X_test)] for name in models}
    fits = {name: [] for name in models}
    for _ in range(args.repeats):
        for name, model in models.items():
            fits[name].append(seconds(model, there[name][0], y))
    rows = []
    for name, model in models.items():
        wall, cpu = np.median(fits[name], axis=0)
        rows += [(f"{name}: fit, s", wall), (f"{name}: fit, CPU s", cpu)]
        results = quality(model, there[name][0], y, there[name][1], y_test, args.alpha)
        rows += [(f"{name}: {what}", value) for what, value in results]
        if args.memory:
            rows.append((f"{name}: peak memory, GB", peak(model, there[name][0], y)))
    rows.append((f"{OURS}: passes over the rows", passes[0]))
    for name, whose in ((PEER, "theirs"), (DEFAULT_PEER, "theirs by default")):
        wall, cpu = np.median(np.divide(fits[name], fits[OURS]), axis=0)
        rows += [(f"time, {whose} / ours", wall), (f"CPU time, {whose} / ours", cpu)]
    report(args, f"Softmax readout, {len(X)} images, {args.units} units", rows)


def main(args):
    with sklearn.config_context(array_api_dispatch=args.device == "cuda"):
        compare(args)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path}, units={"type": int, "default": 4096},
            rows={"type": int, "default": 60_000}, alpha={"type": float, "default": 1.0},
            **{"max-iter": {"type": int, "default": 2000}},
            repeats={"type": int, "default": 1}, device={"default": "cpu"},
            memory={"action": "store_true"},
        )
    )  # fmt: skip
