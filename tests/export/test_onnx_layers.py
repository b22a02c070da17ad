"""Hidden layers in ONNX: formulas, blocks, dtypes and opsets."""

import numpy as np
import pytest

import naive
from export.converted import (
    DTYPES,
    NARROW,
    TOLERANCE,
    X_NEW,
    X,
    Y,
    onnx_outputs,
    run,
    run_with_peak,
)
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    TanhClassifier,
    TanhProjector,
)
from sklearn_fsvc._src.kernels import KERNELS, METRICS
from sklearn_fsvc.export.onnx import to_onnx
from sklearn_fsvc.kernels import EXP, Affine, Function, Kernel


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rbf_layer(kernel, metric, dtype):
    radius = 1000.0 if metric == "sqeuclidean" else 100.0 if metric == "manhattan" else 20.0
    units = {"kernel": kernel, "metric": metric, "radius": radius, "selection": "random"}
    model = RBFProjector(70, random_state=0, **units).fit(X.astype(dtype))
    H = onnx_outputs(model, X_NEW.astype(dtype))["variable"]
    expected = naive.rbf(X_NEW, model.centers_, radius, metric, kernel)
    assert expected.std() > 0.01
    np.testing.assert_allclose(H, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("kernel", KERNELS)
def test_quantised_layers_of_uint8_are_bit_identical(kernel, bits):
    units = {"kernel": kernel, "radius": 1500.0, "selection": "random", "precision": bits}
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (400, 60)).astype(np.uint8)
    model = RBFProjector(70, random_state=0, **units).fit(rows)
    H = onnx_outputs(model, rows)["variable"]
    np.testing.assert_array_equal(H, model.transform(rows))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_layer(dtype):
    model = TanhProjector(70, random_state=0).fit(X.astype(dtype))
    H = onnx_outputs(model, X_NEW.astype(dtype))["variable"]
    expected = naive.tanh(X_NEW, model.components_, model.hidden_intercept_)
    np.testing.assert_allclose(H, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("n_units", [1, 3, 7])
def test_sizes_that_blocks_do_not_divide(n_rows, n_units):
    """With 10,000 features a block has up to 3 units, and with 3 units up to 8 rows."""
    wide = np.random.default_rng(0).random((20, 10_000))
    model = RBFProjector(n_units, selection="random", radius=2000.0, random_state=0).fit(wide)
    rows = wide[:n_rows] / 2
    H = run(to_onnx(model, wide), rows)["variable"]
    np.testing.assert_allclose(H, naive.rbf(rows, model.centers_, 2000.0), atol=1e-12)


@pytest.mark.exhaustive
def test_memory_is_bounded():
    """All differences of 3000 rows, 500 units and 64 features would take 384 MB."""
    run_with_peak(
        "X = np.random.default_rng(0).random((3000, 64), dtype=np.float32)\n"
        "model = RBFProjector(500, selection='random', radius=9.0, device='blas').fit(X)\n",
        "assert peak() - before < 64 * 1024, peak() - before\n",
    )


@pytest.mark.parametrize("fit_dtype", DTYPES)
@pytest.mark.parametrize("dtype", [*DTYPES, np.int64])
def test_input_of_another_dtype_than_in_fit(fit_dtype, dtype):
    """The layer is computed in the wider dtype."""
    model = TanhClassifier(100, alpha=1e-6, random_state=0).fit((0.7 * X).astype(fit_dtype), Y)
    rows = (0.7 * X_NEW).astype(dtype)
    outputs = onnx_outputs(model, rows, options={"raw_scores": True})
    np.testing.assert_array_equal(outputs["label"], model.predict(rows))
    expected = model.decision_function(rows)
    is_wide = np.float64 in (fit_dtype, dtype) or dtype == np.int64
    np.testing.assert_allclose(outputs["scores"], expected, atol=2e-7 if is_wide else 1e-3)


@pytest.mark.parametrize("target_opset", [None, 14, 18, 21])
def test_opsets(target_opset):
    """The default is the oldest one, which all runtimes support."""
    model = RBFClassifier(50, random_state=0, **NARROW).fit(X, Y)
    converted = to_onnx(model, X, target_opset=target_opset)
    (version,) = (each.version for each in converted.opset_import if not each.domain)
    assert version == (target_opset or 14)
    np.testing.assert_array_equal(run(converted, X_NEW)["label"], model.predict(X_NEW))


class Steep(Kernel):
    """``exp(-d^2)`` with a floor: a custom kernel whose steps are supported in ONNX."""

    name, power, function = "steep", 2, EXP

    def affine(self, radius):
        return Affine(scale=-1 / radius**2, offset=0.5, floor=-3.0)

    def natural_radius(self, distance):
        return distance


class Cauchy(Steep):
    name = "cauchy"
    function = Function("reciprocal", lambda A, xp: xp.divide(1, A, out=A), lambda H, xp: -H * H)

    def affine(self, radius):
        return Affine(scale=1 / radius**2, offset=1.0)


def test_custom_kernels():
    plain = {"radius": 100.0, "selection": "random", "random_state": 0}
    steep = RBFProjector(20, kernel=Steep(), **plain).fit(X)
    d = naive.distances(X_NEW, steep.centers_, "manhattan")
    H = onnx_outputs(steep, X_NEW)["variable"]
    np.testing.assert_allclose(H, np.exp(np.maximum(-3, 0.5 - (d / 100) ** 2)), atol=1e-12)
    cauchy = RBFProjector(20, kernel=Cauchy(), **plain).fit(X)
    with pytest.raises(ValueError, match=r"Cauchy\(\).*'reciprocal'.*kernel=\"triangular\""):
        to_onnx(cauchy, X)
