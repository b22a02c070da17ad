"""Exact Shapley values of a sum of products over the players, by quadrature.

The game of a sample x and a background sample z has the value

    v(S) = sum_j W_j prod_{k in S} a_jk prod_{k not in S} b_jk

for a set S of players, with the factor a_jk of unit j and player k for x, and b_jk for z. Its
multilinear extension (G. Owen 1972, "Multilinear extensions of games"), at the point whose
coordinates are all t, gives the Shapley value of player k as an integral over t from 0 to 1:

    sum_j W_j (a_jk - b_jk) integral prod_{i != k} (b_ji + t (a_ji - b_ji)) dt

The integrand is a polynomial of degree n - 1 for n players, which a Gauss-Legendre quadrature
with n / 2 nodes integrates exactly. The cost is O(units x players x nodes) for a pair of samples.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, roots_legendre

from ..data.memory_plan import check_fits, count_fitting
from ..engines import get_engine
from ..engines.algebra import HOST
from ..engines.host import cut_rows, map_rows
from ..engines.threads import n_threads

# Bound of the relative error of an integral, where fewer nodes are used than are exact.
_TOLERANCE = 1e-9
# Samples that a thread processes at a time, and bytes of the factors of background samples.
_ROWS, _BACKGROUND_BYTES = 16, 2**26


@dataclass(frozen=True, eq=False)
class ProductUnits:
    """Units ``exp(-rate * sum_f |x_f - c_f|^power)``, and the coefficients of their readout.

    Attributes
    ----------
    centers : ndarray of shape (n_units, n_features)
    rate : float
    power : {1, 2}
    coef : ndarray of shape (n_scores, n_units), float64
    """

    centers: npt.NDArray
    rate: float
    power: int
    coef: npt.NDArray


def shapley_of_products(
    units: ProductUnits, X: npt.NDArray, background: npt.NDArray, players: npt.NDArray, limit: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return Shapley values and the mean score of the background samples.

    Parameters
    ----------
    units : ProductUnits
    X, background : ndarrays of shape (n_samples, n_features)
    players : ndarray of int of shape (n_features,)
        Player of each feature. Each of 0, 1, ..., n_players - 1 has a feature.
    limit : int
        Bytes that may be allocated besides the result.

    Returns
    -------
    values : ndarray of shape (n_samples, n_players, n_scores)
    base : ndarray of shape (n_scores,)
    """
    get_engine("jit")  # raises if numba does not work here
    from ..engines.kernels.shapley import NODES, n_lanes, shapley_loop
    from ..engines.kernels.target import host_target

    target, threads, n_players = host_target(), n_threads(), players.max() + 1
    factors = _Factors(units, players, n_lanes(target))
    loop, (nodes, weights) = shapley_loop(target), quadrature(n_players, NODES)
    check_fits("one sample at a time", 2 * threads * factors.work_bytes, limit)
    n_rows = count_fitting(limit // (2 * threads), factors.work_bytes, maximum=_ROWS)
    step = max(1, count_fitting(min(limit // 2, _BACKGROUND_BYTES), factors.sample_bytes))
    values = np.zeros((len(X), n_players, len(units.coef)))
    base = np.zeros(len(units.coef))
    for start in range(0, len(background), step):
        other = factors.of_samples(background[start : start + step], n_rows)
        base += factors.apply_readout(other.prod(axis=2, keepdims=True))[:, 0].sum(axis=0)

        def add(rows, other=other):
            products = np.empty((n_players, NODES, factors.lanes))
            for part in cut_rows(rows, n_rows):
                own = factors.of_samples(X[part], n_rows)
                totals = np.zeros_like(own)
                loop(own, other, nodes, weights, products, totals)
                values[part] += factors.apply_readout(totals)

        map_rows(add, len(X), threads)
    return values / len(background), base / len(background)


class _Factors:
    """The factors of all units and players, with neighbouring units in the lanes of a vector."""

    def __init__(self, units, players, lanes):
        n_units, n_features = units.centers.shape
        self.lanes, self._n_vectors = lanes, -(-n_units // lanes)
        # The features of a player are made neighbours, so that `reduceat` adds their distances.
        self._order = np.argsort(players, kind="stable")
        self._starts = np.searchsorted(players[self._order], np.arange(players.max() + 1))
        self._rate, self._power = units.rate, units.power
        n_values = self._n_vectors * lanes
        padding = (0, n_values - n_units), (0, 0)
        centers = np.pad(units.centers[:, self._order].astype(np.float64), padding)
        centers = centers.reshape(self._n_vectors, lanes, n_features).swapaxes(1, 2)
        self._centers = np.ascontiguousarray(centers)
        self._W = np.pad(units.coef.T.astype(np.float64), padding)
        self.sample_bytes = 8 * n_values * len(self._starts)
        # Of a sample that is processed: distances by features, factors, integrals and a copy.
        self.work_bytes = 8 * n_values * (2 * n_features + 3 * len(self._starts))

    def of_samples(self, X, n_rows):
        """Return the factors (n_samples, n_vectors, n_players, lanes), of `n_rows` at a time."""
        X = X[:, self._order].astype(np.float64)
        result = np.empty((len(X), self._n_vectors, len(self._starts), self.lanes))
        for start in range(0, len(X), n_rows):
            part = slice(start, start + n_rows)
            with np.errstate(over="ignore", under="ignore"):
                D = X[part, None, :, None] - self._centers
                np.abs(D, out=D) if self._power == 1 else np.square(D, out=D)
                D = np.add.reduceat(D, self._starts, axis=2)
                D *= -self._rate
                np.exp(D, out=result[part])
        return result

    def apply_readout(self, values):
        """Return (n_samples, n, n_scores) of values (n_samples, n_vectors, n, lanes) of units."""
        n_samples, n = len(values), values.shape[2]
        rows = values.swapaxes(1, 2).reshape(n_samples * n, -1)
        return HOST.multiply(rows, self._W).reshape(n_samples, n, -1)


@lru_cache(maxsize=64)
def quadrature(n_factors: int, multiple: int = 1) -> tuple[npt.NDArray, npt.NDArray]:
    """Return nodes and weights on [0, 1] for products of ``n_factors - 1`` linear functions.

    Gauss-Legendre, exact with n / 2 nodes for n factors. Fewer are used if they suffice for the
    tolerance: with factors that are not negative, a product is a sum of ``t^s (1 - t)^(N - s)``
    with coefficients that are not negative either, so the relative error of its integral is at most
    the largest one of these N + 1 terms. The number of nodes is a multiple of `multiple`.
    """
    degree = n_factors - 1
    s = np.arange(degree + 1)
    log_integrals = gammaln(s + 1) + gammaln(degree - s + 1) - gammaln(degree + 2)
    n_nodes = multiple
    while True:
        nodes, weights = roots_legendre(n_nodes)
        nodes, weights = (nodes + 1) / 2, weights / 2
        log_terms = np.outer(np.log(nodes), s) + np.outer(np.log1p(-nodes), degree - s)
        errors = weights @ np.exp(log_terms - log_integrals) - 1
        if 2 * n_nodes >= n_factors or np.abs(errors).max() <= _TOLERANCE:
            return nodes, weights
        n_nodes += multiple
