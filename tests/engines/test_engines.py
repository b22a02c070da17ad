"""The contract of engines: every engine fulfils it, and broken ones fail."""

from dataclasses import replace

import numpy as np
import pytest

import contract
import naive
from sklearn_fsvc._src.engines.blas import BlasEngine
from sklearn_fsvc._src.engines.host import SparseEvaluator
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer, quantize_layer

DTYPES = [np.float32, np.float64, np.uint8]


def evaluate(engine, layer, X):
    return engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", contract.SHAPES)
def test_values(engine, shape, dtype):
    contract.check_values(engine, shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_distance(engine, dtype):
    contract.check_zero_distance(engine, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero(engine, dtype):
    contract.check_far_from_zero(engine, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "n_outputs"),
    [*((shape, 9) for shape in contract.SHAPES), (contract.SHAPES[2], 1), (contract.SHAPES[2], 4)],
)
def test_gradients(engine, shape, dtype, n_outputs):
    """The loop sums four outputs at a time: test fewer, exactly four, and more."""
    contract.check_gradients(engine, shape, dtype, n_outputs)


@pytest.mark.parametrize("bits", [None, 8, 15])
def test_uint8_input_without_conversion(engine, bits, rng):
    """Engines that accept uint8 return the activations of X in the dtype of the layer."""
    W, b = rng.normal(size=(45, 60)).astype(np.float32) / 300, rng.random(45).astype(np.float32)
    layer = quantize_layer(TanhLayer(W, b), bits)
    X = rng.integers(0, 256, (70, 60), dtype=np.uint8)
    expected = np.tanh(X @ W.T.astype(float) + b)
    if bits:
        scale, largest = layer.quantizer.scale, layer.quantizer.max_code
        expected = np.clip(np.round(expected * scale), -largest, largest) / scale
    for rows in [X.astype(np.float32), *([X] if engine.accepts_uint8(layer) else [])]:
        H = evaluate(engine, layer, rows)
        # One more step where rounding decides between two.
        assert np.abs(H - expected).max() <= (1e-5 if bits is None else 1 / layer.quantizer.scale)
        if bits:
            assert np.array_equal(np.round(H * layer.quantizer.scale), H * layer.quantizer.scale)
            assert (np.abs(H - expected) > 1e-6).mean() < 0.02


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_independent(engine, dtype):
    contract.check_rows_are_independent(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(70, 45, 21), (300, 60, 700)])
def test_rounded_rows(engine, shape, dtype):
    contract.check_rounded_rows(engine, shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_the_units(engine, dtype):
    contract.check_parts_of_the_units(engine, dtype)


@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("one_block", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_settings(engine, dtype, one_block):
    """Test one more block for each sum, or all of them: each takes seconds to compile."""
    contract.check_settings(engine, dtype, one_block=one_block)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 2, 5), (67, 300, 9)])
def test_steps(engine, shape, dtype):
    contract.check_steps(engine, shape, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(engine, dtype):
    contract.check_sparse_rows(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activity(engine, dtype):
    contract.check_activity(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_input_is_untouched(engine, dtype):
    contract.check_input_is_untouched(engine, dtype)


def test_surface(engine):
    contract.check_surface(engine)


def test_large_uint8_distances_are_exact(engine):
    """255 in each of 65,536 features: more than 16 bits, and the limit of exact float32."""
    X = np.zeros((3, 65_536), np.uint8)
    X[1] = 255
    X[2, :7] = 1
    H = evaluate(engine, RBFLayer(X, kernel="distance"), X)
    np.testing.assert_array_equal(H[0], [0, 255 * 65_536, 7])


def test_overflowing_sums_are_not_nan(engine):
    """The sum of a sample overflows, although the distances do not."""
    huge = np.float32(3e37)
    X = np.full((2, 20), huge, np.float32)
    X[1, 0] = 0
    H = evaluate(engine, RBFLayer(X, kernel="distance"), X)
    np.testing.assert_allclose(H, [[0, huge], [huge, 0]], rtol=1e-6)


def test_the_number_of_threads_does_not_change_a_bit(engine, monkeypatch):
    """Also of products, which a BLAS rounds by their shape."""
    from sklearn_fsvc._src.engines import algebra, blas, host, jit

    X = np.random.default_rng(0).random((2500, 10), np.float32)
    rbf, W = RBFLayer(X[:450], 3.0), X[450:451, :1] - X[:450, 0]
    layers = rbf, replace(rbf, metric="euclidean"), TanhLayer(X[:450], X[:450, 0])
    results = []
    for n in (1, 5):
        monkeypatch.setattr(jit, "allowed_threads", lambda _, n=n: n)
        for module in (algebra, blas, host):
            monkeypatch.setattr(module, "n_threads", lambda n=n: n)
        arrays = [evaluate(engine, layer, X) for layer in layers]
        on_device = engine.to_device(X)
        D = engine.hidden(engine.prepare(rbf.distances), on_device)
        arrays.append(engine.to_host(engine.squared_gradients(rbf, on_device, D, W)))
        results.append(arrays)
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)


class _Broken(BlasEngine):
    """An engine with one defect, or without any."""

    def __init__(self, defect):
        self.defect = defect

    def hidden(self, prepared, X, out=None, units=None):
        has_out = out is not None
        H = super().hidden(prepared, X, out, units)
        if self.is_odd:
            H *= 0.999
        if self.defect == "last unit":
            H[:, -1] = 0
        if self.defect == "last row of a tile":
            H[-1] *= 0.999
        if self.defect == "precision":
            H[:] = H.astype(np.float16)
        if self.defect == "ignores out" and has_out:
            out[:] = np.nan
            return out
        if self.defect == "dtype":
            H = H.astype(np.float32)
        if self.defect == "depends on the tile":
            H += 1e-3 * len(X)
        if self.defect == "ignores units" and units is not None:
            super().hidden(prepared, X, H)
        return H

    def sum_activations(self, prepared, X):
        if self.defect == "sums are not rounded":
            return self.hidden(prepared, X).sum(axis=1)
        return super().sum_activations(prepared, X)

    def squared_gradients(self, layer, X, D, W):
        if self.defect == "a gradient where sample and centre are equal":
            X = X + 1e-9
        return super().squared_gradients(layer, X, D, W)

    def sparse_evaluator(self):
        return (
            _BrokenSparseEvaluator()
            if self.defect == "skips a zero row"
            else super().sparse_evaluator()
        )

    def settings(self, layer):
        settings = super().settings(layer)
        self.is_odd = self.defect == "a setting changes H" and settings["asymmetry"] > 1
        return settings

    def prepare(self, layer):
        self.settings(layer)
        return super().prepare(layer)

    def memory(self):
        return (2, 1) if self.defect == "memory" else super().memory()


class _BrokenSparseEvaluator(SparseEvaluator):
    def __init__(self):
        super().__init__(np)

    def hidden(self, prepared, X, out, units=None):
        H = super().hidden(prepared, X, out, units)
        H[np.diff(X.indptr) == 0] = 0
        return H


DEFECTS = [
    "last unit", "last row of a tile", "precision", "ignores out", "dtype",
    "depends on the tile", "memory", "ignores units", "a setting changes H",
    "a gradient where sample and centre are equal", "sums are not rounded", "skips a zero row",
]  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_contract_finds_a_broken_engine(defect):
    with pytest.raises(AssertionError):
        contract.check_engine(_Broken(defect), [np.float64])


def test_the_contract_accepts_an_engine_without_defects():
    contract.check_engine(_Broken(None), [np.float64])


@pytest.mark.parametrize("threshold", [0.9, 1.7])
def test_novelty_selection_is_sequential(engine, rng, threshold):
    X, start = rng.random((300, 3)), rng.random(300)
    on_device = engine.to_device(X)
    layer = RBFLayer(on_device, 0.1)
    kept = engine.select_novel(layer, on_device, engine.to_device(start.copy()), threshold)
    K, activity, expected = naive.hidden(RBFLayer(X, 0.1), X), start, []
    for i in range(300):
        if activity[i] < threshold:
            expected.append(i)
            activity = activity + K[i]
    np.testing.assert_array_equal(kept, expected)
    assert 10 < len(expected) < 290


def test_a_duplicate_of_a_centre_is_not_selected(engine):
    X = engine.to_device(np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 0.0]]))
    kept = engine.select_novel(RBFLayer(X, 0.1), X, engine.to_device(np.zeros(3)), 1.0)
    np.testing.assert_array_equal(kept, [0, 1])


def test_novelty_selection_may_select_nothing(engine, rng):
    X = engine.to_device(rng.random((5, 3)))
    kept = engine.select_novel(RBFLayer(X, 0.1), X, engine.to_device(np.ones(5)), 0.9)
    assert len(kept) == 0
