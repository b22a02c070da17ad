"""PatchRegressor: parameters and fitted attributes."""

from ..estimators.numbers import Numbers
from ..estimators.parts import Parts
from ..estimators.patches import Patches
from ..estimators.readouts import Ridge
from ..estimators.regressor import NetworkRegressor
from ..units.automatic import N_PATCHES


class PatchRegressor(NetworkRegressor):
    """Regressor of images, with a hidden layer of units that are patches, and a ridge readout.

    The layer is that of `PatchClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    n_hidden : int, default=400
        Units. With the soft threshold, and with the same `random_state`, fewer are a prefix of
        more. The layer has as many outputs as units times cells of the pool, with the soft
        threshold twice as many; time and memory of the readout go with their number.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. None takes squares of one
        channel where the number of features is a square of 4 or more. Up to 64 other
        features are no image: each row is one patch, and nothing is averaged.
    patch_size : int or (height, width), default=None
        Side or sides of the patches. None is a quarter of the image's shorter side, from 3 to 8.
    stride : int, default=1
        Pixels from one place to the next.
    pool : int or (down, across), default=4
        Cells of the grid. No more are made than there are places.
    kernel : {"soft_threshold", "below_mean", "triangular", "gaussian", "laplacian"} or Kernel, \
default="soft_threshold"
        "soft_threshold" has two outputs, ``max(0, a - t)`` and ``max(0, -a - t)`` for the
        product a of a patch and a unit of length 1. "below_mean" is ``max(0, m - d)`` for the
        distance d and its mean m over the units. The others are those of `RBFProjector`.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="euclidean"
        Of the kernels of distances.
    radius : float or "auto", default="auto"
        Width of the kernels that have one. "auto" goes with the median distance of patches.
    threshold : float, default=0.5
        The threshold t, in units of the root mean square of what a unit receives of patches that
        are not flat.
    contrast : bool or "auto", default="auto"
        Whether each patch is taken less its mean, and divided by the root of its variance and
        of a hundredth of the mean variance of patches. "auto" does so with images, and not
        with those of one row.
    whitening : float or None, default=0.3
        What is added to the eigenvalues of the covariance of patches, in units of their mean,
        before patches are decorrelated (ZCA). None leaves them as they are.
    selection : {"random", "global"}, default="random"
        Patches at random that are not flat, or those among them that are novel, as for
        `RBFProjector`.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
        Ridge penalty; the intercept is not penalised. "auto" minimises the error of
        a sixth of the rows, which are held out. Of several numbers, the one with the least
        leave-one-out error is taken; "loo" tries 17 from 1e-5 to 1e3,
        and with more than 2000 units only those on the way downhill.
    forgetting : float, default=1.0
        In `partial_fit` a row's weight is multiplied by it with every row that comes after it.
    uncertainty : bool, default=False
        Whether to have ``predict(X, return_std=True)``. It takes one more pass over the
        rows, two with ``alpha="auto"`` and none with "loo", and the model one more matrix of
        n_hidden x n_hidden.
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same ones on every device.
    device : str, default="auto"
        Where the layer is computed: "jit", "blas" or "mkl" on the host, "cuda" on an NVIDIA
        GPU, "cuda:1" on the second one, "cuda:0,1" or "cuda:all" on several; "cpu" is the fastest
        on the host. Used or refused, never replaced. "auto" takes a GPU that works for large
        jobs, all that there are for very large ones, else "cpu".
    max_memory : int, str or None, default=None
        Bytes, or a string such as "2GiB", that fit and predict may allocate where the
        layer is computed. None takes up to half of the free memory.
    verbose : int, default=0
        1 prints a line a second while long work runs, 2 also each pass and where its time goes.

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

    See Also
    --------
    PatchClassifier : The same units, for classes.
    PatchProjector : The hidden layer alone.
    TanhRegressor : Quicker, with receptive fields.

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

    def _parts(self):
        return Parts(Patches.of(self), Numbers.of(self), Ridge.of(self))
