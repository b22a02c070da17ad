"""The mkl engine: products and tanh of Intel MKL, called by ctypes.

MKL's own Python packages replace NumPy's BLAS for the whole process; here it is loaded separately.
The single dynamic library `mkl_rt` loads the others when it is first called, and ends the process
if its threading layer is missing; therefore that is loaded first.
"""

import ctypes
import ctypes.util
import glob
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ..utils.availability import install_command
from .blas import ProductEngine
from .host import host_identity

# Constants of CBLAS.
_ROW_MAJOR, _NO_TRANS, _TRANS = 101, 111, 112
# MKL_THREADING_GNU: scikit-learn loads GNU's OpenMP, and two OpenMP runtimes in one process
# compete for the cores.
_GNU_THREADS = 3


class _Functions:
    """Elementwise functions of layers: MKL's tanh, all others of NumPy."""

    @staticmethod
    def tanh(A: np.ndarray, out: np.ndarray) -> np.ndarray:
        """vsTanh or vdTanh; in place is allowed, and rows may be strided."""
        library, _ = _library()
        function = library.vsTanh if A.dtype == np.float32 else library.vdTanh
        is_contiguous = A.flags.c_contiguous and out.flags.c_contiguous
        for a, o in [(A, out)] if is_contiguous else zip(A, out, strict=True):
            function(ctypes.c_int(a.size), _pointer(a), _pointer(o))
        return out

    def __getattr__(self, name):
        return getattr(np, name)


class MklEngine(ProductEngine):
    """Products and tanh by Intel MKL."""

    name = "mkl"
    packages = ("mkl",)
    functions = _Functions()

    def why_unavailable(self):
        return _library()[1]

    def describe(self):
        return _version()

    def identity(self):
        return host_identity(self.name, _version())

    def multiply(self, X, W, out):
        """cblas_sgemm or cblas_dgemm."""
        library, _ = _library()
        single = X.dtype == np.float32
        gemm = library.cblas_sgemm if single else library.cblas_dgemm
        real = ctypes.c_float if single else ctypes.c_double
        (rows, n), m = X.shape, len(W)
        # The number of this thread only; returns the one before.
        before = library.MKL_Set_Num_Threads_Local(1)
        gemm(
            _ROW_MAJOR, _NO_TRANS, _TRANS, rows, m, n,
            real(1.0), _pointer(X), n, _pointer(W), n, real(0.0), _pointer(out),
            out.strides[0] // out.itemsize,
        )  # fmt: skip
        library.MKL_Set_Num_Threads_Local(before)


def load_library(paths: Iterable[str]) -> tuple[Any, str | None]:
    """Return (library, None) for the first path that loads, else (None, the reason and remedy)."""
    errors = []
    for path in paths:
        try:
            if sys.platform.startswith("linux"):
                ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path)
            library.MKL_Set_Threading_Layer(_GNU_THREADS)
            _limit_forked_children(library)
            return library, None
        except (OSError, AttributeError) as error:
            errors.append(str(error))
    if not errors:
        return None, f"Intel MKL is not installed; {install_command('mkl')}"
    hint = "install GNU OpenMP (libgomp1)" if "libgomp" in errors[0] else install_command("mkl")
    return None, f"Intel MKL does not load ({errors[0]}); {hint}"


@cache
def _library():
    return load_library(_candidates())


def _candidates() -> Iterator[str]:
    """Yield where pip and conda install the library; its version is part of the name."""
    for folder in (os.path.join(sys.prefix, "lib"), os.path.join(sys.prefix, "Library", "bin")):
        for pattern in ("libmkl_rt.so*", "libmkl_rt*.dylib", "mkl_rt*.dll"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), key=len)
    found = ctypes.util.find_library("mkl_rt")
    if found:
        yield found


def _limit_forked_children(library):
    """Limit MKL to one thread in forked children.

    There, GNU's OpenMP would wait forever for the threads that the parent had. Other threads of
    the engine, and of NumPy's BLAS, are as many as in the parent.
    """

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: library.MKL_Set_Num_Threads(1))


@cache
def _version():
    """Return the name and version that the library reports."""
    library, _ = _library()
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, len(text))
    return text.value.decode().strip()


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)
