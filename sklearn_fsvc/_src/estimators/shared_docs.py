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

    alphas_, loo_errors_ : ndarray of shape (n_alphas,)
        The candidate penalties and their leave-one-out errors, the mean over samples of
        ``|y - score|^2``; only if leave-one-out errors were computed.

    temperature_ : float or ndarray of shape (n_outputs,)
        Probabilities are the softmax of logits divided by the temperature; 1 with
        ``readout="softmax"``.

    score_scale_ : float or ndarray of shape (n_outputs,)
        The logits are ``arcsinh(p / score_scale_)``, where the decision values p estimate the
        probabilities of the classes; of two classes, p is 0.5 plus or minus half the decision
        value. Only with ``readout="ridge"``; the decision values of "softmax" are the logits.

    conformity_scores_ : list of tuple
        For `predict_set`, one for each column of y: thresholds of probabilities, and the coverage
        of the sets with these thresholds. Absent without leave-one-out or validation scores.

    search_results_ : dict of str to ndarray of shape (n_trials,)
        History of the search for hyperparameters that are "auto", one element per trained readout:
        ``metric``, ``kernel``, ``radius``, ``weighted`` (whether there are feature weights),
        ``n_units``, ``alpha``, and the validation ``error``, the mean over samples of
        ``|y - score|^2``. Only if there was a search. ``pandas.DataFrame(search_results_)``
        converts it to a table.

    drift_ : float
        With `partial_fit`: the squared error on the newest samples (about 500), predicted before
        they were added, divided by the lowest one so far. A value that stays above 1.5 shows
        concept drift: the layer, or a readout that forgets no samples, no longer fits. Available
        after 500 samples that were added after a prediction.

    n_iter_ : int
        Number of iterations of the softmax readout; only with ``readout="softmax"``.

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

    residual_distribution_ : tuple
        Quantiles of leave-one-out residuals and a model of their local scale, which
        `predict_quantiles` uses; absent if all leverages are 1 (interpolation).

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
        ``|(y - prediction) / target_scale_|^2``; only if leave-one-out errors were computed.

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
        readout "lms", whose learning rate they multiply. A weight of 0 has the effect of removing
        the sample. For tables, the name of a column. All other columns are features.

    groups : array-like of shape (n_samples,), optional
        Group of each sample, such as its patient: hyperparameters that are "auto" are validated
        on other groups. With metadata routing it is requested by default.

    X_val : {array-like, sparse matrix} of shape (n_val, n_features), or source, optional
        Validation set, in place of a hold-out set drawn from X. It validates hyperparameters
        that are "auto", and calibrates probabilities, prediction sets and prediction intervals;
        nothing else is fitted to it. In a `Pipeline`, ``transform_input=["X_val"]`` transforms it
        as X.

    y_val : array-like of shape (n_val,) or (n_val, n_outputs), optional
        Targets of the validation set, in the form of y.

    sample_weight_val : array-like of shape (n_val,), optional
        Weights of its samples in validation errors. In a classifier, ``class_weight="balanced"``
        multiplies them by weights from the class frequencies in `y_val`.
    """
)
