"""Radii from data: a selection radius for a number of centres, and the median distance."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels import DISTANCE
from ..layers import RBFLayer
from .ordered_samples import OrderedSamples

# The number of novel samples grows roughly as this power of the number of samples that were seen.
# Groups are processed one after another, so with groups it grows linearly with their number.
GROWTH, GROUP_GROWTH = 0.7, 1.0
# The search for a selection radius ends with at least this fraction of the centres.
MIN_FRACTION = 0.97
_MAX_PASSES = 24
# The bracket of a search has converged at this width of log(radius).
_TOLERANCE = 1e-4
# If log(radius) falls by this much and the number of centres stays the same, no other samples
# seem to differ ...
_PLATEAU = 3.0
# ... and none do if it is the same at the smallest radius, whose logarithm is lower by this much
# than that of the initial one.
_LOG_RANGE = 30.0

# Number of samples whose pairwise distances are measured, and of those in a block.
_N_SAMPLES, _BLOCK_ROWS = 1000, 125
# Minimum ratio of a distance to the smallest positive number, and of the largest number to a
# distance. It leaves room for the radii of a search, which are float64, and for their inverse.
_RANGE_MARGIN = {np.dtype(np.float64): 1e20, np.dtype(np.float32): 16.0}


class SelectionRadius(NamedTuple):
    """The result of `search_radius`."""

    radius: float
    rows: npt.NDArray  # the novel samples at that radius
    next_radius: float | None  # the largest radius with more novel samples than wanted, if any


def search_radius(
    count_at: Callable[[float], tuple[npt.NDArray, int]],
    start: float,
    wanted: int,
    n_rows: int,
    growth: float = GROWTH,
    min_count: int = 0,
    enough: int | None = None,
) -> SelectionRadius:
    """Search the selection radius at which about `wanted` samples are novel, and not more.

    The number of centres falls with the radius, roughly as a power of it. So the search is a
    bracketed secant method for log(count) as a function of log(radius). A pass with too many
    centres ends early; the count it would have reached is extrapolated.

    Parameters
    ----------
    count_at : callable
        ``count_at(radius) -> (rows, n_seen)``, as `novel_rows` with ``limit=wanted``.
    start : float
        The initial radius.
    wanted, n_rows : int
        `wanted` is at least `min_count`.
    growth : float
        The number of novel samples grows as this power of the number of samples.
    min_count : int
        The number of samples that are novel at any radius, see `min_centers`.
    enough : int, optional
        The number at which the search ends; by default 0.97 of `wanted`.

    Returns
    -------
    SelectionRadius
        With fewer than `enough` rows if the count jumps from fewer to more than `wanted`, or if
        no other samples differ.
    """
    enough = max(1, int(MIN_FRACTION * wanted)) if enough is None else enough
    # The ends of the bracket, (log radius, log count): with too many, and with few enough centres.
    too_many: tuple[float, float] | None = None
    few_enough: tuple[float, float] | None = None
    best: tuple[float, npt.NDArray] | None = None  # the radius with most rows, and these
    log_radius = np.log(start)
    smallest = log_radius - _LOG_RANGE
    for n_passes in range(_MAX_PASSES):
        rows, n_seen = count_at(np.exp(log_radius))
        count = len(rows)
        if count > wanted:
            # The pass ended after n_seen rows: extrapolate the count to all rows.
            too_many = log_radius, np.log(count * (n_rows / n_seen) ** growth)
        else:
            is_plateau = count > min_count and _is_plateau(too_many, few_enough, log_radius, count)
            few_enough = log_radius, np.log(count)
            if best is None or count > len(best[1]):
                best = np.exp(log_radius), rows
            if count >= min(enough, n_rows) or log_radius == smallest:
                break
            if is_plateau:  # all samples may be novel already, or there are dense clusters
                log_radius = smallest
                continue
        target = np.log((enough + wanted) / 2)
        log_radius, has_converged = _next_log_radius(too_many, few_enough, target, 2**n_passes)
        log_radius = max(log_radius, smallest)
        if has_converged:
            break
    assert best is not None  # some radius on the way up has few enough centres
    return SelectionRadius(*best, None if too_many is None else float(np.exp(too_many[0])))


def _is_plateau(too_many, few_enough, log_radius, count):
    """Return whether a far smaller radius yields the same number of centres."""
    if too_many is not None or few_enough is None:
        return False
    return np.log(count) == few_enough[1] and few_enough[0] - log_radius > _PLATEAU


def _next_log_radius(too_many, few_enough, target, stride):
    """Return the next radius to try, and whether the bracket has converged.

    While one end of the bracket is missing, the steps towards it grow with `stride`. Then the
    secant gives the next point, at least a tenth of the bracket away from either end.
    """
    if too_many is None:
        return few_enough[0] - stride * max(0.1, (target - few_enough[1]) / 4), False
    if few_enough is None:
        return too_many[0] + stride * max(0.1, (too_many[1] - target) / 4), False
    low, high = too_many[0], few_enough[0]
    fraction = (too_many[1] - target) / max(too_many[1] - few_enough[1], 1e-12)
    fraction = min(max(fraction, 0.1), 0.9)
    return low + fraction * (high - low), high - low < _TOLERANCE


def check_squares(ordered: OrderedSamples, metric: str) -> None:
    """Raise ValueError if squared distances between samples overflow or underflow their dtype."""
    if metric == "manhattan":
        return
    found = widest_square(ordered)
    if found is not None:
        widest, span, dtype = found
        remedy = "Scale the features of X (StandardScaler), "
        if dtype != np.float64:
            remedy += "pass float64, "
        raise ValueError(
            f"metric={metric!r} squares the distances between rows of X, and feature {widest}, "
            f"which has the largest range, spans {span:g}: the squares overflow or underflow in "
            f'{dtype}. {remedy}or use metric="manhattan" of the RBF network.'
        )


def widest_square(ordered: OrderedSamples) -> tuple[int, float, np.dtype] | None:
    """Return the feature of the largest range, the range and its dtype if its square overflows.

    Or if it underflows; otherwise None.
    """
    block = ordered.block(slice(_N_SAMPLES))
    limits, (widest, span) = np.finfo(block.dtype), _widest_feature(ordered.engine, block)
    smallest, largest = 10 * float(limits.tiny) ** 0.5, (float(limits.max) / block.shape[1]) ** 0.5
    return (widest, span, block.dtype) if span and not smallest < span < largest / 2 else None


def _widest_feature(engine, block):
    """Return the index of the feature with the largest range, and the range."""
    # Halves, because the difference of two finite values may overflow.
    maxima, minima = (
        engine.to_host(a).astype(float) / 2 for a in (block.max(axis=0), block.min(axis=0))
    )
    widest = int((maxima - minima).argmax())
    return widest, 2 * float(maxima[widest] - minima[widest])


def typical_distance_bytes(X: Any) -> int:
    """Return the bytes that `typical_distance` needs: all distances, and those of a block twice."""
    n = min(len(X), _N_SAMPLES)
    return n * (n // 2 * X.dtype.itemsize + min(n, _BLOCK_ROWS) * (2 * X.dtype.itemsize + 1))


def typical_distance(ordered: OrderedSamples, metric: str) -> float:
    """Return the median distance between the first 1000 samples in the order of presentation.

    If more than half of the distances are 0, the mean is used instead, and 1 if all are 0. Raise
    ValueError if it overflows or underflows the dtype of distances.
    """
    distances = _pairwise_distances(ordered, metric)
    if not len(distances):
        return 1.0
    with np.errstate(over="ignore"):  # refused below
        median = float(_median_in_place(distances))
        typical = median or float(np.mean(distances, dtype=np.float64))
    limits, margin = np.finfo(distances.dtype), _RANGE_MARGIN[distances.dtype]
    if typical and not margin * float(limits.tiny) < typical < float(limits.max) / margin:
        block = ordered.block(slice(_N_SAMPLES))
        widest, span = _widest_feature(ordered.engine, block)
        raise ValueError(
            f"The rows of X are {typical:g} apart, for which there is no suitable radius: feature "
            f"{widest}, which has the largest range, spans {span:g}. Scale the features of X "
            "(StandardScaler), or pass a radius."
        )
    return typical or 1.0


def _median_in_place(values):
    """Return the median, in half the time of `numpy.median`; `values` are reordered.

    `numpy.median` partitions for both of the middle elements. One partition is enough: the lower
    one is the maximum of the lower half.
    """
    half = len(values) // 2
    values.partition(half)
    middle = values[half]
    return middle if len(values) % 2 else np.mean([values[:half].max(), middle])


def _pairwise_distances(ordered, metric):
    """Return the distances between all pairs of the first samples, (n_pairs,), on the host."""
    engine = ordered.engine
    block = ordered.block(slice(_N_SAMPLES))
    layer, indices = RBFLayer(block, metric=metric, kernel=DISTANCE), np.arange(len(block))
    prepared, n_pairs = engine.prepare(layer), math.comb(len(block), 2)
    distances = np.empty(n_pairs, layer.hidden_dtype)
    end = 0
    for start in range(0, len(block), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        # The upper triangle is extracted on the host: a GPU would have to compile kernels for it.
        D = engine.to_host(engine.hidden(prepared, block[rows]))
        upper = D[indices > indices[rows, None]]
        distances[end : end + len(upper)] = upper
        end += len(upper)
    return distances
