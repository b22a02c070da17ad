"""Units that are patches of images, as a part of an estimator."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from sklearn.utils import gen_batches

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.rows import take_rows
from ..data.samples import Samples, draw_ascending
from ..engines.patches import normalise
from ..engines.threads import limit_blas_threads
from ..images import PatchGrid, check_image, read_image_shape
from ..kernels import DISTANCE, KERNELS, METRICS, Kernel, get_kernel
from ..layers import (
    BELOW_MEAN,
    TWO_SIDED,
    UNCHANGED,
    LinearLayer,
    PatchLayer,
    RBFLayer,
    hidden_dtype,
)
from ..parts.base import UNSET
from ..parts.units import Sharing, Units
from ..readouts.penalty_search import SearchHistory
from ..utils.parameters import (
    check_bool,
    check_choice,
    check_positive,
    check_positive_integer,
    check_positive_integers,
    check_positive_or_auto,
    check_random_state,
    is_option,
)
from ..utils.user_warnings import warn
from .centers import RBFParameters, fit_rbf_layer

SELECTIONS = ("random", "global")
# The response of a `PatchLayer`, for values of `kernel` that are not functions of a distance alone.
KERNEL_RESPONSES = {"soft_threshold": TWO_SIDED, "below_mean": BELOW_MEAN}

# Without an image shape: the smallest number of features that is taken as a square image, and the
# largest that may be taken as a single patch.
_MIN_IMAGE, _MAX_SINGLE_PATCH = 16, 64
# Default side of patches, as a fraction of the shorter side of the image, and its bounds.
_SIDE_FRACTION, _MIN_SIDE, _MAX_SIDE = 0.25, 3, 8
# Valid values of parameters that are one number or two.
_PAIRS = {
    "patch_size": "the side of squares, or (height, width)",
    "pool": "the cells on a side, or (down, across)",
}

# Maximum numbers of patches from which statistics are estimated, of images that they are taken
# from, and of elements in these.
_MAX_PATCHES, _MAX_IMAGES, _MAX_ELEMENTS = 2**14, 2000, 2**21
# Elements of patches that are processed in float64 at a time.
_BLOCK_ELEMENTS = 2**16
# Candidates per unit, if that makes more patches than `_MAX_PATCHES`.
_PATCHES_PER_UNIT = 4
# Number of patches between which distances are measured.
_N_MEASURED = 500
# As multiples of the mean variance of patches: the variance below which a patch is constant, and
# the floor that is added to variances.
_CONSTANT, _FLOOR = 0.01, 0.01
# Variances above this quantile of those that are not 0 are replaced by it in the mean: otherwise
# one outlying pixel would make all other patches constant. The median would be the variance of the
# noise where most patches are background.
_VARIANCE_QUANTILE = 0.99
# Names of metrics in SciPy.
_SCIPY_METRICS = {"manhattan": "cityblock", "euclidean": "euclidean", "sqeuclidean": "sqeuclidean"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Patches(Units):
    """Units that are patches; the parameters are those of `PatchProjector`."""

    image_shape: Any = None
    patch_size: Any = None
    stride: int = 1
    pool: Any = 4
    kernel: Any = "soft_threshold"
    metric: str = "euclidean"
    radius: float | str = "auto"
    threshold: float = 0.5
    contrast: bool | str = "auto"
    whitening: float | None = 0.3
    selection: str = "random"
    random_state: Any = None
    start_alpha = 1.0
    of_units = ("components_", "patches_")
    # Fitted attributes.
    components_: Any = UNSET
    patches_: Any = UNSET
    image_shape_: Any = UNSET
    pool_: Any = UNSET
    stride_: Any = UNSET
    kernel_: Any = UNSET
    metric_: Any = UNSET
    radius_: Any = UNSET
    threshold_: Any = UNSET
    floor_: Any = UNSET
    whitening_: Any = UNSET
    shift_: Any = UNSET

    def check(self) -> None:
        check_positive_integer(self.size_name, self.n_units)
        check_positive_integer("stride", self.stride)
        self._image(None)
        for name in _PAIRS:
            if getattr(self, name) is not None or name == "pool":
                _read_pair(name, getattr(self, name))
        if not isinstance(self.kernel, Kernel):
            check_choice("kernel", self.kernel, (*KERNEL_RESPONSES, *KERNELS), "a custom Kernel")
        check_choice("metric", self.metric, METRICS)
        check_positive_or_auto("radius", self.radius)
        check_positive("threshold", self.threshold, or_zero=True)
        if not is_option(self.contrast, "auto"):
            check_bool("contrast", self.contrast)
        if self.whitening is not None:
            check_positive("whitening", self.whitening)
        check_choice("selection", self.selection, SELECTIONS)

    @property
    def n_columns_of_unit(self) -> int:
        """Columns of H per unit, if images have at least as many positions as cells."""
        n_sides = 2 if _response_of(self.kernel) == TWO_SIDED else 1
        return n_sides * prod(_read_pair("pool", self.pool))

    @property
    def n_activations(self) -> Any:
        return self.n_units * self.n_columns_of_unit

    @property
    def is_prefix(self) -> bool:
        """Whether fewer units are the first of more units, with the same activations."""
        return self.selection == "random" and _response_of(self.kernel) != BELOW_MEAN

    def normalises(self, grid: PatchGrid) -> bool:
        """Return whether patches are normalised: by default unless images have a single row."""
        return grid.image[0] > 1 if is_option(self.contrast, "auto") else bool(self.contrast)

    def grid(self, n_features: int) -> PatchGrid:
        """Return the positions and cells of images with this number of features."""
        image = self._image(n_features)
        sides, size = image[:2], self.patch_size
        if size is None:
            # Samples that are not images have a single patch.
            is_image = self.image_shape is not None or sides[0] > 1
            side = _default_side(sides) if is_image else sides[1]
            size = tuple(min(side, image_side) for image_side in sides)
        height, width = _read_pair("patch_size", size)
        if height > sides[0] or width > sides[1]:
            raise ValueError(
                f"patch_size={self.patch_size!r} does not fit in images of {sides[0]} x {sides[1]}."
            )
        grid = PatchGrid(image, (height, width), self.stride, (1, 1))
        if grid.n_inputs == 1 and self.normalises(grid):
            raise ValueError(
                f"patch_size={self.patch_size!r} means patches of a single value, whose contrast "
                "is 0; use larger patches, or contrast=False."
            )
        return grid.pooled(_read_pair("pool", self.pool))

    def _image(self, n_features):
        """Return (rows, columns, channels); None if neither shape nor features are known."""
        if self.image_shape is not None:
            shape = read_image_shape(self.image_shape)
            if n_features is not None:
                check_image(shape, n_features)
            return (*shape, 1)[:3]
        if n_features is None:
            return None
        side = isqrt(n_features)
        if side * side == n_features >= _MIN_IMAGE:
            return side, side, 1
        if n_features > _MAX_SINGLE_PATCH:
            raise ValueError(
                f"image_shape=None, but {n_features} features are not a square greyscale image; "
                "set image_shape=(rows, columns) or (rows, columns, channels)."
            )
        return 1, n_features, 1

    def fit(self, job: Job, samples: Samples, history: SearchHistory) -> "Patches":
        layer, patches = fit_patch_layer(self, job, samples)
        inner, grid = layer.inner, layer.grid
        threshold = layer.threshold if layer.response == TWO_SIDED else None
        return self.with_fitted(
            components_=inner.units, patches_=patches, image_shape_=grid.image, pool_=grid.pool,
            stride_=self.stride, kernel_=self.kernel, metric_=self.metric,
            radius_=getattr(inner, "radius", None), threshold_=threshold, floor_=layer.floor,
            whitening_=layer.whitening, shift_=layer.shift,
        )  # fmt: skip

    @cached_property
    def layer(self) -> PatchLayer:
        units, size = self.components_, self.patches_.shape[1:3]
        response = _response_of(self.kernel_)
        inner: LinearLayer | RBFLayer
        if response == TWO_SIDED:
            inner = LinearLayer(units, np.zeros(len(units), units.dtype))
        else:
            inner = RBFLayer(units, self.radius_, self.metric_, _distance_kernel(self.kernel_))
        return PatchLayer(
            PatchGrid(self.image_shape_, size, self.stride_, self.pool_), inner, response,
            self.threshold_ or 0.0, self.floor_, self.whitening_, self.shift_,
        )  # fmt: skip

    def leading(self, n_columns: int) -> "Patches":
        return super().leading(n_columns // self.layer.n_columns_of_unit)

    @property
    def sharing(self) -> Sharing:
        return Sharing(frozenset({"n_hidden", "alpha"} if self.is_prefix else {"alpha"}))


def _response_of(kernel):
    """Return the response of the `PatchLayer` for a value of the parameter `kernel`."""
    return KERNEL_RESPONSES.get(kernel, UNCHANGED)


def _distance_kernel(kernel):
    """Return the kernel of units that depend on a distance."""
    return DISTANCE if _response_of(kernel) == BELOW_MEAN else get_kernel(kernel)


def _read_pair(name, value):
    """Return two integers; a single one stands for both."""
    if np.iterable(value):
        return check_positive_integers(name, value, _PAIRS[name], (2,))
    return (check_positive_integer(name, value),) * 2


def _default_side(sides):
    """Return the default side of patches."""
    shorter = min((side for side in sides if side > 1), default=1)
    return min(max(round(_SIDE_FRACTION * shorter), _MIN_SIDE), _MAX_SIDE)


def fit_patch_layer(units: Patches, job: Job, samples: Samples) -> tuple[PatchLayer, npt.NDArray]:
    """Select patches of the training images as units.

    1. Draw random patches of random images; the first 16,384 serve for statistics.
    2. Normalise their contrast, and whiten them.
    3. Drop those that are constant, and select the units among the others.

    Returns
    -------
    layer : PatchLayer
    patches : ndarray of shape (n_units, height, width, channels)
        The units as patches of the images, in the dtype of X.
    """
    grid, dtype = units.grid(samples.X.shape[1]), hidden_dtype(samples.X.dtype)
    random_state = check_random_state(units.random_state)
    windows, indices = _draw_patches(grid, job, samples, units.n_units, random_state)
    P = np.empty((len(indices), grid.n_inputs), dtype)
    variance = np.empty(len(P))
    for part in _row_slices(P):
        P[part] = _take_patches(windows, indices[part]).reshape(-1, grid.n_inputs)
        variance[part] = P[part].var(axis=1, dtype=np.float64)
    _check_squares(P)
    # The first patches are the same for every number of units, so the statistics are, too.
    mean_variance = _winsorised_mean(variance[:_MAX_PATCHES])
    layer = _fit_normalisation(units, grid, P, mean_variance)
    is_constant = variance <= _CONSTANT * mean_variance
    if is_constant.all():  # constant images: use the patches as they are
        is_constant[:] = False
    n_statistics = np.count_nonzero(~is_constant[:_MAX_PATCHES])
    if is_constant.any():
        P, indices = P[~is_constant], indices[~is_constant]
    selected = _select_patches(units, job, P, random_state)
    layer = _add_units(units, layer, P[:n_statistics], P[selected])
    return layer, _take_patches(windows, indices[selected])


def _winsorised_mean(variance):
    """Return the mean of variances, the largest of which are replaced by a quantile."""
    positive = variance[variance > 0]
    if not len(positive):
        return 0.0
    return np.minimum(variance, np.quantile(positive, _VARIANCE_QUANTILE)).mean()


def _fit_normalisation(units, grid, P, mean_variance):
    """Normalise and whiten patches in place, and return the layer that does so, without units."""
    layer = PatchLayer(grid, None, _response_of(units.kernel))
    if units.normalises(grid):
        floor = float(_FLOOR * mean_variance)
        layer = replace(layer, floor=floor)
        for part in _row_slices(P):
            normalise(P[part], floor, np)
    if units.whitening is not None:
        arrays = _fit_whitening(P[:_MAX_PATCHES], units.whitening)
        Z, shift = (array.astype(P.dtype) for array in arrays)
        layer = replace(layer, whitening=Z, shift=shift)
        for part in _row_slices(P):
            P[part] = P[part] @ Z - shift
    return layer


def _row_slices(P: npt.NDArray) -> Iterator[slice]:
    """Return slices of few rows of P, whose temporary copies need little memory."""
    return gen_batches(len(P), max(1, _BLOCK_ELEMENTS // P.shape[1]))


def _take_patches(windows, indices):
    """Return patches by their flat indices, (n, height, width, channels)."""
    return windows[np.unravel_index(indices, windows.shape[:3])]


def _draw_patches(grid, job, samples, n_units, random_state):
    """Draw patches of random images.

    Returns
    -------
    windows : ndarray of shape (n_images, down, across, height, width, channels)
        A view of all patches of the images.
    indices : ndarray of int
        Flat indices of random patches, in random order; the first ones do not depend on `n_units`.
    """
    rows, X = samples.rows_with_weight, samples.X
    n_images = max(1, min(_MAX_IMAGES, _MAX_ELEMENTS // grid.n_features, len(rows)))
    total = n_images * grid.n_positions
    n = min(total, max(_MAX_PATCHES, _PATCHES_PER_UNIT * n_units))
    itemsize = hidden_dtype(X.dtype).itemsize
    # The images; the patches with and without constant ones, or the indices of all; temporaries of
    # a block.
    image_bytes = n_images * grid.n_features * X.dtype.itemsize
    patch_bytes = max(8 * total, 2 * n * grid.n_inputs * itemsize) + 32 * n
    block_bytes = 4 * 8 * max(_BLOCK_ELEMENTS, grid.n_inputs) + 4 * 8 * grid.n_inputs**2
    needed = image_bytes + patch_bytes + block_bytes
    check_fits("sampling patches", needed, job.memory_limit, "use smaller patches")
    # A stream each, so that the images do not depend on the number of patches.
    image_random, patch_random = (
        np.random.default_rng(random_state.randint(2**31 - 1)) for _ in range(2)
    )
    rows = draw_ascending(rows, n_images, image_random)
    windows = grid.windows(job.engine.to_host(take_rows(X, rows)), np)
    return windows, patch_random.permutation(total)[:n].copy()


def _check_squares(P):
    """Raise ValueError if the squares of pixels overflow or underflow their dtype."""
    largest, limits = max(abs(float(P.max())), abs(float(P.min()))), np.finfo(P.dtype)
    remedy = "scale the pixels" + (", or pass float64" if P.dtype != np.float64 else "")
    if largest > (limits.max / (8 * P.shape[1])) ** 0.5:
        raise ValueError(
            f"X contains {largest:.3g}, and the squared lengths of patches overflow {P.dtype}; "
            f"{remedy}."
        )
    # The floor of variances is normal if pixels differ by the root of eps times the largest.
    if 0 < largest < float(limits.tiny / (_FLOOR * limits.eps)) ** 0.5:
        raise ValueError(
            f"X contains values of at most {largest:.3g}, whose squares underflow {P.dtype}; "
            f"{remedy}."
        )


@limit_blas_threads(1)
def _fit_whitening(P, eps):
    """Return (Z, shift) such that ``P @ Z - shift`` has variances near 1 and no correlations.

    ZCA: ``Z = V diag((s + eps mean(s)) ** -1/2) V'`` for the eigenvalues s and eigenvectors V
    of the covariance of patches (Coates, Lee & Ng 2011); the unit of eps is the mean eigenvalue.
    """
    mean = P.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for part in _row_slices(P):
        centred = P[part] - mean
        covariance += centred.T @ centred
    values, vectors = eigh(covariance / len(P))
    # Of constant patches all eigenvalues are 0.
    values = np.maximum(values, 0) + eps * (max(values.mean(), 0) or 1.0)
    Z = vectors / np.sqrt(values) @ vectors.T
    return Z, mean @ Z


def _select_patches(units, job, P, random_state):
    """Return the indices of the patches P, in random order, that become units."""
    n = units.n_units
    if n > len(P):
        warn(
            f"{units.size_name}={n} is more than the {len(P)} patches of the training images that "
            f"are not constant; there will be {len(P)} units."
        )
        n = len(P)
    if units.selection == "random":
        return np.arange(n)
    # P is in random order already, so shuffle=False presents its first patches first.
    parameters = RBFParameters(
        size_name=units.size_name, n_units=n, selection="global", metric="euclidean",
        kernel="triangular", shuffle=False, random_state=random_state,
    )  # fmt: skip
    _, selected, _ = fit_rbf_layer(parameters, job, Samples(P, order=np.arange(len(P))))
    return selected


def _check_threshold(units, threshold, rms, P):
    """Raise ValueError if no patch is as long as the threshold: all activations would be 0.

    The product of a patch and a unit of length 1 is at most the length of the patch.
    """
    longest = np.sqrt(np.einsum("ij,ij->i", P, P, dtype=np.float64).max(initial=0))
    if 0 < longest <= threshold:
        raise ValueError(
            f"threshold={units.threshold!r} exceeds the inputs of all units for patches of the "
            "training images, so that all activations would be 0; use a threshold well below "
            f"{longest / rms:.3g}, such as 0.5."
        )


def _add_units(units, layer, P, selected):
    """Return the layer with the selected patches as units; patches P are like its inputs."""
    if layer.response == TWO_SIDED:
        lengths = np.linalg.norm(selected, axis=1, keepdims=True)
        selected = selected / np.where(lengths > 0, lengths, 1).astype(selected.dtype)
        # The root mean square input of a unit of length 1.
        rms = np.sqrt(np.einsum("ij,ij->", P, P, dtype=np.float64) / P.size)
        threshold = float(units.threshold * rms)
        _check_threshold(units, threshold, rms, P)
        inner = LinearLayer(selected, np.zeros(len(selected), selected.dtype))
        return replace(layer, inner=inner, threshold=threshold)
    kernel, radius = _distance_kernel(units.kernel), units.radius
    if is_option(radius, "auto"):
        distance = np.median(pdist(P[:_N_MEASURED], _SCIPY_METRICS[units.metric]))
        radius = kernel.natural_radius(distance) or 1.0
    return replace(layer, inner=RBFLayer(selected, float(radius), units.metric, kernel))
