"""RBFRegressor: parameters, fitted attributes, and what is special."""

from ..estimators.explaining import Explaining
from ..estimators.numbers import NumericTarget
from ..estimators.parts import Parts
from ..estimators.rbf import RBF
from ..estimators.readouts import Ridge
from ..estimators.regressor import NetworkRegressor


class RBFRegressor(Explaining, NetworkRegressor):
    """Regressor with a hidden layer of RBF units on selected training rows.

    The layer is that of `RBFClassifier`, on rows that are chosen without a look at y. The
    readout minimises ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where
    each output is divided by its standard deviation.

    Parameters
    ----------
    n_hidden : int or None, default=None
        Number of hidden units. A selection radius is found at which few more rows than that
        are novel; the first of them become the centres. Where too few rows differ there are
        fewer units, with a warning. With a number for `selection_radius` it is the largest
        number of units. None is about three quarters of the rows, at most 4000; with a number
        for `radius` or `selection_radius`, all rows that are novel at it.
    radius : float or "auto", default="auto"
        Width of the units, in units of the distance. "auto" takes the one with the least
        held-out error: it tries a few around the median distance between rows, then narrower or
        wider ones as long as they are better.
    selection_radius : float or None, default=None
        Radius used for selection only. None means `radius` if that is a number and
        `n_hidden` is None, and otherwise the one that is found for the number of units.
    overlap : float, default=1.0
        Threshold of the sum of activations below which a row is novel: the higher, the more
        centres.
    selection : {"global", "random"}, default="global"
        Novelty over all rows, or `n_hidden` rows at random.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
        Distance between rows and centres; uint8 rows are compared exactly, in integers, by
        the Manhattan distance.
    kernel : {"auto", "triangular", "gaussian", "laplacian", "powered_exponential"} or Kernel, \
default="auto"
        Formula of the units, or a `sklearn_fsvc.kernels.Kernel` of your own. "auto" takes
        the Laplacian or the triangle, whichever has the least held-out error.
    feature_weights : {"auto", "learned", "map"}, array-like of float or None, default="auto"
        Rows are multiplied by them, feature by feature, before distances are measured.
        "learned" finds them as `RBFClassifier` does, and uses them if they lower the held-out
        error. "auto" learns them for floats, and leaves bytes as they are. "map" learns a linear
        map in the same way, of at most 500 features. A matrix of shape (n_features, n_inputs)
        is a map: rows x become ``x A``.
    layer : estimator, FrozenEstimator or array-like of shape (n_units, n_features), default=None
        A hidden layer that exists already: that of a fitted RBF estimator, with its kernel,
        radius and feature weights, or an array of centres, for which those are found. No
        centres are selected then. `metric` must be that of the estimator. To keep the fitted
        estimator in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
        Ridge penalty; the intercept is not penalised. "auto" finds the one with the least
        held-out error: a sixth of the rows, at most 5000, are held out, and the final readout is
        trained on all rows. Up to 1000 rows and 1000 units, each sixth is held out in turn. Of
        several numbers, the one with the least leave-one-out error is taken. "loo" chooses
        from 17 numbers from 1e-5 to 1e3; with more than 2000 units it tries only those that lie
        downhill from a first guess.
    forgetting_factor : float, default=1.0
        Forgetting factor of `partial_fit`, above 0 and at most 1: each new row multiplies the
        weights of all earlier rows by it. 1 forgets nothing.
    uncertainty : bool, default=False
        Whether ``predict(X, return_std=True)`` is available. The fit takes one more pass over
        the rows, two with ``alpha="auto"`` and none with "loo", and the model keeps one more
        matrix, of n_units x n_units.
    shuffle : bool, default=True
        Present the rows in random order. False presents them as they come.
    precision : {"auto", "float", 8, 15}, default="auto"
        Bits of an activation. With 8 or 15 it is rounded to steps of a power of two, in fit and
        predict alike, and sums of their products over rows without weights are exact. They have the
        same bits in whatever order rows come, but for sparse rows and a linear map, with the
        Manhattan metric on every `device`, and with the Euclidean one on "jit"; elsewhere a few
        activations may be a step off. "float" keeps the activations as they are. "auto"
        takes 8 bits in large fits on GPUs and on processors that multiply bytes (VNNI, or `udot` of
        Arm), where the penalty is so large that rounding makes no difference; H'H takes a third of
        the time then (VNNI), on a GPU a twentieth. On a GPU it takes 15 bits else, with a sixth.
    random_state : int, RandomState or None, default=None
        Seed of the order of presentation, and of the random choices behind what is "auto".
    device : str, default="auto"
        Where the layer is computed: "jit", "blas" or "mkl" on the host, "cuda" on an NVIDIA
        GPU, "cuda:1" on the second one, "cuda:0,1" or "cuda:all" on several; "cpu" is the fastest
        on the host. A device that is named is used, or refused with the reason. "auto" is a GPU
        for large jobs and all GPUs for very large ones; for small jobs, or where no GPU works,
        it is "cpu".
    max_memory : int, str or None, default=None
        How much memory fit and predict may allocate where the layer is computed: bytes, or
        a string such as "2GiB". None takes up to half of the free memory.
    verbose : int, default=0
        1 prints the progress of long work, at most one line a second; 2 prints each pass, and
        where its time goes, too.

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
        None where rows are compared as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The eigenvectors of ``A @ A.T`` with the largest
        eigenvalues are the combinations of features that count most. A learned map is square.
    readout_coef_ : ndarray of shape (n_outputs, n_units), float64
    readout_intercept_ : ndarray of shape (n_outputs,), float64
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Mean and standard deviation of y, with the weights of the rows; 1 is the standard
        deviation that stands for a constant y.
    alpha_ : float
        The ridge penalty that was used, for y divided by `target_scale_`.
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The penalties and their leave-one-out errors, the mean over rows of
        ``|(y - prediction) / target_scale_|^2``; only where they were needed.
    search_results_ : dict of str to ndarray of shape (n_trials,)
        As for `RBFClassifier`; the error is that of y divided by `target_scale_`.
    posterior_ : tuple (root, mean, n, noise)
        Of the readout, see Notes; only with ``uncertainty=True``. Of shapes (n_units,
        n_units), (n_units,), () and (n_outputs,).
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    RBFClassifier : The same units, for classes.
    RBFProjector : The hidden layer alone.
    TanhRegressor : Random weights instead of centres.
    HiddenSizeSearchCV : Finds the number of units.

    Notes
    -----
    The prediction for a sample that no unit covers is the intercept. A triangle covers samples up
    to 2.5066 radii from its centre. Units of other kernels fade: the activations of very distant
    samples are rounded to 0.

    The standard deviation of a prediction is that of a Bayesian linear model of the hidden
    layer [1]_, ``noise sqrt(1 + 1 / n + |(h - mean) root|^2)``, where ``root root'`` is the
    inverse of the matrix of the ridge equations. ``noise^2`` is the sum over samples of
    ``w (1 - s) e^2``, divided by that of ``w (1 - s)^2``, for residuals e and leverages s. So
    leave-one-out residuals ``e / (1 - s)`` are as large as predicted, on average over samples
    that count for ``(1 - s)^2``: least those that alone decide their own predictions.

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

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=None, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="manhattan", kernel="auto", feature_weights="auto",
        layer=None, alpha="auto", forgetting_factor=1.0, uncertainty=False, shuffle=True,
        precision="auto", random_state=None, device="auto", max_memory=None, verbose=0,
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
        self.forgetting_factor = forgetting_factor
        self.uncertainty = uncertainty
        self.shuffle = shuffle
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        units = RBF.of(self, has_readout=True, allow_search=True, selections=("global", "random"))
        return Parts(units, NumericTarget.of(self), Ridge.of(self))
