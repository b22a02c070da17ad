"""How sure a ridge readout is of its outputs."""

from typing import Any, NamedTuple

import numpy as np


class Posterior(NamedTuple):
    """The distribution of a ridge readout, as that of a Bayesian linear model of H.

    With noise of variance ``v`` and weights of variance ``v / alpha`` a priori, an output for
    h is normal around that of the readout, with the variance
    ``v (1 + 1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))``, where ``A`` is the centred
    H'H of the rows (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
    Learning", MIT Press 2006, section 2.1; 1 / n is the intercept, which has no prior).
    """

    root: Any  # (n_units, n_directions): ``(A + alpha I)^-1 = root root'``
    mean: Any  # (n_units,): of H
    n: float  # sum of the weights of the rows
    noise: Any  # (n_outputs,): standard deviation of the noise


class Deviations:
    """Standard deviations of the outputs of tiles of H, by a `Posterior` of the host."""

    def __init__(self, engine, posterior, dtype):
        self._engine, self._posterior, self._dtype = engine, posterior, dtype
        self._root, self._mean = (
            engine.to_device(a.astype(dtype, copy=False)) for a in (posterior.root, posterior.mean)
        )

    @property
    def fixed_bytes(self):
        return self._posterior.root.size * self._dtype.itemsize

    @property
    def row_bytes(self):
        """Bytes that a row of H takes."""
        return sum(self._posterior.root.shape) * self._dtype.itemsize + 24

    def of(self, H):
        """Standard deviations (rows, n_outputs) on the host, in float64. H is overwritten."""
        xp, known = self._engine.xp, self._posterior
        H -= self._mean
        U = self._engine.algebra.multiply(H, self._root)
        spread = self._engine.to_host(xp.einsum("ij,ij->i", U, U)).astype(np.float64)
        return np.sqrt(1 + 1 / known.n + spread)[:, None] * known.noise
