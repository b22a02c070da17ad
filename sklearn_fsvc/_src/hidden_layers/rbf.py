"""RBF units on selected training samples, as a part of an estimator."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..kernels import KERNELS, Kernel, check_kernel, simplify_kernel
from ..layers import RBFLayer, quantize_layer
from ..parts.base import UNSET
from ..parts.composition import parts_of
from ..parts.units import Sharing, Units
from ..readouts.penalty_search import SearchHistory
from ..utils.parameters import check_choice, check_precision, is_option, make_generator
from .centers import SELECTIONS, START_ALPHA, RBFParameters, fit_rbf_layer, presentation_order
from .model_selection import SearchSpace, SelectedUnits, select_units
from .parameters import (
    centers_of,
    check_n_features,
    given_weights,
    may_learn_weights,
    pretrained_of,
    weight_attributes,
    weights_method,
)
from .proxy_networks import FEW_UNITS, MAX_LARGE_UNITS, MAX_UNITS, apply_weights

_ESTIMATORS = "RBFClassifier, RBFProjector, RBFRegressor"


@dataclass(frozen=True, eq=False, kw_only=True)
class RBF(RBFParameters, Units):
    """RBF units."""

    selections: tuple[str, ...] = SELECTIONS  # valid values of `selection`
    start_alpha = START_ALPHA
    has_sample_centers = True
    of_units = ("centers_", "support_", "center_labels_", "center_targets_")
    of_samples = (*Units.of_samples, "selection_radius_")
    # Fitted attributes; all `Units` have further ones.
    centers_: Any = UNSET
    metric_: Any = UNSET
    kernel_: Any = UNSET
    radius_: Any = UNSET
    selection_radius_: Any = UNSET
    feature_weights_: Any = UNSET
    feature_map_: Any = UNSET
    feature_importances_: Any = UNSET

    @property
    def needs_multiple_passes(self) -> bool:
        return True

    def check(self) -> None:
        check_choice("selection", self.selection, self.selections)
        if not (self.has_readout and is_option(self.kernel, "auto")):
            check_kernel(self.kernel)
        check_precision(self.precision, self.has_readout)
        is_custom = isinstance(self.kernel, Kernel) and not any(
            type(self.kernel) is type(kernel) for kernel in KERNELS.values()
        )
        if self.bits and is_custom:
            raise ValueError(
                f"precision={self.precision} rounds activations between 0 and 1, and those of "
                f'kernel={self.kernel!r} may be any number; use precision="float".'
            )
        # This raises for an invalid `layer`, before the other parameters are checked.
        pretrained = self.pretrained
        self.check_selection(selects=self.given_layer is None)
        given_weights(self.feature_weights, self.has_readout)
        if pretrained is not None and not is_option(self.metric, "auto"):
            metric = parts_of(pretrained).units.metric_
            if metric != self.metric:
                raise ValueError(
                    f"metric={self.metric!r}, but the units of layer use {metric!r} distances; "
                    f'set metric={metric!r}, or "auto".'
                )

    @property
    def pretrained(self) -> Any:
        return pretrained_of(self.given_layer, RBF, _ESTIMATORS)

    @property
    def shared_metric(self) -> str | None:
        return self.selection_metric if may_learn_weights(self.feature_weights) else None

    def labels_required_by(self) -> tuple[str, str] | None:
        if self.selection == "per_class":
            return 'selection="per_class"', '"global"'
        return None if self.learned is None else (f'feature_weights="{self.learned}"', "None")

    def order_samples(self, samples: Samples) -> Samples:
        return samples.in_order(presentation_order(samples, self.shuffle, self.random_state))

    def fit(self, job: Job, samples: Samples, history: SearchHistory) -> "RBF":
        pretrained = self.pretrained
        if pretrained is not None:
            check_n_features(pretrained.centers_, samples.X)
            return self.with_layer_of(parts_of(pretrained).units)
        # Centres first: they are selected with the given feature weights, and with the triangular
        # kernel if several kernels are tried. Kernel, width and weights are searched afterwards.
        weights = given_weights(self.feature_weights, self.has_readout, samples.X.shape[1])
        if self.given_layer is None:
            fitted, n_units = self._select_centers(job, samples, weights), self.n_units
        else:
            fitted = self._read_centers(samples)
            n_units = len(fitted["centers_"])
        selected = SelectedUnits(
            self.selection_metric, self.selection_kernel, fitted["radius_"], weights
        )
        if self.is_searched:
            radius = None if self.has_auto_radius else fitted["radius_"]
            method = weights_method(self.feature_weights, True, samples.X)
            tries_gaussian = self._tries_gaussian(samples.X)
            tries_map = tries_gaussian and is_option(self.feature_weights, "auto")
            space = SearchSpace(self.kernels, radius, method, tries_gaussian, tries_map)
            selected = select_units(
                job, samples, replace(self, n_units=n_units), weights, space,
                make_generator(self.random_state), history, self.shared,
            )  # fmt: skip
        return self.with_fitted(
            **fitted | {"radius_": selected.radius},
            metric_=selected.metric,
            kernel_=simplify_kernel(selected.kernel),
            **weight_attributes(job, samples, selected.weights, selected.importances),
            precision_=self.bits,
        )

    def _tries_gaussian(self, X):
        """Return whether the metric may be another one than that of the selection of centres.

        Not for integers, whose Manhattan distances are exact, nor for activations of given bits,
        which are the same on every device with Manhattan distances only.
        """
        is_free = is_option(self.kernel, "auto") and self.has_auto_radius and not self.bits
        return is_free and is_option(self.metric, "auto") and X.dtype.kind == "f"

    def _select_centers(self, job, samples, weights):
        """Return the fitted attributes of centres that are selected among the samples."""
        layer, rows, selection_radius = fit_rbf_layer(self, job, samples, weights)
        return {
            "support_": rows, "selection_radius_": selection_radius, "centers_": layer.units,
            "radius_": layer.radius,
        }  # fmt: skip

    def _read_centers(self, samples):
        """Return the fitted attributes of centres that are given as an array."""
        centers = centers_of(self.given_layer, samples.X)
        check_n_features(centers, samples.X)
        centers = centers.astype(self.distance_dtype(centers), copy=False)
        return {"centers_": centers, "radius_": self.radius}

    @cached_property
    def layer(self) -> RBFLayer:
        layer = RBFLayer(self.centers_, self.radius_, self.metric_, self.kernel_)
        # The fitted centres are samples without weights, which explanations show.
        A = self.feature_map_
        layer = apply_weights(layer, self.feature_weights_ if A is None else A)
        return quantize_layer(layer, self.precision_)

    @property
    def allows_fitted_layer(self) -> bool:
        return is_option(self.metric, "auto") or self.metric == self.metric_

    @property
    def sample_centers(self) -> Any:
        return None if self.support is None else self.centers_

    def unit_at_sample(self, sample: Any) -> npt.NDArray[np.intp]:
        return sample.find_units(self.support, self.centers_)

    def with_shape_of(self, layer: RBFLayer) -> "RBF":
        return self.update_fitted(
            metric_=layer.metric, kernel_=simplify_kernel(layer.kernel), radius_=layer.radius
        )

    @property
    def sharing(self) -> Sharing:
        # Which parameters leave the centres of the largest network as they are?
        has_size, has_radius = self.n_units is not None, self.selection_radius is not None
        is_random = self.selection == "random"
        is_searched = is_option(self.kernel, "auto") or is_option(self.radius, "auto")
        shared = {"alpha"}  # the readout alone depends on it
        # Centres are prefixes of those of a larger network at a given selection radius, and in a
        # random order; a search for the selection radius depends on the number of units.
        if has_size and (has_radius or is_random):
            shared.add("n_hidden")
        if (has_size or has_radius) and not is_searched:
            shared.add("radius")  # otherwise it is the selection radius, too
            if is_random:  # no novelty rule depends on the kernel
                shared.add("kernel")
        # The searches depend on the number of units only up to a maximum; that for weights alone
        # only from a minimum.
        key = None
        if is_searched:
            key = min(self.n_units or MAX_LARGE_UNITS, MAX_LARGE_UNITS)
        elif isinstance(self.feature_weights, str):
            key = int(np.clip(self.n_units or MAX_UNITS, FEW_UNITS, MAX_UNITS))
        return Sharing(frozenset(shared), key)
