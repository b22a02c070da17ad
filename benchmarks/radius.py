"""Compare radius="auto" with the best radius of a grid: test accuracy.

python benchmarks/radius.py --data DIR [--json FILE]

Networks of the grid have the kernel, the feature weights and the number of units of the default;
their penalty is selected for each. See `_data.py` for DIR. MNIST is limited to 10,000 training
samples because of the grid. Iris, with 50 test samples, is averaged over 10 seeds.
"""

from pathlib import Path

import numpy as np

from _data import read_fsvc, read_letter
from _report import arguments, report
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.demo import load_images

GRID = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.8)


def data_sets(folder):
    X, y, X_test, y_test, _ = load_images(folder)
    X, y = X[:10_000], y[:10_000]
    yield "MNIST uint8", (X, y, X_test, y_test), 1000
    floats = (X / np.float32(255), y, X_test / np.float32(255), y_test)
    yield "MNIST / 255", floats, 1000
    yield "letter", read_letter(folder), 2000
    for name, units in (("optd64", 600), ("iris", 20)):
        yield name, read_fsvc(folder, name), units


def accuracy(parts, seeds, **params):
    X, y, X_test, y_test = parts
    models = [RBFClassifier(random_state=s, **params).fit(X, y) for s in range(seeds)]
    return 100 * np.mean([m.score(X_test, y_test) for m in models]), models[0]


def main(args):
    for name, parts, units in data_sets(args.data):
        seeds = 10 if name == "iris" else 1
        for n_hidden in (None, units):
            default, model = accuracy(parts, seeds, n_hidden=n_hidden)
            fixed = {
                "n_hidden": len(model.centers_),
                "kernel": model.kernel_,
                "feature_weights": model.feature_weights_,
            }
            grid = {
                factor: accuracy(parts, seeds, radius=factor * model.radius_, **fixed)[0]
                for factor in GRID
            }
            best = max(grid, key=grid.get)
            rows = [
                ("units of the default", float(len(model.centers_))),
                ("accuracy of the default, %", default),
                ("best of the grid, %", grid[best]),
                ("its radius / auto", best),
                ("default - best, points", default - grid[best]),
            ]
            report(args, f"radius: {name}, n_hidden={n_hidden}", rows)


if __name__ == "__main__":
    main(arguments(data={"required": True, "type": Path}))
