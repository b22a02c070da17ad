"""Threads of this process that share work on the host: each takes the next part when it is free."""

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cache

from .daemons import Daemons
from .threads import n_threads

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
