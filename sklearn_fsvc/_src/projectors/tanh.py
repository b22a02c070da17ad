"""TanhProjector: parameters and fitted attributes."""

from ..estimators.parts import Parts
from ..estimators.tanh import Tanh
from ..estimators.transformer import NetworkTransformer
from ..units.automatic import N_COMPONENTS


class TanhProjector(NetworkTransformer):
    """Compute random tanh features, ``H = tanh(X W' + b)``, as a transformer.

    Parameters
    ----------
    n_components : int, default=100
        Hidden units. With the same `random_state`, fewer are a prefix of more.
    scale : float or "auto", default="auto"
        A number is the length of each unit's weights; of weights that are drawn from a normal
        distribution, their length on average. It is the standard deviation of ``x . w`` for
        independent features of unit variance. "auto" centres X by the biases, and chooses
        the length such that ``x . w`` has a standard deviation of
        ``0.39 N ** (1 / (d + 4))``, for N rows (the sum of their weights) that vary in d
        directions (the participation ratio of their variances). That is Scott's rule for the
        width of kernels [1]_; neither the unit of X nor its offset matters. It is measured on
        at most 1000 rows; those that are 30 times as far from the median row as is usual do
        not count.
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
        Whether units have random biases: uniform in [-1, 1], and with ``scale="auto"`` over
        2.5 of the standard deviations above to either side, where that is more, so that units
        bend wherever rows lie. If False, biases are 0; with ``scale="auto"`` they then only
        centre X.
    feature_weights : {"learned", "map"}, array-like of float or None, default=None
        How much each feature counts: the layer is made for rows that are multiplied by them,
        and `components_` contain them. "learned" needs the classes of the rows, and finds
        them as `RBFClassifier` does; so does "map", which finds a linear map as `TanhClassifier`
        does. An array of shape (n_features,) is weights, a matrix (n_features, n_inputs) a map.
    precision : {"float", 8, 15}, default="float"
        Bits of an activation: with 8 or 15 it is rounded to steps of a power of two.
    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same weights on every device.
    device : str, default="auto"
        Where the layer is computed: "jit", "blas" or "mkl" on the host, "cuda" on an NVIDIA
        GPU, "cuda:1" on the second one, "cuda:0,1" or "cuda:all" on several; "cpu" is the fastest
        on the host. A device that is named is used, or refused with the reason. "auto" is a GPU
        for large jobs and all GPUs for very large ones; for small jobs, or where no GPU works,
        it is "cpu".
    max_memory : int, str or None, default=None
        How much memory fit and transform may allocate where the layer is computed: bytes, or
        a string such as "2GiB". None takes up to half of the free memory.
    verbose : int, default=0
        1 prints the progress of long work, at most one line a second; 2 prints each pass, and
        where its time goes, too.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The weights W.
    hidden_intercept_ : ndarray of shape (n_components,)
        The biases b.
    feature_weights_ : ndarray of shape (n_features,) or None
        Weights of the features, each in one over the unit of its feature. None where the
        features count as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The diagonal of ``A @ A.T`` says how much each feature
        counts (a learned weight is its root); the eigenvectors of its largest eigenvalues are the
        combinations of features that count most. A learned map is square.
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    TanhClassifier : The same layer with a readout for classes.
    TanhRegressor : The same layer with a readout for numbers.
    RBFProjector : Units on training rows.

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

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_components=N_COMPONENTS, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, feature_weights=None, precision="float", random_state=None,
        device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_components = n_components
        self.scale = scale
        self.weights = weights
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.bias = bias
        self.feature_weights = feature_weights
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        return Parts(Tanh.of(self))
