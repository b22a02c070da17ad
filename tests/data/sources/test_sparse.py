"""Sparse rows: their places and numbers, and when they are met as what."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random

from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.sources import SparseRows, joined, some_rows
from sklearn_fsvc._src.data.streaming import (  # fmt: skip
    basic_layer,
    n_synapses,
    stream_into,
    take_in_any_order,
)
from sklearn_fsvc._src.engines.blas import BlasEngine
from sklearn_fsvc._src.engines.host import SparseEvaluator
from sklearn_fsvc._src.layers import TanhLayer

N, FEATURES, UNITS = 300, 80, 20


@pytest.fixture
def X():
    return csr_array(random(N, FEATURES, 0.05, random_state=0))


@pytest.fixture
def layer():
    rng = np.random.default_rng(0)
    return TanhLayer(rng.normal(size=(UNITS, FEATURES)), rng.normal(size=UNITS))


class Blas(BlasEngine):
    """The engine with another place for sparse rows."""

    def __init__(self, place=None):
        self._place = place

    def sparse_evaluator(self):
        return self._place


class NotingPlace(SparseEvaluator):
    """Notes how many rows it is asked for, and which units."""

    def __init__(self):
        super().__init__(np)
        self.asked = []

    def hidden(self, prepared, X, out, units=None):
        self.asked.append((X.shape[0], units))
        return super().hidden(prepared, X, out, units)


def hidden(layer, X, max_memory=None, engine=None):
    out = np.empty((len(X), layer.n_units))
    with engine or BlasEngine() as engine:
        stream_into(Job(engine, max_memory), layer, X, out)
    return out


def test_rows_in_any_order(X):
    rows = np.random.default_rng(1).permutation(N)[:50]
    np.testing.assert_array_equal(take_in_any_order(SparseRows(X), rows), X.toarray()[rows])


def test_some_rows_stay_sparse(X):
    rows = np.arange(3, N, 7)
    some = some_rows(SparseRows(X), rows)
    assert isinstance(some, SparseRows)
    assert some.nbytes < SparseRows(X).nbytes / 5
    np.testing.assert_array_equal(some.sparse(slice(None), float).toarray(), X.toarray()[rows])
    whole = SparseRows(X)
    assert some_rows(whole, np.arange(N)) is whole  # nothing is copied
    back = np.arange(N)[::-1]
    np.testing.assert_array_equal(some_rows(whole, back).take(slice(None)), X.toarray()[back])


def test_other_numbers_become_float64(X):
    rows = SparseRows(X.astype(np.int16).tocoo())
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows.take(slice(None)), X.toarray().astype(np.int16))


def test_a_copy_is_no_view(X):
    rows, expected = SparseRows(X), X.toarray()
    copied = rows.copy()
    X.data[:] = 7
    np.testing.assert_array_equal(copied.take(slice(None)), expected)


def test_blocks_are_joined(X):
    rows = SparseRows(X)
    parts = [rows.part(np.arange(a, b)) for a, b in ((0, 100), (100, 101), (101, N))]
    assert isinstance(joined(parts), SparseRows)
    np.testing.assert_array_equal(joined(parts).take(slice(None)), X.toarray())
    dense = [part.take(slice(None)) for part in parts]
    np.testing.assert_array_equal(joined(dense), X.toarray())


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_the_first_row_with_a_bad_number_is_named(X, value, what):
    first = X.indptr[50]  # of its row
    X.data[[first, first + 40]] = value
    row, column = np.argwhere(~np.isfinite(X.toarray()))[0]
    assert row == 50
    match = f"Input X contains {what} in row {row}, column {column}; remove or impute"
    with pytest.raises(ValueError, match=match):
        SparseRows(X).check_finite()


def test_bytes_of_the_longest_row():
    X = csr_array(np.array([[0, 0, 0, 0], [1, 0, 2, 3], [0, 4, 0, 0]], np.float32))
    index = X.indices.itemsize
    assert SparseRows(X).row_bytes(np.dtype(np.float32)) == 3 * (4 + index) + index
    assert SparseRows(X).row_bytes(np.dtype(np.float64)) == 3 * (8 + index) + index


@pytest.mark.parametrize("how", ["in order", "shuffled", "dense enough"])
def test_H_is_that_of_dense_rows(X, layer, how):
    X = csr_array(random(N, FEATURES, 0.6, random_state=0)) if how == "dense enough" else X
    rows = SparseRows(X)
    assert rows.is_sparse == (how != "dense enough")
    H = hidden(layer, rows)
    np.testing.assert_allclose(H, hidden(layer, X.toarray()), rtol=0, atol=1e-14)


def test_a_basic_layer_has_all_units(X):
    """Where a layer of dense rows would be cut: SciPy would copy each part of the units."""
    layer = TanhLayer(np.random.default_rng(0).normal(size=(300, FEATURES)), np.zeros(300))
    out, expected, place = np.empty((N, 300)), hidden(layer, X.toarray()), NotingPlace()
    with Blas(place) as engine:
        engine.tuned = {layer.kind: {"M": 1024, "asymmetry": 4}}
        assert basic_layer(engine, layer).units == 256
        stream_into(Job(engine), layer, SparseRows(X), out)
    assert place.asked == [(N, slice(0, 300))]
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


def test_sparse_rows_are_never_made_dense(X, layer, monkeypatch):
    expected = hidden(layer, X.toarray())

    def refuse(*args):
        raise AssertionError("made dense")

    monkeypatch.setattr(SparseRows, "take", refuse)
    for max_memory in (None, "1GB"):
        np.testing.assert_allclose(hidden(layer, SparseRows(X), max_memory), expected, atol=1e-14)


def test_an_engine_without_a_place_for_them_gets_dense_tiles(X, layer):
    expected = hidden(layer, X.toarray())
    H = hidden(layer, SparseRows(X), engine=Blas(place=None))
    np.testing.assert_allclose(H, expected, atol=1e-14)


def test_features_that_no_row_has_are_not_met():
    X = csr_array((np.array([1.0, 2.0, 0.0]), ([0, 1, 1], [9, 3, 5])), (2, 10))
    W = np.arange(40.0).reshape(4, 10)
    layer, rows = SparseRows(X).narrowed(TanhLayer(W, np.zeros(4)))
    np.testing.assert_array_equal(layer.units, W[:, [0, 3, 5, 9]])
    assert layer.units.flags.c_contiguous
    np.testing.assert_array_equal(rows.take(slice(None)), X.toarray()[:, [0, 3, 5, 9]])
    most = SparseRows(csr_array(np.eye(10) * (np.arange(10) < 6)))
    given = TanhLayer(W, np.zeros(4))
    assert most.narrowed(given) == (given, most)


def test_rows_of_zeros_alone(layer):
    H = hidden(layer, SparseRows(csr_array((5, FEATURES), dtype=float)))
    np.testing.assert_allclose(H, np.tanh(np.tile(layer.bias, (5, 1))))


def test_work_is_what_is_multiplied(X):
    assert n_synapses(X, 7) == 7 * X.nnz
    assert n_synapses(X.toarray(), 7) == 7 * N * FEATURES


def test_memory_does_not_grow_with_the_cores(monkeypatch):
    """Many threads take fewer outputs each: a small `max_memory` is enough for any host."""
    layer, needed = TanhLayer(np.zeros((50, 20)), np.zeros(50)), []
    for n in (2, 64):
        monkeypatch.setattr("sklearn_fsvc._src.engines.host.n_threads", lambda n=n: n)
        needed.append(SparseEvaluator(np).prepared_bytes(layer))
    assert needed[1] <= 2 * needed[0]
