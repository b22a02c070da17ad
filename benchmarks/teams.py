"""Several GPUs against one: fits with the same rows, and with twice as many.

python benchmarks/teams.py [--devices cuda:0 cuda:all] [--data DIR] [--rows N] [--units M]
    [--repeats N] [--only NAME ...] [--json FILE]

Host memory to fitted model. The devices take turns; medians, and the first calls, which also
compile. `--data` names the folder of MNIST; other rows are random bytes.
"""

import time

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc.demo import load_images

CLASSES = 10


def random_rows(n, n_features):
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    X = rng.integers(0, 128, (n, n_features), np.uint8)
    X[:, :64] += (y[:, None] * 8).astype(np.uint8)
    return X, y


def models(m):
    return {
        "tanh": TanhClassifier(m, scale=0.01, alpha=1.0, random_state=0),
        "tanh, alpha auto": TanhClassifier(m, scale=0.01, random_state=0),
        "RBF, random centres": RBFClassifier(
            m, selection="random", kernel="triangular", feature_weights=None, radius=4e4, alpha=1.0,
            random_state=0,
        ),
    }  # fmt: skip


def in_turn(works, repeats):
    """Name -> (seconds of the first call, median of the others)."""
    times = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: (each[0], float(np.median(each[1:]))) for name, each in times.items()}


def compare(args, name, model, X, y):
    """Rows of the report: first calls and medians of all devices, and the first one's over each."""
    works = {
        device: lambda device=device: model.set_params(device=device).fit(X, y)
        for device in args.devices
    }
    found = in_turn(works, args.repeats)
    base = found[args.devices[0]][1]
    for device, (first, median) in found.items():
        what = f"{name}, {args.units} units, {len(X)} rows, {device}"
        yield f"{what}: first fit, s", first
        yield f"{what}: fit, s", median
        yield f"{what}: times as fast", base / median


def main(args):
    found, kinds = [], models(args.units)
    if args.data:
        X, y = load_images(args.data)[:2]
        for name in args.only:
            found += compare(args, f"MNIST, {name}", kinds[name], X, y)
    X, y = random_rows(args.rows, 784)
    for name in args.only:
        for n in (len(X) // 2, len(X)):
            found += compare(args, name, kinds[name], X[:n], y[:n])
    report(args, "teams", found)


if __name__ == "__main__":
    main(
        arguments(
            devices={"nargs": "+", "default": ["cuda:0", "cuda:all"]},
            data={},
            rows={"type": int, "default": 1_000_000},
            units={"type": int, "default": 8192},
            repeats={"type": int, "default": 7},
            only={"nargs": "+", "default": ["tanh", "tanh, alpha auto", "RBF, random centres"]},
        )
    )
