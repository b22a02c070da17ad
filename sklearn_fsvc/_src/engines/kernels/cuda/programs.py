"""Compiled programs of kernels at run time.

A wheel contains an archive, ``kernels.zip``, with the PTX of all kernels and their machine code for
common GPUs; the build command writes it into a checkout, too. Machine code is loaded in
milliseconds, while the driver needs up to a second to translate the PTX of a large kernel, once per
machine. Without an archive, a kernel is compiled at first use, and its PTX is kept in the user's
cache folder.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from ... import profiles
from .compiler import compile_ptx
from .kernel import CudaKernel

ARCHIVE = "kernels.zip"
PTX = "ptx"
# Machine code for one compute capability of each major version: later minor versions run it, too.
ARCHITECTURES = {(8, 0): "sm_80", (9, 0): "sm_90", (10, 0): "sm_100", (12, 0): "sm_120"}
TARGETS = PTX, *ARCHITECTURES.values()
# The oldest driver that loads machine code of CUDA 13, in the form of `driverGetVersion`.
OLDEST_DRIVER = 13_000


def load(
    kernel: CudaKernel,
    types: tuple[str, ...],
    capability: tuple[int, int],
    driver: int,
    archive: Traversable | None = None,
) -> bytes:
    """Return a program that the driver can load: machine code if there is some, else PTX.

    Parameters
    ----------
    kernel, types
        See `compiler.compile_ptx`.
    capability : tuple of int
        Compute capability of the GPU.
    driver : int
        CUDA version of the driver, such as 13010 for 13.1.
    archive : Traversable or None
        None is the archive of the package.

    Raises
    ------
    CompilerMissing
        If the kernel is neither in the archive nor in the cache, and cannot be compiled.
    """
    archive = files(__package__) / ARCHIVE if archive is None else archive
    targets = [
        architecture
        for oldest, architecture in ARCHITECTURES.items()
        if driver >= OLDEST_DRIVER and oldest[0] == capability[0] and oldest <= capability
    ]
    for target in (*targets, PTX):
        program = read(archive, target, kernel, types)
        if program is not None:
            return program
    return compile_cached(kernel, types)


def read(
    archive: Traversable, target: str, kernel: CudaKernel, types: tuple[str, ...]
) -> bytes | None:
    """Return a program of an archive, None if it is not there or the archive is out of date."""
    with suppress(OSError, KeyError), archive.open("rb") as file, ZipFile(file) as content:
        if _is_current(content):
            return content.read(entry_name(target, kernel, types))
    return None


def write(archive: Path, programs: Mapping[str, bytes]) -> None:
    """Write an archive of programs by their `entry_name`: the same bytes at every build."""
    buffer = BytesIO()
    with ZipFile(buffer, "w") as content:
        content.comment = (source_digest() or "").encode()
        for name, program in sorted(programs.items()):
            content.writestr(ZipInfo(name), program, ZIP_DEFLATED, 9)  # ZipInfo: a constant date
    _write_atomically(archive, buffer.getvalue())


def entry_name(target: str, kernel: CudaKernel, types: tuple[str, ...]) -> str:
    """Return the name of a program in an archive; `target` is an architecture or "ptx"."""
    return f"{target}/{kernel.name} ({', '.join(types)})"


def _is_current(content: ZipFile) -> bool:
    """Return whether an archive was built from these sources.

    That of a wheel always is; in a checkout, a kernel may have been edited since the build.
    """
    return source_digest() in (None, content.comment.decode())


@cache
def source_digest() -> str | None:
    """Return a digest of the kernels' sources; None where only bytecode is installed."""
    sources = [path for path in files(__package__).iterdir() if path.name.endswith(".py")]
    texts = [path.read_bytes() for path in sorted(sources, key=lambda path: path.name)]
    return hashlib.sha256(b"".join(texts)).hexdigest() if texts else None


def compile_cached(
    kernel: CudaKernel,
    types: tuple[str, ...],
    compile_ptx: Callable[[CudaKernel, tuple[str, ...]], str] = compile_ptx,
) -> bytes:
    """Return PTX from the user's cache folder, else compile it and keep it there.

    A kernel of another package is compiled in every process: its sources are not in the digest.
    """
    path, is_own = None, kernel.module.rpartition(".")[0] == __package__
    folder, digest = profiles.folder(), source_digest()
    if is_own and folder is not None and digest is not None:
        name = hashlib.sha256(entry_name(PTX, kernel, types).encode()).hexdigest()
        path = folder / f"cuda-kernels-{digest[:16]}" / f"{name[:32]}.ptx"
        with suppress(OSError):
            return path.read_bytes()
    program = compile_ptx(kernel, types).encode()
    if path is not None:
        with suppress(OSError):  # a full disk, or a folder that cannot be written
            _write_atomically(path, program)
    return program


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file that other processes see either complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{uuid.uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(path)
