"""The units of a layer in the layout of the compiled loops: panels of vectors.

A panel has the units of a register block (`kernels.simd`), transposed and zero-padded: the values
of all its units for one feature are contiguous, one for each lane. To predict few samples, packing
takes longer than evaluating, so the panels of recent layers are cached.
"""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

# Small layers whose panels are cached, and bytes of the units of one.
MAX_SMALL, SMALL_BYTES = 16, 2**18
# Hashes that a fingerprint of units consists of, for 4 bytes each.
_N_HASHES = 128
# Key -> panels of small layers; and of one larger layer, with a reference to its units.
_small: dict[tuple, Any] = {}
_large: dict[tuple, tuple[weakref.ref, Any]] = {}

RowSums = Callable[[np.ndarray], tuple[np.ndarray, ...]]


def make_panels(
    units: np.ndarray, item: np.dtype, lanes: int, row_sums: RowSums
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return the panels of units, and the arrays of ``row_sums(units)`` by panel.

    Parameters
    ----------
    units : ndarray of shape (n_units, n_features)
    item : dtype
        That of the units, or an integer of several bytes.
    lanes : int
        Units of a panel.
    row_sums : callable
        Returns arrays with a value for each unit.
    """
    panels = pack(units, item, lanes)
    sums = (by_panel(a, panels, a.dtype, len(a)) for a in row_sums(units))
    return panels, tuple(sums)


def cached_panels(
    units: np.ndarray, item: np.dtype, lanes: int, row_sums: RowSums
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return `make_panels`, from a cache if the same units were packed before.

    Panels of a few small layers are kept, and those of one larger layer as long as the array of
    its units exists. The key has a fingerprint of the units, so that units that were changed in
    place are packed again.
    """
    if not units.size:
        return make_panels(units, item, lanes, row_sums)
    key = units.shape, units.dtype.char, item.char, lanes, row_sums, fingerprint_units(units)
    if units.nbytes > SMALL_BYTES:
        return _cached_large(key, units, item, lanes, row_sums)
    panels = _small.get(key)
    if panels is None:
        panels = _small[key] = make_panels(units, item, lanes, row_sums)
        for oldest in list(_small)[:-MAX_SMALL]:  # list() is atomic: no lock is needed
            _small.pop(oldest, None)
    return panels


def pack(units: np.ndarray, item: np.dtype, lanes: int) -> np.ndarray:
    """Return units as panels (n_panels, items, lanes), zero-padded, aligned to a cache line."""
    n_panels = -(-len(units) // lanes)
    items = as_items(units, item)
    panels = _aligned((n_panels, items.shape[1], lanes), item)
    n_full = len(items) // lanes
    full, rest = items[: n_full * lanes], items[n_full * lanes :]
    panels[:n_full] = full.reshape(n_full, lanes, items.shape[1]).transpose(0, 2, 1)
    if len(rest):
        panels[n_full, :, : len(rest)] = rest.T
        panels[n_full, :, len(rest) :] = 0
    return panels


def packed_bytes(units: np.ndarray, item: np.dtype, lanes: int) -> int:
    """Return the bytes that `pack` allocates: panels, and the padded copy of units of bytes."""
    (m, n), per_item = units.shape, item.itemsize // units.dtype.itemsize
    n_bytes = -(-m // lanes) * lanes * -(-n // per_item) * item.itemsize
    return n_bytes if item == units.dtype else n_bytes + m * (n + item.itemsize)


def as_items(X: np.ndarray, item: np.dtype) -> np.ndarray:
    """Return rows of features as rows of items, zero-padded if the last item is incomplete."""
    if item == X.dtype:
        return X
    per_item = item.itemsize
    n = -(-X.shape[1] // per_item) * per_item
    if n != X.shape[1] or X.ctypes.data % per_item:  # copied, too, if X is not aligned
        padded = np.zeros((len(X), n), np.uint8)
        padded[:, : X.shape[1]] = X
        X = padded
    return X.view(item)


def by_panel(values: Any, panels: np.ndarray, dtype: Any, n_units: int) -> np.ndarray:
    """Return one value for each unit, or one for all, as (n_panels, lanes), zero-padded."""
    padded = np.zeros(panels.shape[0] * panels.shape[2], dtype)
    padded[:n_units] = values
    return padded.reshape(panels.shape[0], panels.shape[2])


def _cached_large(key, units, item, lanes, row_sums):
    entry = _large.get(key)
    if entry is None or entry[0]() is not units:
        reference = weakref.ref(units, lambda reference: _drop(key, reference))
        entry = reference, make_panels(units, item, lanes, row_sums)
        _large.clear()
        _large[key] = entry
    return entry[1]


def _drop(key, reference):
    """Drop the panels of units that were deleted, unless others have replaced them since."""
    if _large.get(key, (None,))[0] is reference:
        _large.pop(key, None)


def fingerprint_units(units):
    """Return bytes that change with any value: `_N_HASHES` polynomial hashes, and the remainder."""
    from .kernels.cpu import fingerprint

    values = units.reshape(-1).view(np.uint8)
    n = values.size // (4 * _N_HASHES) * (4 * _N_HASHES)
    hashes = np.zeros(_N_HASHES, np.uint32)
    words = values[:n].view(np.uint32).reshape(-1, _N_HASHES)
    words.flags.writeable = False  # so that the loop has one signature
    fingerprint(words, hashes)
    return hashes.tobytes() + values[n:].tobytes()


def _aligned(shape, dtype):
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)
