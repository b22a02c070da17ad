"""What classifiers can be asked: their public methods. What they do is in `network`."""

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..data.dask_blocks import lazy_on_dask
from ..utils.availability import available_if
from .incremental import Online
from .state import on_snapshot

_NOT_CALIBRATED = (
    "This {} has found no temperature_, and so has no predict_proba and predict_log_proba: it was "
    "fitted with another readout or by an earlier version. Fit it again."
)


class ClassifierMethods(ClassifierMixin):
    """What a fitted classifier can be asked, be it a network or an ensemble of them."""

    def _has_probabilities(self):
        """Whether it has; AttributeError, which says why, where it has not."""
        return True

    @on_snapshot
    @lazy_on_dask
    def decision_function(self, X):
        """Compute the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive where the second is predicted. Of an indicator
            y, (n_samples, n_labels): positive where the label is predicted. Of several
            outputs, a list with the scores of each.
        """
        return self._compute_output(X, "decision_function")

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, out=None):
        """Predict the class of each row: the one with the largest score, of equal ones the first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As of `fit`; y in chunks of a function is not looked at.
        out : array-like of the shape of y, optional
            Where the predictions go: an array, a ``numpy.memmap``, or a data set of h5py or zarr.
            After an error it may hold some of them.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), or `out`
        """
        return self._compute_output(X, "predict", out)

    def score(self, X, y=None, sample_weight=None):
        """Return the accuracy: the part of the rows whose outputs are all predicted correctly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As of `fit`.
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

        The softmax of decision values over `temperature_`, which is found by rows that the readout
        has not seen; with the readout "softmax" it is 1. After `forget` few such rows may be left,
        until others come; the fewer, the nearer it is to 1 over the number of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`. Of an indicator y, (n_samples, n_labels): those of
            the labels. Of several outputs, a list with the probabilities of each. Beside p
            itself, `max_memory` bounds what is allocated where the layer is computed.
        """
        check_is_fitted(self)
        self._has_probabilities()  # now that it is solved
        return self._compute_output(X, "predict_proba")

    @available_if(lambda model: model._has_probabilities())
    @on_snapshot
    @lazy_on_dask
    def predict_log_proba(self, X):
        """Predict the logarithms of the probabilities, see `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            Or a list of them, as of `predict_proba`.
        """
        check_is_fitted(self)
        self._has_probabilities()  # now that it is solved
        return self._compute_output(X, "predict_log_proba")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = True
        return tags


class NetworkClassifier(ClassifierMethods, Online):
    """A network whose task is `ClassTarget`."""

    def fit(self, X, y=None, sample_weight=None):
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
            A ``numpy.memmap`` is read tile by tile. With a GPU for `device`, X may be an
            array of CuPy, torch or another library of DLPack on it; so may y.

            Tanh units take sparse matrices and arrays of SciPy, which become CSR, and are never
            dense as a whole; all others refuse them. Answers are those of the same rows, dense,
            to rounding.

            A source is never in memory as a whole. It is a data set of h5py, an array of
            zarr, or anything else with `shape`, `dtype` and slices; or a function without
            arguments that returns, each time, a fresh iterable of chunks of rows:
            ``X``, ``(X, y)``, ``(X, y, sample_weight)``, or tables of Arrow, pandas or polars.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, of two classes or more. With several columns each is an output of
            its own; of 0 and 1 alone, each says whether the row has a label. None where the
            chunks of X hold it; of tables, the name of its column.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Weights of the rows in the readout. A row of weight 0 is as good as absent. Of
            tables, the name of a column. Other columns are features.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For input or parameters that cannot be used; the estimator is left as it was.
        RuntimeError
            If ``device`` does not work here, with the reason.
        """
        return self._fit(X, y, sample_weight)

    @available_if(Online._supports_partial_fit)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from more rows.

        The first call chooses the hidden layer by its rows, as `fit` does, or takes `layer`.
        From then on the layer stays, and each call adds its rows to sums. `predict`, other methods
        that need the readout, and `solve` solve the equations; the readout is that of all rows
        together, to rounding. Until then there is no `readout_coef_` and no `alpha_`.
        `alpha` may be changed between calls. "auto" is found by the error on a part of all rows
        so far, as soon as they are of two classes; it is found again when a tenth of the rows came
        or went since.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `fit`. Small batches are copied, and wait on the host until there are enough
            rows for a fast product of matrices, or until the readout is needed.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Some of the classes.
        classes : array-like of shape (n_classes,), or list of array-like, optional
            All that y may ever hold; needed in the first call. Of several columns, a list with
            the classes of each; not needed for an indicator.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If parameters need all rows again: `alpha` of several or "loo",
            ``class_weight="balanced"``, another readout than "ridge".
        ValueError
            For input that cannot be used; the estimator is left as it was.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: its layer is kept, and its rows are forgotten.
            In the first call, for centres that are of one class, or fewer than `n_hidden`.

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
                f"readout={self.readout!r} finds no probabilities: this {type(self).__name__} has "
                'no predict_proba and predict_log_proba; use readout="ridge" or "softmax".'
            )
        state = vars(self)
        # A state that was merged or saved by an earlier version may lack the calibration sample.
        incremental = state.get("_incremental_state")
        lacks_sample = incremental is not None and incremental.statistics.sample is None
        if lacks_sample or ("readout_coef_" in state and "temperature_" not in state):
            raise AttributeError(_NOT_CALIBRATED.format(type(self).__name__))
        return True

    def __sklearn_tags__(self):
        return self._parts().units.tagged(super().__sklearn_tags__())
