"""The threads of the BLAS libraries of the process, kept to a number while this package calls.

A library cuts a product into equal parts, one for each core of the host, whatever the quota of
the process, and its threads wait busily for the last one. A thread that has no core of its own,
because other work has it, is waited for: a factor of order 600 then takes 0.3 s instead of 2 ms.
So each call here has one thread, and what gains by more is cut by `algebra` into parts, which
threads take as they are free.
"""

import os
import threading
from contextlib import ContextDecorator
from functools import cache

from threadpoolctl import ThreadpoolController

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
