"""Softmax readouts of fewer samples than units, compared with those of all units."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fake_sources import ChunkFunction
from sklearn_fsvc import TanhClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.estimators import readouts
from sklearn_fsvc._src.layers import TanhLayer, quantize_layer
from sklearn_fsvc._src.readouts.linear import Solution
from sklearn_fsvc._src.readouts.row_space import find_row_space
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

N, D, M = 60, 5, 100


def table(n_classes=3, n_rows=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, D))
    y = (X[:, :n_classes] + rng.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
    return X, y


def layer_of(n_units=M):
    rng = np.random.default_rng(1)
    return TanhLayer(rng.normal(size=(n_units, D)), rng.normal(size=n_units))


def row_space_of(layer, X, weight=None, **params):
    engine = params.pop("engine", None) or get_engine("blas")
    samples = Samples(X, OneHotTargets.of_column(np.zeros(len(X), int), 2), weight, **params)
    with engine:
        return find_row_space(Job(engine), layer, samples)


def both(monkeypatch, X, y, weight, validation):
    """Return models trained in the row space, and by all units."""
    models = []
    for find in readouts.find_row_space, lambda *_: None:
        monkeypatch.setattr(readouts, "find_row_space", find)
        model = TanhClassifier(M, readout="softmax", feature_weights=None, random_state=0)
        models.append(model.fit(X, y, weight, **validation))
    return models


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("device", ["jit", "blas"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_readout_is_that_of_logistic_regression_on_all_units(n_classes, device, dtype):
    X, y = table(n_classes)
    model = TanhClassifier(
        M, readout="softmax", alpha=0.5, device=device, feature_weights=None, random_state=0
    )
    model.fit(X.astype(dtype), y)
    H = np.tanh(X @ model.components_.T + model.hidden_intercept_)
    oracle = LogisticRegression(C=2, tol=1e-8, max_iter=1000).fit(H, y)
    probabilities = model.predict_proba(X.astype(dtype))
    np.testing.assert_allclose(probabilities, oracle.predict_proba(H), rtol=0, atol=0.002)


@pytest.mark.parametrize("case", ["plain", "weights", "copies", "outputs", "validation", "source"])
def test_the_search_for_a_penalty_has_the_result_of_all_units(case, monkeypatch):
    X, y = table(n_rows=90)
    weight, validation = None, {}
    if case == "weights":
        weight = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    if case == "copies":
        X[:20], y[:20] = X[20:40], y[20:40]
    if case == "outputs":
        y = np.column_stack([y, X[:, 0] > 0])
    if case == "validation":
        X_val, y_val = table(n_rows=50, seed=3)
        validation = {"X_val": X_val, "y_val": y_val}
    rows = ChunkFunction(X, chunk=40) if case == "source" else X
    models = by_rows, by_units = both(monkeypatch, rows, y, weight, validation)
    assert by_rows.alpha_ == pytest.approx(by_units.alpha_, rel=0.02)
    p, q = (np.hstack(model.predict_proba(X)) for model in models)
    np.testing.assert_allclose(p, q, rtol=0, atol=0.01)


def test_coordinates_reproduce_inner_products_and_readouts():
    X, _ = table()
    layer = layer_of()
    X[10:20] = X[:10]
    found = row_space_of(layer, X)
    Z, H = found.samples.X, np.tanh(X @ layer.units.T + layer.bias)
    H -= H.mean(axis=0)
    np.testing.assert_allclose(Z @ Z.T, H @ H.T, atol=1e-10)
    np.testing.assert_array_equal(Z[10:20], Z[:10])
    W, b = np.random.default_rng(4).normal(size=(3, Z.shape[1])), np.ones(3)
    of_units = found.to_units(Solution(W, b, "problem"))
    scores = np.tanh(X @ layer.units.T + layer.bias) @ of_units.W.T + of_units.b
    np.testing.assert_allclose(scores, Z @ W.T + b, atol=1e-10)
    assert of_units.problem == "problem"


def test_samples_without_weight_and_validation_samples():
    X, _ = table()
    layer, weight = layer_of(), np.ones(N)
    weight[::2] = 0
    others = Samples(table(n_rows=30, seed=6)[0], OneHotTargets.of_column(np.zeros(30, int), 2))
    found = row_space_of(layer, X, weight, validation=others)
    assert found.basis.shape == (M, N // 2)
    np.testing.assert_array_equal(found.samples.weight, 1)
    H = np.tanh(others.X @ layer.units.T + layer.bias) - found.mean
    np.testing.assert_allclose(found.samples.validation.X, H @ found.basis, atol=1e-10)


def test_all_units_are_used_where_the_row_space_gains_nothing():
    X, _ = table()
    assert row_space_of(layer_of(), X) is not None
    assert row_space_of(layer_of(N), X) is None
    assert row_space_of(quantize_layer(layer_of(), 8), X) is None
    many = Samples(np.zeros((5001, D)), OneHotTargets.of_column(np.zeros(5001, int), 2))
    assert row_space_of(layer_of(), X, validation=many) is None
