"""RBFProjector and TanhProjector: validate, choose the layer, stream H out."""

from abc import abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .engines import get_engine
from .layers import RBFLayer, TanhLayer
from .parameters import check_count, unchanged_on_error
from .rows.streaming import compute_dtype, keep_rows, n_synapses, stream
from .rows.validation import check_rows, to_host
from .units import novelty as centers
from .units import weights


class _Projector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A hidden layer as a transformer: rows of X to rows of H."""

    @abstractmethod
    def _check_parameters(self):
        """Raise for a constructor parameter that cannot be used."""

    @abstractmethod
    def _choose_layer(self, engine, X, y):
        """Set the fitted attributes that describe the hidden layer."""

    @abstractmethod
    def _layer(self):
        """The layer that the fitted attributes describe."""

    def fit(self, X, y=None):
        """Choose the hidden layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
        y : array-like of shape (n_samples,), optional
            Class labels, where the choice of the layer uses them.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self._check_parameters()
            with get_engine(self.device, n_synapses(X, self.n_components)) as engine:
                X = check_rows(self, engine, X, reset=True)
                self._choose_layer(engine, X, to_host(y))
                self.device_ = engine.name
        return self

    def transform(self, X):
        """The hidden layer's output for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
            float64 if X or the layer is, else float32. A CuPy array where X is on a GPU,
            else a NumPy array. Beside H itself, `max_memory` bounds what is allocated
            where H is computed.
        """
        check_is_fitted(self)
        layer = self._layer()
        with get_engine(self.device, n_synapses(X, layer.n_units)) as engine:
            X = check_rows(self, engine, X, reset=False)
            layer = layer.astype(compute_dtype(layer.units.dtype, X.dtype))
            xp = np if isinstance(X, np.ndarray) else engine.xp
            result = xp.empty((len(X), layer.n_units), layer.hidden_dtype)
            stream(
                engine, layer, X, out=result, max_memory=self.max_memory,
                what=f"{type(self).__name__} transform", verbose=self.verbose,
            )  # fmt: skip
        return result

    @property
    def _n_features_out(self):
        return self._layer().n_units

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RBFProjector(_Projector):
    """The hidden layer of `RBFClassifier` as a transformer.

    ``H[i, j] = phi(d(x_i, c_j))`` with triangular or Gaussian units on novel rows of the
    training data.

    Parameters
    ----------
    n_components : int or None, default=100
        Largest number of units; None keeps every row that is novel at the selection
        radius.
    radius, selection_radius, overlap, metric, kernel, shuffle, random_state
        As for `RBFClassifier`.
    selection : {"global", "per_class", "random"}, default="global"
        "per_class" needs `y` in fit.
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    centers_ : ndarray of shape (n_units, n_features)
    support_ : ndarray of shape (n_units,)
        Row numbers of the centres in the training data.
    radius_, selection_radius_ : float
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
        self, n_components=100, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="manhattan", kernel="triangular", shuffle=True,
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_components = n_components
        self.radius = radius
        self.selection_radius = selection_radius
        self.overlap = overlap
        self.selection = selection
        self.metric = metric
        self.kernel = kernel
        self.shuffle = shuffle
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _check_parameters(self):
        centers.check_parameters(self, "n_components", ("global", "per_class", "random"))

    def _choose_layer(self, engine, X, y):
        groups = None
        if self.selection == "per_class":
            groups = _classes_of(X, y, 'selection="per_class"', '"global"')
        order = centers.presentation_order(len(X), None, self.shuffle, self.random_state)
        X, max_memory = keep_rows(engine, X, self.max_memory)
        layer, rows, self.selection_radius_ = centers.fit_layer(
            self, engine, X, order, groups, self.n_components, centers.AUTO_MEDIAN, max_memory
        )
        self.radius_, self.centers_, self.support_ = layer.radius, layer.units, rows

    def _layer(self):
        return RBFLayer(self.centers_, self.radius_, self.metric, self.kernel)


class TanhProjector(_Projector):
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
        the unit of X nor its offset matters. Measured on at most 1000 rows.
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
    device, max_memory, verbose
        As for `RBFClassifier`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W.
    intercept_ : ndarray of shape (n_components,)
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
        self, n_components=100, *, scale="auto", weights="gaussian", image_shape=None,
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

    def _check_parameters(self):
        check_count("n_components", self.n_components)
        weights.check_parameters(self)

    def _choose_layer(self, engine, X, y):
        codes, max_memory = None, self.max_memory
        if weights.needs_classes(self):
            codes = _classes_of(X, y, f"weights={self.weights!r}", '"gaussian" or "orthogonal"')
            X, max_memory = keep_rows(engine, X, max_memory)
        layer = weights.fit_layer(self, engine, X, codes, None, self.n_components, max_memory)
        self.components_, self.intercept_ = layer.units, layer.bias

    def _layer(self):
        return TanhLayer(self.components_, self.intercept_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = weights.needs_classes(self)
        return tags


def _classes_of(X, y, why, otherwise):
    """Class codes of the rows of X, for a choice of the layer that needs them."""
    if y is None:
        raise ValueError(
            f"{why} requires y to be passed, but the target y is None; pass the classes of the "
            f"rows, or use {otherwise}."
        )
    y = column_or_1d(y)
    check_consistent_length(range(len(X)), y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    return np.unique(y, return_inverse=True)[1]
