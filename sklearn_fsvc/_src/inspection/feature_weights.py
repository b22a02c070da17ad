"""FeatureWeightsDisplay: which features count in the distances of a network."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..parameters import check_count
from .canvas import BLUE, axes_for, network_of


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
