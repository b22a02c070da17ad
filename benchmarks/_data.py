"""Datasets of the benchmarks, from the folder that `--data` names.

It contains mnist/ (IDX files), letter/letter.csv.gz and fsvc/{iris,optd64}.npz.
"""

import numpy as np


def read_letter(folder):
    """Return X, y of 16,000 training and X_test, y_test of 4,000 test letters."""
    table = np.loadtxt(folder / "letter" / "letter.csv.gz", str, delimiter=",", skiprows=1)
    label = next(j for j, text in enumerate(table[0]) if text.isalpha())
    X, y = np.delete(table, label, axis=1).astype(float), table[:, label]
    return X[:16_000], y[:16_000], X[16_000:], y[16_000:]


def read_fsvc(folder, name):
    """Return X, y, X_test, y_test in the split of the authors."""
    with np.load(folder / "fsvc" / f"{name}.npz") as file:
        X, y, X_test, y_test = (file[k] for k in ("X_train", "y_train", "X_test", "y_test"))
    return X, y.ravel(), X_test, y_test.ravel()
