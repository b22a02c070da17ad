"""Predictors whose rows come and go: `partial_fit`, `forget`, `merge`."""

from abc import abstractmethod

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..cautions import warn
from ..engines import get_engine
from ..parameters import check_positive, is_word
from ..readouts.held_out import Trials
from ..readouts.stream import ImpossibleSums
from ..rows.sources import some_rows
from ..rows.streaming import n_synapses, suited
from ..rows.validation import to_host, validated
from .sums import SummingPredictor
from .turns import changed, twin_of


class StreamingPredictor(SummingPredictor):
    """A predictor that learns from rows as they come."""

    @abstractmethod
    def _know_targets(self, X, y, sample_weight, classes, is_first):
        """Set what y is made of, by the first rows; later on, check what is said of it."""

    @abstractmethod
    def _samples_of(self, X, y, sample_weight):
        """`Samples` of clean rows, with y in terms of what it is made of."""

    @abstractmethod
    def _check_same_targets(self, other, name):
        """Raise where y of another model is made of something else."""

    @abstractmethod
    def _name_of_output(self, k):
        """What an output of the readout stands for, for messages."""

    def _why_no_stream(self):
        """Why rows cannot come one after the other, and what to do; None where they can."""
        is_tried = np.iterable(self.alpha) and not isinstance(self.alpha, str)
        if is_tried or is_word(self.alpha, "loo"):
            return (
                f"alpha={self.alpha!r} is chosen by leave-one-out, which meets all rows again; "
                'with partial_fit give a number, or "auto".'
            )
        for name in ("probability", "uncertainty"):
            if getattr(self, name, False) is True:
                return f"{name}=True meets all rows again; with partial_fit set {name}=False."
        return None

    def _may_stream(self):
        why = self._why_no_stream()
        if why:
            raise AttributeError(why)
        return True

    def _check_parameters(self):
        super()._check_parameters()
        if check_positive("forgetting", self.forgetting) > 1:
            raise ValueError(
                f"forgetting={self.forgetting!r} must be at most 1, with which no row fades."
            )

    def _partial_fit(self, X, y, sample_weight, classes=None):
        changed(self, lambda model: model._learn(X, y, sample_weight, classes))
        return self

    def _learn(self, X, y, sample_weight, classes):
        self._check_parameters()
        if self._is_summing:
            self._check_learning()
            samples = self._arriving(X, y, sample_weight, classes)
        else:
            samples = self._begin(X, y, sample_weight, classes)
        self._go_on(self._stream.learn(_with_weight(samples), self.forgetting, self._sums_of))

    def _begin(self, X, y, sample_weight, classes):
        """The first `Samples`: they choose the layer."""
        is_new = "readout_coef_" not in vars(self)
        if not is_new:
            warn(
                f"This {type(self).__name__} was trained by fit, which keeps no sums of its rows: "
                "it forgets them, and learns anew in the same hidden layer. To have their sums, "
                "call partial_fit for the first rows as well."
            )
        with get_engine(self.device, n_synapses(X, self._width)) as engine:
            samples = self._arriving(X, y, sample_weight, classes, is_first=is_new)
            self._drop_stale()
            self.device_ = engine.name
            trials = Trials(self._first_alpha)
            if is_new or self._lender is not None:
                there, job = self._present(samples).on_device(self._job(engine, "partial_fit"))
                layer = self._choose_layer(job, there, trials)
                self._warn_of_one_class(samples)
            else:
                job = self._job(engine, "partial_fit")
                layer = suited(self._layer(), samples.X)
            trials.leave(self)
            self._start(layer, job.memory_limit, trials)
        return samples

    def _warn_of_one_class(self, samples):
        """Warn where centres are rows of one class."""
        codes = getattr(samples.targets, "codes", None)
        if codes is not None and "support_" in vars(self) and (codes == codes[0]).all():
            warn(
                "The rows of the first call of partial_fit are of one class, and so are the "
                "centres of the hidden layer, which stays. Begin with rows of all classes, or give "
                "a layer, as layer=FrozenEstimator(fitted)."
            )

    def _arriving(self, X, y, sample_weight, classes=None, is_first=False):
        """Clean `Samples` on the host."""
        if callable(X):
            raise TypeError(
                f"X={X!r} returns chunks of rows; give partial_fit and forget one chunk at a time."
            )
        X, y = validated(self, to_host(X), to_host(y), multi_output=True, reset=is_first)
        if is_first or classes is not None:
            self._know_targets(X, y, sample_weight, classes, is_first)
        return self._samples_of(X, y, sample_weight)

    def _check_learning(self, name=None):
        """Raise if there are no sums, or not those of the layer that the parameters mean."""
        check_is_fitted(self)
        name = name or f"This {type(self).__name__}"
        if not self._is_summing:
            raise ValueError(
                f"{name} was trained by fit, which keeps no sums of its rows; use partial_fit in "
                "its place."
            )
        if not self._is_same_layer():
            raise ValueError(
                f"{name} had its layer fixed in the first call of partial_fit, and its parameters "
                "layer or metric were changed since; set them back, or learn anew in a clone."
            )

    def forget(self, X, y, sample_weight=None):
        """Remove rows that were learnt by `partial_fit`.

        The readout becomes what it would be without them, to rounding. The hidden layer stays as
        it is, also where it was chosen by these rows: a centre keeps its unit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            As they were learnt. With less, that much of a row's weight goes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For rows that cannot have been learnt, such as more of a class than there are.
            Rows that were never learnt are not always noticed: keep a record of what was
            learnt. The estimator is left as it was.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.frozen import FrozenEstimator
        >>> from sklearn_fsvc import TanhRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = TanhRegressor(50, random_state=0).partial_fit(X, y)
        >>> model = model.forget(X[:100], y[:100]).solve()
        >>> refit = TanhRegressor(layer=FrozenEstimator(model), alpha=model.alpha_)
        >>> refit = refit.fit(X[100:], y[100:])
        >>> bool(abs(model.predict(X) - refit.predict(X)).max() < 1e-6)
        True
        """
        changed(self, lambda model: model._forget(X, y, sample_weight))
        return self

    def _forget(self, X, y, sample_weight):
        self._check_learning()
        if self.forgetting < 1 or self._stream.memory < 0:
            raise ValueError(
                f"forgetting={self.forgetting!r}: rows fade, and what is left of them depends "
                "on when they came; forget takes them out only with forgetting=1."
            )
        samples = _with_weight(self._arriving(X, y, sample_weight))
        try:
            self._go_on(self._stream.forget(samples, self._sums_of))
        except ImpossibleSums as error:
            which = "" if error.output is None else f" of {self._name_of_output(error.output)}"
            raise ValueError(
                f"Not all of these rows{which} can have been learnt: {error}. Give rows, y and "
                "sample_weight as partial_fit had them."
            ) from None

    def merge(self, models):
        """Add what other models with the same hidden layer have learnt.

        Parameters
        ----------
        models : sequence of estimators
            Of this class, taught by `partial_fit` in the same layer and of the same classes; the
            first of them may have chosen the layer, and the others had it as
            ``layer=FrozenEstimator(first)``. They are left as they are.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a model of another layer, of other classes, or of a y in other units; the
            estimator is left as it was.

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
        changed(self, lambda model: model._merge(models))
        return self

    def _merge(self, models):
        self._check_learning()
        stream, digest = self._stream, self._digest()
        for i, model in enumerate(models):
            other = twin_of(model)  # whatever it learns meanwhile
            self._check_mergeable(other, f"models[{i}]", digest)
            stream = stream.merge(other._stream, self._sums_of)
        if self._stream.n_parts and not stream.n_parts:  # nothing judges what was found
            vars(self).pop("_found_alpha", None)
        self._go_on(stream)

    def _check_mergeable(self, model, name, digest):
        if type(model) is not type(self):
            raise TypeError(f"{name}={model!r} must be a {type(self).__name__}, as this is.")
        model._check_learning(name)
        if model._digest() != digest:
            raise ValueError(
                f"{name} has another hidden layer. Give all models the same one: "
                "layer=FrozenEstimator(fitted), of sklearn.frozen."
            )
        if is_word(self.alpha, "auto") and bool(self._stream.n_parts) != bool(
            model._stream.n_parts
        ):
            raise ValueError(
                f'alpha="auto" is judged by rows that are held out, and {name} or this model held '
                'out none, for it began with a number. Begin with alpha="auto" in all models, or '
                "give this one a number by set_params(alpha=...)."
            )
        self._check_same_targets(model, name)


def _with_weight(samples):
    """The samples with a weight."""
    rows = samples.present
    if len(rows) == len(samples):
        return samples
    return samples.with_rows(some_rows(samples.X, rows), rows)
