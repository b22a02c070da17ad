"""RBFRegressor: parameters, fitted attributes, and what is special."""

import numpy as np

from ..estimators.rbf import RBFUnits
from ..estimators.regressor import HiddenLayerRegressor
from ..parameters import check_choice

SELECTIONS = ("global", "random")


class RBFRegressor(RBFUnits, HiddenLayerRegressor):
    """Regressor with a hidden layer of RBF units on selected training rows.

    The layer is that of `RBFClassifier`, on rows that are chosen without a look at y. The
    readout minimises ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where
    each output is divided by its standard deviation.

    Parameters
    ----------
    n_hidden : int or None, default=None
    radius : float or "auto", default="auto"
    selection_radius : float or None, default=None
    overlap : float, default=1.0
        As for `RBFClassifier`.
    selection : {"global", "random"}, default="global"
        Novelty over all rows, or `n_hidden` rows at random.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
    kernel : {"auto", "triangular", "gaussian", "laplacian"} or Kernel, default="auto"
    feature_weights : {"auto", "learned"}, array-like of float or None, default="auto"
    layer : estimator, FrozenEstimator or array-like of shape (n_units, n_features), default=None
    alpha : float, "auto", "loo" or array-like of float, default="auto"
    forgetting : float, default=1.0
        As for `RBFClassifier`, with the ridge readout.
    uncertainty : bool, default=False
        Whether to have ``predict(X, return_std=True)``. It takes one more pass over the
        rows, two with ``alpha="auto"`` and none with "loo", and the model one more matrix of
        n_units x n_units.
    shuffle : bool, default=True
    random_state : int, RandomState or None, default=None
    device : str, default="auto"
    max_memory : int, str or None, default=None
    verbose : int, default=0
        As for `RBFClassifier`.

    Attributes
    ----------
    centers_ : ndarray of shape (n_units, n_features)
        Training rows, as they came, in the order of presentation.
    center_targets_ : ndarray of shape (n_units,) or (n_units, n_outputs)
    support_ : ndarray of shape (n_units,)
        Row numbers of the centres in the training data.
    radius_, selection_radius_ : float
        The radii that were used; `selection_radius_` is None for random centres.
    kernel_ : str or Kernel
    feature_weights_ : ndarray of shape (n_features,) or None
        What was used; None where rows are compared as they are.
    readout_coef_ : ndarray of shape (n_outputs, n_units), float64
    readout_intercept_ : ndarray of shape (n_outputs,), float64
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Mean and standard deviation of y, by the weights of the rows; of a constant y the
        latter is 1.
    alpha_ : float
        The ridge penalty that was used, for y divided by `target_scale_`.
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The penalties and their leave-one-out errors, the mean over rows of
        ``|(y - prediction) / target_scale_|^2``; only where they were needed.
    trials_ : structured ndarray of shape (n_trials,)
        As of `RBFClassifier`, with the same error on the rows that are held out.
    posterior_ : tuple (root, mean, n, noise)
        Of the readout, see Notes; only with ``uncertainty=True``. Of shapes (n_units,
        n_units), (n_units,), () and (n_outputs,).
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    Notes
    -----
    A row outside every triangle raises no activity; it is given the y of the nearest
    centre, or of a given `layer`, whose y are not known, the intercept.

    The standard deviation of an answer is that of a Bayesian linear model of the hidden
    layer [1]_, ``noise sqrt(1 + 1 / n + |(h - mean) root|^2)``, where ``root root'`` is the
    inverse of the equations' matrix. ``noise^2`` is the mean over rows of ``w e e_left``, of
    the residuals with and without the row: so that leave-one-out residuals are as large as
    is foretold of them, on average.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning",
       MIT Press (2006), section 2.1.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn_fsvc import RBFRegressor, make_tabular_pipeline
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_tabular_pipeline(RBFRegressor(random_state=0, uncertainty=True))
    >>> bool(cross_val_score(model, X, y).mean() > 0.45)
    True
    >>> y_mean, y_std = model.fit(X, y).predict(X[:3], return_std=True)
    >>> y_std.shape
    (3,)
    """

    def __init__(
        self, n_hidden=None, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="manhattan", kernel="auto", feature_weights="auto",
        layer=None, alpha="auto", forgetting=1.0, uncertainty=False, shuffle=True,
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden = n_hidden
        self.radius = radius
        self.selection_radius = selection_radius
        self.overlap = overlap
        self.selection = selection
        self.metric = metric
        self.kernel = kernel
        self.feature_weights = feature_weights
        self.layer = layer
        self.alpha = alpha
        self.forgetting = forgetting
        self.uncertainty = uncertainty
        self.shuffle = shuffle
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    _unit_attributes = (*RBFUnits._unit_attributes, "center_targets_")
    _may_be_auto = _is_tried = True
    _part_of_natural = 0.0  # the radius is tried

    def _check_layer(self):
        check_choice("selection", self.selection, SELECTIONS)
        super()._check_layer()

    def _choose_layer(self, job, samples, trials):
        layer = super()._choose_layer(job, samples, trials)
        if self.layer is None:
            self.center_targets_ = self._answers(samples.targets.numbers(self.support_))
        return layer

    def _targets_of_units(self):
        return np.reshape(self.center_targets_, (len(self.center_targets_), -1))
