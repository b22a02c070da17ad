"""The memory of a GPU: its limit is kept, and none is overwritten while it is on its way."""

import time

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.sources import InMemory
from sklearn_fsvc._src.engines.cuda import CudaEngine, transfer
from sklearn_fsvc._src.engines.threads import submit
from sklearn_fsvc.engines import get_engine

MIB = 2**20


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


def test_too_little_memory_for_the_statistics_is_refused(cupy, rng):
    X = rng.random((2000, 10), np.float32)
    clf = TanhClassifier(1000, feature_weights=None, device="cuda", max_memory="7MiB")
    with pytest.raises(ValueError, match="too small: one row at a time needs"):
        clf.fit(X, X[:, 0] > 0.5)


def test_workers_take_their_share_of_the_memory(cupy, monkeypatch):
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
    monkeypatch.setattr(CudaEngine, "tunables", lambda *_: {"M": (4096,), "asymmetry": (1,)})
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


def test_more_units_than_memory_is_refused(cupy, rng):
    X = rng.random((100, 784), np.float32)
    projector = TanhProjector(100_000, device="cuda").fit(X)
    projector.set_params(max_memory="256MiB")
    with pytest.raises(ValueError, match=r"max_memory=268435456 bytes is too small"):
        projector.transform(X)
    with pytest.raises(ValueError, match="a layer of 100000 units and 784 features"):
        projector.fit(X)
    projector.fit(X[:, :64])
    assert projector.transform(X[:, :64]).shape == (100, 100_000)


def test_rows_of_integers_are_converted_on_their_way(cupy, rng):
    """Tile by tile, and once where the GPU holds them."""
    X = rng.integers(-9, 9, (30_000, 16))
    there = get_engine("cuda").upload_if_fits(InMemory(X), 2**30)
    assert isinstance(there, cupy.ndarray)
    np.testing.assert_array_equal(there.get(), X.astype(np.float64))
    projector = TanhProjector(64, random_state=0, device="cuda").fit(X)
    expected = projector.transform(X.astype(np.float64))
    np.testing.assert_allclose(projector.transform(X), expected, atol=1e-12)
