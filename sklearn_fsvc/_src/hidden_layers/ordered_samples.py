"""Samples in their order of presentation, and the rule by which they are novel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.rows import apply_feature_weights, take_unsorted_rows
from ..data.sources import is_in_memory
from ..kernels import Kernel
from ..layers import RBFLayer

# Bytes of all pairs of rows above which it is faster to drop covered rows than to compare all pairs
# of a group.
_MAX_PAIR_BYTES = 2**39


@dataclass(frozen=True)
class NoveltyRule:
    """The rule by which a sample is novel."""

    metric: str
    kernel: Kernel | str
    radius: float
    overlap: float  # threshold of the activity

    def layer(self, centers: Any) -> RBFLayer:
        """Return the layer of these centres: its row sums are the activities."""
        return RBFLayer(centers, self.radius, self.metric, self.kernel)


@dataclass(frozen=True, eq=False)
class OrderedSamples:
    """Samples in their order of presentation, and how they are loaded to be compared."""

    engine: Any  # an `Engine`; None while it is sent to another process, like X and `order`
    X: Any  # (n_rows, n_features)
    order: Any  # (n,), int: row indices in the order of presentation
    # int, (n_rows,): a group from 0 on for each row of X. Novelty is assessed within each group.
    groups: np.ndarray | None = None
    dtype: np.dtype | None = None  # of the comparison; by default that of X
    # Rows that are read at a time; by default the engine's choice. It does not change the centres.
    block_rows: int | None = None
    # (n_features,) or (n_features, n_inputs): feature weights, or a linear map, by which samples
    # are multiplied before the comparison.
    weights: np.ndarray | None = None
    # Memory for the kernel matrices of whole groups, if these are so small that all pairs of their
    # rows are compared.
    group_bytes: int = 0

    def __len__(self) -> int:
        return len(self.order)

    def block(self, positions: Any) -> Any:
        """Return the samples at positions in the order, on the device, ready to be compared."""
        rows, dtype = self.order[positions], self.X.dtype if self.dtype is None else self.dtype
        if self.weights is None:
            return self.engine.to_device(take_unsorted_rows(self.X, rows, dtype))
        block = self.engine.to_device(take_unsorted_rows(self.X, rows))
        return apply_feature_weights(self.engine, block, self.weights, dtype)

    def by_group(self) -> "Iterator[tuple[npt.NDArray, OrderedSamples]]":
        """Yield the positions of each group in the order, and its rows alone."""
        if self.groups is None:
            yield np.arange(len(self)), self
            return
        for positions in self._positions_by_group:
            yield positions, replace(self, order=self.order[positions], groups=None)

    @cached_property
    def _positions_by_group(self):
        """The ascending positions of each group that has any.

        In the order of first positions: a search that ends early depends on the order of groups,
        and codes of groups depend on the names of classes.
        """
        groups: Any = self.groups
        in_order = groups[self.order]
        codes = np.flatnonzero(np.bincount(in_order))
        return sorted((np.flatnonzero(in_order == code) for code in codes), key=lambda at: at[0])

    @cached_property
    def group_blocks(self) -> list[tuple[npt.NDArray, Any]] | None:
        """The positions and the samples of each group, if all pairs within groups are compared.

        They stay loaded, because a search selects at one radius after another. None if there are no
        groups, or if they are too large.
        """
        if self.groups is None or not self.group_bytes:
            return None
        positions = self._positions_by_group
        largest, n_features = max(map(len, positions)), self.X.shape[1]
        row_bytes = n_features * (self.X.dtype if self.dtype is None else self.dtype).itemsize
        needed = len(self) * (8 * largest + row_bytes) + 3 * 8 * largest**2
        pair_bytes = len(self) * largest * row_bytes
        is_large = needed > self.group_bytes or pair_bytes > _MAX_PAIR_BYTES
        if is_large or not is_in_memory(self.X):
            return None
        return [(at, self.block(at)) for at in positions]

    @property
    def n_groups(self) -> int:
        return 1 if self.groups is None else len(self._positions_by_group)
