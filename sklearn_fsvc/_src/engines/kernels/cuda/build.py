"""Build the archive of all compiled CUDA kernels. It needs the compiler, and no GPU.

``python -m sklearn_fsvc._src.engines.kernels.cuda.build`` writes it into the package, where git
ignores it. The build of a wheel does the same (``hatch_build.py``).
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from ....layers import RESPONSES
from . import elementwise, manhattan, packing, patches, selection
from .compiler import assemble, compile_ptx
from .kernel import BlockSizes, CudaKernel
from .programs import ARCHIVE, PTX, TARGETS, entry_name, write

FLOATS: tuple[np.dtype, ...] = (np.dtype(np.float32), np.dtype(np.float64))
INT, FLAG = "<i8", "<i4"
SIZES = BlockSizes()
# Each process of the compiler takes some hundred megabytes.
_MAX_PROCESSES = 8

KernelAndTypes = tuple[CudaKernel, tuple[str, ...]]


def default_archive() -> Path:
    """Return the path of the package's archive."""
    return Path(__file__).parent / ARCHIVE


def main() -> None:
    write_archive(default_archive(), range(len(all_kernels())))


def write_archive(path: Path, numbers: Iterable[int]) -> None:
    """Compile the kernels with these indices in `all_kernels`, in several processes."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, _MAX_PROCESSES)) as pool:
        compiled = list(pool.map(compile_one, numbers))
    write(path, {name: code for each in compiled for name, code in each.items()})


def compile_one(number: int) -> dict[str, bytes]:
    """Return the programs of a kernel for all targets, by their names in the archive."""
    kernel, types = all_kernels()[number]  # a kernel cannot be sent to another process
    ptx = compile_ptx(kernel, types)
    return {
        entry_name(target, kernel, types): (
            ptx.encode() if target == PTX else assemble(ptx, target)[0]
        )
        for target in TARGETS
    }


def all_kernels() -> list[KernelAndTypes]:
    """Return all kernels that the engine launches, with the types of their arguments."""
    groups = _manhattan(), _elementwise(), _quantised(), _patches(), _selection()
    return [each for group in groups for each in group]


def _manhattan() -> Iterator[KernelAndTypes]:
    for item, tiles in manhattan.TILES.items():
        is_bytes = item == np.uint32
        hidden = "<f4" if is_bytes else item.str
        arrays = _array(item.str), _array(item.str), _array(hidden)
        for tile in tiles:
            yield manhattan.manhattan(item, tile), (*arrays, *[INT] * 3, *[hidden] * 4)
        samples = _array("|u1" if is_bytes else item.str)
        yield packing.pack_features(item, SIZES.square, SIZES.lines), (samples, _array(item.str))


def _elementwise() -> Iterator[KernelAndTypes]:
    for dtype in FLOATS:
        H, norms, number = _array(dtype.str), _array(dtype.str, 1), dtype.str
        for function in elementwise.FUNCTIONS:
            for is_squared in (False, True):
                for width in (1, 16 // dtype.itemsize):
                    kernel = elementwise.apply_function(
                        function.name, is_squared, dtype, width, SIZES.threads
                    )
                    yield kernel, (H, H, INT, INT, *[number] * 4)
        types = H, H, H, norms, norms, INT, INT, *[number] * 4, FLAG, number
        yield elementwise.expand_distances(dtype, SIZES.threads), types


def _quantised() -> Iterator[KernelAndTypes]:
    for dtype in FLOATS:
        H, number = _array(dtype.str), dtype.str
        yield elementwise.quantise(dtype, SIZES.threads), (H, INT, INT, number, number)
        for n_planes in (1, 2, 3) if dtype == np.float32 else (1, 2):
            kernel = packing.pack_codes(dtype, n_planes, SIZES.square, SIZES.lines)
            yield kernel, (H, _array("<u4"), number, INT)
    for table in ("|u1", "<u2"):
        types = _array("<f4"), _array(table, 1), INT, INT, "<f4"
        yield elementwise.look_up_activations(np.dtype(table), SIZES.threads), types
    A, products, shifts = _array("<f8"), _array("<i4"), _array("<f8", 1)
    yield elementwise.add_products(SIZES.threads), (A, products, shifts, INT, INT, "<f8")


def _patches() -> Iterator[KernelAndTypes]:
    for dtype in FLOATS:
        number, line, H = dtype.str, _array(dtype.str, 1), _array(dtype.str)
        images, sizes = _array(number, 3), (INT,) * 4
        kernel = patches.patch_moments(number, SIZES.threads)
        yield kernel, (images, *sizes, INT, INT, number, line, line)
        for is_normalised in (False, True):
            kernel = patches.unfold(number, is_normalised, SIZES.threads)
            yield kernel, (images, *sizes, INT, line, line, H)
        for response in RESPONSES:
            kernel = patches.average_cells(number, response, SIZES.threads)
            yield kernel, (H, line, *sizes, number, _array(number, 4))


def _selection() -> Iterator[KernelAndTypes]:
    indices = _array("<i4", 1), _array("<i4", 1)
    for dtype in FLOATS:
        types = _array(dtype.str), _array("<f8", 1), "<f8", "<f8", *indices
        yield selection.select_novel(dtype, SIZES.select_threads), types
    yield selection.sum_row_bits(), (_array("<u8"), _array("<u8", 1), _array("<u8", 1))


def _array(dtype: str, n_axes: int = 2) -> str:
    return f"{dtype}[{n_axes}C]"


if __name__ == "__main__":
    main()
