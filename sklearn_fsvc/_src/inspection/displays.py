"""HiddenSizeDisplay: the scores of a search against the number of hidden units."""

from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..utils.parameters import check_count

# What the displays share: axes to draw on, colours, and the network at the end of a pipeline.

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"


def axes_for(ax, shape=(), size=(6.4, 4.8)):
    """The user's axes, or new ones.

    Parameters
    ----------
    ax : matplotlib Axes, array-like of Axes, or None
    shape : tuple of int
        Of the array of axes that is needed; () is a single one.
    size : (float, float)
        Of a new figure, in inches.

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
        _, found = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        return found.reshape(shape)
    if shape == ():
        return ax
    found = np.asarray(ax, dtype=object)
    if found.size != np.prod(shape):
        raise ValueError(f"ax holds {found.size} axes, and {shape} are needed; give as many.")
    return found.reshape(shape)


def network_of(estimator):
    """The steps before the network of a pipeline, None without a pipeline, and the network."""
    if isinstance(estimator, Pipeline):
        return estimator[:-1], estimator[-1]
    return None, estimator


def text_of(value, sign=""):
    """A class or a number in few letters; with "+" for `sign`, numbers have one."""
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return format(value, f"{sign},.0f" if 1000 <= abs(value) < 1e6 else f"{sign}.3g")


# FeatureWeightsDisplay: which features count in the distances of a network.


class FeatureWeightsDisplay:
    """Bars of the feature weights of a network.

    Of a linear map A, a feature counts as much as its row of A is long: with learned maps, that
    is the root of its mean squared gradient, as learned weights are. Or it shows a combination of
    features: those that count most are the left singular vectors of A with the largest
    singular values, with a sign for each feature. Make it by `from_estimator`.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        Of a combination, below 0 where a feature has the other sign.
    names : sequence of str
        Of the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        In the order of the picture, the least at first.

    See Also
    --------
    sklearn.inspection.permutation_importance : For any estimator, by predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import RBFRegressor
    >>> from sklearn_fsvc.inspection import FeatureWeightsDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
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
        """Draw the weights of a fitted network.

        Parameters
        ----------
        estimator : network of RBF or tanh units, or Pipeline that ends in one
        feature_names : sequence of str, default=None
            None takes those that the steps of the pipeline or the fit know, else x0, x1 and
            so on; of a step's own prefix no more than is needed to tell them apart.
        max_features : int or None, default=20
            How many to show, those with the largest weights; None is all.
        combination : int or None, default=None
            Of a linear map, the combination that counts most for 0, the next one for 1, and so
            on: its features times its singular value. None shows each feature by itself.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **bar_kw : dict
            For ``Axes.barh``, such as ``color``.

        Returns
        -------
        display : FeatureWeightsDisplay

        Raises
        ------
        ValueError
            For a network without weights or, with `combination`, without a map of so many; or
            names that are not as many as the features.
        """
        steps, network = network_of(estimator)
        check_is_fitted(network)
        weights, A = (getattr(network, f"feature_{kind}_", None) for kind in ("weights", "map"))
        if combination is not None:
            weights = _combination(network, A, combination)
        elif A is not None:
            weights = np.linalg.norm(A, axis=1)
        if weights is None:
            raise ValueError(
                f"This {type(network).__name__} has no feature weights: it compares rows as they "
                "are. Learned ones are kept where they lower the held-out error. Fit it "
                'with feature_weights="learned", or give them as numbers.'
            )
        names = _names(steps, network) if feature_names is None else feature_names
        if len(names) != len(weights):
            raise ValueError(
                f"feature_names has {len(names)} names, and the network has {len(weights)} "
                "features; give one for each."
            )
        return cls(weights, names).plot(max_features=max_features, ax=ax, **bar_kw)

    def plot(self, *, max_features=20, ax=None, **bar_kw):
        """Draw; arguments as of `from_estimator`.

        Returns
        -------
        display : FeatureWeightsDisplay
        """
        if max_features is not None:
            max_features = check_count("max_features", max_features)
        shown = np.argsort(np.abs(self.weights), kind="stable")[::-1][:max_features][::-1]
        self.ax_ = axes_for(ax, size=(6.4, 1 + 0.25 * len(shown)))
        self.figure_ = self.ax_.figure
        self.bars_ = self.ax_.barh(
            range(len(shown)), self.weights[shown], **{"color": BLUE} | bar_kw
        )
        self.ax_.set_yticks(range(len(shown)), [str(self.names[i]) for i in shown])
        n_left = len(self.weights) - len(shown)
        self.ax_.set_xlabel(
            "feature weight" + (f" ({n_left} smaller ones not shown)" * (n_left > 0))
        )
        self.ax_.spines[["top", "right"]].set_visible(False)
        return self


def _combination(network, A, number):
    """A left singular vector of the map times its singular value, its largest number above 0."""
    n = 0 if A is None else min(A.shape)
    if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < n:
        has = f"has a map of {n}" if n else 'has no linear map; fit it with feature_weights="map"'
        raise ValueError(
            f"combination={number!r} must be a whole number from 0, below the number of "
            f"combinations, and this {type(network).__name__} {has}."
        )
    vectors, values, _ = np.linalg.svd(A, full_matrices=False)
    weights = vectors[:, number] * values[number]
    return weights * np.sign(weights[np.abs(weights).argmax()])


def _names(steps, network):
    if steps is not None and len(steps):
        names = list(steps.get_feature_names_out())
        short = [name.partition("__")[2] or name for name in names]  # without that of a step
        return short if len(set(short)) == len(names) else names
    return getattr(network, "feature_names_in_", [f"x{i}" for i in range(network.n_features_in_)])


_SIZES = ("n_hidden", "n_components")
_STYLES = [(BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P")]


class HiddenSizeDisplay:
    """Scores and their spread over the splits, against the size of the hidden layer.

    Make it by `from_estimator`.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_sizes,)
    means, spreads : ndarray of shape (n_lines, n_sizes)
        Mean and standard deviation over the splits; NaN where there was no candidate.
    labels : list of str or None
        Of the lines.
    score_name : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    See Also
    --------
    sklearn_fsvc.HiddenSizeSearchCV : The search that is drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
    >>> from sklearn_fsvc.inspection import HiddenSizeDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"n_hidden": [50, 100, 200], "alpha": [1.0, 10.0]}
    >>> search = HiddenSizeSearchCV(TanhClassifier(random_state=0), grid).fit(X, y)
    >>> display = HiddenSizeDisplay.from_estimator(search, by="alpha")
    >>> [line.get_label() for line in display.lines_]
    ['alpha = 1.0', 'alpha = 10.0']
    """

    def __init__(self, sizes, means, spreads, *, labels=None, score_name="score"):
        self.sizes, self.means, self.spreads = sizes, means, spreads
        self.labels, self.score_name = labels, score_name

    @classmethod
    def from_estimator(
        cls, search, *, by=None, where=None, scoring=None, ax=None, line_kw=None, fill_kw=None
    ):
        """Draw the results of a fitted search.

        Parameters
        ----------
        search : HiddenSizeSearchCV, GridSearchCV or another fitted search
            With `n_hidden` or `n_components` among its parameters, also of a step of a
            pipeline. Where several candidates have a place in the picture, it shows the best.
        by : str, default=None
            Parameter of which each value has a line of its own; None is one line. Of a step
            of a pipeline, the name after the last "__" is enough.
        where : dict, default=None
            Values of other parameters: other candidates are left out.
        scoring : str, default=None
            Which of several scores; None is the one of the refit.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        line_kw, fill_kw : dict, default=None
            For ``Axes.plot`` and ``Axes.fill_between``.

        Returns
        -------
        display : HiddenSizeDisplay

        Raises
        ------
        ValueError
            For a search that varied no size, a parameter or score that it does not have, or
            a `where` that leaves no candidate.
        """
        check_is_fitted(search, "cv_results_")
        results, score = search.cv_results_, _score_name(search, scoring)
        size, by = _parameter(results, _SIZES), by and _parameter(results, [by])
        fixed = {_parameter(results, [name]): value for name, value in (where or {}).items()}
        candidates = results["params"]
        rows = [i for i, c in enumerate(candidates) if all(c[k] == v for k, v in fixed.items())]
        if not rows:
            raise ValueError(f"where={where!r} leaves no candidate; give values of param_grid.")
        if any(candidates[i][size] is None for i in rows):
            raise ValueError(f"{size}=None has no place on an axis; leave it out by where.")
        sizes = np.unique([candidates[i][size] for i in rows])
        values = _distinct(candidates[i][by] for i in rows) if by else [None]
        means, spreads = np.full((2, len(values), len(sizes)), np.nan)
        for i in rows:
            place = (
                values.index(candidates[i][by] if by else None),
                sizes.searchsorted(candidates[i][size]),
            )
            mean = results[f"mean_test_{score}"][i]
            if not mean <= means[place]:  # nothing is there yet, or less
                means[place], spreads[place] = mean, results[f"std_test_{score}"][i]
        labels = [f"{by.rpartition('__')[2]} = {value}" for value in values] if by else None
        display = cls(sizes, means, spreads, labels=labels, score_name=_shown(search, score))
        return display.plot(ax=ax, line_kw=line_kw, fill_kw=fill_kw)

    def plot(self, *, ax=None, line_kw=None, fill_kw=None):
        """Draw; arguments as of `from_estimator`.

        Returns
        -------
        display : HiddenSizeDisplay
        """
        self.ax_ = ax = axes_for(ax)
        from matplotlib.ticker import NullLocator

        self.figure_, self.lines_ = ax.figure, []
        for k, (mean, spread) in enumerate(zip(self.means, self.spreads, strict=True)):
            colour, marker = _STYLES[k % len(_STYLES)]
            look = {"color": colour, "marker": marker}
            if self.labels is not None:
                look["label"] = self.labels[k]
            (line,) = ax.plot(self.sizes, mean, **look | (line_kw or {}))
            band = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0} | (fill_kw or {})
            ax.fill_between(self.sizes, mean - spread, mean + spread, **band)
            self.lines_.append(line)
        ax.set_xscale("log", base=2)
        ax.set_xticks(self.sizes, [str(size) for size in self.sizes])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set(xlabel="hidden units", ylabel=f"{self.score_name}, mean and spread over the splits")
        ax.grid(alpha=0.3)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="lower right")
        return self


def _parameter(results, names):
    """The full name of the one parameter that is called so, in a pipeline or not."""
    known = [key.removeprefix("param_") for key in results if key.startswith("param_")]
    found = [k for k in known if k in names or k.rpartition("__")[2] in names]
    if len(found) != 1:
        which = " or ".join(map(repr, names))
        raise ValueError(
            f"{which} is {len(found) or 'none'} of the parameters of the search, and must be one "
            f"of them: {known}."
        )
    return found[0]


def _score_name(search, scoring):
    """Under which name the results have the scores."""
    known = [key.removeprefix("mean_test_") for key in search.cv_results_ if "mean_test_" in key]
    if scoring is None and len(known) > 1 and isinstance(search.refit, str):
        scoring = search.refit
    if scoring is None and len(known) == 1:
        return known[0]
    if scoring not in known:
        raise ValueError(f"scoring={scoring!r} must be one of {known}.")
    return scoring


def _shown(search, score):
    """The name of a score for people."""
    if score != "score":
        return score
    if isinstance(search.scoring, str):
        return search.scoring
    own = "accuracy" if is_classifier(search.estimator) else "R²"
    return own if search.scoring is None else score


def _distinct(values):
    """Each value once, in the order they come in; they may be of any kind."""
    found = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
