"""A linear map of the features, learned from targets: relevant combinations are stretched.

This is the recursive feature machine of Radhakrishnan et al. (Science 383, 2024). As in
`feature_weights`, a small RBF network is trained on transformed samples ``x R``, and its average
gradient outer product (AGOP) M determines the next transformation, here the whole matrix ``R =
M^(1/2)``. The networks have Laplacian units of Euclidean distances, which are invariant to
rotations.

Rounds begin at feature weights that were selected before: with many irrelevant features, a network
without weights finds no combinations. If maps of these weights improve the network, rounds with
weights that the diagonal of M has updated are compared.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..engines.algebra import HOST
from ..kernels import LAPLACIAN
from ..layers import RBFLayer, hidden_dtype
from ..readouts.gather_statistics import gather_coarse
from ..readouts.penalty_search import search_penalty
from ..readouts.statistics import RidgeStatistics
from .centers import START_ALPHA
from .feature_weights import (
    equalising_weights,
    invert_weights,
    mean_outer_product,
    n_gradient_samples,
)
from .ordered_samples import OrderedSamples
from .parameters import importances_of
from .radius import typical_distance

# Maximum number of centres of a network. Maps of networks of 1000 centres are no better in stacked
# ensembles on 26 datasets.
_MAX_CENTERS = 500
# Maximum number of rounds of the whole matrix, and numbers of rounds of its diagonal before them.
# Two of these lead to better maps if many features are irrelevant, and to worse ones if none is.
_MAX_ROUNDS, _DIAGONAL_ROUNDS = 4, (0, 2)
# A further round must lower the error by this factor, because each overfits a little more.
MAX_FACTOR = 0.99


def map_bytes(n_samples: int, n_features: int) -> int:
    """Return the bytes that `learn_map` allocates for some samples."""
    n_centers = min(_MAX_CENTERS, n_samples)
    # The samples, their transformed copies for two networks, and M.
    samples = 48 * n_samples * n_features + 40 * n_features**2
    # The distances of the first samples, and of a block of samples, in float64.
    distances = 8 * n_centers * (n_centers + n_samples)
    return samples + 4 * RidgeStatistics.nbytes(n_centers) + distances


def learn_map(
    job: Job,
    samples: Samples,
    weights: npt.NDArray | None,
    random: np.random.Generator,
    split: tuple[npt.NDArray, npt.NDArray],
    factor: float = MAX_FACTOR,
) -> tuple[npt.NDArray, npt.NDArray] | None:
    """Return a linear map that continues feature weights, if it lowers the error of small networks.

    Most targets need no map, which the first round shows in the time of two networks.

    Parameters
    ----------
    job : Job
        Its memory limit is at least `map_bytes`.
    samples : Samples
        With targets.
    weights : ndarray of shape (n_features,) or None
        Those of the network whose AGOP determines the first map.
    random : numpy.random.Generator
        Draws the centres.
    split : (ndarray of int, ndarray of int)
        Training and validation rows.
    factor : float
        By which the first map must lower the validation error.

    Returns
    -------
    A : ndarray of shape (n_features, n_features), float64
        For samples ``x A``: a symmetric positive semidefinite matrix, whose rows are multiplied
        by weights that give the features equal standard deviations; the largest magnitude is 1.
    importances : ndarray of shape (n_features,), float64
        None instead of a tuple if there is no such map.
    """
    data = MapData.of(job.named(f"{job.description}, map"), samples, random, split)
    original = invert_weights(data.equalising)
    R = original if weights is None else weights / np.abs(weights).max() * original
    R = R / (np.abs(R).max() or 1)  # so that squares of huge or tiny weights are finite and not 0
    network = data.fit_network(R)
    M = _pull_back(R, network.gradient_outer_product())
    best, lowest = None, factor * network.error
    for n_diagonal in _DIAGONAL_ROUNDS:
        for A, error in _rounds(data, M, factor * network.error, n_diagonal):
            if error < lowest:
                best, lowest = A, error
        if best is None:  # most targets
            return None
    return data.map_of(best)


def _rounds(data, M, lowest, n_diagonal):
    """Yield maps and their errors as long as each is lower than the last one, `lowest` at first.

    M is the AGOP of the first round. In `n_diagonal` rounds, only its diagonal is used.
    """
    for number in range(n_diagonal + _MAX_ROUNDS):
        if not 0 < np.abs(M).max() < np.inf:
            return
        is_map = number >= n_diagonal
        R = matrix_root(M) if is_map else diagonal_root(M)
        network = data.fit_network(R)
        if is_map and not network.error < lowest:
            return
        if is_map:
            yield R, network.error
            lowest = MAX_FACTOR * network.error
        M = _pull_back(R, network.gradient_outer_product())


def _pull_back(R, M):
    """Return the AGOP with respect to x, given that with respect to ``x R``: the chain rule."""
    with np.errstate(over="ignore", invalid="ignore"):  # `_rounds` ends if M is not finite
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

    @classmethod
    def of(cls, job, samples, random, split):
        rows = np.sort(np.concatenate(split))
        training, validation = (np.searchsorted(rows, part) for part in split)
        subset = samples.taken(rows)
        X = job.engine.to_host(subset.X).astype(np.float64)
        X /= np.abs(X).max() or 1  # so that sums and squares of huge or tiny values are finite
        subset = replace(subset, X=X, order=random.permutation(training))
        equalising = equalising_weights(subset, job.engine)
        X *= equalising
        X -= X.mean(axis=0)
        X /= np.abs(X).max() or 1
        job, dtype = job.reserve(4 * X.nbytes), hidden_dtype(samples.X.dtype)
        return cls(job, subset, equalising, validation, dtype)

    def map_of(self, R: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        """Return the map of the original samples, and the importances of their features."""
        # The standard deviations are equal, except that those of constant features are 0.
        importances = importances_of(R, np.where(self.equalising > 0, 1.0, 0.0))
        # Features were multiplied by the equalising weights before R.
        A = self.equalising[:, None] * R
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
        n_units = max(1, min(_MAX_CENTERS, len(order) // 2))
        ordered = OrderedSamples(job.engine, samples.X, order)
        radius = float(LAPLACIAN.natural_radius(typical_distance(ordered, "euclidean")))
        layer = RBFLayer(ordered.block(slice(n_units)), radius, "euclidean", LAPLACIAN)
        (validation,) = gather_coarse(job, [layer], samples, self.validation)
        job = job.reserve(RidgeStatistics.nbytes(n_units))
        (training,) = gather_coarse(job, [layer], samples, np.sort(order))
        result = search_penalty([(training, validation)], START_ALPHA)
        return _Network(self.job, samples, layer, result.error, training.solve(result.alpha).W)


@dataclass(frozen=True, eq=False)
class _Network:
    """A small RBF network on transformed samples."""

    job: Job
    samples: Samples
    layer: RBFLayer
    error: float  # validation error
    W: Any  # (n_outputs, n_units)

    def gradient_outer_product(self) -> npt.NDArray:
        """Return the AGOP with respect to transformed samples, of the last training samples."""
        order: Any = self.samples.order
        rows = np.sort(order[-n_gradient_samples(self.samples) :])
        return mean_outer_product(self.job, self.layer, self.W, self.samples, rows)
