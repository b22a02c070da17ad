"""Ridge readouts agree with the closed form in float64, also if activations hardly vary.

With wide units H lies in [0.95, 1]. If H were rounded before its mean is subtracted, most digits of
the difference would be lost.
"""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

import naive
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFRegressor, TanhRegressor
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics

WIDE = {
    "kernel": "laplacian", "radius": 300.0, "selection": "random", "feature_weights": None,
    "random_state": 0,
}  # fmt: skip


def data(n=3000, dtype=np.float64, drift=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) + drift * np.linspace(0, 1, n)[:, None]
    return X.astype(dtype), X[:, 0] - drift * np.linspace(0, 1, n) + rng.normal(size=n)


def closed_form(model, X, y, weight=None):
    """Return predictions of ridge regression with the layer and the penalty of the model."""
    H, quantizer = naive.of_model(model, X).astype(np.float64), layer_of(model).quantizer
    H = H if quantizer is None else quantizer.apply(H, np)
    W, b = naive.ridge(H, y[:, None], model.alpha_, weight)
    return (H @ W.T + b)[:, 0]


def relative_error(actual, expected, y):
    """Return the root mean squared difference of predictions, in standard deviations of y.

    The mean, since engines may round a few activations to different codes.
    """
    return np.sqrt(np.mean((actual - expected) ** 2)) / y.std()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.1, "auto", "loo", [0.01, 1.0]], ids=str)
@pytest.mark.parametrize("precision", ["float", 15, 8])
def test_rounded_and_plain_activations(precision, alpha, dtype, device):
    X, y = data(2000, dtype)
    model = RBFRegressor(50, alpha=alpha, precision=precision, device=device, **WIDE).fit(X, y)
    rtol = {"float": 1e-6 if dtype == np.float64 else 5e-3, 15: 5e-3, 8: 5e-3}[precision]
    assert relative_error(model.predict(X), closed_form(model, X, y), y) < rtol


@pytest.mark.parametrize("precision", ["float", 8])
def test_many_samples_and_units(precision):
    """The mean of H is 50 times its standard deviation, so that sums of squares cancel."""
    X, y = data(10_000)
    model = RBFRegressor(250, alpha=0.03, precision=precision, **WIDE).fit(X, y)
    assert relative_error(model.predict(X), closed_form(model, X, y), y) < 5e-3


@pytest.mark.parametrize("precision", ["float", 8])
def test_samples_that_drift(precision):
    """The mean of the first samples is far from the overall mean."""
    X, y = data(20_000, np.float32, drift=200.0)
    model = RBFRegressor(50, alpha=1.0, precision=precision, **WIDE).fit(X, y)
    assert relative_error(model.predict(X), closed_form(model, X, y), y) < 5e-3


@pytest.mark.parametrize("precision", ["float", 15, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_partial_fit_and_search_with_weights(precision, weighted, rng):
    X, y = data()
    weight = rng.uniform(0.5, 2, len(X)) if weighted else None
    model = RBFRegressor(100, alpha=0.1, precision=precision, **WIDE)
    given = {} if weight is None else {"sample_weight": weight}
    fitted = model.fit(X, y, **given)
    expected = closed_form(fitted, X, y, weight)
    assert relative_error(fitted.predict(X), expected, y) < 5e-3
    stream = RBFRegressor(layer=FrozenEstimator(fitted), alpha=0.1, precision=precision)
    for part in np.array_split(np.arange(len(X)), 3):
        own = {} if weight is None else {"sample_weight": weight[part]}
        stream.partial_fit(X[part], y[part], **own)
    assert relative_error(stream.predict(X), closed_form(stream, X, y, weight), y) < 5e-3
    search = HiddenSizeSearchCV(model, {"n_hidden": [50, 100], "alpha": [0.1]}, cv=2)
    best = search.fit(X, y, **given).best_estimator_
    assert relative_error(best.predict(X), closed_form(best, X, y, weight), y) < 5e-3


def test_classifiers_and_regressors_with_uncertainty():
    X, y = data()
    clf = RBFClassifier(100, alpha=0.1, precision=8, **WIDE).fit(X, y > 0)
    expected = closed_form(clf, X, np.where(y > 0, 1.0, -1.0))
    assert relative_error(clf.decision_function(X), expected, expected) < 5e-3
    model = RBFRegressor(100, alpha=0.1, precision=8, uncertainty=True, **WIDE).fit(X, y)
    assert relative_error(model.predict(X), closed_form(model, X, y), y) < 5e-3


@pytest.mark.parametrize("n", [30, 200])
def test_dual_solution_with_fewer_samples_than_units(n):
    """The dual problem has its own shift."""
    X, y = data(n)
    for model in (
        RBFRegressor(n, alpha=1e-4, **WIDE),
        TanhRegressor(500, feature_weights=None, alpha=1e-4, random_state=0),
    ):
        model.fit(X, y)
        assert relative_error(model.predict(X), closed_form(model, X, y), y) < 1e-6


@pytest.mark.parametrize("bits", [8, 15])
def test_a_factor_in_float32_is_of_the_centred_matrix(bits, rng):
    """Activations are near their largest code, so that H'H is much larger than when centred."""
    quantizer = Quantizer(bits, is_signed=False)
    H, Y = 1 - 0.05 * rng.random((5000, 60)), rng.normal(size=(5000, 2))
    s = RidgeStatistics.zeros(60, 2, HOST, quantizer=quantizer)
    H = quantizer.apply(H, np)
    s.update(H.astype(np.float32), Y)
    expected, _ = naive.ridge(H, Y, 0.05)
    factor = s.cholesky(0.05, float32_above=10)
    assert factor.dtype == np.float32
    np.testing.assert_allclose(s.solve(0.05).W, expected, rtol=0, atol=1e-3)
    actual = s.try_solve(0.05, is_compared=True).W
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
