"""The base class of all networks: fits the parts of an estimator, and predicts with them."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y, check_is_fitted

from ..data.columns import check_labels_are_exact
from ..data.copies import merge_copies
from ..data.dask_blocks import is_dask_collection, open_input
from ..data.job import Job
from ..data.samples import Samples
from ..data.sources import Source
from ..data.sources.base import supported_dtype
from ..data.streaming import cast_layer, count_operations, work_of_fit
from ..data.validation import is_on_other_device, to_host, validate_on_host, validate_samples
from ..engines import get_engine
from ..hidden_layers.parameters import check_layer_names
from ..parts.composition import Parts
from ..parts.readout import ReadoutTraining
from ..parts.target import TargetSpec
from ..parts.units import Units
from ..readouts.penalty_search import SearchHistory
from ..targets.encoding import encode_groups, encode_labels
from ..utils.callbacks import CallbackMixin, on_compile, with_callbacks
from ..utils.parameters import check_verbose
from .fit_report import FitReport
from .prediction import PredictionRun, empty_output
from .state import EstimatorMixin, atomic_update


class Network(EstimatorMixin, CallbackMixin, BaseEstimator, metaclass=ABCMeta):
    """A hidden layer that is not trained and, except for transformers, a linear readout of it.

    A public estimator is a subclass with hyperparameters, a docstring and `_parts`.
    """

    # Parameters of all estimators.
    device: str
    max_memory: int | str | None
    verbose: int
    # Fitted attributes of all estimators. The others are fields of the parts.
    device_: str
    search_results_: dict[str, npt.NDArray[Any]]

    @abstractmethod
    def _parts(self) -> Parts:
        """Return the `Parts` with the hyperparameters and fitted attributes of this estimator."""

    def _fit(self, X, y=None, sample_weight=None, groups=None, validation=None, adapt_parts=None):
        """Fit; ``adapt_parts(parts)``, if given, returns the `Parts` with more fields set.

        `validation` is a `ValidationSet` or None.
        """
        arguments = X, y, sample_weight, groups, validation, adapt_parts
        atomic_update(self, lambda copied: copied._fit_with_callbacks(*arguments))
        return self

    @with_callbacks  # inside of `atomic_update`, which would drop the callback context
    def _fit_with_callbacks(self, X, y, sample_weight, groups, validation, adapt_parts):
        parts = self._checked_parts()
        parts = parts if adapt_parts is None else adapt_parts(parts)
        fit_task = self._begin_fit(X, y, sample_weight)
        # Dask collections and functions that return chunks become sources; arrays stay arrays.
        data = open_input(X, self.device, self.max_memory, y, sample_weight)
        work = work_of_fit(data[0], parts.units.n_activations)
        with _notify_of_compilation(self), get_engine(self.device, *work) as engine:
            job = replace(self._job(engine, "fit"), task=fit_task)
            self._train(parts, job, *data, groups, validation)
        self._end_fit(fit_task, X, y, sample_weight)

    def _train(self, parts, job, X, y, sample_weight, groups, validation):
        """Choose the hidden layer for the samples, and train the readout."""
        parts, samples = self._encode_training_data(
            parts, job.engine, X, y, sample_weight, groups, validation
        )
        target, readout, scale = parts.target, None, 1.0
        if target is not None and parts.readout.fits_units:
            # An ensemble has merged copies before it drew its sample. With scores of networks among
            # the features, rows that are equal by chance would be taken for copies, too.
            if not parts.readout.has_given_sample:
                samples = merge_copies(samples)
            samples, scale = samples.with_unit_weights()
        samples = parts.units.order_samples(samples)
        # A transformer whose layer is drawn at random reads its data once at most.
        if target is not None or parts.units.needs_multiple_passes:
            samples, job = samples.on_device(job)
        job = job.reserve_host(samples.target_bytes)
        history = SearchHistory(parts.units.start_alpha, alpha_scale=scale)
        report = FitReport(job.description, self.verbose)
        units = parts.units.of_all_samples().fit(job, samples, history)
        report.print_layer(units, history)
        if target is not None:
            units, n_rows = with_center_targets(units, target, samples), len(history.rows)
            readout = parts.readout.train(ReadoutTraining(job, samples, units, target, history))
            rows = history.rows[n_rows:]
            errors = {scale * row["alpha"]: row["error"] for row in rows}
            report.print_readout(readout, errors, history.is_loo)
        units = units.of_rows(samples.rows)
        self._set_fitted(Parts(units, target, readout), job.engine.name, history.table)

    def _set_fitted(
        self,
        parts: Parts,
        device: str | None,
        search_results: dict[str, Any] | None = None,
        **state: Any,
    ) -> None:
        """Replace all fitted attributes and the private `state`; no other method sets any.

        It is called on a copy of the estimator, see `atomic_update`.
        """
        set_fitted_attributes(self, parts.fitted)
        if device is not None:
            self.device_ = device
        if search_results is not None:
            self.search_results_ = search_results
        self.__dict__.update(state)

    def _checked_parts(self):
        """Return the parts; raise for an invalid hyperparameter."""
        parts = self._parts()
        parts.check()
        check_verbose(self.verbose)
        return parts

    def _encode_training_data(self, parts, engine, X, y, sample_weight, groups, validation=None):
        """Return the parts with a fitted target specification, and the `Samples`."""
        if parts.target is None:
            X, y = validate_samples(self, engine, X, reset=True), to_host(y)
            required_by = parts.units.labels_required_by()
            targets = encode_labels(y, len(X), *required_by) if required_by else None
            samples = Samples(X, targets)
        else:
            X, y = validate_training_data(self, engine, X, y)
            target, samples = parts.target.fit_encode(X, y, sample_weight)
            if validation is not None:
                validation = validation.validated(self, engine).encode(target)
            groups = encode_groups(X, groups)
            samples = replace(samples, groups=groups, validation=validation)
            parts = replace(parts, target=target)
            parts.readout.check_samples(samples)
        check_layer_names(parts.units.pretrained, self)
        return parts, samples

    @contextmanager
    def _open_prediction(self, X: Any, phase: str) -> Iterator[PredictionRun]:
        """Context with the `PredictionRun` of samples, in which its engine is entered."""
        if "device_" not in vars(self):
            check_is_fitted(self)  # takes 20 times as long as the line above
        parts, (X, *_) = self._parts(), open_input(X, self.device, self.max_memory)
        layer = parts.units.layer
        with get_engine(self.device, count_operations(X, layer.n_units)) as engine:
            X = validate_samples(self, engine, X, reset=False)
            yield PredictionRun(parts, self._job(engine, phase), cast_layer(layer, X), X)

    def _compute_output(self, X, method, out=None, **options):
        """Return the output of `predict` or another method for samples."""
        with self._open_prediction(X, "predict") as run:
            return run.output(method, out, **options)

    def _empty_output(self, method: str, dtype: Any, **options: Any) -> Any:
        """Return the output of a method for no samples: its shape and dtype, for Dask."""
        parts = self._parts()
        layer = cast_layer(parts.units.layer, np.empty((0, 0), supported_dtype(dtype, "X")))
        return empty_output(parts, layer, method, **options)

    def _score(self, X, y, sample_weight):
        return score_predictions(self, self._parts().target, X, y, sample_weight)

    def _job(self, engine, phase):
        return Job(engine, self.max_memory, self.verbose, f"{type(self).__name__} {phase}")


def validate_training_data(model: BaseEstimator, engine: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y as validated by scikit-learn; X stays on the device of the engine."""
    check_labels_are_exact(model, y)
    if not (is_on_other_device(X) or isinstance(X, Source)):
        return validate_on_host(model, to_host(X), to_host(y), multi_output=True)
    X = validate_samples(model, engine, X, reset=True)
    if y is None:
        raise ValueError(
            f"This {type(model).__name__} estimator requires y to be passed, but the target y "
            "is None; pass y of all samples, or pass chunks (X, y)."
        )
    y = _check_y(to_host(y), multi_output=True, estimator=model)
    check_consistent_length(range(len(X)), y)
    return X, y


def score_predictions(model: Any, target: TargetSpec, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score of the predictions for X, which may be a source that contains y."""
    if is_dask_collection(X):
        predictions = model.predict(X).compute()
        _, y, sample_weight = open_input(None, model.device, model.max_memory, y, sample_weight)
    else:
        X, y, sample_weight = open_input(X, model.device, model.max_memory, y, sample_weight)
        predictions = model.predict(X)
    return target.score(predictions, to_host(y), to_host(sample_weight))


def _notify_of_compilation(model: Network) -> AbstractContextManager[Any]:
    """Context in which a notice is printed before loops are compiled, if `verbose`."""
    text = "compiling loops for this processor, once: it takes seconds"
    notify = partial(print, f"[{type(model).__name__} fit] {text}")
    return on_compile(notify) if model.verbose else nullcontext()


def with_center_targets(units: Units, target: TargetSpec, samples: Samples) -> Units:
    """Return the units with the y of their centres, if these are training samples."""
    if units.support is None:
        return units
    return units.update_fitted(**target.center_attributes(samples, units.support))


# The private state of `partial_fit`.
_PRIVATE_STATE = {"_incremental_state", "_sample_buffer"}
# Fitted attributes that scikit-learn sets in the validation of X.
_SET_BY_VALIDATION = {"n_features_in_", "feature_names_in_"}


def set_fitted_attributes(model: BaseEstimator, fitted: dict[str, Any]) -> None:
    """Set fitted attributes, and delete all that an earlier fit has left."""
    for name in [name for name in vars(model) if _is_fitted_name(name)]:
        if name not in _SET_BY_VALIDATION:
            delattr(model, name)
    for name, value in fitted.items():
        setattr(model, name, value)


def _is_fitted_name(name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in _PRIVATE_STATE
