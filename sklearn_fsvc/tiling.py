"""How many rows at a time: integers in, integers out."""

import re

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{p}B": 1000 ** (i + 1) for i, p in enumerate("KMGT")}
_UNITS |= {f"{p}iB": 1024 ** (i + 1) for i, p in enumerate("KMGT")}


def parse_memory(value, free):
    """`max_memory` in bytes; None means half of the `free` bytes.

    >>> parse_memory("2GiB", free=0), parse_memory(1000, free=0), parse_memory(None, free=10)
    (2147483648, 1000, 5)
    """
    if value is None:
        return free // 2
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if match is None or match[2] not in _UNITS:
            raise ValueError(f'max_memory={value!r} is not a size; write bytes, or "2GiB".')
        value = int(float(match[1]) * _UNITS[match[2]])
    elif isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f'max_memory={value!r} must be bytes as an int, or a str like "2GiB".')
    if value <= 0:
        raise ValueError(f"max_memory={value!r} must be greater than 0.")
    return value


def rows_per_tile(n_rows, row_bytes, fixed_bytes, budget, preferred):
    """The rows of a tile: as many as preferred, fewer where the budget says so.

    Parameters
    ----------
    n_rows : int
    row_bytes, fixed_bytes : int
        Bytes that a row of the tile needs, and that are needed whatever the tile.
    budget : int
        Bytes that may be taken in all.
    preferred : int
        Rows beyond which a larger tile gains nothing.

    Raises
    ------
    ValueError
        If not even one row fits.
    """
    check_fits("one row at a time", fixed_bytes + row_bytes, budget)
    return min(n_rows, preferred, (budget - fixed_bytes) // row_bytes)


def check_fits(what, needed, budget):
    """Raise ValueError where `what` needs more bytes than the budget has."""
    if needed > budget:
        raise ValueError(
            f"max_memory={budget} bytes is too small: {what} needs {needed} "
            f"({format_bytes(needed)}). Raise max_memory, or use fewer hidden units."
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
