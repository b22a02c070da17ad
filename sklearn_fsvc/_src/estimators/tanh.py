"""TanhClassifier: parameters and fitted attributes."""

from ..hidden_layers.defaults import N_COMPONENTS, N_HIDDEN
from ..hidden_layers.tanh import FROM_CHANCE, Tanh
from ..parts import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from .classifier import NetworkClassifier
from .readouts import OF_ANY_UNITS, Ridge, readout_of
from .regressor import NetworkRegressor
from .transformer import NetworkTransformer


class TanhClassifier(NetworkClassifier):
    """Classifier with a hidden layer of random tanh units and a ridge readout.

    The layer is ``H[i, j] = tanh(x_i . w_j + b_j)`` with random weights that are not
    trained, known as an extreme learning machine [1]_ or a random-feature network. The
    readout minimises ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets, in one pass.

    Parameters
    ----------
    n_hidden : int, default=1000
        Hidden units. With the same `random_state`, fewer are a prefix of more.
    scale : float or "auto", default="auto"
        Length of each unit's weights; of weights that are drawn from a normal distribution,
        their length on average. "auto" follows the number of rows and the number of directions
        in which they vary; the formula is in `TanhProjector`.
    weights : {"gaussian", "orthogonal", "class_informed", "constrained"}, default="gaussian"
        Where the weights come from: normal numbers, the same with orthogonal directions,
        sums of the rows of a class, or differences of two rows of different classes;
        `TanhProjector` describes them. The last two need one class for each row.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. Each unit then sees a random
        rectangle, its receptive field. None for features that are no images.
    patch_size : (low, high), default=None
        Smallest and largest side of the rectangles. None is from a fifth to three fifths of
        the image's shorter side.
    bias : bool, default=True
        Biases are uniform, over the range that is in `TanhProjector`; without them, units
        bend at the mean row, or, where `scale` is a number, at 0.
    feature_weights : {"auto", "learned", "map"}, array-like of float or None, default="auto"
        How much each feature counts: the layer is made for rows that are multiplied by them,
        and `components_` contain them. "learned" finds them as `RBFClassifier` does, by small
        networks of Laplacian units, and uses them if they lower the held-out error there.
        "auto" learns them for floats of at most 500 features, from 50 rows or more. It leaves the
        features as they are for bytes, with `image_shape`, and with `weights` that are made of
        rows.
        "map" learns a linear map, of at most 500 features: the root of the average gradient
        outer product [2]_ of small networks of Laplacian units of Euclidean distances, round
        by round as long as that lowers the held-out error. An array of shape (n_features,) is
        weights, a matrix of shape (n_features, n_inputs) a map: rows x become ``x A``.
    layer : estimator or FrozenEstimator, default=None
        A fitted tanh estimator, whose hidden layer is taken; parameters of the layer are not
        used then. To keep it fitted in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.
    readout : {"ridge", "softmax"}, default="ridge"
        "softmax" is multinomial logistic regression: see `RBFClassifier`.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the readout, as in scikit-learn: they multiply
        `sample_weight`.
    precision : {"auto", "float", 8, 15}, default="auto"
        Bits of an activation. With 8 or 15 it is rounded to steps of a power of two, in fit and
        predict alike, and sums of their products over rows without weights are exact. They have the
        same bits in whatever order rows come on the `device` "jit", but for sparse rows; elsewhere
        a few activations may be a step off. "float" keeps the activations as they are. "auto"
        takes 8 bits in large fits on GPUs and on processors that multiply bytes (VNNI, or `udot` of
        Arm), where the penalty is so large that rounding makes no difference; H'H takes a third of
        the time then (VNNI), on a GPU a twentieth. On a GPU it takes 15 bits else, with a sixth.
    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same model on every device.
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
    classes_ : ndarray of shape (n_classes,), or list of ndarray
    multilabel_ : bool
        As of `RBFClassifier`.
    components_ : ndarray of shape (n_hidden, n_features)
        Weights of the hidden units.
    hidden_intercept_ : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    feature_weights_ : ndarray of shape (n_features,) or None
        Weights of the features, each in one over the unit of its feature. None where the
        features count as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The diagonal of ``A @ A.T`` says how much each feature
        counts (a learned weight is its root); the eigenvectors of its largest eigenvalues are the
        combinations of features that count most. A learned map is square.
    readout_coef_ : ndarray of shape (n_classes, n_hidden) or (1, n_hidden)
    readout_intercept_ : ndarray of shape (n_classes,) or (1,)
    n_iter_ : int
        Steps of the softmax readout.
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    temperature_ : float or ndarray of shape (n_outputs,)
    search_results_ : dict of str to ndarray of shape (n_trials,)
        As for `RBFClassifier`.
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    TanhRegressor : The same units, for numbers.
    TanhProjector : The hidden layer alone.
    RBFClassifier : Units on training rows, which can be named.
    HiddenSizeSearchCV : Finds the number of units.

    References
    ----------
    .. [1] G.-B. Huang, Q.-Y. Zhu, C.-K. Siew, "Extreme learning machine: theory and
       applications", Neurocomputing 70 (2006).
    .. [2] A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
       backpropagation-free machine learning models", Science 383, 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import TanhClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = TanhClassifier(n_hidden=800, random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.97)
    True

    Sparse rows, as words give them, stay sparse:

    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> texts = ["a cat is furry", "my dog is furry and loud", "kittens are soft and furry"]
    >>> texts += ["an engine is steel", "this car is loud steel", "motors are made of steel"]
    >>> network = TanhClassifier(n_hidden=30, weights="class_informed", random_state=0)
    >>> model = make_pipeline(TfidfVectorizer(), network)
    >>> model = model.fit(texts, 3 * ["animal"] + 3 * ["machine"])
    >>> print(*model.predict(["a furry friend", "trains are steel"]))
    animal machine
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=N_HIDDEN, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, feature_weights="auto", layer=None, readout="ridge",
        alpha="auto", forgetting_factor=1.0, class_weight=None, precision="auto",
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden = n_hidden
        self.scale = scale
        self.weights = weights
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.bias = bias
        self.feature_weights = feature_weights
        self.layer = layer
        self.readout = readout
        self.alpha = alpha
        self.forgetting_factor = forgetting_factor
        self.class_weight = class_weight
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        readout = readout_of(self, OF_ANY_UNITS)
        return Parts(
            Tanh.from_estimator(self, has_readout=True), ClassTarget.from_estimator(self), readout
        )


# TanhRegressor: parameters and fitted attributes.


class TanhRegressor(NetworkRegressor):
    """Regressor with a hidden layer of random tanh units and a ridge readout.

    The layer is that of `TanhClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    n_hidden : int, default=1000
        Hidden units. With the same `random_state`, fewer are a prefix of more.
    scale : float or "auto", default="auto"
        Length of each unit's weights; of weights that are drawn from a normal distribution,
        their length on average. "auto" follows the number of rows and the number of directions
        in which they vary; the formula is in `TanhProjector`.
    weights : {"gaussian", "orthogonal"}, default="gaussian"
        Normal numbers, or the same with orthogonal directions within each group of
        n_features units.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. Each unit then sees a random
        rectangle, its receptive field. None for features that are no images.
    patch_size : (low, high), default=None
        Smallest and largest side of the rectangles. None is from a fifth to three fifths of
        the image's shorter side.
    bias : bool, default=True
        Biases are uniform, over the range that is in `TanhProjector`; without them, units
        bend at the mean row, or, where `scale` is a number, at 0.
    feature_weights : {"auto", "learned", "map"}, array-like of float or None, default="auto"
        How much each feature counts: the layer is made for rows that are multiplied by them,
        and `components_` contain them. "learned" finds them as `RBFRegressor` does, by small
        networks of Laplacian units, and uses them if they lower the held-out error there.
        "auto" learns them for floats of at most 500 features, from 50 rows or more. It leaves the
        features as they are for bytes, and with `image_shape`.
        "map" learns a linear map, of at most 500 features: the root of the average gradient
        outer product [1]_ of small networks of Laplacian units of Euclidean distances, round
        by round as long as that lowers the held-out error. An array of shape (n_features,) is
        weights, a matrix of shape (n_features, n_inputs) a map: rows x become ``x A``.
    layer : estimator or FrozenEstimator, default=None
        A fitted tanh estimator, whose hidden layer is taken; parameters of the layer are not
        used then. To keep it fitted in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.
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
        matrix, of n_hidden x n_hidden.
    precision : {"auto", "float", 8, 15}, default="auto"
        Bits of an activation. With 8 or 15 it is rounded to steps of a power of two, in fit and
        predict alike, and sums of their products over rows without weights are exact. They have the
        same bits in whatever order rows come on the `device` "jit", but for sparse rows; elsewhere
        a few activations may be a step off. "float" keeps the activations as they are. "auto"
        takes 8 bits in large fits on GPUs and on processors that multiply bytes (VNNI, or `udot` of
        Arm), where the penalty is so large that rounding makes no difference; H'H takes a third of
        the time then (VNNI), on a GPU a twentieth. On a GPU it takes 15 bits else, with a sixth.
    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same model on every device.
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
    components_ : ndarray of shape (n_hidden, n_features)
        Weights of the hidden units.
    hidden_intercept_ : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    feature_weights_ : ndarray of shape (n_features,) or None
        Weights of the features, each in one over the unit of its feature. None where the
        features count as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The diagonal of ``A @ A.T`` says how much each feature
        counts (a learned weight is its root); the eigenvectors of its largest eigenvalues are the
        combinations of features that count most. A learned map is square.
    readout_coef_ : ndarray of shape (n_outputs, n_hidden), float64
    readout_intercept_ : ndarray of shape (n_outputs,), float64
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    search_results_ : dict of str to ndarray of shape (n_trials,)
    posterior_ : tuple (root, mean, n, noise)
        As of `RBFRegressor`.
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    TanhClassifier : The same units, for classes.
    TanhProjector : The hidden layer alone.
    RBFRegressor : Units on training rows, which can be named.
    HiddenSizeSearchCV : Finds the number of units.

    References
    ----------
    .. [1] A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
       backpropagation-free machine learning models", Science 383, 2024.

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

    What counts may be a combination of features, and a learned map finds it:

    >>> X = np.random.default_rng(0).normal(size=(500, 10))
    >>> y = np.tanh(X @ np.r_[1, 2, -2, np.zeros(7)])
    >>> model = TanhRegressor(200, feature_weights="map", random_state=0).fit(X, y)
    >>> A = model.feature_map_
    >>> direction = np.linalg.eigh(A @ A.T)[1][:, -1]
    >>> print((direction / direction[0]).round().astype(int) + 0)
    [ 1  2 -2  0  0  0  0  0  0  0]
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=N_HIDDEN, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, feature_weights="auto", layer=None, alpha="auto",
        forgetting_factor=1.0, uncertainty=False, precision="auto", random_state=None,
        device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden = n_hidden
        self.scale = scale
        self.weights = weights
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.bias = bias
        self.feature_weights = feature_weights
        self.layer = layer
        self.alpha = alpha
        self.forgetting_factor = forgetting_factor
        self.uncertainty = uncertainty
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        units = Tanh.from_estimator(self, has_readout=True, ways=tuple(FROM_CHANCE))
        return Parts(units, NumericTarget.from_estimator(self), Ridge.from_estimator(self))


# TanhProjector: parameters and fitted attributes.


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
        return Parts(Tanh.from_estimator(self))
