"""Processes of a Dask cluster: bitwise equal for any number of workers, also if one is killed."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, TanhClassifier

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.exhaustive,
    # Dask warns when workers are killed and clusters are closed.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Port:UserWarning"),
]

MODELS = {
    "probabilities": TanhClassifier(200, random_state=0, device="jit"),
    "RBF": RBFClassifier(
        150, selection_radius=0.5, radius=0.8, alpha=1.0, kernel="triangular",
        feature_weights=None, random_state=0, device="jit",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 24_000)
    return (rng.random((24_000, 8)) + y[:, None] / 3).astype(np.float32), y


def fit_on_cluster(data, n_workers, kill_after=None):
    """Return models fitted by `n_workers`; one worker may be killed while centres are selected."""
    X, y = data
    lazy, labels, models = da.from_array(X, chunks=(2000, -1)), da.from_array(y, chunks=5000), {}
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=n_workers > 1,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for name, model in MODELS.items():
            if kill_after is None or name != "RBF":
                models[name] = clone(model).fit(lazy, labels)
                continue
            # With a timeout: on a busy machine a worker may not be restarted.
            client.wait_for_workers(n_workers, timeout=120)
            killer = kill_later(next(iter(cluster.workers.values())).pid, kill_after)
            models[name] = clone(model).fit(lazy, labels)
            killer.join()
        probabilities = models["probabilities"].predict_proba(lazy).compute()
        np.testing.assert_allclose(
            probabilities, models["probabilities"].predict_proba(X), atol=1e-5
        )
    return models


def kill_later(process, seconds):
    def kill():
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_bitwise_equal_for_any_number_of_workers(data):
    one = fit_on_cluster(data, 1)
    two = fit_on_cluster(data, 2, kill_after=0.3)
    for name, model in two.items():
        np.testing.assert_array_equal(model.readout_coef_, one[name].readout_coef_)
    np.testing.assert_array_equal(two["RBF"].support_, one["RBF"].support_)
    for name in ("temperature_", "score_scale_"):
        assert getattr(two["probabilities"], name) == getattr(one["probabilities"], name)
    for name, model in MODELS.items():
        local = clone(model).fit(*data)
        np.testing.assert_allclose(local.readout_coef_, one[name].readout_coef_, atol=1e-3)
    np.testing.assert_array_equal(local.support_, one["RBF"].support_)
