"""Estimators with arrays on a GPU, transfers, and exact sums. Layers: see test_engines.py."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import naive
from engines.test_integers import each_kind, rounded
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.engines.cuda import CudaEngine, transfer
from sklearn_fsvc._src.engines.cuda.algebra import CuPyAlgebra
from sklearn_fsvc._src.engines.cuda.integers import round_columns
from sklearn_fsvc._src.engines.integers import MAX_ROWS
from sklearn_fsvc._src.layers import RBFLayer, quantize_layer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

PROJECTORS = [TanhProjector(50, random_state=0), RBFProjector(50, random_state=0)]


@each_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1003, 33), (70_000, 130), (300, 2100)], ids=str)
def test_gram_matrices_of_quantised_activations(cupy, quantizer, shape, dtype):
    """With more samples than 32-bit sums allow, and units in several panels."""
    H, q = rounded(quantizer, *shape, dtype)
    gram = PackedSymmetric(shape[1], CudaEngine.algebra)
    for _ in range(2):
        gram.add_gram(cupy.asarray(H), quantizer)
    expected = np.tril(2 * (q.T.astype(float) @ q)) / quantizer.scale**2
    np.testing.assert_array_equal(np.tril(gram.full().get()), expected)


@each_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1003, 33), (70_000, 130)], ids=str)
def test_sums_of_quantised_activations_by_class(cupy, quantizer, shape, dtype):
    H, q = rounded(quantizer, *shape, dtype)
    Y = np.eye(40)[np.random.default_rng(0).integers(0, 40, len(q))]
    gram = PackedSymmetric(shape[1], CudaEngine.algebra)
    sums = CudaEngine.algebra.add_integer_sums(
        list(gram), cupy.asarray(H), cupy.asarray(Y), quantizer
    )
    np.testing.assert_array_equal(sums.get(), q.T @ Y / quantizer.scale)
    expected = np.tril(q.T.astype(float) @ q) / quantizer.scale**2
    np.testing.assert_array_equal(np.tril(gram.full().get()), expected)


@pytest.mark.parametrize("largest", [1e-30, 1.0, 3.0, 4.0, 1e30])
def test_sums_of_floats_by_bytes(cupy, largest):
    """H is rounded to 23 bits; its sums are as precise as in float64."""
    rng, algebra = np.random.default_rng(0), CudaEngine.algebra
    H = rng.uniform(-0.9, 1.0, (40_000, 1100)).astype(np.float32)
    H[7, 5] = 1.0
    H *= np.float32(largest)
    Y, gram = np.eye(3)[rng.integers(0, 3, len(H))], PackedSymmetric(H.shape[1], algebra)
    rounded = cupy.asarray(H)
    quantizer = algebra.round_to_fixed_point(rounded)
    sums = algebra.add_integer_sums(list(gram), rounded, cupy.asarray(Y), quantizer).get()
    rounded = rounded.get().astype(float)
    assert np.abs(rounded - H).max() <= 2.0**-22 * largest
    expected = rounded.T @ rounded
    tolerance = {"rtol": 1e-13, "atol": 1e-13 * expected.max()}
    np.testing.assert_allclose(np.tril(gram.full().get()), np.tril(expected), **tolerance)
    expected = rounded.T @ Y
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


def test_few_rows_and_columns_are_not_rounded(cupy):
    algebra = CudaEngine.algebra
    for shape in (1000, 1100), (1100, 1000):
        H = cupy.asarray(np.random.default_rng(0).random(shape, np.float32))
        before = H.copy()
        assert algebra.round_to_fixed_point(H) is None
        assert (before == H).all()
    for number in (np.nan, np.inf, 0):
        assert algebra.round_to_fixed_point(cupy.full((1100, 1100), number, np.float32)) is None


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", [RBFClassifier, RBFRegressor])
def test_ridge_of_floats_by_bytes(cupy, weights, kind, monkeypatch):
    """The readout is that of sums in float64."""
    rng, coefs = np.random.default_rng(0), []
    X = rng.normal(size=(20_000, 20)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    y = y > 0 if kind is RBFClassifier else y
    weight = rng.uniform(0.5, 2, len(X)) if weights else None
    given = {"kernel": "laplacian", "radius": 10.0, "alpha": 0.1, "feature_weights": None}
    for allowed in (True, False):
        if not allowed:
            refuse = staticmethod(lambda H: None)
            monkeypatch.setattr(CuPyAlgebra, "round_to_fixed_point", refuse)
        model = kind(
            1200, selection="random", precision="float", device="cuda", random_state=0, **given
        )
        coefs.append(model.fit(X, y, sample_weight=weight).readout_coef_)
    assert not np.array_equal(*coefs)
    np.testing.assert_allclose(*coefs, atol=1e-3 * np.abs(coefs[0]).max())


@each_kind
def test_the_largest_sums_fit_into_32_bits(cupy, quantizer):
    H = np.full((MAX_ROWS, 3), quantizer.max_code / quantizer.scale, np.float32)
    H[:, 1] *= -1 if quantizer.is_signed else 1
    gram = PackedSymmetric(3, CudaEngine.algebra)
    gram.add_gram(cupy.asarray(H), quantizer)
    q = np.round(H.astype(np.float64) * quantizer.scale)
    np.testing.assert_array_equal(np.tril(gram.full().get()), np.tril(q.T @ q) / quantizer.scale**2)


@each_kind
def test_activations_are_rounded_to_the_nearest_code(cupy, quantizer):
    with get_engine("cuda") as engine:
        for dtype in (np.float32, np.float64):
            ends = [0.0, 1.0, -1.0, 2.0, -np.inf, np.inf, np.nan]
            near = np.random.default_rng(0).uniform(-1.5, 1.5, (70, 9)).astype(dtype)
            near[:7, 3] = ends
            near[7:, 4] = (np.arange(63) + 0.5) / quantizer.scale  # halfway
            H = cupy.asarray(near)
            round_columns(engine, H, slice(2, 9), quantizer)
            expected = np.maximum(
                quantizer.apply(near.copy(), np), -quantizer.max_code / quantizer.scale
            )
            expected[:, :2] = near[:, :2]
            np.testing.assert_array_equal(H.get(), expected)


@pytest.mark.parametrize("bits", [8, 15])
def test_statistics_equal_those_of_the_host_bitwise(cupy, digits, bits):
    """Distances of bytes are integers, so activations are equal, and their sums are exact."""
    X = digits[0].astype(np.uint8)
    y = np.random.default_rng(0).integers(5, size=len(X))
    given = {"alpha": 1.0, "feature_weights": None, "kernel": "triangular", "radius": 300.0}
    sums = []
    for device in ("jit", "cuda"):
        model = RBFClassifier(80, device=device, precision=bits, random_state=0, **given)
        with get_engine(device) as engine:
            layer = quantize_layer(layer_of(model.fit(X, y)), bits)
            (statistics,) = gather(Job(engine), [layer], Samples(X, OneHotTargets.of_column(y, 5)))
            sums.append(statistics.on(HOST))
    for name in ("n", "h", "y", "hy"):
        np.testing.assert_array_equal(getattr(sums[1], name), getattr(sums[0], name))
    np.testing.assert_array_equal(np.tril(sums[1].gram.full()), np.tril(sums[0].gram.full()))


@pytest.mark.parametrize("projector", PROJECTORS, ids=["tanh", "rbf"])
@pytest.mark.parametrize("fit_on", ["host", "gpu"])
def test_results_are_on_the_device_of_the_input(cupy, digits, projector, fit_on):
    X, _ = digits
    on_gpu = cupy.asarray(X)
    projector = clone(projector).set_params(device="cuda")
    projector.fit(on_gpu if fit_on == "gpu" else X)
    H = projector.transform(on_gpu)
    assert isinstance(H, cupy.ndarray)
    assert isinstance(projector.transform(X), np.ndarray)
    expected = clone(projector).set_params(device="jit").fit_transform(X)
    np.testing.assert_allclose(H.get(), expected, atol=1e-5)
    np.testing.assert_allclose(projector.transform(X), expected, atol=1e-5)
    assert all(not isinstance(v, cupy.ndarray) for v in vars(projector).values())


def test_gpu_arrays_are_not_copied_to_the_host(cupy, digits, monkeypatch):
    X = cupy.asarray(digits[0])
    projector = TanhProjector(50, device="cuda").fit(X)
    monkeypatch.setattr(CudaEngine, "iter_uploads", None)
    monkeypatch.setattr(CudaEngine, "to_host", None)
    assert projector.transform(X).shape == (len(X), 50)


@pytest.mark.parametrize("shape", [(3, 2**21), (70_001, 131), (2**23 + 1, 1)], ids=str)
def test_large_arrays_are_copied_in_blocks(cupy, shape):
    X = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    with get_engine("cuda") as engine:
        on_device = engine.to_device(X)
        for actual in (
            on_device.get(),
            engine.to_host(on_device),
            engine.algebra.to_host(on_device),
        ):
            np.testing.assert_array_equal(actual, X)
        # In any memory layout.
        np.testing.assert_array_equal(engine.to_host(on_device.T), X.T)
        np.testing.assert_array_equal(engine.to_device(X.T).get(), X.T)


def test_downloaded_arrays_are_kept_on_the_gpu_until_the_engine_exits(cupy):
    on_device = cupy.ones((3, 2))
    with get_engine("cuda") as engine:
        on_host = engine.to_host(on_device)
        engine.cache_upload(on_host, on_device)
        assert engine.to_device(on_host) is on_device
        assert engine.to_device(on_host.copy()) is not on_device
    with engine:
        assert engine.to_device(on_host) is not on_device


@pytest.mark.parametrize("weights", ["gaussian", "class_informed"])
def test_weights_computed_on_the_gpu_are_not_uploaded(cupy, digits, monkeypatch, weights):
    sent, to_device = [], transfer.to_device
    monkeypatch.setattr(
        transfer, "to_device", lambda xp, array: sent.append(array) or to_device(xp, array)
    )
    params = {"weights": weights, "alpha": 1.0, "random_state": 0, "device": "cuda"}
    model = TanhClassifier(77, **params).fit(*digits)
    assert not any(array is model.components_ for array in sent)
    limited = TanhClassifier(77, max_memory="1GiB", **params).fit(*digits)
    np.testing.assert_array_equal(limited.readout_coef_, model.readout_coef_)
    assert any(array is limited.components_ for array in sent)


def test_uint8_is_uploaded_as_uint8(cupy, digits, monkeypatch):
    sent = []

    def iter_uploads(self, blocks):
        for block in blocks:
            sent.append(block.dtype)
            yield self.to_device(block)

    monkeypatch.setattr(CudaEngine, "iter_uploads", iter_uploads)
    TanhProjector(50, device="cuda").fit(digits[0]).transform(digits[0])
    assert set(sent) == {np.dtype(np.uint8)}


def test_torch_tensors_are_accepted_through_dlpack(cupy, digits):
    torch = pytest.importorskip("torch")
    X = torch.tensor(digits[0], device="cuda")
    projector = TanhProjector(20, random_state=0, device="cuda").fit(X)
    H = projector.transform(X)
    assert isinstance(H, cupy.ndarray)
    np.testing.assert_allclose(H.get(), projector.transform(digits[0]), atol=1e-6)


def test_classifiers_accept_gpu_arrays(cupy, digits):
    X, y = digits
    for clf in (RBFClassifier(100, random_state=0), TanhClassifier(100, random_state=0)):
        on_device = clone(clf).set_params(device="cuda").fit(cupy.asarray(X), cupy.asarray(y))
        on_host = clf.fit(X, y)
        assert (on_device.predict(cupy.asarray(X)) == on_host.predict(X)).mean() > 0.999


def test_regressors_accept_gpu_arrays(cupy, digits):
    X, Y = digits[0].astype(np.float32), digits[0][:, 20:23].astype(np.float32)
    for model in (
        RBFRegressor(100, feature_weights=None, alpha=1.0, uncertainty=True, random_state=0),
        TanhRegressor(100, alpha="loo", uncertainty=True, random_state=0),
    ):
        on_device = clone(model).set_params(device="cuda").fit(cupy.asarray(X), cupy.asarray(Y))
        on_host = model.fit(X, Y)
        for rows in (cupy.asarray(X), X):
            actual = on_device.predict(rows, return_std=True)
            np.testing.assert_allclose(
                actual, on_host.predict(X, return_std=True), rtol=0, atol=0.02
            )
        pickle.loads(pickle.dumps(on_device)).set_params(device="jit").predict(X, return_std=True)
        assert not [v for v in (*vars(on_device).values(), *on_device.posterior_)
                    if isinstance(v, cupy.ndarray)]  # fmt: skip


def test_a_gpu_array_with_an_engine_of_the_host_is_an_error(cupy, digits):
    X, _ = digits
    with pytest.raises(TypeError, match=r"X is on a GPU, and device='jit'.*Use device=\"cuda\""):
        TanhProjector(5, device="jit").fit(cupy.asarray(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[0], "Expected 2D array, got 1D"),
        (lambda X: X[:0], r"0 sample\(s\)"),
        (lambda X: X[:, :0], r"0 feature\(s\)"),
        (lambda X: X.astype("f4") / 0 * 0, "NaN or infinity"),
        (lambda X: X.astype("c8"), "real numbers"),
    ],
)
def test_invalid_gpu_arrays_are_errors(cupy, digits, change, message):
    X = cupy.asarray(digits[0])
    with pytest.raises(ValueError, match=message):
        TanhProjector(5, device="cuda").fit(change(X))
    projector = TanhProjector(5, device="cuda").fit(X)
    with pytest.raises(ValueError, match="features"):
        projector.transform(X[:, :3])


def small_parts(settings):
    return lambda *args: {**settings(*args), "M": 256}


def test_the_tile_size_changes_no_result(cupy, digits, monkeypatch):
    X, y = digits
    rbf = RBFClassifier(200, random_state=0, device="cuda").fit(X, y)
    projector = RBFProjector(200, random_state=0, device="cuda").fit(X)
    H, scores = projector.transform(X), rbf.decision_function(X)
    monkeypatch.setattr(CudaEngine, "settings", small_parts(CudaEngine.settings))
    np.testing.assert_array_equal(projector.transform(X), H)
    np.testing.assert_allclose(rbf.decision_function(X), scores, atol=1e-5)


def test_statistics_in_float32_and_float64_agree(cupy, digits, monkeypatch):
    X, y = digits
    clf = TanhClassifier(100, random_state=0, device="cuda")
    coef = clf.fit(X, y).readout_coef_
    for dtype in (np.float32, np.float64):
        monkeypatch.setattr(CudaEngine, "statistics_dtype", lambda *_, d=dtype: np.dtype(d))
        np.testing.assert_allclose(clf.fit(X, y).readout_coef_, coef, atol=1e-3)


def test_ill_conditioned_layers_are_solved(cupy, digits):
    """A triangular kernel of a huge radius: all of H is linear in x and |x|^2."""
    X, y = digits[0].astype(np.float64), digits[1]
    clf = RBFClassifier(
        400,
        alpha=0.0,
        radius=1e4,
        metric="sqeuclidean",
        kernel="triangular",
        feature_weights=None,
        random_state=0,
        device="cuda",
    )
    with pytest.warns(ConvergenceWarning, match=r"condition number .* directions"):
        clf.fit(X, y)
    assert np.isfinite(clf.readout_coef_).all()
    assert clf.score(X, y) > 0.8


def test_verbose_prints_the_time_of_each_stage(cupy, digits, capsys):
    X, y = digits
    TanhClassifier(50, device="cuda", verbose=2).fit(X, y)
    TanhProjector(50, device="cuda", verbose=2).fit(X).transform(X)
    text = capsys.readouterr().out
    for stage in ("copy in", "layer", "readout", "copy out"):
        assert f"{stage} " in text
    assert "1,797 of 1,797 rows, " in text
    assert "rows/s, 1 tile: " in text


def test_an_array_api_pipeline_keeps_the_features_on_the_gpu(cupy):
    """In a subprocess, since SciPy reads the variable when it is imported."""
    code = (
        "import cupy, numpy as np, sklearn\n"
        "from sklearn.datasets import load_digits\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.model_selection import GridSearchCV\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn_fsvc import TanhProjector\n"
        "X, y = load_digits(return_X_y=True)\n"
        "X = cupy.asarray(X, dtype=np.float32)\n"
        "pipe = make_pipeline(TanhProjector(200, random_state=0, device='cuda'),\n"
        "                     LogisticRegression(max_iter=300))\n"
        "with sklearn.config_context(array_api_dispatch=True):\n"
        "    pipe.fit(X, y)\n"
        "    assert isinstance(pipe[-1].coef_, cupy.ndarray)\n"
        "    assert pipe.score(X, y) > 0.97\n"
        "    search = GridSearchCV(pipe, {'tanhprojector__n_components': [20, 200]}, cv=2,\n"
        "                          error_score='raise').fit(X, y)\n"
        "    assert search.best_params_['tanhprojector__n_components'] == 200\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_many_features(cupy, rng):
    """65,536 features are summed in parts, with the accuracy of float32."""
    X = np.full((3, 65_536), 0.1, np.float32)
    X[1:] += rng.random((2, 65_536), np.float32)
    for dtype in (np.float32, np.float64):
        with get_engine("cuda") as engine:
            layer = RBFLayer(X.astype(dtype), kernel="distance")
            H = engine.hidden(engine.prepare(layer), engine.to_device(X.astype(dtype))).get()
        expected = np.abs(X[:, None].astype(float) - X[None].astype(float)).sum(-1)
        np.testing.assert_allclose(H, expected, rtol=2e-6)


@pytest.mark.parametrize("kernel", ["triangular", "gaussian"])
@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
def test_more_samples_than_a_grid_axis_has_blocks(cupy, rng, metric, kernel):
    """65,535 blocks of 128 samples are 8.4 million."""
    X = rng.random((9_000_000, 1), np.float32)
    layer = RBFLayer(X[:1], 0.3, metric, kernel)
    with get_engine("cuda") as engine:
        H = engine.hidden(engine.prepare(layer), engine.to_device(X)).get()
    np.testing.assert_allclose(H, naive.hidden(layer, X), atol=1e-5)
