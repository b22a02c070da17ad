"""Predefined and custom kernels of RBF units."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import naive
from contract import TOLERANCE, Cauchy
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFProjector
from sklearn_fsvc._src.kernels import DISTANCE, KERNELS, METRICS, get_kernel
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc.kernels import Affine, Function, Kernel, PoweredExponential


class Truncated(Kernel):
    """The square root of a triangle: a custom function, and a parameter."""

    name, function = "truncated", Function("root", lambda A, xp: xp.sqrt(A, out=A), None)

    def __init__(self, height=1.0):
        self.height = height

    def affine(self, radius):
        return Affine(scale=-self.height / radius, offset=self.height, floor=0.0)

    def natural_radius(self, distance):
        return distance


CUSTOM = {
    Cauchy(): naive.KERNELS["cauchy"],
    Truncated(): lambda d, r: np.sqrt(np.maximum(0, 1 - d / r)),
}
ALL = {**CUSTOM, **{kernel: naive.KERNELS[name] for name, kernel in KERNELS.items()}}


@pytest.fixture(params=ALL, ids=lambda kernel: kernel.name)
def kernel(request):
    return request.param


@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_outputs_are_the_formula(kernel, radius):
    D = np.linspace(0, 9, 50).reshape(5, 10)
    out = np.full(D.shape, np.nan)
    before = D.copy()
    assert kernel.outputs(D, radius, np, out) is out
    np.testing.assert_array_equal(D, before)
    np.testing.assert_allclose(out, ALL[kernel](D, radius), rtol=1e-13, atol=1e-15)
    assert kernel.outputs(D, radius, np) is D
    np.testing.assert_array_equal(D, out)


@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_the_derivative_is_the_slope(kernel, radius):
    if kernel.function.slope is None:
        pytest.skip("it has no slope")
    D, step = np.linspace(0.013, 9, 300)[:, None], 1e-6
    slope = (ALL[kernel](D + step, radius) - ALL[kernel](D - step, radius)) / (2 * step)
    np.testing.assert_allclose(kernel.derivative(D, radius, np), slope, atol=1e-7)
    assert D[0, 0] == 0.013  # not in place


@pytest.mark.parametrize("unit", [1e-3, 7.0])
def test_the_natural_radius_is_proportional_to_the_distance(kernel, unit):
    assert kernel.natural_radius(3.0 * unit) == pytest.approx(unit * kernel.natural_radius(3.0))
    assert 0.01 < ALL[kernel](1.0, kernel.natural_radius(2.0)) < 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_custom_kernels_on_every_engine(engine, rng, metric, dtype):
    if dtype == np.uint8 and metric != "manhattan":
        pytest.skip("uint8 samples only have Manhattan distances")
    X, C = (rng.integers(0, 200, (n, 21)).astype(dtype) for n in (40, 530))
    d = naive.distances(X, C, metric)
    for custom, formula in CUSTOM.items():
        layer = RBFLayer(C, float(np.median(d)), metric, custom)
        X_device, prepared = engine.to_device(X), engine.prepare(layer)
        H = engine.to_host(engine.hidden(prepared, X_device)).copy()
        expected = formula(d, layer.radius)
        tolerance = 30 * TOLERANCE[H.dtype] ** (1 if custom.power == 2 else 0.5)
        np.testing.assert_allclose(H, expected, rtol=0, atol=tolerance)
        out = engine.xp.full(H.shape, np.nan, H.dtype)
        engine.hidden(prepared, X_device, out, slice(256, 512))
        part = engine.to_host(out)
        np.testing.assert_allclose(part[:, 256:512], H[:, 256:512], atol=tolerance)
        assert np.isnan(part[:, :256]).all()
        assert np.isnan(part[:, 512:]).all()


def test_kernels_are_equal_by_value():
    assert Truncated(2.0) == Truncated(2.0) != Truncated(3.0) != Cauchy() == Cauchy()
    assert len({Truncated(2.0), Truncated(2.0), Truncated(3.0), Cauchy(), Cauchy()}) == 3
    assert repr(clone(RBFClassifier(kernel=Truncated(2.0))).kernel) == "Truncated(height=2.0)"


def test_unknown_kernels_are_errors():
    message = "kernel='cauchy' is not known; choose one of .*, or pass a custom Kernel"
    with pytest.raises(ValueError, match=message):
        RBFLayer(np.zeros((1, 1)), kernel="cauchy")
    with pytest.raises(ValueError, match=message):
        RBFClassifier(5, kernel="cauchy").fit(np.eye(9), np.arange(9) % 2)
    with pytest.raises(ValueError, match="kernel='rbf' is kernel='gaussian' with metric='euclid"):
        RBFClassifier(5, kernel="rbf").fit(np.eye(9), np.arange(9) % 2)
    with pytest.raises(ValueError, match="metric='cosine' is not known"):
        RBFLayer(np.zeros((1, 1)), metric="cosine")
    with pytest.raises(TypeError, match="abstract"):
        Kernel()
    assert get_kernel("distance") is DISTANCE


def test_estimators_with_a_custom_kernel(device):
    if device == "mkl":
        pytest.skip("the same code as that of blas, except for matrix products")
    X, y = load_digits(return_X_y=True)
    given = {"feature_weights": None, "random_state": 0, "device": device}
    own = RBFClassifier(300, kernel=Cauchy(), alpha=0.1, **given)
    assert own.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.92
    again = clone(own).fit(X[:1200], y[:1200])
    np.testing.assert_array_equal(again.predict(X), own.predict(X))
    restored = pickle.loads(pickle.dumps(own))
    np.testing.assert_array_equal(restored.predict(X), own.predict(X))
    H = RBFProjector(50, kernel=Cauchy(), **given).fit_transform(X)
    assert 0 < H.min() < H.max() == 1


class Wave(Cauchy):
    """Negative at some distances: a covered sample might become novel again."""

    name, function = "wave", Function("cosine", lambda A, xp: xp.cos(A - 1, out=A), None)


def test_novelty_selection_requires_non_negative_kernels():
    X, y = np.random.default_rng(0).random((60, 3)), np.arange(60) % 2
    given = {"n_hidden": 9, "kernel": Wave(), "radius": 0.3, "feature_weights": None, "alpha": 1.0}
    message = r"kernel=Wave\(\) is -.* at a distance of .*: novelty selection requires kernels "
    for selection in ("per_class", "global"):
        with pytest.raises(ValueError, match=message):
            RBFClassifier(selection=selection, **given).fit(X, y)
    RBFClassifier(selection="random", **given).fit(X, y)


def test_a_search_with_a_custom_kernel():
    X, y = load_digits(return_X_y=True)
    network = RBFClassifier(
        selection="random", kernel=Cauchy(), feature_weights=None, random_state=0
    )
    grid = {"n_hidden": [20, 60], "radius": [50.0, 200.0]}
    search = HiddenSizeSearchCV(network, grid, cv=2).fit(X[:400], y[:400])
    alone = clone(network).set_params(**search.best_params_).fit(X[:400], y[:400])
    np.testing.assert_array_equal(search.predict(X), alone.predict(X))
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("exponent", [0.2, 1.4, 2.0])
def test_exponents_of_a_powered_exponential(exponent, engine, rng):
    """Also at the centre, and at an infinite distance."""
    for dtype in (np.float32, np.float64, np.uint8):
        X = (50 * rng.random((40, 6))).astype(dtype)
        layer = RBFLayer(X[:9], 60.0, kernel=PoweredExponential(exponent))
        X = X.astype(layer.units.dtype)
        if dtype != np.uint8:
            X[-1] = np.finfo(dtype).max
        H = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
        with np.errstate(over="ignore"):
            expected = np.exp(-((naive.distances(X, X[:9], "manhattan") / 60) ** exponent))
        np.testing.assert_allclose(H, expected, atol=TOLERANCE[H.dtype])


@pytest.mark.parametrize("exponent", [0, -1, 2.1, np.inf, "half"])
def test_invalid_exponents_are_errors(exponent):
    with pytest.raises((ValueError, TypeError), match="exponent="):
        PoweredExponential(exponent)


def test_kernels_with_different_exponents_differ():
    assert PoweredExponential() == get_kernel("powered_exponential") != PoweredExponential(0.5)
    given = {"feature_weights": None, "alpha": 1.0, "random_state": 0}
    model = RBFClassifier(5, kernel=PoweredExponential(0.5), precision=8, **given)
    model.fit(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    assert model.kernel_ == PoweredExponential(0.5)
