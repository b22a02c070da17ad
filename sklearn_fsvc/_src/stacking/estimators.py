"""StackedClassifier: several networks, weighted by their leave-one-out scores."""

from ..data.dask_blocks import lazy_on_dask
from ..estimators.classifier import ClassifierMethods
from ..estimators.rbf import RBFClassifier, RBFRegressor
from ..estimators.regressor import RegressorMethods
from ..estimators.state import on_snapshot
from ..estimators.tanh import TanhClassifier, TanhRegressor
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from .ensemble import StackedEnsemble, StackedParts
from .members import Members
from .weights import ClassWeighting, NumericWeighting


class StackedClassifier(ClassifierMethods, StackedEnsemble):
    """Classifier that adds up the scores of several networks: stacking, without folds.

    Each network is fitted once, to all rows. A ridge readout knows in closed form which scores a
    row would have had if the readout had been trained without it. Weights of 0 or more are those
    with the least log-loss of a softmax of the sum of these scores [1]_ [2]_. A network of little
    weight is dropped, and costs nothing in `predict`.

    Parameters
    ----------
    estimators : list of (str, estimator), default=None
        Classifiers of this package with the ridge readout, each with a name; "drop" instead of
        one leaves it out. None is four that see different things: ``"manhattan"``,
        ``RBFClassifier()``; ``"euclidean"``, ``RBFClassifier(metric="euclidean")``;
        ``"tanh"``, ``TanhClassifier(2000)``; and ``"map"``,
        ``TanhClassifier(2000, feature_weights="map")``, which has no part where X has more than 500
        features.
    final_estimator : estimator, "auto" or None, default="auto"
        One more network of the same kind, which gets the scores of the ensemble as features beside
        those of X, an array, and corrects them. "auto" is ``TanhClassifier(2000)`` with the penalty
        that the member "tanh" has found, where `estimators` is None and X is an array of 50 rows or
        more with at most 500 features, not of bytes; else there is none.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn: they multiply `sample_weight`, for all
        members and for the weights of the ensemble.
    random_state : int, RandomState or None, default=None
        Seed of the members, and of the rows by which weights are found. A member with a
        `random_state` of its own keeps it.
    device : str, default="auto"
        Where members are computed, as of `RBFClassifier`. A member with a `device` of its own,
        other than "auto", keeps it. The same holds for `max_memory` and `verbose`.
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
        The weight of each of `estimators_`, 0.05 or more. They add up to 1.
    intercept_ : ndarray of shape (n_scores,)
        What is added to the scores of the members: 0.
    final_estimator_ : estimator or None
        The final network, where it gains enough. Its features are those of X and the scores.
    final_weight_ : float
        Its weight between 0 and 1, where the ensemble has the rest.
    loo_errors_ : ndarray of shape (n_estimators,)
        Leave-one-out error of each of `estimators` but those that are "drop": the mean over
        rows of ``|y - score|^2``, by the rows that the weights were found by.
    loo_error_ : float
        That of all networks together. With a final network, it is the error without a fold.
    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are a softmax of decision values divided by it.
    classes_ : ndarray of shape (n_classes,), or list of ndarray
        Of several outputs, those of each; of an indicator y, the numbers of its columns.
    multilabel_ : bool
        Whether y was 0 and 1 for each of several labels.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    StackedRegressor : The same for numbers.
    RBFClassifier : A single network.
    sklearn.ensemble.StackingClassifier : For any estimators, with a fit for each fold.

    Notes
    -----
    Weights are found by 8192 different rows at random, at most, by 1024 where there is no final
    network, and fewer where there are many classes. Rows that are equal are left out together.

    The final network is trained on these samples with cross-validated scores, as in stacking with
    ``passthrough=True``: each is scored without its fold, in closed form. So it learns where the
    ensemble is wrong, at the cost of one small network. Its weight is the one with the least
    squared error on samples without their fold. It is dropped if it does not lower that error by
    more than its standard error, and where these samples lack a class.

    A member with ``alpha="auto"`` finds a penalty as it does alone. Up to 6000 rows it goes on
    downhill to the one with the least leave-one-out error of 512 of these rows, which is surer.

    A member has chosen its feature weights, its width and its penalty by all rows, also by the row
    that is left out. That is little, but for a linear map of hundreds of features: the member "map"
    has errors too small on the rows that its map was learned from, and so too large a weight. Where
    "tanh" alone is better on rows that are held out, leave "map" out with ``estimators``.

    There is no `partial_fit`: weights need the scores of rows without themselves.

    References
    ----------
    .. [1] D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992).
    .. [2] L. Breiman, "Stacked regressions", Machine Learning 24 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import StackedClassifier, make_tabular_pipeline
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = make_tabular_pipeline(StackedClassifier(random_state=0)).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.95)
    True

    Networks of your own, whose parameters a search may vary:

    >>> from sklearn_fsvc import RBFClassifier, TanhClassifier
    >>> pair = [("rbf", RBFClassifier(200)), ("tanh", TanhClassifier(300))]
    >>> ensemble = StackedClassifier(pair, random_state=0).set_params(tanh__n_hidden=200)
    >>> ensemble.fit(X_train, y_train).predict_proba(X_test).shape
    (143, 2)
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in
    _kinds = RBFClassifier, TanhClassifier

    def __init__(
        self, estimators=None, *, final_estimator="auto", class_weight=None, random_state=None,
        device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.estimators = estimators
        self.final_estimator = final_estimator
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _stacked_parts(self):
        return StackedParts(
            ClassTarget.from_estimator(self),
            Members.from_estimator(self),
            ClassWeighting.from_estimator(self),
        )


# StackedRegressor: several networks, weighted by their leave-one-out scores.


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
            NumericTarget.from_estimator(self, uncertainty=False),
            Members.from_estimator(self),
            NumericWeighting.from_estimator(self),
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
        return self._compute_output(X, "predict", out)
