"""A hidden layer with a linear readout: train it, answer with it. Knows no classes."""

from abc import abstractmethod
from copy import copy
from threading import Lock

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _check_y

from ..parameters import AUTO, is_word, penalties
from ..readouts.held_out import Trials, train_held_out
from ..readouts.linear import LinearReadout
from ..readouts.press import choose_penalty
from ..readouts.ridge import gather
from ..readouts.solution import warn_of
from ..rows.blocks import is_dask
from ..rows.fold import part_of, shares_of, side_by_side
from ..rows.sources import Source
from ..rows.streaming import Consumer, stream
from ..rows.validation import check_rows, is_elsewhere, to_host, validated
from .base import HiddenLayerEstimator

# Sums of weights that the sums of a readout can be multiplied by in float32.
_LEAST_SUM, _MOST_SUM = 1e-30, 1e30


class HiddenLayerPredictor(HiddenLayerEstimator):
    """One hidden layer that is not trained, and a linear readout of it.

    Attributes
    ----------
    _unit_attributes : tuple of str
        Fitted attributes with a row for each unit.
    _shared_parameters : set of str
        Parameters of the ridge readout that leave the layer of the largest network as it
        is: other values need no other pass over the rows.
    _choice_depends_on : object
        Networks for which it differs share no layer.
    _layer_needs_rows : bool
        Whether the layer depends on the training rows.
    _rows_may_be_outside : bool
        Whether there may be rows that no unit answers.
    _wants_press_scores, _wants_posterior : bool
        Whether there is a use for the leave-one-out scores of the training rows, or for how
        sure the readout is.
    """

    _size_name = "n_hidden"
    _shared_parameters = frozenset({"n_hidden", "alpha"})
    _wants_press_scores = _wants_posterior = False
    _choice_depends_on = None

    @abstractmethod
    def _prepare(self, engine, X, y, sample_weight):
        """Clean `Samples`."""

    def _clean(self, engine, X, y):
        """X and y as scikit-learn leaves them, X on the engine's device if it is there."""
        if not (is_elsewhere(X) or isinstance(X, Source)):
            return validated(self, to_host(X), to_host(y), multi_output=True)
        X = check_rows(self, engine, X, reset=True)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None; pass y of all rows, or give chunks (X, y)."
            )
        y = _check_y(to_host(y), multi_output=True, estimator=self)
        check_consistent_length(range(len(X)), y)
        return X, y

    def _row_weights(self, X, sample_weight, factors=None):
        """The weights of the rows, multiplied by factors if there are any; None for equal ones."""
        if sample_weight is None and factors is None:
            return None
        weight = _check_sample_weight(
            to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        if factors is not None:
            weight *= factors
        if not weight.any():
            which = "leaves" if factors is None else "and class_weight leave"
            raise ValueError(f"sample_weight {which} no row a weight above 0.")
        given = {"sample_weight": sample_weight, "class_weight": factors}
        _check_sum(weight.sum(), [name for name, value in given.items() if value is not None])
        return weight

    def _answer_outside(self, job, layer, X, rows, consume):
        """``consume(rows, scores)`` for rows that no unit answers, where there may be such."""
        return None

    def _of_rows_alone(self, samples, rows):
        """Fitted attributes, beside the readout, that a fit to some samples alone would change.

        Returns
        -------
        dict
        """
        return {}

    def _scored_rows(self, samples):
        """The rows whose scores without themselves are wanted, ascending; None for all."""
        return None

    def _take_press_scores(self, job, layer, samples, chosen, rows):
        """Use the scores of these rows, each without itself, if they are wanted."""
        return None

    def _take_posterior(self, engine, posterior, samples):
        """Use the `Posterior`, if it is wanted."""
        return None

    def _check_parameters(self):
        super()._check_parameters()
        penalties(self.alpha)

    def _drop_stale(self):
        """Forget what another fit may have found, and this one may not."""
        for stale in ("alpha_", "alphas_", "loo_errors_", "temperature_", "posterior_"):
            vars(self).pop(stale, None)

    def _fit_on(self, job, X, y, sample_weight):
        self._drop_stale()
        samples, job = self._prepare(job.engine, X, y, sample_weight).on_device(job)
        job = job.beside(getattr(samples.targets, "n_bytes", 0))
        trials = Trials(self._first_alpha)
        layer = self._choose_layer(job, samples, trials)
        solution = self._train(job, layer, samples, trials)
        trials.leave(self)
        warn_of(solution.problem)
        self._set_readout(job.engine, solution, layer.hidden_dtype)

    def _train(self, job, layer, samples, trials):
        """The readout, a `Solution` in float64."""
        return self._train_ridge(job, layer, samples, trials)

    def _train_ridge(self, job, layer, samples, trials):
        """Ridge readout; sets `alpha_`, and what leave-one-out says where it is needed."""
        alphas, is_chosen = penalties(self.alpha)
        is_left_out = self._wants_press_scores or self._wants_posterior
        if alphas == AUTO:
            found, statistics = train_held_out(job, layer, samples, self._random(), trials)
            self.alpha_ = found.alpha
            if not is_left_out:
                return statistics.solve(self.alpha_, is_last=True)
            alphas, statistics = (self.alpha_,), None
        if not (is_chosen or is_left_out):
            (self.alpha_,) = alphas
            (statistics,) = gather(job, [layer], samples)
            return statistics.solve(self.alpha_, is_last=True)
        wanted, rows = (self._wants_press_scores, self._wants_posterior), self._scored_rows(samples)
        start = (self._random(), trials.first_alpha) if is_word(self.alpha, "loo") else None
        chosen = choose_penalty(job, layer, samples, alphas, *wanted, rows, start)
        self.alpha_, self.alphas_ = chosen.alpha, np.array(chosen.alphas)
        self.loo_errors_ = chosen.errors
        if self._wants_press_scores:
            self._take_press_scores(job, layer, samples, chosen, rows)
        if self._wants_posterior:
            self._take_posterior(job.engine, chosen.posterior, samples)
        return chosen.solution

    @abstractmethod
    def _keep_readout(self, W, b, dtype):
        """Set the fitted attributes of a readout (n_outputs, n_units) and its intercept."""

    def _set_readout(self, engine, solution, dtype):
        self._use_readout(engine.to_host(solution.W), engine.to_host(solution.b), dtype)

    def _use_readout(self, W, b, dtype):
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(self._diverged())
        self._keep_readout(W, b, dtype)

    def _diverged(self):
        return f"The readout of {type(self).__name__} is not finite; scale the features of X."

    def _leading(self, n_units):
        """A copy with the first units of the layer, for another readout."""
        model = copy(self)
        for name in self._unit_attributes:
            setattr(model, name, getattr(self, name)[:n_units])
        return model

    def _scored(self, X, y, sample_weight):
        """`score` of rows, which may be a source, and may hold their own y."""
        if is_dask(X):
            answers = self.predict(X).compute()
            _, y, sample_weight = self._open(None, y, sample_weight)
        else:
            X, y, sample_weight = self._open(X, y, sample_weight)
            answers = self.predict(X)
        return self._score_of(answers, to_host(y), to_host(sample_weight))

    @abstractmethod
    def _score_of(self, answers, y, sample_weight):
        """`score` of rows with these answers."""

    @abstractmethod
    def _answers(self, scores):
        """What `predict` says to scores (rows, n_scores)."""

    def _stream_scores(self, job, layer, X, consume, also=None):
        """``consume(rows, scores)`` until all rows have their scores (rows, n_scores).

        `also` makes a `Consumer` for a job, which meets each tile of H in the end.
        """
        lock = Lock()

        def answer(job, share):
            outside = self._stream_share(job, layer, part_of(X, share), share, lock, consume, also)
            return share.start + outside

        outside = side_by_side(job, shares_of(job.engine.team, len(X)), answer)
        self._answer_outside(job, layer, X, np.concatenate(outside), consume)

    def _stream_share(self, job, layer, X, share, lock, consume, also):
        """`_stream_scores` of a share of the rows; those of them that no unit answers."""
        readout = LinearReadout(
            job.engine,
            self.readout_coef_,
            self.readout_intercept_,
            layer.hidden_dtype,
            self._rows_may_be_outside,
        )
        others = also(job) if also is not None else Consumer(None)

        def take(part, H):
            scores = readout.scores(part, H)
            rows = slice(share.start + part.start, share.start + part.stop)
            with lock:  # a file takes from one thread at a time
                consume(rows, scores)
            if also is not None:
                others.take(rows, H)

        row_bytes = readout.row_bytes + others.row_bytes
        stream(job, layer, X, Consumer(take, others.fixed_bytes, row_bytes))
        return readout.outside


def _check_sum(total, names):
    """Raise for weights so large or so small that sums of rows with them are no numbers."""
    if not _LEAST_SUM <= total <= _MOST_SUM:
        raise ValueError(
            f"The weights of the rows, by {' and '.join(names)}, add up to {total:g}, and must add "
            f"up to {_LEAST_SUM:g} or more and {_MOST_SUM:g} at most; divide all by their mean."
        )
