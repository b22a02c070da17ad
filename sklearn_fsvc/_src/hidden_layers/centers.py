"""An RBF layer from data: which rows become centres, and how wide the units are."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..data.job import say
from ..data.streaming import take_in_any_order
from ..data.tiling import rows_per_tile
from ..kernels import METRICS, Kernel, check_adds_up, kernel_of
from ..layers import RBFLayer, hidden_dtype
from ..utils.parameters import (
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_positive_or_auto,
)
from ..utils.user_warnings import warn
from .defaults import (
    MOST_CENTERS,
    PART_OF_NATURAL_AT_RANDOM,
    PART_OF_ROWS,
    PART_OF_ROWS_OF_ONE_RADIUS,
)
from .novelty import (
    NoveltyRule,
    OrderedRows,
    first_novel_rows,
    min_centers,
    novel_rows,
    selection_bytes,
)
from .radius import FILLED, GROWTH, GROWTH_BY_GROUP, check_squares, search_radius, typical_distance

# What the user asks of an RBF layer: how many centres, which ones, and how wide the units are.

SELECTIONS = ("per_class", "global", "random")


@dataclass(frozen=True)
class RBFRequest:
    """What the user asked of an RBF layer."""

    size_name: str  # name of the parameter that `n_units` is
    n_units: int | None
    # As of `RBFClassifier`.
    radius: float | str
    selection_radius: float | None
    overlap: float
    selection: str
    metric: str
    kernel: Kernel | str  # that of the rule of novelty
    shuffle: bool
    random_state: Any
    # (n_features,) or (n_features, n_inputs): rows are compared multiplied by them, weights or a
    # linear map.
    weights: np.ndarray | None = None
    is_searched: bool = False  # whether ``radius="auto"`` is found later, by held-out error
    # How far it goes else from the selection radius to the natural radius.
    part_of_natural: float = 0.0
    # The part of `n_units` with which a search for a selection radius may end; None for all of
    # them.
    filled: float | None = None

    def check(self, selects=True):
        """Raise for what cannot be used, where centres are selected and not given."""
        check_choice("selection", self.selection, SELECTIONS)
        is_random = selects and self.selection == "random"
        if not is_random:
            check_adds_up(self.kernel)
        if self.n_units is not None:
            check_count(self.size_name, self.n_units)
        elif is_random and not self.has_automatic_size:
            raise ValueError(
                f'{self.size_name}=None needs novelty; with selection="random" give a number.'
            )
        check_choice("metric", self.metric, METRICS)
        check_positive("overlap", self.overlap)
        check_flag("shuffle", self.shuffle)
        check_positive_or_auto("radius", self.radius)
        if self.selection_radius is not None:
            check_positive("selection_radius", self.selection_radius)

    @property
    def is_auto(self):
        """Whether the radius is read off the data."""
        return isinstance(self.radius, str)

    @property
    def has_one_radius(self):
        """Whether the radius selects and shapes the units alike."""
        is_free = self.n_units is None and self.selection_radius is None
        return is_free and not (self.is_auto and self.is_searched)

    @property
    def has_automatic_size(self):
        """Whether neither a number nor a radius says how many centres."""
        return self.n_units is None and self.selection_radius is None and self.is_auto

    @property
    def given_selection_radius(self):
        """The radius to select at; None where it has to be searched."""
        if self.has_one_radius:
            return None if self.is_auto else self.radius
        return self.selection_radius

    def dtype(self, X):
        """dtype in which rows are compared."""
        is_as_it_is = self.metric == "manhattan" and self.weights is None
        return X.dtype if is_as_it_is else hidden_dtype(X.dtype)

    def of_rows(self, n_rows):
        """The request for so many rows: no more units than those."""
        if self.n_units is None or self.n_units <= n_rows:
            return self
        warn(
            f"{self.size_name}={self.n_units} is more than the {n_rows} rows that centres are "
            f"chosen from; there will be {n_rows} units. A layer that was chosen stays, also where "
            "more rows come by partial_fit: begin with as many rows as units, or give a layer."
        )
        return replace(self, n_units=n_rows)


# Part of the natural radius at which the search for a selection radius begins.
_START = 0.9
# Rows of a block under which little memory is no reason to go.
_LEAST_BLOCK = 64


def presentation_order(samples, shuffle, random_state):
    """Row numbers in the order of presentation; rows of weight 0 are left out."""
    rows = samples.present
    return check_random_state(random_state).permutation(rows) if shuffle else rows


def fit_layer(request, job, samples, groups=None):
    """The RBF layer that was asked for.

    Parameters
    ----------
    samples : Samples
        With an order.
    groups : ndarray of int of shape (n_rows,), optional
        Codes of the groups in each of which rows are novel, of all rows.

    Returns
    -------
    layer : RBFLayer
        Its units are the rows as they came, also where `request` has weights.
    rows : ndarray of int
        The rows of X that are its centres.
    selection_radius : float or None
        None for random centres.
    """
    X, order = samples.X, samples.order
    request, dtype = request.of_rows(len(order)), request.dtype(X)
    ahead = X
    if request.selection != "random":
        ahead, job = job.prefetching(X, order, groups)
    n_features = X.shape[1]
    if request.weights is not None:
        n_features = max(request.weights.shape[-1], n_features)
    room = MemoryPlan.of(job, len(order), n_features, dtype.itemsize)
    room.check(job, request.n_units, X.shape[1])
    shown = OrderedRows(
        job.engine, ahead, order, groups, dtype, room.block_rows, request.weights,
        min(job.engine.group_bytes, job.memory_limit // 4),
    )  # fmt: skip
    check_squares(shown, request.metric)
    search = _Search(request, shown, room.most, job.verbose, job.what)
    at_random = request.selection == "random"
    rows, selection_radius = search.random_rows() if at_random else search.novel_rows()
    units = job.engine.to_host(take_in_any_order(X, rows, replace(request, weights=None).dtype(X)))
    layer = RBFLayer(units, search.radius(selection_radius), request.metric, request.kernel)
    return layer, rows, selection_radius


@dataclass(frozen=True)
class MemoryPlan:
    """What there is memory for: rows that are read in one go, and centres."""

    block_rows: int
    most: int

    @classmethod
    def of(cls, job, n_rows, n_features, itemsize):
        limit, block_rows = job.memory_limit, min(job.engine.block_rows, n_rows)
        while block_rows > _LEAST_BLOCK and (
            selection_bytes(job.engine, block_rows, n_features, itemsize) > limit // 2
        ):
            block_rows //= 2
        # A centre is kept as a row, loaded into the engine, and copied as the layer is made.
        fixed = selection_bytes(job.engine, block_rows, n_features, itemsize)
        return cls(
            block_rows, rows_per_tile(n_rows, 3 * n_features * itemsize, fixed, limit, n_rows)
        )

    def check(self, job, n_units, n_features):
        """Raise if there is no memory for so many centres."""
        if n_units is not None and n_units > self.most:
            raise ValueError(
                f"max_memory={job.max_memory!r} is too small for {n_units} units of {n_features} "
                "features. Raise max_memory, or ask for fewer units."
            )


@dataclass(frozen=True, eq=False)
class _Search:
    """The rows and radii that a request means for the rows that are presented."""

    request: RBFRequest
    shown: OrderedRows
    most: int  # centres that there is memory for
    verbose: int  # 1 prints how far a search for the selection radius is, 2 each of its passes
    what: str  # who selects, for people to read

    @cached_property
    def natural(self):
        """The radius that goes with the distances between the rows."""
        distance = typical_distance(self.shown, self.request.metric)
        return kernel_of(self.request.kernel).natural_radius(distance)

    def rule(self, radius):
        return NoveltyRule(self.request.metric, self.request.kernel, radius, self.request.overlap)

    def radius(self, selection_radius):
        """The width of the units."""
        if not self.request.is_auto:
            return float(self.request.radius)
        if selection_radius is None:
            return float(PART_OF_NATURAL_AT_RANDOM * self.natural)
        part = 0.0 if self.request.has_one_radius else self.request.part_of_natural
        return float(part * self.natural + (1 - part) * selection_radius)

    def random_rows(self):
        """The rows, and no selection radius."""
        order = self.shown.order
        if not self.request.shuffle:  # else they come in random order already
            order = check_random_state(self.request.random_state).permutation(order)
        n = self.request.n_units
        return order[: self.automatic_size if n is None else n], None

    def novel_rows(self):
        """The rows in the order of presentation, and the selection radius."""
        n, radius = self.request.n_units, self.request.given_selection_radius
        if radius is None:
            return self.searched(self.automatic_size if n is None else n)
        return (self.all_novel(radius) if n is None else self.first_novel(n, radius)), radius

    @property
    def automatic_size(self):
        """How many centres neither a number nor a radius stands for."""
        part = PART_OF_ROWS_OF_ONE_RADIUS if self.request.has_one_radius else PART_OF_ROWS
        wanted = min(int(part * len(self.shown)), MOST_CENTERS)
        return max(wanted, min_centers(self.shown, self.request.overlap))

    def all_novel(self, radius):
        found, _ = novel_rows(self.shown, self.rule(radius), self.most)
        if len(found) > self.most:
            raise ValueError(
                f"radius={radius:g} makes more than {self.most} rows novel, which is what "
                "max_memory holds. Give a larger radius, a number of units, or more memory."
            )
        return self.shown.order[found]

    def first_novel(self, n, radius):
        return self.shown.order[first_novel_rows(self.shown, self.rule(radius), n)]

    def searched(self, n):
        """The first `n` novel rows at a radius that makes few more novel, and the radius."""
        start, least = _START * self.natural, min_centers(self.shown, self.request.overlap)
        if n < least:
            # No radius ends a pass so early: the first n that are novel.
            return self.first_novel(n, start), start
        growth = GROWTH if self.shown.groups is None else GROWTH_BY_GROUP
        most, enough = self.searched_sizes(n)
        radius, found, beyond = search_radius(
            lambda radius: self.count_at(radius, most), start, most, len(self.shown), growth,
            least, enough,
        )  # fmt: skip
        if len(found) < enough:
            if beyond is not None:  # the count jumps past `n`
                return self.first_novel(n, beyond), beyond
            self.warn_of(len(found))
        return self.shown.order[found[:n]], float(radius)

    def searched_sizes(self, n):
        """How many novel rows a search for `n` may end with: at most, and at least."""
        # An automatic size is about that, and its radius makes no more rows novel.
        part = FILLED if self.request.n_units is None else self.request.filled
        return (ceil(n / FILLED), n) if part is None else (n, max(1, int(part * n)))

    def warn_of(self, n_found):
        """Say that rows do not suffice for what was asked for."""
        if self.request.n_units is not None and self.request.filled is None:
            warn(
                f"{self.request.size_name}={self.request.n_units}, and only {n_found} rows differ "
                f"enough to be centres; there will be {n_found} units."
            )

    def count_at(self, radius, n):
        """What one pass of the search finds, and how many rows it saw."""
        found, n_seen = novel_rows(self.shown, self.rule(radius), n)
        if self.verbose:
            text = f"choosing hidden units: {len(found):,} found, about {n:,} wanted"
            seen = f"; radius {radius:.6g}, {n_seen:,} of {len(self.shown):,} rows seen"
            say(self.what, text, self.verbose, seen)
        return found, n_seen
