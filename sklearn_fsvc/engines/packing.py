"""Units as the compiled loops want them: in panels, a unit for each lane of the vectors."""

import numpy as np


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


def by_panel(values, panels, dtype):
    """One value a unit as (n_panels, lanes), zero-padded."""
    padded = np.zeros((panels.shape[0], panels.shape[2]), dtype)
    padded.flat[: len(values)] = values
    return padded
