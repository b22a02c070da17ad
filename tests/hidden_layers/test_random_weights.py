"""Receptive fields of tanh units."""

import numpy as np
import pytest

import naive
from hidden_layers.tanh_layers import SAMPLED_WEIGHTS, draw_layer
from sklearn_fsvc import TanhClassifier
from sklearn_fsvc._src.hidden_layers.random_weights import ReceptiveFields, field_sides
from sklearn_fsvc._src.hidden_layers.tanh import WEIGHTS
from sklearn_fsvc._src.layers import TanhLayer


@pytest.mark.parametrize("kind", [list, np.array, lambda t: np.array(t, np.uint8)])
def test_shapes_and_sizes_are_sequences_of_integers(rng, kind):
    X = rng.random((20, 28 * 28))
    W, _ = draw_layer(X, None, 5, image_shape=kind((28, 28)), patch_size=kind((2, 9)))
    np.testing.assert_array_equal(
        W, draw_layer(X, None, 5, image_shape=(28, 28), patch_size=(2, 9))[0]
    )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("shape", [(6, 7), (3, 7, 2), (42, 1), (1, 42), (7, 6, 1)])
def test_fields_are_rectangles_with_all_channels(data, weights, shape):
    low, high = field_sides(shape, None)
    W, _ = draw_layer(*data, 50, weights=weights, image_shape=shape)
    for image in W.reshape(50, shape[0], shape[1], -1):
        inside = image != 0
        np.testing.assert_array_equal(inside.all(axis=2), inside.any(axis=2))
        down, across = (np.flatnonzero(inside.any(axis=axes)) for axes in ((1, 2), (0, 2)))
        assert inside[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        for pixels, side in ((down, shape[0]), (across, shape[1])):
            assert min(low, side) <= len(pixels) <= min(high, side)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (1, 9)])
def test_first_features_are_those_that_masks_keep(shape):
    fields = ReceptiveFields.draw(1, shape, None, 0)
    W = np.ones((8, np.prod(shape)))
    fields.mask(W, np)
    for w, features in zip(W, fields.first_features(), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(w), features)
    np.testing.assert_array_equal(fields.n_inputs(8), W.sum(axis=1))


@pytest.mark.parametrize("patch_size", [(1, 1), (2, 4), (6, 6), (3, 9)])
def test_sizes_and_positions_are_uniform(patch_size):
    low, high = patch_size
    fields = ReceptiveFields.draw(20_000, (6, 9), patch_size, 0)
    starts, lengths = fields.starts, fields.lengths
    for axis, side in enumerate((6, 9)):
        sizes = np.arange(low, min(high, side) + 1)
        counts = np.bincount(lengths[:, axis])[low:]
        np.testing.assert_allclose(counts, 20_000 / len(sizes), rtol=0.08)
        for size in sizes:
            places = np.bincount(starts[lengths[:, axis] == size, axis])
            assert len(places) == side - size + 1
            np.testing.assert_allclose(places, places.mean(), rtol=0.2)
    if high > low:
        assert abs(np.corrcoef(lengths.T)[0, 1]) < 0.03
    np.testing.assert_array_equal(fields.n_inputs(20_000), lengths.prod(axis=1))


def test_default_sides():
    assert field_sides((28, 28), None) == (6, 17)
    assert field_sides((100, 20, 3), None) == (4, 12)
    assert field_sides((1, 5), None) == (1, 1)
    assert field_sides((28, 28), (2, 3)) == (2, 3)


def test_a_field_of_the_whole_image_changes_nothing(data):
    params = {"image_shape": (6, 7), "patch_size": (6, 7), "weights": "class_informed"}
    W, _ = draw_layer(*data, 30, scale=1.0, **params)
    whole = np.count_nonzero(W, axis=1) == 42
    assert whole.any()
    without, _ = draw_layer(*data, 30, scale=1.0, weights="class_informed")
    np.testing.assert_allclose(W[whole], without[whole])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("scale", [0.01, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_unit_with_a_constant_field_is_constant(weights, scale, dtype, rng):
    X = np.zeros((3000, 8, 8), dtype)
    X[:, :3] = rng.integers(0, 200, (3000, 3, 8))
    X, y = X.reshape(3000, 64), rng.integers(0, 3, 3000)
    images = {"image_shape": (8, 8), "patch_size": (2, 3)}
    clf = TanhClassifier(
        100, weights=weights, scale=scale, alpha=1e-3, random_state=0, device="jit", **images
    ).fit(X, y)  # and no warning
    H = naive.hidden(TanhLayer(clf.components_, clf.hidden_intercept_), X[:20].astype(float))
    empty = ReceptiveFields.draw(100, (8, 8), (2, 3), position_seed()).starts[:100, 0] >= 3
    assert 30 < empty.sum() < 90
    np.testing.assert_allclose(np.ptp(H[:, empty], axis=0), 0, atol=1e-6)
    assert np.ptp(H[:, ~empty], axis=0).min() > 1e-3
    if weights in SAMPLED_WEIGHTS:
        assert not clf.components_[empty].any()
    assert np.isfinite(clf.decision_function(X[:5])).all()


def position_seed():
    return np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=3)[2]
