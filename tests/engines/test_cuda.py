"""What only a GPU can show: data flow, memory, workers. The layers are in test_engines."""

import os
import pickle
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import naive
from conftest import usable
from sklearn_fsvc import RBFClassifier, RBFProjector, TanhClassifier, TanhProjector
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.engines.cuda import CudaEngine, transfer
from sklearn_fsvc.engines.host import submit
from sklearn_fsvc.layers import RBFLayer

MIB = 2**20


@pytest.fixture
def cupy(request):
    usable("cuda", request.config)
    import cupy

    return cupy


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


@pytest.fixture
def peak(cupy):
    """function -> (result, the most bytes held on the GPU at one time during the call)."""

    class Peak(cupy.cuda.MemoryHook):
        name = "Peak"
        now = most = 0

        def malloc_postprocess(self, *, mem_size, **more):
            self.now += mem_size
            self.most = max(self.most, self.now)

        def free_postprocess(self, *, mem_size, **more):
            self.now -= mem_size

    def measure(function, *args):
        with Peak() as hook:
            result = function(*args)
        return result, hook.most

    return measure


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


@pytest.mark.parametrize(
    "estimator",
    [
        RBFClassifier(1000, random_state=0),
        RBFClassifier(1000, metric="euclidean", kernel="gaussian", random_state=0),
        RBFClassifier(1000, readout="lms", max_iter=1, random_state=0),
        TanhClassifier(1000, random_state=0),
        TanhProjector(1000, random_state=0),
    ],
    ids=repr,
)
def test_memory_is_kept_under_the_limit(peak, rng, estimator, monkeypatch):
    y = rng.integers(0, 4, 20_000)
    X = rng.random((20_000, 40), np.float32) + y[:, None].astype(np.float32) / 4
    limit = 44 * MIB
    estimator = clone(estimator).set_params(device="cuda")
    free = peak(estimator.fit, X, y)[1]
    if not isinstance(estimator, TanhProjector):  # its fit needs no memory
        assert free > limit
    fitted, most = peak(estimator.set_params(max_memory=limit).fit, X, y)
    assert most <= limit
    use = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    fitted.set_params(max_memory=None)
    expected, free = peak(use, X)
    assert free > 8 * MIB
    fitted.set_params(max_memory=8 * MIB)
    answer, most = peak(use, X)
    assert most <= 8 * MIB
    np.testing.assert_allclose(answer, expected, atol=1e-6)


def test_too_little_memory_for_the_solution_is_refused(cupy, rng):
    X = rng.random((2000, 10), np.float32)
    clf = TanhClassifier(1000, device="cuda", max_memory="20MiB")
    with pytest.raises(ValueError, match="too small: the solution of the readout needs"):
        clf.fit(X, X[:, 0] > 0.5)


def test_workers_take_their_share_of_the_memory(cupy, monkeypatch):
    with get_engine("cuda") as engine:
        free, total = engine.memory()
        monkeypatch.setattr("sklearn_fsvc.engines.cuda.engine.n_workers", lambda: 4)
        share, _ = engine.memory()
    assert share == pytest.approx(free / 4, rel=0.05)
    assert free <= total


@pytest.fixture
def wide(rng):
    X = rng.random((60_000, 784), np.float32)
    return X, X[:, :392].sum(axis=1) > X[:, 392:].sum(axis=1)


@pytest.fixture
def slow_gpu(monkeypatch):
    """Every layer is computed again and again, so that the host runs far ahead."""
    hidden = CudaEngine.hidden

    def slow(self, prepared, X, out=None, units=None):
        for _ in range(50):
            H = hidden(self, prepared, X, out, units)
        return H

    monkeypatch.setattr(CudaEngine, "hidden", slow)


@pytest.mark.parametrize("late", ["kernels", "copies"])
def test_tiles_on_their_way_out_are_not_overwritten(cupy, wide, monkeypatch, request, late):
    X, _ = wide
    projector = TanhProjector(1000, random_state=0, device="cuda").fit(X)
    expected = projector.transform(cupy.asarray(X)).get()

    def late_copy(target, source):
        return submit([lambda: (time.sleep(0.1), np.copyto(target, source))])

    if late == "kernels":
        request.getfixturevalue("slow_gpu")
    else:
        monkeypatch.setattr(transfer, "start_copy", late_copy)
    monkeypatch.setattr(CudaEngine, "knobs", lambda *_: {"M": (4096,), "asymmetry": (1,)})
    # A BLAS rounds another number of rows in another way.
    np.testing.assert_allclose(projector.transform(X), expected, atol=1e-5)
    assert expected.nbytes > 10 * 4 * 2048**2


def test_rows_on_their_way_in_are_not_overwritten(cupy, wide, monkeypatch, slow_gpu):
    X, y = wide
    clf = TanhClassifier(1024, random_state=0, device="cuda")
    expected = clf.fit(X, y).readout_coef_
    keep = CudaEngine.upload_if_fits
    monkeypatch.setattr(CudaEngine, "upload_if_fits", lambda self, X, limit: keep(self, X, 0))
    np.testing.assert_allclose(clf.fit(X, y).readout_coef_, expected, atol=1e-5)


def test_out_of_memory_halves_the_tile_and_goes_on(cupy, rng):
    X = rng.random((30_000, 16), np.float32)
    projector = TanhProjector(1024, random_state=0, device="cuda").fit(X)
    expected = projector.transform(X)
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        pool.set_limit(size=40 * MIB)  # a tile of H alone is 64 MiB
        np.testing.assert_allclose(projector.transform(X), expected, atol=1e-6)
        clf = TanhClassifier(512, random_state=0, device="cuda")
        coef = clf.fit(X, X[:, 0] > 0.5).readout_coef_
    np.testing.assert_allclose(coef, clf.fit(X, X[:, 0] > 0.5).readout_coef_, atol=1e-5)


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
        400, alpha=0.0, radius=1e4, metric="sqeuclidean", random_state=0, device="cuda"
    )
    with pytest.warns(ConvergenceWarning, match=r"condition number .* directions"):
        clf.fit(X, y)
    assert np.isfinite(clf.readout_coef_).all()
    assert clf.score(X, y) > 0.8


def test_models_go_where_there_is_no_gpu(cupy, digits, tmp_path):
    X, y = digits
    auto = TanhClassifier(100, random_state=0).fit(X, y)
    named = RBFClassifier(100, random_state=0, device="cuda").fit(X, y)
    expected = named.predict(X)
    (tmp_path / "models").write_bytes(pickle.dumps((auto, named, X, expected)))
    code = (
        "import pickle, sys\n"
        "auto, named, X, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "auto.predict(X)\n"
        "try:\n"
        "    named.predict(X)\n"
        "    raise SystemExit('it fell back in silence')\n"
        "except RuntimeError as error:\n"
        "    assert 'no NVIDIA GPU' in str(error), error\n"
        "assert (named.set_params(device='cpu').predict(X) == expected).mean() > 0.999\n"
    )
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "models")], check=True, env=environment
    )


def test_a_search_in_processes_and_in_threads(cupy, digits):
    X, y = digits[0][:600], digits[1][:600]
    for estimator, name in (
        (RBFClassifier(random_state=0, device="cuda"), "n_hidden"),
        (
            make_pipeline(
                TanhProjector(random_state=0, device="cuda"), LogisticRegression(max_iter=500)
            ),
            "tanhprojector__n_components",
        ),
    ):
        search = GridSearchCV(estimator, {name: [30, 60]}, cv=2, error_score="raise")
        alone = clone(search).fit(X, y).cv_results_["mean_test_score"]
        with joblib.parallel_config("threading", n_jobs=4):
            threaded = clone(search).fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_allclose(threaded, alone, atol=0.01)
        processes = clone(search).set_params(n_jobs=2).fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_allclose(processes, alone, atol=0.01)


def test_a_forked_process_is_told_why(cupy, digits):
    import multiprocessing

    clf = TanhClassifier(20, random_state=0, device="cuda").fit(*digits)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answer = pool.apply_async(_error_of, (clf, digits[0])).get(timeout=60)
    assert "forked" in answer


def _error_of(clf, X):
    try:
        clf.predict(X)
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_workers_are_dealt_the_gpus_in_turn(cupy, monkeypatch):
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 3)
    for number, expected in [(None, 0), (0, 0), (1, 1), (2, 2), (3, 0)]:
        monkeypatch.setattr("sklearn_fsvc.engines.cuda.engine.worker_number", lambda n=number: n)
        assert CudaEngine().index == expected
    assert CudaEngine(1).index == 1


def test_where_the_time_goes(cupy, digits, capsys):
    X, y = digits
    TanhClassifier(50, device="cuda", verbose=1).fit(X, y)
    TanhProjector(50, device="cuda", verbose=1).fit(X).transform(X)
    text = capsys.readouterr().out
    for stage in ("copy in", "layer", "readout", "copy out"):
        assert f"{stage} " in text
    assert "1,797 of 1,797 rows, 1 tile," in text


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


def test_more_units_than_memory_is_refused(cupy, rng):
    X = rng.random((100, 784), np.float32)
    projector = TanhProjector(100_000, device="cuda", max_memory="256MiB").fit(X)
    with pytest.raises(ValueError, match=r"max_memory=268435456 bytes is too small"):
        projector.transform(X)
    projector = TanhProjector(100_000, device="cuda", max_memory="256MiB").fit(X[:, :64])
    assert projector.transform(X[:, :64]).shape == (100, 100_000)


@pytest.fixture
def two_gpus(cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    return cupy


def test_the_second_gpu(two_gpus, digits):
    X, y = digits
    rbf = RBFClassifier(100, random_state=0, device="cuda:1").fit(X, y)
    assert rbf.device_ == "cuda:1"
    first = clone(rbf).set_params(device="cuda:0").fit(X, y)
    np.testing.assert_array_equal(rbf.decision_function(X), first.decision_function(X))
    with two_gpus.cuda.Device(1):
        there = two_gpus.asarray(X)
    H = TanhProjector(20, random_state=0, device="cuda:1").fit_transform(there)
    assert H.device.id == 1
    with pytest.raises(ValueError, match=r'X is on GPU 1, .*Use device="cuda:1"'):
        TanhProjector(20, device="cuda").fit(there)


def test_gpus_are_dealt_to_workers(two_gpus, digits):
    clf = TanhClassifier(100, random_state=0, device="cuda")
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend, n_jobs=2):
            fits = [joblib.delayed(clone(clf).fit)(*digits) for _ in range(8)]
            used = {fitted.device_ for fitted in joblib.Parallel()(fits)}
        assert used == {"cuda:0", "cuda:1"}, backend
