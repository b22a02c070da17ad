"""Sizes: how much memory a call may take, the rows of a tile, and the parts that H is cut into.

Memory planning is pure arithmetic: integers in, integers out. Callers estimate what their
arrays take, in all (`fixed_bytes`) and for each row or item, and receive a count, or an error that
names `max_memory`. Three functions cover all cases:

- `rows_per_tile` plans the tiles of a pass over samples. One row is the least, else it raises.
- `count_fitting` plans what can be done with less: buffers, subsamples, matrices that are kept.
- `check_fits` refuses what cannot be made smaller.

A tile is limited by memory. Within a tile, an engine evaluates parts of H of the size that is
fastest on its device, the `TileShape`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any

from ..engines.base import Engine
from ..engines.host import cut_rows
from ..engines.host_memory import host_memory
from ..engines.patches import IMAGES
from ..layers import PatchLayer

# Bytes of each unit: powers of 1000, with or without the B, and of 1024.
_UNITS = {"": 1, "B": 1, "k": 1000, "kB": 1000}
for _power, _prefix in enumerate("KMGT", 1):
    _UNITS |= dict.fromkeys((_prefix, f"{_prefix}B"), 1000**_power)
    _UNITS[f"{_prefix}iB"] = 1024**_power


def parse_memory(value: int | str | None, free: int) -> int:
    """Return `max_memory` in bytes; None means half of the `free` bytes.

    "1G" is "1GB", as in the SI. Some tools use it for 1 GiB: the smaller of the two respects the
    limit in both conventions.

    >>> parse_memory("2GiB", free=0), parse_memory("2G", free=0), parse_memory(None, free=10)
    (2147483648, 2000000000, 5)
    """
    if value is None:
        return free // 2
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if match is None or match[2] not in _UNITS:
            units = ", ".join(unit for unit in _UNITS if unit.endswith("B"))
            raise ValueError(
                f"max_memory={value!r} is not a size; write a number of bytes, or a number and one "
                f"of {units}, where k, K, M, G or T alone mean kB, MB, GB or TB."
            )
        value = int(float(match[1]) * _UNITS[match[2]])
    elif isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f'max_memory={value!r} must be bytes as an int, or a str like "2GiB".')
    if value <= 0:
        raise ValueError(f"max_memory={value!r} must be greater than 0.")
    return int(value)


def host_memory_limit(max_memory: int | str | None) -> int:
    """Return the bytes of host memory that `max_memory` allows now."""
    return parse_memory(max_memory, host_memory()[0])


def count_fitting(
    limit: float, item_bytes: int, fixed_bytes: int = 0, maximum: int | None = None
) -> int:
    """Return how many items of `item_bytes` fit into `limit` bytes, in addition to `fixed_bytes`.

    >>> count_fitting(100, 30), count_fitting(100, 30, fixed_bytes=50), count_fitting(10, 30)
    (3, 1, 0)
    """
    count = max(0, (int(limit) - fixed_bytes) // item_bytes)
    return count if maximum is None else min(count, maximum)


def rows_per_tile(n_rows: int, row_bytes: int, fixed_bytes: int, limit: int, preferred: int) -> int:
    """Return the rows of a tile: `preferred`, the fastest size, or as many as fit.

    Each row of the tile takes `row_bytes`, and any tile `fixed_bytes`, of `limit` bytes in all.
    ValueError if not even one row fits.
    """
    check_fits("one row at a time", fixed_bytes + row_bytes, limit)
    return count_fitting(limit, row_bytes, fixed_bytes, maximum=min(n_rows, preferred))


class MemoryLimitError(ValueError):
    """`max_memory` is too small."""


def check_fits(what: str, needed: int, limit: int, remedy: str = "use fewer hidden units") -> None:
    """Raise `MemoryLimitError` if `what` needs more bytes than the limit."""
    if needed > limit:
        raise MemoryLimitError(
            f"Not enough memory: {what} needs {format_bytes(needed)}, and "
            f"{format_bytes(limit)} are available within max_memory. Increase max_memory, or "
            f"{remedy}."
        )


def format_bytes(n: float) -> str:
    """Return a number of bytes with a binary unit.

    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


@dataclass(frozen=True)
class TileShape:
    """The part of H, `rows` x `units`, that an engine evaluates in one call.

    A device has a size M at which it is fastest; H is cut into parts of M^2 activations
    (Dogaru & Dogaru 2017: M^2 = m N).
    """

    rows: int
    units: int

    @classmethod
    def of(cls, M: int, asymmetry: int, n_units: int) -> "TileShape":
        """Return the shape for a layer of `n_units`.

        ``units = M / asymmetry`` and ``rows = M * asymmetry``. If the layer has fewer units, a
        part has all of them, and more rows accordingly.

        >>> TileShape.of(4096, asymmetry=1, n_units=8000)
        TileShape(rows=4096, units=4096)
        >>> TileShape.of(4096, asymmetry=1, n_units=512)
        TileShape(rows=32768, units=512)
        """
        units = min(n_units, M // asymmetry)
        return cls(M * M // units, units)

    def parts(self, n_rows: int, n_units: int) -> Iterator[tuple[slice, slice]]:
        """Iterate over (rows, units) of all parts, as slices; the last ones end with H."""
        return product(
            cut_rows(slice(0, n_rows), self.rows), cut_rows(slice(0, n_units), self.units)
        )


def tile_shape_for(engine: Engine, layer: Any, has_all_units: bool = False) -> TileShape:
    """Return the shape that was measured to be fastest here, or the engine's default."""
    if isinstance(layer, PatchLayer):  # divided by images only; its evaluator divides further
        return TileShape(IMAGES, layer.n_units)
    settings, n_units = engine.settings(layer), layer.n_units
    if has_all_units:
        return TileShape(max(1, settings["M"] ** 2 // n_units), n_units)
    return TileShape.of(settings["M"], settings["asymmetry"], n_units)


def evaluate(evaluator: Any, prepared: Any, shape: TileShape, X: Any, H: Any) -> None:
    """Write the activations of the rows X to H, one part of `shape` after the other."""
    for rows, units in shape.parts(*H.shape):
        evaluator.hidden(prepared, X[rows], out=H[rows], units=units)
