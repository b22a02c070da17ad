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
# In order of time: neighbours of a test row are in training, and nearness gives them away.
LEAKY = ("eeg_eye_state", "electricity")


@dataclass(frozen=True)
class Table:
    """Columns of X are float32 (x0, x1, ...) or categories (c0, c1, ...)."""

    name: str
    task: str
    X: pd.DataFrame
    y: np.ndarray
    source: tuple | None = None  # rows for training and for testing, where the source says

    @property
    def strata(self):
        """What a sample keeps the shares of: the classes."""
        return self.y if self.task == "classification" else np.zeros(len(self.y), int)


def read_table(path):
    with np.load(path) as file:
        numbers, codes = file["X"], file["X_cat"]
        columns = {f"x{j}": column for j, column in enumerate(numbers.T)}
        for j, column in enumerate(codes.T):
            # Of all rows: which categories there are is known before the rows are split.
            levels = np.arange(column.max() + 1)
            columns[f"c{j}"] = pd.Categorical.from_codes(column, levels)
        source = (file["train"], file["test"]) if "train" in file else None
        return Table(path.stem, str(file["task"]), pd.DataFrame(columns), file["y"], source)


def find_tables(folder, names=None):
    """Paths of the tables in `folder` or in its folder tabular, in the order of their names."""
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
    """`n` of the rows, at random, of each class its share to within one row.

    Even steps through rows that are sorted by class: no class is too small for that.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(strata))
    rows = rows[np.argsort(strata[rows], kind="stable")]
    steps = (rng.random() + np.arange(n)) * (len(rows) / n)
    return np.sort(rows[steps.astype(int)])


def at_most(rows, strata, n, seed):
    """The rows, or a sample of `n` of them."""
    if n is None or len(rows) <= n:
        return rows
    return rows[sample(strata[rows], n, seed)]


def splits(table, track):
    """[(rows for training, rows for testing)], as the protocol says."""
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
                break  # it would be the same rows again
        train, test = at_most(train, strata, limit, seed), at_most(test, strata, MAX_TEST, seed)
        pairs.append((train, test))
    return pairs
