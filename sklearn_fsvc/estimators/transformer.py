"""A hidden layer as a transformer: rows of X to rows of H."""

from abc import abstractmethod

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..readouts.held_out import Trials
from ..rows.samples import Samples
from ..rows.streaming import stream_into
from ..rows.validation import check_rows, to_host
from .base import HiddenLayerEstimator
from .targets import class_targets


class HiddenLayerTransformer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, HiddenLayerEstimator
):  # fmt: skip
    """A hidden layer whose outputs are the answer.

    Attributes
    ----------
    _meets_rows_again : bool
        Whether the choice of the layer takes several passes over the rows.
    """

    _size_name = "n_components"

    @abstractmethod
    def _why_classes(self):
        """What needs classes, and what does not; None where nothing does."""

    def fit(self, X, y=None):
        """Choose the hidden layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
        y : array-like of shape (n_samples,), optional
            Class labels, where the choice of the layer uses them.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _fit_on(self, job, X, y, sample_weight):
        X, y, why = check_rows(self, job.engine, X, reset=True), to_host(y), self._why_classes()
        targets = class_targets(y, len(X), *why) if why else None
        samples = self._present(Samples(X, targets))
        if self._meets_rows_again:
            samples, job = samples.on_device(job)
        trials = Trials(self._first_alpha)
        self._choose_layer(job, samples, trials)
        trials.leave(self)
        self.device_ = job.engine.name

    def transform(self, X):
        """The hidden layer's output for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
            float64 if X or the layer is, else float32. A CuPy array where X is on a GPU,
            else a NumPy array. Beside H itself, `max_memory` bounds what is allocated
            where H is computed.
        """
        with self._asked(X, "transform") as (job, layer, X):
            xp = job.engine.algebra_of(X).xp
            H = xp.empty((len(X), layer.n_units), layer.hidden_dtype)
            stream_into(job, layer, X, H)
        return H

    @property
    def _n_features_out(self):
        return self._layer().n_units

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
