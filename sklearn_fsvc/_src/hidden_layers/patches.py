"""A layer of patches from images: what patches are like, and which ones become units."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, prod
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from ..data.samples import Samples
from ..data.streaming import take_rows
from ..data.tiling import check_fits
from ..data.validation import to_host
from ..engines.patches import normalise
from ..engines.threads import at_most
from ..images import PatchGrid, check_image, read_image_shape
from ..kernels import DISTANCE, KERNELS, METRICS, Kernel, kernel_of
from ..layers import (
    AS_THEY_ARE,
    BELOW_MEAN,
    TWO_SIDED,
    LinearLayer,
    PatchLayer,
    RBFLayer,
    hidden_dtype,
)
from ..parts import UNSET, Sharing, Units
from ..utils.parameters import (
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_positive_or_auto,
    check_whole_numbers,
    is_word,
)
from ..utils.user_warnings import warn
from .centers import RBFRequest
from .centers import fit_layer as fit_rbf_layer

# What the user asks of a layer of patches.

SELECTIONS = ("random", "global")
# Kernels that are more than a function of a distance, and what they make of the units' outputs.
RESPONSES = {"soft_threshold": TWO_SIDED, "below_mean": BELOW_MEAN}

# Squares of fewer features, and other numbers of features up to this, need not be images.
_LEAST_IMAGE, _NO_IMAGE = 16, 64
# The side of patches: this part of the shorter side of an image, within bounds.
_PART_OF_SIDE, _LEAST_SIDE, _MOST_SIDE = 0.25, 3, 8


@dataclass(frozen=True, eq=False, kw_only=True)
class PatchRequest:
    """What the user asked of a layer of patches: parameters of `PatchProjector`."""

    size_name: str  # name of the parameter that `n_units` is
    n_units: int
    image_shape: Any
    patch_size: Any
    stride: int
    pool: Any
    kernel: Any
    metric: str
    radius: float | str
    threshold: float
    contrast: bool | str
    whitening: float | None
    selection: str
    random_state: Any

    def check(self):
        """Raise for what cannot be used."""
        check_count(self.size_name, self.n_units)
        check_count("stride", self.stride)
        self._image(None)
        for name, meaning in _PAIRS.items():
            if getattr(self, name) is not None or name == "pool":
                _pair(name, getattr(self, name), meaning)
        if not isinstance(self.kernel, Kernel):
            check_choice("kernel", self.kernel, (*RESPONSES, *KERNELS), "a Kernel of your own")
        check_choice("metric", self.metric, METRICS)
        check_positive_or_auto("radius", self.radius)
        check_positive("threshold", self.threshold, or_zero=True)
        if not is_word(self.contrast, "auto"):
            check_flag("contrast", self.contrast)
        if self.whitening is not None:
            check_positive("whitening", self.whitening)
        check_choice("selection", self.selection, SELECTIONS)

    @property
    def response(self):
        """What becomes of the outputs of the units, as of `PatchLayer`."""
        return RESPONSES.get(self.kernel, AS_THEY_ARE)

    @property
    def n_columns_of_unit(self):
        """Columns of H of one unit, where images have places for all cells."""
        return (1 + (self.response == TWO_SIDED)) * prod(_pair("pool", self.pool, _PAIRS["pool"]))

    @property
    def is_prefix(self):
        """Whether fewer units are a prefix of more, and answer the same."""
        return self.selection == "random" and self.response != BELOW_MEAN

    @property
    def inner_kernel(self):
        """The kernel of units that are places among patches."""
        return DISTANCE if self.response == BELOW_MEAN else kernel_of(self.kernel)

    def normalises(self, grid):
        """Whether patches are normalised: by themselves those of images, which have rows."""
        return grid.image[0] > 1 if is_word(self.contrast, "auto") else bool(self.contrast)

    def grid(self, n_features):
        """The `PatchGrid` of images of so many features."""
        image = self._image(n_features)
        sides, size = image[:2], self.patch_size
        if size is None:
            # Features that are no image have one patch.
            most = _usual_side(sides) if self.image_shape or sides[0] > 1 else sides[1]
            size = tuple(min(most, side) for side in sides)
        height, width = _pair("patch_size", size, _PAIRS["patch_size"])
        if height > sides[0] or width > sides[1]:
            raise ValueError(
                f"patch_size={self.patch_size!r} does not fit in images of {sides[0]} x {sides[1]}."
            )
        grid = PatchGrid(image, (height, width), self.stride, (1, 1))
        return grid.pooled(_pair("pool", self.pool, _PAIRS["pool"]))

    def _image(self, n_features):
        """(rows, columns, channels)."""
        if self.image_shape is not None:
            shape = read_image_shape(self.image_shape)
            if n_features is not None:
                check_image(shape, n_features)
            return (*shape, 1)[:3]
        if n_features is None:
            return None
        side = isqrt(n_features)
        if side * side == n_features >= _LEAST_IMAGE:
            return side, side, 1
        if n_features > _NO_IMAGE:
            raise ValueError(
                f"image_shape=None, and {n_features} features are no square of gray pixels; give "
                "image_shape=(rows, columns) or (rows, columns, channels)."
            )
        return 1, n_features, 1


# What parameters of one number or two may be.
_PAIRS = {
    "patch_size": "the side of squares, or (height, width)",
    "pool": "the cells on a side, or (down, across)",
}


def _pair(name, value, meaning):
    """Two whole numbers; one stands for both."""
    if np.iterable(value):
        return check_whole_numbers(name, value, meaning, (2,))
    return (check_count(name, value),) * 2


def _usual_side(sides):
    """The side of patches where nobody gave one."""
    shorter = min((side for side in sides if side > 1), default=1)
    return min(max(round(_PART_OF_SIDE * shorter), _LEAST_SIDE), _MOST_SIDE)


# Patches by which all are judged, the images that they are of, and numbers in these: at most.
_PATCHES, _IMAGES, _NUMBERS = 2**14, 2000, 2**21
# Numbers of patches on which something is done in float64 at a time.
_AT_A_TIME = 2**16
# Patches from which a unit is chosen, where that makes more of them.
_PATCHES_OF_UNIT = 4
# Patches between which distances are measured.
_MEASURED = 500
# A patch whose variance is under this part of the mean one is flat.
_FLAT = 0.01
# What is added to the variance of patches, as a part of the mean one.
_FLOOR = 0.01


def fit_layer(request, job, samples):
    """Return the `PatchLayer` that was asked for, and its units as they are in the images.

    These have the shape (n_units, height, width, channels) and the dtype of X.
    """
    grid, dtype = request.grid(samples.X.shape[1]), hidden_dtype(samples.X.dtype)
    random_state = check_random_state(request.random_state)
    windows, places = _draw(grid, job, samples, request.n_units, random_state)
    P = np.empty((len(places), grid.n_inputs), dtype)
    variance = np.empty(len(P))
    for some in _parts(P):
        P[some] = _patches(windows, places[some]).reshape(-1, grid.n_inputs)
        variance[some] = P[some].var(axis=1, dtype=np.float64)
    _check_squares(P)
    usual = variance[:_PATCHES].mean()
    layer = PatchLayer(grid, None, request.response)
    if request.normalises(grid):
        layer = replace(layer, floor=float(_FLOOR * usual))
        for some in _parts(P):
            normalise(P[some], layer.floor, np)
    if request.whitening is not None:
        Z, shift = (part.astype(dtype) for part in _whitening(P[:_PATCHES], request.whitening))
        layer = replace(layer, whitening=Z, shift=shift)
        for some in _parts(P):
            P[some] = P[some] @ Z - shift
    is_flat = variance <= _FLAT * usual
    if is_flat.all():
        is_flat[:] = False
    n_usual = np.count_nonzero(~is_flat[:_PATCHES])
    if is_flat.any():
        P, places = P[~is_flat], places[~is_flat]
    chosen = _choose(request, job, P, random_state)
    layer = _with_units(request, layer, P[:n_usual], P[chosen])
    return layer, _patches(windows, places[chosen])


def _parts(P):
    """Slices of the rows of P of few numbers each, whatever the memory."""
    step = max(1, _AT_A_TIME // P.shape[1])
    return [slice(start, start + step) for start in range(0, len(P), step)]


def _patches(windows, places):
    """Return the patches with these numbers."""
    return windows[np.unravel_index(places, windows.shape[:3])]


def _draw(grid, job, samples, n_units, random_state):
    """Patches of random images, and in random order the numbers of some: fewer are a prefix."""
    rows, X = samples.present, samples.X
    n_images = max(1, min(_IMAGES, _NUMBERS // grid.n_features, len(rows)))
    total = n_images * grid.n_places
    n = min(total, max(_PATCHES, _PATCHES_OF_UNIT * n_units))
    item = hidden_dtype(X.dtype).itemsize
    # Images, twice where they come from elsewhere; patches, with and without those that are flat,
    # or the numbers of all; what is made of few at a time.
    of_images = n_images * grid.n_features * X.dtype.itemsize
    of_patches = max(8 * total, 2 * n * grid.n_inputs * item) + 32 * n
    of_few = 4 * 8 * max(_AT_A_TIME, grid.n_inputs) + 4 * 8 * grid.n_inputs**2
    check_fits("looking at patches", of_images + of_patches + of_few, job.memory_limit)
    images, places = (np.random.default_rng(random_state.randint(2**31 - 1)) for _ in range(2))
    rows = np.sort(images.choice(rows, n_images, replace=False))
    windows = grid.windows(to_host(take_rows(X, rows)), np)
    return windows, places.permutation(total)[:n].copy()


def _check_squares(P):
    """Raise where patches are so long that their squares are no numbers of the dtype."""
    largest = max(abs(float(P.max())), abs(float(P.min())))
    if largest > (np.finfo(P.dtype).max / (8 * P.shape[1])) ** 0.5:
        raise ValueError(
            f"X holds {largest:.3g}, and the squares of patches are no numbers of {P.dtype} then; "
            "scale the pixels, or give float64."
        )


@at_most(1)
def _whitening(P, eps):
    """(Z, shift): ``P @ Z - shift`` has variances near 1 and no correlations.

    ZCA: ``Z = V diag((s + eps mean(s)) ** -1/2) V'`` for the eigenvalues s and eigenvectors V
    of the covariance of patches (Coates, Lee & Ng 2011); the unit of eps is the mean variance.
    """
    mean = P.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for some in _parts(P):
        centred = P[some] - mean
        covariance += centred.T @ centred
    values, vectors = eigh(covariance / len(P))
    values = np.maximum(values, 0) + eps * max(values.mean(), np.finfo(float).tiny)
    Z = vectors / np.sqrt(values) @ vectors.T
    return Z, mean @ Z


def _choose(request, job, P, random_state):
    """Which of the patches P, in random order, become units."""
    n = request.n_units
    if n > len(P):
        warn(
            f"{request.size_name}={n} is more than the {len(P)} patches in the rows that are not "
            f"flat; there will be {len(P)} units."
        )
        n = len(P)
    if request.selection == "random":
        return np.arange(n)
    order = np.arange(len(P))
    novel = RBFRequest(
        size_name=request.size_name, n_units=n, radius="auto", selection_radius=None, overlap=1.0,
        selection="global", metric="euclidean", kernel="triangular", shuffle=False,
        random_state=random_state,
    )  # fmt: skip
    return fit_rbf_layer(novel, job, Samples(P, order=order))[1]


def _with_units(request, layer, P, units):
    """The layer with these units, on patches like P."""
    if request.response == TWO_SIDED:
        lengths = np.linalg.norm(units, axis=1, keepdims=True)
        units = units / np.where(lengths > 0, lengths, 1).astype(units.dtype)
        # What a unit of length 1 receives, as a rule.
        received = np.sqrt(np.einsum("ij,ij->", P, P, dtype=np.float64) / P.size)
        inner = LinearLayer(units, np.zeros(len(units), units.dtype))
        return replace(layer, inner=inner, threshold=float(request.threshold * received))
    kernel, radius = request.inner_kernel, request.radius
    if is_word(radius, "auto"):
        distance = np.median(pdist(P[:_MEASURED], _NAMES[request.metric]))
        radius = kernel.natural_radius(distance) or 1.0
    return replace(layer, inner=RBFLayer(units, float(radius), request.metric, kernel))


# The metrics in SciPy's words.
_NAMES = {"manhattan": "cityblock", "euclidean": "euclidean", "sqeuclidean": "sqeuclidean"}


# Units that are patches of images, averaged over the cells of a grid: parameters and choice.


@dataclass(frozen=True, eq=False, kw_only=True)
class Patches(PatchRequest, Units):
    """Units on patches."""

    first_alpha = 1.0
    of_units = ("components_", "patches_")
    # Fitted attributes.
    components_: Any = UNSET
    patches_: Any = UNSET
    image_shape_: Any = UNSET
    pool_: Any = UNSET
    radius_: Any = UNSET
    threshold_: Any = UNSET
    floor_: Any = UNSET
    whitening_: Any = UNSET
    shift_: Any = UNSET

    @property
    def n_activations(self):
        return self.n_units * self.n_columns_of_unit

    def fit(self, job, samples, history):
        layer, patches = fit_layer(self, job, samples)
        inner, grid = layer.inner, layer.grid
        threshold = layer.threshold if layer.response == TWO_SIDED else None
        return self.with_fitted(
            components_=inner.units, patches_=patches, image_shape_=grid.image, pool_=grid.pool,
            radius_=getattr(inner, "radius", None), threshold_=threshold, floor_=layer.floor,
            whitening_=layer.whitening, shift_=layer.shift,
        )  # fmt: skip

    @cached_property
    def layer(self):
        units, size = self.components_, self.patches_.shape[1:3]
        if self.response == TWO_SIDED:
            inner = LinearLayer(units, np.zeros(len(units), units.dtype))
        else:
            inner = RBFLayer(units, self.radius_, self.metric, self.inner_kernel)
        return PatchLayer(
            PatchGrid(self.image_shape_, size, self.stride, self.pool_), inner, self.response,
            self.threshold_ or 0.0, self.floor_, self.whitening_, self.shift_,
        )  # fmt: skip

    def leading(self, n_columns):
        return super().leading(n_columns // self.layer.n_columns_of_unit)

    @property
    def sharing(self):
        return Sharing(frozenset({"n_hidden", "alpha"} if self.is_prefix else {"alpha"}))
