"""The layers: what is computed, without a word about where.

A layer is a frozen bundle of arrays with its formula,
``H = function(max(floor, scale * sum ** power + offset))``, in parts, so that an engine may
fuse as much of it as it likes:

1. ``accumulation``: what is summed over the features for one row and one unit,
   ``"manhattan"`` sum |x - c|, ``"sqeuclidean"`` sum (x - c)^2 or ``"product"`` sum x w;
2. ``power`` of the sum: 1/2, 1 or 2;
3. ``affine``, a `formulas.Affine`;
4. ``function``, a `formulas.Function`.

``on_sums`` is the affine step if it comes first; ``finish`` does all that comes after it.

A `PatchLayer` is one of these for the patches of images, and what becomes of its outputs.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import numpy as np

from .formulas import IDENTITY, TANH, Affine, Steps, looked_up, raise_to
from .images import PatchGrid
from .kernels import DISTANCE, METRICS, Kernel, kernel_of
from .utils.parameters import check_choice

# Distances of bytes whose outputs are kept as a table, at most (16,448 features), and how many are
# computed at a time.
_MOST_DISTANCES, _AT_A_TIME = 2**22, 2**16
# Input dtypes that layers take as they are.
DTYPES = (np.float64, np.float32, np.uint8)


def hidden_dtype(dtype):
    """dtype of H for input of `dtype`: float64 for float64, else float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class _Layer:
    """What layers share: sizes and dtypes, read off `units` (m, n), and the steps."""

    weights, is_mapped = None, False  # of the features
    steps = None  # to which outputs are rounded
    table = None  # of rounded outputs by what is summed
    has_edge = False  # whether outputs are 0 beyond some distance

    @property
    def n_units(self):
        return self.units.shape[0]

    @property
    def n_features(self):
        return self.units.shape[1]

    @property
    def n_features_in(self):
        """Features of rows before a linear map, if there is one."""
        return self.n_features

    @property
    def traits(self):
        """What sets a layer apart from others on the same rows: name -> value."""
        return {}

    def width_of(self, n_units):
        """Columns of H of so many units, no more than there are; None for all."""
        return min(n_units or self.n_units, self.n_units)

    @property
    def hidden_dtype(self):
        return hidden_dtype(self.units.dtype)

    @property
    def nbytes(self):
        """Bytes of the units, and of the table."""
        return self.units.nbytes + (0 if self.table is None else self.table.nbytes)

    @property
    def kind(self):
        """Formula, dtype and bits: all that the speed of a layer depends on, but its size."""
        bits = f" {self.steps.bits} bits" if self.steps else ""
        return self.kind_of_floats + bits

    @property
    def kind_of_floats(self):
        """That of the same layer with outputs as they are."""
        return f"{self.formula} {self.units.dtype}"

    @cached_property
    def on_sums(self):
        """The affine step; where the power comes first, a factor or nothing."""
        return self.affine if self.power == 1 else Affine()

    @property
    def has_finish(self):
        """Whether anything is left to do after `on_sums`, but for rounding."""
        return self.power != 1 or self.function is not IDENTITY

    def finish(self, A, xp):
        """What `on_sums` leaves to do, in place on `A`."""
        if self.power != 1:
            self.affine.apply(raise_to(A, self.power, xp), xp)
        return self.round(self.function.apply(A, xp), xp)

    def round(self, A, xp):
        """Outputs in the steps of the layer, if it has some: in place."""
        return A if self.steps is None or self.table is not None else self.steps.apply(A, xp)

    def __getstate__(self):
        """What it was made of, without what is kept of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class RBFLayer(_Layer):
    """H[i, j] = phi(d(x_i, c_j))."""

    # (m, n), uint8, float32 or float64: the centres. Bytes stay bytes only with the Manhattan
    # metric and without weights, else they become float32: products of bytes would be cut to bytes.
    units: np.ndarray
    radius: float = 1.0  # in units of the distance
    metric: str = "manhattan"  # one of `METRICS`
    kernel: Kernel | str = "triangular"
    # (n,) or (n_in, n): weights of the features, or a linear map of them. Rows are multiplied by
    # them on their way to the units, before an engine meets them; the units have been already.
    weights: np.ndarray | None = None
    steps: Steps | None = None  # to which outputs between 0 and 1 are rounded

    def __post_init__(self):
        check_choice("metric", self.metric, METRICS)
        object.__setattr__(self, "kernel", kernel_of(self.kernel))
        if not (self.metric == "manhattan" and self.weights is None):
            units = self.units.astype(hidden_dtype(self.units.dtype), copy=False)
            object.__setattr__(self, "units", units)

    @property
    def n_features_in(self):
        return self.n_features if self.weights is None else len(self.weights)

    @property
    def is_mapped(self):
        return self.weights is not None and self.weights.ndim == 2

    @property
    def has_edge(self):
        return self.kernel.has_edge

    @property
    def formula(self):
        return f"{self.metric} {self.kernel.name}"

    @property
    def traits(self):
        is_weighted = self.weights is not None
        return {"kernel": self.kernel.name, "radius": self.radius, "weighted": is_weighted}

    @property
    def accumulation(self):
        return METRICS[self.metric].sum

    @property
    def power(self):
        return 1 if self.table is not None else self.kernel.power / METRICS[self.metric].power

    @cached_property
    def table(self):
        """Output in steps for each sum, the last one for all that are larger; None without one.

        Distances of bytes are integers. So their outputs are looked up where they are rounded:
        then they are the same on every engine, whatever it makes of an exponential.
        """
        n_distances = 255 * self.n_features + 1
        is_of_integers = self.units.dtype == np.uint8 and self.steps is not None
        if not is_of_integers or n_distances > _MOST_DISTANCES:
            return None
        return _table(self.kernel, self.radius, self.steps, n_distances)

    @cached_property
    def on_sums(self):
        is_square = self.power == 2
        return Affine(self.kernel.steps(self.radius)[0]) if is_square else super().on_sums

    @cached_property
    def affine(self):
        if self.table is not None:
            return Affine()
        factor, affine = self.kernel.steps(self.radius)
        if factor == 1 or self.power == 2:
            return affine
        return replace(affine, scale=affine.scale * factor * factor)  # what is summed is a square

    @property
    def function(self):
        if self.table is not None:
            return looked_up(self.table, self.steps)
        return self.kernel.function

    @property
    def distances(self):
        """The layer whose outputs are the distances behind this one's."""
        return replace(self, radius=1.0, kernel=DISTANCE, steps=None)

    def of_distances(self, D, out, xp):
        """The outputs for distances `D`, in `out`: what layers on the same units share is D."""
        if self.table is not None:
            out[...] = D
            return self.finish(out, xp)
        return self.round(self.kernel.outputs(D, self.radius, xp, out), xp)

    def part(self, units):
        """The layer of a slice of the units."""
        return replace(self, units=self.units[units])

    def astype(self, dtype):
        units, weights = np.ascontiguousarray(self.units, dtype=dtype), self.weights
        weights = None if weights is None else weights.astype(dtype, copy=False)
        return replace(self, units=units, weights=weights)


@dataclass(frozen=True, eq=False)
class LinearLayer(_Layer):
    """H[i, j] = x_i . w_j + b_j.

    Parameters
    ----------
    units : ndarray of shape (m, n), float32 or float64
        The weights, a row for each unit.
    bias : ndarray of shape (m,)
    steps : Steps, optional
        To which outputs between -1 and 1 are rounded.
    """

    units: np.ndarray
    bias: np.ndarray
    steps: Steps | None = None

    formula, accumulation, power, function = "linear", "product", 1, IDENTITY

    @cached_property
    def most(self):
        """Sums for rows of numbers up to this one, of the dtype of H, are finite."""
        largest = max(float(self.units.max()), -float(self.units.min()), 1.0)
        limit = float(np.finfo(self.hidden_dtype).max) / (4 * self.n_features)
        return self.hidden_dtype.type(limit / largest)

    @cached_property
    def affine(self):
        return Affine(offset=self.bias)

    def part(self, units):
        """The layer of a slice of the units."""
        return replace(self, units=self.units[units], bias=self.bias[units])

    def astype(self, dtype):
        units = np.ascontiguousarray(self.units, dtype=dtype)
        return replace(self, units=units, bias=self.bias.astype(dtype, copy=False))


class TanhLayer(LinearLayer):
    """H[i, j] = tanh(x_i . w_j + b_j), of the same parameters."""

    formula, function = "tanh", TANH


@lru_cache(maxsize=16)
def _table(kernel, radius, steps, n_distances):
    """The integers that outputs at distances 0, 1, ... are in steps, up to the last change."""
    integers = np.empty(n_distances, steps.dtype)
    for start in range(0, n_distances, _AT_A_TIME):
        D = np.arange(start, min(start + _AT_A_TIME, n_distances), dtype=np.float64)
        outputs = steps.apply(kernel.outputs(D, radius, np), np)
        integers[start : start + _AT_A_TIME] = outputs * steps.scale
    changes = np.flatnonzero(integers[1:] != integers[:-1])
    integers = integers[: changes[-1] + 2 if len(changes) else 1].copy()
    integers.flags.writeable = False
    return integers


def rounded(layer, bits):
    """The layer with outputs of so many bits; as it is for None."""
    if bits is None:
        return layer
    return replace(layer, steps=Steps(bits, is_signed=layer.accumulation == "product"))


# What becomes of the outputs of units at the places of an image, before they are averaged.
RESPONSES = AS_THEY_ARE, BELOW_MEAN, TWO_SIDED = "as they are", "below mean", "two-sided"


@dataclass(frozen=True, eq=False)
class PatchLayer(_Layer):
    """What units answer to the patches of an image, averaged over each cell of a grid.

    A patch p of an image meets the units as ``normalised(p) @ whitening - shift`` with
    ``normalised(p) = (p - mean(p)) / sqrt(var(p) + floor)``. Of the outputs a of the units,
    the columns of H are the means over cells of

    - ``"as they are"``: a;
    - ``"below mean"``: ``max(0, mean(a) - a)``, with the mean over the units (Coates, Lee & Ng
      2011, "An analysis of single-layer networks in unsupervised feature learning");
    - ``"two-sided"``: ``max(0, a - threshold)`` and ``max(0, -a - threshold)`` (Coates & Ng
      2011, "The importance of encoding versus training").

    Columns are in the order of the units, then the two sides, then the cells.
    """

    grid: PatchGrid
    inner: RBFLayer | LinearLayer  # on patches, ``grid.n_inputs`` features
    response: str = AS_THEY_ARE  # one of the three
    threshold: float = 0.0
    floor: float | None = None  # None meets patches as they are
    whitening: np.ndarray | None = None  # (n_inputs, n_inputs)
    shift: np.ndarray | None = None  # (n_inputs,)
    columns: int | None = None  # how many of the columns there are; all of them by default

    @property
    def units(self):
        return self.inner.units

    @property
    def n_sides(self):
        return 2 if self.response == TWO_SIDED else 1

    @property
    def n_columns_of_unit(self):
        return self.n_sides * self.grid.n_cells

    @property
    def n_units(self):
        """Columns of H."""
        if self.columns is not None:
            return self.columns
        return self.inner.n_units * self.n_columns_of_unit

    @property
    def n_features(self):
        return self.grid.n_features

    @property
    def accumulation(self):
        return self.inner.accumulation

    @property
    def formula(self):
        return f"{self.inner.formula} of patches"

    def width_of(self, n_units):
        return min(n_units * self.n_columns_of_unit, self.n_units)

    def part(self, units):
        """The layer of the first columns."""
        n = len(range(self.n_units)[units])
        if self.response == BELOW_MEAN:  # each column depends on all units
            return replace(self, columns=n)
        inner = self.inner.part(slice(-(-n // self.n_columns_of_unit)))
        return replace(self, inner=inner, columns=n)

    def astype(self, dtype):
        arrays = self.whitening, self.shift
        arrays = (a if a is None else a.astype(dtype, copy=False) for a in arrays)
        whitening, shift = arrays
        return replace(self, inner=self.inner.astype(dtype), whitening=whitening, shift=shift)
