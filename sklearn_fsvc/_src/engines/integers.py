"""Exact products of integers, and packed bytes."""

import sys
import weakref
from functools import cache, partial

import numpy as np

from .threads import n_threads, share

# Exact sums of products of activations that are rounded to steps.
#
# Activations in steps of 2^-8 are integers of 8 bits times a constant power of two. Sums of their
# products are exact: in integers, by an instruction for bytes (15 bits are two bytes) or for pairs
# of 16 bits; in floats, for as many rows as the mantissa can hold.

# Rows whose products are added up in 32 bits: 255 * 255 * 32,768 < 2^31.
MOST_ROWS = 32_768
# Rows that are worth a product of their own.
_FEW_ROWS = 64
# Groups of units that a thread packs at a time, and columns that it adds up.
_PACKED, _COLUMNS = 8, 64


def exact_sums(steps, dtype):
    """How many integers add up without rounding in a float type."""
    return 2 ** (np.finfo(dtype).nmant + 1) // steps.most


def exact_products(steps, dtype):
    """A float type, this one or float64, and of how many rows it adds up products exactly."""
    n_rows = exact_sums(steps, dtype) // steps.most
    if n_rows < _FEW_ROWS:
        dtype, n_rows = np.dtype(np.float64), exact_sums(steps, np.float64) // steps.most
    return dtype, n_rows


@cache
def _instruction():
    """What this processor has for bytes, as `target.Target` says; None without compiled loops."""
    try:
        from numba import config

        from .kernels.target import TARGET
    except ImportError:
        return None
    return None if config.DISABLE_JIT else TARGET.uint8


def has_bytes():
    """Whether products of bytes are much faster than those of floats here.

    Apple's processors multiply bytes as well, but its library has a unit of its own for matrices of
    floats, beside which nobody has measured them.
    """
    return _multiplies_bytes() and sys.platform != "darwin"


def _multiplies_bytes():
    return _instruction() in ("vnni", "udot")


def has_integers(steps):
    """Whether there is a loop for such integers that is faster than exact products of floats."""
    return _multiplies_bytes() or (steps.bits == 8 and _instruction() == "sad")


def add_gram(blocks, H, steps):
    """Add H'H to the lower triangle of a matrix, by products of integers.

    Parameters
    ----------
    blocks : list of (int, ndarray)
        As those of `PackedSymmetric`: number of the first column, which is a multiple of 64,
        and the panel in float64.
    H : ndarray of shape (rows, units)
        Rounded to 8 or 15 bits by `steps`.
    steps : Steps
    """
    for start in range(0, len(H), MOST_ROWS):
        _add_gram(blocks, H[start : start + MOST_ROWS], steps)


def _add_gram(blocks, H, steps):
    from .kernels import integers

    if steps.bits == 8:
        zero = steps.zero if integers.HAS_BYTES else 0
        (words,), (totals,) = _packed(H, steps, zero, integers, "pack", 1)
        # Sums of the products of q, made of those of q + zero - LESS and q + zero.
        other, n_rows = zero - integers.LESS, words.shape[1] * integers.EACH
        more = -zero * totals - n_rows * zero * other, -other * totals
        multiply = partial(integers.add_products, words)
    else:
        (high, low), (of_high, of_low) = _packed(H, steps, steps.zero, integers, "split", 2)
        # Sums of the products of q, made of those of q + zero.
        less = -steps.zero * (128 * of_high + of_low)
        lost = integers.LESS * (128 + 1) * (128 * of_high + of_low) + steps.zero**2 * len(H)
        more, multiply = (less, less + lost), partial(integers.add_split_products, high, low)

    def add(part):
        begin, first, block = part
        end = min(begin + _COLUMNS, first + block.shape[1])
        multiply(first, begin, end, *more, steps.scale**-2, block.T)

    parts = [
        (begin, first, block)
        for first, block in blocks
        for begin in range(first, first + block.shape[1], _COLUMNS)
    ]
    share(add, parts, n_threads())


def _packed(H, steps, zero, integers, how, n):
    """(`n` arrays of words, sums of the units of each): see `kernels.integers`."""
    n_rows, n_units = H.shape
    n_groups = -(-n_units // integers.GROUP)
    shape = n_groups, -(-n_rows // integers.EACH), integers.GROUP
    packed, totals = [np.empty(shape, np.int32) for _ in range(n)], np.zeros((n, n_units))
    pack, sums = getattr(integers, f"{how}_{H.dtype}"), totals[0] if n == 1 else totals

    def fill(begin):
        end = min(begin + _PACKED, n_groups)
        pack(H, H.dtype.type(steps.scale), zero, begin, end, *packed, sums)

    share(fill, range(0, n_groups, _PACKED), n_threads())
    return packed, totals


# Units as the compiled loops want them: in panels, a unit for each lane of the vectors.

# Small layers that are kept, and bytes of the units of one.
_MOST, _SMALL = 16, 2**18
# Numbers that tell units apart.
_LANES = 128
# Key -> panels. Of larger layers there is one, for as long as its units live.
_kept, _large = {}, {}


def pack(units, item, vectors):
    """Units as panels (n_panels, items, lanes), zero-padded, on a cache-line boundary."""
    lanes = _lanes(item, vectors)
    n_panels = -(-len(units) // lanes)
    items = items_of_rows(units, item)
    panels = _aligned((n_panels, items.shape[1], lanes), item)
    n_full = len(items) // lanes
    full, rest = items[: n_full * lanes], items[n_full * lanes :]
    panels[:n_full] = full.reshape(n_full, lanes, items.shape[1]).transpose(0, 2, 1)
    if len(rest):
        panels[n_full, :, : len(rest)] = rest.T
        panels[n_full, :, len(rest) :] = 0
    return panels


def packed_bytes(units, item, vectors):
    """Bytes that `pack` takes: the panels, and the items where they are bytes."""
    lanes = _lanes(item, vectors)
    (m, n), per_item = units.shape, item.itemsize // units.dtype.itemsize
    n_bytes = -(-m // lanes) * lanes * -(-n // per_item) * item.itemsize
    return n_bytes if item == units.dtype else n_bytes + m * (n + item.itemsize)


def _lanes(item, vectors):
    from .kernels.target import TARGET

    return vectors * TARGET.width // max(item.itemsize, 4 if item == np.uint8 else 1)


def _aligned(shape, dtype):
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


def items_of_rows(X, item):
    """Rows as rows of items: zero-padded, where the features do not fill the last one."""
    if item == X.dtype:
        return X
    per_item = item.itemsize
    n = -(-X.shape[1] // per_item) * per_item
    if n != X.shape[1] or X.ctypes.data % per_item:
        padded = np.zeros((len(X), n), np.uint8)
        padded[:, : X.shape[1]] = X
        X = padded
    return X.view(item)


def by_panel(values, panels, dtype, n_units):
    """One value a unit, or one for all, as (n_panels, lanes), zero-padded."""
    padded = np.zeros(panels.shape[0] * panels.shape[2], dtype)
    padded[:n_units] = values
    return padded.reshape(panels.shape[0], panels.shape[2])


def laid_out(units, item, vectors, row_sums):
    """`lay_out` for few rows.

    Those of a few small layers are kept, and those of one larger layer as long as the array of its
    units is there: to make them takes longer than to answer one row. They are found by a
    fingerprint of the units: so units that somebody has changed in place are laid out anew.
    """
    if not units.size:
        return lay_out(units, item, vectors, row_sums)
    key = units.shape, units.dtype.char, item.char, vectors, row_sums, _fingerprint(units)
    if units.nbytes > _SMALL:
        return _laid_out_large(key, units, item, vectors, row_sums)
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = lay_out(units, item, vectors, row_sums)
        for oldest in list(_kept)[:-_MOST]:  # one step, whatever other threads do
            _kept.pop(oldest, None)
    return found


def _laid_out_large(key, units, item, vectors, row_sums):
    found = _large.get(key)
    if found is None or found[0]() is not units:
        found = weakref.ref(units, lambda gone: _forget(key, gone)), None
        panels = lay_out(units, item, vectors, row_sums)
        _large.clear()
        found = _large[key] = found[0], panels
    return found[1]


def _forget(key, gone):
    """Let panels go whose units are gone, but for those that others were laid out for since."""
    if _large.get(key, (None,))[0] is gone:
        _large.pop(key, None)


def _fingerprint(units):
    from .kernels.cpu import fingerprint

    numbers = units.reshape(-1).view(np.uint8)
    n = numbers.size // (4 * _LANES) * (4 * _LANES)
    found, words = np.zeros(_LANES, np.uint32), numbers[:n].view(np.uint32).reshape(-1, _LANES)
    words.flags.writeable = False  # one type for numba
    fingerprint(words, found)
    return found.tobytes() + numbers[n:].tobytes()


def lay_out(units, item, vectors, row_sums):
    """The panels of units, and by panel what ``row_sums(units)`` sums of each."""
    panels = pack(units, item, vectors)
    sums = (by_panel(a, panels, a.dtype, len(a)) for a in row_sums(units))
    return panels, tuple(sums)
