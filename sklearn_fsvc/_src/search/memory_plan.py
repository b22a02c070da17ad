"""What there is room for: decision values of candidates at one time, and work side by side.

Decision values wait until GridSearchCV looks them up. There is one for each test row, output
and candidate: so candidates are looked up in parts, whose decision values are made when it is
their turn.
"""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_regressor

from ..engines.host import host_memory
from ..layers import hidden_dtype
from ..rows.tiling import parse_memory
from .wrappers import last_step

# The part of the memory that decision values may take which wait.
_WAITING = 1 / 4


def in_parts(findings, y, with_train):
    """Return ranges of the candidates, and the bytes that decision values of a range take.

    `findings` know the splits; `with_train` says whether training rows are scored, too.
    """
    estimator, total = findings.estimator, len(findings.candidates)
    n_rows = sum(len(test) + with_train * len(train) for train, test in findings.splits)
    of_one = max(1, n_rows * _row_bytes(estimator, findings.streamed, y))
    limit = parse_memory(last_step(estimator).max_memory, host_memory()[0])
    n = max(1, min(total, int(_WAITING * limit) // of_one))
    parts = [range(i, min(i + n, total)) for i in range(0, total, n)]
    return parts or [range(0)], n * of_one


def _row_bytes(estimator, X, y):
    """Return the bytes of the decision values of a row, at most."""
    y = y if issparse(y) else np.asarray(y)
    n_columns = 1 if y.ndim < 2 else y.shape[1]
    if is_regressor(estimator) or issparse(y):
        return 8 * n_columns
    columns = y.reshape(len(y), n_columns).T
    n_scores = sum(len(set(column.tolist())) for column in columns)
    return n_scores * (hidden_dtype(X.dtype).itemsize if hasattr(X, "dtype") else 8)


def share_memory(network, n):
    """Let `n` networks that work at the same time have the `max_memory` of one."""
    if n > 1 and network.max_memory is not None:
        network.max_memory = max(1, parse_memory(network.max_memory, 0) // n)
