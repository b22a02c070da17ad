"""Squared distances in ONNX: those that cancel are computed from differences, in blocks."""

import numpy as np
import onnxruntime
import pytest
from skl2onnx.sklapi import CastTransformer
from sklearn.pipeline import make_pipeline

import naive
from export.converted import TOLERANCE, onnx_outputs, run, run_with_peak
from sklearn_fsvc import RBFClassifier, RBFProjector
from sklearn_fsvc._src.export.onnx import layers
from sklearn_fsvc._src.kernels import KERNELS
from sklearn_fsvc.export.onnx import to_onnx

EUCLIDEAN = {"metric": "euclidean", "selection": "random", "random_state": 0}
SQUARED_METRICS = ("euclidean", "sqeuclidean")


def clusters(far, n_rows=120, n_features=4, dtype=np.float64):
    """Return samples of two clusters of variance 1, which are `far` apart in each feature."""
    rows = np.random.default_rng(0).normal(size=(n_rows, n_features))
    rows[1::2] += far
    return rows.astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "far"), [(np.float32, 1e6), (np.float64, 1e4), (np.float64, 1e8)]
)
@pytest.mark.parametrize("metric", SQUARED_METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_clusters_far_apart(kernel, metric, dtype, far):
    rows = clusters(far, dtype=dtype)
    model = RBFProjector(40, kernel=kernel, radius=2.0, **EUCLIDEAN | {"metric": metric}).fit(rows)
    expected = naive.rbf(rows, model.centers_, 2.0, metric, kernel)
    assert expected.std() > 0.05
    converted = to_onnx(model, rows)
    for part in (slice(None), slice(7, 8)):
        H = run(converted, rows[part])["variable"]
        np.testing.assert_allclose(H, expected[part], rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("far", [10, 30, 100, 300, 1000])
@pytest.mark.parametrize("n_features", [1, 50])
def test_distances_near_the_limit_of_cancellation(n_features, far):
    rows = clusters(far, n_features=n_features)
    radius = np.sqrt(2 * n_features)
    model = RBFProjector(40, kernel="laplacian", radius=radius, **EUCLIDEAN).fit(rows)
    H = onnx_outputs(model, rows)["variable"]
    expected = naive.rbf(rows, model.centers_, radius, "euclidean", "laplacian")
    np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[np.float64])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", SQUARED_METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_samples_at_centres(kernel, metric, dtype):
    """Where other kernels than the Gaussian have a kink: the root of a rounding error is large."""
    rows = clusters(0, dtype=dtype)
    model = RBFProjector(40, kernel=kernel, radius=1.5, **EUCLIDEAN | {"metric": metric}).fit(rows)
    H = onnx_outputs(model, model.centers_)["variable"]
    np.testing.assert_array_equal(np.diag(H), 1)
    expected = naive.rbf(model.centers_, model.centers_, 1.5, metric, kernel)
    np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[dtype])


def test_outlier_among_centres():
    """The mean centre would be far from all samples."""
    rows = clusters(0)
    rows[0] = 1e9
    model = RBFProjector(120, kernel="laplacian", radius=1.0, **EUCLIDEAN).fit(rows)
    H = onnx_outputs(model, rows)["variable"]
    expected = naive.rbf(rows, model.centers_, 1.0, "euclidean", "laplacian")
    np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[np.float64])


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e4), (np.float64, 1e7)])
def test_samples_far_from_the_origin(dtype, far):
    """Squares are computed relative to the median centre, so that few distances cancel."""
    rows = (far + np.random.default_rng(0).random((50, 5))).astype(dtype)
    model = RBFProjector(20, kernel="laplacian", radius=0.5, **EUCLIDEAN).fit(rows)
    H = onnx_outputs(model, rows)["variable"]
    expected = naive.rbf(rows, model.centers_, 0.5, "euclidean", "laplacian")
    np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("n_rows", [0, 1, 25, 26, 27, 60])
@pytest.mark.parametrize("n_units", [1, 13, 40])
def test_sizes_that_blocks_do_not_divide(n_rows, n_units):
    """With 10,000 features a block has up to 26 rows, or pairs."""
    assert layers._BLOCK_DISTANCES // 10_000 == layers._BLOCK_DIFFERENCES // 10_000 == 26
    wide = clusters(1e6, 60, 10_000)
    model = RBFProjector(n_units, kernel="laplacian", radius=100.0, **EUCLIDEAN).fit(wide)
    H = run(to_onnx(model, wide), wide[:n_rows])["variable"]
    expected = naive.rbf(wide[:n_rows], model.centers_, 100.0, "euclidean", "laplacian")
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-12)


def test_batches_with_and_without_cancelled_distances():
    rows = clusters(0)
    model = RBFProjector(40, kernel="laplacian", radius=1.0, **EUCLIDEAN).fit(rows)
    converted, new = to_onnx(model, rows), clusters(0) + 0.5
    one = np.vstack([new[:3], model.centers_[:1], new[3:]])
    for batch in (new, one, model.centers_):
        H = run(converted, batch)["variable"]
        expected = naive.rbf(batch, model.centers_, 1.0, "euclidean", "laplacian")
        np.testing.assert_allclose(H, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinite_samples_have_no_activation(dtype):
    """Beside samples whose distances cancel."""
    rows = clusters(1e6, dtype=dtype)
    model = RBFProjector(40, kernel="laplacian", radius=1.0, **EUCLIDEAN).fit(rows)
    new = rows.copy()
    new[3], new[5, 1], new[8, :2] = np.inf, -np.inf, (np.inf, -np.inf)
    H = onnx_outputs(model, new)["variable"]
    is_infinite = np.isinf(new).any(axis=1)
    np.testing.assert_array_equal(H[is_infinite], 0)
    expected = naive.rbf(rows[~is_infinite], model.centers_, 1.0, "euclidean", "laplacian")
    np.testing.assert_allclose(H[~is_infinite], expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("target_opset", [14, 16, 18, 21])
def test_opsets(target_opset):
    rows = clusters(1e6)
    model = RBFProjector(40, kernel="laplacian", radius=1.0, **EUCLIDEAN).fit(rows)
    H = run(to_onnx(model, rows, target_opset=target_opset), rows)["variable"]
    np.testing.assert_allclose(H, model.transform(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimisations_of_onnxruntime(dtype, level):
    """Without them it removes the second of two casts, even if a subgraph uses its output."""
    rows, options = clusters(1e6, dtype=dtype), onnxruntime.SessionOptions()
    y = (rows[:, 0] % 1 > 0.5).astype(int)
    network = RBFClassifier(
        40, radius=1.0, kernel="laplacian", alpha=0.1, feature_weights=None, **EUCLIDEAN
    )
    model = make_pipeline(CastTransformer(dtype=dtype), network).fit(rows, y)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    converted = to_onnx(model, rows).SerializeToString()
    session = onnxruntime.InferenceSession(converted, options)
    (probabilities,) = session.run(["probabilities"], {"X": rows})
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.exhaustive
def test_memory_is_bounded():
    """The differences of the half of the pairs that has cancelled would take 384 MB."""
    run_with_peak(
        "X = np.random.default_rng(0).random((3000, 64))\n"
        "X[::2] += 1e4\n"
        "units = {'selection': 'random', 'metric': 'euclidean', 'kernel': 'laplacian'}\n"
        "model = RBFProjector(500, radius=9.0, device='blas', **units).fit(X)\n",
        "assert peak() - before < 96 * 1024, peak() - before\n"
        "assert abs(H - model.transform(X)).max() < 1e-11\n",
    )
