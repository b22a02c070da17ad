"""StackedRegressor: several networks, weighted by their leave-one-out scores."""

from ..estimators.ensemble_weights import NumericWeighting
from ..estimators.lazy import lazy_on_dask
from ..estimators.locking import on_snapshot
from ..estimators.members import Members
from ..estimators.numbers import NumericTarget
from ..estimators.regressor import RegressorMethods
from ..estimators.stacking import StackedEnsemble, StackedParts
from .rbf import RBFRegressor
from .tanh import TanhRegressor


class StackedRegressor(RegressorMethods, StackedEnsemble):
    """Regressor that adds up the predictions of several networks: stacking, without folds.

    As `StackedClassifier`, for numbers: each network is fitted once, and weights of 0 or more
    are found by least squares of y on what each says of rows without themselves, all outputs
    together, each in units of its standard deviation.

    Parameters
    ----------
    estimators : list of (str, estimator), default=None
        Regressors of this package, each with a name; "drop" instead of one leaves it out. None is
        ``"manhattan"``, ``RBFRegressor()``; ``"euclidean"``,
        ``RBFRegressor(metric="euclidean")``; ``"tanh"``, ``TanhRegressor(2000)``; and
        ``"map"``, ``TanhRegressor(2000, feature_weights="map")``, which has no part where X has
        more than 500 features.
    final_estimator : estimator, "auto" or None, default="auto"
        One more network, which gets the predictions of the ensemble as features, as of
        `StackedClassifier`; "auto" is ``TanhRegressor(2000)`` with the penalty of "tanh".
    random_state : int, RandomState or None, default=None
        Seed of the members, and of the rows by which weights are found. A member with a
        `random_state` of its own keeps it.
    device : str, default="auto"
        Where members are computed, as of `RBFRegressor`. A member with a `device` of its own,
        other than "auto", keeps it; so it is with the next two.
    max_memory : int, str or None, default=None
        How much memory a member may allocate where its layer is computed; one works after the
        other.
    verbose : int, default=0
        1 prints the progress of long work of the members; 2 prints each pass, too.

    Attributes
    ----------
    estimators_ : list of estimator
        The fitted members that have a weight.
    named_estimators_ : dict
        The same by name.
    weights_ : ndarray of shape (n_used,)
        The weight of each of `estimators_`. None has less than a twentieth of
        their sum, which need not be 1.
    intercept_ : ndarray of shape (n_outputs,)
        What is added to the members: the mean of y, times 1 less the sum of the weights.
    final_estimator_ : estimator or None
    final_weight_ : float
        The final network, and its weight, as of `StackedClassifier`. Its features are those of X
        and predictions less the mean of y, in units of its standard deviation.
    loo_errors_ : ndarray of shape (n_estimators,)
        Leave-one-out error of each of `estimators` but those that are "drop": the mean over
        rows of the squared error, of y in units of its standard deviation, by the rows that the
        weights were found by.
    loo_error_ : float
        That of all networks together. With a final network, it is the error without a fold.
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Mean and standard deviation of y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    StackedClassifier : The same for classes, with what is to know of both.
    RBFRegressor : A single network; ``uncertainty=True`` adds standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import StackedRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 4))
    >>> y = np.abs(X[:, 0]) + np.tanh(X @ [0, 1, 1, -1])
    >>> model = StackedRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.9)
    True
    >>> bool((model.weights_ > 0).all())
    True
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in
    _kinds = RBFRegressor, TanhRegressor

    def __init__(
        self, estimators=None, *, final_estimator="auto", random_state=None, device="auto",
        max_memory=None, verbose=0,
    ):  # fmt: skip
        self.estimators = estimators
        self.final_estimator = final_estimator
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _stacked_parts(self):
        return StackedParts(
            NumericTarget.of(self, uncertainty=False), Members.of(self), NumericWeighting.of(self)
        )

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, out=None):
        """Predict numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        out : array-like of the shape of y, optional
            Where y goes, as of `RBFRegressor.predict`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64, or `out`
        """
        return self._answer(X, "predict", out)
