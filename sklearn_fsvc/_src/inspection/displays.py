"""Displays of feature importances and of searches over the hidden-layer size.

matplotlib is imported when something is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..estimators.state import EstimatorMixin
from ..stacking.ensemble import StackedEnsemble
from ..utils.parameters import check_positive_integer

# A palette that is distinguishable with colour-vision deficiency (Okabe and Ito).
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"
# Colour and marker of each line of a plot.
_LINE_STYLES = [
    (BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"),
]  # fmt: skip
# The parameters that are the size of a hidden layer.
_SIZE_PARAMETERS = ("n_hidden", "n_components")


class FeatureWeightsDisplay:
    """Bar chart of the feature importances of a network, or of a stacked ensemble.

    That is `feature_importances_`: feature weights times the standard deviations of the features,
    which do not depend on units. For a linear map A, the weight of a feature is the norm of its row
    of A. With learned maps, this is the root mean square of the gradient, as learned weights are.
    Alternatively, a combination of features is shown: with rows of A multiplied by the standard
    deviations, a left singular vector times its singular value, with a sign for each feature.
    Created by `from_estimator`.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        The lengths of the bars. They are negative only in a combination of features.
    names : sequence of str
        The names of the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        In the order of the plot, the smallest weight first.

    See Also
    --------
    sklearn.inspection.permutation_importance : Feature importance of any estimator, from scores.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import RBFRegressor
    >>> from sklearn_fsvc.inspection import FeatureWeightsDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = RBFRegressor(feature_weights="learned", random_state=0).fit(X, X[:, 1])
    >>> display = FeatureWeightsDisplay.from_estimator(model, feature_names=["a", "b", "c"])
    >>> display.ax_.get_yticklabels()[-1].get_text()  # the longest bar
    'b'
    """

    def __init__(self, weights, names):
        self.weights, self.names = np.asarray(weights), list(names)

    @classmethod
    def from_estimator(
        cls, estimator, *, feature_names=None, max_features=20, combination=None, ax=None, **bar_kw
    ):
        """Plot the feature importances of a fitted network or stacked ensemble.

        Parameters
        ----------
        estimator : network of RBF or tanh units, StackedClassifier, StackedRegressor, or Pipeline
            A pipeline that ends in one of the others.
        feature_names : sequence of str, default=None
            None uses the names from the steps of the pipeline, or those seen in `fit`, else x0, x1
            and so on. Prefixes with the name of a step are removed if the names remain distinct.
        max_features : int or None, default=20
            Number of features to show, the most important ones; None shows all.
        combination : int or None, default=None
            For a linear map, the index of a combination of features, in descending order of the
            singular values. None shows the importance of each feature.
        ax : matplotlib Axes, default=None
            Axes to plot on; None creates a figure.
        **bar_kw : dict
            Passed to ``Axes.barh``, such as ``color``.

        Returns
        -------
        display : FeatureWeightsDisplay

        Raises
        ------
        ValueError
            If the network has no importances, since its features are not weighted, or no linear map
            with such a `combination`; or if `feature_names` has another length than the number of
            features.
        """
        steps, network = network_of(estimator)
        check_is_fitted(network)
        weights = _importances_of(network)
        if combination is not None:
            weights = _combination_weights(network, weights, combination)
        names = _feature_names(steps, network) if feature_names is None else feature_names
        if len(names) != len(weights):
            raise ValueError(
                f"feature_names has {len(names)} names, but the network has {len(weights)} "
                "features; pass one for each."
            )
        return cls(weights, names).plot(max_features=max_features, ax=ax, **bar_kw)

    def plot(self, *, max_features=20, ax=None, **bar_kw):
        """Plot the weights; parameters as for `from_estimator`.

        Returns
        -------
        display : FeatureWeightsDisplay
        """
        if max_features is not None:
            max_features = check_positive_integer("max_features", max_features)
        # The largest in descending order, then reversed: `barh` draws from the bottom up.
        shown = np.argsort(np.abs(self.weights), kind="stable")[::-1][:max_features][::-1]
        self.ax_ = axes_for(ax, size=(6.4, 1 + 0.25 * len(shown)))
        self.figure_ = self.ax_.figure
        positions = range(len(shown))
        self.bars_ = self.ax_.barh(positions, self.weights[shown], **{"color": BLUE} | bar_kw)
        self.ax_.set_yticks(positions, [str(self.names[i]) for i in shown])
        n_omitted = len(self.weights) - len(shown)
        self.ax_.set_xlabel(
            "feature importance" + (f" ({n_omitted} smaller ones not shown)" if n_omitted else "")
        )
        self.ax_.spines[["top", "right"]].set_visible(False)
        return self


def _importances_of(network):
    """Return `feature_importances_`; ValueError with the remedy if there are none."""
    try:
        return network.feature_importances_
    except AttributeError as error:
        if isinstance(network, StackedEnsemble):
            raise ValueError(str(error)) from error  # names the network that has none
        raise ValueError(
            f"This {type(network).__name__} has no feature importances: its features are not "
            'weighted. Networks of RBF and tanh units are fitted with feature_weights="learned" or '
            "an array; for others, use permutation_importance of sklearn.inspection."
        ) from error


def _combination_weights(network, importances, index):
    """Return a combination of standardised features, its largest entry positive.

    It is a left singular vector times its singular value, of the linear map whose rows are
    multiplied by the standard deviations of the features.
    """
    A: Any = getattr(network, "feature_map_", None)
    n_combinations = 0 if A is None else min(A.shape)
    is_index = isinstance(index, Integral) and not isinstance(index, bool)
    if not is_index or not 0 <= index < n_combinations:
        has = (
            f"a linear map with {n_combinations} of them"
            if n_combinations
            else 'no linear map; fit with feature_weights="map"'
        )
        raise ValueError(
            f"combination={index!r} must be the index of a combination of features, and this "
            f"{type(network).__name__} has {has}."
        )
    # Importances are proportional to the norms of the multiplied rows.
    norms = np.linalg.norm(A, axis=1)
    A = A * (importances / np.where(norms > 0, norms, 1))[:, None]
    vectors, values, _ = np.linalg.svd(A, full_matrices=False)
    weights = vectors[:, index] * values[index]
    # The sign of a singular vector is arbitrary.
    return weights * np.sign(weights[np.abs(weights).argmax()])


def _feature_names(steps, network):
    if steps is not None and len(steps):
        names = list(steps.get_feature_names_out())
        short = [name.partition("__")[2] or name for name in names]  # without the step's prefix
        return short if len(set(short)) == len(names) else names
    return getattr(network, "feature_names_in_", [f"x{i}" for i in range(network.n_features_in_)])


class HiddenSizeDisplay:
    """Scores of a search as a function of the size of the hidden layer.

    Created by `from_estimator`.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_sizes,)
    means, spreads : ndarray of shape (n_lines, n_sizes)
        Mean and standard deviation of the score over the splits; NaN where there was no candidate.
    labels : list of str or None
        The labels of the lines.
    score_name : str
    default_means : ndarray of shape (n_lines,) or None
        Mean scores of ``n_hidden=None``, which are dashed horizontal lines.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    See Also
    --------
    sklearn_fsvc.HiddenSizeSearchCV : The search whose results are plotted.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
    >>> from sklearn_fsvc.inspection import HiddenSizeDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"n_hidden": [25, 50, 100], "alpha": [1.0, 10.0]}
    >>> search = HiddenSizeSearchCV(TanhClassifier(random_state=0), grid, cv=2)
    >>> search = search.fit(X[:200], y[:200])
    >>> display = HiddenSizeDisplay.from_estimator(search, by="alpha")
    >>> [line.get_label() for line in display.lines_]
    ['alpha = 1.0', 'alpha = 10.0']
    """

    def __init__(
        self, sizes, means, spreads, *, labels=None, score_name="score", default_means=None
    ):
        self.sizes, self.means, self.spreads = sizes, means, spreads
        self.labels, self.score_name = labels, score_name
        self.default_means = default_means

    @classmethod
    def from_estimator(
        cls, search, *, by=None, where=None, scoring=None, ax=None, line_kw=None, fill_kw=None
    ):
        """Plot the results of a fitted search.

        Parameters
        ----------
        search : HiddenSizeSearchCV, GridSearchCV or another fitted search
            With `n_hidden` or `n_components` among its parameters, also of a step of a
            pipeline. If several candidates have the same size and line, the best one is plotted.
        by : str, default=None
            A parameter: each of its values has its own line. None plots one line. For a step of a
            pipeline, the part of the name after the last "__" is enough.
        where : dict, default=None
            Values of other parameters, to which the candidates are restricted.
        scoring : str, default=None
            Which score to plot if there are several; None plots that of `refit`.
        ax : matplotlib Axes, default=None
            Axes to plot on; None creates a figure.
        line_kw, fill_kw : dict, default=None
            Passed to ``Axes.plot`` and ``Axes.fill_between``.

        Returns
        -------
        display : HiddenSizeDisplay

        Raises
        ------
        ValueError
            If the search has no size among its parameters, or no such parameter or score, or if no
            candidate satisfies `where`.
        """
        check_is_fitted(search, "cv_results_")
        results, score = search.cv_results_, _score_key(search, scoring)
        size = _parameter_key(results, _SIZE_PARAMETERS)
        by = by and _parameter_key(results, [by])
        fixed = {_parameter_key(results, [name]): v for name, v in (where or {}).items()}
        candidates = results["params"]
        rows = [i for i, c in enumerate(candidates) if all(c[k] == v for k, v in fixed.items())]
        if not rows:
            raise ValueError(f"where={where!r} matches no candidate; use values of param_grid.")
        # None, the default of RBF networks, has no place on the axis, and a line of its own.
        widths = [np.inf if c[size] is None else c[size] for c in candidates]
        sizes = np.unique([widths[i] for i in rows])
        if np.isinf(sizes[0]):
            raise ValueError(f"{size}=None is the only size; search several of them, to plot them.")

        values = _unique_in_order(candidates[i][by] for i in rows) if by else [None]
        positions = {
            i: (values.index(candidates[i][by] if by else None), sizes.searchsorted(widths[i]))
            for i in rows
        }
        means, spreads = _best_scores(results, score, positions, (len(values), len(sizes)))
        labels = [f"{by.rpartition('__')[2]} = {value}" for value in values] if by else None
        is_size = np.isfinite(sizes)
        display = cls(
            sizes[is_size].astype(int), means[:, is_size], spreads[:, is_size], labels=labels,
            score_name=_score_label(search, score),
            default_means=None if is_size.all() else means[:, -1],
        )  # fmt: skip
        return display.plot(ax=ax, line_kw=line_kw, fill_kw=fill_kw)

    def plot(self, *, ax=None, line_kw=None, fill_kw=None):
        """Plot the scores; parameters as for `from_estimator`.

        Returns
        -------
        display : HiddenSizeDisplay
        """
        self.ax_ = ax = axes_for(ax)
        from matplotlib.ticker import NullLocator

        self.figure_, self.lines_ = ax.figure, []
        for k, (mean, std) in enumerate(zip(self.means, self.spreads, strict=True)):
            colour, marker = _LINE_STYLES[k % len(_LINE_STYLES)]
            style = {"color": colour, "marker": marker}
            if self.labels is not None:
                style["label"] = self.labels[k]
            (line,) = ax.plot(self.sizes, mean, **style | (line_kw or {}))
            band = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0} | (fill_kw or {})
            ax.fill_between(self.sizes, mean - std, mean + std, **band)
            self.lines_.append(line)
            if self.default_means is not None:
                ax.axhline(self.default_means[k], color=line.get_color(), linestyle="--")
        ax.set_xscale("log", base=2)
        ax.set_xticks(self.sizes, [str(size) for size in self.sizes])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set(xlabel="hidden units", ylabel=f"{self.score_name} (mean \N{PLUS-MINUS SIGN} SD)")
        ax.grid(alpha=0.3)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="lower right")
        return self


def _parameter_key(results: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the full name of the searched parameter with one of these names, in any step."""
    known = [key.removeprefix("param_") for key in results if key.startswith("param_")]
    matches = [k for k in known if k in names or k.rpartition("__")[2] in names]
    if len(matches) != 1:
        which = " or ".join(map(repr, names))
        raise ValueError(
            f"{which} matches {len(matches) or 'none'} of the parameters of the search, but must "
            f"match one of them: {known}."
        )
    return matches[0]


def _best_scores(results, score, positions, shape):
    """Return means and spreads, of a shape, of the best candidate at each of the positions."""
    means, spreads = np.full((2, *shape), np.nan)
    for i, position in positions.items():
        mean = results[f"mean_test_{score}"][i]
        if not mean <= means[position]:  # better, or the first one: NaN compares as False
            means[position], spreads[position] = mean, results[f"std_test_{score}"][i]
    return means, spreads


def _score_key(search, scoring):
    """Return the name of a score in `cv_results_`."""
    known = [key.removeprefix("mean_test_") for key in search.cv_results_ if "mean_test_" in key]
    if scoring is None and len(known) > 1 and isinstance(search.refit, str):
        scoring = search.refit
    if scoring is None and len(known) == 1:
        return known[0]
    if scoring not in known:
        raise ValueError(f"scoring={scoring!r} must be one of {known}.")
    return scoring


def _score_label(search, score):
    """Return the axis label of a score: "score" in `cv_results_` is that of `scoring`."""
    if score != "score":
        return score
    if isinstance(search.scoring, str):
        return search.scoring
    default = "accuracy" if is_classifier(search.estimator) else "R²"
    return default if search.scoring is None else score


def _unique_in_order(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in the order of occurrence; they need not be hashable."""
    unique: list[Any] = []
    for value in values:
        if value not in unique:
            unique.append(value)
    return unique


# Helpers of all displays.


def axes_for(ax: Any, shape: tuple[int, ...] = (), size: tuple[float, float] = (6.4, 4.8)) -> Any:
    """Return the axes that the user passed, or new ones.

    Parameters
    ----------
    ax : matplotlib Axes, array-like of Axes, or None
    shape : tuple of int
        The shape of the array of axes to return; () for a single one.
    size : (float, float)
        The size of a new figure, in inches.

    Returns
    -------
    matplotlib Axes, or ndarray of Axes of this shape
    """
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "Displays need matplotlib, which cannot be imported; pip install matplotlib."
            ) from error
        if shape == ():
            return plt.subplots(figsize=size, layout="constrained")[1]
        rows, columns = (*shape, 1)[:2]
        _, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        return axes.reshape(shape)
    if shape == ():
        return ax
    axes = np.asarray(ax, dtype=object)
    if axes.size != np.prod(shape):
        raise ValueError(f"ax has {axes.size} axes, but {shape} are needed; pass as many.")
    return axes.reshape(shape)


def network_of(estimator: Any) -> tuple[Pipeline | None, Any]:
    """Return the steps before the network of a pipeline, None without one, and the network.

    The network is a copy that no other thread changes, with its readout solved.
    """
    is_pipeline = isinstance(estimator, Pipeline)
    steps, network = (estimator[:-1], estimator[-1]) if is_pipeline else (None, estimator)
    return steps, network._snapshot() if isinstance(network, EstimatorMixin) else network


def format_value(value: Any, sign: str = "") -> str:
    """Return a label or a number as short text; with "+" for `sign`, numbers have a sign."""
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return format(value, f"{sign},.0f" if 1000 <= abs(float(value)) < 1e6 else f"{sign}.3g")
