"""RBF units on selected training rows: their parameters, and their choice."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..kernels import KERNELS, LAPLACIAN, TRIANGULAR, Kernel, check_kernel, kernel_of, named
from ..layers import RBFLayer, rounded
from ..parts import UNSET, Sharing, Units, generator, parts_of
from ..utils.parameters import check_choice, check_precision, is_word
from .centers import SELECTIONS, RBFRequest, fit_layer, presentation_order
from .choice import UNITS, SearchSpace, choose, weighted
from .defaults import PART_OF_NATURAL
from .layer_parameter import (
    apart,
    centers_of,
    check_features,
    given_weights,
    learns_weights,
    pretrained_of,
)

_PRETRAINED = "RBFClassifier, RBFProjector, RBFRegressor"


@dataclass(frozen=True, eq=False, kw_only=True)
class RBF(Units):
    """RBF units."""

    # Parameters of `RBFClassifier`.
    radius: Any
    selection_radius: Any
    overlap: Any
    selection: Any
    metric: Any
    kernel: Any
    feature_weights: Any
    shuffle: Any
    random_state: Any
    # Whether kernel and feature weights may be "auto", and the radius is tried.
    has_readout: bool = False
    allow_search: bool = (
        False  # whether there is a readout by whose held-out error something is found
    )
    selections: tuple[str, ...] = SELECTIONS  # what `selection` may be
    first_alpha = 0.1
    of_units = ("centers_", "support_", "center_labels_", "center_targets_")
    # Fitted attributes; all `Units` have further ones.
    centers_: Any = UNSET
    kernel_: Any = UNSET
    radius_: Any = UNSET
    selection_radius_: Any = UNSET
    feature_weights_: Any = UNSET
    feature_map_: Any = UNSET

    @property
    def needs_multiple_passes(self):
        return True

    @property
    def is_searched(self):
        """Whether what is "auto" is found by held-out error."""
        return self.allow_search if self.has_readout else self.learned is not None

    @property
    def learned(self):
        """ "learned" or "map" where that is asked for by name, else None."""
        way = self.feature_weights
        return way if is_word(way, "learned") or is_word(way, "map") else None

    @property
    def kernels(self):
        """The kernels to choose from."""
        if not is_word(self.kernel, "auto"):
            return (kernel_of(self.kernel),)
        return (LAPLACIAN, TRIANGULAR) if self.is_searched else (TRIANGULAR,)

    @property
    def request(self):
        kernel = self.kernels[-1]
        # How far radius="auto" goes to the natural radius, where it is not tried.
        part = 0.0 if self.has_readout else PART_OF_NATURAL if kernel.has_edge else 1.0
        return RBFRequest(
            size_name=self.size_name, n_units=self.n_units, radius=self.radius,
            selection_radius=self.selection_radius, overlap=self.overlap,
            selection=self.selection, metric=self.metric, kernel=kernel, shuffle=self.shuffle,
            random_state=self.random_state, is_searched=self.is_searched, part_of_natural=part,
        )  # fmt: skip

    def check(self):
        check_choice("selection", self.selection, self.selections)
        if not (self.has_readout and is_word(self.kernel, "auto")):
            check_kernel(self.kernel)
        check_precision(self.precision, self.has_readout)
        known = tuple(map(type, KERNELS.values()))
        if self.bits and isinstance(self.kernel, Kernel) and type(self.kernel) not in known:
            raise ValueError(
                f"precision={self.precision} rounds activations between 0 and 1, and those of "
                f'kernel={self.kernel!r} may be any number; use precision="float".'
            )
        request, pretrained = self.request, self.pretrained
        request.check(selects=self.given is None)
        given_weights(self.feature_weights, self.has_readout)
        if pretrained is not None and pretrained.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, and the units of layer measure {pretrained.metric!r} "
                f"distances; set metric={pretrained.metric!r}."
            )

    @property
    def pretrained(self):
        return None if self.given is None else pretrained_of(self.given, RBF, _PRETRAINED)

    def labels_required_by(self):
        if self.selection == "per_class":
            return 'selection="per_class"', '"global"'
        return None if self.learned is None else (f'feature_weights="{self.learned}"', "None")

    def present(self, samples):
        return samples.in_order(presentation_order(samples, self.shuffle, self.random_state))

    def fit(self, job, samples, history):
        pretrained = self.pretrained
        if pretrained is not None:
            check_features(pretrained.centers_, samples.X)
            lent = parts_of(pretrained).units
            return self.with_fitted(
                centers_=lent.centers_, kernel_=lent.kernel_, radius_=lent.radius_,
                feature_weights_=lent.feature_weights_, feature_map_=lent.feature_map_,
                precision_=lent.precision_,
            )  # fmt: skip
        weights = given_weights(self.feature_weights, self.has_readout, samples.X.shape[1])
        request = replace(self.request, weights=weights)
        choose_centers = self._selected if self.given is None else self._given
        request, kernel, found = choose_centers(request, job, samples)
        if self.is_searched:
            radius = None if request.is_auto else found["radius_"]
            learns = learns_weights(self.feature_weights, True, samples.X.dtype)
            space = SearchSpace(self.kernels, radius, learns, maps=self.learned == "map")
            random = generator(self.random_state)
            kernel, radius, weights = choose(
                job, samples, request, space, random, history, self.shared
            )
            found["radius_"] = radius
        return self.with_fitted(
            **found, kernel_=named(kernel), **apart(weights), precision_=self.bits
        )

    def _selected(self, request, job, samples):
        """The request, the kernel and fitted attributes of centres that are chosen."""
        groups = samples.targets.groups if self.selection == "per_class" else None
        layer, rows, selection_radius = fit_layer(request, job, samples, groups)
        found = {"support_": rows, "selection_radius_": selection_radius}
        return request, layer.kernel, found | {"centers_": layer.units, "radius_": layer.radius}

    def _given(self, request, job, samples):
        """Return the same as `_selected`, of centres that are given."""
        centers = centers_of(self.given, samples.X)
        check_features(centers, samples.X)
        centers = centers.astype(replace(request, weights=None).dtype(centers), copy=False)
        request = replace(request, n_units=len(centers))
        return request, request.kernel, {"centers_": centers, "radius_": self.radius}

    @cached_property
    def layer(self):
        layer = RBFLayer(self.centers_, self.radius_, self.metric, self.kernel_)
        A = self.feature_map_
        layer = weighted(layer, self.feature_weights_ if A is None else A)
        return rounded(layer, self.precision_)

    def shaped(self, layer):
        return self.update_fitted(kernel_=named(layer.kernel), radius_=layer.radius)

    @property
    def sharing(self):
        sized, selects = self.n_units is not None, self.selection_radius is not None
        at_random = self.selection == "random"
        is_searched = is_word(self.kernel, "auto") or is_word(self.radius, "auto")
        shared = {"alpha"}
        if sized and (selects or at_random):
            shared.add("n_hidden")
        if (sized or selects) and not is_searched:
            shared.add("radius")  # else it selects the centres, too
            if at_random:
                shared.add("kernel")
        # What of the number of units the choice of kernel and radius depends on.
        key = min(self.n_units or UNITS, UNITS) if is_searched else None
        return Sharing(frozenset(shared), key)
