"""Kernels of a GPU as PTX, which the driver of any NVIDIA GPU assembles for itself.

Those that layers launch travel with the package, in the folder `cuda/ptx`: only who changes
them needs their compiler. `cuda/build.py` writes the folder.
"""

import hashlib
import importlib.util
import json
import platform
import re
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.resources import files

import numpy as np

from . import language_name

# Compute capability of the oldest GPUs that are supported, and the version of PTX that came with
# them, which all drivers read: the compiler names its own, and uses nothing of it.
OLDEST, PTX_VERSION = (7, 5), "6.3"
# Name of each kernel in its PTX.
ENTRY = "kernel"
COMPILER = "numba-cuda-mlir"


class NoCompiler(ImportError):
    """A kernel did not come compiled, and nothing here compiles it."""


def folder():
    """Where the programs lie that travel with the package."""
    return files(f"{__package__}.cuda") / "ptx"


def file_name(kernel):
    return re.sub(r"\W+", "-", kernel.name) + ".ptx"


def identity(kernel, types):
    """All that PTX depends on but its compiler, as text.

    Parameters
    ----------
    kernel : Kernel
    types : tuple of str
        Of its arguments, as `cuda.programs` writes them: "<f4", or "<f4[2C]" for an array
        of two axes, C-contiguous ("A" for any strides).
    """
    return {
        "kernel": f"{kernel.module} {kernel.name}",
        "types": " ".join(types),
        "sources": _digest(kernel.module),
    }


@cache
def _digest(module):
    """Of the text of a module and of the language, which are not imported for it.

    None where there is no text, as in a frozen application: then nothing can have changed.
    """
    digest = hashlib.sha256()
    for name in (module, language_name):
        source = importlib.util.find_spec(name).loader.get_source(name)
        if source is None:
            return None
        digest.update(source.encode())
    return digest.hexdigest()


def carried(kernel, types):
    """The PTX that travels with the package, None where there is none of these sources."""
    try:
        text = (folder() / file_name(kernel)).read_text()
    except OSError:
        return None
    head, program = parse(text)
    expected = identity(kernel, types)
    expected["sources"] = expected["sources"] or head["sources"]
    return program if all(head[name] == expected[name] for name in expected) else None


def render(head, program):
    """PTX with a line before it that says what it is: a comment, so that it stays PTX."""
    return f"// {json.dumps(head)}\n{program}"


def parse(text):
    """(head, program) of what `render` wrote."""
    line, _, program = text.partition("\n")
    return json.loads(line.removeprefix("//")), program


def compiler():
    """What compiles kernels here, as text.

    Raises
    ------
    PackageNotFoundError
        If it is not installed.
    """
    number = version(COMPILER)
    return f"{COMPILER} {number}, Python {'.'.join(platform.python_version_tuple()[:2])}"


@cache
def compile_kernel(kernel, types):
    """PTX of a kernel for arguments of these types; it needs the compiler, and no GPU."""
    from numba_cuda_mlir import cuda
    from numba_cuda_mlir.numba_cuda import types as numba_types
    from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype

    def type_of(text):
        dtype, _, array = text.partition("[")
        item = from_dtype(np.dtype(dtype))
        return numba_types.Array(item, int(array[:-2]), array[-2]) if array else item

    code = kernel.code
    bounds = code.targetoptions.get("launch_bounds")
    with _for_the_oldest():
        ptx, _ = cuda.compile_ptx(
            code.py_func, tuple(map(type_of, types)), cc=OLDEST, launch_bounds=bounds
        )
    return _plain(ptx)


@contextmanager
def _for_the_oldest():
    """The compiler asks for the GPU of this machine, even where it is told another."""
    from numba_cuda_mlir import tools

    before, tools._cached_cc = tools._cached_cc, OLDEST
    try:
        yield
    finally:
        tools._cached_cc = before


def _plain(ptx):
    """Without what depends on what else was compiled, or says nothing."""
    name = re.search(r"\.entry (\w+)\(", ptx)[1]
    ptx = ptx[ptx.index(".version") :].replace(name, ENTRY)
    ptx = re.sub(r"^\.version .*", f".version {PTX_VERSION}", ptx)
    shared = dict.fromkeys(re.findall(r"static_shared_memory_\d+", ptx))
    numbers = {name: f"shared_{number}" for number, name in enumerate(shared)}
    return re.sub(r"static_shared_memory_\d+", lambda found: numbers[found[0]], ptx)
