"""Compilation of a kernel to PTX and machine code. Neither needs a GPU.

numba-cuda-mlir compiles to PTX, NVIDIA's portable assembly language, which the driver of every
supported GPU translates. NVIDIA's ``ptxas``, which is installed with it, translates PTX in advance
to the machine code (a "cubin") of one generation of GPUs.
"""

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ....utils.availability import install_command
from .kernel import CudaKernel

# Compute capability of the oldest supported GPUs, and the version of PTX that was released with
# them, which all drivers read. The compiler would write its own version, but uses nothing newer.
OLDEST, PTX_VERSION = (7, 5), "6.3"
# Name of the kernel function in every compiled program.
ENTRY_POINT = "kernel"
COMPILER = "numba_cuda_mlir"


class CompilerMissing(ImportError):
    """A kernel was not built in advance, and the compiler is not installed."""


def check_installed(kernel: CudaKernel) -> None:
    """Raise `CompilerMissing`, with the remedy, unless kernels can be compiled here."""
    if importlib.util.find_spec(COMPILER) is None:
        raise CompilerMissing(
            f"the CUDA kernel {kernel.name!r} is not compiled: install the compiler, which then "
            f"compiles kernels at first use ({install_command('cuda-kernels')}), or install a "
            "wheel of this package that was built with SKLEARN_FSVC_BUILD_KERNELS=1"
        )


def compile_ptx(kernel: CudaKernel, types: tuple[str, ...]) -> str:
    """Compile a kernel to PTX.

    Parameters
    ----------
    kernel : CudaKernel
    types : tuple of str
        Types of its arguments, as `launch.typed` returns them: "<f4" for a float32, "<f4[2C]" for
        a C-contiguous array of two axes ("A" instead of "C" for any strides).

    Returns
    -------
    str
        The same in every process, whatever was compiled before.
    """
    check_installed(kernel)
    from numba_cuda_mlir import cuda
    from numba_cuda_mlir.numba_cuda import types as numba_types
    from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype

    def numba_type(text):
        dtype, _, array = text.partition("[")
        item = from_dtype(np.dtype(dtype))
        return numba_types.Array(item, int(array[:-2]), array[-2]) if array else item

    definition = kernel.definition
    with _target_oldest_gpu():
        ptx, _ = cuda.compile_ptx(
            definition.py_func, tuple(map(numba_type, types)), cc=OLDEST,
            launch_bounds=definition.targetoptions.get("launch_bounds"),
        )  # fmt: skip
    return _normalise(ptx)


@contextmanager
def _target_oldest_gpu() -> Iterator[None]:
    """Compile for `OLDEST`: the compiler prefers the GPU of this machine to its argument `cc`."""
    from numba_cuda_mlir import tools

    before, tools._cached_cc = tools._cached_cc, OLDEST
    try:
        yield
    finally:
        tools._cached_cc = before


def _normalise(ptx: str) -> str:
    """Rename what the compiler numbers throughout a process, and drop its comments."""
    (name,) = re.findall(r"\.entry (\w+)\(", ptx)
    ptx = ptx[ptx.index(".version") :].replace(name, ENTRY_POINT)
    ptx = re.sub(r"^\.version .*", f".version {PTX_VERSION}", ptx)
    shared = dict.fromkeys(re.findall(r"static_shared_memory_\d+", ptx))
    numbers = {name: f"shared_{number}" for number, name in enumerate(shared)}
    return re.sub(r"static_shared_memory_\d+", lambda match: numbers[match[0]], ptx)


def find_assembler() -> Path:
    """Return the path of ``ptxas``.

    Raises
    ------
    FileNotFoundError
        If it is not installed.
    """
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("ptxas", "ptxas.exe"):
            path = Path(folder, "cu13", "bin", name)
            if path.exists():
                return path
    raise FileNotFoundError("ptxas is not installed: pip install nvidia-cuda-nvcc")


def assemble(ptx: str, architecture: str, *options: str) -> tuple[bytes, str]:
    """Translate PTX to the machine code of an architecture such as "sm_90".

    Returns
    -------
    code : bytes
        It also records the `options` of ``ptxas``.
    report : str
        Its messages; with the option "-v", registers and spills of the kernel.
    """
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        run = subprocess.run(
            [find_assembler(), *options, f"--gpu-name={architecture}", source, "-o", target],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return target.read_bytes(), run.stderr
