"""Estimators for images, whose hidden units are patches of the training images."""

from ..hidden_layers.patches import Patches
from ..parts.composition import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from ..utils.docstrings import fill_docstring
from .classifier import NetworkClassifier
from .readouts import READOUTS_WITHOUT_CENTERS, Ridge, readout_of
from .regressor import NetworkRegressor
from .shared_docs import CLASSIFICATION, PATCH_UNITS, REGRESSION, SHARED
from .transformer import NetworkTransformer


@fill_docstring(SHARED, CLASSIFICATION, PATCH_UNITS)
class PatchClassifier(NetworkClassifier):
    """Classifier of images with a hidden layer of image patches and a linear readout.

    Each unit is a small patch of the training images. It is compared with the patches at all
    positions of an image, and its activations are averaged over the cells of a coarse grid [1]_,
    [2]_. The layer is not trained; the readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets, in one pass.

    Parameters
    ----------
    %(n_hidden)s
    %(image_shape)s
    %(patch_size)s
    %(stride)s
    %(pool)s
    %(kernel)s
    %(metric)s
    %(radius)s
    %(threshold)s
    %(contrast)s
    %(whitening)s
    %(selection)s
    %(readout)s
    %(alpha)s
    %(forgetting_factor)s
    %(class_weight)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    %(multilabel_)s
    %(components_)s
    %(patches_)s
    %(image_shape_)s
    %(pool_)s
    %(stride_)s
    %(radius_)s
    %(whitening_)s
    %(shift_)s
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
    %(drift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PatchRegressor : The regression version.
    PatchProjector : The hidden layer as a transformer.
    TanhClassifier : A faster model with random receptive fields.
    sklearn_fsvc.images.augmented : Data augmentation by shifts and reflections.

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

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=400, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", readout="ridge", alpha="auto",
        forgetting_factor=1.0, class_weight=None, random_state=None, device="auto",
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
        self.readout = readout
        self.alpha = alpha
        self.forgetting_factor = forgetting_factor
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        readout = readout_of(self, READOUTS_WITHOUT_CENTERS)
        return Parts(Patches.from_estimator(self), ClassTarget.from_estimator(self), readout)


@fill_docstring(SHARED, PATCH_UNITS, REGRESSION)
class PatchRegressor(NetworkRegressor):
    """Regressor of images with a hidden layer of image patches and a ridge readout.

    The layer is that of `PatchClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, for all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    %(n_hidden)s
    %(image_shape)s
    %(patch_size)s
    %(stride)s
    %(pool)s
    %(kernel)s
    %(metric)s
    %(radius)s
    %(threshold)s
    %(contrast)s
    %(whitening)s
    %(selection)s
    %(alpha)s
    %(forgetting_factor)s
    %(uncertainty)s
    %(target_transform)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(components_)s
    %(patches_)s
    %(image_shape_)s
    %(pool_)s
    %(stride_)s
    %(radius_)s
    %(whitening_)s
    %(shift_)s
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
    %(drift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PatchClassifier : The classification version.
    PatchProjector : The hidden layer as a transformer.
    TanhRegressor : A faster model with random receptive fields.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import PatchRegressor
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PatchRegressor(50, random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.7)
    True
    """

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=400, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", alpha="auto",
        forgetting_factor=1.0, uncertainty=False, target_transform=None, random_state=None,
        device="auto", max_memory=None, verbose=0,
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
        self.forgetting_factor = forgetting_factor
        self.uncertainty = uncertainty
        self.target_transform = target_transform
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        return Parts(
            Patches.from_estimator(self),
            NumericTarget.from_estimator(self),
            Ridge.from_estimator(self),
        )


@fill_docstring(SHARED, PATCH_UNITS)
class PatchProjector(NetworkTransformer):
    """Compute how strongly patches of the training images occur in each part of an image.

    Each unit is a small patch of the training images. It is compared with the patches at all
    positions of an image, and its activations are averaged over the cells of a coarse grid [1]_,
    [2]_.

    Parameters
    ----------
    n_components : int, default=100
        Number of hidden units. H has a column for each unit and cell of the pooling grid, two with
        the soft threshold; the columns of a unit are adjacent.
    %(image_shape)s
    %(patch_size)s
    %(stride)s
    %(pool)s
    %(kernel)s
    %(metric)s
    %(radius)s
    %(threshold)s
    %(contrast)s
    %(whitening)s
    %(selection)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(components_)s
    %(patches_)s
    %(image_shape_)s
    %(pool_)s
    %(stride_)s
    %(radius_)s
    %(whitening_)s
    %(shift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PatchClassifier : The same layer with a readout for classification.
    PatchRegressor : The same layer with a readout for regression.
    TanhProjector : Faster features with random receptive fields.

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

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_components=100, *, image_shape=None, patch_size=None, stride=1, pool=4,
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

    def _parts(self):
        return Parts(Patches.from_estimator(self))
