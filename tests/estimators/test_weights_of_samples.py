"""Sample weights: their unit has no influence, and a weight of 0 removes a sample."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import parts_of

N = 210
GIVEN = {"feature_weights": None, "random_state": 0}
RBF = {"kernel": "laplacian", **GIVEN}
CLASSIFIERS = {
    "RBFClassifier": RBFClassifier(50, random_state=0),
    "TanhClassifier": TanhClassifier(50, **GIVEN),
    "loo": TanhClassifier(50, alpha="loo", **GIVEN),
    "softmax": RBFClassifier(20, readout="softmax", **RBF),
    "lms": RBFClassifier(50, readout="lms", **RBF),
    "StackedClassifier": StackedClassifier(
        [("rbf", RBFClassifier(30, **RBF)), ("tanh", TanhClassifier(30, **GIVEN))], random_state=0
    ),
}
REGRESSORS = {
    "RBFRegressor": RBFRegressor(50, random_state=0),
    "TanhRegressor": TanhRegressor(50, uncertainty=True, **GIVEN),
    "StackedRegressor": StackedRegressor(
        [("rbf", RBFRegressor(30, **RBF)), ("tanh", TanhRegressor(30, **GIVEN))], random_state=0
    ),
}


@pytest.fixture
def data(rng):
    """Return X, and targets whose noise depends on the sample: weights are inverse variances."""
    X = rng.normal(size=(N, 4))
    std = rng.choice([0.2, 2.0], N)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + std * rng.normal(size=N), std**-2.0


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**40])
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "lms"])
def test_the_unit_of_weights_changes_no_classifier(name, factor, data):
    X, y, weight = data
    model = CLASSIFIERS[name]
    one, other = (clone(model).fit(X, y > 0, sample_weight=w) for w in (weight, factor * weight))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    if name != "StackedClassifier":
        assert other.alpha_ == factor * one.alpha_
        if model.alpha == "auto":
            alphas = (m.search_results_["alpha"] for m in (one, other))
            np.testing.assert_array_equal(factor * next(alphas), next(alphas))


@pytest.mark.parametrize(
    ("readout", "search"), [("ridge", False), ("ridge", True), ("softmax", False)]
)
def test_the_unit_of_weights_changes_no_uncovered_sample(readout, search, data):
    """Their scores are shrunk by the penalty."""
    X, y, weight = data
    model = RBFClassifier(20, **RBF | {"kernel": "triangular"}, radius=0.3, readout=readout)
    if search:
        model = HiddenSizeSearchCV(model, {"n_hidden": [20]}, cv=2)
    one, other = (
        clone(model).fit(X, y > 0, sample_weight=w).predict_proba(3 * X)
        for w in (weight, 2.0**40 * weight)
    )
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert len(np.unique(one.round(6))) > 2


@pytest.mark.parametrize(("is_integer", "factor"), [(False, 2.0**-10), (True, 1), (True, 1000)])
def test_partial_fit_scores_uncovered_samples_as_fit(is_integer, factor, data):
    X, y, weight = data
    weight = factor * (np.ceil(weight) if is_integer else weight)
    given = RBF | {"kernel": "triangular", "alpha": weight.mean()}
    model = RBFClassifier(20, radius=0.3, **given)
    one = clone(model).fit(X, y > 0, sample_weight=weight)
    other = clone(model).partial_fit(X, y > 0, sample_weight=weight)
    np.testing.assert_allclose(one.predict_proba(3 * X), other.predict_proba(3 * X), rtol=1e-9)
    units = (getattr(model, "mean_weight_", 1.0) for model in (one, other))
    assert next(units) == pytest.approx(next(units))


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**40])
@pytest.mark.parametrize("name", REGRESSORS)
def test_the_unit_of_weights_changes_no_regressor(name, factor, data):
    X, y, weight = data
    one, other = (
        clone(REGRESSORS[name]).fit(X, y, sample_weight=w) for w in (weight, factor * weight)
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(one.predict_interval(X), other.predict_interval(X))
    if name == "TanhRegressor":
        deviations = (model.predict(X, return_std=True)[1] for model in (one, other))
        np.testing.assert_array_equal(*deviations)


def test_equal_weights_give_the_deviations_of_a_fit_without_weights(data):
    X, y, _ = data
    model = REGRESSORS["TanhRegressor"]
    plain, weighted = (
        clone(model).fit(X, y, sample_weight=weight).predict(X, return_std=True)[1]
        for weight in (None, np.full(N, 0.01))
    )
    np.testing.assert_allclose(weighted, plain, rtol=1e-6)


@pytest.mark.parametrize("alpha", [100.0, [10.0, 100.0]])
def test_a_given_penalty_is_that_of_the_given_weights(alpha, data):
    X, y, weight = data
    models = [
        TanhRegressor(50, alpha=factor * np.asarray(alpha), **GIVEN).fit(
            X, y, sample_weight=factor * weight
        )
        for factor in (1.0, 2.0**20)
    ]
    np.testing.assert_array_equal(*(model.predict(X) for model in models))
    assert models[1].alpha_ == 2.0**20 * models[0].alpha_
    H = naive.hidden(parts_of(models[0]).units.layer, X)
    mean = np.average(H, axis=0, weights=weight)
    A = (H - mean).T * weight
    expected = np.linalg.solve(A @ (H - mean) + models[0].alpha_ * np.eye(50), A @ y)
    np.testing.assert_allclose(models[0].readout_coef_[0], expected, rtol=1e-6, atol=1e-9)


def test_the_unit_of_weights_changes_no_stream(data):
    X, y, weight = data

    def stream(factor):
        model = TanhRegressor(50, **GIVEN)
        for rows in np.split(np.arange(N), 3):
            model.partial_fit(X[rows], y[rows], sample_weight=factor * weight[rows])
        return model.solve()

    light, heavy, plain = stream(2.0**-20), stream(2.0**20), stream(1.0)
    np.testing.assert_allclose(light.predict(X), heavy.predict(X), rtol=1e-8)
    assert heavy.alpha_ == 2.0**40 * light.alpha_
    # Weights near 1 may be numbers of copies, and are as they are.
    assert 0.1 < heavy.alpha_ / (2.0**20 * plain.alpha_) < 10


@pytest.mark.parametrize("alpha", [["auto"], [1e5, 1e6]])
def test_a_search_scores_weighted_candidates_as_their_own_fits(alpha, data):
    X, y, weight = data
    grid = {"n_hidden": [20, 40], "alpha": alpha}
    ours, theirs = (
        search(TanhRegressor(scale=1.0, **GIVEN), grid, cv=2).fit(X, y, sample_weight=1e5 * weight)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    scores = (s.cv_results_["mean_test_score"] for s in (ours, theirs))
    np.testing.assert_allclose(*scores, rtol=1e-8)
    assert ours.best_estimator_.alpha_ == theirs.best_estimator_.alpha_


def test_counts_of_copies_are_equivalent_to_copies(rng):
    X, y, counts = rng.normal(size=(N, 4)), rng.integers(2, size=N), rng.integers(5, size=N)
    model = TanhClassifier(30, alpha=1.0, feature_weights=None, random_state=0)
    copies = np.repeat(np.arange(N), counts)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(X[copies], y[copies])
    scores = (m.decision_function(X) for m in (weighted, repeated))
    np.testing.assert_allclose(*scores, atol=1e-9)


def test_weights_are_divided_by_their_mean(rng):
    weight = np.where(rng.random(100) < 0.5, 0.0, rng.random(100) + 1000)
    samples, scale = Samples(np.empty((100, 1)), weight=weight).with_unit_weights()
    assert scale == pytest.approx(weight[weight > 0].mean())
    assert samples.weight[weight > 0].mean() == pytest.approx(1)
    np.testing.assert_allclose(samples.weight * scale, weight)
    samples, scale = Samples(np.empty((100, 1))).with_unit_weights()
    assert samples.weight is None
    assert scale == 1


@pytest.mark.parametrize("alpha", ["auto", "loo"])
def test_equal_weights_give_the_fit_without_weights(alpha, data):
    X, y, _ = data
    model = TanhRegressor(50, alpha=alpha, random_state=0)
    plain, weighted = clone(model).fit(X, y), clone(model).fit(X, y, sample_weight=np.full(N, 2.7))
    np.testing.assert_allclose(weighted.predict(X), plain.predict(X), rtol=1e-6)
    assert weighted.alpha_ == pytest.approx(2.7 * plain.alpha_)


@pytest.mark.parametrize("alpha", [0.1, (0.1, 0.7, 30.0)])
def test_given_penalties_are_not_rounded(alpha, data):
    X, y, weight = data
    model = TanhRegressor(50, alpha=alpha, **GIVEN).fit(X, y, sample_weight=weight / 3)
    assert model.alpha_ in np.ravel(alpha)
    if isinstance(alpha, tuple):
        np.testing.assert_array_equal(model.alphas_, alpha)
    grid = {"n_hidden": [20, 40], "alpha": np.ravel(alpha)}
    search = HiddenSizeSearchCV(TanhRegressor(**GIVEN), grid, cv=2)
    search.fit(X, y, sample_weight=weight / 3)
    assert search.best_estimator_.alpha_ == search.best_params_["alpha"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_classes_do_not_count_samples_of_weight_0(name, rng):
    X = rng.normal(size=(N, 4))
    y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    weight = np.where((y == 1) & (rng.random(N) < 0.9), 0.0, 1.0)
    rows = np.flatnonzero(weight)
    model = clone(CLASSIFIERS[name]).set_params(class_weight="balanced")
    with_zeros = clone(model).fit(X, y, sample_weight=weight)
    without = clone(model).fit(X[rows], y[rows])
    scores = (m.decision_function(X) for m in (with_zeros, without))
    np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-8)


def test_balanced_classes_have_the_same_total_weight(rng):
    X, y, weight = rng.normal(size=(N, 4)), rng.integers(3, size=N), rng.random(N) + 0.1
    sums = np.bincount(y, weight)
    balanced = weight * weight.sum() / (3 * sums[y])
    model = TanhClassifier(50, alpha=1.0, **GIVEN)
    ours = clone(model).set_params(class_weight="balanced").fit(X, y, sample_weight=weight)
    expected = clone(model).fit(X, y, sample_weight=balanced)
    np.testing.assert_allclose(ours.readout_coef_, expected.readout_coef_, rtol=1e-8)


@pytest.mark.parametrize("alpha", ["loo", [1.0], 1.0])
@pytest.mark.parametrize("cls", [RBFClassifier, TanhClassifier])
def test_samples_of_weight_0_change_no_temperature(cls, alpha, rng):
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=500) > 0).astype(int)
    weight = (np.arange(500) < 50).astype(float)
    # One layer for both: centres are selected among samples of positive weight, in random order.
    layer = cls(30, **(RBF if cls is RBFClassifier else GIVEN)).fit(X[:50], y[:50])
    with_zeros = cls(layer=layer, alpha=alpha).fit(X, y, sample_weight=weight)
    without = cls(layer=layer, alpha=alpha).fit(X[:50], y[:50])
    assert with_zeros.temperature_ == pytest.approx(without.temperature_, rel=1e-6)


@pytest.mark.parametrize("device", ["jit", "blas"])
@pytest.mark.parametrize("alpha", [1e-8, 1e-6])
def test_float32_samples_with_as_many_units_as_samples(alpha, device, rng):
    """H'H has a direction without variance, in which rounding may exceed the penalty."""
    X = rng.normal(size=(1200, 6)).astype(np.float32)
    y = np.sin(X @ rng.normal(size=6))
    layer = RBFRegressor(
        1200, selection="random", kernel="laplacian", radius=3.0, metric="manhattan",
        feature_weights=None, alpha=1.0, random_state=0, device=device,
    ).fit(X, y)  # fmt: skip
    new = rng.normal(size=(200, 6)).astype(np.float32)
    predicted, expected = (
        RBFRegressor(layer=layer, alpha=alpha, device=device)
        .fit(X.astype(dtype), y)
        .predict(new.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(predicted, expected, atol=1e-4)


def test_weights_pass_through_a_pipeline(data):
    X, y, weight = data
    pipeline = make_pipeline(StandardScaler(), TanhRegressor(50, **GIVEN))
    one, other = (
        clone(pipeline).fit(X, y, tanhregressor__sample_weight=w) for w in (weight, 1e6 * weight)
    )
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=0.05)
