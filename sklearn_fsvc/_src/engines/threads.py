"""How many threads the loops on the host take: the cores, and the limits that are set."""

import math
import os
import sys
from functools import cache

import joblib
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads,
    _openmp_parallelism_enabled,
)

from .workers import dask_worker


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
