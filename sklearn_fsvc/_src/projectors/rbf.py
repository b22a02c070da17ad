"""RBFProjector: parameters and fitted attributes."""

from ..estimators.parts import Parts
from ..estimators.rbf import RBF
from ..estimators.transformer import NetworkTransformer
from ..units.automatic import N_COMPONENTS


class RBFProjector(NetworkTransformer):
    """Compute the hidden layer of `RBFClassifier`, as a transformer.

    ``H[i, j] = phi(d(x_i, c_j))`` with triangular, Gaussian or Laplacian units on novel rows of the
    training data.

    Parameters
    ----------
    n_components : int or None, default=100
        Number of units, as `n_hidden` of `RBFClassifier`. None keeps every row that is novel
        at the selection radius; where no radius is given, these are about a quarter of the
        rows, or three quarters with learned feature weights, and at most 4000.
    radius : float or "auto", default="auto"
        Width of the units. "auto" follows the median distance d between rows: for Laplacian units
        ``0.7 d``, for Gaussian units ``d / 2.5066``, and for triangles a quarter of the way from
        the selection radius to ``d / 2.5066``, at which a triangle ends at d. With random
        centres it is 0.85 of ``0.7 d`` or ``d / 2.5066``. With ``n_components=None`` it is the
        selection radius. With learned feature weights it is the one of a few with the least
        held-out error.
    kernel : {"triangular", "gaussian", "laplacian", "powered_exponential"} or Kernel, \
default="triangular"
        Formula of the units, or a `sklearn_fsvc.kernels.Kernel` of your own; the formulas are
        in `RBFClassifier`.
    feature_weights : {"learned", "map"}, array-like of float or None, default=None
        Rows are multiplied by them, feature by feature, before distances are measured.
        "learned" and "map" find weights or a linear map as `RBFClassifier` does, and use them if
        they lower the held-out error; they need the classes as `y` in fit. A matrix of shape
        (n_features, n_inputs) is a map: rows x become ``x A``.
    selection_radius : float or None, default=None
        Radius used for selection only. None means `radius` if that is a number and
        `n_components` is None, and otherwise the one that is found for the number of units.
    overlap : float, default=1.0
        Threshold of the sum of activations below which a row is novel: the higher, the more
        centres.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
        Distance between rows and centres; uint8 rows are compared exactly, in integers, by
        the Manhattan distance.
    selection : {"global", "per_class", "random"}, default="global"
        Novelty over all rows, within each class, which needs `y` in fit, or `n_components`
        rows at random.
    shuffle : bool, default=True
        Present the rows in random order. False presents them as they come.
    precision : {"float", 8, 15}, default="float"
        Bits of an activation: with 8 or 15 it is rounded to steps of a power of two.
    random_state : int, RandomState or None, default=None
        Seed of the order of presentation, and of the random choices behind what is "auto".
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
    centers_ : ndarray of shape (n_units, n_features)
    support_ : ndarray of shape (n_units,)
        Row numbers of the centres in the training data.
    radius_, selection_radius_ : float
    kernel_ : str or Kernel
    feature_weights_ : ndarray of shape (n_features,) or None
        None where rows are compared as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one.
    search_results_ : dict of str to ndarray of shape (n_trials,)
        As of `RBFClassifier`.
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    RBFClassifier : The same layer with a readout for classes.
    RBFRegressor : The same layer with a readout for numbers.
    TanhProjector : Random weights instead of centres.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import RBFProjector
    >>> X, y = load_digits(return_X_y=True)
    >>> RBFProjector(50, random_state=0).fit_transform(X).shape[0]
    1797
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_components=N_COMPONENTS, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="manhattan", kernel="triangular", feature_weights=None,
        shuffle=True, precision="float", random_state=None, device="auto", max_memory=None,
        verbose=0,
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
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        return Parts(RBF.of(self))
