"""What a GPU does around units that are patches, in kernels of our own."""

from ...layers import BELOW_MEAN
from ..kernels.cuda import patches

# Blocks of a grid across its third side, at most.
_DEEPEST = 65_535


def unfold(engine, layer, X):
    """See `engines.patches.unfold`."""
    xp, grid, dtype = engine.xp, layer.grid, X.dtype
    images = X.reshape(len(X), grid.image[0], -1)
    line, is_normalised = grid.size[1] * grid.image[2], layer.floor is not None
    places = *grid.places, grid.stride, grid.stride * grid.image[2]
    P = xp.empty((len(X) * grid.n_places, grid.n_inputs), dtype)
    means, factors = xp.empty((2, len(P) if is_normalised else 1), dtype)
    if is_normalised:
        engine.launch(
            patches.moments(dtype.str), _n_blocks(len(P)), patches.THREADS, images, *places,
            grid.size[0], line, dtype.type(layer.floor), means, factors,
        )  # fmt: skip
    engine.launch(
        patches.unfold(dtype.str, is_normalised), _n_blocks(P.size), patches.THREADS, images,
        *places, line, means, factors, P,
    )  # fmt: skip
    return P


def average(engine, layer, A, H):
    """See `engines.patches.average`."""
    grid, dtype = layer.grid, A.dtype
    means = A.mean(axis=1) if layer.response == BELOW_MEAN else engine.xp.empty(1, dtype)
    blocks = _n_blocks(A.shape[1]), grid.n_cells, min(len(H), _DEEPEST)
    engine.launch(
        patches.average(dtype.str, layer.response), blocks, patches.THREADS, A, means,
        *grid.places, *grid.pool, dtype.type(layer.threshold), H,
    )  # fmt: skip


def _n_blocks(n):
    return -(-n // patches.THREADS)
