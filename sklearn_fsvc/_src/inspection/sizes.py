"""HiddenSizeDisplay: the scores of a search against the number of hidden units."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .canvas import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, axes_for

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
