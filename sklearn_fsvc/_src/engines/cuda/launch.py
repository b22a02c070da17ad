"""Compiled GPU kernels and the grids they are launched with."""

from importlib.metadata import PackageNotFoundError
from threading import Lock

import numpy as np

from ...utils.availability import install
from ..kernels import cubins, ptx

# Kernels that are launched: their machine code or PTX is found, and loaded by CuPy.
#
# The kernels of the package travel with it. One that was changed, or is somebody's own, is
# compiled by each process that launches it, which takes seconds.

_loaded, _lock = {}, Lock()


def launch(index, kernel, grid, block, *args):
    """Launch a `Kernel` on CuPy's stream of the moment.

    Parameters
    ----------
    index : int
        Of the GPU of the moment.
    grid, block : int or tuple of int
    args : CuPy arrays, numbers of NumPy, int or bool
        An int is taken in 64 bits, a bool in 32.
    """
    args, types = typed(args)
    key = index, kernel, types
    function = _loaded.get(key)
    if function is None:
        with _lock:
            if key not in _loaded:
                _loaded[key] = _load(kernel, types)
            function = _loaded[key]
    grid, block = (n if isinstance(n, tuple) else (n,) for n in (grid, block))
    function(grid, block, [word for arg in args for word in _words(arg)])


def typed(args):
    """(arguments as they are handed over, their types): see `launch`."""
    args = [_plain(arg) for arg in args]
    return args, tuple(_type_of(arg) for arg in args)


def _plain(arg):
    if isinstance(arg, (bool, np.bool_)):
        return np.int32(arg)
    return np.int64(arg) if isinstance(arg, int) else arg


def _type_of(arg):
    # The name of a dtype would be plainer, and takes longer than all else here.
    if isinstance(arg, np.generic):
        return arg.dtype.str
    return f"{arg.dtype.str}[{arg.ndim}{'C' if arg.flags.c_contiguous else 'A'}]"


def _words(arg):
    """What a kernel is handed for an argument, one after the other.

    An array is a memory reference of MLIR: where it was allocated, where it begins, an
    offset, its shape and its strides in elements.
    """
    if isinstance(arg, np.generic):
        return (arg,)
    begin = np.uint64(arg.data.ptr)
    strides = [stride // arg.itemsize for stride in arg.strides]
    return (begin, begin, *map(np.int64, (0, *arg.shape, *strides)))


def _load(kernel, types):
    """The function of CuPy, on the GPU of the moment, whose driver assembles and keeps PTX."""
    from cupy.cuda import Device, function, runtime

    program, module, device = program_of(kernel, types), function.Module(), Device()
    capability = tuple(divmod(int(device.compute_capability), 10))
    code = cubins.carried(program, capability, runtime.driverGetVersion())
    module.load(code or program.encode())
    return module.get_function(ptx.ENTRY)


def program_of(kernel, types):
    """The PTX of a kernel: what came with the package, else compiled.

    Raises
    ------
    NoCompiler
        If it did not come with the package, and cannot be compiled.
    """
    program = ptx.carried(kernel, types)
    if program is not None:
        return program
    try:
        ptx.compiler()
    except PackageNotFoundError as error:
        raise ptx.NoCompiler(
            f"the kernel {kernel.name!r} for {' '.join(types)} did not come compiled with the "
            f"package, or its source was changed since, and {ptx.COMPILER}, which compiles it, is "
            f"not installed: {install('cuda-kernels')}"
        ) from error
    return ptx.compile_kernel(kernel, types)


# How many blocks of threads there are.

# Rows that one block of an elementwise kernel visits, and the highest grid there is.
_ROWS, _HIGHEST = 4, 65_535


def over_rows(n_columns, n_rows, step, each=_ROWS):
    """Return the grid of a kernel whose blocks take `step` columns, and `each` so many rows.

    Of more rows than the highest grid has, blocks go round again.
    """
    return n_parts(n_columns, step), min(n_parts(n_rows, each), _HIGHEST)


def n_parts(n, size):
    return -(-n // size)


def round_up(n, multiple):
    return n_parts(n, multiple) * multiple
