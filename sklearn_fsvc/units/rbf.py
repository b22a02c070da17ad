"""An RBF layer from data: which rows become centres, and how wide the units are."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..kernels import METRICS, Kernel, check_adds_up, kernel_of
from ..layers import RBFLayer, hidden_dtype
from ..parameters import check_choice, check_count, check_positive, check_positive_or_auto
from ..rows.streaming import take_in_any_order
from ..rows.tiling import rows_per_tile
from .automatic import (
    MOST_CENTERS,
    PART_OF_NATURAL_AT_RANDOM,
    PART_OF_ROWS,
    PART_OF_ROWS_OF_ONE_RADIUS,
)
from .novelty import (
    NoveltyRule,
    Presentation,
    first_novel_rows,
    least_novel,
    novel_rows,
    selection_bytes,
)
from .radius import FILLED, GROWTH, GROWTH_BY_GROUP, search_radius, typical_distance

SELECTIONS = ("per_class", "global", "random")

# Part of the natural radius at which the search for a selection radius begins.
_START = 0.9
# Rows of a block under which little memory is no reason to go.
_LEAST_BLOCK = 64


@dataclass(frozen=True)
class RBFRequest:
    """What the user asked of an RBF layer.

    Parameters
    ----------
    size_name : str
        Name of the parameter that `n_units` is.
    n_units : int or None
    radius, selection_radius, overlap, selection, metric, shuffle, random_state
        As of `RBFClassifier`.
    kernel : Kernel or str
        That of the rule of novelty.
    weights : ndarray of shape (n_features,), optional
        Rows are compared multiplied by them.
    is_tried : bool
        Whether ``radius="auto"`` is found later, by held-out error.
    part_of_natural : float
        How far it goes else from the selection radius to the natural radius.
    filled : float
        The part of `n_units` with which a search for a selection radius may end.
    """

    size_name: str
    n_units: int | None
    radius: float | str
    selection_radius: float | None
    overlap: float
    selection: str
    metric: str
    kernel: Kernel | str
    shuffle: bool
    random_state: Any
    weights: np.ndarray | None = None
    is_tried: bool = False
    part_of_natural: float = 0.0
    filled: float = FILLED

    def check(self):
        """Raise for what cannot be used."""
        check_choice("selection", self.selection, SELECTIONS)
        if self.selection != "random":
            check_adds_up(self.kernel)
        if self.n_units is not None:
            check_count(self.size_name, self.n_units)
        elif self.selection == "random" and not self.has_automatic_size:
            raise ValueError(
                f'{self.size_name}=None needs novelty; with selection="random" give a number.'
            )
        check_choice("metric", self.metric, METRICS)
        check_positive("overlap", self.overlap)
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
        return is_free and not (self.is_auto and self.is_tried)

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
        warnings.warn(
            f"{self.size_name}={self.n_units} is more than the {n_rows} rows that centres are "
            f"chosen from; there will be {n_rows} units.",
            stacklevel=2,
        )
        return replace(self, n_units=n_rows)


def presentation_order(samples, shuffle, random_state):
    """Row numbers in the order of presentation; rows of weight 0 are left out."""
    rows = samples.present
    return check_random_state(random_state).permutation(rows) if shuffle else rows


def fit_layer(request, job, samples, groups=None):
    """The RBF layer that was asked for.

    Parameters
    ----------
    request : RBFRequest
    job : Job
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
        ahead, job = job.anticipating(X, order, groups)
    room = _Room.of(job, len(order), X.shape[1], dtype.itemsize)
    room.check(job, request.n_units, X.shape[1])
    shown = Presentation(job.engine, ahead, order, groups, dtype, room.block_rows, request.weights)
    search = _Search(request, shown, room.most, job.verbose)
    at_random = request.selection == "random"
    rows, selection_radius = search.random_rows() if at_random else search.novel_rows()
    units = job.engine.to_host(take_in_any_order(X, rows, replace(request, weights=None).dtype(X)))
    layer = RBFLayer(units, search.radius(selection_radius), request.metric, request.kernel)
    return layer, rows, selection_radius


@dataclass(frozen=True)
class _Room:
    """What there is memory for: rows that are read in one go, and centres."""

    block_rows: int
    most: int

    @classmethod
    def of(cls, job, n_rows, n_features, itemsize):
        limit, block_rows = job.memory_limit, job.engine.block_rows
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
    """The rows and radii that a request means for the rows that are presented.

    Parameters
    ----------
    most : int
        Centres that there is memory for.
    verbose : int
        1 prints each pass of a search for the selection radius.
    """

    request: RBFRequest
    shown: Presentation
    most: int
    verbose: int

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
        return max(wanted, least_novel(self.shown, self.request.overlap))

    def all_novel(self, radius):
        """All rows that are novel."""
        found, _ = novel_rows(self.shown, self.rule(radius), self.most)
        if len(found) > self.most:
            raise ValueError(
                f"radius={radius:g} makes more than {self.most} rows novel, which is what "
                "max_memory holds. Give a larger radius, a number of units, or more memory."
            )
        return self.shown.order[found]

    def first_novel(self, n, radius):
        """The first `n` rows that are novel."""
        return self.shown.order[first_novel_rows(self.shown, self.rule(radius), n)]

    def searched(self, n):
        """About `n` novel rows, and the selection radius under which they are all."""
        start, least = _START * self.natural, least_novel(self.shown, self.request.overlap)
        if n < least:
            # No radius ends a pass so early: the first n that are novel.
            return self.first_novel(n, start), start
        growth = GROWTH if self.shown.groups is None else GROWTH_BY_GROUP
        radius, found = search_radius(
            lambda radius: self.count_at(radius, n), start, n, len(self.shown), growth, least,
            self.request.filled,
        )  # fmt: skip
        return self.shown.order[found], float(radius)

    def count_at(self, radius, n):
        """What one pass of the search finds, and how many rows it saw."""
        found, n_seen = novel_rows(self.shown, self.rule(radius), n)
        if self.verbose:
            n_rows = len(self.shown)
            seen = "" if n_seen == n_rows else f" in {n_seen:,} of {n_rows:,} rows"
            print(f"[selection] radius {radius:.6g}: {len(found):,} centres{seen}")
        return found, n_seen
