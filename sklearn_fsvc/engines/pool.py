"""Threads of this process that share work on the host: each takes the next part when it is free."""

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache

from .threads import n_threads

# Whether this thread works on one part of several.
_here = threading.local()


def is_part():
    """Whether the calling thread works on a part, and all threads are at work already."""
    return getattr(_here, "is_part", False)


def share(function, parts, n):
    """Call ``function(part)`` for each part on `n` threads; the calling thread works too."""
    parts = deque(parts)
    n_helpers = 0 if is_part() else min(n, len(parts)) - 1

    def work():
        while parts:
            try:
                part = parts.popleft()
            except IndexError:  # another thread took the last one
                return
            function(part)

    if n_helpers < 1:
        work()
    else:
        _work_together(work, n_helpers)


def _work_together(work, n_helpers):
    def work_on_part():
        _here.is_part = True
        try:
            work()
        finally:
            _here.is_part = False

    pool = _pool(os.getpid(), n_helpers)
    helpers = [pool.submit(work_on_part) for _ in range(n_helpers)]
    try:
        work_on_part()
    finally:
        # A helper that has not begun, because another call keeps the pool busy, has
        # nothing left to do.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
    for helper in started:
        helper.result()


def submit(functions):
    """Begin to call all functions on this process's threads; their futures."""
    pool = _pool(os.getpid(), n_threads())
    return [pool.submit(function) for function in functions]


@cache
def _pool(process, n):
    """Threads that wait for work: a layer may take less time than it takes to start them.

    One pool a process, for threads do not survive a fork.
    """
    return ThreadPoolExecutor(n, thread_name_prefix="sklearn_fsvc")
