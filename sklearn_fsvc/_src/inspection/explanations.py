"""ExplanationDisplay: the training rows that decided, as pictures or as bars."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .displays import BLUE, VERMILION, axes_for, network_of, text_of


class ExplanationDisplay:
    """For each row, the training rows that decided its prediction, and what each contributed.

    Images are shown side by side: the row itself, then the training rows. Of a table, each row
    has bars: the training rows, the rest of the units, and the intercept. What speaks for the
    prediction is blue, what speaks against it is red. Make it by `from_estimator`.

    Parameters
    ----------
    explanation : Explanation
    rows : ndarray of shape (n_rows, n_features), default=None
        The rows that are explained; images need them.
    deciding : ndarray of shape (n_rows, n, n_features), default=None
        The training rows; images need them.
    image_shape : tuple of int, default=None
        (rows, columns) or (rows, columns, channels); None is no images.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Of shape (n_rows, n + 1) of images, else (n_rows,).
    figure_ : matplotlib Figure

    See Also
    --------
    sklearn_fsvc.RBFClassifier.explain : The numbers that are drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import RBFClassifier
    >>> from sklearn_fsvc.inspection import ExplanationDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = RBFClassifier(300, random_state=0).fit(X[:1500], y[:1500])
    >>> display = ExplanationDisplay.from_estimator(clf, X[1500:1503], n=4, image_shape=(8, 8))
    >>> display.ax_.shape
    (3, 5)
    """

    def __init__(self, explanation, *, rows=None, deciding=None, image_shape=None):
        self.explanation, self.rows, self.deciding = explanation, rows, deciding
        self.image_shape = image_shape

    @classmethod
    def from_estimator(cls, estimator, X, *, n=5, output=0, image_shape=None, ax=None):
        """Explain the predictions for a few rows, and draw.

        Parameters
        ----------
        estimator : RBFClassifier, RBFRegressor, or Pipeline that ends in one
        X : array-like of shape (n_rows, n_features)
            A few rows: each has a line of pictures, or bars of its own.
        n, output : int
            As of `RBFClassifier.explain`.
        image_shape : (rows, columns) or (rows, columns, channels), default=None
            Of the images that rows are, as the network meets them; None is no images.
        ax : array-like of matplotlib Axes, default=None
            As many as `ax_` holds; a new figure by default.

        Returns
        -------
        display : ExplanationDisplay

        Raises
        ------
        TypeError
            For an estimator that cannot explain.
        ValueError
            For an `image_shape` of another number of features.
        """
        steps, network = network_of(estimator)
        if not hasattr(network, "explain"):
            raise TypeError(
                f"estimator={estimator!r} explains nothing: its units are no training rows. Give "
                "an RBFClassifier or an RBFRegressor, or a Pipeline that ends in one."
            )
        check_is_fitted(network)
        X = X if steps is None else steps.transform(X)
        n_features = network.n_features_in_
        if image_shape is not None and np.prod(image_shape) != n_features:
            raise ValueError(
                f"image_shape={image_shape!r} is of {np.prod(image_shape)} numbers, and a row has "
                f"{n_features}; give the shape of its image, or None."
            )
        found = network.explain(X, n, output)
        deciding = network.centers_[found.units]
        display = cls(found, rows=np.asarray(X), deciding=deciding, image_shape=image_shape)
        return display.plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw; `ax` as of `from_estimator`.

        Returns
        -------
        display : ExplanationDisplay
        """
        n_rows, n = self.explanation.units.shape
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
        images, names = [self.rows[i], *self.deciding[i]], self._names(i, "{target}")
        parts = self.explanation.contributions[i]
        titles = [self._prediction(i, "\n")]
        titles += [f"{k}\n{text_of(part, '+')}" for k, part in zip(names, parts, strict=True)]
        colours = ["black", *map(_colour, parts)]
        for ax, image, title, colour in zip(axes, images, titles, colours, strict=True):
            ax.imshow(image.reshape(self.image_shape), cmap="gray_r")
            ax.set_title(title, fontsize=9, color=colour)
            ax.set_axis_off()

    def _draw_bars(self, i, ax):
        found = self.explanation
        parts = np.array([*found.contributions[i], found.rest[i], found.intercept[i]])
        names = [*self._names(i, "row {support}: {target}"), "all other units", "intercept"]
        places = np.arange(len(parts))[::-1]
        bars = ax.barh(places, parts, color=[_colour(part) for part in parts])
        ax.bar_label(bars, labels=[text_of(part, "+") for part in parts], padding=3, fontsize=8)
        ax.set_yticks(places, names)
        ax.axvline(0, color="0.6", linewidth=0.8)
        ax.margins(x=0.25)
        ax.set_title(self._prediction(i, ", "))
        ax.spines[["top", "right"]].set_visible(False)

    def _prediction(self, i, between):
        told, score = self.explanation.predictions[i], self.explanation.scores[i]
        is_number = isinstance(told, np.floating) and np.isclose(told, score)
        return f"predicted {text_of(told)}" + ("" if is_number else f"{between}score {score:.3g}")

    def _names(self, i, form):
        """Return the names of the training rows that decided a row."""
        found = self.explanation
        if found.support is None:
            return [f"unit {unit}" for unit in found.units[i]]
        pairs = zip(found.support[i], found.targets[i], strict=True)
        return [form.format(support=row, target=text_of(target)) for row, target in pairs]


def _colour(part):
    return BLUE if part >= 0 else VERMILION
