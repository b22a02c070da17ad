"""How much at a time: integers in, integers out."""

import re
from dataclasses import dataclass
from itertools import product
from numbers import Integral

# Bytes of each unit: powers of 1000, with or without the B, and of 1024.
_UNITS = {"": 1, "B": 1, "k": 1000, "kB": 1000}
for _power, _prefix in enumerate("KMGT", 1):
    _UNITS |= dict.fromkeys((_prefix, f"{_prefix}B"), 1000**_power)
    _UNITS[f"{_prefix}iB"] = 1024**_power


def parse_memory(value, free):
    """`max_memory` in bytes; None means half of the `free` bytes.

    "1G" is "1GB", as the SI has it. Some tools mean 1 GiB by it: a limit that keeps to the smaller
    of the two is kept in either meaning.

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


@dataclass(frozen=True)
class TileShape:
    """The part of a layer, `rows` x `units` outputs, that is evaluated at one time.

    A device has a size M at which it is fastest; a layer is cut into parts of M^2 outputs
    (Dogaru & Dogaru 2017: M^2 = m N).
    """

    rows: int
    units: int

    @classmethod
    def of(cls, M, asymmetry, n_units):
        """The basic layer for a layer of `n_units`.

        ``units = M / asymmetry``, ``rows = M * asymmetry``; where the layer has fewer units,
        all of them and as many more rows.

        >>> TileShape.of(4096, asymmetry=1, n_units=8000)
        TileShape(rows=4096, units=4096)
        >>> TileShape.of(4096, asymmetry=1, n_units=512)
        TileShape(rows=32768, units=512)
        """
        units = min(n_units, M // asymmetry)
        return cls(M * M // units, units)

    def parts(self, n_rows, n_units):
        """(rows, units) of each, as slices. The last ones end where the layer ends."""
        down = [slice(i, min(i + self.rows, n_rows)) for i in range(0, n_rows, self.rows)]
        across = [slice(j, min(j + self.units, n_units)) for j in range(0, n_units, self.units)]
        return product(down, across)


def rows_per_tile(n_rows, row_bytes, fixed_bytes, limit, preferred):
    """The rows of a tile: `preferred`, beyond which nothing is gained, or as many as fit.

    A row of it needs `row_bytes`, and any tile `fixed_bytes`, of `limit` in all. ValueError if not
    even one row fits.
    """
    check_fits("one row at a time", fixed_bytes + row_bytes, limit)
    return min(n_rows, preferred, (limit - fixed_bytes) // row_bytes)


def check_fits(what, needed, limit, remedy="use fewer hidden units"):
    """Raise ValueError where `what` needs more bytes than the limit."""
    if needed > limit:
        raise ValueError(
            f"max_memory={limit} bytes is too small: {what} needs {needed} "
            f"({format_bytes(needed)}). Raise max_memory, or {remedy}."
        )


def format_bytes(n):
    """
    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"
