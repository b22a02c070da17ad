"""The weighted mean of independent values, and its standard error."""

import numpy as np
import numpy.typing as npt


def mean_and_error(values: npt.NDArray, weight: npt.NDArray) -> tuple[float, float]:
    """Return the weighted mean of independent values (n_rows,), and the standard error of it."""
    share = weight / weight.sum()
    mean = share @ values
    return float(mean), float(np.sqrt(share**2 @ (values - mean) ** 2))
