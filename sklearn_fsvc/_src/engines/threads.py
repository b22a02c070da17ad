"""Threads: workers, pools, and the threads of BLAS libraries."""

import math
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ContextDecorator
from dataclasses import dataclass
from functools import cache
from itertools import count
from queue import SimpleQueue
from threading import Thread

import joblib
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads,
    _openmp_parallelism_enabled,
)
from threadpoolctl import ThreadpoolController

# Workers of joblib or Dask that share a machine: which one this is, and how many there are.

_thread = threading.local()
_numbers = count()


def dask_worker():
    """The Dask worker whose task calls, None outside of any."""
    if "distributed.worker" not in sys.modules:
        return None
    from distributed.worker import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def worker_number():
    """A number that tells workers apart, None in a program that is none.

    Worker processes are numbered by joblib; threads in the order in which they ask. Workers of
    Dask have no number: dask-cuda gives each a GPU of its own, the first that it sees.
    """
    if dask_worker() is not None:
        return None
    identity = multiprocessing.current_process()._identity
    if identity:
        return identity[-1] - 1
    if threading.current_thread() is threading.main_thread():
        return None
    if not hasattr(_thread, "number"):
        _thread.number = next(_numbers)
    return _thread.number


def n_workers():
    """Worker processes like this one. joblib tells each its share of the cores."""
    share = os.environ.get("OMP_NUM_THREADS", "")
    is_worker = bool(multiprocessing.current_process()._identity) and dask_worker() is None
    if not is_worker or not share.isdigit() or int(share) < 1:
        return 1
    return max(1, joblib.cpu_count() // int(share))


# How many threads the loops on the host take: the cores, and the limits that are set.


def n_cores():
    """Physical cores of this process, in a worker too."""
    return _count_cores(True, *_what_cores_depend_on())


def _what_cores_depend_on():
    """What may change while a process runs; a quota of its control group is read once."""
    mask = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return os.getpid(), mask, os.environ.get("LOKY_MAX_CPU_COUNT")


@cache
def _count_cores(only_physical, *depends_on):
    """joblib reads files to count: a quarter of the time in which one row is answered."""
    return joblib.cpu_count(only_physical_cores=only_physical)


def n_threads():
    """Threads worth starting: the physical cores of this process, within `allowed_threads`."""
    return allowed_threads(n_cores())


def thread_choices():
    """Numbers of threads worth measuring, the physical cores first."""
    depends_on = _what_cores_depend_on()
    cores, logical = (_count_cores(only, *depends_on) for only in (True, False))
    powers = (2**i for i in range(logical.bit_length()))
    return tuple(dict.fromkeys((cores, *powers, logical)))


def allowed_threads(n):
    """`n` threads, or the least limit that is set for OpenMP, numba or a Dask worker.

    joblib tells its worker processes their share of the cores by the same variables.
    """
    return min(n, _numba_limit(), _worker_limit())


def _worker_limit():
    worker = dask_worker()
    if worker is None:
        return _openmp_limit()
    # Every nanny sets 1, whatever number of threads its worker has.
    is_by_nanny = os.environ.get("OMP_NUM_THREADS") == "1"
    return min(worker.state.nthreads, math.inf if is_by_nanny else _openmp_limit())


def _openmp_limit():
    """What bounds the loops of scikit-learn: OMP_NUM_THREADS, or threadpoolctl."""
    limit = _of_environment("OMP_NUM_THREADS")
    if _openmp_parallelism_enabled():
        limit = min(limit, _openmp_effective_n_threads(only_physical_cores=False))
    return limit


def _numba_limit():
    """numba's own number of threads. To ask for it starts none."""
    if "numba" not in sys.modules:
        return _of_environment("NUMBA_NUM_THREADS")
    import numba

    try:
        numba.threading_layer()
    except ValueError:  # none was started, so nobody has called `numba.set_num_threads`
        return numba.config.NUMBA_NUM_THREADS
    return numba.get_num_threads()


def _of_environment(name):
    """The number in a variable, of a list the first one; infinity where there is none."""
    text = os.environ.get(name, "").split(",")[0]
    return int(text) if text.isdigit() and int(text) > 0 else math.inf


# Threads that wait for work, and that nobody waits for when a program ends.
#
# Those of `concurrent.futures` are joined at the end of a program. One whose start was interrupted,
# by Ctrl-C, is known to nobody who would tell it to end, and such a program hung.


class Daemons:
    """A few threads, and what they are given to call, in its order.

    Their name is for who looks at the threads of a process.
    """

    def __init__(self, n, name="sklearn_fsvc"):
        self._tasks = SimpleQueue()
        self._threads = [
            Thread(target=_work, args=(self._tasks,), name=f"{name}_{i}", daemon=True)
            for i in range(n)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function, *args):
        """Have a thread call the function; the `Future` of its result."""
        future = Future()
        self._tasks.put((future, function, args))
        return future

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()

    def end(self):
        """Wait until all that was given is done, and the threads have ended."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


def _work(tasks):
    while (task := tasks.get()) is not None:
        _call(*task)
        del task  # what it holds is not kept until there is another one


def _call(future, function, args):
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


# Threads of this process that share work on the host: each takes the next part when it is free.

# Whether this thread works on one part of several.
_here = threading.local()


def is_part():
    """Whether the calling thread works on a part, and all threads are at work already."""
    return getattr(_here, "is_part", False)


def share(function, parts, n):
    """Call ``function(part)`` for each part on `n` threads; the calling thread works too."""
    work = _Work(function, deque(parts))
    n_helpers = 0 if is_part() else min(n, len(work.parts)) - 1
    if n_helpers < 1:
        return work.run()
    pool, helpers = _pool(os.getpid(), n_helpers), []
    try:
        for _ in range(n_helpers):
            helpers.append(pool.submit(work.run_as_part))
        work.run_as_part()
    finally:
        # A helper that has not begun, because another call keeps the pool busy, has
        # nothing left to do.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
        work.function = None  # and the pool, which may keep its task for a while, no memory
    for helper in started:
        helper.result()


@dataclass
class _Work:
    """Parts that threads take."""

    function: Callable | None
    parts: deque

    def run(self):
        while self.parts:
            try:
                part = self.parts.popleft()
            except IndexError:  # another thread took the last one
                return
            self.function(part)

    def run_as_part(self):
        _here.is_part = True
        try:
            self.run()
        finally:
            _here.is_part = False


def submit(functions):
    """Begin to call all functions on this process's threads; their futures."""
    pool = _pool(os.getpid(), n_threads())
    return [pool.submit(function) for function in functions]


@cache
def _pool(process, n):
    """Threads that wait for work: a layer may take less time than it takes to start them.

    One pool a process, for threads do not survive a fork.
    """
    return Daemons(n)


# The threads of the BLAS libraries of the process, kept to a number while this package calls.
#
# A library cuts a product into equal parts, one for each core of the host, whatever the quota of
# the process, and its threads wait busily for the last one. A thread that has no core of its own,
# because other work has it, is waited for: a factor of order 600 then takes 0.3 s instead of 2 ms.
# So each call here has one thread, and what gains by more is cut by `algebra` into parts, which
# threads take as they are free.

_lock = threading.Lock()
_wanted = []  # the most threads that each caller of this moment wants
_before = []  # threads of each library when the first of them came


@cache
def _libraries():
    """(get, set) the threads of each BLAS: of NumPy and SciPy, and of whoever was imported."""
    return [
        _functions(each) for each in ThreadpoolController().select(user_api="blas").lib_controllers
    ]


def _functions(library):
    """What gets and sets the threads of a library.

    Of OpenBLAS with threads of its own, its functions themselves: a call takes a tenth of the time
    that it takes by way of threadpoolctl, which lets but one thread of the process set the number.
    """
    is_openblas = library.internal_api == "openblas" and library.threading_layer == "pthreads"
    for name in library.check_symbols if is_openblas else ():
        getter = getattr(library.dynlib, name, None)
        setter = getattr(library.dynlib, name.replace("_get_", "_set_"), None)
        if getter is not None and setter is not None:
            return getter, setter
    return library.get_num_threads, library.set_num_threads


class at_most(ContextDecorator):
    """Context in which each BLAS takes no more than `n` threads; may be entered by many threads.

    Also a decorator, for functions whose products NumPy or SciPy make.

    The numbers are those of the process: they are the least that anybody inside wants, and what
    they were as soon as the last one leaves.

    Attributes
    ----------
    allowed : int
        Threads that the libraries were allowed before, by who uses this package.
    """

    def __init__(self, n):
        self._n = n

    def __enter__(self):
        with _lock:
            if not _wanted:
                _before[:] = [get() for get, _ in _libraries()]
            _wanted.append(self._n)
            self.allowed = min(_before, default=self._n)
            _apply()
        return self

    def __exit__(self, *exception):
        with _lock:
            _wanted.remove(self._n)
            _apply()


def _apply():
    least = min(_wanted, default=None)
    for (get, set_to), before in zip(_libraries(), _before, strict=True):
        n = before if least is None else min(before, least)
        # Asked for, because with OpenMP each thread has a number of its own.
        if n != get():
            set_to(n)


def _forget():
    """Forget who is inside: in a child process nobody is, whatever threads its parent had."""
    global _lock
    _lock = threading.Lock()
    if _wanted:
        _wanted.clear()
        _apply()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
