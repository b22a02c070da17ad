"""Readouts of fewer samples than units, in coordinates of the space that the rows of H span.

The penalty makes the rows of W linear combinations of the centred rows of H (representer theorem:
B. Scholkopf, R. Herbrich and A. J. Smola 2001). With an orthonormal basis V of these,
``H - mean = Z V'``, and a readout w of Z with the same penalty gives ``W = w V'``, for any loss.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from ..data.job import Job
from ..data.samples import Samples, exact_hashes
from ..engines.algebra import HOST
from ..engines.threads import limit_blas_threads
from ..layers import LinearLayer
from .cross_validation import MAX_VALIDATION
from .dual import fits_on_host, gather_centred
from .linear import Solution


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Samples of which the features are coordinates of their rows of H, and the basis."""

    job: Job  # that remains
    samples: Samples  # those with a weight
    basis: npt.NDArray  # (n_units, n_directions), with orthonormal columns
    mean: npt.NDArray  # (n_units,): of the rows of H

    @property
    def layer(self) -> LinearLayer:
        """Return the layer of which the activations are the coordinates."""
        n, dtype = self.basis.shape[1], self.samples.X.dtype
        return LinearLayer(np.eye(n, dtype=dtype), np.zeros(n, dtype))

    def to_units(self, solution: Solution) -> Solution:
        """Return the readout of H, given that of the coordinates."""
        W = HOST.multiply(solution.W, self.basis.T)
        return solution._replace(W=W, b=solution.b - W @ self.mean)


@limit_blas_threads(1)
def find_row_space(job: Job, layer: Any, samples: Samples) -> RowSpace | None:
    """Return the `RowSpace` of samples; None unless it has fewer dimensions than units.

    Also None on other devices than the host, of rounded activations, of many validation samples,
    and if memory is too small.
    """
    rows, validation = samples.rows_with_weight, samples.validation
    if len(rows) >= layer.n_units or not fits_on_host(job, layer, samples):
        return None
    if validation is not None and len(validation) > MAX_VALIDATION:
        return None
    if len(rows) < len(samples):
        samples = samples.taken(rows)
    H, mean = gather_centred(job, layer, samples.X)
    # Equal rows have equal coordinates, also after rounding.
    _, first, inverse = np.unique(exact_hashes(H), return_index=True, return_inverse=True)
    basis, triangle = qr(H[first].T, mode="economic", overwrite_a=True, check_finite=False)
    Z = triangle.T[inverse].astype(layer.hidden_dtype)
    if validation is not None:
        H, shift = gather_centred(job, layer, validation.X)
        H += shift - mean
        X = HOST.multiply(H, basis).astype(layer.hidden_dtype)
        validation = replace(validation, X=X)
    samples = replace(samples, X=Z, validation=validation)
    return RowSpace(job.reserve(basis.nbytes + Z.nbytes), samples, basis, mean)
