from contextlib import nullcontext

import numpy as np

from sklearn_fsvc.engines import algebra
from sklearn_fsvc.engines.algebra import HOST


def test_large_matrices_are_factorised_by_one_thread(monkeypatch):
    """With two, OpenBLAS crashes from some order on."""
    limits = []

    def spy(limit, user_api):
        limits.append((limit, user_api))
        return nullcontext()

    monkeypatch.setattr(algebra, "threadpool_limits", spy)
    monkeypatch.setattr(algebra, "_LARGEST_SHARED", 20)
    HOST.cholesky(np.eye(20, order="F"))
    assert limits == []
    HOST.cholesky(np.eye(21, order="F"))
    assert limits == [(1, "blas")]
