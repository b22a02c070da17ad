"""Estimators with RBF units, centred at selected training samples."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..hidden_layers.rbf import RBF
from ..parts.composition import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from ..utils.docstrings import fill_docstring
from .classifier import NetworkClassifier
from .explanation import ExplainMixin
from .partial_fit import SolvedAttribute
from .readouts import Ridge, readout_of
from .regressor import NetworkRegressor
from .shared_docs import CLASSIFICATION, RBF_UNITS, REGRESSION, SHARED, TRANSFORM
from .transformer import NetworkTransformer


@fill_docstring(SHARED, CLASSIFICATION, RBF_UNITS)
class RBFClassifier(ExplainMixin, NetworkClassifier):
    """Classifier with a hidden layer of RBF units, centred at selected training samples.

    The layer is ``H[i, j] = phi(d(x_i, c_j))`` with the triangular kernel
    ``phi(d) = max(0, 1 - d / (2.5066 radius))``, the Gaussian
    ``phi(d) = exp(-d^2 / (2 radius^2))``, the Laplacian ``phi(d) = exp(-d / radius)`` or
    the powered exponential ``phi(d) = exp(-(d / radius)^0.7)``.
    The centres ``c_j`` are training samples, selected for their novelty: in the order of
    presentation, a sample becomes a centre if its activations over the centres selected so far
    sum to less than `overlap` [1]_. The layer is not trained; the readout is linear.

    Parameters
    ----------
    %(n_hidden)s
    radius : float or "auto", default="auto"
        Width of the units, in units of the distance. "auto" minimises the validation error: a few
        multiples of the median distance between samples are tried, then narrower or wider
        units as long as the error decreases (see Notes). With the readouts "lms" and "none" it is
        the selection radius instead, and with ``n_hidden=None`` the radius at which a quarter of
        the samples are novel.
    %(selection_radius)s
    %(overlap)s
    selection : {"per_class", "global", "random"}, default="per_class"
        Novelty selection within each class, novelty selection over all samples, or `n_hidden`
        random samples. With several outputs, "per_class" is "global".
    %(metric)s
    kernel : {"auto", %(kernels)s} or Kernel, default="auto"
        One of the formulas above, or a custom `sklearn_fsvc.kernels.Kernel`. "auto" is the
        Laplacian or the triangular kernel, whichever has the lower validation error, or the
        Gaussian kernel (see `metric`). With the readouts "lms" and "none" it is the triangular
        kernel. With "auto", centres are selected with the triangular kernel.
    feature_weights : {"auto", "learned", "refined", "map"}, array-like of float or None, \
            default="auto"
        Samples are multiplied by the weights, feature by feature, before distances are computed.

        - "auto": "learned", or a linear map that continues these weights, if its validation error
          is clearly lower and `kernel`, `metric`, `radius` and `precision` are not set; None if X
          is an array of uint8, and with the readouts "lms" and "none".
        - "learned": the weights with the lowest validation error: equal weights, those that give
          the features equal standard deviations, the root mean squared gradients of a small
          network with respect to each feature, iterated three times [2]_, or refined weights, which
          must reduce the error clearly.
        - "refined": weights that minimise the leave-one-out error of Laplacian units [3]_, whatever
          their validation error. With fewer than 12 samples per feature, more than 300 features,
          or more than 100 classes, it is "learned".
        - "map": a linear map, of at most 500 features, that continues "learned" weights: the square
          root of the average gradient outer product [2]_, whose diagonal has the squares of the
          weights from gradients. It is used if it lowers the validation error, and suits targets
          that depend on linear combinations of features, best with ``metric="euclidean"``.
        - An array: the weights, or a map of shape (n_features, n_inputs): samples x become
          ``x A``.
        - None: no weights.
    %(layer)s
    readout : {"ridge", "softmax", "lms", "none"}, default="ridge"
        "ridge" minimises ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets.
        "softmax" minimises ``sum w log-loss + alpha / 2 |W|^2``: multinomial logistic regression,
        with a log-loss for each of several outputs or labels. Its decision values are logits. It
        takes about 10 passes over the data, where "ridge" takes one.
        "lms" (least mean squares) starts from the untrained readout and updates it sample by
        sample, ``W += learning_rate * (y - W h) h'``, in the order of presentation. "none" is the
        untrained readout: the score of a class is the sum of the activations of its centres.
    %(alpha)s
    %(forgetting_factor)s
    learning_rate : float or "auto", default="auto"
        Learning rate of "lms". "auto" is 1/16, or ``1 / max w |h|^2`` over the training samples if
        that is smaller; learning rates above twice the latter may diverge.
    max_iter : int, default=10
        Number of passes of "lms" over the samples; there is no early stopping.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the readout, as in scikit-learn: they multiply
        `sample_weight`, and in the untrained readout the activations of their centres.
    %(shuffle)s
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    %(multilabel_)s
    %(centers_)s
    center_labels_ : ndarray of shape (n_units,) or (n_units, n_outputs)
        Classes of the centres. Like `support_`, it does not exist with `layer`.
    %(support_)s
    n_support_ : ndarray of shape (n_classes,)
        Number of centres of each class; only for a single output.
    %(radius_)s
    %(metric_)s
    %(kernel_)s
    %(feature_weights_)s
    %(feature_map_)s
    %(feature_importances_)s
    %(search_results_)s
    %(readout_coef_)s
    %(readout_intercept_)s
    alpha_ : float
        The penalty of the readout; only with the readouts "ridge" and "softmax".
    %(mean_weight_)s
    %(alphas_)s
    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are the softmax of logits divided by the temperature; 1 with
        ``readout="softmax"``, and missing with "lms" and "none".
    %(score_scale_)s
    %(matrix_scaling_)s
    %(conformity_scores_)s
    n_iter_ : int
        Passes of "lms" over the data, or iterations of "softmax"; 1 with the other readouts.
    %(precision_)s
    %(drift_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    RBFRegressor : The regression version.
    RBFProjector : The hidden layer as a transformer.
    TanhClassifier : Random weights instead of centres.
    HiddenSizeSearchCV : Search for the number of units.

    Notes
    -----
    A triangular unit covers samples up to 2.5066 radii from its centre. A sample that no unit
    covers has no activation, and gets the class of the nearest centre. With the readouts "lms" and
    "none" the score of that class is 1 and that of others 0 (the single score of two classes is
    1 or -1); this includes samples at which another kernel underflows to 0. With "ridge" and
    "softmax" such targets t are shrunk to the intercept b, ``b + (t - b) / (1 + alpha)``, as a
    ridge shrinks the target of a sample that alone activates a unit; alpha is `alpha_`, divided by
    `mean_weight_` if there is one. Leave-one-out scores, which select the penalty and calibrate
    probabilities, are computed alike: a sample that no other unit than its own covers has the score
    of the nearest other unit. The classes of the centres of `layer` are unknown; the scores of an
    uncovered sample are the intercepts then, as they are if a kernel without compact support
    underflows to 0.

    Hyperparameters that are "auto" are selected with small networks on at most 6000 samples, a
    sixth of which is held out: first the feature weights, then kernel and radius jointly, then the
    metric, each with its best penalty. These networks have a quarter of the samples as units, at
    most 450 for up to 4000 samples and at most 800 for more. If Gaussian units of Euclidean
    distances have a lower error, larger networks decide the metric, with half as many units as
    samples, at most 1000. Networks that select the kernel, the radius and the metric never have
    more units than `n_hidden`. The penalty of the network itself is selected last, see `alpha`; for
    more than 1000 units, and on validation sets, the first half of the units is evaluated.

    The programs of the authors of [1]_ are ``readout="lms"`` (FSVC, with
    ``selection="global"``), ``readout="none", selection="global"`` (FSVC-NT) and
    ``readout="none", selection="per_class", metric="sqeuclidean"`` (SFSVC).

    References
    ----------
    .. [1] R. Dogaru, I. Dogaru, "Optimization of GPU and CPU acceleration for neural
       networks layers implemented in Python", ISEEE 2017,
       doi:10.1109/ISEEE.2017.8170680.
    .. [2] A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
       backpropagation-free machine learning models", Science 383 (2024); weights are the
       diagonal alone, as in D. Beaglehole et al., "xRFM", arXiv:2508.10053 (2025).
    .. [3] G. C. Cawley, N. L. C. Talbot, "Preventing over-fitting during model selection via
       Bayesian regularisation of the hyper-parameters", Journal of Machine Learning Research 8
       (2007) 841-861.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import RBFClassifier
    >>> X, y = load_digits(n_class=5, return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = RBFClassifier(random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.98)
    True

    The search history is an attribute:

    >>> tuple(clf.search_results_)
    ('metric', 'kernel', 'radius', 'weighted', 'n_units', 'alpha', 'error')
    """

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=None, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="per_class", metric="auto", kernel="auto", feature_weights="auto",
        layer=None, readout="ridge", alpha="auto", forgetting_factor=1.0,
        learning_rate="auto", max_iter=10, class_weight=None, shuffle=True, precision="auto",
        random_state=None, device="auto", max_memory=None, verbose=0,
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
        self.readout = readout
        self.alpha = alpha
        self.forgetting_factor = forgetting_factor
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.shuffle = shuffle
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        readout = readout_of(self)
        units = RBF.from_estimator(self, has_readout=True, allow_search=readout.fits_units)
        return Parts(units, ClassTarget.from_estimator(self), readout)

    n_iter_ = SolvedAttribute()

    @property
    def n_support_(self):
        check_is_fitted(self)
        parts = self._parts()
        if not parts.target.labels.is_single:
            raise AttributeError("n_support_ counts the centres of each class of one output.")
        targets = parts.target.targets_of(self.center_labels_)
        return np.bincount(targets.class_codes, minlength=targets.n_outputs)


@fill_docstring(SHARED, REGRESSION, RBF_UNITS)
class RBFRegressor(ExplainMixin, NetworkRegressor):
    """Regressor with a hidden layer of RBF units, centred at selected training samples.

    The layer is that of `RBFClassifier`; y is not used for the selection of its centres. The
    readout minimises ``sum w |y - W h - b|^2 + alpha |W|^2``, for all outputs at once, where
    each output is divided by its standard deviation.

    Parameters
    ----------
    %(n_hidden)s
    radius : float or "auto", default="auto"
        Width of the units, in units of the distance. "auto" minimises the validation error: a few
        multiples of the median distance between samples are tried, then narrower or wider
        units as long as the error decreases.
    %(selection_radius)s
    %(overlap)s
    selection : {"global", "random"}, default="global"
        Novelty selection over all samples, or `n_hidden` random samples.
    %(metric)s
    kernel : {"auto", %(kernels)s} or Kernel, default="auto"
        Kernel of the units (`RBFClassifier` has the formulas), or a custom
        `sklearn_fsvc.kernels.Kernel`. "auto" is the Laplacian or the triangular kernel,
        whichever has the lower validation error, or the Gaussian kernel (see `metric`).
    feature_weights : {"auto", "learned", "refined", "map"}, array-like of float or None, \
            default="auto"
        Samples are multiplied by the weights, feature by feature, before distances are computed.
        "learned" weights are learned by small networks, as in `RBFClassifier`, and used if they
        lower the validation error; "refined" ones minimise a leave-one-out error, whatever the
        validation error. "map" learns a linear map, of at most 500 features. "auto" is "learned",
        or a linear map that continues these weights, if its validation error is clearly lower; None
        if X is an array of uint8. A matrix of shape (n_features, n_inputs) is a map: samples x
        become ``x A``.
    %(layer)s
    %(alpha)s
    %(forgetting_factor)s
    %(uncertainty)s
    %(target_transform)s
    %(shuffle)s
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(centers_)s
    center_targets_ : ndarray of shape (n_units,) or (n_units, n_outputs)
        Targets of the centres. Like `support_`, it does not exist with `layer`.
    %(support_)s
    %(radius_)s
    %(metric_)s
    %(kernel_)s
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
    RBFClassifier : The classification version.
    RBFProjector : The hidden layer as a transformer.
    TanhRegressor : Random weights instead of centres.
    HiddenSizeSearchCV : Search for the number of units.

    Notes
    -----
    The prediction for a sample that no unit covers is the intercept. A triangular unit covers
    samples up to 2.5066 radii from its centre. Other kernels decay: the activations of very distant
    samples underflow to 0.

    The standard deviation of a prediction is that of a Bayesian linear model of the hidden
    layer [1]_, ``noise sqrt(1 + 1 / n + |(h - mean) root|^2)``, where ``root root'`` is the
    inverse of the matrix of the ridge equations. ``noise^2`` is the sum over samples of
    ``w (1 - s) e^2``, divided by that of ``w (1 - s)^2``, for residuals e and leverages s, without
    the unit of which the sample is the centre. So leave-one-out residuals ``e / (1 - s)`` are as
    large as predicted, on average over samples with the weights ``(1 - s)^2``. Sample weights w
    that are not counts are divided by their mean, and `alpha_` by the same number, so that only the
    ratios of weights matter; n is the sum of the weights.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning",
       MIT Press (2006), section 2.1.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_fsvc import RBFRegressor, make_tabular_pipeline
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_tabular_pipeline(RBFRegressor(random_state=0, uncertainty=True))
    >>> model = model.fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.5)
    True
    >>> y_mean, y_std = model.predict(X[300:], return_std=True)
    >>> y_std.shape
    (142,)
    """

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_hidden=None, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="auto", kernel="auto", feature_weights="auto",
        layer=None, alpha="auto", forgetting_factor=1.0, uncertainty=False,
        target_transform=None, shuffle=True, precision="auto", random_state=None, device="auto",
        max_memory=None, verbose=0,
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
        self.target_transform = target_transform
        self.shuffle = shuffle
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def _parts(self):
        units = RBF.from_estimator(
            self, has_readout=True, allow_search=True, selections=("global", "random")
        )
        return Parts(units, NumericTarget.from_estimator(self), Ridge.from_estimator(self))


@fill_docstring(SHARED, TRANSFORM, RBF_UNITS)
class RBFProjector(NetworkTransformer):
    """Compute the hidden layer of `RBFClassifier`, as a transformer.

    ``H[i, j] = phi(d(x_i, c_j))`` with triangular, Gaussian, Laplacian or powered exponential
    units, centred at novel samples of the training data.

    Parameters
    ----------
    n_components : int or None, default=100
        Number of units, as `n_hidden` of `RBFClassifier`. None selects every sample that is novel
        at the selection radius; if no radius is given, about a quarter of the samples, at most
        4000, or 8000 on a GPU; with learned feature weights, as many as `RBFClassifier` has.
    radius : float or "auto", default="auto"
        Width of the units. "auto" follows the median distance d between samples: for Laplacian
        units ``0.7 d``, for Gaussian units ``d / 2.5066``, and for triangular units a quarter of
        the way from the selection radius to ``d / 2.5066``, at which a triangle ends at d. With
        random centres it is 0.85 of ``0.7 d`` or ``d / 2.5066``. With ``n_components=None`` it
        is the selection radius. With learned feature weights it minimises the validation error.
    %(selection_radius)s
    %(overlap)s
    selection : {"global", "per_class", "random"}, default="global"
        Novelty selection over all samples, novelty selection within each class, which requires
        `y` in fit, or `n_components` random samples.
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
        Distance between samples and centres. Manhattan distances of uint8 samples are exact: they
        are computed in integers.
    kernel : {%(kernels)s} or Kernel, default="triangular"
        Kernel of the units (`RBFClassifier` has the formulas), or a custom
        `sklearn_fsvc.kernels.Kernel`.
    feature_weights : {"learned", "refined", "map"}, array-like of float or None, default=None
        Samples are multiplied by the weights, feature by feature, before distances are computed.
        "learned", "refined" and "map" learn weights or a linear map as in `RBFClassifier`; they
        require class labels as `y` in fit. A matrix of shape (n_features, n_inputs) is a map:
        samples x become ``x A``.
    %(shuffle)s
    %(precision)s
    %(random_state)s
    %(device)s
    %(max_memory)s
    %(verbose)s

    Attributes
    ----------
    %(centers_)s
    %(support_)s
    %(radius_)s
    %(metric_)s
    %(kernel_)s
    %(feature_weights_)s
    %(feature_map_)s
    %(feature_importances_)s
    %(search_results_)s
    %(precision_)s
    %(device_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    RBFClassifier : The same layer with a readout for classification.
    RBFRegressor : The same layer with a readout for regression.
    TanhProjector : Random weights instead of centres.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import RBFProjector
    >>> X, y = load_digits(return_X_y=True)
    >>> RBFProjector(50, random_state=0).fit_transform(X).shape[0]
    1797
    """

    __module__ = "sklearn_fsvc"  # the name in pickles

    def __init__(
        self, n_components=100, *, radius="auto", selection_radius=None, overlap=1.0,
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
        return Parts(RBF.from_estimator(self))
