"""SciPy's BLAS and LAPACK, called so that the other threads of the process go on.

SciPy's own wrappers keep the interpreter for as long as a call takes, which is seconds for a
large matrix. The functions behind them are in the tables that SciPy has for Cython, and a call
by ctypes lets the interpreter go.
"""

import ctypes
from functools import cache, lru_cache

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from .threads import at_most, n_threads

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_address_of = ctypes.pythonapi.PyCapsule_GetPointer
_address_of.restype, _address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

# The letter of a dtype in the names of routines, and its type in C.
REALS = {np.dtype(np.float32): ("s", ctypes.c_float), np.dtype(np.float64): ("d", ctypes.c_double)}


@cache
def _routine(name):
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = module.__pyx_capi__[name]
    return ctypes.CFUNCTYPE(None)(_address_of(capsule, _name_of(capsule)))


# Order from which eigenvectors gain by more threads than one.
_LARGE = 500
# Numbers whose places in memory are kept for the next call.
_KEPT = 2**12


def call(name, dtype, *args, most_threads=1):
    """Call a routine for numbers of a dtype: `name` lacks the letter of the type.

    Arguments are flags, sizes, factors, arrays, and objects of ctypes, which are written back. The
    library may take so many threads: see `blas_threads`.
    """
    letter, real = REALS[dtype]
    pointers = [_pointer(arg, real) for arg in args]
    with at_most(most_threads):
        _routine(letter + name)(*pointers)


def _pointer(arg, real):
    """Fortran takes addresses alone."""
    if isinstance(arg, np.ndarray):
        return ctypes.c_void_p(arg.ctypes.data)
    if isinstance(arg, (str, int, float)):
        return _place(type(arg), arg, real)
    return ctypes.byref(arg)


@lru_cache(_KEPT)
def _place(kind, value, real):
    """Where a flag, a size or a factor lies: most come again, and no routine writes to them.

    Its `kind` tells numbers apart that are equal.
    """
    if kind is str:
        return ctypes.byref(ctypes.c_char(value.encode()))
    return ctypes.byref((real if issubclass(kind, float) else ctypes.c_int)(value))


def layout(A):
    """How BLAS sees a matrix, a view too: whether it is transposed, and its leading dimension.

    BLAS knows columns that are contiguous. Rows that are contiguous are those of the transpose.
    """
    n, m = A.shape
    is_transposed = A.strides[0] != A.itemsize and n > 1
    if is_transposed and A.strides[1] != A.itemsize and m > 1:
        raise ValueError(f"neither rows nor columns are contiguous: strides {A.strides}")
    across = A.strides[0] if is_transposed else A.strides[1]
    lines, length = (n, m) if is_transposed else (m, n)
    return is_transposed, max(1, across // A.itemsize if lines > 1 else length)


def eigh(A):
    """Eigenvalues, ascending, and eigenvectors of the lower triangle of A, F-ordered.

    A is overwritten.
    """
    n = len(A)
    values, vectors = np.empty(n, A.dtype), np.empty((n, n), A.dtype, order="F")
    found, info, support = ctypes.c_int(), ctypes.c_int(), np.empty(2 * n, np.int32)
    most_threads = n_threads() if n > _LARGE else 1

    def syevr(work, iwork, n_work, n_iwork):
        call(
            "syevr", A.dtype, "V", "A", "L", n, A, n, 0.0, 0.0, 0, 0, 0.0, found, values, vectors,
            n, support, work, n_work, iwork, n_iwork, info, most_threads=most_threads,
        )  # fmt: skip

    work, iwork = np.empty(1, A.dtype), np.empty(1, np.int32)
    syevr(work, iwork, -1, -1)  # which asks for the sizes of both
    work, iwork = np.empty(int(work[0]), A.dtype), np.empty(int(iwork[0]), np.int32)
    syevr(work, iwork, len(work), len(iwork))
    if info.value:
        raise np.linalg.LinAlgError(f"the eigenvalues were not found (LAPACK: {info.value})")
    return values, vectors
