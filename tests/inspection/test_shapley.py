"""Shapley values equal their definition, a sum over all sets of features."""

import itertools
import sys
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import beta
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.inspection import product_game
from sklearn_fsvc._src.inspection.players import origins_of
from sklearn_fsvc._src.inspection.product_game import quadrature
from sklearn_fsvc.inspection import ShapleyDisplay, shapley_values
from sklearn_fsvc.kernels import PoweredExponential

LAPLACIAN = {"kernel": "laplacian", "random_state": 0}
# Neither feature weights nor a penalty are learned, which takes longest.
PLAIN = {"feature_weights": None, "alpha": 0.1, **LAPLACIAN}
GAUSSIAN = {"kernel": "gaussian", "metric": "euclidean", "random_state": 0}
IRIS, CODES = load_iris(return_X_y=True)


def by_definition(score, X, background, n_players, mix):
    """Shapley values (n_samples, n_players, n_scores), and the mean score of the background.

    ``mix(mask, x, background)`` are samples with the players in the mask from x.
    """
    value = {}
    for mask in itertools.product([False, True], repeat=n_players):
        means = [score(mix(np.array(mask), x, background)).mean(axis=0) for x in X]
        value[mask] = np.reshape(means, (len(X), -1))
    result = np.zeros((len(X), n_players, value[mask].shape[1]))
    for mask, k in itertools.product(value, range(n_players)):
        if not mask[k]:
            weight = factorial(sum(mask)) * factorial(n_players - sum(mask) - 1)
            larger = value[(*mask[:k], True, *mask[k + 1 :])]
            result[:, k] += weight / factorial(n_players) * (larger - value[mask])
    return result, value[(False,) * n_players][0]


def table_of(n, rng):
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "age": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize("options", [LAPLACIAN, GAUSSIAN], ids=["laplacian", "gaussian"])
@pytest.mark.parametrize("radius", [0.01, 2.0])  # narrow: most factors underflow
def test_definition(options, radius):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(60, 6)), [1.0, 0.5, 2.0, 1.0, 0.0, 1.0]
    Y = np.stack([np.sin(X[:, 0] * X[:, 1]), X[:, 2] + X[:, 3]], axis=1)
    model = RBFRegressor(21, radius=radius, feature_weights=W, alpha=0.1, **options).fit(X, Y)
    # Samples near centres, and features that they share with background samples.
    samples, others = model.centers_[:3] + 0.3 * radius, X[40:44].copy()
    others[:2, ::2] = samples[0, ::2]
    explanation = shapley_values(model, samples, others)
    expected, base = by_definition(model.predict, samples, others, 6, np.where)
    np.testing.assert_allclose(explanation.values, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(explanation.base_values, [base] * 3, rtol=0, atol=1e-12)
    assert np.abs(expected).max() > 0.01
    assert not explanation.values[:, 4].any()  # a feature without weight
    assert explanation.output_names == ["y0", "y1"]
    np.testing.assert_array_equal(explanation.data, samples)


def test_equal_features_have_equal_values():
    X = np.column_stack([IRIS, IRIS[:, 0]])
    model = RBFClassifier(40, **PLAIN).fit(X, CODES)
    explanation = shapley_values(model, X[:9], X[::7])
    assert explanation.values.shape == (9, 5, 3)
    np.testing.assert_allclose(explanation.values[:, 0], explanation.values[:, 4], rtol=1e-10)


def test_partial_fit_is_solved():
    """With all samples, and with the penalty that was set after the last prediction."""
    model = RBFClassifier(20, **PLAIN).partial_fit(IRIS, CODES)
    for alpha in (0.1, 10.0):
        values = shapley_values(model.set_params(alpha=alpha), IRIS[::30], IRIS[:9])
        np.testing.assert_allclose(values.scores, model.decision_function(IRIS[::30]), atol=1e-6)


def test_columns_of_a_table():
    """A column is known with all its features: ranks, indicators, categories, parts of dates."""
    rng = np.random.default_rng(0)
    X = table_of(150, rng)
    y = (X["size"].fillna(1) > 0) ^ (X["colour"] == "red")
    model = make_tabular_pipeline(RBFClassifier(60, alpha=0.1, **LAPLACIAN)).fit(X, y)
    samples, others = X[:2], X[40:45]

    def mix(mask, i, others):
        mixed = others.copy()
        for column in X.columns[mask]:
            mixed[column] = X[column].iloc[i]
        return mixed

    explanation = shapley_values(model, samples, others)
    expected, base = by_definition(model.decision_function, range(2), others, 4, mix)
    assert explanation.feature_names == list(X.columns)
    assert explanation.output_names == ["True"]
    np.testing.assert_allclose(explanation.values, expected[:, :, 0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(explanation.base_values, [base[0]] * 2, rtol=0, atol=1e-5)
    np.testing.assert_allclose(explanation.scores, model.decision_function(samples), atol=1e-5)
    assert explanation.data[0, 1] == X["colour"][0]


def test_columns_in_another_order():
    """Steps select columns by name; data and values are in the order of `fit`."""
    X = pd.DataFrame(IRIS[:, :3], columns=["a", "b", "c"])
    network, steps = RBFClassifier(20, **PLAIN), StandardScaler()
    selected = ColumnTransformer([("scale", steps, ["a", "c"])])  # "b" is dropped
    for model, columns in (
        (make_tabular_pipeline(network), ["c", "unused", "b", "a"]),
        (make_pipeline(selected, network), ["c", "a"]),
        (make_pipeline(ColumnTransformer([("scale", steps, [0, 2])]), network), ["a", "b", "c"]),
    ):
        model = model.fit(X, CODES)
        as_in_fit = shapley_values(model, X[:3], X[::9])
        reordered = shapley_values(model, X[:3].assign(unused=7.0)[columns], X[::9])
        np.testing.assert_array_equal(reordered.values, as_in_fit.values)
        np.testing.assert_array_equal(reordered.data, X[as_in_fit.feature_names][:3])


def test_features_of_two_columns():
    """They are a player of their own, so that all values add up to the score."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    model = make_tabular_pipeline(RBFRegressor(60, **LAPLACIAN)).fit(X, X["a"] * X["b"])
    explanation = shapley_values(model, X[:4], X[100:140])
    assert explanation.feature_names == ["a", "b", "a x b"]
    assert np.isnan(explanation.data[:, 2]).all()
    assert (np.abs(explanation.values).argmax(axis=1) == 2).all()
    np.testing.assert_allclose(explanation.scores, model.predict(X[:4]), atol=1e-5)


def test_blocks_of_samples(monkeypatch):
    monkeypatch.setattr(product_game, "n_threads", lambda: 2)  # each has its own memory
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 90))
    model = RBFRegressor(33, feature_weights=None, radius=60, alpha=1, **LAPLACIAN).fit(X, X[:, 0])
    explanation = shapley_values(model, X, X[:40])
    np.testing.assert_allclose(explanation.scores, model.predict(X), rtol=0, atol=1e-9)
    model.set_params(max_memory="2MB")
    np.testing.assert_allclose(
        shapley_values(model, X, X[:40]).values, explanation.values, atol=1e-12
    )
    with pytest.raises(ValueError, match=r"1000.0 B are available within max_memory"):
        shapley_values(model.set_params(max_memory=1000), X, X)


@pytest.mark.parametrize("n", [1, 2, 31, 90, 300])
def test_quadrature(n):
    """It is accurate for all products, of which these are the extreme ones."""
    nodes, weights = quadrature(n)
    s = np.arange(n)
    integrals = weights @ (nodes[:, None] ** s * (1 - nodes[:, None]) ** (n - 1 - s))
    np.testing.assert_allclose(integrals, beta(s + 1, n - s), rtol=2e-9)
    assert len(nodes) <= 0.5 + n / 2
    assert n < 90 or len(nodes) < 0.8 * n / 2


def test_stacked_ensemble():
    X, y = IRIS[:, :3], IRIS[:, 3]
    networks = [("a", RBFRegressor(60, **PLAIN)), ("b", RBFRegressor(9, alpha=0.1, **GAUSSIAN))]
    model = StackedRegressor(networks, final_estimator=None, random_state=0).fit(X, y)
    assert len(model.estimators_) == 2
    explanation = shapley_values(model, X[:5], X[::9])
    np.testing.assert_allclose(explanation.scores, model.predict(X[:5]), atol=1e-10)
    each = [shapley_values(m, X[:5], X[::9]).values for m in model.estimators_]
    np.testing.assert_allclose(
        explanation.values, np.tensordot(model.weights_, each, 1), atol=1e-12
    )


def test_stacked_classifier_of_a_rare_class(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + X[:, 1] > 2.2
    networks = [("a", RBFClassifier(60, **PLAIN)), ("b", RBFClassifier(9, alpha=0.1, **GAUSSIAN))]
    model = StackedClassifier(networks, final_estimator=None, random_state=0).fit(X, y)
    assert model.score_offset_ != 0
    explanation = shapley_values(model, X[:5], X[::9])
    np.testing.assert_allclose(explanation.scores, model.decision_function(X[:5]), atol=1e-10)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, explanation.scores, atol=1e-10)


def fitted_ensemble():
    tanh = TanhClassifier(10, feature_weights=None)
    networks = [("a", RBFClassifier(30, **PLAIN)), ("b", tanh)]
    model = StackedClassifier(networks, final_estimator=None, random_state=0).fit(IRIS, CODES)
    assert len(model.estimators_) == 2
    return model


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (RBFClassifier(30, kernel="triangular"), 'triangular.*kernel="laplacian"'),
        (RBFClassifier(30, kernel=PoweredExponential(0.7)), "powered_exponential"),
        (RBFClassifier(30, kernel="gaussian"), "gaussian.*manhattan"),
        (RBFClassifier(30, feature_weights=np.eye(4), **GAUSSIAN), "linear map"),
        (RBFClassifier(30, precision=8, **LAPLACIAN), "8 bits"),
        (RBFClassifier(30, readout="none", feature_weights=None, **LAPLACIAN), "nearest centre"),
        (TanhClassifier(30), "formula of a unit is tanh"),
        (make_pipeline(Normalizer(), RBFClassifier(30, **LAPLACIAN)), "Normalizer.*may combine"),
    ],
)
def test_refused(model, match):
    with pytest.raises(ValueError, match=match):
        shapley_values(model.fit(IRIS, CODES), IRIS[:2], IRIS)


def test_refused_estimators():
    with pytest.raises(ValueError, match=r"TanhClassifier 'b' of the ensemble"):
        shapley_values(fitted_ensemble(), IRIS[:2], IRIS)
    X = np.random.default_rng(0).normal(size=(300, 2))
    networks, final = [("a", RBFRegressor(5, **LAPLACIAN))], TanhRegressor(100, scale=1.0)
    ensemble = StackedRegressor(networks, final_estimator=final, random_state=0)
    with pytest.raises(ValueError, match="gets scores as features"):
        shapley_values(ensemble.fit(X, X[:, 0] * X[:, 1]), X[:2], X)
    for model in (LinearRegression(), RBFProjector(30)):
        with pytest.raises(TypeError, match="no scores that are sums"):
            shapley_values(model.fit(IRIS, CODES), IRIS[:2], IRIS)
    with pytest.raises(NotFittedError):
        shapley_values(RBFClassifier(), IRIS[:2], IRIS)


def mixed_steps():
    numbers = make_pipeline(
        SimpleImputer(add_indicator=True), VarianceThreshold(), StandardScaler()
    )
    return ColumnTransformer(
        [
            ("numbers", numbers, ["size", "age"]),
            ("missing", MissingIndicator(), ["age", "size"]),
            ("categories", OneHotEncoder(drop="first"), ["colour"]),
        ],
        remainder="passthrough",
    )


def test_origins_of_features():
    """Other values of a column change the features that are computed from it, and no others."""
    rng = np.random.default_rng(0)
    X = table_of(300, rng)
    shop, X["kind"] = (40 * rng.random(300) ** 2).astype(int), rng.choice(["new", "used"], 300)
    X["shop"] = [f"S{number}" for number in shop]
    X["text"] = [" ".join(words) for words in rng.choice(list("abcdefghij"), (300, 4))]
    X["other"] = rng.normal(size=300)
    y = 2.0 * ((X["colour"] == "red") ^ (X["kind"] == "new")) + X["age"] * X["other"]
    y += np.log(np.bincount(shop))[shop]
    tabular = make_tabular_pipeline(RBFRegressor(30, **LAPLACIAN))[0]
    first = X[["day", "size", "colour", "age"]].assign(day=np.arange(300.0))
    for steps, table in ((mixed_steps(), first), (tabular, X)):
        steps.fit_transform(table, y)
        before = steps.transform(table)
        origins = origins_of(steps, table.shape[1])
        assert len(origins) == before.shape[1]
        for j, column in enumerate(table):
            changed = table.assign(**{column: table[column].to_numpy()[::-1]})
            differs = (steps.transform(changed) != before).any(axis=0)
            np.testing.assert_array_equal(differs, [j in each for each in origins])
    joint = {tuple(table.columns[list(each)]) for each in origins if len(each) == 2}
    assert {("colour", "kind"), ("age", "other")} <= joint
    of_shop = {"categorical__mean(shop)", "categorical__log_count(shop)"}
    assert of_shop <= set(tabular.get_feature_names_out())


def test_shap_explanation(monkeypatch):
    X = table_of(60, np.random.default_rng(0))
    explanation = shapley_values(
        make_tabular_pipeline(RBFClassifier(20, **PLAIN)).fit(X, X["colour"]), X[:3], X[::9]
    )
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        explanation.to_shap()
    shap = SimpleNamespace(Explanation=lambda *args, **options: (args, options))
    monkeypatch.setitem(sys.modules, "shap", shap)
    (values, base_values, data), options = explanation.to_shap()
    assert values is explanation.values
    assert base_values is explanation.base_values
    assert data[0].tolist()[1:] == [X["colour"][0], str(X["day"][0]), X["age"][0]]
    names = {"feature_names": [*X], "output_names": ["blue", "green", "red"]}
    assert options == names


def test_display_of_points():
    model = RBFClassifier(30, **PLAIN).fit(IRIS, CODES)
    display = ShapleyDisplay.from_estimator(model, IRIS[::10], IRIS[::20], output=2, max_features=3)
    values = display.shapley.of_output(2)
    shown = np.argsort(-np.abs(values).mean(axis=0))[:3][::-1]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [f"x{k}" for k in shown]
    for row, (points, k) in enumerate(zip(display.ax_.collections, shown, strict=True)):
        x, y = points.get_offsets().T
        np.testing.assert_allclose(x, values[:, k])
        assert np.abs(y - row).max() <= 0.5
        assert points.get_array()[IRIS[::10, k].argmax()] == 1
    assert display.ax_.get_xlabel() == "Shapley value (score of 2), 1 smaller ones not shown"
    assert display.figure_ is display.ax_.figure
    with pytest.raises(ValueError, match="output=3 must be an index"):
        ShapleyDisplay(display.shapley, output=3).plot()
    with pytest.raises(TypeError, match="output='virginica' must be an integer"):
        ShapleyDisplay(display.shapley, output="virginica").plot()


def test_display_of_one_sample():
    model = RBFRegressor(30, **PLAIN).fit(IRIS[:, :3], IRIS[:, 3])
    display = ShapleyDisplay.from_estimator(model, IRIS[:1, :3], IRIS[:, :3])
    lengths = [bar.get_width() for bar in display.ax_.containers[0]]
    np.testing.assert_allclose(sorted(lengths), sorted(display.shapley.values[0]))
    labels = {label.get_text() for label in display.ax_.get_yticklabels()}
    assert labels == {"x0 = 5.1", "x1 = 3.5", "x2 = 1.4"}
    assert f"score {model.predict(IRIS[:1, :3])[0]:.3g}, " in display.ax_.get_title()
