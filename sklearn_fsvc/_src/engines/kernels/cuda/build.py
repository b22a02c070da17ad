"""Compile the kernels that travel with the package; it takes a minute or two, and no GPU.

``python -m sklearn_fsvc._src.engines.kernels.cuda.build`` writes those again whose sources have
changed, as PTX and as machine code, and deletes those that are no more; with ``--all``, all.
"""

import importlib.util
import sys
from itertools import product
from pathlib import Path

import numpy as np

from ....layers import RESPONSES
from .. import cubins, ptx
from . import elementwise, hashes, integers, manhattan, novelty, patches

FLOATS = tuple(map(np.dtype, (np.float32, np.float64)))
INT, FLAG = "<i8", "<i4"


def kernels():
    """(kernel, types of its arguments) of all that layers launch."""
    for make in (_distances, _elementwise, _integers, _patches, _rows):
        yield from make()


def _rows():
    lines = _array("<i4", 1), _array("<i4", 1)
    for dtype in FLOATS:
        yield novelty.settle(dtype), (_array(dtype.str), _array("<f8", 1), "<f8", "<f8", *lines)
    yield hashes.sum_bits(), (_array("<u8"), _array("<u8", 1), _array("<u8", 1))


def _distances():
    for item, tiles in manhattan.TILES.items():
        is_bytes = item == np.uint32
        hidden = "<f4" if is_bytes else item.str
        arrays = _array(item.str), _array(item.str), _array(hidden)
        for tile in tiles:
            yield manhattan.manhattan(item, tile), (*arrays, *[INT] * 3, *[hidden] * 4)
        yield manhattan.pack(item), (_array("|u1" if is_bytes else item.str), arrays[1])


def _elementwise():
    names = [function.name for function in elementwise.FUNCTIONS]
    for dtype in FLOATS:
        H, line, number = _array(dtype.str), _array(dtype.str, 1), dtype.str
        for name, is_squared, width in product(names, (False, True), (1, 16 // dtype.itemsize)):
            kernel = elementwise.map_rows(name, is_squared, dtype, width)
            yield kernel, (H, H, INT, INT, number, number)
        types = H, H, H, line, line, INT, INT, *[number] * 4, FLAG, number
        yield elementwise.expand(dtype), types


def _integers():
    for dtype in FLOATS:
        H, number = _array(dtype.str), dtype.str
        yield integers.round_rows(dtype), (H, INT, INT, number, number)
        for is_split in (False, True):
            yield integers.pack_bytes(dtype, is_split), (H, _array("<u4"), number, INT)
    for table in ("|u1", "<u2"):
        H = _array("<f4")
        yield integers.look_up(np.dtype(table)), (H, _array(table, 1), INT, INT, "<f4")
    A, sums, line = _array("<f8"), _array("<i4"), _array("<f8", 1)
    yield integers.add_products(), (A, sums, line, INT, INT, "<f8")


def _patches():
    for dtype in FLOATS:
        number, line, H = dtype.str, _array(dtype.str, 1), _array(dtype.str)
        images, places = _array(number, 3), (INT,) * 4
        yield patches.moments(number), (images, *places, INT, INT, number, line, line)
        for is_normalised in (False, True):
            kernel = patches.unfold(number, is_normalised)
            yield kernel, (images, *places, INT, line, line, H)
        for response in RESPONSES:
            kernel = patches.average(number, response)
            yield kernel, (H, line, *places, number, _array(number, 4))


def _array(dtype, n_axes=2):
    return f"{dtype}[{n_axes}C]"


def assembler():
    """NVIDIA's ``ptxas``, which comes with the compiler; None where it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else ()
    return next((path for folder in folders for path in Path(folder).glob("cu13/bin/ptxas")), None)


def main(is_all):
    folder, compiler, names = ptx.folder(), ptx.compiler(), set()
    folder.mkdir(exist_ok=True)
    for kernel, types in kernels():
        name = ptx.file_name(kernel)
        names.add(name)
        if is_all or ptx.carried(kernel, types) is None:
            print(name, flush=True)
            head = {**ptx.identity(kernel, types), "compiler": compiler}
            text = ptx.render(head, ptx.compile_kernel(kernel, types))
            (folder / name).write_text(text, newline="\n")
    for path in folder.iterdir():
        if path.name not in names:
            print(f"{path.name}: deleted")
            path.unlink()
    _assemble(is_all)


def _assemble(is_all):
    found, folder = assembler(), cubins.folder()
    if found is None:
        raise SystemExit("there is no ptxas: pip install nvidia-cuda-nvcc, and run this again")
    folder.mkdir(exist_ok=True)
    programs = [ptx.carried(*each) for each in kernels()]
    for chip in cubins.CHIPS:
        if is_all:
            (folder / cubins.archive_name(chip)).unlink(missing_ok=True)
        cubins.write(programs, chip, found)


if __name__ == "__main__":
    main(is_all="--all" in sys.argv)
