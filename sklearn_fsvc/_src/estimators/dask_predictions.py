"""Predictions of Dask arrays: methods return Dask arrays, whose blocks are computed later."""

import inspect
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.dask_blocks import (
    as_dask_array,
    check_dense,
    is_dask_collection,
    limit_task_threads,
    shared_node,
)
from ..data.validation import to_host


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that maps Dask arrays to Dask arrays, and others as `method` does.

    The estimator declares dtype and shape of its result by ``_empty_output(name, dtype)``.
    """

    @wraps(method)
    def predict(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_dask_collection(X):
            return method(self, X, *args, **options)
        options = dict(inspect.signature(method).bind(self, X, *args, **options).arguments)
        if options.pop("out", None) is not None:
            raise TypeError(
                f"{method.__name__} of a Dask array takes no out; use dask.array.store, or to_zarr "
                "of the result."
            )
        del options["self"], options["X"]
        return _lazy(self, method.__name__, X, options)

    return predict


def _lazy(model: Any, name: str, X: Any, options: dict[str, Any]) -> Any:
    """Return the Dask array of a method, or a list or tuple of them for several results."""
    check_is_fitted(model)
    array, names = as_dask_array(X)
    validate_data(model, array if names is None else names, skip_check_array=True, reset=False)
    empty = model._empty_output(name, array.dtype, **options)
    model_on_blocks = copy(model)
    if hasattr(model_on_blocks, "feature_names_in_"):
        del model_on_blocks.feature_names_in_  # blocks are arrays without names
    model_node = shared_node(model_on_blocks)
    if isinstance(empty, np.ndarray):
        return _mapped(array, model_node, name, options, empty)
    return type(empty)(
        _mapped(array, model_node, name, options, e, number) for number, e in enumerate(empty)
    )


def _mapped(
    array: Any,
    model_node: Any,
    name: str,
    options: dict[str, Any],
    empty: npt.NDArray[Any],
    number: int | None = None,
) -> Any:
    columns = [(size,) for size in empty.shape[1:]]
    return array.map_blocks(
        _predict_block, model=model_node, method=name, options=options, empty=empty,
        number=number, dtype=empty.dtype, chunks=(array.chunks[0], *columns), meta=empty,
        drop_axis=[1] if empty.ndim == 1 else None, new_axis=[2] if empty.ndim == 3 else None,
    )  # fmt: skip


def _predict_block(
    block: Any,
    model: Any,
    method: str,
    options: dict[str, Any],
    empty: npt.NDArray[Any],
    number: int | None,
) -> Any:
    """Return the result of a method for one block, or one of its results."""
    if not len(check_dense(block)):
        return empty
    with limit_task_threads():
        result = getattr(model, method)(to_host(block), **options)
    return result if number is None else result[number]
