"""A stacked ensemble of networks: each is fitted once, and their scores are added with weights.

The non-negative weights are found from leave-one-out scores of the base estimators: stacking
(D. H. Wolpert 1992, "Stacked generalization"; L. Breiman 1996, "Stacked regressions") without
cross-validation, since a ridge readout has these scores in closed form.

A final estimator, one more network, may correct the sum. It gets the scores of the ensemble as
features next to those of X, like the `final_estimator` of scikit-learn's stacking with
``passthrough=True``. Its training scores are cross-validated, as there, but also in closed form:
from blocks of the hat matrix.

`StackedEnsemble` is the base of the public classes; `StackedParts` fits, and `StackedPrediction`
predicts.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from ..data.copies import merge_copies
from ..data.dask_blocks import open_input
from ..data.sharded_rows import slice_rows
from ..data.sources import is_in_memory
from ..data.streaming import n_synapses, row_blocks, take_rows
from ..data.validation import check_no_overlap, to_host, validate_samples
from ..engines import get_engine
from ..estimators.fit_report import FitReport
from ..estimators.network import (
    OutputBuffer,
    as_array_list,
    score_predictions,
    set_fitted_attributes,
    validate_training_data,
)
from ..estimators.shared_docs import FIT
from ..estimators.state import Documented, Versioned, atomic_update, on_snapshot
from ..estimators.validation_set import ValidationSet
from ..parts import TargetSpec
from ..readouts.residuals import first_activations
from ..readouts.row_sample import sample_by_hash
from ..targets.encoding import encode_groups
from ..utils.callbacks import CallbackMixin, FitTask, with_callbacks
from ..utils.docstrings import fill_docstring
from ..utils.parameters import check_output, check_positive_integer
from ..utils.user_warnings import without_warnings
from .base_estimators import BaseEstimators, TrainingSet
from .base_fits import fit_base_estimators
from .explanation import explain_ensemble
from .extended_samples import ExtendedSamples
from .weights import EnsembleWeighting, assign_folds, sample_groups


class StackedEnsemble(Documented, Versioned, CallbackMixin, _BaseComposition, metaclass=ABCMeta):
    """Networks whose scores are added with non-negative weights."""

    __metadata_request__fit: ClassVar = {"groups": True}  # as of single networks
    # The classes of the RBF and the tanh networks that are the default base estimators.
    _network_classes: ClassVar[Any] = None

    @abstractmethod
    def _stacked_parts(self) -> "StackedParts":
        """Return the `StackedParts` for the parameters and fitted attributes."""

    @classmethod
    def default_estimators(cls):
        """Return new default base estimators, to be modified and passed as `estimators`.

        Returns
        -------
        estimators : list of (str, estimator)
        """
        rbf, tanh = cls._network_classes
        return [
            ("manhattan", rbf(metric="manhattan")),
            ("euclidean", rbf(metric="euclidean", feature_weights="refined")),
            ("tanh", tanh(2000)),
            ("map", tanh(2000, feature_weights="map")),
        ]

    @classmethod
    def default_final_estimator(cls):
        """Return a new default final estimator, to be modified and passed as `final_estimator`.

        Returns
        -------
        estimator : estimator
        """
        _, tanh = cls._network_classes
        return tanh(2000)

    @property
    def estimators_(self):
        return list(self.named_estimators_.values())

    @property
    def feature_importances_(self):
        check_is_fitted(self)
        return self._stacked_parts().feature_importances(self.n_features_in_)

    def get_params(self, deep=True):
        """Get the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include those of the base estimators, as ``name__parameter``.

        Returns
        -------
        params : dict
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Also ``name=estimator`` and ``name__parameter=value`` for given `estimators`.

        Returns
        -------
        self
        """
        return self._set_params("estimators", **params)

    @fill_docstring(FIT)
    def fit(
        self, X, y=None, sample_weight=None, groups=None, *, X_val=None, y_val=None,
        sample_weight_val=None,
    ):  # fmt: skip
        """Fit each base estimator, and find their weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As for `fit` of a single network, such as `RBFClassifier`. Sparse if all base
            estimators accept it.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
        sample_weight : array-like of shape (n_samples,) or str, optional
            As for `fit` of a single network.
        groups : array-like of shape (n_samples,), optional
            Group of each sample. The hyperparameters of base estimators are validated on held-out
            groups, and the weights are computed from out-of-fold scores, with whole groups in a
            fold, in place of leave-one-out scores. With metadata routing it is requested by
            default.
        X_val : {array-like, sparse matrix} of shape (n_val, n_features), or source, optional
            Validation samples: they validate the hyperparameters of base estimators, their weights
            and the final estimator, and calibrate, in place of held-out samples and leave-one-out
            scores. Nothing else is fitted to them. In a `Pipeline`, ``transform_input=["X_val"]``
            transforms them as X.
        %(y_val)s
        %(sample_weight_val)s

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For base estimators that are not networks of this package for the same task, or have no
            ridge readout, and for invalid input; the ensemble is not changed.
        """
        validation = ValidationSet.from_arguments(X_val, y_val, sample_weight_val)
        atomic_update(self, lambda model: model._fit(X, y, sample_weight, groups, validation))
        return self

    @with_callbacks  # `atomic_update` would drop the callback context
    def _fit(self, X, y, sample_weight, groups, validation):
        parts = self._stacked_parts()
        parts.check()
        self._validate_names([name for name, _ in parts.base.templates])
        fit_task = self._begin_fit(X, y, sample_weight)
        rows = open_input(X, self.device, self.max_memory, y, sample_weight)
        with get_engine(self.device, n_synapses(rows[0], None)) as engine:
            clean_X, clean_y = validate_training_data(self, engine, *rows[:2])
            validation = validation and validation.validated(self, engine)
        parts = parts.fit(clean_X, clean_y, rows[2], groups, validation, fit_task)
        set_fitted_attributes(self, parts.fitted)
        self._end_fit(fit_task, X, y, sample_weight)

    def _snapshot(self):
        return copy(self)

    def _open_prediction(self, X):
        """Return the `StackedPrediction` for validated samples."""
        if "weights_" not in vars(self):
            check_is_fitted(self)  # slow: called only where it will raise
        X, *_ = open_input(X, self.device, self.max_memory)
        with get_engine(self.device, n_synapses(X, None)) as engine:
            X = validate_samples(self, engine, X, reset=False)
        return StackedPrediction(self._stacked_parts(), X)

    def _compute_output(self, X, method, out=None, **options):
        """Return the output of a prediction method."""
        return self._open_prediction(X).output(method, out, **options)

    def _empty_output(self, method, dtype, **options):
        """Return an empty output of a prediction method: Dask needs its dtype and shape."""
        return StackedPrediction(self._stacked_parts()).empty_output(method, **options)

    @on_snapshot
    def contributions(self, X, output=0):
        """Compute what each base estimator contributes to each prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        output : int, default=0
            Which column of y is explained, if there are several.

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_networks), float64
            One column for each of `estimators_`, and a last one for `final_estimator_`, if there is
            one. Together with ``(1 - final_weight_) * intercept_`` they add up to the prediction,
            or to the score of the predicted class. For two classes, the score of the first is that
            of the second times -1. `explain` of an RBF base estimator lists training samples.

        Raises
        ------
        ValueError
            If y has no such `output`.
        """
        return self._open_prediction(X).contributions(output)

    @on_snapshot
    def explain(self, X, n=5, output=0):
        """Find the training samples with the largest contributions to each prediction.

        As in `RBFClassifier.explain`. A training sample that is a centre of several RBF networks
        contributes the weighted sum. Other networks, whose units are not training samples, and the
        final estimator are part of `rest`; each counts as one contribution in `total`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source of rows
        n : int, default=5
            Number of training samples for each prediction; at most the number of centres.
        output : int, default=0
            Which column of y is explained, if there are several.

        Returns
        -------
        explanation : Explanation
            Without `units`.

        Raises
        ------
        ValueError
            If none of `estimators_` is an RBF network with centres that are training samples; for
            an `n` below 1, or an `output` that y does not have.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn_fsvc import RBFClassifier, StackedClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> networks = [("a", RBFClassifier(30)), ("b", RBFClassifier(30, metric="euclidean"))]
        >>> ensemble = StackedClassifier(networks, random_state=0).fit(X, y)
        >>> ensemble.explain(X[:2], n=3).support.shape
        (2, 3)
        """
        n = check_positive_integer("n", n)
        return explain_ensemble(self._open_prediction(X), n, output)

    def _score(self, X, y, sample_weight):
        return score_predictions(self, self._stacked_parts().task, X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = BaseEstimators.from_estimator(self).takes_sparse
        return tags


@dataclass(frozen=True, eq=False)
class StackedParts:
    """What a stacked ensemble is composed of."""

    task: TargetSpec
    base: BaseEstimators
    weighting: EnsembleWeighting

    def check(self) -> None:
        """Raise for invalid parameters."""
        self.base.check(self.task)
        self.task.check()

    @property
    def fitted(self) -> dict[str, Any]:
        """Return all fitted attributes."""
        return self.task.fitted | self.base.fitted | self.weighting.fitted

    def fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationSet | None,
        fit_task: FitTask,
    ) -> "StackedParts":  # fmt: skip
        """Return the parts with fitted networks and their weights, for validated samples.

        `fit_task` is the task as which the fit is reported to callbacks.
        """
        task, samples = self.task.fit_encode(X, y, sample_weight)
        encoded = None if validation is None else validation.encode(task)
        samples = replace(samples, groups=encode_groups(X, groups), validation=encoded)
        samples = merge_copies(samples)
        pairs, final = self.base.clone_for(samples)
        y = task.base_target(y if samples.rows is None else y[samples.rows], samples)
        if validation is not None and encoded is not None:
            y_val = task.base_target(validation.y, encoded)
            validation = ValidationSet(encoded.X, y_val, encoded.weight)
        training_set = self._draw_training_set(
            samples, y, validation, len(pairs), final is not None
        )
        self.base.reserve_memory(pairs, final, training_set.sample)
        report = FitReport(f"{self.base.owner} fit", self.base.verbose)
        left_out = fit_base_estimators(pairs, training_set, fit_task, report)
        networks = [network for _, network in pairs]
        for network in networks:
            if samples.rows is not None and hasattr(network, "support_"):
                network.support_ = samples.rows[network.support_]
        by_fold = samples.groups is not None and validation is None
        ensemble = self.weighting.combine(task, left_out, training_set.scored_sample, by_fold)
        # A final estimator trained on a sample that lacks a class could not predict it.
        if final is not None and training_set.has_varying_outputs:
            report.begin("fitting the final network")
            self.base.set_final_penalty(final, pairs)
            ensemble = self._add_final(
                task, ensemble, final, training_set, fit_task.subtask("final")
            )
            report.time_stage("final network")
        base = self.base.with_fitted(
            named_estimators_=dict(pairs[k] for k in ensemble.used),
            final_estimator_=ensemble.final_estimator,
        )
        scored = training_set.scored_sample.rows.X
        weighting = self.weighting.with_ensemble(task, ensemble, scored, networks)
        names = [name for name, _ in pairs]
        report.ensemble(names, ensemble.weights, weighting.loo_errors_, ensemble.final_weight)
        return StackedParts(task, base, weighting)

    def feature_importances(self, n_features: int) -> npt.NDArray[np.float64]:
        """Return the importances of the features, the mean over all networks by their weights.

        The features of a final estimator are those of X and the scores of the base estimators; the
        importance of these scores is distributed to the features by the importances of the base
        estimators.

        Raises
        ------
        AttributeError
            If a network has no importances.
        """
        weights, final = self.weighting.weights_, self.base.final_estimator_
        each = [_importances_of(*pair) for pair in self.base.named_estimators_.items()]
        mean = np.average(each, axis=0, weights=weights)
        if final is None:
            return mean
        of_final = _importances_of("final_estimator", final)
        of_X, of_scores = of_final[:n_features], of_final[n_features:].sum()
        weight = self.weighting.final_weight_
        return (1 - weight) * mean + weight * (of_X + of_scores * mean)

    def _draw_training_set(self, samples, y, validation, n_estimators, has_final):
        n_rows = self.weighting.n_samples(n_estimators, samples.targets.n_outputs, has_final)
        with self.base.open_job(samples.X) as job:
            sample = sample_by_hash(job, samples, n_rows, sample_groups(samples, n_rows))
            drawn = samples.validation and sample_by_hash(job, samples.validation, n_rows)
        folds = None
        if has_final or (samples.groups is not None and validation is None):
            folds = assign_folds(sample, samples.groups_of(sample.numbers))
        return TrainingSet(samples, y, sample, folds, validation, drawn)

    def _add_final(self, task, ensemble, final, training_set, fit_task):
        """Return the ensemble with a final estimator fitted to the sample, if that gains.

        Its features are those of X, and out-of-fold scores. Leave-one-out scores would leak the
        target: they equal the scores of the fit to all samples minus the influence of the sample
        itself, which a network can infer from the other features.
        """
        samples, validation, drawn = training_set.samples, training_set.validation, None
        before = ensemble.oof_scores if validation is None else ensemble.scores
        extend = partial(ExtendedSamples.of, self.base, self.weighting, task)
        trained = extend(samples, training_set.sample, ensemble.oof_scores)
        compared = trained
        if validation is not None:
            compared = extend(samples.validation, training_set.scored_sample, before)
            drawn, y_val = compared.sample, validation.y[compared.rows]
            validation = ValidationSet(compared.samples.X, y_val, compared.samples.weight)
        y, folds = training_set.y[trained.rows], training_set.folds[trained.places]
        final_set = TrainingSet(trained.samples, y, trained.sample, folds, validation, drawn)
        # The penalty of the default final estimator is not the user's, and the weight of the final
        # estimator is validated: a warning of an ill-conditioned layer would have no remedy.
        with without_warnings() if self.base.has_default_final else nullcontext():
            left_out = final_set.fit(final, fit_task, {})
        scores = left_out.oof_scores if validation is None else left_out.scores
        assert scores is not None
        places = compared.places
        return ensemble.with_final(final, places, before[places], scores, self.weighting.min_gain)


def _importances_of(name, network):
    importances = getattr(network, "feature_importances_", None)
    if importances is None:
        raise AttributeError(
            "An ensemble has feature_importances_ if all its networks have them, and "
            f"{name}={type(network).__name__} has none: its features are not weighted. Use "
            'feature_weights="learned" there, or permutation_importance of sklearn.inspection.'
        )
    return importances


@dataclass(frozen=True, eq=False)
class Decision:
    """The predictions of one column of y for some samples, and the scores that decide them.

    The first three attributes are those of `TargetSpec.select_decision`. `contributions`, of shape
    (n_samples, n_networks), and `intercept`, of shape (n_samples,), add up to these scores.
    """

    predictions: npt.NDArray
    columns: npt.NDArray
    signs: npt.NDArray
    contributions: npt.NDArray
    intercept: npt.NDArray


@dataclass(frozen=True, eq=False)
class StackedPrediction:
    """A prediction: the parts of a fitted ensemble, and validated samples."""

    parts: StackedParts
    X: Any = None
    block_values: int = 2**21  # values of X and scores in a block of samples

    def empty_output(self, method: str, **options: Any) -> Any:
        """Return an empty output with the dtype and shape of a prediction method."""
        return self._format(method, np.empty((0, len(self._offset))), **options)

    def output(self, method: str, out: Any = None, **options: Any) -> Any:
        """Return the output of a prediction method, in new arrays or in `out`."""
        buffer = OutputBuffer(len(self.X), out)
        if out is not None:
            self.parts.task.check_out(out, (len(self.X), *self.empty_output(method).shape[1:]))
            check_no_overlap(out, self.X)
        for part, X in self._blocks():
            buffer.take(part, self._format(method, self._scores(X), **options))
        return buffer.result

    def quantiles(self, probabilities: npt.NDArray) -> npt.NDArray:
        """Return quantiles of y, with the number of quantiles as the last dimension."""
        task: Any = self.parts.task
        weighting: Any = self.parts.weighting
        distribution = weighting.residual_distribution_
        # The scale of residuals depends on activations of the network with the largest weight.
        networks = list(self.parts.base.named_estimators_.values())
        network = networks[weighting.weights_.argmax()]
        quantiles, buffer = distribution.quantiles(probabilities), OutputBuffer(len(self.X))
        for part, X in self._blocks():
            scores = self._scores(X)
            with network._open_prediction(X, "predict") as run:
                H = first_activations(run.job, run.layer, run.X, distribution.n_units)
            scale = distribution.scale(H, task.standardise(scores))
            buffer.take(part, task.format_quantiles(scores, scale, quantiles))
        return buffer.result

    def contributions(self, output: int) -> npt.NDArray:
        """Return what each network adds to each prediction, (n_samples, n_networks)."""
        check_output(output, self.parts.task.n_columns)
        return np.concatenate([decided.contributions for _, decided in self.decisions(output)])

    def in_blocks(self, n_rows: int) -> "StackedPrediction":
        """Return the same with blocks of so many samples at most."""
        return replace(self, block_values=n_rows * self._row_values)

    def decisions(self, output: int) -> Iterator[tuple[Any, "Decision"]]:
        """Yield blocks of samples and the `Decision` about one column of y for each block."""
        for _, X in self._blocks():
            scores = np.stack(list(self._weighted_scores(X)))
            decided = self.parts.task.select_decision(self._add_up(scores), output)
            predictions, columns, signs = decided
            contributions = (signs * scores[:, np.arange(len(columns)), columns]).T
            intercept = signs * self._offset[columns]
            yield X, Decision(predictions, columns, signs, contributions, intercept)

    @cached_property
    def _offset(self):
        """Return the constant term of the scores, (n_scores,)."""
        weighting = self.parts.weighting
        return (1 - weighting.final_weight_) * weighting.intercept_

    @property
    def _row_values(self):
        return self.X.shape[1] + len(self._offset)

    def _format(self, method, scores, **options):
        return self.parts.task.format_output(method, scores, self.parts.weighting, **options)

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        """Return (slice, samples) of blocks of X; all networks use a block that was read once."""
        X, limit = self.X, self.parts.base.memory_limit
        n_values = self.block_values if limit is None else min(self.block_values, limit // 64)
        parts = list(gen_batches(len(X), max(1, n_values // self._row_values)))
        if is_in_memory(X):
            return ((part, slice_rows(X, part)) for part in parts)
        return zip(parts, row_blocks(X, None, parts), strict=True)

    def _scores(self, X):
        """Return the scores of the ensemble, (n_samples, n_scores)."""
        return self._add_up(self._weighted_scores(X))

    def _add_up(self, weighted_scores):
        """Return the scores, (n_samples, n_scores), of what each network adds to them.

        Deviations from the mean of y are added, which are 0 if an output of y is constant: rounding
        errors of products with the weights would make its R² 0.
        """
        weighting = self.parts.weighting
        origin, final_weight = weighting.origin(self.parts.task), weighting.final_weight_
        weights = *((1 - final_weight) * weighting.weights_), final_weight
        pairs = zip(weighted_scores, weights, strict=False)  # there may be no final estimator
        return origin + sum(scores - weight * origin for scores, weight in pairs)

    def _weighted_scores(self, X):
        """Yield what each network adds to the scores, (n_samples, n_scores); the final one last."""
        weighting, final = self.parts.weighting, self.parts.base.final_estimator_
        final_weight, total = weighting.final_weight_, np.zeros((len(X), len(self._offset)))
        estimators = self.parts.base.named_estimators_.values()
        for weight, estimator in zip(weighting.weights_, estimators, strict=True):
            scores = weight * _scores_of(estimator, X)
            total += scores
            yield (1 - final_weight) * scores
        if final is not None:
            X = np.asarray(to_host(take_rows(X, slice(None))))
            X = weighting.append_scores(self.parts.task, X, total + weighting.intercept_)
            yield final_weight * _scores_of(final, X)


def _scores_of(network, X):
    """Return the scores of a fitted network, (n_samples, n_scores), of all outputs together."""
    predict = getattr(network, "decision_function", network.predict)
    return np.hstack([np.reshape(scores, (len(X), -1)) for scores in as_array_list(predict(X))])
