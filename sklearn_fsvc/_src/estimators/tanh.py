"""Estimators with tanh units that have random weights."""

from ..hidden_layers.tanh import RANDOM_WEIGHTS, Tanh
from ..parts.composition import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from ..utils.docstrings import fill_docstring
from .classifier import NetworkClassifier
from .readouts import READOUTS_WITHOUT_CENTERS, Ridge, readout_of
from .regressor import NetworkRegressor
from .shared_docs import CLASSIFICATION, REGRESSION, SHARED, TANH_UNITS, TRANSFORM
from .transformer import NetworkTransformer


@fill_docstring(SHARED, CLASSIFICATION, TANH_UNITS)
class TanhClassifier(NetworkClassifier):
    """Classifier with a hidden layer of random tanh units and a linear readout.

    The layer is ``H[i, j] = tanh(x_i . w_j + b_j)`` with random weights that are not
    trained, known as an extreme learning machine [1]_ or a random-feature network. The
    readout minimises ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets, in one pass.

    Parameters
    ----------
    %(n_hidden)s
    %(scale)s
    weights : {"gaussian", "orthogonal", "class_informed", "constrained"}, default="gaussian"
        Distribution of the weights: normal, normal with orthogonal directions, sums of the
        samples of a class, or differences of two samples of different classes; `TanhProjector`
        describes them. The last two require one class per sample.
    %(image_shape)s
    %(patch_size)s
    %(bias)s
    %(feature_weights)s
    %(layer)s
    %(readout)s
    %(alpha)s
    %(forgetting_factor)s
    %(class_weight)s
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    %(multilabel_)s
    %(components_)s
    %(hidden_intercept_)s
    %(feature_weights_)s
    %(feature_map_)s
    %(feature_importances_)s
    %(readout_coef_)s
    %(readout_intercept_)s
    %(n_iter_)s
    %(alpha_)s
    %(mean_weight_)s
    %(alphas_)s
    %(temperature_)s
    %(score_scale_)s
    %(matrix_scaling_)s
    %(conformity_scores_)s
    %(search_results_)s
    %(precision_)s
    %(drift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    TanhRegressor : The regression version.
    TanhProjector : The hidden layer as a transformer.
    RBFClassifier : Units centred at training samples, which `explain` lists.
    HiddenSizeSearchCV : Search for the number of units.

    Notes
    -----
    If there are few samples per feature, `fit` compares random units with almost linear units. The
    weights of these are orthogonal directions in the span of the samples, so that the model is
    close to `sklearn.linear_model.RidgeClassifier` or `Ridge`. There are two cases:

    - At least 30 samples, and more features than samples: random units approximate the inner
      products of samples poorly. They are used only if their validation error is at least
      5 percent lower.
    - In regression, at least 100 samples, and fewer than four for each feature: linear units are
      used only if their validation error is at least 5 percent lower.

    Linear units are not tried if X is sparse, if `n_hidden` is less than both numbers (of samples
    and of features), if `weights`, `scale`, `bias` or `image_shape` is not the default, and in
    `partial_fit`.

    References
    ----------
    .. [1] G.-B. Huang, Q.-Y. Zhu, C.-K. Siew, "Extreme learning machine: theory and
       applications", Neurocomputing 70 (2006).

    A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 383, 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import TanhClassifier
    >>> X, y = load_digits(n_class=5, return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = TanhClassifier(n_hidden=800, random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.98)
    True

    Sparse data, such as bag-of-words features, stays sparse:

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

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=2000, *, scale="auto", weights="gaussian", image_shape=None,
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
        readout = readout_of(self, READOUTS_WITHOUT_CENTERS)
        return Parts(
            Tanh.from_estimator(self, has_readout=True), ClassTarget.from_estimator(self), readout
        )


@fill_docstring(SHARED, REGRESSION, TANH_UNITS)
class TanhRegressor(NetworkRegressor):
    """Regressor with a hidden layer of random tanh units and a ridge readout.

    The layer is that of `TanhClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, for all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    %(n_hidden)s
    %(scale)s
    weights : {"gaussian", "orthogonal"}, default="gaussian"
        Distribution of the weights: normal, or normal with orthogonal directions within each group
        of n_features units.
    %(image_shape)s
    %(patch_size)s
    %(bias)s
    %(feature_weights)s
    %(layer)s
    %(alpha)s
    %(forgetting_factor)s
    %(uncertainty)s
    %(target_transform)s
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(components_)s
    %(hidden_intercept_)s
    %(feature_weights_)s
    %(feature_map_)s
    %(feature_importances_)s
    %(readout_coef_)s
    %(readout_intercept_)s
    %(target_mean_)s
    %(target_transformer_)s
    %(smearing_)s
    %(residual_distribution_)s
    %(alpha_)s
    %(mean_weight_)s
    %(alphas_)s
    %(search_results_)s
    %(posterior_)s
    %(precision_)s
    %(drift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    TanhClassifier : The classification version.
    TanhProjector : The hidden layer as a transformer.
    RBFRegressor : Units centred at training samples, which explain predictions.
    HiddenSizeSearchCV : Search for the number of units.

    References
    ----------
    A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
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

    A learned map finds a linear combination of features that determines the target:

    >>> X = np.random.default_rng(0).normal(size=(500, 10))
    >>> y = np.tanh(X @ np.r_[1, 2, -2, np.zeros(7)])
    >>> model = TanhRegressor(200, feature_weights="map", random_state=0).fit(X, y)
    >>> A = model.feature_map_
    >>> direction = np.linalg.eigh(A @ A.T)[1][:, -1]
    >>> print((direction / direction[0]).round().astype(int) + 0)
    [ 1  2 -2  0  0  0  0  0  0  0]
    """

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=2000, *, scale="auto", weights="gaussian", image_shape=None,
        patch_size=None, bias=True, feature_weights="auto", layer=None, alpha="auto",
        forgetting_factor=1.0, uncertainty=False, target_transform=None,
        precision="auto", random_state=None, device="auto", max_memory=None, verbose=0,
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
        self.target_transform = target_transform
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        units = Tanh.from_estimator(self, has_readout=True, valid_weights=tuple(RANDOM_WEIGHTS))
        return Parts(units, NumericTarget.from_estimator(self), Ridge.from_estimator(self))


@fill_docstring(SHARED, TRANSFORM, TANH_UNITS)
class TanhProjector(NetworkTransformer):
    """Compute random tanh features, ``H = tanh(X W' + b)``, as a transformer.

    Parameters
    ----------
    n_components : int, default=100
        Number of hidden units. With the same `random_state`, the units of a smaller layer are the
        first ones of a larger layer.
    scale : float or "auto", default="auto"
        A number is the length of the weight vector of each unit; of normally distributed weights,
        the expected length. It is the standard deviation of ``x . w`` for independent features of
        unit variance. "auto" centres X by the biases, and selects the length such that ``x . w``
        has a standard deviation of ``0.39 N ** (1 / (d + 4))``, for N samples (the sum of their
        weights) that vary in d directions (the participation ratio of their variances). That is
        Scott's rule for the bandwidth of kernels [1]_, and invariant to the unit and the offset of
        X. It is estimated from at most 1000 samples, without outliers: those 30 times as far from
        the median sample as the median distance.
    weights : {"gaussian", "orthogonal", "class_informed", "constrained"}, default="gaussian"
        Orthogonal weights are Gaussian weights with orthogonal directions within each group
        of n_features units [2]_. Class-informed weights are sums of all training samples of
        one class, minus the mean and with random signs; the units cycle through the
        classes [3]_. Constrained weights are differences of two random training samples of
        different classes [4]_. The last two require `y` in fit.
    %(image_shape)s
    %(patch_size)s
    bias : bool, default=True
        Whether units have random biases: uniform in [-1, 1], and with ``scale="auto"`` within
        +-2.5 of the standard deviations above, if that is more, so that the inflection points
        of the units cover the data. If False, biases are 0; with ``scale="auto"`` they centre X.
    feature_weights : {"learned", "refined", "map"}, array-like of float or None, default=None
        Relevance of each feature: the layer is that of samples that are multiplied by the weights,
        and `components_` contain them. None needs no `y`, as is usual for a transformer. "learned"
        and "refined" weights and a "map" are learned as in `TanhClassifier`, and require class
        labels as `y` in fit. An array of shape (n_features,) contains weights, a matrix of shape
        (n_features, n_inputs) is a map: samples x become ``x A``.
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The weights W.
    hidden_intercept_ : ndarray of shape (n_components,)
        The biases b.
    %(feature_weights_)s
    %(feature_map_)s
    %(feature_importances_)s
    %(precision_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    TanhClassifier : The same layer with a readout for classification.
    TanhRegressor : The same layer with a readout for regression.
    RBFProjector : Units centred at training samples.

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

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_components=100, *, scale="auto", weights="gaussian", image_shape=None,
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
