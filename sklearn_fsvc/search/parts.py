"""What there is room for: decision values of candidates at one time, and work side by side.

Decision values wait until GridSearchCV looks them up. There is one for each test row, output
and candidate: so candidates are looked up in parts, whose decision values are made when it is
their turn.
"""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_regressor

from ..engines.host import host_memory
from ..rows.tiling import parse_memory
from .groups import last_step

# The part of the memory that decision values may take which wait.
_WAITING = 1 / 4


def parts_of(findings, y, with_train):
    """Numbers of candidates, part by part, and the bytes that a part's decision values take.

    Parameters
    ----------
    findings : Findings
        That knows the splits.
    y : array-like
        The targets.
    with_train : bool
        Whether training rows are scored, too.

    Returns
    -------
    parts : list of range
    n_bytes : int
    """
    n_candidates = len(findings.candidates)
    n_rows = sum(len(test) + with_train * len(train) for train, test in findings.splits)
    of_one = max(1, 8 * n_rows * _n_scores(findings.estimator, y))  # at most
    limit = parse_memory(last_step(findings.estimator).max_memory, host_memory()[0])
    n = min(n_candidates, max(1, int(_WAITING * limit) // of_one))
    return [range(i, min(i + n, n_candidates)) for i in range(0, n_candidates, n)], n * of_one


def _n_scores(estimator, y):
    """Decision values of a row."""
    y = y if issparse(y) else np.asarray(y)
    n_columns = 1 if y.ndim < 2 else y.shape[1]
    if is_regressor(estimator) or issparse(y):
        return n_columns
    columns = y.reshape(len(y), n_columns).T
    return sum(len(set(column.tolist())) for column in columns)


def share_memory(network, n):
    """Let `n` networks that work at the same time have the `max_memory` of one."""
    if n > 1 and network.max_memory is not None:
        network.max_memory = max(1, parse_memory(network.max_memory, 0) // n)
