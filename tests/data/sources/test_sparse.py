"""Sparse rows: selection, and evaluation as CSR or as dense rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random

from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.memory_plan import tile_shape_for
from sklearn_fsvc._src.data.rows import take_unsorted_rows
from sklearn_fsvc._src.data.sources import SparseSource, joined, select_rows
from sklearn_fsvc._src.data.streaming import count_operations, stream_into
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


class BlasWithEvaluator(BlasEngine):
    """An engine with a given evaluator of sparse rows, or without one."""

    def __init__(self, evaluator=None):
        self._evaluator = evaluator

    def sparse_evaluator(self):
        return self._evaluator


class RecordingEvaluator(SparseEvaluator):
    """Records the number of rows and the units of each call."""

    def __init__(self):
        super().__init__(np)
        self.calls = []

    def hidden(self, prepared, X, out, units=None):
        self.calls.append((X.shape[0], units))
        return super().hidden(prepared, X, out, units)


def hidden(layer, X, max_memory=None, engine=None):
    out = np.empty((len(X), layer.n_units))
    with engine or BlasEngine() as engine:
        stream_into(Job(engine, max_memory), layer, X, out)
    return out


def test_rows_in_any_order(X):
    rows = np.random.default_rng(1).permutation(N)[:50]
    np.testing.assert_array_equal(take_unsorted_rows(SparseSource(X), rows), X.toarray()[rows])


def test_subsets_stay_sparse(X):
    rows = np.arange(3, N, 7)
    some = select_rows(SparseSource(X), rows)
    assert isinstance(some, SparseSource)
    assert some.nbytes < SparseSource(X).nbytes / 5
    np.testing.assert_array_equal(some.sparse(slice(None), float).toarray(), X.toarray()[rows])
    whole = SparseSource(X)
    assert select_rows(whole, np.arange(N)) is whole  # without a copy
    back = np.arange(N)[::-1]
    np.testing.assert_array_equal(select_rows(whole, back).take(slice(None)), X.toarray()[back])


def test_other_dtypes_become_float64(X):
    rows = SparseSource(X.astype(np.int16).tocoo())
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows.take(slice(None)), X.toarray().astype(np.int16))


def test_a_copy_is_independent(X):
    rows, expected = SparseSource(X), X.toarray()
    copied = rows.copy()
    X.data[:] = 7
    np.testing.assert_array_equal(copied.take(slice(None)), expected)


def test_blocks_are_concatenated(X):
    rows = SparseSource(X)
    parts = [rows.part(np.arange(a, b)) for a, b in ((0, 100), (100, 101), (101, N))]
    assert isinstance(joined(parts), SparseSource)
    np.testing.assert_array_equal(joined(parts).take(slice(None)), X.toarray())
    dense = [part.take(slice(None)) for part in parts]
    np.testing.assert_array_equal(joined(dense), X.toarray())


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_the_first_value_that_is_not_finite_is_located(X, value, what):
    first = X.indptr[50]  # the first value of row 50
    X.data[[first, first + 40]] = value
    row, column = np.argwhere(~np.isfinite(X.toarray()))[0]
    assert row == 50
    match = f"Input X contains {what} in row {row}, column {column}; remove or impute"
    with pytest.raises(ValueError, match=match):
        SparseSource(X).check_finite()


def test_bytes_of_the_longest_row():
    X = csr_array(np.array([[0, 0, 0, 0], [1, 0, 2, 3], [0, 4, 0, 0]], np.float32))
    index = X.indices.itemsize
    assert SparseSource(X).row_bytes(np.dtype(np.float32)) == 3 * (4 + index) + index
    assert SparseSource(X).row_bytes(np.dtype(np.float64)) == 3 * (8 + index) + index


@pytest.mark.parametrize("how", ["in order", "shuffled", "dense enough"])
def test_activations_are_those_of_dense_rows(X, layer, how):
    X = csr_array(random(N, FEATURES, 0.6, random_state=0)) if how == "dense enough" else X
    rows = SparseSource(X)
    assert rows.is_sparse == (how != "dense enough")
    H = hidden(layer, rows)
    np.testing.assert_allclose(H, hidden(layer, X.toarray()), rtol=0, atol=1e-14)


def test_all_units_are_evaluated_at_once(X):
    """A layer of dense rows is evaluated in parts, but SciPy would copy each part of the units."""
    layer = TanhLayer(np.random.default_rng(0).normal(size=(300, FEATURES)), np.zeros(300))
    out, expected, evaluator = np.empty((N, 300)), hidden(layer, X.toarray()), RecordingEvaluator()
    with BlasWithEvaluator(evaluator) as engine:
        engine.tuned = {layer.profile_key: {"M": 1024, "asymmetry": 4}}
        assert tile_shape_for(engine, layer).units == 256
        stream_into(Job(engine), layer, SparseSource(X), out)
    assert evaluator.calls == [(N, slice(0, 300))]
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


class NeverDense(SparseSource):
    def take(self, rows, dtype=None):
        raise AssertionError("converted to dense rows")


def test_sparse_rows_are_not_converted_to_dense_ones(X, layer):
    expected = hidden(layer, X.toarray())
    for max_memory in (None, "1GB"):
        np.testing.assert_allclose(hidden(layer, NeverDense(X), max_memory), expected, atol=1e-14)


def test_an_engine_without_a_sparse_evaluator_receives_dense_tiles(X, layer):
    expected = hidden(layer, X.toarray())
    H = hidden(layer, SparseSource(X), engine=BlasWithEvaluator())
    np.testing.assert_allclose(H, expected, atol=1e-14)


def test_features_that_are_0_in_all_rows_are_removed():
    X = csr_array((np.array([1.0, 2.0, 0.0]), ([0, 1, 1], [9, 3, 5])), (2, 10))
    W = np.arange(40.0).reshape(4, 10)
    layer, rows = SparseSource(X).drop_empty_features(TanhLayer(W, np.zeros(4)))
    np.testing.assert_array_equal(layer.units, W[:, [0, 3, 5, 9]])
    assert layer.units.flags.c_contiguous
    np.testing.assert_array_equal(rows.take(slice(None)), X.toarray()[:, [0, 3, 5, 9]])
    most = SparseSource(csr_array(np.eye(10) * (np.arange(10) < 6)))
    given = TanhLayer(W, np.zeros(4))
    assert most.drop_empty_features(given) == (given, most)


def test_rows_of_zeros(layer):
    H = hidden(layer, SparseSource(csr_array((5, FEATURES), dtype=float)))
    np.testing.assert_allclose(H, np.tanh(np.tile(layer.bias, (5, 1))))


def test_only_stored_values_count_as_work(X):
    assert count_operations(X, 7) == 7 * X.nnz
    assert count_operations(X.toarray(), 7) == 7 * N * FEATURES


def test_memory_does_not_grow_with_the_number_of_threads(monkeypatch):
    """Each of many threads computes fewer activations: a small limit is enough on any host."""
    layer, needed = TanhLayer(np.zeros((50, 20)), np.zeros(50)), []
    for n in (2, 64):
        monkeypatch.setattr("sklearn_fsvc._src.engines.host.n_threads", lambda n=n: n)
        needed.append(SparseEvaluator(np).prepared_bytes(layer))
    assert needed[1] <= 2 * needed[0]
