"""Prediction by a linear readout: from tiles of H to outputs, and their standard deviations."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ..data.validation import NaNOutputError, check_no_nan
from ..utils.user_warnings import warn
from .uncovered import least_activity

# Rows of a tile up to which NumPy sums the activations.
_MAX_SUMMED_ROWS = 8
# Tiles whose scores are copied from a device together, and their bytes.
_MAX_QUEUE_TILES, _MAX_QUEUE_BYTES = 16, 2**25


class Solution(NamedTuple):
    """A readout: ``scores = H W' + b``."""

    W: Any  # (n_outputs, n_units)
    b: Any  # (n_outputs,)
    problem: str = ""  # message about ill-conditioned equations; "" if there is no problem


def warn_of_problem(problem: str) -> None:
    """Warn of a `Solution.problem`, if there is one."""
    if problem:
        warn(problem, ConvergenceWarning)


class LinearPredictor:
    """Outputs ``H W' + b`` of tiles of H, and the rows that no unit covers.

    Parameters
    ----------
    engine : Engine
    W, b : ndarrays of shape (n_outputs, n_units) and (n_outputs,)
        W may be in a wider dtype than H. Then each output is divided by its largest weight before
        W is rounded, so that no weight overflows.
    dtype : dtype
        Of H.
    finds_uncovered : bool
        Whether to collect the rows that no unit covers.
    """

    def __init__(
        self, engine: Any, W: npt.NDArray, b: npt.NDArray, dtype: Any, finds_uncovered: bool
    ):
        dtype = np.dtype(dtype)
        self._b = b.astype(max(b.dtype, dtype), copy=False)
        self._scale = None
        if W.dtype > dtype:
            largest = np.abs(W).max(axis=1)
            self._scale = np.where(largest > 0, largest, 1.0)
            W = W / self._scale[:, None]
        self._engine, self._W = engine, W.astype(dtype, copy=False)
        self._finds_uncovered, self._least = finds_uncovered, least_activity(dtype)
        self._uncovered: list[npt.NDArray] = []

    @property
    def row_bytes(self) -> int:
        """Bytes for a row of H: its outputs, with copies in float64."""
        return 24 * (len(self._b) + 1)

    @cached_property
    def _columns(self):
        """W' on the device; an additional column of ones sums the activations."""
        ones = np.ones(self._W.shape[1], self._W.dtype)
        columns = np.column_stack([self._W.T, ones]) if self._finds_uncovered else self._W.T
        return self._engine.to_device(columns)

    @property
    def uncovered(self) -> npt.NDArray:
        """Indices of the rows so far that no unit covers."""
        return np.concatenate(self._uncovered) if self._uncovered else np.empty(0, np.intp)

    def scores(self, part: slice, H: Any) -> npt.NDArray:
        """Return outputs (n_rows, n_outputs) on the host, of the tile of the rows `part`.

        Raises `NaNOutputError` if they are not finite.
        """
        # Building the columns takes longer than to sum few rows.
        if self._engine.xp is np and len(H) <= _MAX_SUMMED_ROWS:
            products = self._engine.algebra.multiply(H, self._W.T)
            return self._finish(part, products, H.sum(axis=1) if self._finds_uncovered else None)
        return self.scores_of_products(part, self.multiply(H))

    def multiply(self, H: Any) -> Any:
        """Return ``H W'``, and in another column the sums of activations, if these are needed."""
        return self._engine.algebra.multiply(H, self._columns)

    def scores_of_products(self, part: slice, products: Any) -> npt.NDArray:
        """`scores` of a tile, given what `multiply` returns."""
        products = self._engine.to_host(products)
        if self._finds_uncovered:
            return self._finish(part, products[:, :-1], products[:, -1])
        return self._finish(part, products, None)

    def _finish(self, part, products, activity):
        if self._finds_uncovered:
            is_uncovered = activity <= self._least
            if is_uncovered.any():
                self._uncovered.append(part.start + np.flatnonzero(is_uncovered))
        scores = (products if self._scale is None else products * self._scale) + self._b
        check_no_nan(scores)
        return scores


class ScoreQueue:
    """Passes the scores of tiles to a function, those of several tiles at a time on a GPU.

    Copying scores to the host waits for the GPU, which would then idle until the next tile is
    launched.

    Parameters
    ----------
    predictor : LinearPredictor
    consume : callable
        ``consume(part, scores)``.
    raise_overflow : callable
        ``raise_overflow(part)`` raises an error for scores that are not finite.
    max_bytes : int
        Bytes of scores that may be kept on the device; 0 if each tile is passed on at once.
    """

    def __init__(
        self,
        predictor: LinearPredictor,
        consume: Callable[[slice, npt.NDArray], None],
        raise_overflow: Callable[[slice], NoReturn],
        max_bytes: int,
    ):
        self._predictor, self._consume, self._raise_overflow = predictor, consume, raise_overflow
        self.nbytes = min(max_bytes, _MAX_QUEUE_BYTES)
        self._pending: list[tuple[slice, Any]] = []

    def put(self, part: slice, H: Any) -> None:
        if not self.nbytes:
            return self._consume(part, self._predictor.scores(part, H))
        products = self._predictor.multiply(H)
        self._pending.append((part, products))
        # A further tile must fit.
        n_bytes = (len(self._pending) + 1) * products.nbytes
        if len(self._pending) == _MAX_QUEUE_TILES or n_bytes > self.nbytes:
            self.flush()

    def flush(self) -> None:
        """Pass on the scores of all tiles so far."""
        pending, self._pending = self._pending, []
        for part, products in pending:
            try:
                scores = self._predictor.scores_of_products(part, products)
            except NaNOutputError:
                self._raise_overflow(part)
            self._consume(part, scores)


class Posterior(NamedTuple):
    """The posterior of a ridge readout as a Bayesian linear model of H.

    With noise of variance v and prior variance ``v / alpha`` of the weights, an output for h is
    normal around that of the readout, with variance
    ``v (1 + 1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` for the centred Gram matrix A
    (C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press
    2006, section 2.1; 1 / n is due to the intercept, which has a flat prior).
    """

    root: Any  # (n_units, n_directions): ``(A + alpha I)^-1 = root root'``
    mean: Any  # (n_units,): of H
    n: float  # sum of the sample weights
    noise: Any  # (n_outputs,): standard deviation of the noise


class StdPredictor:
    """Standard deviations of the outputs of tiles of H, by a `Posterior` of host arrays."""

    def __init__(self, engine: Any, posterior: Posterior, dtype: Any):
        self._engine, self._posterior, self._dtype = engine, posterior, dtype
        self._root, self._mean = (
            engine.to_device(a.astype(dtype, copy=False)) for a in (posterior.root, posterior.mean)
        )

    @property
    def fixed_bytes(self) -> int:
        return self._posterior.root.size * self._dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes for a row of H."""
        return sum(self._posterior.root.shape) * self._dtype.itemsize + 24

    def std(self, H: Any) -> npt.NDArray:
        """Return standard deviations (n_rows, n_outputs) on the host, in float64.

        H is overwritten.
        """
        xp, posterior = self._engine.xp, self._posterior
        H -= self._mean
        U = self._engine.algebra.multiply(H, self._root)
        squared_norms = self._engine.to_host(xp.einsum("ij,ij->i", U, U)).astype(np.float64)
        return np.sqrt(1 + 1 / posterior.n + squared_norms)[:, None] * posterior.noise
