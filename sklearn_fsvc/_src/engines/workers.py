"""Workers of joblib or Dask that share a machine: which one this is, and how many there are."""

import multiprocessing
import os
import sys
import threading
from itertools import count

import joblib

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
