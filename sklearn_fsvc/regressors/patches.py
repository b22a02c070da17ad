"""PatchRegressor: parameters and fitted attributes."""

from ..estimators.patches import PatchUnits
from ..estimators.regressor import HiddenLayerRegressor
from ..units.automatic import N_PATCHES


class PatchRegressor(PatchUnits, HiddenLayerRegressor):
    """Regressor of images, with a hidden layer of units that are patches, and a ridge readout.

    The layer is that of `PatchClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    n_hidden : int, default=400
        As for `PatchClassifier`.
    image_shape, patch_size, stride, pool, kernel, metric, radius, threshold, contrast, whitening, \
selection
        As for `PatchProjector`.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
    forgetting : float, default=1.0
    uncertainty : bool, default=False
        As for `RBFRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same model on every device.
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    components_, patches_, image_shape_, pool_, radius_, threshold_, floor_, whitening_, shift_
        As of `PatchProjector`.
    readout_coef_ : ndarray of shape (n_outputs, n_hidden_outputs), float64
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
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import PatchRegressor
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PatchRegressor(50, random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.7)
    True
    """

    def __init__(
        self, n_hidden=N_PATCHES, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", alpha="auto",
        forgetting=1.0, uncertainty=False, random_state=None, device="auto", max_memory=None,
        verbose=0,
    ):  # fmt: skip
        self.n_hidden = n_hidden
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.stride = stride
        self.pool = pool
        self.kernel = kernel
        self.metric = metric
        self.radius = radius
        self.threshold = threshold
        self.contrast = contrast
        self.whitening = whitening
        self.selection = selection
        self.alpha = alpha
        self.forgetting = forgetting
        self.uncertainty = uncertainty
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose
