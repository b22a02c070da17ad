"""PatchClassifier: parameters and fitted attributes."""

from ..hidden_layers.defaults import N_COMPONENTS, N_PATCHES
from ..hidden_layers.patches import Patches
from ..parts import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from .classifier import NetworkClassifier
from .readouts import OF_ANY_UNITS, Ridge, readout_of
from .regressor import NetworkRegressor
from .transformer import NetworkTransformer


class PatchClassifier(NetworkClassifier):
    """Classifier of images, with a hidden layer of units that are patches, and a ridge readout.

    Each unit is a small patch of the training images. It is compared with the patches in all
    places of an image, and its activations are averaged over the cells of a coarse grid [1]_,
    [2]_. Nothing in the layer is trained; the readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets, in one pass.

    Parameters
    ----------
    n_hidden : int, default=400
        Hidden units. With the soft threshold and the same `random_state`, fewer are a prefix of
        more. The layer has as many outputs as units times cells of the pool, with the soft
        threshold twice as many; their number sets the time and the memory of the readout.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. None takes square images of
        one channel where the number of features is 16, 25, 36 or a larger square. Any other
        number of features up to 64 is no image: each row is one patch, and nothing is averaged.
        With more features `image_shape` is needed.
    patch_size : int or (height, width), default=None
        Side or sides of the patches. None is a quarter of the image's shorter side, from 3 to 8.
    stride : int, default=1
        Pixels from one place of a patch to the next, down and across.
    pool : int or (down, across), default=4
        Cells of the grid on each side, over which activations are averaged. There are never
        more cells than places.
    kernel : {"soft_threshold", "below_mean", "triangular", "gaussian", "laplacian", \
"powered_exponential"} or Kernel, default="soft_threshold"
        "soft_threshold" has two outputs, ``max(0, a - t)`` and ``max(0, -a - t)`` for the
        product a of a patch and a unit of length 1. "below_mean" is ``max(0, m - d)`` for the
        distance d and its mean m over the units. The others are those of `RBFProjector`.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="euclidean"
        Distance between patches and units, for the kernels of distances.
    radius : float or "auto", default="auto"
        Width of the kernels that have one. "auto" follows the median distance between patches.
    threshold : float, default=0.5
        The threshold t, as a multiple of the root mean square of a, over patches that are not
        flat.
    contrast : bool or "auto", default="auto"
        Whether to normalise patches: subtract the mean of each patch, and divide by
        ``sqrt(variance + floor)``, where the floor is a hundredth of the mean variance of
        patches. "auto" does so unless images have only one row.
    whitening : float or None, default=0.3
        How strongly the whitening (ZCA) of patches is damped: this part of the mean eigenvalue
        of their covariance is added to each eigenvalue. None does not whiten.
    selection : {"random", "global"}, default="random"
        Units are random patches that are not flat, or those among them that are novel, as for
        `RBFProjector`.
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
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same ones on every device.
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
    components_, patches_, image_shape_, pool_, radius_, threshold_, floor_, whitening_, shift_
        As of `PatchProjector`.
    readout_coef_ : ndarray of shape (n_classes, n_outputs) or (1, n_outputs)
        For the outputs of the layer: those of the first unit, then of the second.
    readout_intercept_ : ndarray of shape (n_classes,) or (1,)
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    temperature_ : float or ndarray of shape (n_outputs,)
    search_results_ : dict of str to ndarray of shape (n_trials,)
        As for `RBFClassifier`.
    device_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    PatchRegressor : The same units, for numbers.
    PatchProjector : The hidden layer alone.
    TanhClassifier : Quicker, with receptive fields.
    sklearn_fsvc.images.augmented : Images that are shifted and mirrored.

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

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=N_PATCHES, *, image_shape=None, patch_size=None, stride=1, pool=4,
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
        readout = readout_of(self, OF_ANY_UNITS)
        return Parts(Patches.from_estimator(self), ClassTarget.from_estimator(self), readout)


# PatchRegressor: parameters and fitted attributes.


class PatchRegressor(NetworkRegressor):
    """Regressor of images, with a hidden layer of units that are patches, and a ridge readout.

    The layer is that of `PatchClassifier`. The readout minimises
    ``sum w |y - W h - b|^2 + alpha |W|^2``, all outputs at once, where each output is divided
    by its standard deviation.

    Parameters
    ----------
    n_hidden : int, default=400
        Hidden units. With the soft threshold and the same `random_state`, fewer are a prefix of
        more. The layer has as many outputs as units times cells of the pool, with the soft
        threshold twice as many; their number sets the time and the memory of the readout.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. None takes square images of
        one channel where the number of features is 16, 25, 36 or a larger square. Any other
        number of features up to 64 is no image: each row is one patch, and nothing is averaged.
        With more features `image_shape` is needed.
    patch_size : int or (height, width), default=None
        Side or sides of the patches. None is a quarter of the image's shorter side, from 3 to 8.
    stride : int, default=1
        Pixels from one place of a patch to the next, down and across.
    pool : int or (down, across), default=4
        Cells of the grid on each side, over which activations are averaged. There are never
        more cells than places.
    kernel : {"soft_threshold", "below_mean", "triangular", "gaussian", "laplacian", \
"powered_exponential"} or Kernel, default="soft_threshold"
        "soft_threshold" has two outputs, ``max(0, a - t)`` and ``max(0, -a - t)`` for the
        product a of a patch and a unit of length 1. "below_mean" is ``max(0, m - d)`` for the
        distance d and its mean m over the units. The others are those of `RBFProjector`.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="euclidean"
        Distance between patches and units, for the kernels of distances.
    radius : float or "auto", default="auto"
        Width of the kernels that have one. "auto" follows the median distance between patches.
    threshold : float, default=0.5
        The threshold t, as a multiple of the root mean square of a, over patches that are not
        flat.
    contrast : bool or "auto", default="auto"
        Whether to normalise patches: subtract the mean of each patch, and divide by
        ``sqrt(variance + floor)``, where the floor is a hundredth of the mean variance of
        patches. "auto" does so unless images have only one row.
    whitening : float or None, default=0.3
        How strongly the whitening (ZCA) of patches is damped: this part of the mean eigenvalue
        of their covariance is added to each eigenvalue. None does not whiten.
    selection : {"random", "global"}, default="random"
        Units are random patches that are not flat, or those among them that are novel, as for
        `RBFProjector`.
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
        the rows, two with ``alpha="auto"`` and none with "loo", and the model keeps a square
        matrix of as many rows as the layer has outputs.
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same ones on every device.
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
    components_, patches_, image_shape_, pool_, radius_, threshold_, floor_, whitening_, shift_
        As of `PatchProjector`.
    readout_coef_ : ndarray of shape (n_outputs, n_hidden_outputs), float64
    readout_intercept_ : ndarray of shape (n_outputs,), float64
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
    alpha_ : float
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
    search_results_ : dict of str to ndarray of shape (n_trials,)
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

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=N_PATCHES, *, image_shape=None, patch_size=None, stride=1, pool=4,
        kernel="soft_threshold", metric="euclidean", radius="auto", threshold=0.5,
        contrast="auto", whitening=0.3, selection="random", alpha="auto",
        forgetting_factor=1.0, uncertainty=False, random_state=None, device="auto", max_memory=None,
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
        self.forgetting_factor = forgetting_factor
        self.uncertainty = uncertainty
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


# PatchProjector: parameters and fitted attributes.


class PatchProjector(NetworkTransformer):
    """Compute how strongly small patches of training images occur in each part of an image.

    Each unit is a patch of the training images. It is compared with the patches in all places
    of an image, and its activations are averaged over the cells of a coarse grid [1]_, [2]_.

    Parameters
    ----------
    n_components : int, default=100
        Hidden units. There are as many outputs as units times cells of the pool, with the soft
        threshold twice as many: those of the first unit, then of the second.
    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images that rows of X are, channels last. None takes square images of
        one channel where the number of features is 16, 25, 36 or a larger square. Any other
        number of features up to 64 is no image: each row is one patch, and nothing is averaged.
        With more features `image_shape` is needed.
    patch_size : int or (height, width), default=None
        Side or sides of the patches. None is a quarter of the image's shorter side, from 3 to 8.
    stride : int, default=1
        Pixels from one place of a patch to the next, down and across.
    pool : int or (down, across), default=4
        Cells of the grid on each side, over which activations are averaged. There are never
        more cells than places.
    kernel : {"soft_threshold", "below_mean", "triangular", "gaussian", "laplacian", \
"powered_exponential"} or Kernel, default="soft_threshold"
        "soft_threshold" has two outputs, ``max(0, a - t)`` and ``max(0, -a - t)`` for the
        product a of a patch and a unit of length 1. "below_mean" is ``max(0, m - d)`` for the
        distance d and its mean m over the units. The others are those of `RBFProjector`.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="euclidean"
        Distance between patches and units, for the kernels of distances.
    radius : float or "auto", default="auto"
        Width of the kernels that have one. "auto" follows the median distance between patches.
    threshold : float, default=0.5
        The threshold t, as a multiple of the root mean square of a, over patches that are not
        flat.
    contrast : bool or "auto", default="auto"
        Whether to normalise patches: subtract the mean of each patch, and divide by
        ``sqrt(variance + floor)``, where the floor is a hundredth of the mean variance of
        patches. "auto" does so unless images have only one row.
    whitening : float or None, default=0.3
        How strongly the whitening (ZCA) of patches is damped: this part of the mean eigenvalue
        of their covariance is added to each eigenvalue. None does not whiten.
    selection : {"random", "global"}, default="random"
        Units are random patches that are not flat, or those among them that are novel, as for
        `RBFProjector`.
    random_state : int, RandomState or None, default=None
        Seed of the patches; the same seed gives the same ones on every device.
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
    components_ : ndarray of shape (n_units, n_inputs)
        The units as patches meet them: normalised and whitened; for the soft threshold, of
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

    See Also
    --------
    PatchClassifier : The same layer with a readout for classes.
    PatchRegressor : The same layer with a readout for numbers.
    TanhProjector : Quicker, with receptive fields.

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

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

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

    def _parts(self):
        return Parts(Patches.from_estimator(self))
