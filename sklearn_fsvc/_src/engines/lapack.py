"""SciPy's BLAS and LAPACK, called without the GIL.

SciPy's own wrappers hold the GIL during a call, which takes seconds for a large matrix. The
functions behind them are exported as capsules for Cython; a call by ctypes releases the GIL.
"""

import ctypes
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from .threads import limit_blas_threads

# dtype -> the first letter of the names of routines, and the type in C.
REALS: dict[np.dtype, tuple[str, Any]] = {
    np.dtype(np.float32): ("s", ctypes.c_float),
    np.dtype(np.float64): ("d", ctypes.c_double),
}
# Scalar arguments whose memory is cached.
_CACHED_SCALARS = 2**12
# Where an array object holds the address of its data: `PyArray_DATA` of NumPy's C interface reads
# it there. `array.ctypes.data` creates an object, which takes as long as a small call.
_DATA_OFFSET = object.__basicsize__

_one_thread = limit_blas_threads(1)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def call(name: str, dtype: np.dtype, *args: Any) -> None:
    """Call a routine of BLAS or LAPACK, in one thread.

    Parameters
    ----------
    name : str
        Without the letter of the type: "gemm".
    dtype : dtype
        float32 or float64.
    *args : str, int, float or ndarray
        Flags, sizes, factors and arrays; a number that the routine writes is an array of one.
    """
    letter, real = REALS[dtype]
    pointers = [  # Fortran passes everything by reference
        ctypes.c_void_p.from_address(id(arg) + _DATA_OFFSET)
        if isinstance(arg, np.ndarray)
        else _scalar_pointer(type(arg), arg, real)  # type: ignore[arg-type]
        for arg in args
    ]
    with _one_thread:
        _routine(letter + name)(*pointers)


def layout(A: np.ndarray) -> tuple[bool, int]:
    """Return (is_transposed, leading dimension) of a matrix, which may be a view, for BLAS.

    BLAS has matrices with contiguous columns. If the rows of A are contiguous, its matrix is the
    transpose.
    """
    n, m = A.shape
    is_transposed = A.strides[0] != A.itemsize and n > 1
    if is_transposed and A.strides[1] != A.itemsize and m > 1:
        raise ValueError(f"neither rows nor columns are contiguous: strides {A.strides}")
    stride = A.strides[0] if is_transposed else A.strides[1]
    lines, length = (n, m) if is_transposed else (m, n)
    return is_transposed, max(1, stride // A.itemsize if lines > 1 else length)


def gemm(C: np.ndarray, A: np.ndarray, B: np.ndarray, alpha: float, beta: float) -> None:
    """Write ``alpha A B + beta C`` to C, whose columns are contiguous."""
    if len(C) == 1:
        C, A, B = C.T, B.T, A.T
    if C.shape[1] == 1:  # gemm would copy A, which pays with many columns only
        _gemv(C[:, 0], A, B[:, 0], alpha, beta)
        return
    (trans_A, lda), (trans_B, ldb), (_, ldc) = map(layout, (A, B, C))
    call(
        "gemm", C.dtype, "NT"[trans_A], "NT"[trans_B], *C.shape, A.shape[1], float(alpha), A, lda,
        B, ldb, float(beta), C, ldc,
    )  # fmt: skip


def syrk(C: np.ndarray, A: np.ndarray, alpha: float, beta: float) -> None:
    """Write ``alpha A A' + beta C`` to the lower triangle of C, whose columns are contiguous."""
    (trans_A, lda), (_, ldc) = map(layout, (A, C))
    call(
        "syrk", C.dtype, "L", "NT"[trans_A], len(C), A.shape[1], float(alpha), A, lda, float(beta),
        C, ldc,
    )  # fmt: skip


def trsm(L: np.ndarray, B: np.ndarray, transposed: bool, unit: bool) -> None:
    """Solve ``L X = B``, or ``L' X = B`` if transposed, in place on B; L is lower triangular.

    The diagonal of L is 1 if `unit`, and not read.
    """
    (trans_B, ldb), (trans_L, ldl) = layout(B), layout(L)
    if B.shape[1] == 1:  # trsv takes a fifth of the time, because it copies nothing
        call(
            "trsv", B.dtype, "LU"[trans_L], "NT"[transposed ^ trans_L], "NU"[unit], len(L), L, ldl,
            B, _increment(B),
        )  # fmt: skip
        return
    # If the rows of B are contiguous, BLAS has its transpose: solve X' L' = B' from the right.
    side, shape = "LR"[trans_B], B.T.shape if trans_B else B.shape
    is_transposed = transposed ^ trans_B ^ trans_L
    call(
        "trsm", B.dtype, side, "LU"[trans_L], "NT"[is_transposed], "NU"[unit], *shape, 1.0, L, ldl,
        B, ldb,
    )  # fmt: skip


def eigh(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues, ascending, and eigenvectors (F-ordered) of a symmetric matrix.

    The lower triangle of A is read, and A is overwritten. Computed by syevr (relatively robust
    representations), in one thread: several would change the rounding, and wait for each other on
    a busy machine.
    """
    n = len(A)
    values, vectors = np.empty(n, A.dtype), np.empty((n, n), A.dtype, order="F")
    n_found, info, support = (np.zeros(size, np.int32) for size in (1, 1, 2 * n))

    def syevr(work, iwork, n_work, n_iwork):
        call(
            "syevr", A.dtype, "V", "A", "L", n, A, n, 0.0, 0.0, 0, 0, 0.0, n_found, values,
            vectors, n, support, work, n_work, iwork, n_iwork, info,
        )  # fmt: skip

    work, iwork = np.empty(1, A.dtype), np.empty(1, np.int32)
    syevr(work, iwork, -1, -1)  # a size of -1 queries the optimal sizes of the workspaces
    work, iwork = np.empty(int(work[0]), A.dtype), np.empty(int(iwork[0]), np.int32)
    syevr(work, iwork, len(work), len(iwork))
    if info[0]:
        raise np.linalg.LinAlgError(f"the eigenvalues were not found (LAPACK: {info[0]})")
    return values, vectors


def _gemv(c, A, b, alpha, beta):
    is_transposed, lda = layout(A)
    shape = A.shape[::-1] if is_transposed else A.shape
    call(
        "gemv", c.dtype, "NT"[is_transposed], *shape, float(alpha), A, lda, b, _increment(b),
        float(beta), c, _increment(c),
    )  # fmt: skip


def _increment(column):
    """Return the stride in elements, at least 1: that of a single element is arbitrary."""
    return max(1, column.strides[0] // column.itemsize)


@cache
def _routine(name):
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = module.__pyx_capi__[name]
    return ctypes.CFUNCTYPE(None)(_capsule_pointer(capsule, _capsule_name(capsule)))


@lru_cache(_CACHED_SCALARS)
def _scalar_pointer(kind, value, real):
    """Return the address of a flag, size or factor; cached, since routines do not write to them.

    `kind` is part of the key because 1 == 1.0.
    """
    if kind is str:
        return ctypes.byref(ctypes.c_char(value.encode()))
    return ctypes.byref((real if issubclass(kind, float) else ctypes.c_int)(value))
