"""A layer of patches from images: what patches are like, and which ones become units."""

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from ...engines.blas_threads import at_most
from ...engines.patches import normalise
from ...layers import TWO_SIDED, LinearLayer, PatchLayer, RBFLayer, hidden_dtype
from ...parameters import is_word
from ...rows.samples import Samples
from ...rows.streaming import take_rows
from ...rows.tiling import check_fits
from ...rows.validation import to_host
from ...user_warnings import warn
from ..rbf import fit_layer as fit_rbf_layer
from ..request import RBFRequest

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
