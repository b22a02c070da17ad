"""Answers to rows of Dask: arrays of Dask, whose blocks are answered where they are."""

from copy import copy
from functools import wraps

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..rows.blocks import as_array, is_dask
from ..rows.tasks import limited
from ..rows.validation import to_host


def lazy_on_dask(method):
    """A method that answers rows, and of collections of Dask says what answers they will have.

    The estimator says by ``_empty_output(name, dtype)`` what the method gives for no rows.
    """

    @wraps(method)
    def answer(self, X, *args, **options):
        if not is_dask(X):
            return method(self, X, *args, **options)
        if args or options.get("out") is not None:
            raise TypeError(
                f"{method.__name__} of a Dask array takes no positional arguments beside X, and "
                "no out; use dask.array.store, or to_zarr of what it returns."
            )
        options.pop("out", None)
        return _lazy(self, method.__name__, X, options)

    return answer


def _lazy(model, name, X, options):
    from dask import delayed

    check_is_fitted(model)
    array, names = as_array(X)
    validate_data(model, array if names is None else names, skip_check_array=True, reset=False)
    empty = model._empty_output(name, array.dtype, **options)
    bare = copy(model)
    vars(bare).pop("feature_names_in_", None)  # blocks have none
    node = delayed(bare, pure=False, traverse=False)
    if isinstance(empty, np.ndarray):
        return _mapped(array, node, name, options, empty)
    return type(empty)(_mapped(array, node, name, options, e, k) for k, e in enumerate(empty))


def _mapped(array, node, name, options, empty, number=None):
    columns = [(size,) for size in empty.shape[1:]]
    return array.map_blocks(
        _answer, model=node, method=name, options=options, empty=empty, number=number,
        dtype=empty.dtype, chunks=(array.chunks[0], *columns), meta=empty,
        drop_axis=[1] if empty.ndim == 1 else None,
    )  # fmt: skip


def _answer(block, model, method, options, empty, number):
    if not len(block):
        return empty
    with limited():
        found = getattr(model, method)(to_host(block), **options)
    return found if number is None else found[number]
