"""Launching compiled CUDA kernels through CuPy, and the sizes of their grids."""

from threading import Lock
from typing import Any

import numpy as np

from ..kernels.cuda import programs
from ..kernels.cuda.compiler import ENTRY_POINT
from ..kernels.cuda.kernel import CudaKernel

# Rows that a block of an elementwise kernel processes, and the limit of CUDA for the second and
# third axes of a grid.
_ROWS_PER_BLOCK, MAX_BLOCKS = 4, 65_535
# Loaded functions of CuPy by (GPU, kernel, types of the arguments).
_loaded: dict[tuple[int, CudaKernel, tuple[str, ...]], Any] = {}
_lock = Lock()


def launch(
    index: int,
    kernel: CudaKernel,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *args: Any,
) -> None:
    """Launch a kernel on CuPy's current stream.

    Parameters
    ----------
    index : int
        Number of the current GPU.
    kernel : CudaKernel
    grid, block : int or tuple of int
        Blocks of the grid, threads of a block.
    args : CuPy arrays, NumPy scalars, int or bool
        An int is passed in 64 bits, a bool in 32.
    """
    arguments, types = typed(args)
    key = index, kernel, types
    function = _loaded.get(key)
    if function is None:
        with _lock:
            if key not in _loaded:
                _loaded[key] = _load(kernel, types)
            function = _loaded[key]
    grid, block = (n if isinstance(n, tuple) else (n,) for n in (grid, block))
    function(grid, block, [p for arg in arguments for p in _kernel_parameters(arg)])


def typed(args: tuple[Any, ...]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the arguments as arrays and NumPy scalars, and their types as text.

    The types are those of `compiler.compile_ptx`, such as "<f4" and "<f4[2C]".
    """
    converted = [_to_scalar(arg) for arg in args]
    return converted, tuple(_type_of(arg) for arg in converted)


def _to_scalar(arg: Any) -> Any:
    if isinstance(arg, (bool, np.bool_)):
        return np.int32(arg)
    return np.int64(arg) if isinstance(arg, int) else arg


def _type_of(arg: Any) -> str:
    # `dtype.name` would be more readable, but takes longer than everything else here.
    if isinstance(arg, np.generic):
        return arg.dtype.str
    return f"{arg.dtype.str}[{arg.ndim}{'C' if arg.flags.c_contiguous else 'A'}]"


def _kernel_parameters(arg: Any) -> tuple[Any, ...]:
    """Return the kernel parameters that one argument consists of.

    An array is a memref descriptor of MLIR: allocated pointer, aligned pointer, offset, shape, and
    strides in elements.
    """
    if isinstance(arg, np.generic):
        return (arg,)
    begin = np.uint64(arg.data.ptr)
    strides = [stride // arg.itemsize for stride in arg.strides]
    return (begin, begin, *map(np.int64, (0, *arg.shape, *strides)))


def _load(kernel: CudaKernel, types: tuple[str, ...]) -> Any:
    """Load a kernel on the current GPU; the driver translates PTX, and caches the result."""
    from cupy.cuda import Device, function, runtime

    capability = divmod(int(Device().compute_capability), 10)
    module = function.Module()
    module.load(programs.load(kernel, types, capability, runtime.driverGetVersion()))
    return module.get_function(ENTRY_POINT)


def grid_over_rows(
    n_columns: int, n_rows: int, columns_per_block: int, rows_per_block: int = _ROWS_PER_BLOCK
) -> tuple[int, int]:
    """Return the grid of an elementwise kernel (see `kernels.cuda.elementwise`).

    If the rows need more blocks than a grid may have, each block processes more rows.
    """
    n_blocks = min(ceil_div(n_rows, rows_per_block), MAX_BLOCKS)
    return ceil_div(n_columns, columns_per_block), n_blocks


def ceil_div(n: int, size: int) -> int:
    return -(-n // size)


def round_up(n: int, multiple: int) -> int:
    """Return the smallest multiple that is at least n."""
    return ceil_div(n, multiple) * multiple
