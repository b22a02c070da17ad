"""The training samples that contribute most to predictions: of a pipeline, and as a display."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ..estimators.explanation import Explanation
from ..images import read_image_shape
from ..stacking.prediction import centered_networks
from .displays import BLUE, VERMILION, axes_for, format_value, network_of


def explain(estimator: Any, X: Any, n: int = 5, output: int = 0) -> Explanation:
    """Find the training samples with the largest contributions to predictions of a pipeline.

    Parameters
    ----------
    estimator : RBFClassifier, RBFRegressor, StackedClassifier, StackedRegressor, or Pipeline
        Fitted. A pipeline, such as that of `make_tabular_pipeline`, ends in one of the others.
    X : array-like of shape (n_samples, n_features)
        Samples as for the `predict` of the estimator: the steps of a pipeline transform them.
    n : int, default=5
        Number of training samples for each prediction; at most the number of centres.
    output : int, default=0
        Which column of y is explained, if there are several.

    Returns
    -------
    explanation : Explanation
        Its `support` contains row numbers of the training data of the pipeline.

    Raises
    ------
    TypeError
        If the estimator has no `explain`.
    ValueError
        For an `n` below 1, or an `output` that y does not have; or if no network of an ensemble has
        units that are training samples.

    See Also
    --------
    sklearn_fsvc.RBFClassifier.explain : The same for a single network.
    ExplanationDisplay : Plots the result.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
    >>> from sklearn_fsvc.inspection import explain
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = make_tabular_pipeline(RBFClassifier(random_state=0)).fit(X, y)
    >>> found = explain(model, X[:1], n=3)
    >>> X.iloc[found.support[0]].shape  # the three samples that contribute most
    (3, 13)
    >>> bool(found.shares.sum() < 0.5)  # of all contributions
    True
    """
    return _explain_last_step(estimator, X, n, output)[-1]


def _explain_last_step(estimator, X, n, output):
    """Return the last step of a pipeline, the samples as it receives them, and the explanation."""
    steps, network = network_of(estimator)
    if not hasattr(network, "explain"):
        raise TypeError(
            f"estimator={estimator!r} cannot explain predictions: its units are not training "
            "samples. Pass an RBFClassifier, an RBFRegressor or a stacked ensemble of these, or a "
            "Pipeline that ends in one."
        )
    check_is_fitted(network)
    X = X if steps is None else steps.transform(X)
    return network, X, network.explain(X, n, output)


class ExplanationDisplay:
    """The training samples with the largest contributions to each prediction.

    Images: each explained sample is followed by its training samples. Otherwise, each explained
    sample has a bar chart: the training samples, all other units, and the intercept. Positive
    contributions to the prediction are blue, negative ones orange. The title has the share of
    all contributions, by absolute values, that the shown samples have. Created by `from_estimator`.

    Parameters
    ----------
    explanation : Explanation
    rows : ndarray of shape (n_rows, n_features), default=None
        The samples that are explained; needed for images.
    listed : ndarray of shape (n_rows, n, n_features), default=None
        Their training samples; needed for images.
    image_shape : tuple of int, default=None
        (rows, columns) or (rows, columns, channels); None plots bars.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Of shape (n_rows, n + 1) for images, else (n_rows,).
    figure_ : matplotlib Figure

    See Also
    --------
    explain : The values that are plotted.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import RBFClassifier
    >>> from sklearn_fsvc.inspection import ExplanationDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = RBFClassifier(50, random_state=0).fit(X[:200], y[:200])
    >>> display = ExplanationDisplay.from_estimator(clf, X[200:203], n=4, image_shape=(8, 8))
    >>> display.ax_.shape
    (3, 5)
    """

    def __init__(self, explanation, *, rows=None, listed=None, image_shape=None):
        self.explanation, self.rows, self.listed = explanation, rows, listed
        self.image_shape = image_shape

    @classmethod
    def from_estimator(cls, estimator, X, *, n=5, output=0, image_shape=None, ax=None):
        """Explain the predictions for a few samples, and plot the explanations.

        Parameters
        ----------
        estimator : RBFClassifier, RBFRegressor, StackedClassifier, StackedRegressor, or Pipeline
            A pipeline that ends in one of the others.
        X : array-like of shape (n_rows, n_features)
            A few samples: each has its own row of images, or its own bar chart.
        n, output : int
            As for `RBFClassifier.explain`.
        image_shape : (rows, columns) or (rows, columns, channels), default=None
            The shape of a sample as an image, after the steps of a pipeline; None plots bars.
        ax : array-like of matplotlib Axes, default=None
            Axes to plot on, as many as `ax_` has; None creates a figure.

        Returns
        -------
        display : ExplanationDisplay

        Raises
        ------
        TypeError
            If the estimator has no `explain`, or `image_shape` is no sequence of integers.
        ValueError
            If `image_shape` does not match the number of features.
        """
        if image_shape is not None:
            image_shape = read_image_shape(image_shape)
        network, X, explanation = _explain_last_step(estimator, X, n, output)
        n_features = network.n_features_in_
        if image_shape is not None and np.prod(image_shape) != n_features:
            raise ValueError(
                f"image_shape={image_shape!r} has {np.prod(image_shape)} values, but a sample has "
                f"{n_features}; pass the shape of its image, or None."
            )
        listed = _listed_samples(network, explanation)
        display = cls(explanation, rows=np.asarray(X), listed=listed, image_shape=image_shape)
        return display.plot(ax=ax)

    def plot(self, *, ax=None):
        """Plot the explanations; `ax` as for `from_estimator`.

        Returns
        -------
        display : ExplanationDisplay
        """
        n_rows, n = self.explanation.contributions.shape
        if self.image_shape is None:
            size = 6.4, (0.8 + 0.25 * (n + 2)) * n_rows
            self.ax_ = axes_for(ax, (n_rows,), size)
            draw = self._draw_bars
        else:
            self.ax_ = axes_for(ax, (n_rows, n + 1), (1.2 * (n + 1), 1.55 * n_rows))
            draw = self._draw_images
        for i, axes in enumerate(self.ax_):
            draw(i, axes)
        self.figure_ = self.ax_.flat[0].figure
        return self

    def _draw_images(self, i, axes):
        images, names = [self.rows[i], *self.listed[i]], self._sample_names(i, "{target}")
        contributions = self.explanation.contributions[i]
        pairs = zip(names, contributions, strict=True)
        titles = [self._title(i, "\n"), *(f"{k}\n{format_value(c, '+')}" for k, c in pairs)]
        colours = ["black", *map(_colour_of, contributions)]
        for ax, image, title, colour in zip(axes, images, titles, colours, strict=True):
            ax.imshow(image.reshape(self.image_shape), cmap="gray_r")
            ax.set_title(title, fontsize=9, color=colour)
            ax.set_axis_off()

    def _draw_bars(self, i, ax):
        explanation = self.explanation
        contributions = np.array(
            [*explanation.contributions[i], explanation.rest[i], explanation.intercept[i]]
        )
        samples = self._sample_names(i, "sample {support}: {target}")
        names = [*samples, "all other units", "intercept"]
        positions = np.arange(len(contributions))[::-1]  # from top to bottom
        bars = ax.barh(positions, contributions, color=[_colour_of(c) for c in contributions])
        labels = [format_value(c, "+") for c in contributions]
        ax.bar_label(bars, labels=labels, padding=3, fontsize=8)
        ax.set_yticks(positions, names)
        ax.axvline(0, color="0.6", linewidth=0.8)
        ax.margins(x=0.25)
        ax.set_title(self._title(i, ", "))
        ax.spines[["top", "right"]].set_visible(False)

    def _title(self, i, separator):
        prediction, score = self.explanation.predictions[i], self.explanation.scores[i]
        parts = [f"predicted {format_value(prediction)}"]
        # In regression the score is the prediction.
        if not (isinstance(prediction, np.floating) and np.isclose(prediction, score)):
            parts.append(f"score {score:.3g}")
        parts.append(f"{self.explanation.shares[i].sum():.0%} shown")
        return separator.join(parts)

    def _sample_names(self, i, template):
        """Return the names of the training samples of the i-th explanation.

        With a pretrained layer the training samples are unknown, and units are named instead.
        """
        explanation = self.explanation
        if explanation.support is None:
            return [f"unit {unit}" for unit in explanation.units[i]]
        pairs = zip(explanation.support[i], explanation.targets[i], strict=True)
        return [template.format(support=row, target=format_value(target)) for row, target in pairs]


def _listed_samples(network: Any, explanation: Explanation) -> npt.NDArray:
    """Return the listed training samples, of shape (n_rows, n, n_features)."""
    if explanation.units is not None:
        return network.centers_[explanation.units]
    networks = centered_networks(network.named_estimators_).values()
    centers = np.concatenate([each.centers_ for each in networks])
    rows, first = np.unique(np.concatenate([each.support_ for each in networks]), return_index=True)
    return centers[first[np.searchsorted(rows, np.asarray(explanation.support))]]


def _colour_of(contribution):
    return BLUE if contribution >= 0 else VERMILION
