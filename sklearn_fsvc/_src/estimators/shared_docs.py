"""Descriptions of the parameters and attributes that several estimators have."""

from ..kernels import KERNELS
from ..utils.docstrings import read_entries

SHARED = read_entries(
    """
    readout : {"ridge", "softmax"}, default="ridge"
        "ridge" fits the 0/1 targets by least squares with a penalty, in closed form. "softmax" is
        multinomial logistic regression; `RBFClassifier` has the objectives of both.

    alpha : float, "auto", "loo" or array-like of float, default="auto"
        Ridge penalty; the intercept is not penalised.

        - A number: the penalty.
        - "auto": minimises a validation error. In RBF networks with at most 6000 samples, without
          groups or a validation set, that is the leave-one-out error of up to 1000 samples.
          Otherwise it is the error on a hold-out set, a sixth of the samples (at most 5000), or
          with at most 1000 samples and 4000 units that of 6-fold cross-validation. The final
          readout is trained on all samples.
        - An array: of these penalties, the one with the lowest leave-one-out error of all samples.
        - "loo": as an array of 17 values from 1e-5 to 1e3; with more than 2000 units, only those
          that lie downhill from an initial guess are evaluated.

    forgetting_factor : float, default=1.0
        Exponential forgetting in `partial_fit`: each new sample multiplies the weights of all
        earlier samples by this factor, which is greater than 0 and at most 1. 1 keeps all
        samples with equal weight.

    uncertainty : bool, default=False
        Whether ``predict(X, return_std=True)`` is available. Fitting takes one more pass over the
        data, two with ``alpha="auto"`` and none with "loo", and the model stores one more square
        matrix, with a row for each column of H.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the readout, as in scikit-learn; they multiply `sample_weight`.

    precision : {"auto", "float", 8, 15}, default="auto"
        Number of bits of an activation. With 8 or 15, activations are rounded to multiples of a
        power of two, in fit and predict alike, and sums of their products over unweighted samples
        are exact. Rounded activations do not depend on the order of the samples: those of RBF units
        with the Manhattan metric on every `device`, those of RBF units with the Euclidean metric
        and of tanh units on "jit". Elsewhere, and with sparse data or a linear map, a few of them
        may differ by one step. "float" does not round. "auto" uses 8 bits in large fits on GPUs
        and on processors that multiply bytes (VNNI, or `udot` on Arm), if the penalty is so large
        that rounding makes no difference; H'H then takes a third of the time (VNNI) or a
        twentieth (GPU). In other large fits on a GPU it uses 15 bits, with a sixth of the time.

    device : str, default="auto"
        Engine that computes the hidden layer: "jit", "blas" or "mkl" on the host, "cuda" on an
        NVIDIA GPU, "cuda:1" on the second GPU, "cuda:0,1" on two, "cuda:all" on all, or on one if
        more would be no faster; "torch" on any device of PyTorch, such as GPUs of AMD
        ("torch:cuda"), Apple ("torch:mps") and Intel ("torch:xpu"); "cpu" is the fastest one on
        the host. If a named device is not available, an error states the reason.
        "auto" is a GPU for large computations and all GPUs for very large ones; for small
        computations, or without a usable GPU, it is "cpu".

    max_memory : int, str or None, default=None
        Limit of the memory that fit, predict and transform allocate on the device: a number of
        bytes, or a string such as "2GiB". None is half of the free memory.

    verbose : int, default=0
        1 prints a line for each decision of a fit: the hidden layer and the readout, with kernel,
        width, penalty, validation error and seconds; and, after a second, the progress of long
        computations, at most one line per second. 2 also prints each pass over the data and
        its times.

    classes_ : ndarray of shape (n_classes,), or list of ndarray
        The class labels; a list with those of each output if there are several. For a multilabel
        indicator matrix y, the indices of its columns.

    multilabel_ : bool
        Whether y was a multilabel indicator matrix.

    readout_coef_ : ndarray of shape (n_classes, n_columns) or (1, n_columns)
        Weights of the readout for the columns of H; one row for two classes. The rows of several
        outputs are stacked.

    readout_intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts of the readout.

    alpha_ : float
        The penalty of the readout.

    mean_weight_ : float
        The mean sample weight, to which penalties are relative, if weights are not small integers.

    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The candidate penalties and their leave-one-out errors, the mean over samples of
        ``|y - score|^2``; only if `alpha` is "loo" or an array.

    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are the softmax of logits divided by the temperature; 1 with
        ``readout="softmax"``.

    score_scale_ : float or ndarray of shape (n_outputs,)
        The logits are ``arcsinh(p / score_scale_)``, where the decision values p estimate the
        probabilities of the classes; of two classes, p is 0.5 plus or minus half the decision
        value. Only with ``readout="ridge"``; the decision values of "softmax" are the logits.

    matrix_scaling_ : ndarray of shape (n_classes, n_classes + 1)
        Only if classes are masked (:ref:`masked`): `readout_coef_` and `readout_intercept_` are
        those of the ridge, multiplied by the first columns, plus the last column; decision values
        are logits, up to a factor. For several outputs a list, with None for those without a map.

    conformity_scores_ : list of tuple
        For `predict_set`, one for each column of y: thresholds of probabilities, and the coverage
        of the sets with these thresholds. Absent without leave-one-out or validation scores.

    search_results_ : dict of str to ndarray of shape (n_trials,)
        History of the search for hyperparameters that are "auto", one element per trained readout:
        ``metric``, ``kernel``, ``radius``, ``weighted`` (whether there are feature weights or a
        linear map), ``n_units``, ``alpha``, and the validation ``error``, the mean over samples of
        ``|y - score|^2``. If several splits select (up to 750 samples), one more element is the
        selected layer, with the mean of its errors and penalties. Only if there was a search.
        ``pandas.DataFrame(search_results_)`` converts it to a table.

    drift_ : float
        With `partial_fit`: the squared error on the newest samples (about 500), predicted before
        they were added, divided by the lowest one so far. A value that stays above 1.5 shows
        concept drift: the layer, or a readout that forgets no samples, no longer fits. Available
        after 500 samples that were added after a prediction.

    n_iter_ : int
        Number of iterations of the softmax readout; only with ``readout="softmax"``.

    feature_weights_ : ndarray of shape (n_features,) or None
        Weights of the features, each in the inverse of the unit of its feature. None if features
        are not weighted, or if there is a linear map.

    feature_map_ : ndarray of shape (n_features, n_inputs) or None
        The linear map A, if there is one. The eigenvectors of ``A @ A.T`` with the largest
        eigenvalues are the most important combinations of features. A learned map is square.

    feature_importances_ : ndarray of shape (n_features,), float64
        The weight of each feature, or the norm of its row of a linear map, times the standard
        deviation of the feature, scaled to a sum of 1. Unlike weights, importances do not depend
        on the units of the features; RFE and SelectFromModel of scikit-learn use them. Learned
        weights count even if the network does not use them. Standard deviations are those of the
        subset of the samples that weights are learned from; for given weights, of at most 4000
        samples, or fewer if there are more than 1000 features. Only if weights or a linear map
        were learned or given.

    precision_ : {8, 15} or None
        Number of bits of an activation; None if activations are not rounded.

    device_ : str
        The engine that was used, with the numbers of its devices if it has any: "cuda:0,1".

    n_features_in_ : int
        Number of features seen in fit.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features seen in fit; only if X has string column names.
    """
)

# The kernels by name, for the types of the parameter `kernel`.
SHARED["kernels"] = ", ".join(f'"{name}"' for name in KERNELS)

# Of classifiers, whose readout may be a softmax.
CLASSIFICATION = {
    "alpha": SHARED["alpha"]
    + """

    With the readout "softmax" it is a number greater than 0, or "auto", which minimises the
    log-loss of held-out samples, and shrinks W towards the calibrated solution of the ridge instead
    of 0: the penalty is ``alpha / 2 |W - W_ridge|^2``."""
}

# Of regressors: their readout is trained on standardised targets.
REGRESSION = read_entries(
    """
    target_transform : {"auto", "log", "quantiles"} or None, default=None
        Transform of y, for prices, counts and other heavy-tailed targets. "log" is the logarithm,
        of y plus its smallest positive value if y contains 0; "quantiles" maps y to a normal
        distribution.
        "auto" transforms columns of y with an excess kurtosis above 30, if that reduces their
        validation error in the units of y: the mean absolute error by 10 % and the squared error by
        2 % or more. Predictions are in the units of y, within its range in `fit`. They estimate the
        mean of y, by the average of the inverse over leave-one-out residuals (smearing). With a
        transform there is no `partial_fit`, and no export to C.

    target_transformer_ : TargetTransformer or None
        The fitted transform; ``kinds`` lists that of each column of y. None without a transform.

    smearing_ : ndarray of shape (n_quantiles, n_outputs)
        Quantiles of leave-one-out residuals of the transformed y; only with a transform.

    residual_distribution_ : tuple or None
        Quantiles of leave-one-out residuals and a model of their local scale, which
        `predict_quantiles` uses; absent if all leverages are 1 (interpolation), and None if there
        is a single sample, or a single one in `X_val`.

    readout_coef_ : ndarray of shape (n_outputs, n_columns), float64
        Weights of the readout for the columns of H.

    readout_intercept_ : ndarray of shape (n_outputs,), float64
        Intercepts of the readout.

    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Weighted mean and standard deviation of y, or of the transformed y; the standard deviation
        of a constant y is replaced by 1.

    alpha_ : float
        The ridge penalty, for y divided by `target_scale_`.

    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The candidate penalties and their leave-one-out errors, the mean over samples of
        ``|(y - prediction) / target_scale_|^2``; only if `alpha` is "loo" or an array, or with
        ``uncertainty=True``.

    search_results_ : dict of str to ndarray of shape (n_trials,)
        History of the search for hyperparameters that are "auto", as in `RBFClassifier`;
        the validation error is that of y divided by `target_scale_`.

    posterior_ : tuple (root, mean, n, noise)
        Posterior of the readout, from which the standard deviations of predictions are computed
        (see the Notes of `RBFRegressor`); of shapes (n_columns, n_columns), (n_columns,), () and
        (n_outputs,). Sample weights that are not counts are divided by their mean first, and
        n is their sum. Only with ``uncertainty=True``.
    """
)

# Of transformers: no readout determines their precision.
TRANSFORM = read_entries(
    """
    precision : {"float", 8, 15}, default="float"
        Number of bits of an activation: with 8 or 15, activations are rounded to multiples of a
        power of two.
    """
)

# Parameters of the `fit` of classifiers and regressors.
FIT = read_entries(
    """
    sample_weight : array-like of shape (n_samples,) or str, optional
        Weights of the samples in the readout. Integers are counts of equal samples, up to a mean
        of 64. Of other weights only the ratios matter, unless `alpha` is a number, or with the
        readout "lms" of `RBFClassifier`, whose learning rate they multiply. A weight of 0 has the
        effect of removing the sample. For tables, the name of a column. All other columns are
        features.

    groups : array-like of shape (n_samples,), optional
        Group of each sample, such as its patient: hyperparameters that are "auto" are validated
        on other groups. With metadata routing it is requested by default.

    X_val : {array-like, sparse matrix} of shape (n_val, n_features), or source, optional
        Validation set, in place of a hold-out set drawn from X. It validates hyperparameters
        that are "auto", and calibrates probabilities and prediction sets of a classifier, or
        prediction intervals of a regressor; nothing else is fitted to it. In a `Pipeline`,
        ``transform_input=["X_val"]`` transforms it as X.

    y_val : array-like of shape (n_val,) or (n_val, n_outputs), optional
        Targets of the validation set, in the form of y.

    sample_weight_val : array-like of shape (n_val,), optional
        Weights of its samples in validation errors. In a classifier, ``class_weight="balanced"``
        multiplies them by weights from the class frequencies in `y_val`.
    """
)

# Of the three estimators of each kind of hidden units.
RBF_UNITS = read_entries(
    """
    n_hidden : int or None, default=None
        Number of hidden units. None depends on the number of samples: as many units as samples for
        up to 1000 samples, or if there are no more samples than features; for more samples the
        larger of 1000 and three quarters of them; at most 4000, or 8000 on a GPU; in each case up
        to 3 percent fewer. If `radius` or `selection_radius` is a number, None is the number of
        samples that are novel at that radius.

        A selection radius is searched at which slightly more samples are novel; the first of them
        become the centres. Of very many samples, 16 per unit are candidates, unless
        ``shuffle=False``. If too few samples are distinct, there are fewer units, and `fit` warns.
        If `selection_radius` is a number, `n_hidden` is the maximum number of units.

    selection_radius : float or None, default=None
        Radius for the selection of centres only. None is `radius` if that is a number and the
        number of units is None; otherwise the radius that was searched for the number of units.
        With a number, centres are selected in the same order for every number of units, so the
        units of a smaller network are the first ones of a larger network.

    overlap : float, default=1.0
        Novelty threshold, p in Dogaru & Dogaru (2017): a sample is novel if its activations over
        the centres selected so far sum to less. The higher, the more centres.

    metric : {"auto", "manhattan", "euclidean", "sqeuclidean"}, default="auto"
        Distance between samples and centres. "auto" is the Manhattan distance, unless Gaussian
        units of Euclidean distances have a validation error that is clearly lower, by 7 %; they
        suit smooth targets, such as linear ones. They are candidates if X is not uint8, `kernel`
        and `radius` are "auto" and `precision` is not 8 or 15: for Gaussian units as in an SVM,
        set ``kernel="gaussian", metric="euclidean"``. Centres are selected with Manhattan distances
        in any case. Manhattan distances of uint8 samples are exact: they are computed in integers.

    layer : estimator, FrozenEstimator or array-like of shape (n_units, n_features), default=None
        An existing hidden layer: that of a fitted RBF estimator, with its kernel, radius and
        feature weights, or an array of centres, for which kernel, radius and feature weights are
        determined. No centres are selected then. `metric` must be "auto" or that of the estimator.
        To keep the estimator fitted in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.

    shuffle : bool, default=True
        Whether to present the samples in random order to the selection. Otherwise their order is
        that of X.

    random_state : int, RandomState or None, default=None
        Seed of the order of presentation, and of the hold-out sets of automatic hyperparameters.

    centers_ : ndarray of shape (n_units, n_features)
        The centres: training samples without feature weights, in the order of presentation.

    support_ : ndarray of shape (n_units,)
        Indices of the centres in the training data; with `partial_fit`, in the samples from which
        the layer was chosen, in order of arrival.

    radius_, selection_radius_ : float
        The radii of the units and of the selection; `selection_radius_` is None for random centres.

    metric_ : str
        The metric of the units.

    kernel_ : str or Kernel
        The kernel of the units.
    """
)

TANH_UNITS = read_entries(
    """
    n_hidden : int, default=2000
        Number of hidden units. With the same `random_state`, the units of a smaller network are the
        first ones of a larger network.

    scale : float or "auto", default="auto"
        Length of the weight vector of each unit; of normally distributed weights, the expected
        length. "auto" follows the number of samples and the number of directions in which they
        vary; `TanhProjector` has the formula.

    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images in the rows of X, channels last. Each unit then has a random
        rectangle as its receptive field: the weights of other pixels are 0. None if the features
        are not pixels.

    patch_size : (low, high), default=None
        Minimum and maximum side of the receptive fields; height, width and position are uniformly
        distributed. None is from a fifth to three fifths of the shorter side of the image.

    bias : bool, default=True
        Whether units have random biases, from the uniform distribution that `TanhProjector`
        describes. Without them, the inflection point of a unit is at the mean of the samples, or
        at 0 if `scale` is a number.

    feature_weights : {"auto", "learned", "refined", "map"}, array-like of float or None, \
            default="auto"
        Relevance of each feature: the layer is that of samples that are multiplied by the weights,
        and `components_` contain them. "learned" weights are learned as in `RBFClassifier`, by
        small networks of Laplacian units, and used if they lower the validation error of these;
        "refined" ones minimise a leave-one-out error, whatever the validation error.
        "auto" is "learned", or a linear map that continues these weights, if its validation error
        is clearly lower; None with more than 500 features or fewer than 50 samples, if X is uint8,
        with `image_shape`, and with `weights` that are computed from samples.
        "map" learns a linear map, of at most 500 features, that continues "learned" weights: the
        square root of the average gradient outer product (Radhakrishnan et al., 2024) of small
        networks of Laplacian units with the Euclidean distance, iterated as long as that lowers
        their validation error. Without a gain, the weights are used. An array of shape
        (n_features,) contains weights, a matrix of shape (n_features, n_inputs) is a map: samples
        x become ``x A``.

    layer : estimator or FrozenEstimator, default=None
        A fitted tanh estimator, whose hidden layer is used; the parameters of the layer have no
        effect then. To keep it fitted in clones, wrap it in a `sklearn.frozen.FrozenEstimator`.

    random_state : int, RandomState or None, default=None
        Seed of the weights; the same seed gives the same model on every device.

    components_ : ndarray of shape (n_hidden, n_features)
        Weights of the hidden units.

    hidden_intercept_ : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    """
)

PATCH_UNITS = read_entries(
    """
    n_hidden : int, default=400
        Number of hidden units. With the soft threshold and the same `random_state`, the units of a
        smaller network are the first ones of a larger network. H has a column for each unit and
        cell of the pooling grid, two with the soft threshold; their number determines the time and
        the memory of the readout.

    image_shape : (rows, columns) or (rows, columns, channels), default=None
        Shape of the images in the rows of X, channels last. None is a square image with
        one channel if the number of features is 16, 25, 36 or a larger square. Samples with any
        other number of features up to 64 are not images: each of them is a single patch, and
        nothing is averaged. With more features `image_shape` is required.

    patch_size : int or (height, width), default=None
        Side or sides of the patches. None is a quarter of the image's shorter side, from 3 to 8.

    stride : int, default=1
        Number of pixels between neighbouring patches, down and across.

    pool : int or (down, across), default=4
        Number of cells on each side of the pooling grid, over which activations are averaged. There
        are never more cells than patch positions.

    kernel : {"soft_threshold", "below_mean", %(kernels)s} or Kernel, default="soft_threshold"
        Activation of the units. "soft_threshold" has two outputs, ``max(0, a - t)`` and
        ``max(0, -a - t)`` for the scalar product a of a patch and a unit of length 1. "below_mean"
        is ``max(0, m - d)`` for the distance d and its mean m over the units. The others are the
        kernels of `RBFClassifier`.

    metric : {"manhattan", "euclidean", "sqeuclidean"}, default="euclidean"
        Distance between patches and units, for the kernels that depend on a distance.

    radius : float or "auto", default="auto"
        Width of the kernels that have one. "auto" follows the median distance between patches.

    threshold : float, default=0.5
        The threshold t, as a multiple of the root mean square of a over patches that are not
        constant.

    contrast : bool or "auto", default="auto"
        Whether to normalise the contrast of patches: subtract the mean of each patch, and divide by
        ``sqrt(variance + floor)``, where the floor is a hundredth of the mean variance of
        patches. "auto" normalises unless images have a single row.

    whitening : float or None, default=0.3
        Regularisation of the ZCA whitening of patches: this multiple of the mean eigenvalue of
        their covariance is added to each eigenvalue. None does not whiten.

    selection : {"random", "global"}, default="random"
        Selection of the units among patches that are not constant: random patches, or novel ones,
        as in `RBFProjector`.

    random_state : int, RandomState or None, default=None
        Seed of the selection of patches; the same seed selects the same ones on every device.

    components_ : ndarray of shape (n_units, n_inputs)
        The units, normalised and whitened as patches are; for the soft threshold, of length 1.

    patches_ : ndarray of shape (n_units, height, width, channels)
        The units as patches of the training images.

    image_shape_ : tuple (rows, columns, channels)
        Shape of the images.

    pool_ : tuple (down, across)
        Number of cells of the pooling grid.

    stride_, kernel_, metric_ : int, str or Kernel, str
        Values of these parameters in `fit`.

    radius_, threshold_, floor_ : float or None
        Radius of the kernel, threshold t and floor of the variance that were used; None if there
        is none.

    whitening_ : ndarray of shape (n_inputs, n_inputs) or None
        Whitening matrix: patches p become ``p @ whitening_ - shift_``.

    shift_ : ndarray of shape (n_inputs,) or None
        The mean patch, whitened.

    readout_coef_ : ndarray of shape (n_classes, n_columns) or (1, n_columns)
        Weights of the readout for the columns of H, in which those of a unit are adjacent; one row
        for two classes. The rows of several outputs are stacked.
    """
)
