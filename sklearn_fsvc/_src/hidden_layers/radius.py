"""Radii from data: one that selects about as many rows as asked for, one from distances."""

import math
from typing import NamedTuple

import numpy as np

from ..kernels import DISTANCE
from ..layers import RBFLayer

# Rows between which the distances behind radius="auto" are measured.
_SAMPLE = 1000
# Of them, those whose distances to all others are there at one time.
_AT_A_TIME = 125
# Novel rows grow as this power of the rows that were seen. Groups are seen one after the
# other, so with them the growth is that of the groups.
GROWTH, GROWTH_BY_GROUP = 0.7, 1.0
# The search for a selection radius ends with at least this part of the units asked for.
FILLED = 0.97
_MAX_PASSES = 24
# How far distances are from the smallest and the largest number: room for the radii that a search
# goes through, which are of float64, and for one over them.
_ROOM = {np.dtype(np.float64): 1e20, np.dtype(np.float32): 16.0}
# Where the radius falls by this factor, in logarithms, and finds no more rows, there seem to be
# no more that differ.
_PLATEAU = 3.0
# There are none if there are none at a radius so much smaller than the one that the search
# began with.
_SMALLEST = 30.0


class FoundRadius(NamedTuple):
    """What `search_radius` finds."""

    radius: float
    found: np.ndarray  # what the pass at that radius found
    beyond: float | None  # the largest radius that was seen to make more rows novel than wanted


def search_radius(count_at, start, wanted, n_rows, growth=GROWTH, least=0, enough=None):
    """The selection radius under which about `wanted` rows are novel, and never more.

    The number of centres falls with the radius, roughly as a power of it, so the search
    is a bracketed secant in logarithms. A pass with too many centres ends early and is
    worth an estimate.

    Parameters
    ----------
    count_at : callable
        ``count_at(radius) -> (found, n_seen)`` as `novel_rows` with ``limit=wanted``.
    start : float
        A radius to begin with.
    wanted, n_rows : int
        `wanted` at least what is novel at any radius, see `min_centers`.
    least : int
        What is novel at any radius.
    growth : float
        The power of the rows with which the count grows.
    enough : int, optional
        How many will do; 0.97 of `wanted` by default.

    Returns
    -------
    FoundRadius
        Of fewer than `enough` rows where the count jumps past them, or no more rows differ.
    """
    enough = max(1, int(FILLED * wanted)) if enough is None else enough
    above, below = None, None  # (log radius, log count): too many, few enough
    best, log_radius = None, np.log(start)
    smallest = log_radius - _SMALLEST
    for n_passes in range(_MAX_PASSES):
        found, n_seen = count_at(np.exp(log_radius))
        count = len(found)
        if count > wanted:
            # What the count would have been, had the pass gone on.
            above = log_radius, np.log(count * (n_rows / n_seen) ** growth)
        else:
            is_all = count > least and _is_plateau(above, below, log_radius, count)
            below = log_radius, np.log(count)
            if best is None or count > len(best[1]):
                best = np.exp(log_radius), found
            if count >= min(enough, n_rows) or log_radius == smallest:
                break
            if is_all:  # or so it seems: rows may lie in tight heaps
                log_radius = smallest
                continue
        target = np.log((enough + wanted) / 2)
        log_radius, settled = _next_log_radius(above, below, target, 2**n_passes)
        log_radius = max(log_radius, smallest)
        if settled:
            break
    return FoundRadius(*best, None if above is None else float(np.exp(above[0])))


def _is_plateau(above, below, log_radius, count):
    """Whether a far smaller radius finds no more rows."""
    if above is not None or below is None:
        return False
    return np.log(count) == below[1] and below[0] - log_radius > _PLATEAU


def _next_log_radius(above, below, target, stride):
    """Where to look next, and whether the bracket has closed.

    As long as one end is missing, steps grow with `stride`.
    """
    if above is None:
        return below[0] - stride * max(0.1, (target - below[1]) / 4), False
    if below is None:
        return above[0] + stride * max(0.1, (above[1] - target) / 4), False
    low, high = above[0], below[0]
    part = (above[1] - target) / max(above[1] - below[1], 1e-12)
    part = min(max(part, 0.1), 0.9)
    return low + part * (high - low), high - low < 1e-4


def check_squares(shown, metric):
    """Raise where squares of distances between rows are too small or too large for their dtype."""
    if metric == "manhattan":
        return
    block = shown.block(slice(_SAMPLE))
    numbers, (widest, span) = np.finfo(block.dtype), _widest(shown.engine, block)
    least, most = 10 * float(numbers.tiny) ** 0.5, (float(numbers.max) / block.shape[1]) ** 0.5
    if span and not least < span < most / 2:
        raise ValueError(
            f"metric={metric!r} squares the distances between rows of X, and feature {widest}, "
            f"which spans most, spans {span:g}: squares of such numbers are not held by "
            f'{block.dtype}. Scale the features of X (StandardScaler), or use metric="manhattan".'
        )


def _widest(engine, block):
    """The number of the feature that spans most, and its span."""
    most, least = (
        engine.to_host(a).astype(float) / 2 for a in (block.max(axis=0), block.min(axis=0))
    )
    widest = int((most - least).argmax())
    return widest, 2 * float(most[widest] - least[widest])


def typical_distance_bytes(X):
    """Bytes that `typical_distance` takes: each distance once, and some rows of them whole."""
    n = min(len(X), _SAMPLE)
    return n * (n // 2 * X.dtype.itemsize + min(n, _AT_A_TIME) * (2 * X.dtype.itemsize + 1))


def typical_distance(shown, metric):
    """The median distance between rows.

    Measured between the first 1000 rows of a `OrderedRows`. Where more than half of them
    coincide, the mean distance stands in for the median; where all do, it is 1. Distances that
    are no numbers of their dtype are refused.
    """
    distances = _distances(shown, metric)
    if not len(distances):
        return 1.0
    with np.errstate(over="ignore"):  # which is refused below
        median = float(_median(distances))
        typical = median or float(np.mean(distances, dtype=np.float64))
    numbers, room = np.finfo(distances.dtype), _ROOM[distances.dtype]
    if typical and not room * float(numbers.tiny) < typical < float(numbers.max) / room:
        widest, span = _widest(shown.engine, shown.block(slice(_SAMPLE)))
        raise ValueError(
            f"The rows of X are {typical:g} apart, of which no radius is made: feature {widest}, "
            "which spans most, spans "
            f"{span:g}. Scale the features of X (StandardScaler), or give a radius."
        )
    return typical or 1.0


def _median(numbers):
    """`numpy.median`, in half the time: parted once, and not for each of the two in the middle.

    The numbers are overwritten.
    """
    half = len(numbers) // 2
    numbers.partition(half)
    middle = numbers[half]
    return middle if len(numbers) % 2 else np.mean([numbers[:half].max(), middle])


def _distances(shown, metric):
    """Return the distances between each two of the first rows, in one dimension, on the host.

    They are few, and what picks them is not worth the kernels that a GPU would compile for it.
    """
    engine = shown.engine
    block = shown.block(slice(_SAMPLE))
    layer, numbers = RBFLayer(block, metric=metric, kernel=DISTANCE), np.arange(len(block))
    prepared, found = engine.prepare(layer), np.empty(math.comb(len(block), 2), layer.hidden_dtype)
    end = 0
    for start in range(0, len(block), _AT_A_TIME):
        rows = slice(start, start + _AT_A_TIME)
        distances = engine.to_host(engine.hidden(prepared, block[rows]))
        farther = distances[numbers > numbers[rows, None]]
        found[end : end + len(farther)] = farther
        end += len(farther)
    return found
