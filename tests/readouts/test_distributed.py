"""Panels that are sharded over several engines give the sums, factor and model of one engine."""

import numpy as np
import pytest

from fake_devices import FakeDevice
from sklearn_fsvc import TanhClassifier, TanhRegressor
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.readouts import gather_statistics, packed_symmetric
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc.engines import get_engine


@pytest.fixture(autouse=True)
def fake_devices_with_narrow_panels(monkeypatch):
    monkeypatch.setitem(ENGINES, FakeDevice.name, FakeDevice)
    monkeypatch.setattr(packed_symmetric, "WIDTH", 16)


@pytest.fixture
def device_group():
    with get_engine("half:all") as engine:
        yield engine.device_group


def panels_of(A, device_group=None):
    matrix = PackedSymmetric(len(A), HOST, device_group=device_group)
    for first, block in matrix:
        block[...] = A[first:, first : first + block.shape[1]]
    return matrix


@pytest.mark.parametrize("order", [1, 15, 16, 17, 33, 100])
def test_distributed_factor(device_group, rng, order):
    B = rng.standard_normal((order, order + 5))
    A = B @ B.T + np.eye(order)
    matrix = panels_of(A, device_group)
    assert matrix.factorise()
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.tril(matrix.full()), L, atol=1e-10)
    right = rng.standard_normal((order, 3))
    half = matrix.solve_lower(np.array(right, order="F"))
    np.testing.assert_allclose(
        matrix.solve_lower(half, transposed=True), np.linalg.solve(A, right), atol=1e-8
    )


@pytest.mark.parametrize("indices", [[], [0], [15, 16, 17, 99]])
def test_cleared_rows_and_columns(device_group, rng, indices):
    A = rng.standard_normal((100, 100))
    matrix = panels_of(A + A.T, device_group)
    matrix.clear(np.array(indices, int))
    kept = ~np.isin(np.arange(100), indices)
    np.testing.assert_array_equal(matrix.full(), np.tril((A + A.T) * np.outer(kept, kept)))


@pytest.mark.parametrize("bad", [0, 20, 40, 99])
def test_a_matrix_without_a_factor(device_group, rng, bad):
    B = rng.standard_normal((100, 120))
    A = B @ B.T
    A[bad, bad] = -1.0
    assert not panels_of(A, device_group).factorise()


def test_an_error_in_one_thread_stops_all(device_group, rng, monkeypatch):
    factorise = HOST.factorise

    def failing(A):
        if A[0, 0] == 7:
            raise MemoryError("panel")
        return factorise(A)

    monkeypatch.setattr(type(HOST), "factorise", staticmethod(failing))
    A = np.eye(100)
    A[48, 48] = 7
    with pytest.raises(MemoryError, match="panel"):
        panels_of(A, device_group).factorise()


@pytest.mark.parametrize("model", [TanhClassifier, TanhRegressor])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_model_is_that_of_one_device(rng, monkeypatch, model, dtype, alpha):
    X, y = rng.random((300, 5)).astype(dtype), rng.integers(0, 3, 300)
    model = model(90, feature_weights=None, alpha=alpha, random_state=0)
    weight = rng.integers(0, 3, 300).astype(float)
    expected = model.set_params(device="half:0").fit(X, y, weight).readout_coef_
    calls = []
    sharded = gather_statistics.gather_sharded

    def recorded(*args):
        statistics = sharded(*args)
        calls.append([block.size for block in statistics.gram.blocks])
        return statistics

    monkeypatch.setattr(gather_statistics, "gather_sharded", recorded)
    monkeypatch.setattr(gather_statistics, "MAX_PART_OF_DEVICE", 0.0)
    actual = model.set_params(device="half:all").fit(X, y, weight).readout_coef_
    assert [len(sizes) for sizes in calls][:1] == [6]
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def test_each_device_holds_its_own_panels(device_group, rng, monkeypatch):
    held = []
    every_nth = PackedSymmetric.every_nth.__func__

    def recorded(cls, order, algebra, number, n):
        matrix = every_nth(cls, order, algebra, number, n)
        held.append((number, [i for i, b in enumerate(matrix.blocks) if b is not None]))
        return matrix

    monkeypatch.setattr(PackedSymmetric, "every_nth", classmethod(recorded))
    monkeypatch.setattr(gather_statistics, "MAX_PART_OF_DEVICE", 0.0)
    X = rng.random((60, 5))
    TanhClassifier(90, feature_weights=None, alpha=1.0, device="half:all").fit(X, X[:, 0] > 0.5)
    assert sorted(held) == [(0, [0, 2, 4]), (1, [1, 3, 5])]
