"""Shapley values as a picture: bars for one sample, points for several."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..utils.parameters import check_positive_integer
from .displays import BLUE, VERMILION, axes_for, format_value
from .shapley import shapley_values

# Height of a row of points, of 1, and the number of intervals in which they are counted.
_HEIGHT, _N_INTERVALS = 0.8, 100
# Colour of values that are not numbers.
_GREY = "0.6"


class ShapleyDisplay:
    """Plot of the features with the largest Shapley values, by mean absolute value.

    With several samples, each is a point in the row of a feature: its horizontal position is the
    Shapley value, and its colour the value of the feature from blue, the lowest, to orange, the
    highest; grey for categories. With a single sample, a bar is drawn for each feature: positive
    values are blue, negative ones orange. Created by `from_estimator`.

    Parameters
    ----------
    shapley : ShapleyValues
    output : int, default=0
        Index of the score, in ``shapley.output_names``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    shapley_values : The values that are plotted, which the package shap plots in other ways.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import RBFRegressor
    >>> from sklearn_fsvc.inspection import ShapleyDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = RBFRegressor(kernel="laplacian", random_state=0).fit(X, X[:, 1])
    >>> display = ShapleyDisplay.from_estimator(model, X[:20], background=X[50:])
    >>> display.ax_.get_yticklabels()[-1].get_text()  # the most important feature
    'x1'
    """

    def __init__(self, shapley, *, output=0):
        self.shapley, self.output = shapley, output

    @classmethod
    def from_estimator(cls, estimator, X, background, *, output=0, max_features=20, ax=None):
        """Compute and plot the Shapley values of samples.

        Parameters
        ----------
        estimator, X, background
            As for `shapley_values`.
        output : int, default=0
            Index of the score in `output_names`: of a class or of a column of y.
        max_features : int or None, default=20
            Number of features to show, the most important ones; None shows all.
        ax : matplotlib Axes, default=None
            Axes to plot on; None creates a figure.

        Returns
        -------
        display : ShapleyDisplay

        Raises
        ------
        TypeError, ValueError
            As by `shapley_values`, and for an `output` that does not exist.
        """
        display = cls(shapley_values(estimator, X, background), output=output)
        return display.plot(max_features=max_features, ax=ax)

    def plot(self, *, max_features=20, ax=None):
        """Plot the values; parameters as for `from_estimator`.

        Returns
        -------
        display : ShapleyDisplay
        """
        if max_features is not None:
            max_features = check_positive_integer("max_features", max_features)
        shapley, values = self.shapley, self.shapley.of_output(self.output)
        # The largest in descending order, then reversed: the first row is at the bottom.
        order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
        shown = order[:max_features][::-1]
        self.ax_ = ax = axes_for(ax, size=(6.4, 1.2 + 0.3 * len(shown)))
        self.figure_ = ax.figure
        names = [str(shapley.feature_names[k]) for k in shown]
        if len(values) == 1:
            names = [
                f"{name} = {format_value(value)}" if value == value else name
                for name, value in zip(names, shapley.data[0, shown], strict=True)
            ]
            self._draw_bars(values[0, shown])
        else:
            self._draw_points(values[:, shown], shapley.data[:, shown])
        ax.set_yticks(range(len(shown)), names)
        ax.axvline(0, color=_GREY, linewidth=0.8, zorder=0)
        n_omitted = values.shape[1] - len(shown)
        ax.set_xlabel(
            f"Shapley value (score of {shapley.output_names[self.output]})"
            + (f", {n_omitted} smaller ones not shown" if n_omitted else "")
        )
        ax.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_bars(self, values):
        colours = [BLUE if value >= 0 else VERMILION for value in values]
        bars = self.ax_.barh(range(len(values)), values, color=colours)
        score, base = (
            format_value(each.reshape(-1)[self.output])
            for each in (self.shapley.scores[0], self.shapley.base_values[0])
        )
        self.ax_.set_title(f"score {score}, mean of the background {base}", fontsize=10)
        labels = [format_value(value, "+") for value in values]
        self.ax_.bar_label(bars, labels=labels, padding=3, fontsize=8)
        self.ax_.margins(x=0.2)

    def _draw_points(self, values, data):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("low to high", [BLUE, "0.85", VERMILION])
        extent = float(np.ptp(values)) or 1.0
        for row in range(values.shape[1]):
            offsets = _spread(values[:, row], extent / _N_INTERVALS)
            ranks = _ranks(data[:, row])
            style: dict[str, Any] = {"color": _GREY}
            if ranks is not None:
                style = {"c": ranks, "cmap": colours, "vmin": 0, "vmax": 1}
            self.ax_.scatter(values[:, row], row + offsets, s=9, linewidths=0, **style)
        bar = self.figure_.colorbar(ScalarMappable(cmap=colours), ax=self.ax_, aspect=40, pad=0.02)
        bar.set_ticks([0, 1], labels=["low", "high"])
        bar.set_label("value of the feature", labelpad=-10)
        bar.outline.set_visible(False)


def _spread(values: npt.NDArray, width: float) -> npt.NDArray[np.float64]:
    """Return vertical offsets that separate values within intervals of a width."""
    interval = np.floor(values / width).astype(np.int64)
    order = np.argsort(interval, kind="stable")
    _, start, counts = np.unique(interval[order], return_index=True, return_counts=True)
    place = np.empty(len(values))
    place[order] = np.arange(len(values)) - np.repeat(start, counts)
    # Alternately above and below the middle, next to each other unless there are too many.
    offsets = np.where(place % 2 == 1, (place + 1) / 2, -place / 2)
    return offsets * min(0.1, _HEIGHT / counts.max())


def _ranks(data: npt.NDArray) -> npt.NDArray[np.float64] | None:
    """Return the ranks of the values, between 0 and 1; None if they are not numbers that vary."""
    try:
        data = data.astype(np.float64)
    except (TypeError, ValueError):
        return None
    distinct, ranks = np.unique(data, return_inverse=True)
    if np.isnan(data).all() or len(distinct) < 2:
        return None
    return ranks / (len(distinct) - 1)
