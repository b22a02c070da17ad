"""The public methods of classifiers."""

from collections.abc import Callable
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..utils.availability import available_if
from ..utils.docstrings import fill_docstring
from ..utils.parameters import check_confidence_level, is_option
from .partial_fit import IncrementalNetwork
from .prediction import lazy_on_dask
from .shared_docs import FIT
from .state import on_snapshot
from .validation_set import ValidationSet

_NOT_CALIBRATED = (
    "This {} has no temperature_, and therefore no predict_proba, predict_log_proba and "
    "predict_set: it was fitted with another readout. Fit it again."
)
# Why there are no conformity scores.
_SOFTMAX_NOT_CONFORMAL = (
    'readout="softmax" has no leave-one-out scores, from which prediction sets are computed; pass '
    'X_val and y_val to fit, or use readout="ridge".'
)
_NOT_CONFORMAL = (
    "This {} has no leave-one-out scores, from which prediction sets are computed: each sample "
    "determines its own prediction, or `forget` has removed the calibration set. Fit it to more "
    "samples, or with a larger alpha."
)


class ClassifierMethods(ClassifierMixin):
    """Mixin: the methods of a fitted classifier, a single network or a stacked ensemble."""

    _compute_output: Callable[..., Any]
    _score: Callable[..., float]

    def _has_probabilities(self) -> bool:
        """Return True, or raise AttributeError with the reason why there are no probabilities."""
        return True

    @on_snapshot
    @lazy_on_dask
    def decision_function(self, X):
        """Compute the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes have one score, which is positive if the second is predicted. For
            multilabel y, (n_samples, n_labels): positive if the label is predicted. For several
            outputs, a list with the scores of each.
        """
        return self._compute_output(X, "decision_function")

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, out=None):
        """Predict for each sample the class with the largest score, the first of equal ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `fit`; y in the chunks of a function is ignored.
        out : array-like of the shape of y, optional
            Where the predictions are written: an array, a ``numpy.memmap``, or a dataset of h5py
            or zarr. After an error it may contain some of them.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), or `out`
        """
        return self._compute_output(X, "predict", out)

    def score(self, X, y=None, sample_weight=None):
        """Return the accuracy: the fraction of samples with all outputs predicted correctly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As in `fit`.
        sample_weight : array-like of shape (n_samples,) or str, optional

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight)

    @available_if(lambda model: model._has_probabilities())
    @on_snapshot
    @lazy_on_dask
    def predict_proba(self, X):
        """Predict the probabilities of the classes.

        They are the softmax of ``arcsinh(p / score_scale_) / temperature_``, where the decision
        values p estimate the probabilities. `score_scale_` and `temperature_` are fitted to
        leave-one-out predictions, or to the predictions for `X_val`. With `matrix_scaling_`, the
        decision values are logits, up to a factor. With the readout "softmax", probabilities are
        the softmax of the decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`. For multilabel y, (n_samples, n_labels): those of the
            labels. For several outputs, a list with the probabilities of each. `max_memory`
            limits the temporary memory, excluding the result.
        """
        self._has_probabilities()  # again, for the solved readout
        return self._compute_output(X, "predict_proba")

    @available_if(lambda model: model._has_probabilities())
    @on_snapshot
    @lazy_on_dask
    def predict_log_proba(self, X):
        """Predict the logarithms of the probabilities, see `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            Or a list of them, as in `predict_proba`.
        """
        self._has_probabilities()  # again, for the solved readout
        return self._compute_output(X, "predict_log_proba")

    @available_if(lambda model: model._has_probabilities())
    @on_snapshot
    @lazy_on_dask
    def predict_set(self, X, confidence_level=0.9):
        """Predict sets of classes that contain the true class with a given probability.

        A set contains the predicted class, and all classes whose probability reaches a threshold
        [1]_. The threshold is the largest one at which the sets of enough training samples,
        predicted by leave-one-out, or of enough samples of `X_val` contain the true class; samples
        and classes are weighted as in `fit`. The coverage is a mean over new samples: it is lower
        for some classes and regions of X, and higher for others. If the accuracy is higher than
        `confidence_level`, sets contain only the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
        confidence_level : float, default=0.9
            Probability that a set contains the true class, between 0 and 1.

        Returns
        -------
        is_in_set : ndarray of shape (n_samples, n_classes), bool
            Which of `classes_` are in the set: one or more. For multilabel y, an array of shape
            (n_samples, n_labels, 2): whether each label may be 0, and whether it may be 1. For
            several outputs, a list with the sets of each; the level holds for each output alone.

        Raises
        ------
        TypeError, ValueError
            For an invalid `confidence_level`, and if there are no leave-one-out scores: with the
            readout "softmax" unless `X_val` was given, if each sample determines its own
            prediction, and if `forget` has removed the calibration set.

        References
        ----------
        .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with
           bounded error levels", Journal of the American Statistical Association 114 (2019).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn_fsvc import RBFClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RBFClassifier(100, random_state=0).fit(X[::2], y[::2])
        >>> is_in_set = model.predict_set(X[1::2], confidence_level=0.98)
        >>> is_in_set.shape
        (898, 10)
        >>> bool(is_in_set[range(898), y[1::2]].mean() > 0.97)
        True
        >>> bool(1 < is_in_set.sum(axis=1).mean() < 1.3)  # classes per set
        True
        """
        self._has_probabilities()  # again, for the solved readout
        return self._compute_output(
            X, "predict_set", thresholds=self._set_thresholds(confidence_level)
        )

    def _empty_output(self, method, dtype, **options):
        # For Dask.
        if method == "predict_set":
            options = {"thresholds": self._set_thresholds(**options)}
        return super()._empty_output(method, dtype, **options)  # type: ignore[misc]

    def _set_thresholds(self, confidence_level=0.9):
        """Return the thresholds of prediction sets, one for each output of y."""
        level = check_confidence_level(confidence_level)
        if not hasattr(self, "conformity_scores_"):
            check_is_fitted(self)
            is_softmax = is_option(getattr(self, "readout", None), "softmax")
            why = _SOFTMAX_NOT_CONFORMAL if is_softmax else _NOT_CONFORMAL
            raise ValueError(why.format(type(self).__name__))
        return [scores.threshold(level) for scores in self.conformity_scores_]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = True
        return tags


class NetworkClassifier(ClassifierMethods, IncrementalNetwork):
    """Base of classifiers with one hidden layer, whose target specification is `ClassTarget`."""

    # Fitted attributes of the target specification and the readout.
    classes_: Any
    multilabel_: bool
    temperature_: Any

    @fill_docstring(FIT)
    def fit(
        self, X, y=None, sample_weight=None, groups=None, *, X_val=None, y_val=None,
        sample_weight_val=None,
    ):  # fmt: skip
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            float32, float64 and arrays of uint8 are not converted, other dtypes and tables of
            uint8 are converted to float64. A ``numpy.memmap`` is read tile by tile. If `device` is
            a GPU, X and y may be arrays on it, of CuPy, torch or another library with DLPack.

            Tanh units accept sparse matrices and arrays of SciPy. These are converted to CSR, and
            never to a dense array as a whole; all other units reject them. Predictions are those
            for the same data in a dense array, up to rounding.

            A source is never in memory as a whole. It is a dataset of h5py, an array of zarr, or
            any other object with `shape`, `dtype` and slices; or a function without arguments
            that returns a new iterable of chunks on each call: ``X``, ``(X, y)``,
            ``(X, y, sample_weight)``, or tables of Arrow, pandas or polars.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, of two classes or more. Each of several columns is a separate output; if
            all values are 0 or 1, they are the indicators of a multilabel problem. None if the
            chunks of X contain it; for tables, the name of its column.
        %(sample_weight)s
        %(groups)s
        %(X_val)s
        %(y_val)s
        %(sample_weight_val)s

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For invalid data or parameters, such as sparse X if units are not tanh units; the
            estimator is not changed.
        RuntimeError
            If ``device`` does not work on this machine, with the reason.
        """
        validation = ValidationSet.from_arguments(X_val, y_val, sample_weight_val)
        return self._fit(X, y, sample_weight, groups, validation)

    @available_if(IncrementalNetwork._supports_partial_fit)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train incrementally on a batch of samples.

        Samples are buffered until there are enough of all classes to choose the hidden layer, as
        `fit` does: 6000, or 2 per unit if that is more (8000 with ``n_hidden=None``). One call may
        contain enough. Earlier predictions use a provisional layer, see :doc:`/streams`. Then the
        layer is fixed, and samples are added to sums; a given `layer` is fixed at once.

        `predict`, the other methods that need the readout, and `solve` solve the equations; the
        readout is that of a fit to all samples, up to rounding. Before that, there is no
        `readout_coef_` and no `alpha_`. `alpha` may be changed between calls, `class_weight` only
        until the layer is fixed. "auto" minimises the error on held-out samples, as soon as there
        are two classes; the search is repeated after a tenth of the samples has been added or
        removed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`. Small batches are copied to a buffer on the host, also afterwards, until
            there are enough samples for a fast matrix product, or until the readout is needed.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Some of the classes.
        classes : array-like of shape (n_classes,), or list of array-like, optional
            All classes that y may contain in any call. By default those that occur before the
            layer is fixed; required in the first call if `layer` is given. For several columns, a
            list with the classes of each; not needed for multilabel y.
        sample_weight : array-like of shape (n_samples,), optional
            Samples of weight 0 are ignored, also if all weights of a batch are 0. So is a batch of
            classes of weight 0, even if `class_weight` is changed later.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            For parameters that need several passes over all samples: several values of `alpha`
            or "loo", ``class_weight="balanced"``, a readout other than "ridge".
        ValueError
            For invalid data, such as a class that was neither listed nor among the samples before
            the layer was fixed; the estimator is not changed.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: its layer is kept, and its samples are forgotten.
            When the layer is fixed, if the samples are of one class, or fewer than `n_hidden`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from sklearn_fsvc import TanhClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = TanhClassifier(200, random_state=0)
        >>> for rows in np.array_split(np.arange(1500), 10):
        ...     clf = clf.partial_fit(X[rows], y[rows], classes=range(10))
        >>> bool(clf.score(X[1500:], y[1500:]) > 0.9)
        True
        """
        return self._partial_fit(X, y, sample_weight, classes)

    def _has_probabilities(self):
        if not self._parts().readout.has_probabilities:
            raise AttributeError(
                f"readout={self.readout!r} has no probabilities: this {type(self).__name__} has "
                'no predict_proba, predict_log_proba and predict_set; use readout="ridge" or '
                '"softmax".'
            )
        state = vars(self)  # one dictionary: another thread may replace it meanwhile
        # A merged state may lack the calibration sample.
        incremental = state.get("_incremental_state")
        lacks_sample = incremental is not None and incremental.statistics.sample is None
        if lacks_sample or ("readout_coef_" in state and "temperature_" not in state):
            raise AttributeError(_NOT_CALIBRATED.format(type(self).__name__))
        return True

    def __sklearn_tags__(self):
        return self._parts().units.with_tags(super().__sklearn_tags__())
