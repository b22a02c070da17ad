"""Threads on the host: their number by every limit, the pool, and the limit of BLAS threads."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.engines import ENGINES, threads
from sklearn_fsvc._src.engines.threads import (
    DaemonThreadPool,
    allowed_threads,
    limit_blas_threads,
    n_cores,
)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no masks of processors here")
def test_cores_are_counted_again_after_the_mask_has_changed(monkeypatch):
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
def test_threads_are_limited_by_the_environment(
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
    pass  # reading the limit has not started one
numba.set_num_threads(2)
assert allowed_threads(8) == 2
numba.set_num_threads(8)
assert allowed_threads(8) == 4
"""


@pytest.mark.exhaustive
def test_threads_are_limited_by_openmp_and_numba():
    """The variables are set before Python starts, so the machine does not matter."""
    numbers = {"OMP_NUM_THREADS": "4", "NUMBA_NUM_THREADS": "8"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITS], env=os.environ | numbers, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def in_a_process_of_joblib(monkeypatch):
    """This process has the number of a worker."""
    monkeypatch.setattr(multiprocessing.current_process(), "_identity", (3,))


@pytest.mark.parametrize(("share", "used"), [("1", 2), ("3", 2), (None, 2), ("4", 2)])
def test_threads_of_a_dask_worker(
    sixteen_threads, in_a_process_of_joblib, monkeypatch, share, used
):
    """Its nanny sets OMP_NUM_THREADS=1, and its process has a number; neither counts."""
    worker = SimpleNamespace(state=SimpleNamespace(nthreads=used))
    fake = SimpleNamespace(get_worker=lambda: worker)
    monkeypatch.setitem(sys.modules, "distributed.worker", fake)
    if share is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", share)
    assert allowed_threads(8) == used
    assert threads.worker_index() is None
    assert threads.n_workers() == 1
    worker.state.nthreads = 8
    assert allowed_threads(8) == {"3": 3, "4": 4}.get(share, 8)


def test_outside_of_dask_tasks_there_is_no_dask_worker(
    sixteen_threads, in_a_process_of_joblib, monkeypatch
):
    """In a client, or in a thread of the worker itself."""

    def get_worker():
        raise ValueError("No worker found")

    monkeypatch.setitem(sys.modules, "distributed.worker", SimpleNamespace(get_worker=get_worker))
    assert allowed_threads(8) == 8
    assert threads.worker_index() == 2


@pytest.mark.exhaustive
def test_a_worker_of_a_dask_cluster(rng, monkeypatch):
    """It uses its two threads, although its nanny sets OMP_NUM_THREADS=1."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
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
        assert client.submit(threads.worker_index).result() is None
        assert client.submit(threads.n_workers).result() == 1
        fitted = client.submit(clf.fit, X, y).result()
    np.testing.assert_array_equal(fitted.predict(X), clf.fit(X, y).predict(X))


# The pool: interrupts, forks, and the end of a process.

# Seconds after which a program counts as hanging, even on a busy machine.
TIMEOUT = 120
INTERRUPTS = 100
PREAMBLE = """
import os, random, signal, sys, threading, time
import numpy as np
from sklearn_fsvc import RBFProjector, TanhProjector, TanhClassifier
from sklearn_fsvc._src.engines import blas, threads

blas.n_threads = lambda: 2
X = np.random.default_rng(0).random((3000, 40), dtype=np.float32)
"""
INTERRUPTED_START = """
start, is_first = threading.Thread.start, [True]

def interrupted(thread):
    start(thread)
    if is_first:
        is_first.clear()
        raise KeyboardInterrupt

projector = TanhProjector(600, random_state=0, device="blas").fit(X)
threads._pool_of_process.cache_clear()  # so that threads are started
threading.Thread.start = interrupted
try:
    projector.transform(X)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
MANY_INTERRUPTS = f"""
def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
draw, n, n_wrong = random.Random(0), 0, 0
models = [
    TanhProjector(100, random_state=0, device="blas").fit(X),
    RBFProjector(100, radius=2.0, selection="random", random_state=0, device="jit").fit(X[:300]),
]
expected = [model.transform(X) for model in models]
began = time.perf_counter()
[model.transform(X) for model in models]
longest = time.perf_counter() - began
while n < {INTERRUPTS}:
    try:
        threads._pool_of_process.cache_clear()
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, longest))
        end = time.perf_counter() + 1
        while time.perf_counter() < end:  # an interrupt in a destructor is ignored
            for model, H in zip(models, expected):
                n_wrong += not np.array_equal(model.transform(X), H)
    except KeyboardInterrupt:
        n += 1
    except RuntimeError as error:  # of Python's own lock, as a thread is started
        if "unlocked lock" not in str(error):
            raise
        n += 1
print("interrupted" if not n_wrong else "wrong", flush=True)
"""


def output_of(code, *args):
    """Run a program until it ends; return what it has printed."""
    command = [sys.executable, "-c", PREAMBLE + code, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.exhaustive
def test_a_program_ends_after_interrupts_of_the_start_of_a_thread_and_of_predictions():
    has_timer = hasattr(signal, "setitimer")
    output = output_of(INTERRUPTED_START + MANY_INTERRUPTS * has_timer)
    assert output.split() == ["interrupted"] * (1 + has_timer)


FORKED = f"""
y = (X[:, 0] > 0.5).astype(int)
for device in sys.argv[1:]:
    model = TanhClassifier(200, alpha=1.0, feature_weights=None, random_state=0, device=device)
    expected = model.fit(X, y).decision_function(X)
    child = os.fork()
    if child == 0:
        scores = model.fit(X, y).decision_function(X)
        os._exit(0 if np.abs(scores - expected).max() < 1e-2 else 1)
    deadline, done = time.monotonic() + {TIMEOUT // 4}, 0
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(child, signal.SIGKILL)
    print(device, status if done else "hung", flush=True)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_fits_as_its_parent_did():
    devices = [n for n in ("jit", "blas", "mkl") if ENGINES[n]().why_unavailable() is None]
    assert output_of(FORKED, *devices).splitlines() == [f"{device} 0" for device in devices]


def test_futures_have_results_and_errors_in_the_order_of_calls():
    with DaemonThreadPool(1) as pool:
        futures = [pool.submit(divmod, 7, k) for k in (2, 0, 3)]
        assert futures[0].result(TIMEOUT) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            futures[1].result(TIMEOUT)
        assert futures[2].result(TIMEOUT) == (2, 1)


def test_a_cancelled_call_does_not_run():
    event, called = threading.Event(), []
    with DaemonThreadPool(1) as pool:
        first = pool.submit(event.wait, TIMEOUT)
        while not first.running():
            time.sleep(0.001)
        second = pool.submit(called.append, 1)
        assert second.cancel()
        event.set()
    assert first.result() is True
    assert not called


def test_the_pool_ends_after_all_calls_are_done():
    done = []
    with DaemonThreadPool(3, "sklearn_fsvc_test") as pool:
        for i in range(30):
            pool.submit(done.append, i)
    assert sorted(done) == list(range(30))
    assert not [t for t in threading.enumerate() if t.name.startswith("sklearn_fsvc_test")]


@pytest.mark.exhaustive  # a process that imports all
def test_calls_with_other_numbers_of_threads_use_the_same_ones():
    # In a process of its own, which has no other threads.
    code = """
for n in (2, 5, 3, 8):
    threads.parallel_for(lambda part: None, range(10), n)
print(threading.active_count())
"""
    assert output_of(code) == "8"


# The limit of BLAS threads.


def test_the_initial_threads_are_restored(three_blas_threads, blas_thread_counts):
    with limit_blas_threads(2) as outer:
        assert (outer.allowed, blas_thread_counts()) == (3, {2})
        with limit_blas_threads(1) as inner:
            assert (inner.allowed, blas_thread_counts()) == (3, {1})
        assert blas_thread_counts() == {2}
    assert blas_thread_counts() == {3}


def test_a_limit_holds_until_the_last_context_exits(three_blas_threads, blas_thread_counts):
    first, second = limit_blas_threads(1), limit_blas_threads(1)
    first.__enter__(), second.__enter__()
    first.__exit__()
    assert blas_thread_counts() == {1}
    second.__exit__()
    assert blas_thread_counts() == {3}


def test_a_limit_does_not_raise_the_number_of_threads(three_blas_threads, blas_thread_counts):
    with limit_blas_threads(8) as limit:
        assert (limit.allowed, blas_thread_counts()) == (3, {3})


def test_a_limit_may_be_set_by_any_thread(three_blas_threads, blas_thread_counts):
    """threadpoolctl lets only the first thread set the number."""
    counts = []

    def enter():
        with limit_blas_threads(1):
            counts.append(blas_thread_counts())

    with limit_blas_threads(2):
        pass
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert counts == [{1}]
    assert blas_thread_counts() == {3}


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_the_initial_threads():
    code = (
        "import os, sys\n"
        "from threadpoolctl import threadpool_limits\n"
        "from sklearn_fsvc._src.engines import threads\n"
        "threadpool_limits(3, 'blas')\n"
        "with threads.limit_blas_threads(1):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        numbers = {library.get() for library in threads._libraries()}\n"
        "        with threads.limit_blas_threads(1):\n"
        "            pass\n"
        "        os._exit(numbers != {3})\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
