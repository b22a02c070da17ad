"""What the user asks of an RBF layer: how many centres, which ones, and how wide the units are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels import METRICS, Kernel, check_adds_up
from ..layers import hidden_dtype
from ..parameters import (
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_positive_or_auto,
)
from ..user_warnings import warn

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
