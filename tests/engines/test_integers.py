"""Sums of products of rounded activations are exact, whatever multiplies."""

import numpy as np
import pytest

from sklearn_fsvc._src.engines import algebra, integers
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.formulas import Steps
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric

ALL_STEPS = [Steps(bits, is_signed) for bits in (8, 15) for is_signed in (False, True)]
each_kind = pytest.mark.parametrize("steps", ALL_STEPS, ids=str)


def rounded(steps, n_rows, n_units, dtype=np.float32, seed=0):
    """(activations, the integers that they are), the extremes among them."""
    least = -steps.most if steps.is_signed else 0
    q = np.random.default_rng(seed).integers(least, steps.most, (n_rows, n_units), endpoint=True)
    q[:, 0], q[:, -1] = steps.most, least
    return (q / steps.scale).astype(dtype), q


@each_kind
def test_activations_become_the_nearest_steps(steps):
    H, q = rounded(steps, 9, 7)
    random = np.random.default_rng(1)
    near = (H + random.uniform(-0.49, 0.49, H.shape) / steps.scale).astype(np.float32)
    np.testing.assert_array_equal(steps.apply(near, np) * steps.scale, q)
    ends = np.array([1.0, -1.0, 2.0, np.nan], np.float32)
    np.testing.assert_array_equal(
        steps.apply(ends.copy(), np) * steps.scale,
        [steps.most, -steps.most if steps.is_signed else -steps.scale, steps.most, np.nan],
    )


@pytest.fixture(params=["bytes", "floats"])
def way(request, monkeypatch):
    if request.param == "bytes" and not integers.has_bytes():
        pytest.skip("this processor has no products of bytes")
    monkeypatch.setattr(algebra, "_MANY_BYTES", 0 if request.param == "bytes" else np.inf)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (1003, 33), (2500, 130)], ids=str)
@each_kind
def test_products_are_those_of_integers(steps, shape, dtype, way, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.readouts.packed_symmetric.WIDTH", 64)
    H, q = rounded(steps, *shape, dtype)
    gram = PackedSymmetric(shape[1], HOST)
    for _ in range(2):
        gram.add_gram(H, steps)
    expected = np.tril(2 * (q.T @ q)) / steps.scale**2
    np.testing.assert_array_equal(np.tril(gram.full()), expected)


@each_kind
def test_the_largest_sums_fit(steps, way):
    """All rows at the end of the range, as many as bytes take."""
    H = np.full((integers.MOST_ROWS, 3), steps.most / steps.scale, np.float32)
    H[:, 1] *= -1 if steps.is_signed else 1
    gram = PackedSymmetric(3, HOST)
    gram.add_gram(H, steps)
    q = np.round(H.astype(np.float64) * steps.scale)
    np.testing.assert_array_equal(np.tril(gram.full()), np.tril(q.T @ q) / steps.scale**2)
