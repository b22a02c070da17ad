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
from typing import Any, ClassVar

from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from ..data.dask_blocks import open_input
from ..data.streaming import count_operations
from ..data.validation import validate_samples
from ..engines import get_engine
from ..estimators.network import (
    score_predictions,
    set_fitted_attributes,
    validate_training_data,
)
from ..estimators.shared_docs import FIT
from ..estimators.state import EstimatorMixin, atomic_update, on_snapshot
from ..estimators.validation_set import ValidationSet
from ..utils.callbacks import CallbackMixin, with_callbacks
from ..utils.docstrings import fill_docstring
from ..utils.parameters import check_positive_integer
from .base_estimators import BaseEstimators
from .parts import StackedParts
from .prediction import StackedPrediction


class StackedEnsemble(EstimatorMixin, CallbackMixin, _BaseComposition, metaclass=ABCMeta):
    """Networks whose scores are added with non-negative weights."""

    __metadata_request__fit: ClassVar = {"groups": True}  # as of single networks
    # The classes of the RBF and the tanh networks that are the default base estimators.
    _network_classes: ClassVar[Any] = None

    @abstractmethod
    def _stacked_parts(self) -> StackedParts:
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

        Raises
        ------
        ValueError
            For a parameter that does not exist, such as one of the default base estimators, which
            are created by `fit`.
        """
        self._check_given_estimators(params)
        return self._set_params("estimators", **params)

    def _check_given_estimators(self, params):
        """Raise for parameters of default estimators, which do not exist before `fit`."""
        if params.get("estimators", self.estimators) is not None:
            return
        names = {name for name, _ in self.default_estimators()}
        wrong = [param for param in params if param.partition("__")[0] in names]
        if wrong:
            kind = type(self).__name__
            raise ValueError(
                f"{wrong[0]}={params[wrong[0]]!r} needs given estimators, and estimators is None: "
                f"first set estimators={kind}.default_estimators() and "
                f"final_estimator={kind}.default_final_estimator()."
            )

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
        with get_engine(self.device, count_operations(rows[0], None)) as engine:
            clean_X, clean_y = validate_training_data(self, engine, *rows[:2])
            validation = validation and validation.validated(self, engine)
        parts = parts.fit(clean_X, clean_y, rows[2], groups, validation, fit_task)
        set_fitted_attributes(self, parts.fitted)
        self._end_fit(fit_task, X, y, sample_weight)

    def _open_prediction(self, X):
        """Return the `StackedPrediction` for validated samples."""
        if "weights_" not in vars(self):
            check_is_fitted(self)  # slow: called only where it will raise
        X, *_ = open_input(X, self.device, self.max_memory)
        with get_engine(self.device, count_operations(X, None)) as engine:
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
            one. Together with ``(1 - final_weight_) * intercept_``, minus ``score_offset_`` of a
            classifier, they add up to the prediction, transformed if y is, or to the score of the
            predicted class. With `matrix_scaling_`, these are mapped ones, and its last column is
            added. For two classes, all of these are those of the second, times -1 for the first.
            `explain` of an RBF base estimator lists training samples.

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
        return self._open_prediction(X).explain(n, output)

    def _score(self, X, y, sample_weight):
        return score_predictions(self, self._stacked_parts().target, X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = BaseEstimators.from_estimator(self).takes_sparse
        return tags
