"""Compare a fit of ten outputs with a fit of one: the layer and its Gram matrix are shared.

python benchmarks/outputs.py --data DIR [--json FILE] [--device cuda]

MNIST in uint8, with one output per digit. The radius, scale and penalty are given, so that a fit
consists of the layer, the normal equations and their solution. See `_data.py` for DIR.
"""

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, TanhRegressor
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.tuning import medians

ROWS = 2000  # of the fits from which the radius and the scale are taken


def models(args, X, y):
    """Yield the estimators, with hyperparameters that are selected on a few samples."""
    plain = {"alpha": 1.0, "random_state": 0, "device": args.device}
    rbf = {"kernel": "triangular", "feature_weights": None} | plain
    few = X[:ROWS], y[:ROWS]
    radius = RBFRegressor(ROWS // 2, **rbf).fit(*few).radius_
    return {
        "RBFRegressor": RBFRegressor(args.units, radius=radius, **rbf),
        "TanhRegressor": TanhRegressor(args.units, **plain),
    }


def main(args):
    X, digits = load_images(args.data)[:2]
    Y = np.eye(10)[digits]
    rows = []
    for name, model in models(args, X, Y).items():
        fits = {
            "10 outputs": lambda model=model: model.fit(X, Y),
            "1 output": lambda model=model: model.fit(X, Y[:, 0]),
        }
        times = medians(fits, args.repeats, seconds=600)
        rows += [(f"{name}, {outputs}: fit, s", t) for outputs, t in times.items()]
        rows.append((f"{name}: 10 outputs / 1", times["10 outputs"] / times["1 output"]))
    report(args, f"outputs: MNIST, {len(X)} images, {args.units} units", rows, device=args.device)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True},
            device={"default": "cpu"},
            units={"type": int, "default": 4096},
            repeats={"type": int, "default": 5},
        )
    )
