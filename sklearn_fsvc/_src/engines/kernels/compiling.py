"""Compilation of the CPU loops by numba, and their cache on disk."""

import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from threading import current_thread, main_thread
from types import FunctionType
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from ...utils.callbacks import notify_compile
from ..threads import DaemonThreadPool

# Names of the dtypes for which a copy of each loop is compiled.
FLOATS = "float32", "float64"


def named(function: Callable, name: str, **globals: Any) -> Any:
    """Return a copy of a function with a name and additional globals of its own.

    numba compiles and caches it separately. Compiling a copy for each dtype is faster than
    compiling one function that calls another one of each dtype.
    """
    copy = FunctionType(
        function.__code__,  # type: ignore[attr-defined]
        function.__globals__ | globals,  # type: ignore[attr-defined]
        name,
    )
    copy.__qualname__ = name
    return copy


def jit(function: Callable, **options: Any) -> Any:
    """Return a function that numba compiles at the first call, and that releases the GIL.

    It is cached on disk if a folder can be written; else, for example in a container without a
    home, in a read-only installation or in a zipped package, it is compiled in each process.
    numba's ``cache=True`` would raise an error there.
    """
    dispatcher = njit(nogil=True, **options)(function)
    dispatcher.compile = partial(_compile_uninterrupted, dispatcher.compile)
    try:
        dispatcher._cache = _Cache(function)
    except Exception as error:  # of any kind: users may register locators of the cache
        _warn_uncached(error)
    return dispatcher


def _compile_uninterrupted(compile_, signature):
    """Compile in another thread, which Ctrl-C does not interrupt.

    An interrupt of LLVM would leave its lock held, and all later compilations would wait forever.
    KeyboardInterrupt is raised in the main thread as soon as the kernel is compiled.
    """
    if current_thread() is not main_thread():
        return compile_(signature)
    with DaemonThreadPool(1) as thread:
        return thread.submit(compile_, signature).result()


class _CacheFiles(CompileResultCacheImpl):
    def get_filename_base(self, fullname, abiflags):
        """Return a name with the digest of all sources.

        numba itself recompiles a function only if the file of that function has changed.
        """
        return f"{super().get_filename_base(fullname, abiflags)}-{_source_digest()}"


class _Cache(FunctionCache):
    """A cache on disk whose failures are not errors: a disk may be full, a folder deleted."""

    _impl_class = _CacheFiles

    def load_overload(self, sig, target_context):
        found = None
        with suppress(OSError):
            found = super().load_overload(sig, target_context)
        if found is None:
            notify_compile()  # notifies verbose fits
        return found

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_uncached(error)


@cache
def _source_digest():
    """Return a digest of the sources of the kernels: the files of this folder."""
    sources = (f for f in files(__package__).iterdir() if f.name.endswith(".py"))
    texts = [f.read_bytes() for f in sorted(sources, key=lambda f: f.name)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:8]


_has_warned = False


def _warn_uncached(error):
    """Warn once in a process."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"The kernels of the jit engine cannot be kept on disk ({error}), so every process "
            f"compiles them anew, which takes seconds. Set NUMBA_CACHE_DIR to a folder that can "
            f"be written; a package in a zip must be unpacked for that.",
            RuntimeWarning,
            stacklevel=2,
        )
