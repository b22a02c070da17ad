"""Kernels that are launched: their PTX is found, and loaded by CuPy.

The kernels of the package travel with it. One that was changed, or is somebody's own, is
compiled, which takes seconds, and kept on disk: the next process loads it and does not import
the compiler.
"""

import hashlib
import json
import os
import uuid
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Lock

import numpy as np

from ...cautions import warn
from ...extras import install
from .. import profiles
from ..kernels import ptx

# Number of the layout of a file: a line of JSON, and the program.
_FORMAT = 2
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
    """The function of CuPy, on the GPU of the moment, whose driver assembles and keeps it."""
    from cupy.cuda import function

    module = function.Module()
    module.load(program_of(kernel, types).encode())
    return module.get_function(ptx.ENTRY)


def program_of(kernel, types):
    """The PTX of a kernel: what came with the package, else from disk, else compiled.

    Raises
    ------
    NoCompiler
        If it did not come with the package, and cannot be compiled.
    """
    program = ptx.carried(kernel, types)
    if program is not None:
        return program
    try:
        identity = {**ptx.identity(kernel, types), "compiler": ptx.compiler()}
    except PackageNotFoundError as error:
        raise ptx.NoCompiler(
            f"the kernel {kernel.name!r} for {' '.join(types)} did not come compiled with the "
            f"package, or its source was changed since, and {ptx.COMPILER}, which compiles it, is "
            f"not installed: {install('cuda-kernels')}"
        ) from error
    path = _path_of(identity)
    program = _read(path, identity)
    if program is None:
        program = ptx.compile_kernel(kernel, types)
        _write(path, identity, program)
    return program


def folder():
    """Where programs are kept: the folder of the profiles, else that of CuPy's own."""
    place = profiles.folder()
    if place is None:
        place = os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"
        place = Path(os.path.expanduser(place))  # as CuPy does, without an error for no home
    return place / "sklearn_fsvc_kernels"


def _path_of(identity):
    text = json.dumps(identity, sort_keys=True)
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.ptx"


def _read(path, identity):
    """The program, None where there is none to use."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    try:
        head, program = ptx.parse(text.decode())
        is_whole = hashlib.sha256(program.encode()).hexdigest() == head["sha256"]
        if head["format"] == _FORMAT and head["identity"] == identity and is_whole:
            return program
        why = "it is not what was written" if is_whole else "it is corrupt"
    except (ValueError, KeyError, TypeError) as error:
        why = f"it is corrupt ({type(error).__name__}: {error})"
    warn(f"{path} is ignored and written again: {why}.", RuntimeWarning)
    return None


def _write(path, identity, program):
    """Keep a program; where nothing can be written, the next process compiles again."""
    digest = hashlib.sha256(program.encode()).hexdigest()
    head = {"format": _FORMAT, "identity": identity, "sha256": digest}
    new = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(ptx.render(head, program).encode())
        new.replace(path)  # at once: a reader sees all of it or nothing
    except OSError:
        try:
            new.unlink(missing_ok=True)
        except OSError:
            return
