"""Radii from data: one that selects about as many rows as asked for, one from distances."""

import numpy as np

from ..kernels import DISTANCE
from ..layers import RBFLayer

# Rows between which the distances behind radius="auto" are measured.
_SAMPLE = 1000
# Novel rows grow as this power of the rows that were seen. Groups are seen one after the
# other, so with them the growth is that of the groups.
GROWTH, GROWTH_BY_GROUP = 0.7, 1.0
# The search for a selection radius ends with at least this part of the units asked for.
_FILLED = 0.97
_MAX_PASSES = 24


def search_radius(count_at, start, wanted, n_rows, growth=GROWTH):
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
        `wanted` at least what is novel at any radius, see `least_novel`.
    growth : float
        The power of the rows with which the count grows.

    Returns
    -------
    radius : float
    found : ndarray of int
        What the pass at that radius found.
    """
    enough = max(1, int(_FILLED * wanted))
    above, below = None, None  # (log radius, log count): too many, few enough
    best, log_radius = None, np.log(start)
    for n_passes in range(_MAX_PASSES):
        found, n_seen = count_at(np.exp(log_radius))
        count = len(found)
        if count > wanted:
            # What the count would have been, had the pass gone on.
            above = log_radius, np.log(count * (n_rows / n_seen) ** growth)
        else:
            below = log_radius, np.log(count)
            if best is None or count > len(best[1]):
                best = np.exp(log_radius), found
            if count >= enough or (n_rows <= wanted and count == n_rows):
                break
        target = np.log((enough + wanted) / 2)
        log_radius, settled = _next_log_radius(above, below, target, 2**n_passes)
        if settled:
            break
    return best


def _next_log_radius(above, below, target, stride):
    """Where to look next, and whether the bracket has closed or cannot be found.

    As long as one end is missing, steps grow with `stride`.
    """
    if above is None:
        return below[0] - stride * max(0.1, (target - below[1]) / 4), below[0] < -300
    if below is None:
        return above[0] + stride * max(0.1, (above[1] - target) / 4), False
    low, high = above[0], below[0]
    part = (above[1] - target) / max(above[1] - below[1], 1e-12)
    part = min(max(part, 0.1), 0.9)
    return low + part * (high - low), high - low < 1e-4


def natural_radius(shown, metric, kernel):
    """The natural radius of the kernel at the median distance between rows.

    Measured between the first 1000 rows of a `Presentation`. Where more than half of them
    coincide, the mean distance stands in for the median; where all do, the radius is 1.
    """
    engine, xp = shown.engine, shown.engine.xp
    block = shown.block(slice(_SAMPLE))
    layer = RBFLayer(block, metric=metric, kernel=DISTANCE)
    D = engine.hidden(engine.prepare(layer), block)
    distances = D[xp.triu_indices(len(block), 1)]
    if not len(distances):
        return 1.0
    typical = xp.median(distances) or xp.mean(distances)
    return float(kernel.natural_radius(typical)) or 1.0
