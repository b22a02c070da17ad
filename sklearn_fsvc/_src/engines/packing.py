"""Units as the compiled loops want them: in panels, a unit for each lane of the vectors."""

import numpy as np

# Layers that are kept, and bytes of the units of one: three times that for each, 12 MB at most.
_MOST, _SMALL = 16, 2**18
_kept = {}


def pack(units, item, vectors):
    """Units as panels (n_panels, items, lanes), zero-padded, on a cache-line boundary."""
    from .kernels.target import TARGET

    lanes = vectors * TARGET.width // max(item.itemsize, 4 if item == np.uint8 else 1)
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
    from .kernels.target import TARGET

    lanes = vectors * TARGET.width // max(item.itemsize, 4 if item == np.uint8 else 1)
    (m, n), per_item = units.shape, item.itemsize // units.dtype.itemsize
    n_bytes = -(-m // lanes) * lanes * -(-n // per_item) * item.itemsize
    return n_bytes if item == units.dtype else n_bytes + m * (n + item.itemsize)


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

    Those of a few small layers are kept, for to make them takes longer than to answer one row.
    They are found by the numbers of the units, all of which are compared: so units that somebody
    has changed in place are laid out anew.
    """
    if not 0 < units.nbytes <= _SMALL:
        return lay_out(units, item, vectors, row_sums)
    key = units.shape, units.dtype.char, item.char, vectors, row_sums, units[0].tobytes()
    known, found = _kept.get(key, (None, None))
    if known is None or not np.array_equal(known, _bits(units)):
        found = lay_out(units, item, vectors, row_sums)
        _kept.pop(key, None)
        _kept[key] = _bits(units).copy(), found
        for oldest in list(_kept)[:-_MOST]:  # one step, whatever other threads do
            _kept.pop(oldest, None)
    return found


def lay_out(units, item, vectors, row_sums):
    """The panels of units, and by panel what ``row_sums(units)`` sums of each."""
    panels = pack(units, item, vectors)
    sums = (by_panel(a, panels, a.dtype, len(a)) for a in row_sums(units))
    return panels, tuple(sums)


def _bits(units):
    """Numbers as integers: NaN is itself, and -0 is not 0."""
    return units.view(f"u{units.itemsize}")
