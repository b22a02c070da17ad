import numpy as np
import pytest
from sklearn.utils import check_random_state

from sklearn_fsvc import TanhProjector
from sklearn_fsvc.weights import AUTO_SCALE, draw_layer


def draw(m, n=7, weights="gaussian", bias=True, scale=1.0):
    return draw_layer(m, n, weights, bias, scale, check_random_state(0))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("m", [1, 5, 7, 8, 20])
def test_a_smaller_layer_is_a_prefix(weights, m):
    small, large = draw(m, weights=weights), draw(33, weights=weights)
    np.testing.assert_allclose(small.units, large.units[:m], atol=1e-14)
    np.testing.assert_array_equal(small.bias, large.bias[:m])


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_moments(weights):
    layer = draw(6000, n=20, weights=weights, scale=3.0)
    assert layer.units.mean() == pytest.approx(0, abs=0.01)
    assert layer.units.std() == pytest.approx(3 / np.sqrt(20), rel=0.02)
    assert layer.bias.min() >= -1
    assert layer.bias.max() <= 1
    assert layer.bias.std() == pytest.approx(1 / np.sqrt(3), rel=0.03)


def test_orthogonal_groups():
    W = draw(10, n=4, weights="orthogonal").units
    for group in (W[:4], W[4:8], W[8:]):
        gram = group @ group.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    # The lengths are those of Gaussian rows, not all the same.
    np.testing.assert_allclose(
        np.linalg.norm(W, axis=1), np.linalg.norm(draw(10, n=4).units, axis=1)
    )


def test_no_bias():
    assert not draw(9, bias=False).bias.any()


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (1000, 0), (1e-3, 0), (1, 1e4)])
def test_auto_scale_knows_neither_unit_nor_offset(rng, factor, offset):
    X = rng.normal(size=(300, 12))
    plain = TanhProjector(50, random_state=0).fit_transform(X)
    other = TanhProjector(50, random_state=0).fit_transform(factor * X + offset)
    np.testing.assert_allclose(other, plain, atol=1e-9)


def test_auto_scale_is_a_scale_for_standard_features(rng):
    X = rng.normal(size=(5000, 30))
    auto = TanhProjector(50, random_state=0).fit(X)
    fixed = TanhProjector(50, random_state=0, scale=AUTO_SCALE).fit(X)
    np.testing.assert_allclose(auto.components_, fixed.components_, rtol=0.02)


def test_constant_features_are_no_error():
    H = TanhProjector(5, random_state=0).fit_transform(np.full((4, 3), 7.0))
    assert np.isfinite(H).all()
