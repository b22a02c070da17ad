"""How the loops of the CPU are compiled, and kept for the next process where there is a place."""

import hashlib
import warnings
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from threading import current_thread, main_thread
from types import FunctionType

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from ...utils.callbacks import compiling
from ..threads import Daemons

_warned = False


FLOATS = "float32", "float64"


def named(function, name, **globals):
    """A copy with a name, and more globals, of its own: compiled and kept apart from others.

    A compiled function that only called another one of each dtype would take as long again to
    compile as a short loop does.
    """
    copy = FunctionType(function.__code__, function.__globals__ | globals, name)
    copy.__qualname__ = name
    return copy


def jit(function, **options):
    """Compile a function when it is first called; it will release the GIL.

    numba's ``cache=True`` would raise where no folder can be written: a container without a home,
    a read-only installation, a package in a zip. Compiled anew, the kernel is the same.
    """
    dispatcher = njit(nogil=True, **options)(function)
    dispatcher.compile = partial(_without_interrupts, dispatcher.compile)
    try:
        dispatcher._cache = _Cache(function)
    except Exception as error:  # of the locators of folders, which a user may extend
        _warn_once(error)
    return dispatcher


def _without_interrupts(compile_, signature):
    """Compile where Ctrl-C is not heard: it would leave a lock of LLVM held, and whoever comes next
    would wait for ever. It is raised as soon as this kernel is there.
    """
    if current_thread() is not main_thread():
        return compile_(signature)
    with Daemons(1) as thread:
        return thread.submit(compile_, signature).result()


class _Files(CompileResultCacheImpl):
    def get_filename_base(self, fullname, abiflags):
        """Other sources have other files: numba looks at that of the function alone."""
        return f"{super().get_filename_base(fullname, abiflags)}-{_sources()}"


class _Cache(FunctionCache):
    """Kernels on disk, without which all goes on: a disk may fill up, a folder be taken away."""

    _impl_class = _Files

    def load_overload(self, sig, target_context):
        found = None
        with suppress(OSError):
            found = super().load_overload(sig, target_context)
        if found is None:
            compiling()
        return found

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(error)


@cache
def _sources():
    """A digest of what kernels are made from: the files of this folder."""
    sources = (f for f in files(__package__).iterdir() if f.name.endswith(".py"))
    texts = [f.read_bytes() for f in sorted(sources, key=lambda f: f.name)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:8]


def _warn_once(error):
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"The kernels of the jit engine cannot be kept on disk ({error}), so every process "
            f"compiles them anew, which takes seconds. Set NUMBA_CACHE_DIR to a folder that can "
            f"be written; a package in a zip must be unpacked for that.",
            RuntimeWarning,
            stacklevel=2,
        )
