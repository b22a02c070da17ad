"""Statistics of several layers, gathered in one pass."""

import numpy as np
import pytest
from sklearn.base import clone

import naive
from readouts.brute_force import rows_of, some_weights, translated
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine


@pytest.fixture(scope="module")
def layers():
    """Return two layers on the same units, X and y."""
    X, y = rows_of(3)
    clf = RBFClassifier(
        20, kernel="laplacian", feature_weights="learned", alpha=1.0, random_state=0
    ).fit(X, y)
    wide = clone(clf).set_params(radius=2 * clf.radius_, selection_radius=clf.selection_radius_)
    return [layer_of(clf), layer_of(wide.fit(X, y))], X, y


def statistics_of(layers, X, y, weight=None, **options):
    with get_engine("jit") as engine:
        return gather(
            Job(engine), layers, Samples(X, OneHotTargets.of_column(y, 3), weight), **options
        )


def assert_statistics(actual, layer, X, y, weight=None):
    H, Y = naive.of_rows(layer, X), np.eye(3)[y]
    w = np.ones(len(H)) if weight is None else weight
    assert actual.n == pytest.approx(w.sum())
    actual = translated(actual, np.zeros(len(actual.h)))
    np.testing.assert_allclose(actual.h, w @ H, atol=1e-10)
    np.testing.assert_allclose(actual.y, w @ Y, atol=1e-10)
    np.testing.assert_allclose(actual.hy, H.T @ (w[:, None] * Y), atol=1e-10)
    np.testing.assert_allclose(actual.gram.full(), np.tril(H.T @ (w[:, None] * H)), atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_subset", [False, True])
def test_statistics_of_several_layers(layers, rng, weighted, is_subset):
    layers, X, y = layers
    weight = some_weights() if weighted else None
    rows = rng.permutation(60)[:40] if is_subset else np.arange(60)
    actual = statistics_of(layers, X, y, weight, rows=rows if is_subset else None)
    assert len(actual) == 2
    for of_layer, layer in zip(actual, layers, strict=True):
        w = None if weight is None else weight[rows]
        assert_statistics(of_layer, layer, X[rows], y[rows], w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_rows", [1, 5, 40])
def test_after_a_memory_error_each_sample_is_added_once(layers, monkeypatch, weighted, max_rows):
    layers, X, y = layers
    weight = some_weights() if weighted else None
    calls, add_gram = [0], PackedSymmetric.add_gram

    def fail_for_large_tiles(panels, H, quantizer):
        calls[0] += 1
        if len(H) > max_rows and calls[0] % 2 == 0:  # after the first layer was updated
            raise MemoryError
        add_gram(panels, H, quantizer)

    monkeypatch.setattr(PackedSymmetric, "add_gram", fail_for_large_tiles)
    for of_layer, layer in zip(statistics_of(layers, X, y, weight), layers, strict=True):
        assert_statistics(of_layer, layer, X, y, weight)
    assert calls[0] > 2


def test_the_product_is_computed_in_the_requested_dtype(layers):
    layers, X, y = layers
    X = X.astype(np.float32)
    layer = layers[0].astype(np.float32)
    for dtype, eps in ((None, 1.2e-7), (np.float32, 1.2e-7), (float, 2.3e-16)):
        (actual,) = statistics_of([layer], X, y, dtype=dtype)
        assert actual.gram.full().dtype == np.float64
        assert actual.rounding == pytest.approx(eps, rel=0.1)
