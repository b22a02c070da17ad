"""Incremental learning: `partial_fit`, `forget`, `merge` and `solve` of a network."""

from collections.abc import Iterable
from copy import copy
from dataclasses import fields, replace
from typing import Any, ClassVar

import joblib
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..data.columns import different_names
from ..data.dask_blocks import compute_if_dask
from ..data.memory_plan import host_memory_limit
from ..engines.algebra import HOST
from ..parts.composition import Parts
from ..readouts.drift import WINDOW
from ..readouts.linear import warn_of_problem
from ..readouts.penalty_search import SearchHistory
from ..readouts.running_statistics import InvalidRemoval
from ..utils.parameters import is_option
from .fit_report import FitReport
from .incremental import Evaluator, IncrementalState
from .layer_choice import BufferedNetwork
from .state import atomic_update


class SolvedAttribute:
    """Descriptor of a fitted attribute that exists only while the readout is solved.

    Otherwise the AttributeError has the remedy. The attribute is not solved on access, because
    `hasattr`, copies and the display of an estimator read attributes, too.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        message = f"{type(model).__name__!r} object has no attribute {self._name!r}"
        if model._is_incremental:
            message += (
                " until its readout is solved, because samples were added or removed: call "
                "solve(), or predict"
            )
        raise AttributeError(message)


class IncrementalNetwork(BufferedNetwork):
    """A network with a readout, to which samples can be added, and from which they can be removed.

    In each public method, `atomic_update` calls the private one on a copy of the estimator.
    """

    # Routed without a request of the user: splitters such as GroupKFold have `groups` anyway.
    __metadata_request__fit: ClassVar = {"groups": True}

    # Descriptors, which the values in the dictionary of an estimator take precedence over.
    readout_coef_ = SolvedAttribute()
    readout_intercept_ = SolvedAttribute()
    alpha_ = SolvedAttribute()

    @property
    def drift_(self) -> float:
        """Validation error on the newest samples, divided by the lowest one so far."""
        state = self._incremental_state
        ratio = None if state is None else state.errors.ratio
        if ratio is None:
            raise AttributeError(
                f"This {type(self).__name__} has no drift_: it is estimated on {WINDOW} samples or "
                "more that partial_fit adds after a prediction was made."
            )
        return ratio

    def _supports_partial_fit(self) -> bool:
        """Return True, or raise AttributeError with the hyperparameter that prevents it."""
        why = self._parts().why_not_incremental()
        if why:
            raise AttributeError(why)
        return True

    def _partial_fit(self, X, y, sample_weight, classes=None):
        batch = compute_if_dask(X), compute_if_dask(y), compute_if_dask(sample_weight)
        atomic_update(self, lambda copied: copied._add_samples(*batch, classes))
        return self

    def _add_samples(self, X, y, sample_weight, classes):
        parts = self._checked_parts()
        if self._has_statistics:
            self._check_incremental_state(parts)
        if self._has_no_weight(parts, X, y, sample_weight):
            self._add_zero_weights(parts, X, y, sample_weight, classes)
            return
        if self._is_layer_open(parts.units):
            self._buffer_samples(parts, X, y, sample_weight, classes)
            return
        if self._has_statistics:
            X, y = self._validated_batch(X, y)
            parts.target.check_classes(y, classes)
            samples = parts.target.encode(X, y, sample_weight)
        else:
            parts, samples = self._start_with_layer(parts, X, y, sample_weight, classes)
        evaluate = Evaluator(self, parts.units)
        state = self._incremental_state.update(
            samples.without_zero_weights(), self.forgetting_factor, evaluate
        )
        self._store_state(parts, state, evaluate.device)

    def _check_incremental_state(self, parts: Parts, name: str | None = None) -> None:
        """Raise if no samples were added, or if their sums are not those of the parameters."""
        name = name or f"This {type(self).__name__}"
        if not (self._is_buffering or self._has_statistics):
            check_is_fitted(self)
            raise ValueError(
                f"{name} was trained by fit, which keeps no sums of its samples; use partial_fit "
                "instead."
            )
        if (why := parts.why_not_incremental()) is not None:
            raise ValueError(why)
        if self._is_buffering:
            return
        if not self._incremental_state.matches(parts.units):
            raise ValueError(
                f"{name} had its layer fixed by partial_fit, and its parameters layer or metric "
                "were changed since; set them back, or train a clone."
            )
        before, now = self._incremental_state.class_weight, parts.target.class_weight
        if before != now:
            raise ValueError(
                f"{name} has sums of samples that were weighted by class_weight={before!r}, and "
                f"has class_weight={now!r} since; set it back, or train a clone."
            )

    def forget(self, X, y, sample_weight=None):
        """Remove samples that were added by `partial_fit`.

        The readout becomes that of a fit without them, up to rounding. Once the hidden layer is
        fixed it does not change, even if it was chosen for these samples: a removed sample stays a
        centre. Before that, samples are removed from the buffer, and the layer that is fixed later
        does not depend on them. The provisional layer of earlier predictions may contain them until
        it is chosen again, after half as many changes as it had samples. The
        probabilities of a classifier and the intervals of a regressor are calibrated on a random
        sample of 512 training samples. If some of them are removed, only samples that are added
        later replace them; the fewer there are, the closer the probabilities are to 1 / n_classes.
        If a classifier of 3 to 16 classes has `matrix_scaling_`, that map, which is a part of the
        readout, is fitted to this sample, too, and is not that of a fit to the present samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            As in `partial_fit`. Smaller weights reduce the weights of the samples by these amounts.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For samples that cannot have been added, such as more of a class than there are.
            Samples that were never added are not always detected once the layer is fixed: keep a
            record of the data.
            The estimator is not changed.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.frozen import FrozenEstimator
        >>> from sklearn_fsvc import TanhRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = TanhRegressor(50, random_state=0).partial_fit(X, y).solve(fix_layer=True)
        >>> model = model.forget(X[:100], y[:100]).solve()
        >>> refit = TanhRegressor(layer=FrozenEstimator(model), alpha=model.alpha_)
        >>> refit = refit.fit(X[100:], y[100:])
        >>> bool(abs(model.predict(X) - refit.predict(X)).max() < 1e-6)
        True
        """
        batch = compute_if_dask(X), compute_if_dask(y), compute_if_dask(sample_weight)
        atomic_update(self, lambda copied: copied._remove_samples(*batch))
        return self

    def _remove_samples(self, X, y, sample_weight):
        parts = self._parts()
        self._check_incremental_state(parts)
        summed = self._sample_buffer if self._is_buffering else self._incremental_state.statistics
        if self.forgetting_factor < 1 or summed.log_decay < 0:
            raise ValueError(
                f"forgetting_factor={self.forgetting_factor!r}: the weights of samples decay, and "
                "depend on when they were added; forget removes samples only with "
                "forgetting_factor=1."
            )
        if self._has_no_weight(parts, X, y, sample_weight):
            self._validated_zero_weights(X, y, sample_weight)
            return
        try:
            if self._is_buffering:
                self._remove_from_buffer(parts, X, y, sample_weight)
            else:
                self._remove_from_sums(parts, X, y, sample_weight)
        except InvalidRemoval as error:
            which = "" if error.output is None else f" of {parts.target.output_name(error.output)}"
            raise ValueError(
                f"Not all of these samples{which} can have been added: {error}. Give X, y and "
                "sample_weight as partial_fit had them."
            ) from None

    def _remove_from_sums(self, parts, X, y, sample_weight):
        evaluate = Evaluator(self, parts.units)
        samples = parts.target.encode(*self._validated_batch(X, y), sample_weight)
        state = self._incremental_state.remove(samples.without_zero_weights(), evaluate)
        self._store_state(parts, state, evaluate.device)

    def merge(self, models):
        """Add the samples of other models.

        Parameters
        ----------
        models : sequence of estimators
            Estimators of this class, trained by `partial_fit` with the same classes, and with the
            same layer if it is fixed. The first of them may have chosen the layer, which the others
            use as ``layer=FrozenEstimator(first)``. The samples of models that still buffer them
            are added to the buffer of this model, or to the sums of the first fixed layer. The
            models are not changed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a model with another layer, other features or their order, other classes, or another
            shape or scaling of y; the estimator is not changed.

        Examples
        --------
        >>> from sklearn.base import clone
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.frozen import FrozenEstimator
        >>> from sklearn_fsvc import TanhClassifier, TanhProjector
        >>> X, y = load_digits(return_X_y=True)
        >>> layer = FrozenEstimator(TanhProjector(200, random_state=0).fit(X))
        >>> model = TanhClassifier(layer=layer, alpha=1.0)
        >>> parts = [
        ...     clone(model).partial_fit(X[i::3], y[i::3], classes=range(10)) for i in range(3)
        ... ]
        >>> merged = parts[0].merge(parts[1:])
        >>> bool(merged.score(X, y) == model.fit(X, y).score(X, y))
        True
        """
        atomic_update(self, lambda copied: copied._merge(models))
        return self

    def _merge(self, models):
        self._check_incremental_state(self._parts())
        if not isinstance(models, Iterable):
            raise TypeError(f"models={models!r} must be a sequence of models, such as [model].")
        for i, model in enumerate(models):  # a generator may yield one at a time
            self._merge_model(model, f"models[{i}]")

    def _merge_model(self, model, name):
        """Add the samples of one model; the layer is that of the first of both that has one."""
        other = copy(model)  # another thread may change the model meanwhile
        if type(other) is not type(self):
            raise TypeError(f"{name}={other!r} must be a {type(self).__name__}, as this is.")
        other_parts = other._parts()
        other._check_incremental_state(other_parts, name)
        _check_same_columns(self, other, name)
        theirs, mine = other_parts.target.class_weight, self._parts().target.class_weight
        if theirs != mine:
            raise ValueError(
                f"{name} has class_weight={theirs!r}, but this model has {mine!r}: sums of "
                "differently weighted classes cannot be added. Train all models with the same "
                "class_weight."
            )
        buffer = other._sample_buffer
        if self._is_buffering:
            if buffer is not None:
                self._merge_buffer(self._parts(), buffer, other_parts.target, name)
                return
            self._adopt_layer(other, other_parts, name)
        parts = self._parts()
        evaluate = Evaluator(self, parts.units)
        if buffer is None:
            state = self._state_to_merge(parts, other, other_parts, name)
        else:
            if buffer.has_classes:
                parts.target.check_same_classes(other_parts.target, name)
            state = self._incremental_state.emptied.update_buffered(
                replace(buffer, n_summed=0), parts.target, evaluate
            )
        state = self._incremental_state.merge(state, evaluate)
        self._store_state(parts, state, evaluate.device)

    def _adopt_layer(self, other, other_parts, name):
        """Sum the buffered samples in the layer of another model."""
        parts, buffer, source = self._parts(), self._sample_buffer, other._incremental_state
        if buffer.has_classes:
            parts.target.check_same_classes(other_parts.target, name)
        units = parts.units.with_fitted(**other_parts.units.fitted)
        is_same = _layer_hash(units.layer) == _layer_hash(other_parts.units.layer)
        if not (is_same and units.allows_fitted_layer):
            raise ValueError(
                f"{name} has a layer of another metric than that of this model; use the same "
                "parameters."
            )
        parts = Parts(units, other_parts.target, parts.readout.with_fitted())
        history = SearchHistory(source.start_alpha, list(source.search_rows))
        limit = host_memory_limit(self.max_memory)
        state = IncrementalState.start(units, parts.target, self.alpha, limit, history)
        self._set_fitted(parts, other.device_, history.table, _incremental_state=state)
        evaluate = Evaluator(self, units)
        state = state.update_buffered(replace(buffer, n_summed=0), parts.target, evaluate)
        self._store_state(parts, state, evaluate.device)

    def _state_to_merge(self, parts: Parts, other: Any, other_parts: Parts, name: str) -> Any:
        """Return the sums of another model; raise if they cannot be added to those of this one."""
        if _layer_hash(other_parts.units.layer) != _layer_hash(parts.units.layer):
            raise ValueError(
                f"{name} has another hidden layer. Give all models the same one: "
                "layer=FrozenEstimator(fitted), of sklearn.frozen."
            )
        state = other._incremental_state
        holds_out = bool(self._incremental_state.statistics.n_parts)
        if is_option(self.alpha, "auto") and holds_out != bool(state.statistics.n_parts):
            raise ValueError(
                f'alpha="auto" minimises the error on held-out samples, and {name} or this model '
                'held out none, because it began with a number. Begin with alpha="auto" in all '
                "models, or set a number for this one by set_params(alpha=...)."
            )
        parts.target.check_compatible(other_parts.target, name)
        return state

    def solve(self, *, fix_layer=False):
        """Solve the readout for the samples that were added and removed.

        `predict` and the other methods that need the readout call it. The fitted attributes of the
        readout, such as `readout_coef_` and `alpha_`, then exist until samples are added or
        removed. Once the layer is fixed, the buffer is empty: a saved model contains sums, and the
        512 samples on which probabilities or intervals are calibrated. After `fit` it does nothing.

        Parameters
        ----------
        fix_layer : bool, default=False
            Whether to fix the hidden layer now, chosen from the samples so far, and to drop the
            buffered samples. It does nothing if the layer is fixed already.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If no sample was added, or all of them were removed.
        ValueError
            If `classes` were not listed, and all samples so far are of one class.

        Warns
        -----
        UserWarning
            With `fix_layer`, if there are fewer units than requested, or samples of one class only.

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
        if fix_layer and self._is_buffering:
            atomic_update(self, IncrementalNetwork._end_buffering)
        self._snapshot()
        return self

    def _end_buffering(self):
        """Choose the layer from the buffered samples, however few."""
        if self._is_buffering:  # another thread may have ended it meanwhile
            self._check_has_samples()
            self._fix_layer(self._parts(), self._sample_buffer)

    def _snapshot(self):
        """Return a copy with its readout solved; then that of this estimator is solved, too.

        Samples that other threads add meanwhile are not lost: each update below blocks these
        threads, and starts from the state that they have left.
        """
        snapshot = copy(self)
        if snapshot._is_incremental and not snapshot._is_solved:
            # Two updates, so that the sums before the flush are freed before the solve allocates
            # its copy: both are as large as H'H. This is also why the copy is deleted.
            del snapshot
            atomic_update(self, IncrementalNetwork._flush_buffer)
            snapshot = atomic_update(self, IncrementalNetwork._solve_if_outdated)
        return snapshot

    @property
    def _is_solved(self) -> bool:
        state = self._incremental_state
        if state is None or state.solved_for is None:
            return False
        return state.solved_for == self._penalty(self._parts())

    def _penalty(self, parts: Parts) -> Any:
        if self._is_buffering and is_option(self.alpha, "auto"):
            return "auto"  # with another provisional layer, if this one has no held-out samples
        return self._incremental_state.resolve_penalty(self.alpha, parts.why_not_incremental())

    def _flush_buffer(self):
        """Add the buffered samples to the sums."""
        if self._is_buffering:
            self._check_has_samples()
            self._sum_buffer()
            return
        parts, state = self._parts(), self._incremental_state
        evaluate = Evaluator(self, parts.units)
        state = replace(state.flush(evaluate), solved_for=state.solved_for)
        self._store_state(parts, state, evaluate.device)

    def _check_has_samples(self):
        samples = self._sample_buffer if self._is_buffering else self._incremental_state.statistics
        if samples.is_empty:
            raise NotFittedError(
                f"All samples of this {type(self).__name__} were removed, or have weight 0; add "
                "others by partial_fit."
            )

    def _solve_if_outdated(self):
        """Solve the readout if samples were added or removed, or the penalty was changed."""
        if self._is_solved:  # by another thread, since `_snapshot` tested it
            return
        self._check_has_samples()
        self._flush_buffer()  # another thread may have added samples since the first flush
        parts, state = self._parts(), self._incremental_state
        penalty, layer, search_results = self._penalty(parts), parts.units.layer, None
        alpha = penalty
        report = FitReport(f"{type(self).__name__} solve", self.verbose)
        evaluate = Evaluator(self, parts.units)
        if penalty == "auto":
            state, search_results = state.update_penalty(parts, evaluate)
            alpha = state.best_alpha
        solution, fitted = evaluate.solve(state, parts, alpha)
        readout = parts.readout.solved(HOST, solution, parts.target, layer.hidden_dtype, **fitted)
        if search_results is not None:
            n_before, columns = len(state.search_rows), ("alpha", "error")
            pairs = zip(*(search_results[name][n_before:] for name in columns), strict=True)
            report.print_readout(readout, dict(pairs))
        state = replace(state, solved_for=penalty, solution=(solution.W, solution.b))
        parts = replace(parts, readout=readout)
        self._store_state(parts, state, evaluate.device, search_results)
        warn_of_problem(solution.problem)


def _check_same_columns(model: Any, other: Any, name: str) -> None:
    """Raise ValueError if another model has other features, or another number of outputs."""
    theirs, mine = other.n_features_in_, model.n_features_in_
    if theirs != mine:
        raise ValueError(
            f"{name} has {theirs} features, but this model has {mine}; pass the same features to "
            "partial_fit of both."
        )
    if (different := different_names(other, model)) is not None:
        j, theirs, mine = different
        raise ValueError(
            f"{name} has {theirs!r} as feature {j}, but this model has {mine!r}: the feature names "
            "should match; pass the same columns in the same order to partial_fit of both."
        )
    theirs, mine = _sample_shape(other), _sample_shape(model)
    if None not in (theirs, mine) and theirs != mine:
        raise ValueError(
            f"{name} has samples of y of shape {theirs}, but this model of shape {mine}; pass the "
            "same outputs to partial_fit of both."
        )


def _sample_shape(model: Any) -> tuple[int, ...] | None:
    """Return the shape of a sample of y; None before the first sample of positive weight."""
    if not model._is_buffering:
        return model._parts().target.sample_shape
    parts = model._sample_buffer.parts
    return parts[0].y.shape[1:] if parts else None


def _layer_hash(layer: Any) -> str:
    """Return a hash of the formula and all arrays of a layer."""
    return joblib.hash([getattr(layer, field.name) for field in fields(layer)])
