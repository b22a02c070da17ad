"""What only a GPU can show: the way of arrays and answers. The layers are in test_engines."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import naive
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.cuda import CudaEngine
from sklearn_fsvc._src.layers import RBFLayer

PROJECTORS = [TanhProjector(50, random_state=0), RBFProjector(50, random_state=0)]


@pytest.mark.parametrize("projector", PROJECTORS, ids=["tanh", "rbf"])
@pytest.mark.parametrize("fit_on", ["host", "gpu"])
def test_arrays_stay_where_they_are(cupy, digits, projector, fit_on):
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


def test_nothing_crosses_the_link(cupy, digits, monkeypatch):
    X = cupy.asarray(digits[0])
    projector = TanhProjector(50, device="cuda").fit(X)
    monkeypatch.setattr(CudaEngine, "uploads", None)
    monkeypatch.setattr(CudaEngine, "to_host", None)
    assert projector.transform(X).shape == (len(X), 50)


def test_bytes_travel_as_bytes(cupy, digits, monkeypatch):
    sent = []

    def uploads(self, blocks):
        for block in blocks:
            sent.append(block.dtype)
            yield self.to_device(block)

    monkeypatch.setattr(CudaEngine, "uploads", uploads)
    TanhProjector(50, device="cuda").fit(digits[0]).transform(digits[0])
    assert set(sent) == {np.dtype(np.uint8)}


def test_torch_tensors_come_in_by_dlpack(cupy, digits):
    torch = pytest.importorskip("torch")
    X = torch.tensor(digits[0], device="cuda")
    projector = TanhProjector(20, random_state=0, device="cuda").fit(X)
    H = projector.transform(X)
    assert isinstance(H, cupy.ndarray)
    np.testing.assert_allclose(H.get(), projector.transform(digits[0]), atol=1e-6)


def test_classifiers_take_arrays_of_the_gpu(cupy, digits):
    X, y = digits
    for clf in (RBFClassifier(100, random_state=0), TanhClassifier(100, random_state=0)):
        there = clone(clf).set_params(device="cuda").fit(cupy.asarray(X), cupy.asarray(y))
        here = clf.fit(X, y)
        assert (there.predict(cupy.asarray(X)) == here.predict(X)).mean() > 0.999


def test_regressors_take_arrays_of_the_gpu(cupy, digits):
    X, Y = digits[0].astype(np.float32), digits[0][:, 20:23].astype(np.float32)
    for model in (
        RBFRegressor(100, feature_weights=None, alpha=1.0, uncertainty=True, random_state=0),
        TanhRegressor(100, alpha="loo", uncertainty=True, random_state=0),
    ):
        there = clone(model).set_params(device="cuda").fit(cupy.asarray(X), cupy.asarray(Y))
        here = model.fit(X, Y)
        for rows in (cupy.asarray(X), X):
            found = there.predict(rows, return_std=True)
            np.testing.assert_allclose(found, here.predict(X, return_std=True), rtol=0, atol=0.02)
        pickle.loads(pickle.dumps(there)).set_params(device="jit").predict(X, return_std=True)
        assert not [v for v in (*vars(there).values(), *there.posterior_)
                    if isinstance(v, cupy.ndarray)]  # fmt: skip


def test_an_array_of_the_gpu_is_refused_on_the_host(cupy, digits):
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
def test_bad_arrays_of_the_gpu(cupy, digits, change, message):
    X = cupy.asarray(digits[0])
    with pytest.raises(ValueError, match=message):
        TanhProjector(5, device="cuda").fit(change(X))
    projector = TanhProjector(5, device="cuda").fit(X)
    with pytest.raises(ValueError, match="features"):
        projector.transform(X[:, :3])


def small_parts(settings):
    return lambda *args: {**settings(*args), "M": 256}


def test_the_tile_changes_nothing(cupy, digits, monkeypatch):
    X, y = digits
    rbf = RBFClassifier(200, random_state=0, device="cuda").fit(X, y)
    projector = RBFProjector(200, random_state=0, device="cuda").fit(X)
    H, scores = projector.transform(X), rbf.decision_function(X)
    monkeypatch.setattr(CudaEngine, "settings", small_parts(CudaEngine.settings))
    np.testing.assert_array_equal(projector.transform(X), H)
    np.testing.assert_allclose(rbf.decision_function(X), scores, atol=1e-5)


def test_statistics_in_float32_where_float64_is_slow(cupy, digits, monkeypatch):
    X, y = digits
    clf = TanhClassifier(100, random_state=0, device="cuda")
    coef = clf.fit(X, y).readout_coef_
    for dtype in (np.float32, np.float64):
        monkeypatch.setattr(CudaEngine, "statistics_dtype", lambda *_, d=dtype: np.dtype(d))
        np.testing.assert_allclose(clf.fit(X, y).readout_coef_, coef, atol=1e-3)


def test_ill_conditioned_layers_are_solved(cupy, digits):
    """Triangles of squared distances that end nowhere near: all of H is linear in x and |x|^2."""
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


def test_where_the_time_goes(cupy, digits, capsys):
    X, y = digits
    TanhClassifier(50, device="cuda", verbose=2).fit(X, y)
    TanhProjector(50, device="cuda", verbose=2).fit(X).transform(X)
    text = capsys.readouterr().out
    for stage in ("copy in", "layer", "readout", "copy out"):
        assert f"{stage} " in text
    assert "1,797 of 1,797 rows, " in text
    assert "rows/s, 1 tile: " in text


def test_an_array_api_pipeline_keeps_the_features_on_the_gpu(cupy):
    """In a process of its own: SciPy reads the variable as it is imported."""
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


def test_wide_rows(cupy, rng):
    """65,536 features: sums in parts, with the digits that float32 has."""
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
def test_more_rows_than_a_grid_is_high(cupy, rng, metric, kernel):
    """65,535 blocks of 128 rows are 8.4 million."""
    X = rng.random((9_000_000, 1), np.float32)
    layer = RBFLayer(X[:1], 0.3, metric, kernel)
    with get_engine("cuda") as engine:
        H = engine.hidden(engine.prepare(layer), engine.to_device(X)).get()
    np.testing.assert_allclose(H, naive.hidden(layer, X), atol=1e-5)
