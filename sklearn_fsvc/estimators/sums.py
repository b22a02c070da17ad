"""Predictors that keep sums of their rows, from which the readout is solved when it is needed."""

from abc import abstractmethod
from dataclasses import fields

import joblib
import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..engines import get_engine
from ..engines.algebra import HOST
from ..parameters import AUTO, is_word, penalties
from ..readouts.held_out import Trials, n_judges, search_penalty
from ..readouts.ridge import gather
from ..readouts.solution import warn_of
from ..readouts.statistics import RidgeStatistics
from ..readouts.stream import Stream
from ..readouts.sums import Sums, held_rows, n_parts
from ..rows.streaming import n_synapses, suited
from .predictor import HiddenLayerPredictor
from .solved import Solved
from .turns import changed, twin_of

# The part of the memory that rows may take which wait.
_WAITING = 1 / 8
# Products of H are made in float64, for rows may go again. In the dtype of H, as `fit` makes them,
# the rounding of what came and went adds up: 7e-3 of the coefficients for a tenth of MNIST.
_DTYPE = np.float64
# Rows that are worth a product, as many as `gather` takes at a time.
_ROWS_PER_UNIT, _LEAST_ROWS = 4, 1024
# Rows that came and went since a penalty was found, as a part of those that are there, after which
# it is found anew. It takes about as long as to solve the readout.
_GROWTH = 0.1
_OF_STREAMS = (
    "_stream", "_made_with", "_found_alpha", "_found_at", "_solved_alpha", "_layer_trials",
    "_first_penalty",
)  # fmt: skip


class SummingPredictor(HiddenLayerPredictor):
    """A predictor that may have a `Stream`: then that is what it has learnt."""

    readout_coef_, readout_intercept_, alpha_ = Solved(), Solved(), Solved()

    @abstractmethod
    def _why_no_stream(self):
        """Why rows cannot come one after the other, and what to do; None where they can."""

    def _fit_on(self, job, X, y, sample_weight):
        for name in _OF_STREAMS:
            vars(self).pop(name, None)
        super()._fit_on(job, X, y, sample_weight)

    @property
    def _is_summing(self):
        return "_stream" in vars(self)

    def _start(self, layer, memory_limit, trials):
        """Begin with no rows, in a layer for which these `Trials` were made."""
        self._made_with = self.layer, layer.formula
        self._layer_trials, self._first_penalty = list(trials.rows), trials.first_alpha
        most_rows = max(_LEAST_ROWS, _ROWS_PER_UNIT * layer.n_units)
        parts = n_parts(layer.n_units) if is_word(self.alpha, "auto") else 0
        self._go_on(Stream(most_rows, int(_WAITING * memory_limit), n_parts=parts))

    def _sums_of(self, samples, n_parts):
        """`Sums` of rows, on the host."""
        layer = suited(self._layer(), samples.X)
        judges = layer.part(slice(n_judges(layer.n_units)))
        with get_engine(self.device, n_synapses(samples.X, layer.n_units)) as engine:
            self.device_ = engine.name
            job = self._job(engine, "partial_fit")
            if engine.algebra is HOST:  # there are a total and rows that wait, and copies of them
                taken = RidgeStatistics.nbytes(layer.n_units) + self._stream.n_bytes
                taken += n_parts * RidgeStatistics.nbytes(judges.n_units)
                job = job.reserving(2 * taken)

            def gathered(layer, rows=None):
                (statistics,) = gather(job, [layer], samples, rows=rows, dtype=_DTYPE)
                return statistics.on(HOST)

            parts = held_rows(samples, n_parts)
            held = tuple(gathered(judges, rows) if len(rows) else None for rows in parts)
            return Sums(gathered(layer), held)

    def _go_on(self, stream):
        """Have learnt what a stream holds, whose readout is not solved."""
        self._stream, self._solved_alpha = stream, None
        for name in [n for n in vars(self) if _is_solved(type(self), n)]:
            delattr(self, name)

    def solve(self):
        """Solve the readout for the rows that came and went.

        `predict` and other methods that need it do so by themselves. Fitted attributes of the
        readout, such as `readout_coef_` and `alpha_`, are there afterwards, until rows come or
        go, and no row waits: a model that is saved then holds sums and no rows. After `fit`
        there is nothing to solve.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If nothing was learnt, or all of it was forgotten.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn_fsvc import TanhRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = TanhRegressor(50, alpha=1.0, random_state=0).partial_fit(X, y)
        >>> hasattr(model, "readout_coef_")
        False
        >>> model.solve().readout_coef_.shape
        (1, 50)
        """
        check_is_fitted(self)
        self._as_it_stands()
        return self

    def _as_it_stands(self):
        model = twin_of(self)
        if model._is_summing and not model._is_settled:
            del model  # in two steps, and nobody holds the sums that were before
            changed(self, type(self)._flush)
            model = changed(self, type(self)._settle)
        return model

    @property
    def _is_settled(self):
        return self._solved_alpha == self._penalty()

    def _flush(self):
        """Sum the rows that wait."""
        self._stream = self._stream.flush(self._sums_of)

    def _settle(self):
        """Solve the readout, if rows have come or gone, or the penalty is another one."""
        if self._is_settled:
            return
        if self._stream.is_empty:
            raise NotFittedError(
                f"This {type(self).__name__} has forgotten all rows; give it others by partial_fit."
            )
        self._flush()
        penalty = self._penalty()
        alpha = self._best_penalty() if penalty == "auto" else penalty
        solution = self._stream.total.solve(alpha)
        self._use_readout(solution.W, solution.b, self._layer().hidden_dtype)
        self.alpha_, self._solved_alpha = alpha, penalty
        warn_of(solution.problem)

    def _penalty(self):
        """The ridge penalty by which rows that came and went are answered, or "auto"."""
        alphas, is_chosen = penalties(self.alpha)
        if not is_chosen:
            return alphas[0]
        if alphas == AUTO and (self._stream.n_parts or "_found_alpha" in vars(self)):
            return "auto"
        raise ValueError(
            self._why_no_stream()
            or 'alpha="auto" is judged by rows that are held out from the first call of '
            "partial_fit on, and then alpha was a number, or it was in a model that was merged; "
            "give a number."
        )

    def _best_penalty(self):
        """The penalty of the least error on the rows that are held out, found anew now and then."""
        stream = self._stream
        n_moved, n_there = stream.n_came + stream.n_gone, stream.n_came - stream.n_gone
        if self.forgetting < 1:
            n_there = min(n_there, 1 / (1 - self.forgetting))
        is_old = n_moved - vars(self).get("_found_at", -np.inf) >= _GROWTH * n_there
        folds = stream.sums.folds() if is_old else []
        if folds:
            trials = Trials(self._first_penalty, list(self._layer_trials))
            found = search_penalty(folds, self._first_penalty)
            trials.add(self._layer(), found)
            trials.leave(self)
            self._found_alpha, self._found_at = found.alpha, n_moved
        # In a model of an earlier version there is that of its first rows, and it stays.
        return self._found_alpha if "_found_alpha" in vars(self) else self._first_penalty

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


def _is_solved(cls, name):
    """Whether an attribute is one of the readout."""
    return isinstance(getattr(cls, name, None), Solved)
