"""Predictors that keep sums of their rows, from which the readout is solved when it is needed."""

from abc import abstractmethod
from dataclasses import fields

import joblib
import numpy as np
from sklearn.exceptions import NotFittedError

from ..engines import get_engine
from ..engines.algebra import HOST
from ..parameters import AUTO, penalties
from ..readouts.ridge import gather
from ..readouts.solution import warn_of
from ..readouts.statistics import RidgeStatistics
from ..readouts.stream import Stream
from ..rows.streaming import n_synapses, suited
from .current import Current
from .predictor import HiddenLayerPredictor

# The part of the memory that rows may take which wait.
_WAITING = 1 / 8
# Products of H are made in float64, for rows may go again. In the dtype of H, as `fit` makes them,
# the rounding of what came and went adds up: 7e-3 of the coefficients for a tenth of MNIST.
_DTYPE = np.float64
# Rows that are worth a product, as many as `gather` takes at a time.
_ROWS_PER_UNIT, _LEAST_ROWS = 4, 1024


class SummingPredictor(HiddenLayerPredictor):
    """A predictor that may have a `Stream`: then that is what it has learnt."""

    readout_coef_, readout_intercept_, alpha_ = Current(), Current(), Current()

    @abstractmethod
    def _why_no_stream(self):
        """Why rows cannot come one after the other, and what to do; None where they can."""

    def _fit_on(self, job, X, y, sample_weight):
        for name in ("_stream", "_made_with", "_found_alpha", "_solved_alpha"):
            vars(self).pop(name, None)
        super()._fit_on(job, X, y, sample_weight)

    @property
    def _is_summing(self):
        return "_stream" in vars(self)

    def _start(self, layer, memory_limit):
        """Begin with no rows."""
        self._made_with = self.layer, layer.formula
        most_rows = max(_LEAST_ROWS, _ROWS_PER_UNIT * layer.n_units)
        self._go_on(Stream(most_rows, int(_WAITING * memory_limit)))

    def _sums_of(self, samples):
        """`RidgeStatistics` of rows, on the host."""
        layer = suited(self._layer(), samples.X)
        with get_engine(self.device, n_synapses(samples.X, layer.n_units)) as engine:
            self.device_ = engine.name
            job = self._job(engine, "partial_fit")
            if engine.algebra is HOST:  # there are a total and rows that wait, and copies of them
                taken = RidgeStatistics.nbytes(layer.n_units) + self._stream.n_bytes
                job = job.reserving(2 * taken)
            (statistics,) = gather(job, [layer], samples, dtype=_DTYPE)
            return statistics.on(HOST)

    def _go_on(self, stream):
        self._stream, self._solved_alpha = stream, None

    def _settle(self):
        """Solve the readout, if rows have come or gone, or the penalty is another one."""
        if not self._is_summing:
            return
        alpha = self._penalty()
        if self._solved_alpha == alpha:
            return
        if self._stream.is_empty:
            raise NotFittedError(
                f"This {type(self).__name__} has forgotten all rows; give it others by partial_fit."
            )
        self._stream = self._stream.flush(self._sums_of)
        solution = self._stream.total.solve(alpha)
        self._use_readout(solution.W, solution.b, self._layer().hidden_dtype)
        self.alpha_, self._solved_alpha = alpha, alpha
        warn_of(solution.problem)

    def _penalty(self):
        """The ridge penalty by which rows that came and went are answered."""
        alphas, is_chosen = penalties(self.alpha)
        if not is_chosen:
            return alphas[0]
        if alphas == AUTO and "_found_alpha" in vars(self):
            return self._found_alpha
        raise ValueError(
            self._why_no_stream()
            or 'alpha="auto" is found in the first call of partial_fit, and then alpha was a '
            "number; give a number."
        )

    def __getstate__(self):
        if self._is_summing:  # rows do not travel
            self._stream = self._stream.flush(self._sums_of)
        return super().__getstate__()

    def _digest(self):
        """What tells layers apart."""
        layer = self._layer()
        return joblib.hash([getattr(layer, field.name) for field in fields(layer)])

    def _is_same_layer(self):
        """Whether the parameters mean the layer that the sums are of."""
        given, formula = self._made_with
        are_arrays = isinstance(given, np.ndarray) and isinstance(self.layer, np.ndarray)
        is_same = given is self.layer or (are_arrays and np.array_equal(given, self.layer))
        return is_same and formula == self._layer().formula
