"""Time fits and predictions of very many samples on a GPU, as made and with everything given.

python benchmarks/large_fits.py --data DIR [--json FILE] [--only images,floats] [--device cuda]

`images` has a million images of 784 bytes: those of MNIST (DIR contains its IDX files), each with
pixels of another image of its class. `floats` has 10,500,000 samples of 28 float32 features, the
shape of HIGGS, whose class is the sign of a function of four of them. All are in memory of the
host. The first fit of each size is not timed.
"""

from functools import partial

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.tuning import medians

UNITS = 8192
IMAGES, FLOATS, SCORED = 1_000_000, 10_500_000, 500_000


def estimators(device):
    """Return {name: estimator}, as made."""
    params = {"random_state": 0, "device": device}
    return {
        "tanh": TanhClassifier(UNITS, **params),
        "RBF": RBFClassifier(UNITS, **params),
        "RBF, random centres": RBFClassifier(UNITS, selection="random", **params),
    }


def with_selected(model, precision):
    """Return an estimator with the values that a fitted one has selected, and a precision."""
    params = model.get_params() | {
        "alpha": model.alpha_, "precision": precision, "feature_weights": model.feature_weights_
    }  # fmt: skip
    if isinstance(model, RBFClassifier):
        params |= {"kernel": model.kernel_, "radius": model.radius_}
    else:
        # Of Gaussian weights, whose standard deviation is the scale over the root of the features.
        params["scale"] = float(model.components_.std() * model.n_features_in_**0.5)
    return type(model)(**params)


def mixed_images(X, y, n, seed=0):
    """Return `n` images: a third of the rows of one are those of another one of its class."""
    rng = np.random.default_rng(seed)
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(11))
    label = rng.integers(10, size=n)
    first, second = (
        order[starts[label] + (rng.random(n) * np.diff(starts)[label]).astype(int)]
        for _ in range(2)
    )
    images = X[first]
    images[:, 261:522] = X[second, 261:522]
    return images, label


def float_samples(n, seed=0):
    """Return samples of 28 features and their classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 28), dtype=np.float32)
    noise = rng.standard_normal(n, dtype=np.float32)
    return X, (X[:, 0] * X[:, 1] + np.abs(X[:, 2]) - X[:, 3] + 0.3 * noise > 0.5).astype(int)


def measured(args, X, y, X_scored, y_scored):
    rows = []
    for name, model in estimators(args.device).items():
        model.fit(X, y)
        variants = {f"{name}, as made": model}
        for precision in (8, "float"):
            variants[f"{name}, given, {precision}"] = with_selected(model, precision)
        for variant, estimator in variants.items():
            fit, predict = partial(estimator.fit, X, y), partial(estimator.predict, X_scored)
            times = medians({"fit": fit, "predict": predict}, repeats=3)
            rows += [
                (f"{variant}: fit, s", times["fit"]),
                (f"{variant}: predict {len(X_scored)}, s", times["predict"]),
                (f"{variant}: accuracy, %", 100 * estimator.score(X_scored, y_scored)),
            ]
            print(*rows[-3:], flush=True)
    return rows


def images(args):
    X, y, *_ = load_images(args.data)
    X, y = mixed_images(X, np.asarray(y, int), IMAGES)
    return f"{len(X)} x {X.shape[1]} bytes, {UNITS} units", measured(args, X, y, X, y)


def floats(args):
    X, y = float_samples(FLOATS)
    title = f"{len(X)} x {X.shape[1]} float32, {UNITS} units"
    return title, measured(args, X, y, X[:SCORED], y[:SCORED])


PARTS = {"images": images, "floats": floats}


if __name__ == "__main__":
    args = arguments(
        data={"required": True, "help": "folder with the IDX files of MNIST"},
        only={"default": ",".join(PARTS)},
        device={"default": "cuda"},
    )
    for part in args.only.split(","):
        report(args, *PARTS[part](args))
