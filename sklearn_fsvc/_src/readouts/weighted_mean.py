"""Weighted means of independent values, and deviations from them."""

from typing import Any

import numpy as np
import numpy.typing as npt


def mean_and_error(values: npt.NDArray, weight: npt.NDArray) -> tuple[float, float]:
    """Return the weighted mean of independent values (n_rows,), and the standard error of it."""
    share = weight / weight.sum()
    mean = share @ values
    return float(mean), float(np.sqrt(share**2 @ (values - mean) ** 2))


def squared_deviation(Y: npt.NDArray, weight: npt.NDArray, left_out: Any = 0.0) -> float:
    """Return the weighted mean of ``|y - mean|^2`` over the rows of Y, (n_rows, n_outputs).

    `left_out` is the share of each row in the mean, if the mean is that of all other rows.
    """
    share = weight / weight.sum()
    deviations = (Y - share @ Y) / (1 - np.reshape(left_out, (-1, 1)))
    return float(share @ np.square(deviations).sum(axis=1))
