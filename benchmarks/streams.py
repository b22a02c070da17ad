"""Compare 1,000 calls of partial_fit on MNIST with one fit, and check `forget`.

python benchmarks/streams.py --data DIR [--json FILE] [--device cuda] [--units 2048]

All use the same layer and penalty, on MNIST in uint8. On the host `fit` multiplies H in float32
and `partial_fit` in float64, since samples may be removed again: hence one call of `partial_fit`
with all samples is timed, too. Both multiply 8-bit activations as integers. The coefficients after
a tenth of the samples is forgotten are compared with those of a model that never had them. See
`_data.py` for DIR.
"""

from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, RBFProjector, TanhClassifier, TanhProjector
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.tuning import medians

DIGITS = range(10)
CALLS = 1000


def models(args, X):
    """Yield unfitted classifiers, each with a given layer."""
    plain = {"alpha": 1.0, "random_state": 0, "device": args.device}
    results = {}
    for precision in ("float", 8):
        options = {"precision": precision, "random_state": 0, "device": args.device}
        rbf = RBFProjector(args.units, selection="random", **options).fit(X)
        tanh = TanhProjector(args.units, **options).fit(X)
        end = "" if precision == "float" else ", 8 bits"
        results[f"RBFClassifier{end}"] = RBFClassifier(layer=FrozenEstimator(rbf), **plain)
        results[f"TanhClassifier{end}"] = TanhClassifier(layer=FrozenEstimator(tanh), **plain)
    return results


def in_parts(X, y, n=CALLS):
    """Return the samples as a stream of separate arrays."""
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(len(X)), n)]


def in_calls(model, parts):
    """Return a new model after one call of partial_fit per part, with its readout solved."""
    model = clone(model)
    for X, y in parts:
        model.partial_fit(X, y, classes=DIGITS)
    return model.solve().readout_coef_


def forgotten(model, X, y):
    """Return the relative difference of coefficients to a refit, and the seconds of `forget`."""
    gone = np.zeros(len(X), bool)
    gone[np.random.default_rng(0).permutation(len(X))[: len(X) // 10]] = True
    refit = in_calls(model, [(X[~gone], y[~gone])])
    model = clone(model).partial_fit(X, y, classes=DIGITS)
    start = perf_counter()
    model.forget(X[gone], y[gone])
    seconds = perf_counter() - start
    return np.linalg.norm(model.solve().readout_coef_ - refit) / np.linalg.norm(refit), seconds


def main(args):
    X, y = load_images(args.data)[:2]
    rows, parts = [], in_parts(X, y)
    for name, model in models(args, X).items():
        ways = {
            "1 fit": lambda model=model: clone(model).fit(X, y),
            f"{CALLS} calls": lambda model=model: in_calls(model, parts),
            "1 call": lambda model=model: in_calls(model, [(X, y)]),
        }
        times = medians(ways, args.repeats, seconds=600)
        rows += [(f"{name}: {way}, s", t) for way, t in times.items()]
        calls = times[f"{CALLS} calls"]
        rows.append((f"{name}: {CALLS} calls / 1 fit", calls / times["1 fit"]))
        rows.append((f"{name}: {CALLS} calls / 1 call", calls / times["1 call"]))
        error, seconds = forgotten(model, X, y)
        rows.append((f"{name}: forget {len(X) // 10} rows, s", seconds))
        rows.append((f"{name}: |coefficients - refit| / |refit|", error))
    report(args, f"streams: MNIST, {len(X)} images, {args.units} units", rows, device=args.device)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True},
            device={"default": "cpu"},
            units={"type": int, "default": 2048},
            repeats={"type": int, "default": 5},
        )
    )
