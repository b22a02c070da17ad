"""Intel MKL by ctypes: two products and two tanh.

MKL's own Python packages replace NumPy's BLAS for the whole process; this calls the
library beside it. The single dynamic library `mkl_rt` loads the rest on the first call
and ends the process where its threading layer is missing, so that is looked at first.
"""

import ctypes
import ctypes.util
import glob
import os
import sys
from functools import cache

import numpy as np

from ..utils.availability import install
from .algebra import is_worth
from .threads import n_threads

# Filled in forked children.
_forked = []
_ROW_MAJOR, _NO_TRANS, _TRANS = 101, 111, 112
# MKL_THREADING_GNU: scikit-learn's own OpenMP is GNU's, and two OpenMP runtimes in one
# process fight for the cores.
_GNU_THREADS = 3


def _candidates():
    """Where pip and conda put the library; its version is part of the name."""
    for folder in (os.path.join(sys.prefix, "lib"), os.path.join(sys.prefix, "Library", "bin")):
        for pattern in ("libmkl_rt.so*", "libmkl_rt*.dylib", "mkl_rt*.dll"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), key=len)
    found = ctypes.util.find_library("mkl_rt")
    if found:
        yield found


@cache
def _open():
    """(library, None), or (None, the reason)."""
    errors = []
    for path in _candidates():
        try:
            if sys.platform.startswith("linux"):
                ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path)
            library.MKL_Set_Threading_Layer(_GNU_THREADS)
            _be_ready_for_forks(library)
            return library, None
        except (OSError, AttributeError) as error:
            errors.append(str(error))
    if not errors:
        return None, f"Intel MKL is not installed; {install('mkl')}"
    hint = "install GNU OpenMP (libgomp1)" if "libgomp" in errors[0] else install("mkl")
    return None, f"Intel MKL does not load ({errors[0]}); {hint}"


def _be_ready_for_forks(library):
    """Have MKL keep to one thread in forked children.

    GNU OpenMP waits there for ever for the threads that the parent had. Other threads of
    the engine, and of NumPy's BLAS, are as many as in the parent.
    """

    def keep_to_one():
        library.MKL_Set_Num_Threads(1)
        _forked.append(os.getpid())

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=keep_to_one)


def why_unavailable():
    return _open()[1]


@cache
def version():
    """The name and version that the library gives itself, wherever it was installed from."""
    library, _ = _open()
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, len(text))
    return text.value.decode().strip()


def multiply(X, W, out):
    """out = X W' (cblas_sgemm or cblas_dgemm); rows of `out` may lie apart."""
    library, _ = _open()
    single = X.dtype == np.float32
    gemm = library.cblas_sgemm if single else library.cblas_dgemm
    real = ctypes.c_float if single else ctypes.c_double
    (rows, n), m = X.shape, len(W)
    work = rows * n * m
    is_shared = is_worth("gemm", work, X.dtype) and not _forked
    before = library.MKL_Set_Num_Threads_Local(n_threads() if is_shared else 1)
    gemm(
        _ROW_MAJOR, _NO_TRANS, _TRANS, rows, m, n,
        real(1.0), _pointer(X), n, _pointer(W), n, real(0.0), _pointer(out),
        out.strides[0] // out.itemsize,
    )  # fmt: skip
    library.MKL_Set_Num_Threads_Local(before)  # of this thread alone


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def _tanh(A, out):
    """vsTanh or vdTanh; in place is allowed, and rows may lie apart."""
    library, _ = _open()
    function = library.vsTanh if A.dtype == np.float32 else library.vdTanh
    whole = A.flags.c_contiguous and out.flags.c_contiguous
    for a, o in [(A, out)] if whole else zip(A, out, strict=True):
        function(ctypes.c_int(a.size), _pointer(a), _pointer(o))
    return out


class Functions:
    """The elementwise functions that a layer finishes with: MKL's tanh, NumPy's rest."""

    tanh = staticmethod(_tanh)

    def __getattr__(self, name):
        return getattr(np, name)
