"""Parameters of RBF units, and the selection of their centres.

The centres are training samples: novel ones (see `novelty`), or random ones. If a number of units
is given and no selection radius, the radius is searched at which about that many samples are
novel (see `radius`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.memory_plan import rows_per_tile
from ..data.rows import take_unsorted_rows
from ..data.samples import Samples
from ..kernels import LAPLACIAN, METRICS, TRIANGULAR, Kernel, check_non_negative, get_kernel
from ..layers import RBFLayer, hidden_dtype
from ..utils.parameters import (
    check_bool,
    check_choice,
    check_positive,
    check_positive_integer,
    check_positive_or_auto,
    check_random_state,
    is_option,
)
from ..utils.user_warnings import warn
from .novelty import first_novel_rows, min_centers, novel_rows, selection_bytes
from .ordered_samples import NoveltyRule, OrderedSamples
from .parameters import is_learned
from .radius import (
    GROUP_GROWTH,
    GROWTH,
    MIN_FRACTION,
    check_squares,
    search_radius,
    typical_distance,
)

SELECTIONS = ("per_class", "global", "random")

# If neither a number of units nor a radius is given: this fraction of the samples, less if one
# radius is used for both the selection and the units, and at most `Engine.max_automatic_units`.
_SIZE_FRACTION, _SIZE_FRACTION_OF_ONE_RADIUS = 0.75, 0.25
# All samples are centres, as in a kernel machine, up to this number of them, for higher scores
# (`benchmarks/hidden_sizes.py`), and if there are no more samples than features: the accuracy on
# MiniRocket features of six datasets rose by 0.6 points, and no other result got worse.
_ALL_SAMPLES = 1000
# The ridge penalty of RBF units at which searches begin, and by which feature weights are learned.
START_ALPHA = 0.1

# Samples per unit among which centres are selected, if the selection radius is searched: all 60,000
# images of MNIST take longer, and are no better for 400 and 1500 units. Of a rare class, so many
# are kept at least.
_ROWS_PER_UNIT, _MIN_ROWS_OF_GROUP = 16, 2000

# radius="auto" without a search by validation error. Triangles must reach the neighbouring
# centres: the best width is at this fraction of the way from the selection radius to the natural
# radius (measured on four datasets with 1 % to 65 % of the samples as units). Random centres have
# no selection radius; their width is a fraction of the natural radius.
_NATURAL_FRACTION = 0.25
_NATURAL_FRACTION_AT_RANDOM = 0.85

# The search for a selection radius starts at this multiple of the natural radius.
_SEARCH_START = 0.9
# Blocks of samples are not halved below this size to save memory.
_MIN_BLOCK_ROWS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class RBFParameters:
    """Parameters of RBF units, named as in `RBFClassifier`, and what they imply."""

    size_name: str = "n_hidden"  # the parameter whose value is `n_units`
    n_units: int | None = None
    radius: float | str = "auto"
    selection_radius: float | None = None
    overlap: float = 1.0
    selection: str = "global"
    metric: str = "manhattan"
    kernel: Kernel | str = "triangular"
    feature_weights: Any = None
    shuffle: bool = True
    random_state: Any = None
    # Whether there is a readout: kernel and feature weights may then be "auto".
    has_readout: bool = False
    # Whether the validation error of ridge readouts is a suitable criterion for that readout.
    allow_search: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether parameters that are "auto" are selected by validation error."""
        return self.allow_search if self.has_readout else self.learned is not None

    @property
    def learned(self) -> str | None:
        """The way to learn feature weights that is named; None if they are not, or "auto"."""
        return self.feature_weights if is_learned(self.feature_weights) else None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The candidates for the kernel of the units; the last one selects the centres."""
        if not is_option(self.kernel, "auto"):
            return (get_kernel(self.kernel),)
        return (LAPLACIAN, TRIANGULAR) if self.is_searched else (TRIANGULAR,)

    @property
    def selection_kernel(self) -> Kernel:
        """The kernel of the novelty rule."""
        return self.kernels[-1]

    @property
    def selection_metric(self) -> str:
        """The metric of the novelty rule."""
        return "manhattan" if is_option(self.metric, "auto") else self.metric

    @property
    def has_auto_radius(self) -> bool:
        return isinstance(self.radius, str)

    @property
    def has_one_radius(self) -> bool:
        """Whether one radius serves both the selection and the units."""
        is_free = self.n_units is None and self.selection_radius is None
        return is_free and not (self.has_auto_radius and self.is_searched)

    @property
    def has_automatic_size(self) -> bool:
        """Whether neither a number of units nor a radius determines the number of centres."""
        return self.n_units is None and self.selection_radius is None and self.has_auto_radius

    @property
    def given_selection_radius(self) -> Any:
        """The selection radius, if it is given; None if it has to be searched."""
        if self.has_one_radius:
            return None if self.has_auto_radius else self.radius
        return self.selection_radius

    @property
    def may_select_among_few(self) -> bool:
        """Whether random samples may represent all others in the selection of centres."""
        is_searched = self.selection != "random" and self.given_selection_radius is None
        return is_searched and self.shuffle

    @property
    def natural_fraction(self) -> float:
        """Position of radius="auto" between the selection radius (0) and the natural one (1).

        It matters only if the radius is not searched by validation error afterwards.
        """
        if self.has_readout or self.has_one_radius:
            return 0.0
        return _NATURAL_FRACTION if self.selection_kernel.has_compact_support else 1.0

    def distance_dtype(self, X: Any, weights: npt.NDArray | None = None) -> np.dtype:
        """Return the dtype in which the samples X are compared, multiplied by weights or not."""
        is_exact = self.selection_metric == "manhattan" and weights is None  # also in integers
        return X.dtype if is_exact else hidden_dtype(X.dtype)

    def check_selection(self, selects: bool) -> None:
        """Raise for an invalid parameter; `selects` is False if the centres are given."""
        is_random = selects and self.selection == "random"
        if not is_random:
            check_non_negative(self.selection_kernel)
        if self.n_units is not None:
            check_positive_integer(self.size_name, self.n_units)
        elif is_random and not self.has_automatic_size:
            raise ValueError(
                f'{self.size_name}=None requires novelty selection; with selection="random" use '
                "a number."
            )
        check_choice("metric", self.metric, (*METRICS, "auto") if self.has_readout else METRICS)
        check_positive("overlap", self.overlap)
        check_bool("shuffle", self.shuffle)
        check_positive_or_auto("radius", self.radius)
        if self.selection_radius is not None:
            check_positive("selection_radius", self.selection_radius)


def presentation_order(samples: Samples, shuffle: bool, random_state: Any) -> npt.NDArray:
    """Return the row indices in the order of presentation, without rows of weight 0."""
    rows = samples.rows_with_weight
    return check_random_state(random_state).permutation(rows) if shuffle else rows


def first_of_groups(order: npt.NDArray, groups: npt.NDArray | None, n: int) -> npt.NDArray:
    """Return about the first `n` rows of an order, with the same part of each group.

    Groups of few rows keep `_MIN_ROWS_OF_GROUP` of them.

    Parameters
    ----------
    order : ndarray of int of shape (n_ordered,)
        Row indices.
    groups : ndarray of int of shape (n_rows,) or None
        Group of each row.
    """
    if len(order) <= n or groups is None:
        return order[:n]
    in_order = groups[order]
    is_kept = np.zeros(len(order), bool)
    for code, size in enumerate(np.bincount(in_order)):
        n_kept = max(n * size // len(order), _MIN_ROWS_OF_GROUP)
        is_kept[np.flatnonzero(in_order == code)[:n_kept]] = True
    return order[is_kept]


def fit_rbf_layer(
    parameters: RBFParameters,
    job: Job,
    samples: Samples,
    weights: npt.NDArray | None = None,
    min_fraction: float | None = None,
) -> tuple[RBFLayer, npt.NDArray, float | None]:
    """Select centres among the samples, and the width of the units.

    Parameters
    ----------
    parameters : RBFParameters
    job : Job
    samples : Samples
        With an order of presentation, and for ``selection="per_class"`` with targets.
    weights : ndarray of shape (n_features,) or (n_features, n_inputs), optional
        Feature weights, or a linear map, by which samples are multiplied for the comparison.
    min_fraction : float, optional
        The search for a selection radius may end with this fraction of the units. By default it
        ends with all of them.

    Returns
    -------
    layer : RBFLayer
        Its units are rows of X, without the weights.
    rows : ndarray of int of shape (n_units,)
        The row indices of the centres.
    selection_radius : float or None
        None for random centres.
    """
    X: Any = samples.X
    order: Any = samples.order
    # Novelty is assessed within each class of a single output, else among all samples.
    groups = samples.targets.class_codes if parameters.selection == "per_class" else None
    parameters = _limit_units(parameters, len(order), job)
    if parameters.may_select_among_few:
        n_units = parameters.n_units or job.engine.max_automatic_units
        order = first_of_groups(order, groups, _ROWS_PER_UNIT * n_units)
    n_rows = len(order)
    dtype = parameters.distance_dtype(X, weights)
    is_random = parameters.selection == "random"
    source = X
    if not is_random:  # novelty selection reads X several times, in the order of presentation
        source, job = job.prefetch(X, order, groups)
    n_features = X.shape[1]
    if weights is not None:
        n_features = max(weights.shape[-1], n_features)
    # Fail before any data is read if the centres do not fit in memory.
    plan = SelectionPlan.of(job, n_rows, n_features, dtype.itemsize)
    plan.check(job, parameters.n_units, X.shape[1])
    ordered = OrderedSamples(
        job.engine, source, order, groups, dtype, plan.block_rows, weights,
        group_bytes=min(job.engine.group_bytes, job.memory_limit // 4),
    )  # fmt: skip
    check_squares(ordered, parameters.selection_metric)
    search = _CenterSearch(parameters, ordered, plan.max_centers, min_fraction, job)
    rows, selection_radius = search.select_random() if is_random else search.select_novel()
    # The units are samples without the weights, in the dtype of X if distances are exact in it.
    units = job.engine.to_host(take_unsorted_rows(X, rows, parameters.distance_dtype(X)))
    radius = search.unit_radius(selection_radius)
    layer = RBFLayer(units, radius, parameters.selection_metric, parameters.selection_kernel)
    return layer, rows, selection_radius


def _limit_units(parameters, n_rows, job):
    """Return parameters with no more units than samples; warn if that is a change."""
    if parameters.n_units is None or parameters.n_units <= n_rows:
        return parameters
    message = (
        f"{parameters.size_name}={parameters.n_units} is more than the {n_rows} samples from "
        f"which centres are selected; there will be {n_rows} units."
    )
    if "partial_fit" in job.description:
        message += (
            " partial_fit adds no units to a fixed layer: fix it with at least as many samples as "
            "units, or pass a layer."
        )
    warn(message)
    return replace(parameters, n_units=n_rows)


@dataclass(frozen=True)
class SelectionPlan:
    """How many samples can be read at a time, and how many centres fit in memory."""

    block_rows: int
    max_centers: int

    @classmethod
    def of(cls, job: Job, n_rows: int, n_features: int, itemsize: int) -> "SelectionPlan":
        limit, block_rows = job.memory_limit, min(job.engine.block_rows, n_rows)
        while block_rows > _MIN_BLOCK_ROWS and (
            selection_bytes(job.engine, block_rows, n_features, itemsize) > limit // 2
        ):
            block_rows //= 2
        # Each centre exists three times: as a row, loaded into the engine, and as a unit.
        fixed = selection_bytes(job.engine, block_rows, n_features, itemsize)
        return cls(
            block_rows, rows_per_tile(n_rows, 3 * n_features * itemsize, fixed, limit, n_rows)
        )

    def check(self, job: Job, n_units: int | None, n_features: int) -> None:
        """Raise ValueError if that many centres do not fit in memory."""
        if n_units is not None and n_units > self.max_centers:
            raise ValueError(
                f"max_memory={job.max_memory!r} is too small for {n_units} units of {n_features} "
                "features. Raise max_memory, or ask for fewer units."
            )


@dataclass(frozen=True, eq=False)
class _CenterSearch:
    """The selection of rows and radii for one set of samples."""

    parameters: RBFParameters
    ordered: OrderedSamples
    max_centers: int  # that fit in memory
    min_fraction: float | None  # of the units with which the search may end, see `fit_rbf_layer`
    job: Job  # prints the progress of the search

    @cached_property
    def natural_radius(self) -> float:
        """The radius that corresponds to the median distance between the samples."""
        distance = typical_distance(self.ordered, self.parameters.selection_metric)
        return self.parameters.selection_kernel.natural_radius(distance)

    def rule(self, radius):
        p = self.parameters
        return NoveltyRule(p.selection_metric, p.selection_kernel, radius, p.overlap)

    def unit_radius(self, selection_radius: float | None) -> float:
        """Return the width of the units."""
        if not self.parameters.has_auto_radius:
            return float(self.parameters.radius)
        if selection_radius is None:
            return float(_NATURAL_FRACTION_AT_RANDOM * self.natural_radius)
        fraction = self.parameters.natural_fraction
        return float(fraction * self.natural_radius + (1 - fraction) * selection_radius)

    def select_random(self) -> tuple[npt.NDArray, None]:
        """Return random rows, and no selection radius."""
        order = self.ordered.order
        if not self.parameters.shuffle:  # otherwise the order is random already
            order = check_random_state(self.parameters.random_state).permutation(order)
        n = self.parameters.n_units
        return order[: self.automatic_size if n is None else n], None

    def select_novel(self) -> tuple[npt.NDArray, float]:
        """Return novel rows in the order of presentation, and the selection radius."""
        # Either the radius is given, and the number of centres follows from it or is cut off, or
        # the radius is searched for a number of centres.
        n, radius = self.parameters.n_units, self.parameters.given_selection_radius
        if radius is None:
            return self._search(self.automatic_size if n is None else n)
        return (self._all_novel(radius) if n is None else self._first_novel(n, radius)), radius

    @property
    def automatic_size(self) -> int:
        """The number of centres if it is not determined by a parameter."""
        n_rows, n_features = len(self.ordered), self.ordered.X.shape[1]
        if self.parameters.has_one_radius:
            size = int(_SIZE_FRACTION_OF_ONE_RADIUS * n_rows)
        else:
            size = max(int(_SIZE_FRACTION * n_rows), min(n_rows, max(_ALL_SAMPLES, n_features)))
        size = min(size, self.job.engine.max_automatic_units)
        return max(size, min_centers(self.ordered, self.parameters.overlap))

    def _all_novel(self, radius):
        positions, _ = novel_rows(self.ordered, self.rule(radius), self.max_centers)
        if len(positions) > self.max_centers:
            raise ValueError(
                f"radius={radius:g} makes more than {self.max_centers} samples novel, which is the "
                "maximum within max_memory. Give a larger radius, a number of units, or more "
                "memory."
            )
        return self.ordered.order[positions]

    def _first_novel(self, n, radius):
        return self.ordered.order[first_novel_rows(self.ordered, self.rule(radius), n)]

    def _search(self, n):
        """Return the first `n` novel rows at a radius with few more of them, and the radius."""
        ordered, overlap = self.ordered, self.parameters.overlap
        start, min_count = _SEARCH_START * self.natural_radius, min_centers(ordered, overlap)
        if n < min_count:
            # At every radius more than n samples are novel; use the first n.
            return self._first_novel(n, start), start
        # Search a radius with slightly more than n novel samples, and take the first n: the centres
        # then cover nearly all samples, and their number is exact.
        growth = GROWTH if ordered.groups is None else GROUP_GROWTH
        enough, max_count = self._search_bounds(n)
        found = search_radius(
            lambda radius: self._count_at(radius, max_count), start, max_count, len(ordered),
            growth, min_count, enough,
        )  # fmt: skip
        if len(found.rows) < enough:
            if found.next_radius is not None:  # the count jumps from fewer than n to more than n
                return self._first_novel(n, found.next_radius), found.next_radius
            self._warn_too_few(len(found.rows))
        return ordered.order[found.rows[:n]], float(found.radius)

    def _search_bounds(self, n):
        """Return the minimum and maximum number of novel rows with which a search may end."""
        # An automatic size is approximate, so there is no need for a surplus that is cut off.
        fraction = MIN_FRACTION if self.parameters.n_units is None else self.min_fraction
        if fraction is None:
            return n, ceil(n / MIN_FRACTION)
        return max(1, int(fraction * n)), n

    def _warn_too_few(self, n_found):
        p = self.parameters
        if p.n_units is not None and self.min_fraction is None:
            warn(
                f"{p.size_name}={p.n_units}, but only {n_found} samples differ enough to be "
                f"centres; there will be {n_found} units."
            )

    def _count_at(self, radius, limit):
        """Run one pass of the search; return what `novel_rows` returns, and print progress."""
        positions, n_seen = novel_rows(self.ordered, self.rule(radius), limit)
        text = f"selecting centres: {len(positions):,} novel samples, target {limit:,}"
        details = f"; radius {radius:.6g}, {n_seen:,} of {len(self.ordered):,} rows read"
        self.job.print_progress(text, details)
        return positions, n_seen
