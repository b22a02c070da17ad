"""A linear map of the features, learned from targets: combinations that matter count for more.

As `feature_weights`, with all of the matrix in the place of its diagonal: the map is the root of
the average gradient outer product (AGOP) of a small network, and the next network is made of
mapped rows. This is the recursive feature machine of Radhakrishnan et al. (Science 383, 2024), but
that its first rounds find weights. Networks are Laplacian units of Euclidean distances, which a
rotation leaves as they are.

Of all rounds the one with the least held-out error is taken, and none where no map helps.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..data.job import Job
from ..data.samples import Samples
from ..data.tiling import check_fits
from ..data.validation import to_host
from ..engines.algebra import HOST
from ..kernels import LAPLACIAN
from ..layers import RBFLayer, hidden_dtype
from ..readouts.cross_validation import hold_out, n_validation_units, search_penalty
from ..readouts.ridge import gather_coarse
from ..readouts.statistics import RidgeStatistics
from .defaults import MOST_MAPPED
from .feature_weights import mean_outer_product, of_equal_spread
from .novelty import OrderedRows
from .radius import typical_distance, typical_distance_bytes

# Rows of the networks, and the most centres.
_ROWS, _CENTERS = 4800, 1000
# Whether a round is of the matrix, or of its diagonal alone. Weights come first: among many useless
# features, a network that has no weights sees no combination of them. With tanh units of 26 tables,
# from no such rounds to two, 91.20 -> 91.59 % of classes are right, and R^2 is 0.732 -> 0.828.
_ROUNDS = (False, False, True, True, True, True)
# Units of which a half judges penalties and maps: the same ones are found, in half the time.
_MANY = 600
# The penalty that is tried first.
_ALPHA = 0.1
# A round must lower the error to this part of it: each one follows the rows more closely.
_GAIN = 0.99


def learn(job, samples, random, split=None):
    """The map of the features under which a network has the least held-out error.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets. Rows of weight 0 are as good as absent.
    random : numpy.random.Generator
        For the rows that are looked at.
    split : (ndarray of int, ndarray of int), optional
        Rows that networks are trained on, and others that judge them; by default they are drawn.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
        A: rows become ``x A``. It is a symmetric matrix without negative eigenvalues for
        features of equal spread, whose weights its rows are multiplied by; its largest number
        is 1. Where weights alone are as good, these, of shape (n_features,); where nothing
        helps, None.
    """
    _check_width(samples.X.shape[1])
    probe = _Rows.draw(job.named(f"{job.what}, weights"), samples, random, split)
    even, R = probe.even, np.ones(len(probe.even))
    plain, network = probe.fit(_inverse(even)), probe.fit(R)
    least, best = (plain.error, None) if plain.error <= network.error else (network.error, R)
    for of_matrix in _ROUNDS:
        M = _through(R, network.outer_product())
        if not 0 < np.abs(M).max() < np.inf:
            break
        R = _root(M) if of_matrix else _root_of_diagonal(M)
        network = probe.fit(R)
        if network.error < _GAIN * least:
            least, best = network.error, R
        elif of_matrix:
            break
    if best is None:
        return None
    A = even * best if best.ndim == 1 else even[:, None] * best
    return A / np.abs(A).max()


def _check_width(n_features):
    if n_features > MOST_MAPPED:
        raise ValueError(
            f'feature_weights="map" learns a square of the features, and X has {n_features}, more '
            f'than {MOST_MAPPED}; use "learned", or reduce X first, as by PCA.'
        )


def _inverse(weights):
    """What takes weights back; 0 where they are."""
    return np.divide(1, weights, out=np.zeros(len(weights)), where=weights > 0)


def _through(R, M):
    """The outer product M for rows as they were before the map, or weights, R."""
    return R[:, None] * M * R if R.ndim == 1 else R @ M @ R


def _root_of_diagonal(M):
    """The root of the diagonal of a matrix as `_root` takes it, its largest number 1."""
    return np.sqrt(np.maximum(M.diagonal(), 0) / M.diagonal().max())


def _root(M):
    """The root of a symmetric matrix without negative eigenvalues, its largest number 1."""
    values, vectors = HOST.eigh(np.asfortranarray(M / np.abs(M).max()))
    R = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return (R + R.T) / (2 * R.diagonal().max())


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that small networks see."""

    job: Job
    # On the host, in float64, of equal spread and less their mean. In the order of presentation,
    # those that networks are trained on.
    samples: Samples
    # (n_features,), float64: the weights that have given the features one spread; 0 for constant
    # ones.
    even: np.ndarray
    held: np.ndarray  # int: rows that are held out
    dtype: np.dtype  # in which rows meet a network

    @classmethod
    def draw(cls, job, samples, random, split=None):
        if split is None:
            split = hold_out(random.permutation(samples.present)[:_ROWS], random)
        rows = np.sort(np.concatenate(split))
        kept, held = (np.searchsorted(rows, some) for some in split)
        # The rows, those that are mapped for one network and the next, what they are made of.
        n, n_bytes = samples.X.shape[1], 8 * len(rows) * samples.X.shape[1]
        needed = 6 * n_bytes + 40 * n * n
        check_fits("learning a linear map", needed, job.memory_limit, "set feature_weights=None")
        drawn = samples.taken(rows)
        X = to_host(drawn.X).astype(np.float64)
        X /= np.abs(X).max() or 1  # sums and squares of what is huge or tiny are numbers
        drawn = replace(drawn, X=X, order=random.permutation(kept))
        even = of_equal_spread(drawn, job.engine)
        X *= even
        X -= X.mean(axis=0)
        X /= np.abs(X).max() or 1
        job, dtype = job.reserving(4 * n_bytes), hidden_dtype(samples.X.dtype)
        return cls(job, drawn, even, held, dtype)

    def through(self, A):
        """The samples with their rows times weights or a map, their largest number 1."""
        X = self.samples.X
        X = X * A if A.ndim == 1 else HOST.cross(X.T, A)
        X /= np.abs(X).max() or 1
        return replace(self.samples, X=np.ascontiguousarray(X, self.dtype))

    def fit(self, A):
        """The `_Network` of mapped rows."""
        mapped, job = self.through(A).on_device(self.job)
        n_units = max(1, min(_CENTERS, len(mapped.order) // 2))
        # Sums of both sets of rows, a factor, and what they are made of.
        needed = typical_distance_bytes(mapped.X) + 3 * RidgeStatistics.nbytes(n_units)
        check_fits("learning a linear map", needed, job.memory_limit, "set feature_weights=None")
        shown = OrderedRows(job.engine, mapped.X, mapped.order)
        radius = float(LAPLACIAN.natural_radius(typical_distance(shown, "euclidean")))
        layer = RBFLayer(shown.block(slice(n_units)), radius, "euclidean", LAPLACIAN)
        judges = layer.part(slice(n_validation_units(n_units) if n_units > _MANY else n_units))
        (held,) = gather_coarse(job, [judges], mapped, self.held)
        job = job.reserving(RidgeStatistics.nbytes(n_units))
        (kept,) = gather_coarse(job, [layer], mapped, np.sort(mapped.order))
        found = search_penalty([(kept.leading(judges.n_units), held)], _ALPHA)
        return _Network(self.job, mapped, layer, found.error, kept.solve(found.alpha).W)


@dataclass(frozen=True, eq=False)
class _Network:
    """A small network on mapped rows."""

    job: Job
    samples: Samples
    layer: RBFLayer
    error: float
    W: np.ndarray

    def outer_product(self):
        """The mean outer product of the gradients with respect to mapped rows."""
        rows = np.sort(self.samples.order)
        return mean_outer_product(self.job, self.layer, self.W, self.samples, rows)
