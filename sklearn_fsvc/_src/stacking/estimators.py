"""The public stacked ensembles: StackedClassifier and StackedRegressor."""

from ..estimators.classifier import ClassifierMethods
from ..estimators.prediction import lazy_on_dask
from ..estimators.rbf import RBFClassifier, RBFRegressor
from ..estimators.regressor import RegressorMethods
from ..estimators.shared_docs import REGRESSION, SHARED
from ..estimators.state import on_snapshot
from ..estimators.tanh import TanhClassifier, TanhRegressor
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from ..utils.docstrings import fill_docstring, read_entries
from .base_estimators import BaseEstimators
from .ensemble import StackedEnsemble
from .parts import StackedParts
from .weights import ClassWeighting, NumericWeighting

_SHARED = read_entries("""
    estimators : list of (str, estimator), default=None
        Base estimators with their names: networks of this package for the same task, with the ridge
        readout. "drop" in place of an estimator leaves it out. None uses `default_estimators`: RBF
        networks with Manhattan and Euclidean distances, ``"manhattan"`` and ``"euclidean"``, and
        networks of 2000 tanh units without and with a learned linear map, ``"tanh"`` and ``"map"``.
        ``"euclidean"`` has ``feature_weights="refined"``, "auto" for uint8: networks with
        different weights make different errors. ``"map"`` is left out if X has more than 500
        features, and of a classifier if there are fewer than six samples per feature.
    final_estimator : estimator, "auto" or None, default="auto"
        One more network, which gets the scores of the ensemble as features in addition to those of
        X, a dense array, and corrects them. "auto" uses `default_final_estimator`, a network of
        2000 tanh units with the penalty of "tanh", if `estimators` is None and X is an array with
        at least 50 samples and at most 500 features that is not uint8; otherwise there is no final
        estimator.
    random_state : int, RandomState or None, default=None
        Seed of the base estimators, and of the samples whose scores determine `weights_`. A
        base estimator keeps a `random_state` other than None.
    device : str, default="auto"
        Where networks are computed, as in a single network. A base estimator keeps a `device`
        other than its default; this also holds for `max_memory` and `verbose`.
    max_memory : int, str or None, default=None
        Bound of the memory that a network allocates where its layer is computed. With it, only one
        network is fitted, or predicts, at a time.
    verbose : int, default=0
        1 prints the decisions and the progress of each network, and its weight, leave-one-out
        error and seconds; 2 also prints each pass over the data.

    estimators_ : list of estimator
        The fitted base estimators with a positive weight.
    named_estimators_ : dict
        The same by name.
    final_estimator_ : estimator or None
        The final estimator, if it reduces the error significantly.
    final_weight_ : float
        Its weight, between 0 and 1; the weighted sum of the base estimators has the rest.
    feature_scale_ : float
        Root mean variance of the features of X, by which the scores are multiplied as features of
        the final estimator, so that their ratio to X does not depend on its unit; 1 without one.
    loo_error_ : float
        The error of the ensemble. With a final estimator, it is cross-validated. All these errors
        are those on the validation set with `X_val`, and out-of-fold errors with `groups`.
    feature_importances_ : ndarray of shape (n_features,), float64
        The weighted mean over all networks, scaled to a sum of 1. The importance of scores that are
        features of the final estimator is that of the features that they are computed from. The
        attribute does not exist if a network has none.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    """)


@fill_docstring(SHARED, _SHARED)
class StackedClassifier(ClassifierMethods, StackedEnsemble):
    """Classifier that adds the scores of several networks: stacking without cross-validation.

    Each network is fitted once, to all samples. The leave-one-out scores of a ridge readout have a
    closed form. Non-negative weights minimise the log-loss of the softmax of the weighted sum of
    these scores [1]_ [2]_. A network with a small weight is dropped, so that `predict` does not
    evaluate it.

    Parameters
    ----------
    %(estimators)s
    %(final_estimator)s
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn: they multiply `sample_weight`, for all
        base estimators and for the weights of the ensemble.
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(estimators_)s
    %(named_estimators_)s
    weights_ : ndarray of shape (n_estimators,)
        The weight of each of `estimators_`, at least 0.05. Their sum is 1.
    intercept_ : ndarray of shape (n_scores,)
        Constant term of the weighted sum: 0.
    %(final_estimator_)s
    %(final_weight_)s
    %(feature_scale_)s
    loo_errors_ : ndarray of shape (n_estimators,)
        Leave-one-out error of each of `estimators` that is not "drop": the mean of
        ``|y - score|^2`` over the samples that determine `weights_`, y one-hot encoded.
    %(loo_error_)s
    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are the softmax of logits divided by the temperature.
    score_scale_ : float or ndarray of shape (n_outputs,)
        As in `RBFClassifier`.
    score_offset_ : float
        Subtracted from the score if one of two classes is rare, see Notes; otherwise 0.
    matrix_scaling_ : ndarray of shape (n_classes, n_classes + 1)
        Only if classes are masked, as in `RBFClassifier`: decision values are the weighted sum of
        scores multiplied by the first columns, plus the last column.
    %(conformity_scores_)s
    classes_ : ndarray of shape (n_classes,), or list of ndarray
        For several outputs, those of each; for an indicator y, the indices of its columns.
    multilabel_ : bool
        Whether y was a multilabel indicator.
    %(feature_importances_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    StackedRegressor : The regression version.
    RBFClassifier : A single network.
    sklearn.ensemble.StackingClassifier : Stacking of any estimators, with one fit per fold.

    Notes
    -----
    Weights are computed from at most 8192 samples, or 1024 without a final estimator, and fewer if
    there are many classes. Identical samples are left out one at a time: if a dataset has
    duplicates, new samples are as likely to repeat old ones. A sample of weight 2, however, is left
    out as a whole, so that the weights of the ensemble differ from those for two identical samples.

    The final estimator is trained on these samples with out-of-fold scores, as in stacking with
    ``passthrough=True``, in closed form. So it learns to correct the ensemble, at the cost of one
    small network. Its weight minimises the squared error of out-of-fold scores. It is dropped if it
    does not reduce that error by more than its standard error, and if these samples lack a class.

    A base estimator with ``alpha="auto"`` searches its penalty as usual. With up to 6000 samples,
    the search continues with the leave-one-out error of 1000 of them, which is more reliable.

    The feature weights, the kernel width and the penalty of a base estimator were chosen on all
    samples, including the one that is left out. The bias is small, except for a linear map of
    hundreds of features: the leave-one-out errors of "map" are too small on the samples that its
    map was learned from, so its weight is too large. If "tanh" has a smaller validation error,
    leave "map" out with `estimators`.

    A ridge readout minimises squared errors, which hardly depend on the order of samples whose
    probability is small. So if one of two classes has less than a tenth of the weight, and at least
    ten samples, the weights of its samples are increased to a tenth of the total. `score_offset_`
    corrects this: with it, the mean probability of left-out samples is the share of the class. The
    probabilities of `estimators_` are not corrected. Weights are not increased if `class_weight` is
    given, nor for three or more classes, even if only two have samples of positive weight.

    There is no `partial_fit`, because the weights need leave-one-out scores.

    References
    ----------
    .. [1] D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992).
    .. [2] L. Breiman, "Stacked regressions", Machine Learning 24 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import StackedClassifier, make_tabular_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = make_tabular_pipeline(StackedClassifier(random_state=0)).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True

    Other base estimators, whose hyperparameters a search may vary:

    >>> from sklearn_fsvc import RBFClassifier, TanhClassifier
    >>> pair = [("rbf", RBFClassifier(100)), ("tanh", TanhClassifier(300))]
    >>> ensemble = StackedClassifier(pair, random_state=0).set_params(tanh__n_hidden=200)
    >>> ensemble.fit(X_train, y_train).predict_proba(X_test).shape
    (45, 3)
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in
    _network_classes = RBFClassifier, TanhClassifier

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
            BaseEstimators.from_estimator(self),
            ClassWeighting.from_estimator(self),
        )


@fill_docstring(REGRESSION, _SHARED)
class StackedRegressor(RegressorMethods, StackedEnsemble):
    """Regressor that adds the predictions of several networks: stacking without cross-validation.

    The regression version of `StackedClassifier`: each network is fitted once, and the non-negative
    weights minimise the squared error of the weighted sum of leave-one-out predictions, over all
    outputs together, each standardised.

    Parameters
    ----------
    %(estimators)s
    %(final_estimator)s
    target_transform : {"auto", "log", "quantiles"} or None, default="auto"
        Transform of y, for all base estimators: see `RBFRegressor`. `contributions` then add up to
        the prediction of the transformed y.
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(estimators_)s
    %(named_estimators_)s
    weights_ : ndarray of shape (n_estimators,)
        The weight of each of `estimators_`, at least 0.05 of their sum, which need not be 1.
    intercept_ : ndarray of shape (n_outputs,)
        Constant term of the weighted sum: the mean of y times 1 minus the sum of the weights.
    %(final_estimator_)s
    %(final_weight_)s
    %(feature_scale_)s
    loo_errors_ : ndarray of shape (n_estimators,)
        Leave-one-out error of each of `estimators` that is not "drop": the mean squared error of
        standardised y, over the samples that determine `weights_`.
    %(loo_error_)s
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Mean and standard deviation of y, transformed if it is.
    %(target_transformer_)s
    %(smearing_)s
    %(residual_distribution_)s
    %(feature_importances_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    StackedClassifier : The classification version, with notes on both.
    RBFRegressor : A single network; ``uncertainty=True`` adds standard deviations.

    Notes
    -----
    The features of the final estimator are those of X and the predictions of the ensemble,
    standardised like y, times `feature_scale_`.

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
    _network_classes = RBFRegressor, TanhRegressor

    def __init__(
        self, estimators=None, *, final_estimator="auto", target_transform="auto",
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.estimators = estimators
        self.final_estimator = final_estimator
        self.target_transform = target_transform
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _stacked_parts(self):
        return StackedParts(
            NumericTarget.from_estimator(self, uncertainty=False),
            BaseEstimators.from_estimator(self),
            NumericWeighting.from_estimator(self),
        )

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, out=None):
        """Predict the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        out : array-like of the shape of y, optional
            Receives the predictions, as for `RBFRegressor.predict`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64, or `out`
        """
        return self._compute_output(X, "predict", out)

    def _predict_quantiles(self, X, probabilities, level=None):
        self._check_residuals(self._stacked_parts().weighting.residual_distribution_)
        return self._open_prediction(X).quantiles(probabilities, level)
