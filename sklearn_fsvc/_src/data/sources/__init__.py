"""Sources: samples in files, in memory, or from functions, which are read a few at a time.

All of them are a `Source`. `open_source` finds the kind of source that an X is.
"""

from typing import Any

import numpy as np

from ..columns import check_no_name
from ..memory_plan import host_memory_limit
from .arrays import ArraySource, Sliceable, SparseSource, is_evaluated_sparse, is_sliceable, joined
from .base import PrefetchedSource, Source, is_in_memory, read_ahead, select_rows
from .chunks import Iterated

__all__ = [
    "ArraySource", "PrefetchedSource", "Source", "SparseSource", "is_evaluated_sparse",
    "is_in_memory", "joined", "open_source", "read_ahead", "select_rows",
]  # fmt: skip


def open_source(
    X: Any, max_memory: int | str | None, y: Any = None, sample_weight: Any = None
) -> tuple[Any, Any, Any]:
    """Return X as a `Source` if it can be one, else X itself, with its y and sample weights.

    The arguments are as the user gave them; `NetworkClassifier.fit` documents the kinds of
    sources. A function is called, and all its chunks are read once. y and the weights of a
    source are in memory afterwards. Raises TypeError or ValueError for a source that cannot be
    read, or whose y or weights are ambiguous.
    """
    if isinstance(X, Source):
        return X, y, sample_weight
    if hasattr(X, "__next__"):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read only once, and samples are read in "
            "several passes. Give a function without arguments that returns a fresh one each time."
        )
    is_function = callable(X)
    if not is_function:
        check_no_name(X, y=y, sample_weight=sample_weight)
    if not (is_function or is_sliceable(X)):
        return X, y, sample_weight
    limit = host_memory_limit(max_memory)
    if is_function:
        return Iterated.open(X, limit, y, sample_weight)
    y, sample_weight = (np.asarray(v) if is_sliceable(v) else v for v in (y, sample_weight))
    return Sliceable(X, limit), y, sample_weight
