"""Processes and GPUs: workers, forks, several GPUs, and machines without one."""

import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector
from sklearn_fsvc._src.engines.cuda import CudaEngine


def test_models_are_loaded_without_a_gpu(cupy, digits, tmp_path):
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
        "    raise SystemExit('it fell back silently')\n"
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


def test_a_forked_process_gets_the_reason(cupy, digits):
    import multiprocessing

    clf = TanhClassifier(20, random_state=0, device="cuda").fit(*digits)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        message = pool.apply_async(_error_of, (clf, digits[0])).get(timeout=60)
    assert "forked" in message


def _error_of(clf, X):
    try:
        clf.predict(X)
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_gpus_are_assigned_to_workers_round_robin(cupy, monkeypatch):
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 3)
    for number, expected in [(None, 0), (0, 0), (1, 1), (2, 2), (3, 0)]:
        monkeypatch.setattr(
            "sklearn_fsvc._src.engines.cuda.engine.worker_index", lambda n=number: n
        )
        assert CudaEngine().index == expected
    assert CudaEngine(1).index == 1


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
        second = two_gpus.asarray(X)
    H = TanhProjector(20, random_state=0, device="cuda:1").fit_transform(second)
    assert H.device.id == 1
    with pytest.raises(ValueError, match=r'X is on GPU 1, .*Use device="cuda:1"'):
        TanhProjector(20, device="cuda").fit(second)


def test_two_workers_use_two_gpus(two_gpus, digits):
    clf = TanhClassifier(100, random_state=0, device="cuda")
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend, n_jobs=2):
            fits = [joblib.delayed(clone(clf).fit)(*digits) for _ in range(8)]
            used = {fitted.device_ for fitted in joblib.Parallel()(fits)}
        assert used == {"cuda:0", "cuda:1"}, backend
