"""Rows that come and go, with classes: what y is made of is told before all of it is seen."""

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from ..availability import available_if
from ..parameters import is_word
from ..rows.samples import Samples
from .labels import Labels
from .stream import StreamingPredictor


class ClassStream(StreamingPredictor):
    """A predictor of classes that learns from rows as they come."""

    @available_if(StreamingPredictor._may_stream)
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
            ``probability=True``, ``class_weight="balanced"``, another readout than "ridge".
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

    def _why_no_stream(self):
        if is_word(self.class_weight, "balanced"):
            return (
                'class_weight="balanced" counts all rows; with partial_fit give a dict, or '
                "sample_weight."
            )
        return super()._why_no_stream()

    def _know_targets(self, X, y, sample_weight, classes, is_first):
        labels = Labels.known(classes, y)
        if is_first:
            self.classes_, self.is_indicator_ = labels.classes, labels.is_indicator
        elif not self._labels.is_same(labels):
            raise ValueError(
                f"classes={classes!r} are not those of the first call to partial_fit, "
                f"{self.classes_!r}."
            )

    def _samples_of(self, X, y, sample_weight):
        return self._of_codes(X, self._labels.codes(y), sample_weight)

    def _of_codes(self, X, codes, sample_weight):
        weight = self._row_weights(X, sample_weight, self._class_weights(codes))
        return Samples(X, self._labels.targets(codes), weight)

    def _check_same_targets(self, other, name):
        if not self._labels.is_same(other._labels):
            raise ValueError(
                f"{name} has classes_={other.classes_!r}, and this model {self.classes_!r}; give "
                "the same classes to partial_fit."
            )

    def _name_of_output(self, k):
        return self._labels.name_of(k)

    @property
    def _labels(self):
        return Labels(self.classes_, self.is_indicator_)

    def _class_weights(self, codes):
        """The weight that its classes give each row; None where they give none."""
        if self.class_weight is None:
            return None
        weights = compute_sample_weight(self.class_weight, self._labels.decode(codes))
        is_weight = np.isfinite(weights) & (weights >= 0)
        if not is_weight.all():
            raise ValueError(
                f"class_weight={self.class_weight!r} gives rows the weight "
                f"{weights[~is_weight][0]}; give each class a finite number of 0 or more."
            )
        return weights
