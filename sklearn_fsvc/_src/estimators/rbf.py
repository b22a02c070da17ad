"""RBFClassifier: parameters, fitted attributes, and what is special."""

from sklearn.utils.validation import check_is_fitted

from ..hidden_layers.defaults import N_COMPONENTS
from ..hidden_layers.rbf import RBF
from ..parts import Parts
from ..targets.classes import ClassTarget
from ..targets.numeric import NumericTarget
from .classifier import NetworkClassifier
from .explanation import Explaining
from .incremental import Solved
from .readouts import Ridge, readout_of
from .regressor import NetworkRegressor
from .transformer import NetworkTransformer


class RBFClassifier(Explaining, NetworkClassifier):
    """Classifier with a hidden layer of RBF units on selected training rows.

    The layer is ``H[i, j] = phi(d(x_i, c_j))`` with the triangular
    ``phi(d) = max(0, 1 - d / (2.5066 radius))``, the Gaussian
    ``phi(d) = exp(-d^2 / (2 radius^2))``, the Laplacian ``phi(d) = exp(-d / radius)`` or
    the powered exponential ``phi(d) = exp(-(d / radius)^0.7)``.
    Centres ``c_j`` are training rows chosen for their novelty: in the order of
    presentation, a row becomes a centre if the activations it raises in the centres so far
    sum to less than `overlap` [1]_. Nothing in the layer is trained; the readout is linear.

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
        wider ones as long as they are better (see Notes). With the readouts "lms" and
        "none" it is the selection radius instead, and with ``n_hidden=None`` the one at
        which a quarter of the rows are novel.
    selection_radius : float or None, default=None
        Radius used for selection only. None means `radius` if that is a number and
        `n_hidden` is None, and otherwise the one that is found for the number of units.
        With a number, centres are found in the same order whatever `n_hidden`, so smaller
        networks are prefixes of larger.
    overlap : float, default=1.0
        Threshold of the sum of activations, p in [1]_: the higher, the more centres.
    selection : {"per_class", "global", "random"}, default="per_class"
        Novelty within each class, over all rows, or `n_hidden` rows at random. With several
        columns of y there is no one class, and "per_class" is "global".
    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="manhattan"
        uint8 rows are compared exactly, in integers, by the Manhattan distance.
    kernel : {"auto", "triangular", "gaussian", "laplacian", "powered_exponential"} or Kernel, \
default="auto"
        The formulas above, or a `sklearn_fsvc.kernels.Kernel` of your own. "auto" takes the
        Laplacian or the triangle, whichever has the least held-out error, and the triangle
        with the readouts "lms" and "none". Centres are selected by triangles then.
    feature_weights : {"auto", "learned", "map"}, array-like of float or None, default="auto"
        Rows are multiplied by them, feature by feature, before distances are measured.
        "learned" finds them: the roots of the mean squared gradients of a small network with
        respect to each feature, in three rounds [2]_, the largest of them 1. They, or weights
        that give all features the same spread, are used if that lowers the held-out error.
        "auto" learns them for floats, and leaves bytes as they are; it is None with the
        readouts "lms" and "none".
        "map" learns a linear map, of at most 500 features: the root of the average gradient
        outer product [2]_, whose diagonal the squares of weights are. It is used if it lowers the
        held-out error, and suits combinations of features, best with ``metric="euclidean"``. A
        matrix of shape (n_features, n_inputs) is a map: rows x become ``x A``.
    layer : estimator, FrozenEstimator or array-like of shape (n_units, n_features), default=None
        A hidden layer that exists already: that of a fitted RBF estimator, with its kernel,
        radius and feature weights, or an array of centres, for which those are found. No
        centres are selected then. `metric` must be that of the estimator. To keep the fitted
        estimator in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.
    readout : {"ridge", "softmax", "lms", "none"}, default="ridge"
        "ridge" minimises ``sum w |y - W h - b|^2 + alpha |W|^2`` over 0/1 targets.
        "softmax" minimises ``sum w log-loss + alpha / 2 |W|^2``: multinomial logistic regression,
        with a log-loss for each of several outputs or labels. Decision values are logits. It passes
        over the rows about 10 times where "ridge" does so once.
        "lms" starts from the untrained readout and corrects it row by row,
        ``W += learning_rate * (y - W h) h'``, in the order of presentation. "none" adds up
        the activations of the centres of each class.
    alpha : float, "auto", "loo" or array-like of float, default="auto"
        Ridge penalty; the intercept is not penalised. "auto" finds the one with the least
        held-out error: a sixth of the rows, at most 5000, are held out, and the final readout is
        trained on all rows. Up to 1000 rows and 1000 units, each sixth is held out in turn. Of
        several numbers, the one with the least leave-one-out error is taken. "loo" chooses
        from 17 numbers from 1e-5 to 1e3; with more than 2000 units it tries only those that lie
        downhill from a first guess.
        With "softmax" it is a number above 0, or "auto", which minimises the log-loss of rows
        that are held out, and draws W to the ridge's solution, calibrated, instead of to 0: the
        penalty is ``alpha / 2 |W - W_ridge|^2``.
    forgetting_factor : float, default=1.0
        Forgetting factor of `partial_fit`, above 0 and at most 1: each new row multiplies the
        weights of all earlier rows by it. 1 forgets nothing.
    learning_rate : float or "auto", default="auto"
        Step of "lms". "auto" is 1/16, or ``1 / max w |h|^2`` over the training rows where
        that is smaller; steps above twice the latter may diverge.
    max_iter : int, default=10
        Passes of "lms" over the rows, all of which are made.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the readout, as in scikit-learn: they multiply
        `sample_weight`, and in the untrained readout the activations of their centres.
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
    classes_ : ndarray of shape (n_classes,), or list of ndarray
        Of several outputs, those of each; of an indicator y, the numbers of its columns.
    multilabel_ : bool
        Whether y was 0 and 1 for each of several labels.
    centers_ : ndarray of shape (n_units, n_features)
        Training rows, as they came, in the order of presentation.
    center_labels_ : ndarray of shape (n_units,) or (n_units, n_outputs)
    support_ : ndarray of shape (n_units,)
        Row numbers of the centres in the training data. Like `center_labels_`, it does not
        exist where `layer` was given.
    n_support_ : ndarray of shape (n_classes,)
        Centres of each class; only of one output.
    radius_, selection_radius_ : float
        The radii that were used; `selection_radius_` is None for random centres.
    kernel_ : str or Kernel
        The kernel that was used.
    feature_weights_ : ndarray of shape (n_features,) or None
        None where rows are compared as they are, and where there is a map.
    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The eigenvectors of ``A @ A.T`` with the largest
        eigenvalues are the combinations of features that count most. A learned map is square.
    search_results_ : dict of str to ndarray of shape (n_trials,)
        What was tried for "auto", a row for each readout: ``kernel``, ``radius``,
        ``weighted`` (by feature weights), ``n_units``, ``alpha`` and the held-out
        ``error``, the mean over rows of ``|y - score|^2``. Only where something was;
        ``pandas.DataFrame(search_results_)`` is a table of them.
    readout_coef_ : ndarray of shape (n_classes, n_units) or (1, n_units)
    readout_intercept_ : ndarray of shape (n_classes,) or (1,)
        One row for two classes; the rows of several outputs follow one another.
    alpha_ : float
        The penalty that was used; only with the readouts "ridge" and "softmax".
    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The penalties and their leave-one-out errors, the mean over rows of
        ``|y - score|^2``; only where they were needed.
    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are a softmax of decision values divided by it; 1 with the readout
        "softmax", and not there with "lms" and "none".
    n_iter_ : int
        Passes of "lms" over the rows, steps of "softmax"; 1 with the other readouts.
    precision_ : {8, 15} or None
        Bits of an activation; None for floats.
    device_ : str
        The engine that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.

    See Also
    --------
    RBFRegressor : The same units, for numbers.
    RBFProjector : The hidden layer alone.
    TanhClassifier : Random weights instead of centres.
    HiddenSizeSearchCV : Finds the number of units.

    Notes
    -----
    A triangle covers samples up to 2.5066 radii from its centre. A sample that no triangle covers
    has no activation; its class is that of the nearest centre. With the readouts "lms" and
    "none" the score of that class is 1 and that of others 0 (of two classes, the one score is
    1 or -1), also where another kernel is rounded to 0. With "ridge" and "softmax" such targets
    t are shrunk to the intercept b by `alpha_`, ``b + (t - b) / (1 + alpha)``, as a ridge does
    with the target of a sample that alone activates a unit; probabilities are calibrated with
    them. The classes of the centres of a given `layer` are not known; then the scores of such a
    sample are the intercepts, and so they are where a kernel without an edge is rounded to 0.

    What is "auto" is found with small networks, of 450 units up to 4000 rows and of 800 at most,
    on 6000 rows at most, a sixth of which is held out: first the feature weights, then kernel and
    radius together, each with its best penalty. Networks that choose the kernel and the radius
    never have more units than `n_hidden`. Last comes the penalty of the network itself, judged
    with half of its units: it is trained on all rows but those that are held out.

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

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_fsvc import RBFClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = RBFClassifier(random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.97)
    True

    What was tried:

    >>> tuple(clf.search_results_)
    ('kernel', 'radius', 'weighted', 'n_units', 'alpha', 'error')
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def __init__(
        self, n_hidden=None, *, radius="auto", selection_radius=None, overlap=1.0,
        selection="per_class", metric="manhattan", kernel="auto", feature_weights="auto",
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

    n_iter_ = Solved()

    @property
    def n_support_(self):
        check_is_fitted(self)
        parts = self._parts()
        if not parts.task.labels.is_single:
            raise AttributeError("n_support_ counts the centres of each class of one output.")
        return parts.task.targets_of(self.center_labels_).counts


# RBFRegressor: parameters, fitted attributes, and what is special.


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
        units = RBF.from_estimator(
            self, has_readout=True, allow_search=True, selections=("global", "random")
        )
        return Parts(units, NumericTarget.from_estimator(self), Ridge.from_estimator(self))


# RBFProjector: parameters and fitted attributes.


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
        return Parts(RBF.from_estimator(self))
