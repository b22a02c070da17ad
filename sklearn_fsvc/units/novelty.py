"""An RBF layer from data: which rows become centres, and how wide the units are.

Novelty selection (Dogaru & Dogaru, ISEEE 2017) is one pass without labels: a row becomes
a centre if the activities that it raises in the centres so far *sum* to less than the
overlap threshold. The rule is sequential, but has an exact blocked form: the activities of
a block of rows in the centres before it are one evaluation of the layer, and only rows
still under the threshold can matter; those are settled in order with their own kernel
matrix.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from ..kernels import METRICS, K, check_kernel
from ..layers import RBFLayer, hidden_dtype
from ..parameters import check_choice, check_count, check_positive, check_positive_or_auto
from ..rows.streaming import budget, take_rows
from ..rows.tiling import rows_per_tile

SELECTIONS = ("per_class", "global", "random")

# Centres whose activities are summed at a time.
_CHUNK_UNITS = 1024

# radius="auto". The best units lie between the selection radius and the median distance
# of rows (measured on MNIST, letter, optdigits and iris over 1 % to 65 % of the rows as
# units): this part of the way for a ridge readout. Random centres have the median alone.
AUTO_MEDIAN = 0.25
AUTO_RANDOM = 0.85
# With n_hidden=None the radius is the one that selects this part of the rows, where the
# same data sets peak, and no more units than a readout solves in seconds.
AUTO_PART = 0.25
AUTO_MOST = 4000
# Rows between which the distances behind radius="auto" are measured.
_SAMPLE = 1000
# Novel rows grow as this power of the rows that were seen. Groups are seen one after the
# other, so with them the growth is that of the groups.
_GROWTH, _GROWTH_BY_GROUP = 0.7, 1.0
# The search for a selection radius ends with at least this part of the units asked for.
_FILLED = 0.97
_MAX_PASSES = 24


@dataclass(frozen=True)
class NoveltyRule:
    """Which rows are novel: metric and kernel of the layer, radius and overlap threshold."""

    metric: str
    kernel: str
    radius: float
    overlap: float

    def layer(self, units):
        return RBFLayer(units, self.radius, self.metric, self.kernel)


def selection_bytes(block_rows, n_features, itemsize):
    """Bytes that `novel_rows` needs beside the centres themselves."""
    return block_rows * (4 * n_features * itemsize + (block_rows + _CHUNK_UNITS) * 8)


def rows_per_block(engine, n_features, itemsize, max_bytes):
    """Rows that novelty selection takes at a time: what suits the engine and fits.

    The centres are the same for every size, but for the rounding of sums in float64.
    """
    rows = engine.block_rows
    while rows > 64 and selection_bytes(rows, n_features, itemsize) > max_bytes:
        rows //= 2
    return rows


class _Centers:
    """Centres found so far, loaded in chunks: a full chunk is loaded once."""

    def __init__(self, engine, rule):
        self.engine, self.rule = engine, rule
        self.full, self.last = [], None

    def add(self, units):
        if self.last is not None:
            units = self.engine.xp.concatenate([self.last, units])
        while len(units) >= _CHUNK_UNITS:
            self.full.append(self._load(units[:_CHUNK_UNITS]))
            units = units[_CHUNK_UNITS:]
        self.last = units

    def _load(self, units):
        return self.engine.load(self.rule.layer(self.engine.xp.ascontiguousarray(units)))

    def activity(self, X):
        """Sum of the activities of all centres for each row, in float64."""
        loaded = list(self.full)
        if self.last is not None and len(self.last):
            loaded.append(self._load(self.last))
        total = self.engine.xp.zeros(len(X))
        for chunk in loaded:
            total += self.engine.hidden(chunk, X).sum(axis=1, dtype=np.float64)
        return total


def novel_rows(engine, X, order, rule, limit=None, dtype=None, block_rows=None):
    """Rows of X that novelty selection keeps.

    Parameters
    ----------
    engine : Engine
    X : array-like of shape (n_rows, n_features)
    order : ndarray of int
        Row numbers in the order of presentation.
    rule : NoveltyRule
    limit : int, optional
        Stop at the first row that is one more than this.
    dtype : dtype, optional
        dtype in which rows are compared; that of X by default.
    block_rows : int, optional
        Rows that are looked at in one go; what suits the engine by default.

    Returns
    -------
    found : ndarray of int
        Positions in `order`, ascending; ``order[found]`` are the rows.
    n_seen : int
        Rows that it took to find them: all, unless the limit was passed.
    """
    dtype = X.dtype if dtype is None else dtype
    step = block_rows or engine.block_rows
    centers, found, count = _Centers(engine, rule), [], 0
    for start in range(0, len(order), step):
        block = engine.to_device(take_rows(X, order[start : start + step], dtype))
        activity = centers.activity(block)
        kept = engine.novel(rule.layer(block), block, activity, rule.overlap)
        if len(kept):
            centers.add(block[kept])
            found.append(start + kept)
            count += len(kept)
        if limit is not None and count > limit:
            found = np.concatenate(found)[: limit + 1]
            return found, int(found[-1]) + 1
    return np.concatenate(found), len(order)


def novel_rows_by_group(
    engine, X, order, groups, rule, limit=None, dtype=None, block_rows=None
):  # fmt: skip
    """Novelty selection inside each group, as if each group were the only data.

    `groups` holds a code for each row of X, or is None for one group. The answer is that
    of `novel_rows`, in the order of presentation. With `limit`, groups that were not
    reached once more rows than that were found are left out.
    """
    if groups is None:
        return novel_rows(engine, X, order, rule, limit, dtype, block_rows)
    in_order = groups[order]
    found, count, seen = [], 0, 0
    for code in np.unique(in_order):
        positions = np.flatnonzero(in_order == code)
        left = None if limit is None else limit - count
        kept, n_seen = novel_rows(engine, X, order[positions], rule, left, dtype, block_rows)
        found.append(positions[kept])
        count, seen = count + len(kept), seen + n_seen
        if limit is not None and count > limit:
            break
    return np.sort(np.concatenate(found)), seen


def first_novel_rows(engine, X, order, groups, rule, n, dtype=None, block_rows=None):
    """The first `n` rows that novelty selection finds, in the order of presentation.

    A smaller `n` gives a prefix. Each group may have to give all `n`, so none is cut short
    by the others.
    """
    if groups is None:
        return novel_rows(engine, X, order, rule, n, dtype, block_rows)[0][:n]
    in_order = groups[order]
    found = []
    for code in np.unique(in_order):
        positions = np.flatnonzero(in_order == code)
        kept, _ = novel_rows(engine, X, order[positions], rule, n, dtype, block_rows)
        found.append(positions[kept])
    return np.sort(np.concatenate(found))[:n]


def least_novel(overlap, groups, order):
    """How many rows may be novel however large the radius: each group's first ones.

    Activities stay below 1 for rows that differ, so the sum over floor(overlap) centres
    stays below the threshold.
    """
    n_groups = 1 if groups is None else len(np.unique(groups[order]))
    return (int(overlap) + 1) * n_groups


def search_radius(count_at, start, wanted, n_rows, growth=_GROWTH):
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


def median_radius(engine, X, rows, metric, dtype):
    """The radius whose triangle ends (K radius) at the median distance between rows.

    Measured between the first 1000 of `rows`. Where more than half of them coincide, the
    mean distance stands in for the median; where all do, the radius is 1.
    """
    xp = engine.xp
    block = engine.to_device(take_rows(X, rows[:_SAMPLE], dtype))
    layer = RBFLayer(block, metric=metric, kernel="distance")
    D = engine.hidden(engine.load(layer), block)
    distances = D[xp.triu_indices(len(block), 1)]
    if not len(distances):
        return 1.0
    return float((xp.median(distances) or xp.mean(distances)) / K) or 1.0


def choose_rows(
    engine, X, order, groups, rule, *, n, most, radius, start, dtype, block_rows=None, verbose=0
):  # fmt: skip
    """The rows that become centres by novelty, in the order of presentation.

    Parameters
    ----------
    rule : callable
        ``rule(radius)`` is the NoveltyRule at that radius.
    n : int or None
        How many at most; None keeps all that are novel.
    most : int
        How many there is memory for.
    radius : float or None
        The selection radius; None searches the one under which about `n` rows are novel,
        from `start` on.
    order, groups, dtype, block_rows
        As `novel_rows_by_group`.

    Returns
    -------
    rows : ndarray of int
    radius : float
        The selection radius that was used.
    """
    here = {"dtype": dtype, "block_rows": block_rows}
    if n is None:
        found, _ = novel_rows_by_group(engine, X, order, groups, rule(radius), most, **here)
        if len(found) > most:
            raise ValueError(
                f"radius={radius:g} makes more than {most} rows novel, which is what "
                "max_memory holds. Give a larger radius, a number of units, or more memory."
            )
        return order[found], radius
    if radius is None and n < least_novel(rule(start).overlap, groups, order):
        radius = start  # no radius ends a pass so early: the first n that are novel
    if radius is not None:
        found = first_novel_rows(engine, X, order, groups, rule(radius), n, **here)
        return order[found], radius

    def count_at(radius):
        found, n_seen = novel_rows_by_group(engine, X, order, groups, rule(radius), n, **here)
        if verbose:
            more = "" if n_seen == len(order) else f" in {n_seen:,} of {len(order):,} rows"
            print(f"[selection] radius {radius:.6g}: {len(found):,} centres{more}")
        return found, n_seen

    growth = _GROWTH if groups is None else _GROWTH_BY_GROUP
    radius, found = search_radius(count_at, start, n, len(order), growth)
    return order[found], float(radius)


def check_parameters(estimator, size_name, selections):
    """Raise for a parameter of an RBF layer that cannot be used."""
    n = getattr(estimator, size_name)
    check_choice("selection", estimator.selection, selections)
    if n is not None:
        check_count(size_name, n)
    elif estimator.selection == "random":
        raise ValueError(f'{size_name}=None needs novelty; with selection="random" give a number.')
    check_choice("metric", estimator.metric, METRICS)
    check_kernel(estimator.kernel)
    check_positive("overlap", estimator.overlap)
    check_positive_or_auto("radius", estimator.radius)
    if estimator.selection_radius is not None:
        check_positive("selection_radius", estimator.selection_radius)


def presentation_order(n_rows, weight, shuffle, random_state):
    """Row numbers in the order of presentation; rows of weight 0 are left out."""
    order = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
    return check_random_state(random_state).permutation(order) if shuffle else order


def _block_and_most(max_memory, engine, n_rows, n, n_features, dtype):
    """Rows of a block, and how many centres there is memory for.

    Raises ValueError if that is fewer than `n`.
    """
    memory = budget(engine, max_memory)
    block_rows = rows_per_block(engine, n_features, dtype.itemsize, memory // 2)
    # A centre is kept as a row, loaded into the engine, and copied as the layer is made.
    fixed = selection_bytes(block_rows, n_features, dtype.itemsize)
    most = rows_per_tile(n_rows, 3 * n_features * dtype.itemsize, fixed, memory, n_rows)
    if n is not None and n > most:
        raise ValueError(
            f"max_memory={max_memory!r} is too small for {n} units of {n_features} features. "
            "Raise max_memory, or ask for fewer units."
        )
    return block_rows, most


def fit_layer(estimator, engine, X, order, groups, n, median_part, max_memory):
    """The RBF layer of an estimator with the parameters that `check_parameters` names.

    Parameters
    ----------
    n : int or None
        Units asked for.
    median_part : float
        How far ``radius="auto"`` goes from the selection radius to the median radius.
    max_memory : int, str or None

    Returns
    -------
    layer : RBFLayer
    rows : ndarray of int
        The rows of X that are its centres.
    selection_radius : float or None
        None for random centres.
    """
    if n is not None and n > len(order):
        raise ValueError(
            f"{n} hidden units are more than the {len(order)} rows they are chosen from; "
            "ask for fewer."
        )
    metric, kernel, radius = estimator.metric, estimator.kernel, estimator.radius
    dtype = X.dtype if metric == "manhattan" else hidden_dtype(X.dtype)
    block_rows, most = _block_and_most(max_memory, engine, len(order), n, X.shape[1], dtype)
    auto = isinstance(radius, str)
    median = median_radius(engine, X, order, metric, dtype) if auto or n else None
    if estimator.selection == "random":
        random_state = check_random_state(estimator.random_state)
        shuffled = order if estimator.shuffle else random_state.permutation(order)
        rows, selection_radius = shuffled[:n], None
        radius = AUTO_RANDOM * median if auto else radius
    else:
        selection_radius, wanted = estimator.selection_radius, n
        groups = None if estimator.selection == "global" else groups
        if n is None and selection_radius is None:
            median_part = 0.0  # one radius for both
            selection_radius = None if auto else radius
            if auto:
                wanted = min(int(AUTO_PART * len(order)), AUTO_MOST)
                wanted = max(wanted, least_novel(estimator.overlap, groups, order))
        rows, selection_radius = choose_rows(
            engine, X, order, groups,
            lambda radius: NoveltyRule(metric, kernel, radius, estimator.overlap),
            n=wanted, most=most, radius=selection_radius, start=0.9 * (median or 1.0), dtype=dtype,
            block_rows=block_rows, verbose=estimator.verbose,
        )  # fmt: skip
        if auto:
            radius = median_part * median + (1 - median_part) * selection_radius
    units = engine.to_host(take_rows(X, rows, dtype))
    layer = RBFLayer(units, float(radius), metric, kernel)
    return layer, rows, selection_radius
