"""The contract of engines, as checks that a broken engine fails."""

from dataclasses import replace
from itertools import product

import numpy as np
from scipy.sparse import csr_array

import naive
from sklearn_fsvc._src.data.streaming import is_batch_invariant
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.kernels import DISTANCE, KERNELS, METRICS
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc.kernels import Affine, Function, Kernel

# Documented tolerance between the activations of two engines, relative to the largest one.
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}

# (samples, units, features): one of each, less than a block, incomplete blocks, several panels,
# more features than a chunk.
SHAPES = [(1, 1, 1), (3, 2, 5), (67, 131, 9), (40, 300, 33), (5, 4, 1300)]

# The sums of the layers below.
REDUCTIONS = ("manhattan", "sqeuclidean", "product")

RECIPROCAL = Function("reciprocal", lambda A, xp: xp.divide(1, A, out=A), lambda H, xp: -H * H)


class Cauchy(Kernel):
    """1 / (1 + (d / r)^2): a kernel of a user, with a function that no engine fuses."""

    name, power, function = "cauchy", 2, RECIPROCAL

    def affine(self, radius):
        return Affine(scale=1 / radius**2, offset=1.0)

    def natural_radius(self, distance):
        return distance / 2


def layers(shape, dtype, seed=0):
    """Yield samples and a layer, for every kind of layer."""
    rng = np.random.default_rng(seed)
    rows, m, n = shape
    if dtype == np.uint8:
        X, C = rng.integers(0, 256, (rows, n)), rng.integers(0, 256, (m, n))
    else:
        X, C = rng.normal(size=(rows, n)), rng.normal(size=(m, n))
    X, C = X.astype(dtype), C.astype(dtype)
    C[0] = X[0]  # a distance of zero
    for metric in METRICS:
        if dtype == np.uint8 and metric != "manhattan":
            continue
        typical = np.median(naive.distances(X, C, metric)) + 1
        for kernel in (*KERNELS, DISTANCE.name):
            yield X, RBFLayer(C, float(typical / 2), metric, kernel)
    if dtype != np.uint8:
        yield X, TanhLayer(C, rng.normal(size=m).astype(dtype))


def check_values(engine, shape, dtype):
    """H agrees with the formula, has the dtype of the layer, and is written completely."""
    for X, layer in layers(shape, dtype):
        out = engine.xp.full((len(X), layer.n_units), np.nan, layer.hidden_dtype)
        H = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X), out=out))
        expected = naive.hidden(layer, X)
        assert H.dtype == layer.hidden_dtype
        assert H.shape == expected.shape
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype] * scale)


def check_zero_distance(engine, dtype, shape=(20, 7, 50)):
    """A sample has distance 0 to itself: phi(c, c) = 1, exactly."""
    for X, layer in layers(shape, dtype):
        if layer.reduction == "product":
            continue
        H = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
        assert H[0, 0] == (0 if layer.kernel is DISTANCE else 1)


def check_steps(engine, shape, dtype):
    """Rounded activations are those of the formula, rounded, also if units are split in two calls.

    For bytes exactly, on every engine. For floats they are the activations of this engine, rounded;
    the formula may be rounded to the next step if it is about halfway between two.
    """
    for X, layer in layers(shape, dtype):
        if layer.formula.endswith("distance"):
            continue
        X = engine.to_device(X)
        plain = _in_parts(engine, layer, X)
        formula = naive.hidden(layer, engine.to_host(X)).astype(np.float64)
        error = 0 if dtype == np.uint8 else TOLERANCE[plain.dtype]
        for bits in (8, 15):
            quantizer = Quantizer(bits, is_signed=layer.reduction == "product")
            H = _in_parts(engine, replace(layer, quantizer=quantizer), X)
            if dtype != np.uint8:
                np.testing.assert_array_equal(H, quantizer.apply(plain.copy(), np))
            assert np.all(quantizer.apply(formula - error, np) <= H)
            assert np.all(quantizer.apply(formula + error, np) >= H)


def _in_parts(engine, layer, X):
    """Return H of two calls, one for the first units and one for the others."""
    prepared, first = engine.prepare(layer), min(256, layer.n_units)
    H = engine.xp.full((len(X), layer.n_units), 0.3, layer.hidden_dtype)
    for units in (slice(0, first), slice(first, layer.n_units)):
        if units.start < units.stop:
            engine.hidden(prepared, X, out=H, units=units)
    return engine.to_host(H)


def check_far_from_zero(engine, dtype):
    """A large offset of the data, which cancels in differences, costs no further digits."""
    rng = np.random.default_rng(1)
    X = (1000 + rng.random((30, 40))).astype(dtype)
    C = (1000 + rng.random((9, 40))).astype(dtype)
    C[0] = X[0]
    for metric in METRICS:
        layer = RBFLayer(C, 1.0, metric, "distance")
        H = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
        expected = naive.distances(X, C, metric)
        tolerance = TOLERANCE[H.dtype] * 10
        np.testing.assert_allclose(H, expected, rtol=tolerance, atol=tolerance)


def check_rows_are_independent(engine, dtype, shape=(70, 45, 21), steps=(1, 7, 64)):
    """A row of H depends on its row of X only, for every tile size."""
    for X, layer in layers(shape, dtype):
        prepared = engine.prepare(layer)
        whole = engine.to_host(engine.hidden(prepared, engine.to_device(X))).copy()
        for step in steps:
            tiles = [
                engine.to_host(engine.hidden(prepared, engine.to_device(X[i : i + step]))).copy()
                for i in range(0, len(X), step)
            ]
            tiles = np.concatenate(tiles)
            if engine.is_tile_invariant(layer):
                np.testing.assert_array_equal(tiles, whole)
            else:
                np.testing.assert_allclose(
                    tiles, whole, rtol=0, atol=TOLERANCE[whole.dtype] * np.abs(whole).max()
                )


def check_rounded_rows(engine, shape, dtype, n_batches=5):
    """So do rounded activations in random batches: to the bit, or by one step for a few of them."""
    rng = np.random.default_rng(4)
    for X, layer in layers(shape, dtype):
        if layer.formula.endswith("distance"):
            continue
        for bits in (8, 15):
            quantizer = Quantizer(bits, is_signed=layer.reduction == "product")
            rounded = replace(layer, quantizer=quantizer)
            prepared = engine.prepare(rounded)
            whole = engine.to_host(engine.hidden(prepared, engine.to_device(X))).copy()
            for _ in range(n_batches):
                rows = rng.permutation(len(X))[: rng.integers(1, len(X), endpoint=True)]
                batch = engine.to_device(np.ascontiguousarray(X[rows]))
                H = engine.to_host(engine.hidden(prepared, batch))
                if is_batch_invariant(engine, rounded):
                    np.testing.assert_array_equal(H, whole[rows])
                else:
                    np.testing.assert_allclose(H, whole[rows], rtol=0, atol=1 / quantizer.scale)
                    assert (whole[rows] != H).mean() <= 0.01


def check_parts_of_the_units(engine, dtype, shape=(9, 530, 21), part=256):
    """Slices of the units are those of all units, and other columns are not written."""
    for X, layer in layers(shape, dtype):
        prepared, X = engine.prepare(layer), engine.to_device(X)
        whole = engine.to_host(engine.hidden(prepared, X))
        out = engine.xp.full(whole.shape, np.nan, whole.dtype)
        engine.hidden(prepared, X, out, slice(part, 2 * part))
        second = engine.to_host(out)
        assert np.isnan(second[:, :part]).all()
        assert np.isnan(second[:, 2 * part :]).all()
        engine.hidden(prepared, X, out, slice(0, part))
        engine.hidden(prepared, X, out, slice(2 * part, layer.n_units))
        parts = engine.to_host(out)
        if engine.is_tile_invariant(layer):
            np.testing.assert_array_equal(parts, whole)
        else:
            scale = np.abs(whole).max()
            np.testing.assert_allclose(parts, whole, rtol=0, atol=TOLERANCE[whole.dtype] * scale)


def check_sparse_rows(engine, dtype, shapes=(*SHAPES, (500, 300, 33))):
    """CSR input has the activations of dense input, also for rows and tiles of zeros."""
    rng, evaluator = np.random.default_rng(3), engine.sparse_evaluator()
    if evaluator is None:
        return
    for rows, m, n in shapes:
        X = rng.normal(size=(rows, n)) * (rng.random((rows, n)) < 0.2)
        X[rows // 3 : rows // 2] = 0
        X = X.astype(dtype)
        layer = TanhLayer(rng.normal(size=(m, n)).astype(dtype), rng.normal(size=m).astype(dtype))
        prepared, expected = evaluator.prepare(layer), naive.hidden(layer, X)
        for sparse in (csr_array(X), shuffled(X, rng)):
            out = engine.xp.full((rows, m), np.nan, layer.hidden_dtype)
            H = engine.to_host(evaluator.hidden(prepared, sparse, out))
            np.testing.assert_allclose(H, expected, rtol=0, atol=2 * TOLERANCE[H.dtype])
        out = engine.xp.full((1, m), np.nan, layer.hidden_dtype)
        H = engine.to_host(evaluator.hidden(prepared, csr_array((1, n), dtype=dtype), out))
        np.testing.assert_allclose(H[0], np.tanh(layer.bias), atol=TOLERANCE[H.dtype])


def shuffled(X, rng):
    """Return X in CSR with unsorted int64 indices, duplicates, and explicit zeros."""
    filled, zeros = np.flatnonzero(X), rng.integers(0, X.size, 20)
    halves = X.flat[filled] / 2
    data = np.concatenate([halves, halves, np.zeros(len(zeros), X.dtype)])
    rows, columns = np.divmod(np.concatenate([filled, filled, zeros]), X.shape[1])
    order = np.argsort(rows + rng.random(len(rows)))  # by row, in any order within it
    indptr = np.searchsorted(rows[order], np.arange(len(X) + 1))
    return csr_array((data[order], columns[order], indptr), X.shape)


def check_activity(engine, dtype, shape=(40, 300, 33)):
    """Activation sums are those of activations rounded to multiples of 2^-40, to the bit."""
    for X, layer in layers(shape, dtype):
        if layer.reduction == "product":
            continue
        # Small activations besides large ones: their sum depends on the order unless rounded.
        layer = replace(layer, radius=layer.radius / 3)
        X = engine.to_device(X)
        steps = 2.0**40 * engine.to_host(engine.hidden(engine.prepare(layer), X)).astype(float)
        total = engine.to_host(engine.sum_activations(engine.prepare(layer), X))
        assert total.dtype == np.float64
        exact = np.rint(steps).astype(np.int64).sum(axis=1) * 2.0**-40
        if np.abs(exact).max() < 2**13:
            np.testing.assert_array_equal(total, exact)
        np.testing.assert_allclose(total, exact, rtol=1e-14)


def check_gradients(engine, shape, dtype, n_outputs=3):
    """Squared gradients agree with the formula; samples and centres have many equal features."""
    rng = np.random.default_rng(2)
    rows, m, n = shape
    X, C = (np.round(4 * rng.normal(size=(r, n))).astype(dtype) / 4 for r in (rows, m))
    C[0] = X[0]
    W = rng.normal(size=(n_outputs, m))
    for metric, kernel in product(METRICS, (*KERNELS.values(), DISTANCE, Cauchy())):
        layer = RBFLayer(C, (np.median(naive.distances(X, C, metric)) + 1) / 2, metric, kernel)
        on_device = engine.to_device(X)
        D = engine.hidden(engine.prepare(layer.distances), on_device)
        before = engine.to_host(D).copy()
        G = engine.to_host(engine.squared_gradients(layer, on_device, D, W))
        expected = naive.squared_gradients(layer, X, W)
        assert G.dtype == np.float64
        assert G.shape == X.shape
        tolerance, message = 10 * TOLERANCE[np.dtype(dtype)], f"{metric} {kernel}"
        atol = tolerance * expected.max()
        np.testing.assert_allclose(G, expected, rtol=tolerance, atol=atol, err_msg=message)
        np.testing.assert_array_equal(engine.to_host(D), before)


def check_settings(engine, dtype, shape=(37, 300, 1300), one_block=False):
    """Every value of every setting gives the same H; the default is the first one.

    With `one_block`, each sum is evaluated with one block in addition to the default, which saves
    compilation time.
    """
    for X, layer in layers(shape, dtype):
        tunables = engine.tunables(layer)
        assert engine.settings(layer) == {name: values[0] for name, values in tunables.items()}
        for M, asymmetry in product(tunables["M"], tunables["asymmetry"]):
            assert M // asymmetry % 256 == 0
        expected = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
        for name, (_, *others) in tunables.items():
            if one_block and name == "block":
                turn = REDUCTIONS.index(layer.reduction) % len(others)
                others = others[turn : turn + 1]
            for value in others:
                engine.tuned = {layer.profile_key: {name: value}}
                assert engine.settings(layer)[name] == value
                out = engine.xp.full(expected.shape, np.nan, expected.dtype)
                engine.hidden(engine.prepare(layer), engine.to_device(X), out)
                H = engine.to_host(out)
                if engine.is_tile_invariant(layer):
                    np.testing.assert_array_equal(H, expected, err_msg=f"{name}={value}")
                else:
                    scale = np.abs(expected).max()
                    np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype] * scale)
        engine.tuned = {}


def check_input_is_untouched(engine, dtype):
    """X and the layer may be read-only."""
    for X, layer in layers((10, 6, 13), dtype):
        X.flags.writeable = False
        layer.units.flags.writeable = False
        engine.hidden(engine.prepare(layer), engine.to_device(X))


def check_surface(engine):
    """Memory, name and transfers have plausible values."""
    free, total = engine.memory()
    assert 0 < free <= total
    assert isinstance(engine.name, str)
    assert engine.why_unavailable() is None
    X, layer = next(layers((4, 5, 6), np.float64))
    assert engine.prepared_bytes(layer) >= 0
    np.testing.assert_array_equal(engine.to_host(engine.to_device(X)), X)


def check_engine(engine, dtypes=(np.float32, np.float64, np.uint8)):
    """Check the whole contract."""
    check_surface(engine)
    for dtype in dtypes:
        for shape in SHAPES:
            check_values(engine, shape, dtype)
        check_zero_distance(engine, dtype)
        check_rows_are_independent(engine, dtype)
        check_rounded_rows(engine, (70, 45, 21), dtype)
        check_parts_of_the_units(engine, dtype)
        check_settings(engine, dtype)
        if dtype != np.uint8:
            check_sparse_rows(engine, dtype)
        check_activity(engine, dtype)
        check_input_is_untouched(engine, dtype)
    for dtype in set(dtypes) - {np.uint8}:
        check_far_from_zero(engine, dtype)
        for shape in SHAPES:
            check_gradients(engine, shape, dtype)
