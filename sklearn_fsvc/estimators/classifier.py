"""A classifier: what its rows, labels and weights become, and what it answers."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..availability import available_if
from ..parameters import check_flag
from ..rows.out import check_holds, check_out, write
from .class_stream import ClassStream
from .labels import Labels
from .lazy import lazy_on_dask
from .turns import of_one_state

# Scores by which probabilities are calibrated, and rows: one number needs no more of them.
_SCORED, _LEAST_SCORED = 2**21, 2**12
_NOT_CALIBRATED = "This %(name)s was not fitted with probability=True; fit it again."


class HiddenLayerClassifier(ClassifierMixin, ClassStream):
    """One hidden layer that is not trained, and a linear readout with a score a class."""

    def _check_parameters(self):
        super()._check_parameters()
        check_flag("probability", self.probability)

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

    def _prepare(self, engine, X, y, sample_weight):
        """Clean `Samples`; sets `classes_`, `is_indicator_` and `device_`."""
        X, y = self._clean(engine, X, y)
        labels, codes = Labels.of(y)
        self.classes_, self.is_indicator_ = labels.classes, labels.is_indicator
        samples = self._of_codes(X, codes, sample_weight)
        if not labels.is_indicator:
            self._check_classes(codes, samples.weight)
        self.device_ = engine.name
        return self._present(samples)

    def _check_classes(self, codes, weight):
        for output, (classes, column) in enumerate(zip(self._labels.each, codes.T, strict=True)):
            if weight is not None:
                classes = classes[np.flatnonzero(np.bincount(column[weight > 0]))]
            if len(classes) < 2:
                where = "y" if self._labels.is_single else f"Column {output} of y"
                raise ValueError(
                    f"{where} holds one class, {classes[0]}, in rows of positive sample_weight; a "
                    "classifier needs two or more."
                )

    def _keep_readout(self, W, b, dtype):
        """A score for each class, of two classes one; in the dtype of the layer."""
        self.readout_coef_ = self._labels.scores_of(W, axis=0).astype(dtype)
        self.readout_intercept_ = self._labels.scores_of(b, axis=0).astype(dtype)

    @property
    def _wants_press_scores(self):
        return self.probability

    def _scored_rows(self, samples):
        most = max(_LEAST_SCORED, _SCORED // samples.targets.n_outputs)
        if len(samples) <= most:
            return None
        present = samples.present
        most = min(most, len(present))
        return np.sort(self._random().choice(present, most, replace=False, shuffle=False))

    def _take_press_scores(self, job, layer, samples, chosen, rows):
        scores, codes = self._labels.scores_of(chosen.scores), samples.targets.all_codes

        def answer(numbers, answers):
            scores[numbers if rows is None else np.searchsorted(rows, numbers)] = answers

        self._answer_outside(job, layer, samples.X, chosen.outside, answer)
        of = slice(None) if rows is None else rows
        self.temperature_ = self._labels.temperatures(scores, codes[of], samples.weight_of(of))

    def _scores(self, X):
        with self._asked(X, "predict") as (job, layer, X):
            scores = np.empty((len(X), len(self.readout_coef_)), layer.hidden_dtype)
            self._stream_scores(job, layer, X, scores.__setitem__)
        return scores

    def _answers_to_none(self, name, dtype):
        """What a method gives for no rows of a dtype."""
        if name == "predict":
            return self._answers_of_codes(0)
        scores = np.empty((0, len(self.readout_coef_)), self._hidden_dtype(dtype))
        if name == "decision_function":
            return self._labels.told(scores)
        return self._labels.probabilities(scores, self.temperature_)

    def _answers_of_codes(self, n_rows):
        """So many answers, all of the first class."""
        return self._labels.decode(np.zeros((n_rows, len(self._labels.each)), np.intp))

    @of_one_state
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
        scores = self._scores(X)
        return self._labels.told(scores)

    def _answers(self, scores):
        return self._labels.decode(self._labels.codes_of(scores))

    @of_one_state
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
        with self._asked(X, "predict") as (job, layer, X):
            if out is None:
                out = _for_rows(len(X), self._answers_of_codes(0))
            else:
                self._check_labels_fit(out, len(X))
            self._stream_scores(
                job, layer, X, lambda part, scores: write(out, part, self._answers(scores))
            )
        return out

    def _check_labels_fit(self, out, n_rows):
        """Raise if `out` has no room for a class."""
        some = self._answers_of_codes(1)
        check_out(out, (n_rows, *some.shape[1:]))
        for classes in self._labels.each:
            check_holds(out, classes)

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
        return self._scored(X, y, sample_weight)

    def _score_of(self, answers, y, sample_weight):
        if np.ndim(answers) == 2:  # which accuracy_score takes only of 0 and 1
            y = y.toarray() if issparse(y) else np.asarray(y)
            if y.shape != answers.shape:
                raise ValueError(
                    f"y has shape {y.shape}, and the predictions have {answers.shape}; give the "
                    "classes of all outputs."
                )
            answers, y = (answers == y).all(axis=1), np.ones(len(y), bool)
        return accuracy_score(y, answers, sample_weight=sample_weight)

    def _check_calibrated(self):
        if not self.probability:
            raise AttributeError(
                f"probability={self.probability!r}: this {type(self).__name__} has no "
                "predict_proba and predict_log_proba; fit it with probability=True."
            )
        return True

    @available_if(_check_calibrated)
    @of_one_state
    @lazy_on_dask
    def predict_proba(self, X):
        """Predict probabilities of the classes, calibrated on leave-one-out decision values.

        Only with ``probability=True``.

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
        check_is_fitted(self, "temperature_", msg=_NOT_CALIBRATED)
        with self._asked(X, "predict") as (job, layer, X):
            empty = self._answers_to_none("predict_proba", X.dtype)
            p = [_for_rows(len(X), each) for each in _as_list(empty)]

            def calibrate(part, scores):
                found = self._labels.probabilities(scores, self.temperature_)
                for own, of_part in zip(p, _as_list(found), strict=True):
                    own[part] = of_part

            self._stream_scores(job, layer, X, calibrate)
        return p if isinstance(empty, list) else p[0]

    @available_if(_check_calibrated)
    @of_one_state
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
        p = self.predict_proba(X)
        for each in _as_list(p):
            np.log(each, out=each)
        return p

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = True
        return tags


def _as_list(answers):
    """Of several outputs there is a list already."""
    return answers if isinstance(answers, list) else [answers]


def _for_rows(n_rows, empty):
    """An array for the answers to so many rows, like that for none."""
    return np.empty((n_rows, *empty.shape[1:]), empty.dtype)
