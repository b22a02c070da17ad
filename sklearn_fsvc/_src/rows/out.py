"""Answers that go where the user says: into an array, a memmap, or a data set of a file."""

from itertools import pairwise

import numpy as np


def check_out(out, shape, dtype=None):
    """Raise if answers of a shape, floats of a dtype if one is given, do not fit into `out`."""
    if not hasattr(out, "shape") or not hasattr(out, "__setitem__"):
        raise TypeError(
            f"out is a {type(out).__name__}; give an array, a numpy.memmap, or a data set of h5py "
            "or zarr."
        )
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"out has shape {tuple(out.shape)}, and the result has {tuple(shape)}.")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out cannot be written to: it is read-only.")
    if dtype is not None and out.dtype.kind != "f":
        raise ValueError(
            f"out has dtype {out.dtype}, and the result is {np.dtype(dtype)}; give floats."
        )


def check_holds(out, values):
    """Raise if not every one of some values would be the same in `out`."""
    try:
        is_held = np.array_equal(values.astype(out.dtype), values)
    except (TypeError, ValueError):
        is_held = False
    if not is_held:
        raise ValueError(f"out has dtype {out.dtype}, which cannot hold all of {values}.")


def write(out, rows, values):
    """Do ``out[rows] = values``; of a file, in slices. Row numbers ascend."""
    if isinstance(rows, slice) or isinstance(out, np.ndarray):
        out[rows] = values
        return
    edges = [0, *np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)]
    for start, stop in pairwise(edges):
        if stop > start:
            out[int(rows[start]) : int(rows[stop - 1]) + 1] = values[start:stop]
