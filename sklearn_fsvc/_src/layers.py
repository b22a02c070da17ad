"""Hidden layers as data: arrays and a formula, independent of the engine that evaluates them.

The formula is ``H = function(max(floor, scale * sum ** power + offset))``, in steps, as many of
which as possible are fused by an engine:

1. ``reduction``: the sum over the features for a sample and a unit, ``"manhattan"``
   sum |x - c|, ``"sqeuclidean"`` sum (x - c)^2, or ``"product"`` sum x w;
2. ``power`` of the sum: 1/2, 1 or 2;
3. ``affine``, a `formulas.Affine`;
4. ``function``, a `formulas.Function`.

An engine applies ``affine_of_sum`` (the affine step, or a part of it, if it can precede the
power) to the sums, and then ``finish``, which applies the remaining steps and rounds the
activations.

A `PatchLayer` evaluates one of these layers on the patches of images, and averages its activations.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .formulas import IDENTITY, TANH, Affine, Function, Quantizer, lookup_function, raise_to
from .images import PatchGrid
from .kernels import DISTANCE, METRICS, get_kernel
from .utils.parameters import check_choice

# Maximum number of distances of uint8 samples whose activations are tabulated (16,448 features),
# and how many are computed at a time.
_MAX_DISTANCES, _BLOCK_DISTANCES = 2**22, 2**16
# Dtypes of X that need no conversion.
DTYPES = (np.float64, np.float32, np.uint8)


def hidden_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """Return the dtype of H for X of a dtype: float64 for float64, otherwise float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class _Layer:
    """Properties of all layers; sizes and dtypes are those of `units`, (m, n)."""

    units: Any
    formula: Any
    reduction: Any
    power: Any
    affine: Any
    function: Any
    weights: Any = None  # of the features, or a linear map of them
    is_mapped: Any = False  # whether there is a linear map
    quantizer: Any = None  # a `formulas.Quantizer`, which rounds activations
    table: Any = None  # of rounded activations, by the sum over the features
    has_compact_support: Any = False  # whether activations are 0 beyond some distance

    @property
    def n_units(self) -> int:
        return self.units.shape[0]

    @property
    def n_features(self) -> int:
        return self.units.shape[1]

    @property
    def n_features_in(self) -> int:
        """Number of features of X, before a linear map."""
        return self.n_features

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Properties by which a search distinguishes layers on the same samples."""
        return {}

    def width_of(self, n_units: int | None) -> int:
        """Return the number of columns of H of the first `n_units` units; None for all."""
        return min(n_units or self.n_units, self.n_units)

    @property
    def hidden_dtype(self) -> np.dtype:
        return hidden_dtype(self.units.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the units, and of the table."""
        return self.units.nbytes + (0 if self.table is None else self.table.nbytes)

    @property
    def profile_key(self) -> str:
        """Formula, dtype and bits: all that determines the speed of a layer, except its size."""
        bits = f" {self.quantizer.bits} bits" if self.quantizer else ""
        return self.unrounded_profile_key + bits

    @property
    def unrounded_profile_key(self) -> str:
        """The key of the same layer without rounding."""
        return f"{self.formula} {self.units.dtype}"

    @cached_property
    def affine_of_sum(self) -> Affine:
        """The affine step if the power is 1, otherwise the identity."""
        return self.affine if self.power == 1 else Affine()

    @property
    def has_finish(self) -> bool:
        """Whether steps other than rounding follow `affine_of_sum`."""
        return self.power != 1 or self.function is not IDENTITY

    def finish(self, A: Any, xp: Any) -> Any:
        """Apply the steps that follow `affine_of_sum`, in place."""
        if self.power != 1:
            self.affine.apply(raise_to(A, self.power, xp), xp)
        return self.round(self.function.apply(A, xp), xp)

    def round(self, A: Any, xp: Any) -> Any:
        """Round activations in place, unless they are not rounded or from a table."""
        return (
            A if self.quantizer is None or self.table is not None else self.quantizer.apply(A, xp)
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without cached properties."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class RBFLayer(_Layer):
    """RBF units, ``H[i, j] = phi(d(x_i, c_j))``.

    Parameters
    ----------
    units : array of shape (m, n), uint8, float32 or float64
        The centres. uint8 becomes float32 unless the metric is Manhattan and there are no weights,
        because products of uint8 would overflow.
    radius : float, default=1.0
        In units of the distance.
    metric : str, default="manhattan"
        One of `METRICS`.
    kernel : Kernel or str, default="triangular"
        A name is replaced by the `Kernel`.
    weights : ndarray of shape (n,) or (n_in, n), optional
        Feature weights, or a linear map of the features. Samples are multiplied by them before an
        engine evaluates the layer; the centres are multiplied already.
    quantizer : Quantizer, optional
        Rounds activations, which are between 0 and 1.
    """

    units: Any
    radius: float = 1.0
    metric: str = "manhattan"
    kernel: Any = "triangular"
    weights: npt.NDArray | None = None
    quantizer: Quantizer | None = None

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, METRICS)
        object.__setattr__(self, "kernel", get_kernel(self.kernel))
        if not (self.metric == "manhattan" and self.weights is None):
            units = self.units.astype(hidden_dtype(self.units.dtype), copy=False)
            object.__setattr__(self, "units", units)

    @property
    def n_features_in(self) -> int:
        return self.n_features if self.weights is None else len(self.weights)

    @property
    def is_mapped(self) -> bool:
        return self.weights is not None and self.weights.ndim == 2

    @property
    def has_compact_support(self) -> bool:
        return self.kernel.has_compact_support

    @property
    def formula(self) -> str:
        return f"{self.metric} {self.kernel.name}"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        is_weighted = self.weights is not None
        return {
            "metric": self.metric, "kernel": self.kernel.name, "radius": self.radius,
            "weighted": is_weighted,
        }  # fmt: skip

    @property
    def reduction(self) -> str:
        return METRICS[self.metric].sum

    @property
    def power(self) -> float:
        return 1 if self.table is not None else self.kernel.power / METRICS[self.metric].power

    @cached_property
    def table(self) -> npt.NDArray | None:
        """Codes of the rounded activations by distance, the last one for all larger distances.

        Manhattan distances of uint8 samples are integers, so rounded activations can be tabulated:
        they are then identical on every engine, however it computes an exponential. None for other
        layers, and if the table would be too large.
        """
        n_distances = 255 * self.n_features + 1
        is_tabulated = self.units.dtype == np.uint8 and self.quantizer is not None
        if not is_tabulated or n_distances > _MAX_DISTANCES:
            return None
        return _tabulate(self.kernel, self.radius, self.quantizer, n_distances)

    @cached_property
    def affine_of_sum(self) -> Affine:
        # Before it is squared, a distance is multiplied by a factor, so that squares are finite.
        if self.power == 2:
            return Affine(self.kernel.scaled_affine(self.radius)[0])
        return super().affine_of_sum

    @cached_property
    def affine(self) -> Affine:
        if self.table is not None:
            return Affine()
        # With the sum of squares as input, the factor is a part of the scale; if distances are
        # squared after the summation, `affine_of_sum` applies it before.
        factor, affine = self.kernel.scaled_affine(self.radius)
        if factor == 1 or self.power == 2:
            return affine
        return replace(affine, scale=affine.scale * factor * factor)  # the sum is a square already

    @property
    def function(self) -> Function:
        if self.table is not None:
            assert self.quantizer is not None
            return lookup_function(self.table, self.quantizer)
        return self.kernel.function

    @property
    def distances(self) -> "RBFLayer":
        """The layer whose activations are the distances to the same centres."""
        return replace(self, radius=1.0, kernel=DISTANCE, quantizer=None)

    def from_distances(self, D: Any, out: Any, xp: Any) -> Any:
        """Compute the activations for distances `D`, which layers with the same centres share.

        `D` is not changed; the result is in `out`.
        """
        if self.table is not None:
            out[...] = D
            return self.finish(out, xp)
        return self.round(self.kernel.outputs(D, self.radius, xp, out), xp)

    def part(self, units: slice) -> "RBFLayer":
        """Return the layer with a slice of the units."""
        return replace(self, units=self.units[units])

    def astype(self, dtype: npt.DTypeLike) -> "RBFLayer":
        units, weights = np.ascontiguousarray(self.units, dtype=dtype), self.weights
        weights = None if weights is None else weights.astype(dtype, copy=False)
        return replace(self, units=units, weights=weights)


@dataclass(frozen=True, eq=False)
class LinearLayer(_Layer):
    """Linear units, with the activations ``X @ units.T + bias``.

    Parameters
    ----------
    units : ndarray of shape (m, n), float32 or float64
        The weights, a row for each unit.
    bias : ndarray of shape (m,)
    quantizer : Quantizer, optional
        Rounds activations, which are between -1 and 1.
    """

    units: Any
    bias: npt.NDArray
    quantizer: Quantizer | None = None

    formula, reduction, power, function = "linear", "product", 1, IDENTITY

    @cached_property
    def max_input(self) -> Any:
        """A bound of the magnitude of X, in the dtype of H, within which sums are finite."""
        largest = max(float(self.units.max()), -float(self.units.min()), 1.0)
        limit = float(np.finfo(self.hidden_dtype).max) / (4 * self.n_features)
        return self.hidden_dtype.type(limit / largest)

    @cached_property
    def affine(self) -> Affine:
        return Affine(offset=self.bias)

    def part(self, units: slice) -> Self:
        """Return the layer with a slice of the units."""
        return replace(self, units=self.units[units], bias=self.bias[units])

    def astype(self, dtype: npt.DTypeLike) -> Self:
        units = np.ascontiguousarray(self.units, dtype=dtype)
        return replace(self, units=units, bias=self.bias.astype(dtype, copy=False))


class TanhLayer(LinearLayer):
    """Tanh units, ``H[i, j] = tanh(x_i . w_j + b_j)``, with the parameters of `LinearLayer`."""

    formula, function = "tanh", TANH


@lru_cache(maxsize=16)
def _tabulate(kernel, radius, quantizer, n_distances):
    """Return the codes of rounded activations at distances 0, 1, ..., up to the last change."""
    codes = np.empty(n_distances, quantizer.dtype)
    for start in range(0, n_distances, _BLOCK_DISTANCES):
        D = np.arange(start, min(start + _BLOCK_DISTANCES, n_distances), dtype=np.float64)
        outputs = quantizer.apply(kernel.outputs(D, radius, np), np)
        codes[start : start + _BLOCK_DISTANCES] = outputs * quantizer.scale
    changes = np.flatnonzero(codes[1:] != codes[:-1])
    codes = codes[: changes[-1] + 2 if len(changes) else 1].copy()
    codes.flags.writeable = False  # the cache shares it between layers
    return codes


def quantize_layer(layer: Any, bits: int | None) -> Any:
    """Return the layer with activations of that many bits; the same layer for None."""
    if bits is None:
        return layer
    return replace(layer, quantizer=Quantizer(bits, is_signed=layer.reduction == "product"))


# Responses of a `PatchLayer`: functions of the activations, before these are averaged.
RESPONSES = UNCHANGED, BELOW_MEAN, TWO_SIDED = "as they are", "below mean", "two-sided"


@dataclass(frozen=True, eq=False)
class PatchLayer(_Layer):
    """Activations of units for the patches of an image, averaged over each cell of a grid.

    The input of the units, for a patch p, is ``normalised(p) @ whitening - shift`` with
    ``normalised(p) = (p - mean(p)) / sqrt(var(p) + floor)``. The columns of H are means over the
    cells of a response, a function of the activations a:

    - ``"as they are"``: a;
    - ``"below mean"``: ``max(0, mean(a) - a)``, with the mean over the units (Coates, Lee & Ng
      2011, "An analysis of single-layer networks in unsupervised feature learning");
    - ``"two-sided"``: ``max(0, a - threshold)`` and ``max(0, -a - threshold)`` (Coates & Ng
      2011, "The importance of encoding versus training").

    Columns are in the order of the units, then the two sides, then the cells.
    """

    grid: PatchGrid
    inner: Any  # an `RBFLayer` or `LinearLayer` of patches, with ``grid.n_inputs`` features
    response: str = UNCHANGED  # one of `RESPONSES`
    threshold: float = 0.0
    floor: float | None = None  # None does not normalise
    whitening: npt.NDArray | None = None  # (n_inputs, n_inputs)
    shift: npt.NDArray | None = None  # (n_inputs,)
    columns: int | None = None  # number of the first columns that are computed; by default all

    @property
    def units(self) -> Any:
        return self.inner.units

    @property
    def n_sides(self) -> int:
        return 2 if self.response == TWO_SIDED else 1

    @property
    def n_columns_of_unit(self) -> int:
        return self.n_sides * self.grid.n_cells

    @property
    def n_units(self) -> int:
        """The number of columns of H."""
        if self.columns is not None:
            return self.columns
        return self.inner.n_units * self.n_columns_of_unit

    @property
    def n_features(self) -> int:
        return self.grid.n_features

    @property
    def reduction(self) -> str:
        return self.inner.reduction

    @property
    def formula(self) -> str:
        return f"{self.inner.formula} of patches"

    def width_of(self, n_units: Any) -> int:
        return min(n_units * self.n_columns_of_unit, self.n_units)

    def part(self, units: slice) -> "PatchLayer":
        """Return the layer with the first columns."""
        n = len(range(self.n_units)[units])
        if self.response == BELOW_MEAN:  # each column depends on all units
            return replace(self, columns=n)
        # The units that have at least one of the columns.
        inner = self.inner.part(slice(-(-n // self.n_columns_of_unit)))
        return replace(self, inner=inner, columns=n)

    def astype(self, dtype: npt.DTypeLike) -> "PatchLayer":
        whitening, shift = (
            a if a is None else a.astype(dtype, copy=False) for a in (self.whitening, self.shift)
        )
        return replace(self, inner=self.inner.astype(dtype), whitening=whitening, shift=shift)
