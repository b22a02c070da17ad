"""The memory of a GPU: limits, and buffers that copies still use are not overwritten."""

import time

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.sources import ArraySource
from sklearn_fsvc._src.engines.cuda import CudaEngine, transfer
from sklearn_fsvc._src.engines.threads import submit_all
from sklearn_fsvc.engines import get_engine

MIB = 2**20


@pytest.fixture
def peak(cupy):
    """function -> (result, peak bytes that a call allocates on the GPU)."""

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


@pytest.mark.parametrize(
    "estimator",
    [
        RBFClassifier(1000, random_state=0),
        RBFClassifier(1000, metric="euclidean", kernel="gaussian", random_state=0),
        RBFClassifier(1000, readout="lms", max_iter=1, random_state=0),
        TanhClassifier(1000, feature_weights=None, random_state=0),
        TanhProjector(1000, random_state=0),
    ],
    ids=repr,
)
def test_memory_stays_under_the_limit(peak, rng, estimator):
    y = rng.integers(0, 4, 20_000)
    X = rng.random((20_000, 40), np.float32) + y[:, None].astype(np.float32) / 4
    limit = 44 * MIB
    estimator = clone(estimator).set_params(device="cuda")
    free = peak(estimator.fit, X, y)[1]
    if not isinstance(estimator, TanhProjector):  # its fit allocates next to nothing
        assert free > limit
    fitted, most = peak(estimator.set_params(max_memory=limit).fit, X, y)
    assert most <= limit
    use = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    fitted.set_params(max_memory=None)
    expected, free = peak(use, X)
    assert free > 8 * MIB
    fitted.set_params(max_memory=8 * MIB)
    result, most = peak(use, X)
    assert most <= 8 * MIB
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_too_little_memory_for_the_statistics_is_an_error(cupy, rng):
    X = rng.random((2000, 10), np.float32)
    clf = TanhClassifier(1000, feature_weights=None, device="cuda", max_memory="7MiB")
    with pytest.raises(ValueError, match="one row at a time needs"):
        clf.fit(X, X[:, 0] > 0.5)


def test_workers_share_the_memory(cupy, monkeypatch):
    with get_engine("cuda") as engine:
        free, total = engine.memory()
        monkeypatch.setattr("sklearn_fsvc._src.engines.cuda.engine.n_workers", lambda: 4)
        share, _ = engine.memory()
    assert share == pytest.approx(free / 4, rel=0.05)
    assert free <= total


@pytest.fixture
def wide(rng):
    X = rng.random((60_000, 784), np.float32)
    return X, X[:, :392].sum(axis=1) > X[:, 392:].sum(axis=1)


@pytest.fixture
def slow_gpu(monkeypatch):
    """Every layer is computed many times, so that the host is far ahead of the GPU."""
    hidden = CudaEngine.hidden

    def slow(self, prepared, X, out=None, units=None):
        for _ in range(50):
            H = hidden(self, prepared, X, out, units)
        return H

    monkeypatch.setattr(CudaEngine, "hidden", slow)


@pytest.mark.parametrize("slow", ["kernels", "copies"])
def test_tiles_being_downloaded_are_not_overwritten(cupy, wide, monkeypatch, request, slow):
    X, _ = wide
    projector = TanhProjector(1000, random_state=0, device="cuda").fit(X)
    expected = projector.transform(cupy.asarray(X)).get()

    def slow_copy(target, source):
        return submit_all([lambda: (time.sleep(0.1), np.copyto(target, source))])

    if slow == "kernels":
        request.getfixturevalue("slow_gpu")
    else:
        monkeypatch.setattr(
            CudaEngine, "sink", lambda self, out: transfer.PinnedSink(self.xp, out, slow_copy)
        )
    monkeypatch.setattr(CudaEngine, "tunables", lambda *_: {"M": (4096,), "asymmetry": (1,)})
    # The rounding of a BLAS depends on the number of rows.
    np.testing.assert_allclose(projector.transform(X), expected, atol=1e-5)
    assert expected.nbytes > 10 * 4 * 2048**2


def test_tiles_being_uploaded_are_not_overwritten(cupy, wide, monkeypatch, slow_gpu):
    X, y = wide
    clf = TanhClassifier(1024, random_state=0, device="cuda")
    expected = clf.fit(X, y).readout_coef_
    keep = CudaEngine.upload_if_fits
    monkeypatch.setattr(CudaEngine, "upload_if_fits", lambda self, X, limit: keep(self, X, 0))
    np.testing.assert_allclose(clf.fit(X, y).readout_coef_, expected, atol=1e-5)


def test_a_tile_that_runs_out_of_memory_is_halved(cupy, rng):
    X = rng.random((30_000, 16), np.float32)
    projector = TanhProjector(1024, random_state=0, device="cuda").fit(X)
    expected = projector.transform(X)
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        pool.set_limit(size=40 * MIB)  # a tile of H alone is 64 MiB
        np.testing.assert_allclose(projector.transform(X), expected, atol=1e-6)
        clf = TanhClassifier(512, feature_weights=None, random_state=0, device="cuda")
        coef = clf.fit(X, X[:, 0] > 0.5).readout_coef_
    np.testing.assert_allclose(coef, clf.fit(X, X[:, 0] > 0.5).readout_coef_, atol=1e-5)


def test_too_little_memory_for_the_units_is_an_error(cupy, rng):
    X = rng.random((100, 784), np.float32)
    projector = TanhProjector(100_000, device="cuda").fit(X)
    projector.set_params(max_memory="256MiB")
    with pytest.raises(ValueError, match=r"256.0 MiB are available within max_memory"):
        projector.transform(X)
    with pytest.raises(ValueError, match="a layer of 100000 units and 784 features"):
        projector.fit(X)
    projector.fit(X[:, :64])
    assert projector.transform(X[:, :64]).shape == (100, 100_000)


def test_integer_samples_are_converted_during_the_upload(cupy, rng):
    """Tile by tile, or all at once if they fit into the memory of the GPU."""
    X = rng.integers(-9, 9, (30_000, 16))
    there = get_engine("cuda").upload_if_fits(ArraySource(X), 2**30)
    assert isinstance(there, cupy.ndarray)
    np.testing.assert_array_equal(there.get(), X.astype(np.float64))
    projector = TanhProjector(64, random_state=0, device="cuda").fit(X)
    expected = projector.transform(X.astype(np.float64))
    np.testing.assert_allclose(projector.transform(X), expected, atol=1e-12)
