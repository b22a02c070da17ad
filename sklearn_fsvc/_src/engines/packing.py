"""Units as the compiled loops want them: in panels, a unit for each lane of the vectors."""

import weakref

import numpy as np

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
