"""A linear map of the features, learned from targets: relevant combinations are stretched.

This is the recursive feature machine of Radhakrishnan et al. (Science 383, 2024). As in
`feature_weights`, a small RBF network is trained on transformed samples ``x R``, and its average
gradient outer product (AGOP) M determines the next transformation. The first rounds use the
diagonal of M alone, which yields feature weights; further rounds use the whole matrix, ``R =
M^(1/2)``. The networks have Laplacian units of Euclidean distances, which are invariant to
rotations.

The transformation with the lowest validation error is returned, or None if none improves on the
features with equal standard deviations.

`extend_weights` continues weights that were learned otherwise by rounds of the whole matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.samples import Samples
from ..engines.algebra import HOST
from ..kernels import LAPLACIAN
from ..layers import RBFLayer, hidden_dtype
from ..readouts.cross_validation import draw_split, n_validation_units
from ..readouts.gather_statistics import gather_coarse
from ..readouts.penalty_search import search_penalty
from ..readouts.statistics import RidgeStatistics
from .centers import START_ALPHA
from .feature_weights import (
    equalising_weights,
    invert_weights,
    mean_outer_product,
    n_gradient_samples,
    required_factor,
)
from .ordered_samples import OrderedSamples
from .parameters import importances_of
from .radius import typical_distance, typical_distance_bytes

# Maximum number of features: a map is a square matrix of that size.
MAX_MAP_FEATURES = 500
# Maximum numbers of samples and centres of a network.
_MAX_SAMPLES, _MAX_CENTERS = 4800, 1000
# Maximum numbers of centres and of rounds if learned weights are extended to a map.
_MAX_EXTENSION_CENTERS, _MAX_EXTENSIONS = 500, 4
# Whether a round uses the whole matrix M, or its diagonal alone. Weights come first: with many
# irrelevant features, an unweighted network finds no combinations. With tanh units on 26 datasets,
# two such rounds instead of none improve the accuracy from 91.20 to 91.59 %, and R^2 from 0.732 to
# 0.828.
_USES_MATRIX = (False, False, True, True, True, True)
# Above this number of units, penalties and maps are validated with half of them: the same ones are
# selected, in half the time.
_MAX_ALL_VALIDATED = 600
# A map must lower the error by this factor, because each round overfits a little more.
_MAX_FACTOR = 0.99


def learn_map(
    job: Job,
    samples: Samples,
    random: np.random.Generator,
    split: tuple[npt.NDArray, npt.NDArray] | None = None,
) -> tuple[npt.NDArray | None, npt.NDArray]:
    """Learn the map of the features with which a network has the lowest validation error.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets. Rows of weight 0 are ignored.
    random : numpy.random.Generator
        Draws the subset of samples that is used.
    split : (ndarray of int, ndarray of int), optional
        Training and validation rows; drawn by default.

    Returns
    -------
    A : ndarray of shape (n_features, n_features), float64, or None
        For samples ``x A``: a symmetric positive semidefinite matrix, whose rows are multiplied
        by weights that give the features equal standard deviations; the largest magnitude is 1.
        If feature weights are as good, these, of shape (n_features,); if nothing improves, None.
    importances : ndarray of shape (n_features,), float64
        Of what was learned, even if it improves nothing.
    """
    _check_n_features(samples.X.shape[1])
    data = MapData.draw(job.named(f"{job.description}, weights"), samples, random, split)
    n_samples = len(data.samples) - len(data.validation)
    factor = min(_MAX_FACTOR, required_factor(n_samples, samples.X.shape[1]))
    R, learned = search_transformation(data.fit_network, data.equalising, factor)
    A = None if R is None else data.map_of(R)[0]
    return A, data.map_of(learned)[1]


def extension_fits(job: Job, n_samples: int, n_features: int) -> bool:
    """Return whether `extend_weights` has enough memory for some samples."""
    n_centers = min(_MAX_EXTENSION_CENTERS, n_samples)
    # The distances of the first samples, and of a block of samples, in float64.
    distances = 8 * n_centers * (n_centers + n_samples)
    needed = _map_bytes(n_samples, n_features) + 4 * RidgeStatistics.nbytes(n_centers) + distances
    return needed <= job.memory_limit


def extend_weights(
    job: Job,
    samples: Samples,
    weights: npt.NDArray | None,
    random: np.random.Generator,
    split: tuple[npt.NDArray, npt.NDArray],
    factor: float,
) -> tuple[npt.NDArray, npt.NDArray] | None:
    """Return a linear map that continues feature weights, if it lowers the error of small networks.

    Most targets need no map, which the first round shows in the time of two networks.

    Parameters
    ----------
    job, samples, random, split
        As in `learn_map`.
    weights : ndarray of shape (n_features,) or None
        Those of the network whose AGOP determines the first map.
    factor : float
        By which the first map must lower the validation error.

    Returns
    -------
    A : ndarray of shape (n_features, n_features), float64
    importances : ndarray of shape (n_features,), float64
        Both as in `learn_map`; None instead of a tuple if there is no such map.
    """
    job = job.named(f"{job.description}, map")
    data = MapData.draw(job, samples, random, split, _MAX_EXTENSION_CENTERS)
    original = invert_weights(data.equalising)
    R = original if weights is None else weights / np.abs(weights).max() * original
    R = R / (np.abs(R).max() or 1)  # so that squares of huge or tiny weights are finite and not 0
    network, best = data.fit_network(R), None
    lowest, n_samples = factor * network.error, n_gradient_samples(data.samples)
    for _ in range(_MAX_EXTENSIONS):
        M = _pull_back(R, network.gradient_outer_product(n_samples))
        if not 0 < np.abs(M).max() < np.inf:
            break
        R = matrix_root(M)
        network = data.fit_network(R)
        if not network.error < lowest:
            break
        best, lowest = R, _MAX_FACTOR * network.error
    return None if best is None else data.map_of(best)


def search_transformation(
    fit_network: "Callable[[npt.NDArray], _Network]",
    equalising: npt.NDArray,
    factor: float = _MAX_FACTOR,
) -> tuple[npt.NDArray | None, npt.NDArray]:
    """Return the transformation R of features with equal standard deviations that is the best.

    Parameters
    ----------
    fit_network : callable
        ``fit_network(R)`` trains and validates a network on samples that are transformed by R: a
        vector of weights, or a matrix.
    equalising : ndarray of shape (n_features,)
        The weights that gave the features equal standard deviations.
    factor : float
        By which each learned transformation must lower the validation error.

    Returns
    -------
    best : ndarray of shape (n_features,) or (n_features, n_features), or None
        None, if the original features are better.
    learned : ndarray of shape (n_features,) or (n_features, n_features)
        The same, but the last of the learned weights if no learned transformation is better. They
        are 1 if no feature changes an output.
    """
    # Baselines: the original features, and those with equal standard deviations.
    original = fit_network(invert_weights(equalising))
    best: npt.NDArray | None
    R = weights = np.ones(len(equalising))
    network, learned = fit_network(R), None
    lowest, best = network.error, R  # None stands for the original features
    if original.error <= network.error:
        lowest, best = original.error, None
    # Each round computes R from the AGOP of the network of the previous round. Rounds of weights
    # continue without a gain, because maps may follow; rounds of maps end with the first failure.
    for uses_matrix in _USES_MATRIX:
        M = _pull_back(R, network.gradient_outer_product())
        if not 0 < np.abs(M).max() < np.inf:
            break
        R = matrix_root(M) if uses_matrix else diagonal_root(M)
        network = fit_network(R)
        if not uses_matrix:
            weights = R
        if network.error < factor * lowest:
            lowest, best, learned = network.error, R, R
        elif uses_matrix:
            break
    return best, weights if learned is None else learned


def _check_n_features(n_features):
    if n_features > MAX_MAP_FEATURES:
        raise ValueError(
            f'feature_weights="map" learns a square matrix, for at most {MAX_MAP_FEATURES} '
            f'features, and X has {n_features}; use "learned", or reduce the dimension of X first, '
            "as by PCA."
        )


def _map_bytes(n_samples, n_features):
    """Return the bytes of the samples, of their transformed copies for two networks, and of M."""
    return 48 * n_samples * n_features + 40 * n_features**2


def _pull_back(R, M):
    """Return the AGOP with respect to x, given that with respect to ``x R``: the chain rule."""
    return R[:, None] * M * R if R.ndim == 1 else R @ M @ R


def diagonal_root(M):
    """Return the square root of the diagonal of a matrix, scaled to a maximum of 1."""
    return np.sqrt(np.maximum(M.diagonal(), 0) / M.diagonal().max())


def matrix_root(M):
    """Return the square root of a positive semidefinite matrix, scaled to a maximum of 1."""
    # Rounding errors may make eigenvalues slightly negative, and the root slightly asymmetric.
    values, vectors = HOST.eigh(np.asfortranarray(M / np.abs(M).max()))
    R = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return (R + R.T) / (2 * R.diagonal().max())


@dataclass(frozen=True, eq=False)
class MapData:
    """The samples of the networks."""

    job: Job
    # On the host, in float64, centred and with equal standard deviations. Their order of
    # presentation is one of the training rows.
    samples: Samples
    equalising: np.ndarray  # (n_features,), float64: the weights that equalise them
    validation: np.ndarray  # int: rows that are held out
    dtype: np.dtype  # of the input of a network
    max_centers: int = _MAX_CENTERS  # of a network

    @classmethod
    def draw(cls, job, samples, random, split=None, max_centers=_MAX_CENTERS):
        if split is None:
            job, samples, *split = draw_split(job, samples, _MAX_SAMPLES, random)
        rows = np.sort(np.concatenate(split))
        training, validation = (np.searchsorted(rows, part) for part in split)
        needed = _map_bytes(len(rows), samples.X.shape[1])
        check_fits("learning a linear map", needed, job.memory_limit, "set feature_weights=None")
        subset = samples.taken(rows)
        X = job.engine.to_host(subset.X).astype(np.float64)
        X /= np.abs(X).max() or 1  # so that sums and squares of huge or tiny values are finite
        subset = replace(subset, X=X, order=random.permutation(training))
        equalising = equalising_weights(subset, job.engine)
        X *= equalising
        X -= X.mean(axis=0)
        X /= np.abs(X).max() or 1
        job, dtype = job.reserve(4 * X.nbytes), hidden_dtype(samples.X.dtype)
        return cls(job, subset, equalising, validation, dtype, max_centers)

    def map_of(self, R: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        """Return the map or the weights of the original samples, and the importances."""
        # The standard deviations are equal, except that those of constant features are 0.
        importances = importances_of(R, np.where(self.equalising > 0, 1.0, 0.0))
        # Features were multiplied by the equalising weights before R.
        A = self.equalising * R if R.ndim == 1 else self.equalising[:, None] * R
        return A / np.abs(A).max(), importances

    def transformed(self, R: npt.NDArray) -> Samples:
        """Return the samples ``x R``, or ``x * R`` for weights, scaled to a maximum of 1."""
        X = self.samples.X
        X = X * R if R.ndim == 1 else HOST.multiply_transposed(X.T, R)
        X /= np.abs(X).max() or 1
        return replace(self.samples, X=np.ascontiguousarray(X, self.dtype))

    def fit_network(self, R: npt.NDArray) -> "_Network":
        """Train and validate a network on transformed samples."""
        samples, job = self.transformed(R).on_device(self.job)
        order: Any = samples.order
        n_units = max(1, min(self.max_centers, len(order) // 2))
        # Statistics of both sets of samples, a factor, and the distances.
        needed = typical_distance_bytes(samples.X) + 3 * RidgeStatistics.nbytes(n_units)
        check_fits("learning a linear map", needed, job.memory_limit, "set feature_weights=None")
        ordered = OrderedSamples(job.engine, samples.X, order)
        radius = float(LAPLACIAN.natural_radius(typical_distance(ordered, "euclidean")))
        layer = RBFLayer(ordered.block(slice(n_units)), radius, "euclidean", LAPLACIAN)
        n_validated = n_validation_units(n_units) if n_units > _MAX_ALL_VALIDATED else n_units
        # The first units of the network, which share its training statistics.
        validated = layer.part(slice(n_validated))
        (validation,) = gather_coarse(job, [validated], samples, self.validation)
        job = job.reserve(RidgeStatistics.nbytes(n_units))
        (training,) = gather_coarse(job, [layer], samples, np.sort(order))
        result = search_penalty([(training.leading(validated.n_units), validation)], START_ALPHA)
        return _Network(self.job, samples, layer, result.error, training.solve(result.alpha).W)


@dataclass(frozen=True, eq=False)
class _Network:
    """A small RBF network on transformed samples."""

    job: Job
    samples: Samples
    layer: RBFLayer
    error: float  # validation error
    W: Any  # (n_outputs, n_units)

    def gradient_outer_product(self, n_samples: int = 0) -> npt.NDArray:
        """Return the AGOP with respect to transformed samples; of the last ones, 0 for all."""
        order: Any = self.samples.order
        rows = np.sort(order[-n_samples:])
        return mean_outer_product(self.job, self.layer, self.W, self.samples, rows)
