"""TanhRegressor: parameters and fitted attributes."""

from ..estimators.regressor import HiddenLayerRegressor
from ..estimators.tanh import TanhUnits
from ..parameters import check_choice
from ..units.automatic import N_HIDDEN

WEIGHTS = ("gaussian", "orthogonal")


class TanhRegressor(TanhUnits, HiddenLayerRegressor):
    """Regressor with a hidden layer of random tanh units and a ridge readout.

    The layer is that of `TanhClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    n_hidden : int, default=1000
        Hidden units. With the same `random_state`, fewer are a prefix of more.
    scale : float or "auto", default="auto"
    weights : {"gaussian", "orthogonal"}, default="gaussian"
    image_shape, patch_size, bias
        As for `TanhProjector`.
    layer : estimator or FrozenEstimator, default=None
        As for `TanhClassifier`.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
    forgetting : float, default=1.0
    uncertainty : bool, default=False
        As for `RBFRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same model on every device.
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    components_ : ndarray of shape (n_hidden, n_features)
        Weights of the hidden units.
    hidden_intercept_ : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    readout_coef_ : ndarray of shape (n_outputs, n_hidden), float64
    readout_intercept_ : ndarray of shape (n_outputs,), float64
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    trials_ : structured ndarray of shape (n_trials,)
    posterior_ : tuple (root, mean, n, noise)
        As of `RBFRegressor`.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import TanhRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    >>> Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1]])
    >>> model = TanhRegressor(200, random_state=0).fit(X[:400], Y[:400])
    >>> model.predict(X[400:]).shape
    (100, 2)
    >>> bool(model.score(X[400:], Y[400:]) > 0.99)
    True
    """

    def __init__(
        self, n_hidden=N_HIDDEN, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, layer=None, alpha="auto", forgetting=1.0, uncertainty=False,
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden = n_hidden
        self.scale = scale
        self.weights = weights
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.bias = bias
        self.layer = layer
        self.alpha = alpha
        self.forgetting = forgetting
        self.uncertainty = uncertainty
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _check_layer(self):
        check_choice("weights", self.weights, WEIGHTS)
        super()._check_layer()
