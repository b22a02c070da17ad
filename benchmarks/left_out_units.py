"""Compare validation errors, with and without units centred at validation samples, to test errors.

python benchmarks/left_out_units.py --data DIR [--sets NAME ...] [--json FILE]

DIR contains tabular/*.npz. RBF networks of several penalties behind `make_tabular_pipeline`, up to
4000 training samples: mean squared errors of 0/1 targets, or of standardised ones. With the unit
means that the unit is kept if the left-out sample is its centre; the readouts are the same.

Then penalties and test scores of `partial_fit` in batches of 300, with its units and with the same
ones as a given layer, of which it does not know that the centres are samples; and of `fit`.
"""

from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from _report import arguments, report
from _tabular_data import find_tables, read_table, splits
from sklearn_fsvc import RBFClassifier, RBFRegressor, make_tabular_pipeline

ALPHAS = [1e-3, 1e-2, 0.1, 1.0, 10.0]
MAX_TEST = 5000
BATCH = 300
SIZES = [300, 1000]
SETS = ["letter", "eeg_eye_state", "adult", "protein"]


def compare(table):
    """Return rows (name, squared error)."""
    train, test = splits(table, "small")[0]
    test, y = np.random.default_rng(0).permutation(test)[:MAX_TEST], table.y[train]
    is_classifier = table.task == "classification"
    kind = RBFClassifier if is_classifier else RBFRegressor
    preprocess = make_tabular_pipeline(kind())[:-1]
    X = preprocess.fit_transform(table.X.iloc[train], y)
    X_test = preprocess.transform(table.X.iloc[test])
    network = kind(random_state=0, alpha=ALPHAS).fit(X, y)
    # The same layer; that its centres are training samples is unknown.
    array = kind(
        layer=network.centers_, kernel=network.kernel_, radius=network.radius_,
        feature_weights=network.feature_weights_, alpha=ALPHAS,
    ).fit(X, y)  # fmt: skip
    rows = []
    for k, alpha in enumerate(ALPHAS):
        given = clone(array).set_params(alpha=alpha, layer=network).fit(X, y)
        rows += [
            (f"alpha {alpha:g}, test error", squared_error(given, X_test, table.y[test], y)),
            (f"alpha {alpha:g}, left out without its unit", network.loo_errors_[k]),
            (f"alpha {alpha:g}, left out with its unit", array.loo_errors_[k]),
        ]
    shuffled, test_samples = np.random.default_rng(0).permutation(len(X)), (X_test, table.y[test])
    return rows + [
        row
        for size in SIZES
        for row in streamed(kind, size, X[shuffled], y[shuffled], test_samples)
    ]


def streamed(kind, size, X, y, test):
    """Yield rows (name, penalty or test score) of `partial_fit` and `fit`, with `size` units."""
    options = {"classes": np.unique(y)} if kind is RBFClassifier else {}

    def in_batches(model):
        for start in range(0, len(X), BATCH):
            batch = slice(start, start + BATCH)
            model.partial_fit(X[batch], y[batch], **options)
        return model.solve()

    stream = in_batches(kind(size, random_state=0))
    networks = {
        "partial_fit": stream,
        "partial_fit, given layer": in_batches(kind(layer=FrozenEstimator(stream))),
        "fit": kind(size, random_state=0).fit(X, y),
    }
    for name, network in networks.items():
        yield f"{size} units, {name}: alpha", network.alpha_
        yield f"{size} units, {name}: test score", network.score(*test)


def squared_error(network, X, y, y_train):
    """Return the mean of ``|y - score|^2``, for 0/1 targets or standardised ones."""
    if isinstance(network, RBFRegressor):
        return np.square((y - network.predict(X)) / y_train.std()).mean()
    scores, Y = network.decision_function(X), y[:, None] == network.classes_
    if scores.ndim == 1:  # of the second class minus that of the first, which add up to 1
        scores = np.stack([1 - scores, 1 + scores], axis=1) / 2
    return np.square(Y - scores).sum(axis=1).mean()


def main(args):
    for path in find_tables(args.data, args.sets):
        table = read_table(path)
        report(args, f"Leave-one-out errors, {table.name}", compare(table))


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True}, sets={"nargs": "*", "default": SETS},
        )
    )  # fmt: skip
