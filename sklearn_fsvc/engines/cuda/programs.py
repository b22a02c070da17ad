"""Compiled kernels: loaded by CuPy, and kept on disk between processes.

The compiler takes seconds to import and seconds to compile. A process whose kernels are on
disk does neither.
"""

import hashlib
import importlib.util
import json
import os
import uuid
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

from ...cautions import warn
from .. import profiles
from ..kernels import language_name

# Number of the layout of a file: a line of JSON, and the program.
_FORMAT = 1
_loaded, _lock = {}, Lock()


def launch(engine, kernel, grid, block, *args):
    """Launch a `Kernel` on CuPy's stream of the moment.

    Parameters
    ----------
    engine : CudaEngine
        That was entered.
    grid, block : int or tuple of int
    args : CuPy arrays, numbers of NumPy, int or bool
        An int is taken in 64 bits, a bool in 32.
    """
    args = [_plain(arg) for arg in args]
    types = tuple(_type_of(arg) for arg in args)
    key = engine.index, kernel, types
    function = _loaded.get(key)
    if function is None:
        with _lock:
            if key not in _loaded:
                _loaded[key] = _load(engine, kernel, types, args)
            function = _loaded[key]
    grid, block = (n if isinstance(n, tuple) else (n,) for n in (grid, block))
    function(grid, block, [word for arg in args for word in _words(arg)])


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


def _load(engine, kernel, types, args):
    """The function of CuPy, from disk if it is there."""
    from cupy.cuda import function

    identity = _identity(engine, kernel, types)
    path = _path_of(identity)
    entry, program = _read(path, identity) or (None, None)
    module = function.Module()
    if program is None:
        entry, program = compile_for(kernel, args)
        _write(path, identity, entry, program)
    module.load(program)
    return module.get_function(entry)


def compile_for(kernel, args):
    """(name of the entry, program) of a kernel for arguments like these."""
    result = kernel.code.compile_for(*args)
    return result.metadata["func_name"], bytes(result.metadata["cubin"])


def _identity(engine, kernel, types):
    """All that a program depends on, as text."""
    device = engine.xp.cuda.Device()
    return {
        **engine.identity(),
        "capability": device.compute_capability,
        "kernel": f"{kernel.module} {kernel.name}",
        "types": " ".join(types),
        "sources": _digest(kernel.module),
    }


@cache
def _digest(module):
    """Of the text of a module and of the language, which are not imported for it."""
    digest = hashlib.sha256()
    for name in (module, language_name):
        digest.update(importlib.util.find_spec(name).loader.get_source(name).encode())
    return digest.hexdigest()


def folder():
    """Where programs are kept: the folder of the profiles, else that of CuPy's own."""
    place = profiles.folder()
    if place is None:
        place = os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"
        place = Path(os.path.expanduser(place))  # as CuPy does, without an error for no home
    return place / "sklearn_fsvc_kernels"


def _path_of(identity):
    text = json.dumps(identity, sort_keys=True)
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.cubin"


def _read(path, identity):
    """(name of the entry, program), None where there is none to use."""
    try:
        head, _, program = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    try:
        head = json.loads(head)
        is_whole = hashlib.sha256(program).hexdigest() == head["sha256"]
        if head["format"] == _FORMAT and head["identity"] == identity and is_whole:
            return head["entry"], program
        why = "it is not what was written" if is_whole else "it is corrupt"
    except (ValueError, KeyError, TypeError) as error:
        why = f"it is corrupt ({type(error).__name__}: {error})"
    warn(f"{path} is ignored and written again: {why}.", RuntimeWarning)
    return None


def _write(path, identity, entry, program):
    """Keep a program; where nothing can be written, the next process compiles again."""
    head = {
        "format": _FORMAT,
        "identity": identity,
        "entry": entry,
        "sha256": hashlib.sha256(program).hexdigest(),
    }
    new = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(json.dumps(head).encode() + b"\n" + program)
        new.replace(path)  # at once: a reader sees all of it or nothing
    except OSError:
        try:
            new.unlink(missing_ok=True)
        except OSError:
            return
