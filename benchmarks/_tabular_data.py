"""Datasets from .npz files, and their splits.

A file contains X (float32, NaN for missing values), X_cat (integer codes of categories, -1 for
missing values), y, task ("classification" or "regression") and, if the source defines a split,
the row numbers train and test. X or X_cat may have no columns.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

TRACKS = {"small": 4000, "large": None}  # most rows for training
MAX_TEST = 50_000
SEEDS = (0, 1, 2)
# Ordered by time: neighbours of test samples are in the training set, and reveal their target.
LEAKY = ("eeg_eye_state", "electricity")


@dataclass(frozen=True)
class Table:
    """A dataset: columns of X are float32 (x0, x1, ...) or categorical (c0, c1, ...)."""

    name: str
    task: str
    X: pd.DataFrame
    y: np.ndarray
    source: tuple | None = None  # (training rows, test rows) of the source, if it defines them

    @property
    def strata(self):
        """Return the strata of a sample: the classes."""
        return self.y if self.task == "classification" else np.zeros(len(self.y), int)


def read_table(path):
    with np.load(path) as file:
        numbers, codes = file["X"], file["X_cat"]
        columns = {f"x{j}": column for j, column in enumerate(numbers.T)}
        for j, column in enumerate(codes.T):
            # Categories are those of all rows, training and test.
            levels = np.arange(column.max() + 1)
            columns[f"c{j}"] = pd.Categorical.from_codes(column, levels)
        source = (file["train"], file["test"]) if "train" in file else None
        return Table(path.stem, str(file["task"]), pd.DataFrame(columns), file["y"], source)


def find_tables(folder, names=None):
    """Return the sorted paths of the datasets in `folder` or in its subfolder tabular."""
    inner = folder / "tabular"
    folder = inner if inner.is_dir() else folder
    paths = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    if not paths:
        raise SystemExit(f"--data: there is no .npz file in {folder}")
    unknown = set(names or ()) - paths.keys()
    if unknown:
        raise SystemExit(f"--sets: no {', '.join(sorted(unknown))} in {folder}: {', '.join(paths)}")
    return [paths[name] for name in names or paths]


def sample(strata, n, seed):
    """Return `n` random rows, stratified by class to within one row.

    By equal steps through rows that are sorted by class, which works for classes of any size.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(strata))
    rows = rows[np.argsort(strata[rows], kind="stable")]
    steps = (rng.random() + np.arange(n)) * (len(rows) / n)
    return np.sort(rows[steps.astype(int)])


def subsample(rows, strata, n, seed):
    """Return the rows, or a sample of `n` of them."""
    if n is None or len(rows) <= n:
        return rows
    return rows[sample(strata[rows], n, seed)]


def splits(table, track):
    """Return [(training rows, test rows)] of the protocol."""
    limit = TRACKS[track]
    strata = table.strata
    pairs = []
    for seed in SEEDS:
        if table.source is None:
            train = sample(strata, round(0.75 * len(strata)), seed)
            test = np.setdiff1d(np.arange(len(strata)), train)
        else:
            train, test = table.source
            if seed > 0 and (limit is None or len(train) <= limit):
                break  # they would be identical
        train, test = (
            subsample(train, strata, limit, seed),
            subsample(test, strata, MAX_TEST, seed),
        )
        pairs.append((train, test))
    return pairs
