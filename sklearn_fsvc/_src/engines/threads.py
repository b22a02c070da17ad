"""Threads on the host: how many a loop may use, the pool that runs it, and the limit for BLAS.

1. The number of threads: `n_threads`, within the limits of OpenMP, numba, joblib and Dask.
2. The pool: `parallel_for` runs a function on parts of the work, on threads of `DaemonThreadPool`.
3. `limit_blas_threads` limits the threads of the BLAS libraries during a call.
"""

import math
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

import joblib
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads,
    _openmp_parallelism_enabled,
)
from threadpoolctl import ThreadpoolController

# ------------------------------------------------------------------ workers of joblib and Dask

_thread_state = threading.local()
_worker_numbers = count()


def current_dask_worker() -> Any:
    """Return the Dask worker whose task is running in this thread, None outside of any task."""
    if "distributed.worker" not in sys.modules:  # importing it here would take a second
        return None
    from distributed.worker import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def worker_index() -> int | None:
    """Return an index that distinguishes workers on this machine, None outside of a worker.

    joblib numbers its worker processes; worker threads are numbered in the order of their first
    call. Dask workers have no index: dask-cuda makes a different GPU the first one of each.
    """
    if current_dask_worker() is not None:
        return None
    identity = multiprocessing.current_process()._identity  # type: ignore[attr-defined]
    if identity:
        return identity[-1] - 1
    if threading.current_thread() is threading.main_thread():
        return None
    if not hasattr(_thread_state, "worker_index"):
        _thread_state.worker_index = next(_worker_numbers)
    return _thread_state.worker_index


def n_workers() -> int:
    """Return the number of worker processes here, estimated from the share of cores of this one.

    joblib divides the cores among its workers and sets OMP_NUM_THREADS to the share of each.
    """
    share = os.environ.get("OMP_NUM_THREADS", "")
    is_process = bool(multiprocessing.current_process()._identity)  # type: ignore[attr-defined]
    if not is_process or current_dask_worker() is not None or not share.isdigit() or int(share) < 1:
        return 1
    return max(1, joblib.cpu_count() // int(share))


# -------------------------------------------------------------------------- number of threads


def n_cores() -> int:
    """Return the number of physical cores that this process may use, within CPU quotas."""
    return _count_cores(True, *_core_count_key())


def n_threads() -> int:
    """Return the default number of threads: the physical cores, within `allowed_threads`."""
    return allowed_threads(n_cores())


def thread_choices() -> tuple[int, ...]:
    """Return the numbers of threads that are worth measuring, the physical cores first."""
    key = _core_count_key()
    cores, logical = (_count_cores(only_physical, *key) for only_physical in (True, False))
    powers = (2**i for i in range(logical.bit_length()))
    return tuple(dict.fromkeys((cores, *powers, logical)))


def allowed_threads(n: int) -> int:
    """Return `n`, or the smallest limit of OpenMP, numba, the Dask worker and `limit_threads`.

    joblib limits its worker processes by the same environment variables.
    """
    return int(min(n, _numba_limit(), _worker_limit(), _thread_limit()))


@contextmanager
def limit_threads(n: int) -> Iterator[None]:
    """Context in which loops that the calling thread starts use no more than `n` threads."""
    before = _thread_limit()
    _thread_state.limit = min(n, before)
    try:
        yield
    finally:
        _thread_state.limit = before


def _thread_limit():
    return getattr(_thread_state, "limit", math.inf)


def _core_count_key():
    """Return what the number of cores depends on and may change while the process runs."""
    mask = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return os.getpid(), mask, os.environ.get("LOKY_MAX_CPU_COUNT")


@cache
def _count_cores(only_physical, *key):
    # Cached, because joblib reads files: a quarter of the latency of predicting one sample. A
    # change of the CPU quota of the control group is therefore not noticed.
    return joblib.cpu_count(only_physical_cores=only_physical)


def _worker_limit():
    worker = current_dask_worker()
    if worker is None:
        return _openmp_limit()
    # A Dask nanny sets OMP_NUM_THREADS=1 whatever the number of threads of its worker, so a 1
    # is not a choice of the user.
    is_set_by_nanny = os.environ.get("OMP_NUM_THREADS") == "1"
    return min(worker.state.nthreads, math.inf if is_set_by_nanny else _openmp_limit())


def _openmp_limit():
    """Return the limit that scikit-learn obeys: OMP_NUM_THREADS, or that of threadpoolctl."""
    limit = _limit_from_environment("OMP_NUM_THREADS")
    if _openmp_parallelism_enabled():
        limit = min(limit, _openmp_effective_n_threads(only_physical_cores=False))
    return limit


def _numba_limit():
    """Return numba's number of threads without starting its threading layer."""
    if "numba" not in sys.modules:
        return _limit_from_environment("NUMBA_NUM_THREADS")
    import numba

    try:
        numba.threading_layer()
    except ValueError:  # not started, so `numba.set_num_threads` was not called either
        return numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return numba.get_num_threads()


def _limit_from_environment(name):
    """Return the number in a variable, the first one of a list; infinity if it is not set."""
    text = os.environ.get(name, "").split(",")[0]
    return int(text) if text.isdigit() and int(text) > 0 else math.inf


# ------------------------------------------------------------------------------------ the pool


class DaemonThreadPool:
    """A thread pool whose threads the interpreter does not join when it exits.

    `concurrent.futures.ThreadPoolExecutor` cannot replace it. Its threads are not daemons, and
    end only if they are registered with their executor, after they were started. A Ctrl-C between
    the start and the registration leaves a thread that never ends, and the interpreter waits for it
    at exit, forever. Besides, an executor refuses work once the interpreter has
    begun to exit, so that no estimator could be used in a function of `atexit`.

    Parameters
    ----------
    n : int
        Number of threads.
    name : str
        Prefix of the names of the threads, as debuggers show them.
    """

    def __init__(self, n: int, name: str = "sklearn_fsvc") -> None:
        self._tasks: SimpleQueue = SimpleQueue()
        self._name, self._threads, self._lock = name, list[Thread](), threading.Lock()
        self.extend(n)

    def extend(self, n: int) -> None:
        """Start threads until there are `n` of them."""
        with self._lock:
            for i in range(len(self._threads), n):
                name = f"{self._name}_{i}"
                thread = Thread(target=_run_tasks, args=(self._tasks,), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def submit(self, function: Callable, *args: Any) -> Future:
        """Schedule a call and return the `Future` of its result; calls start in their order."""
        future: Future = Future()
        self._tasks.put((future, function, args))
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """Block until all submitted calls are done and the threads have ended."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


def _run_tasks(tasks):
    while (task := tasks.get()) is not None:
        _run_task(*task)
        del task  # else its arrays would stay in memory until the next task


def _run_task(future, function, args):
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _pool(n):
    """Return the pool of this process, with at least `n` threads.

    The threads stay, because starting them may take longer than their work.
    """
    pool = _pool_of_process(os.getpid())
    pool.extend(n)
    return pool


@cache
def _pool_of_process(process_id):  # a parameter, because threads do not survive a fork
    return DaemonThreadPool(0)


def parallel_for(function: Callable[[Any], object], parts: Iterable, n: int) -> None:
    """Call ``function(part)`` for each part, in any order, on `n` threads.

    The calling thread is one of them. A thread takes the next part when it is free, so parts of
    unequal cost are balanced. In a nested call all parts run in the calling thread, as the other
    threads are busy.
    """
    work = _Work(function, deque(parts))
    n_helpers = 0 if in_parallel_call() else min(n, len(work.parts)) - 1
    if n_helpers < 1:
        return work.run()
    pool, helpers = _pool(n_helpers), []
    try:
        for _ in range(n_helpers):
            helpers.append(pool.submit(work.run_in_parallel))
        work.run_in_parallel()
    finally:
        # All parts have been taken. A helper that has not started, because another call keeps
        # the pool busy, has nothing left to do, and waiting for it could take long.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
        work.function = None  # the pool may keep a cancelled task: release its arrays now
    for helper in started:
        helper.result()  # raises the error of the thread, if there was one
    return None


def submit_all(functions: Iterable[Callable[[], Any]]) -> list[Future]:
    """Schedule all functions on the threads of this process; return their futures."""
    pool = _pool(n_threads())
    return [pool.submit(function) for function in functions]


def in_parallel_call() -> bool:
    """Return whether the calling thread is running a part of `parallel_for`."""
    return getattr(_thread_state, "is_parallel", False)


@dataclass
class _Work:
    """The parts of a `parallel_for` that no thread has taken yet."""

    function: Any  # None after all parts are done
    parts: deque

    def run(self):
        while self.parts:
            try:
                part = self.parts.popleft()
            except IndexError:  # another thread has taken the last one since the check
                return
            self.function(part)

    def run_in_parallel(self):
        _thread_state.is_parallel = True
        try:
            self.run()
        finally:
            _thread_state.is_parallel = False


# ------------------------------------------------------------------------- the threads of BLAS
#
# A BLAS cuts a product into equal parts, one for each core of the host, whatever the CPU quota of
# the process, and its threads spin until the last part is done. If another process occupies one
# of the cores, all others wait: a Cholesky factor of order 600 then takes 0.3 s instead of 2 ms.
# Therefore each BLAS call of this package has one thread. `algebra` cuts large operations into
# more parts than threads, and `parallel_for` balances them.

_blas_lock = threading.Lock()
_requested_limits: list[int] = []  # one for each `limit_blas_threads` that is active in any thread


class limit_blas_threads(ContextDecorator):
    """Context manager or decorator: each BLAS uses no more than `n` threads.

    It may be active in several threads at a time. The numbers belong to the process, so the
    smallest active limit holds; when the last one is left, the initial numbers are restored.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    @property
    def allowed(self) -> int:
        """Threads that the user allows: those of the libraries before any limit of this package."""
        return min((library.initial for library in _libraries()), default=self._n)

    def __enter__(self) -> Self:
        with _blas_lock:
            before = min(_requested_limits, default=None)
            if before is None:
                for library in _libraries():
                    library.initial = library.get()
            _requested_limits.append(self._n)
            _apply_limit(before)
        return self

    def __exit__(self, *exception: object) -> None:
        with _blas_lock:
            before = min(_requested_limits)
            _requested_limits.remove(self._n)
            _apply_limit(before)


@dataclass
class _Library:
    """A BLAS that is loaded.

    Attributes
    ----------
    get, set : callable
        Its number of threads: of the process or, `by_thread`, of each thread (as with OpenMP).
    by_thread : bool
    initial : int
        The number before the first limit was entered.
    """

    get: Callable[[], int]
    set: Callable[[int], object]
    by_thread: bool
    initial: int = 1


def _apply_limit(before):
    """Apply the smallest limit, where `before` was applied last: to the process, or by a thread."""
    limit = min(_requested_limits, default=None)
    if limit == before and not _any_by_thread():
        return
    for library in _libraries():
        n = library.initial if limit is None else min(library.initial, limit)
        if n != library.get():
            library.set(n)


@cache
def _libraries():
    controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_library(controller) for controller in controllers]


@cache
def _any_by_thread():
    return any(library.by_thread for library in _libraries())


def _library(controller):
    """Return a library with the functions for its number of threads.

    OpenBLAS with its own threads is called directly. That is ten times as fast as threadpoolctl,
    which in addition lets only one thread of the process set the number.
    """
    is_openblas = controller.internal_api == "openblas" and controller.threading_layer == "pthreads"
    for name in controller.check_symbols if is_openblas else ():
        getter = getattr(controller.dynlib, name, None)
        setter = getattr(controller.dynlib, name.replace("_get_", "_set_"), None)
        if getter is not None and setter is not None:
            return _Library(getter, setter, by_thread=False)
    return _Library(controller.get_num_threads, controller.set_num_threads, by_thread=True)


def _reset_after_fork():
    """Drop the limits of the parent's threads, none of which exists in the child process."""
    global _blas_lock
    _blas_lock = threading.Lock()  # that of the parent may have been held
    if _requested_limits:
        before = min(_requested_limits)
        _requested_limits.clear()
        _apply_limit(before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
