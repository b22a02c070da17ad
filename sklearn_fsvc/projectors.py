"""RBFProjector and TanhProjector: parameters, docstrings, fitted attributes."""

from .estimators.patches import PatchUnits
from .estimators.rbf import RBFUnits
from .estimators.tanh import TanhUnits
from .estimators.transformer import HiddenLayerTransformer
from .units.automatic import N_COMPONENTS


class RBFProjector(RBFUnits, HiddenLayerTransformer):
    """The hidden layer of `RBFClassifier` as a transformer.

    ``H[i, j] = phi(d(x_i, c_j))`` with triangular, Gaussian or Laplacian units on novel rows of the
    training data.

    Parameters
    ----------
    n_components : int or None, default=100
        Number of units, as `n_hidden` of `RBFClassifier`. None keeps every row that is novel
        at the selection radius; where no radius is given, it is a quarter of the rows, or
        three quarters with learned feature weights, at most 4000.
    radius : float or "auto", default="auto"
        Width of the units. "auto" reads it off the distances between rows: for triangles a
        quarter of the way from the selection radius to the width at which a triangle ends
        at the median distance, for Laplacian units 0.7 of that distance, and for random
        centres 0.85 of what goes with it. With ``n_components=None`` it is the selection
        radius. With learned feature weights it has the least held-out error of a few.
    kernel : {"triangular", "gaussian", "laplacian"} or Kernel, default="triangular"
        Formula of the units, or a `sklearn_fsvc.kernels.Kernel` of your own; the formulas are
        in `RBFClassifier`.
    feature_weights : "learned", array-like of float or None, default=None
        Rows are multiplied by them, feature by feature, before distances are measured.
        "learned" finds them, and uses them if they lower the held-out error; it needs `y`
        in fit.
    selection_radius : float or None, default=None
        Radius used for selection only. None means `radius` if that is a number and
        `n_components` is None, and otherwise the one that is found for the number of units.
    overlap : float, default=1.0
        Threshold of the sum of activities below which a row is novel: the higher, the more
        centres.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
        Distance between rows and centres; uint8 rows are compared exactly, in integers, by
        the Manhattan distance.
    selection : {"global", "per_class", "random"}, default="global"
        Novelty over all rows, within each class, which needs `y` in fit, or `n_components`
        rows at random.
    shuffle : bool, default=True
        Present the rows in random order. False presents them as they come.
    random_state : int, RandomState or None, default=None
        Seed of the order, and of the rows behind what is "auto".
    device : str, default="auto"
        Where the layer is computed: "jit", "blas" or "mkl" on the host, "cuda" on an NVIDIA
        GPU, "cuda:1" on the second one; "cpu" is the fastest on the host. Used or refused,
        never replaced. "auto" takes a GPU that works for large jobs, else "cpu".
    max_memory : int, str or None, default=None
        Bytes, or a string such as "2GiB", that fit and transform may allocate where the
        layer is computed. None takes up to half of the free memory.
    verbose : int, default=0
        1 prints the progress of long work.

    Attributes
    ----------
    centers_ : ndarray of shape (n_units, n_features)
    support_ : ndarray of shape (n_units,)
        Row numbers of the centres in the training data.
    radius_, selection_radius_ : float
    kernel_ : str or Kernel
    feature_weights_ : ndarray of shape (n_features,) or None
    trials_ : structured ndarray of shape (n_trials,)
        As of `RBFClassifier`.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import RBFProjector
    >>> X, y = load_digits(return_X_y=True)
    >>> RBFProjector(50, random_state=0).fit_transform(X).shape[0]
    1797
    """

    def __init__(
        self, n_components=N_COMPONENTS, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="manhattan", kernel="triangular", feature_weights=None,
        shuffle=True, random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_components = n_components
        self.radius = radius
        self.selection_radius = selection_radius
        self.overlap = overlap
        self.selection = selection
        self.metric = metric
        self.kernel = kernel
        self.feature_weights = feature_weights
        self.shuffle = shuffle
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose


class TanhProjector(TanhUnits, HiddenLayerTransformer):
    """Random tanh features, ``H = tanh(X W' + b)``.

    Parameters
    ----------
    n_components : int, default=100
        Hidden units. With the same `random_state`, fewer are a prefix of more.
    scale : float or "auto", default="auto"
        A number is the length of each unit's weights, or, where they are normal, of that
        length on average: the standard deviation of what a unit receives from independent
        features of unit variance. "auto" centres X by the biases and gives what each unit
        receives around its bias a standard deviation of ``0.39 N ** (1 / (d + 4))``, for N
        rows (the sum of their weights) that vary in d directions (the participation ratio
        of their variances). That is Scott's rule for the width of kernels [1]_; neither
        the unit of X nor its offset matters. Measured on at most 1000 rows, without those
        that are 30 times as far from the median row as is usual.
    weights : {"gaussian", "orthogonal", "class_informed", "constrained"}, default="gaussian"
        Orthogonal weights are Gaussian ones with orthogonal directions within each group
        of n_features units [2]_. Class-informed weights are sums of all training rows of
        one class, less the mean and with random signs, the classes in turn [3]_.
        Constrained weights are differences of two random training rows of different
        classes [4]_. The last two need `y` in fit.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. Each unit then sees a random
        rectangle, its receptive field: the weights of other pixels are 0. None for
        features that are no images.
    patch_size : (low, high), default=None
        Smallest and largest side of the rectangles; height and width are drawn uniformly,
        and so is the place. None is from a fifth to three fifths of the image's shorter
        side.
    bias : bool, default=True
        Uniform in [-1, 1]; without it, 0.
    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same weights on every device.
    device : str, default="auto"
        Where the layer is computed: "jit", "blas" or "mkl" on the host, "cuda" on an NVIDIA
        GPU, "cuda:1" on the second one; "cpu" is the fastest on the host. Used or refused,
        never replaced. "auto" takes a GPU that works for large jobs, else "cpu".
    max_memory : int, str or None, default=None
        Bytes, or a string such as "2GiB", that fit and transform may allocate where the
        layer is computed. None takes up to half of the free memory.
    verbose : int, default=0
        1 prints the progress of long work.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W.
    hidden_intercept_ : ndarray of shape (n_components,)
        b.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    References
    ----------
    .. [1] D. W. Scott, "Multivariate Density Estimation", Wiley 1992.
    .. [2] F. X. Yu et al., "Orthogonal Random Features", NIPS 2016.
    .. [3] M. D. McDonnell et al., "Fast, simple and accurate handwritten digit classification
       by training shallow neural network classifiers with the 'extreme learning machine'
       algorithm", PLOS ONE 10(8), 2015.
    .. [4] W. Zhu, J. Miao, L. Qing, "Constrained extreme learning machine: a novel highly
       discriminative random feedforward neural network", IJCNN 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_fsvc import TanhProjector
    >>> X, y = load_digits(return_X_y=True)
    >>> pipe = make_pipeline(
    ...     TanhProjector(300, random_state=0), LogisticRegression(max_iter=1000)
    ... )
    >>> bool(pipe.fit(X[:1500], y[:1500]).score(X[1500:], y[1500:]) > 0.9)
    True
    """

    def __init__(
        self, n_components=N_COMPONENTS, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, random_state=None, device="auto", max_memory=None,
        verbose=0,
    ):  # fmt: skip
        self.n_components = n_components
        self.scale = scale
        self.weights = weights
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.bias = bias
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose


class PatchProjector(PatchUnits, HiddenLayerTransformer):
    """Images to what small patches of the training images answer, averaged over a grid.

    Each unit is a patch of the training images. It is compared with the patches in all places
    of an image, and what it answers is averaged over the cells of a coarse grid [1]_, [2]_.

    Parameters
    ----------
    n_components : int, default=100
        Units. There are as many outputs as units times cells of the pool, with the soft
        threshold twice as many: those of the first unit, then of the second.
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
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same ones on every device.
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    components_ : ndarray of shape (n_units, n_inputs)
        The units as patches meet them: normalised, whitened, with the soft threshold of
        length 1.
    patches_ : ndarray of shape (n_units, height, width, channels)
        The units as they are in the images.
    image_shape_ : tuple (rows, columns, channels)
    pool_ : tuple (down, across)
    radius_, threshold_, floor_ : float or None
        What was used; `floor_` is added to the variance of patches. None where there is none.
    whitening_ : ndarray of shape (n_inputs, n_inputs) or None
    shift_ : ndarray of shape (n_inputs,) or None
        Patches p become ``p @ whitening_ - shift_``.
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
    >>> from sklearn_fsvc import PatchProjector
    >>> X, y = load_digits(return_X_y=True)
    >>> PatchProjector(10, pool=2, random_state=0).fit_transform(X).shape
    (1797, 80)
    """

    def __init__(
        self, n_components=N_COMPONENTS, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", random_state=None,
        device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_components = n_components
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
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose
