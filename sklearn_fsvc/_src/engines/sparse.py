"""Layers of products on sparse rows, on the host: only what is not zero is multiplied."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .host import far_away, map_rows, mend
from .threads import n_threads

# Outputs that threads make at a time, all together, and one of them: few enough to be finished in
# its cache, and enough to be worth a call.
_OF_ALL, _MOST, _LEAST = 2**18, 2**17, 2**13


def _outputs():
    """Outputs that one thread makes at a time: fewer where there are many threads."""
    return max(_LEAST, min(_MOST, _OF_ALL // n_threads()))


@dataclass(frozen=True)
class _PreparedSparse:
    layer: Any
    by_feature: np.ndarray  # (n_features, n_units): what a number of X meets lies together


class SparsePlace:
    """The part of `Engine` that sparse rows need, in the words of the engine.

    X is a ``scipy.sparse.csr_array`` in the dtype of the layer. SciPy multiplies, whose products
    let other threads go on. The layer finishes with these elementwise `functions`.
    """

    def __init__(self, functions):
        self._functions = functions

    def prepare(self, layer):
        return _PreparedSparse(layer, np.ascontiguousarray(layer.units.T))

    def prepared_bytes(self, layer):
        product = max(_outputs(), layer.n_units) * layer.units.itemsize
        return 2 * layer.units.nbytes + n_threads() * product

    def row_bytes(self, layer):
        return 0

    def hidden(self, prepared, X, out, units=None):
        """H of the rows X in `out`; always in all columns."""
        step = max(1, _outputs() // out.shape[1])

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                few = slice(start, min(start + step, rows.stop))
                self._evaluate(prepared, X[few], out[few])

        map_rows(evaluate, len(out), n_threads() if out.size > _MOST else 1)
        return out

    def _evaluate(self, prepared, X, out):
        layer = prepared.layer
        with far_away():
            out[...] = X @ prepared.by_feature
            layer.on_sums.apply(out, np)
            mend(layer, X, out)
            layer.finish(out, self._functions)
