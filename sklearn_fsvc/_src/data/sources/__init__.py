"""Rows that are read a few at a time, from files and from functions that give chunks.

Whatever their shape, all are a `Source`: numbers of rows go in, in ascending order, and
blocks of those rows come out, in one pass. No list of numbers ever reaches a file.
"""

import numpy as np

from ...engines.memory import host_memory
from ..tiling import parse_memory
from .arrays import InMemory, Sliceable, SparseRows, are_sparse, is_sliceable, joined
from .base import PrefetchedSource, Source, read_ahead, some_rows
from .chunks import Iterated

__all__ = [
    "InMemory", "PrefetchedSource", "Source", "SparseRows", "are_sparse", "joined", "open_rows",
    "read_ahead", "some_rows",
]  # fmt: skip


def open_rows(X, max_memory, y=None, sample_weight=None):
    """X as a `Source` if it is one, else as it came, with y and the weights of its rows.

    All is as the user gave it: `NetworkClassifier.fit` says what a source may be. A function is
    called, and all its chunks are looked at once. What belongs to the rows of a source is in memory
    then. It raises TypeError or ValueError for a source that cannot be read, or whose y or weights
    are in doubt.
    """
    if isinstance(X, Source):
        return X, y, sample_weight
    if hasattr(X, "__next__"):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read only once, and rows are met in several "
            "passes. Give a function without arguments that returns a fresh one each time."
        )
    is_function = callable(X)
    if not (is_function or is_sliceable(X)):
        return X, y, sample_weight
    limit = parse_memory(max_memory, host_memory()[0])
    if is_function:
        return Iterated.open(X, limit, y, sample_weight)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(value, str):
            raise ValueError(
                f"{name}={value!r} would be the name of a column, and {type(X).__name__} has none; "
                f"give {name} of all rows."
            )
    y, sample_weight = (np.asarray(v) if is_sliceable(v) else v for v in (y, sample_weight))
    return Sliceable(X, limit), y, sample_weight
