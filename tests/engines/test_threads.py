"""How many threads the loops on the host take, by every limit that somebody may set."""

import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.engines import threads
from sklearn_fsvc._src.engines.threads import allowed_threads, n_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no masks of processors here")
def test_cores_are_counted_again_where_the_mask_changes(monkeypatch):
    mask, before = os.sched_getaffinity(0), n_cores()
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert n_cores() == 1
    finally:
        os.sched_setaffinity(0, mask)
    assert n_cores() == before
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert n_cores() == 1


SHARES = [
    (None, 16, 16), ("1", 16, 1), ("3", 16, 3), ("3", 2, 2), ("16", 16, 16), ("4,2", 16, 4),
    ("", 16, 16), ("0", 16, 16),
]  # fmt: skip


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
@pytest.mark.parametrize(("share", "measured", "used"), SHARES)
def test_a_worker_takes_no_more_threads_than_its_share(
    sixteen_threads, monkeypatch, name, share, measured, used
):
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    if share is not None:
        monkeypatch.setenv(name, share)
    assert allowed_threads(measured) == used


LIMITS = """
import sys, threading
import numpy as np
from threadpoolctl import threadpool_limits
from sklearn_fsvc import TanhProjector
from sklearn_fsvc._src.engines import threads
from sklearn_fsvc._src.engines.threads import allowed_threads

assert allowed_threads(8) == 4
with threadpool_limits(3):
    assert allowed_threads(8) == 3
with threadpool_limits(3, user_api="blas"):
    assert allowed_threads(8) == 4
assert "numba" not in sys.modules

threads.n_cores = lambda: 4
X = np.zeros((20_000, 64))
projector = TanhProjector(256, device="jit").fit(X[:100])
with threadpool_limits(1, user_api="openmp"):
    projector.transform(X)
assert threading.active_count() == 1
projector.transform(X)
assert threading.active_count() > 1

import numba
threads.n_threads()
try:
    raise SystemExit(f"{numba.threading_layer()} was started")
except ValueError:
    pass  # none, and to ask for the number starts none
numba.set_num_threads(2)
assert allowed_threads(8) == 2
numba.set_num_threads(8)
assert allowed_threads(8) == 4
"""


def test_limits_of_the_libraries():
    """Set before Python starts, the numbers do not depend on the machine."""
    numbers = {"OMP_NUM_THREADS": "4", "NUMBA_NUM_THREADS": "8"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITS], env=os.environ | numbers, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("share", "used"), [("1", 2), ("3", 2), (None, 2), ("4", 2)])
def test_a_dask_worker(sixteen_threads, monkeypatch, share, used):
    """Two threads and a GPU of its own, though its nanny says 1 and has a number for it."""
    worker = SimpleNamespace(state=SimpleNamespace(nthreads=used))
    fake = SimpleNamespace(get_worker=lambda: worker)
    monkeypatch.setitem(sys.modules, "distributed.worker", fake)
    monkeypatch.setattr(multiprocessing.current_process(), "_identity", (3,))
    if share is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", share)
    assert allowed_threads(8) == used
    assert threads.worker_number() is None
    assert threads.n_workers() == 1
    worker.state.nthreads = 8
    assert allowed_threads(8) == {"3": 3, "4": 4}.get(share, 8)


def test_a_program_beside_dask(sixteen_threads, monkeypatch):
    """A client, or a worker's own thread: it runs no task."""

    def get_worker():
        raise ValueError("No worker found")

    monkeypatch.setitem(sys.modules, "distributed.worker", SimpleNamespace(get_worker=get_worker))
    monkeypatch.setattr(multiprocessing.current_process(), "_identity", (3,))
    assert allowed_threads(8) == 8
    assert threads.worker_number() == 2


def test_a_worker_of_a_cluster(rng):
    """It has two threads, though its nanny says 1, and is alone with its GPU."""
    distributed = pytest.importorskip("distributed")
    X = rng.random((60, 3))
    y = X[:, 0] > 0.5
    clf = RBFClassifier(9, alpha=1, random_state=0, device="jit")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.submit(allowed_threads, 8).result() == 2
        assert client.submit(threads.worker_number).result() is None
        assert client.submit(threads.n_workers).result() == 1
        fitted = client.submit(clf.fit, X, y).result()
    np.testing.assert_array_equal(fitted.predict(X), clf.fit(X, y).predict(X))
