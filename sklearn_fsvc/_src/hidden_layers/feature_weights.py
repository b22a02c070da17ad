"""Feature weights learned from targets: relevant features get large weights.

This is the recursive feature machine of Radhakrishnan et al. (Science 383, 2024) with a diagonal
matrix, as in xRFM (Beaglehole et al., arXiv:2508.10053). Each round

1. trains a small RBF network with a ridge readout f on samples multiplied by the weights w,
2. computes the mean squared gradient ``g_k = mean_i sum_o (d f_o(x_i) / d x_ik)^2``, the diagonal
   of the average gradient outer product (AGOP), and
3. sets ``w_k = sqrt(g_k)``, scaled to a maximum of 1.

The initial weights give all features the same standard deviation, so that the units of the
features do not matter.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.rows import preprocess_block, take_rows
from ..data.samples import Samples, draw_without_replacement
from ..data.streaming import Consumer, stream
from ..engines import gradients
from ..engines.base import Engine
from ..engines.threads import limit_blas_threads
from ..kernels import Kernel
from ..layers import RBFLayer, hidden_dtype
from ..readouts.gather_statistics import gather_coarse
from ..utils.parameters import check_random_state
from .centers import START_ALPHA
from .ordered_samples import OrderedSamples
from .radius import typical_distance, typical_distance_bytes

# Number of rounds, and maximum numbers of samples and centres of the networks.
_N_ROUNDS, _MAX_SAMPLES, _MAX_CENTERS = 3, 4000, 600
# The gradients of samples x centres x features x outputs take longer than all else. Their number
# is limited to about this, by using fewer samples; but no fewer than the second number.
_MAX_GRADIENTS, _MIN_GRADIENT_SAMPLES = 2**28, 500
# Maximum number of elements of a block of features.
_BLOCK_ELEMENTS = 2**20
# With more features than samples, learned weights must lower the validation error by this factor.
_WIDE_FACTOR = 0.95


def learn_weights(
    job: Job,
    samples: Samples,
    metric: str,
    kernel: Kernel,
    random_state: Any,
    rows: npt.NDArray | None = None,
) -> tuple[npt.NDArray, npt.NDArray]:
    """Learn the weights with which an RBF network predicts the targets best.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets. Rows of weight 0 are ignored.
    metric : {"manhattan", "euclidean", "sqeuclidean"}
    kernel : Kernel
    random_state : int, RandomState instance or None
        Seed of the subset of samples that is used.
    rows : ndarray of int, optional
        The rows from which the subset is drawn; all by default.

    Returns
    -------
    equalising, learned : ndarray of shape (n_features,), float64
        The initial weights, which give all features the same standard deviation, and the learned
        ones; the same if no feature changes an output. The maximum is 1, none is negative.
    """
    limit = job.memory_limit
    rows = samples.rows_with_weight if rows is None else rows
    job, subset = draw_subset(job, samples, random_state, rows)
    # The copied samples, and their pairwise distances.
    needed = subset.X.nbytes + typical_distance_bytes(subset.X)
    check_fits("learning feature weights", needed, limit, "set feature_weights=None")
    equalising = weights = equalising_weights(subset, job.engine)
    for _ in range(_N_ROUNDS):
        updated = update_weights(job, subset, weights, metric, kernel)
        if updated is None:  # keep the previous weights
            break
        weights = updated
    return equalising, weights


def required_factor(n_samples: int, n_features: int) -> float:
    """Return the factor by which learned weights must lower the validation error to be selected.

    Of many features, some correlate with the targets of few samples by chance. Weights of these
    lower the validation error by a few percent, and also all leave-one-out errors, since they
    depend on the sample that is left out: probabilities would be overconfident.
    """
    return _WIDE_FACTOR if n_samples < n_features else 1.0


def draw_subset(
    job: Job, samples: Samples, random_state: Any, rows: npt.NDArray, n: int = _MAX_SAMPLES
) -> tuple[Job, Samples]:
    """Copy random rows in random order to a device; return the remaining job and the samples."""
    job = job.single_device()
    rows = draw_without_replacement(rows, n, check_random_state(random_state))
    subset = samples.taken(rows, hidden_dtype(samples.X.dtype))
    if isinstance(subset.X, job.engine.xp.ndarray):
        job = job.reserve(subset.X.nbytes)
    subset, job = subset.on_device(job)
    return job.reserve_host(subset.target_bytes), subset


def update_weights(
    job: Job, subset: Samples, weights: npt.NDArray, metric: str, kernel: Kernel
) -> npt.NDArray | None:
    """Return the weights after another round; None if no feature changes an output.

    The first samples are the centres, and gradients are computed at the last ones.
    """
    layer = _layer(job.engine, subset, weights, metric, kernel)
    # The penalty is fixed: a search in each round would take longer than the round.
    (statistics,) = gather_coarse(job, [layer], subset)
    W = statistics.solve(START_ALPHA).W
    del statistics
    # Gradients are proportional to 1 / radius, whose square may overflow or underflow. Multiply by
    # a power of two near the radius: that is exact, and the common factor cancels below.
    W *= 2.0 ** math.frexp(layer.radius)[1]
    rows = np.arange(len(subset))[-n_gradient_samples(subset) :]
    # The chain rule: f depends on w x, so its gradient with respect to x has a factor w.
    squares = weights**2 * mean_squared_gradients(job, layer, W, subset, rows)
    return np.sqrt(squares / squares.max()) if squares.any() else None


def n_gradient_samples(subset: Samples) -> int:
    """Return the number of samples at which gradients are computed."""
    gradients_per_sample = _MAX_CENTERS * subset.X.shape[1] * subset.targets.n_outputs
    return min(len(subset), max(_MIN_GRADIENT_SAMPLES, _MAX_GRADIENTS // gradients_per_sample))


def equalising_weights(samples: Samples, engine: Engine) -> npt.NDArray:
    """Return weights that give all features the same standard deviation; 0 for constant ones.

    Parameters
    ----------
    samples : Samples
        Of arrays, on the host or on the device of the engine.
    engine : Engine

    Returns
    -------
    ndarray of shape (n_features,), float64
        The maximum is 1. All are 1 if all features are constant.
    """
    deviations = _deviations_or_zero(samples, engine)
    varies = ~(deviations == 0)  # True also for NaN, which is refused
    if not varies.any():
        return np.ones(len(deviations))
    dtype = hidden_dtype(samples.X.dtype)
    _check_deviations(np.where(varies, deviations, deviations.max()), dtype)
    smallest = deviations[varies].min()
    return np.divide(smallest, deviations, out=np.zeros(len(deviations)), where=varies)


@limit_blas_threads(1)
def _deviations_or_zero(samples, engine):
    """Return the standard deviations of the features, 0 up to rounding errors."""
    X = samples.X
    algebra, n = engine.algebra_of(X), len(X)
    xp = algebra.xp
    weight = samples.weight_or_ones()
    share = xp.asarray(weight / weight.sum())
    # Deviations up to this multiple of the values are rounding errors of a constant feature.
    rounding = 8 * np.finfo(hidden_dtype(X.dtype)).eps
    deviations = np.zeros(X.shape[1])
    for columns in gen_batches(X.shape[1], max(1, _BLOCK_ELEMENTS // n)):
        block = X[:, columns].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # _check_deviations refuses overflow
            # Subtract the first row: constant features become exactly 0, and so does their mean.
            block -= block[0].copy()
            mean = share @ block
            block -= mean
            # Divide by the maximum, so that squares of huge values are finite.
            peak = xp.maximum(block.max(axis=0), -block.min(axis=0))
            block /= xp.where(peak > 0, peak, 1)
        deviation = peak * xp.sqrt(share @ xp.square(block, out=block))
        magnitude = xp.abs(X[0, columns].astype(np.float64) + mean)
        deviation[deviation <= rounding * magnitude] = 0
        deviations[columns] = algebra.to_host(deviation)
    return deviations


def invert_weights(weights: npt.NDArray) -> npt.NDArray:
    """Return the weights that undo these; 0 for 0."""
    return np.divide(1, weights, out=np.zeros(len(weights)), where=weights > 0)


def _check_deviations(deviations, dtype):
    """Raise if the dtype cannot represent the ratio of two standard deviations."""
    narrowest, widest = int(deviations.argmin()), int(deviations.argmax())
    if np.isnan(deviations[widest]):  # with `assume_finite` of scikit-learn
        raise ValueError(
            f"Feature {widest} of X contains NaN or infinity; remove or impute such values."
        )
    if not deviations[narrowest] / deviations[widest] > 1e4 * float(np.finfo(dtype).tiny):
        raise ValueError(
            f"Feature {narrowest} of X has a standard deviation of {deviations[narrowest]:.3g} and "
            f"feature {widest} one of {deviations[widest]:.3g}: no weights in {dtype} make them "
            "equal. Scale the features of X (StandardScaler), remove one of them, or set "
            "feature_weights=None."
        )


def _layer(engine, subset, weights, metric, kernel):
    """Return a layer whose centres are the first samples, at the natural radius."""
    weights = weights.astype(subset.X.dtype)
    ordered = OrderedSamples(engine, subset.X, np.arange(len(subset)), weights=weights)
    radius = float(kernel.natural_radius(typical_distance(ordered, metric)))
    n_units = max(1, min(_MAX_CENTERS, len(subset) // 2))
    return RBFLayer(ordered.block(slice(n_units)), radius, metric, kernel, weights)


def mean_squared_gradients(
    job: Job, layer: RBFLayer, W: Any, samples: Samples, rows: npt.NDArray | None = None
) -> npt.NDArray:
    """Return the weighted mean of the squared gradients of ``W phi(d)``, summed over outputs.

    Gradients are those with respect to the input of the units. For a layer with feature weights w,
    those with respect to the samples are ``w^2`` times as large.

    Parameters
    ----------
    W : array of shape (n_outputs, n_units), of the host or of ``engine.xp``
    samples : Samples
        Targets are ignored.
    rows : ndarray of int, optional
        Row indices; all by default.

    Returns
    -------
    ndarray of shape (n_features,), float64
    """
    engine = job.engine

    def squares(block, D, weight):
        G = engine.squared_gradients(layer, block, D, W)
        return G.sum(axis=0) if weight is None else weight @ G

    fixed_bytes = gradients.fixed_bytes(layer, len(W))
    row_bytes = gradients.row_bytes(layer, len(W))
    return _mean_over_rows(job, layer, samples, rows, squares, fixed_bytes, row_bytes)


def mean_outer_product(
    job: Job, layer: RBFLayer, W: Any, samples: Samples, rows: npt.NDArray | None = None
) -> npt.NDArray:
    """Return the average gradient outer product (AGOP) of ``W phi(d)``, summed over outputs.

    Its diagonal is `mean_squared_gradients`; the parameters are the same. The metric of the layer
    must be "euclidean" or "sqeuclidean", and the mean of the samples should be near 0.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
    """
    engine, dtype = job.engine, layer.hidden_dtype
    units, W = (engine.xp.ascontiguousarray(engine.to_device(A), dtype) for A in (layer.units, W))

    def products(block, D, weight):
        slopes = gradients.distance_slopes(layer, D, engine.xp)
        return gradients.gradient_outer_product(block, units, slopes, W, weight, engine.algebra)

    n = layer.n_features
    fixed_bytes = gradients.fixed_bytes(layer, len(W)) + 24 * n * n
    row_bytes = gradients.row_bytes(layer, len(W)) + 40 * n
    return _mean_over_rows(job, layer, samples, rows, products, fixed_bytes, row_bytes)


def _mean_over_rows(
    job: Job,
    layer: RBFLayer,
    samples: Samples,
    rows: npt.NDArray | None,
    sum_block: Callable[[Any, Any, Any], Any],
    fixed_bytes: int,
    row_bytes: int,
) -> npt.NDArray:
    """Return the weighted mean over rows of a quantity that is computed block by block.

    ``sum_block(block, D, weight)`` returns its weighted sum over a block of rows with the
    distances D to the centres. It takes `fixed_bytes` and `row_bytes` per row.
    """
    engine, X = job.engine, samples.X
    rows = np.arange(len(samples)) if rows is None else rows
    total = 0.0

    def add(part, D):
        nonlocal total
        block = preprocess_block(engine, layer, engine.to_device(take_rows(X, rows[part])))
        weight = samples.weight_of(rows[part])
        weight = None if weight is None else engine.to_device(weight)
        total = total + sum_block(block, D, weight)

    # `add` loads the rows once more: in their own dtype, and preprocessed.
    loaded_bytes = layer.n_features * (X.dtype.itemsize + layer.units.itemsize)
    consumer = Consumer(add, fixed_bytes=fixed_bytes, row_bytes=row_bytes + loaded_bytes)
    stream(job, layer.distances, X, consumer, rows)
    weight = samples.weight_of(rows)
    return engine.to_host(total) / (len(rows) if weight is None else weight.sum())
