"""PatchClassifier: parameters and fitted attributes."""

from ..estimators.classifier import HiddenLayerClassifier
from ..estimators.patches import PatchUnits
from ..units.automatic import N_PATCHES


class PatchClassifier(PatchUnits, HiddenLayerClassifier):
    """Classifier of images, with a hidden layer of units that are patches, and a ridge readout.

    Each unit is a small patch of the training images. It is compared with the patches in all
    places of an image, and what it answers is averaged over the cells of a coarse grid [1]_,
    [2]_. Nothing in the layer is trained; the readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets, in one pass.

    Parameters
    ----------
    n_hidden : int, default=400
        Units. With the soft threshold, and with the same `random_state`, fewer are a prefix of
        more. The layer has as many outputs as units times cells of the pool, with the soft
        threshold twice as many; time and memory of the readout go with their number.
    image_shape, patch_size, stride, pool, kernel, metric, radius, threshold, contrast, whitening, \
selection
        As for `PatchProjector`.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
    forgetting : float, default=1.0
    probability : bool, default=False
        As for `RBFClassifier`.
    class_weight : dict, "balanced" or None, default=None
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same model on every device.
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of ndarray
    is_indicator_ : bool
        As of `RBFClassifier`.
    components_, patches_, image_shape_, pool_, radius_, threshold_, floor_, whitening_, shift_
        As of `PatchProjector`.
    readout_coef_ : ndarray of shape (n_classes, n_outputs) or (1, n_outputs)
        For the outputs of the layer: those of the first unit, then of the second.
    readout_intercept_ : ndarray of shape (n_classes,) or (1,)
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    temperature_ : float or ndarray of shape (n_outputs,)
    trials_ : structured ndarray of shape (n_trials,)
        As for `RBFClassifier`.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    References
    ----------
    .. [1] A. Coates, A. Y. Ng, "The importance of encoding versus training with sparse coding
       and vector quantization", ICML 2011.
    .. [2] L. Thiry et al., "The unreasonable effectiveness of patches in deep convolutional
       kernels methods", ICLR 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import PatchClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = PatchClassifier(50, random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.98)
    True
    """

    def __init__(
        self, n_hidden=N_PATCHES, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", alpha="auto",
        forgetting=1.0, probability=False, class_weight=None, random_state=None, device="auto",
        max_memory=None, verbose=0,
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
        self.probability = probability
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose
