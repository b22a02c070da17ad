"""`explain`: contributions of training samples, compared with the plain sum over all units."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import naive
from sklearn_fsvc import RBFClassifier, RBFRegressor

IRIS, SPECIES = load_iris(return_X_y=True)
# Strings, which differ from the integer codes of the classes.
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
PARAMS = {"kernel": "triangular", "feature_weights": None, "alpha": 0.1, "random_state": 0}


def check_explanation(model, X, column, signs, n=4, output=0, **options):
    """Compare `explain` with the terms of ``sign * (W h + b)``, the score of the prediction."""
    found = model.explain(X, n, output, **options)
    H = naive.of_model(model, X)
    W, b = model.readout_coef_.astype(float), model.readout_intercept_.astype(float)
    parts = signs[:, None] * H * W[column]
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :n]
    expected = np.take_along_axis(parts, order, axis=1)
    scale = np.abs(W).max()
    np.testing.assert_allclose(found.contributions, expected, atol=1e-5 * scale)
    # The units belong to the contributions; units with equal contributions may be swapped.
    of_units = np.take_along_axis(parts, found.units, axis=1)
    np.testing.assert_allclose(found.contributions, of_units, atol=1e-5 * scale)
    rest = parts.sum(axis=1) - expected.sum(axis=1)
    np.testing.assert_allclose(found.rest, rest, atol=1e-4 * scale)
    np.testing.assert_allclose(found.intercept, signs * b[column], rtol=1e-6)
    total = np.abs(parts).sum(axis=1)
    np.testing.assert_allclose(found.total, total, rtol=1e-4)
    np.testing.assert_allclose(found.shares, np.abs(expected) / total[:, None], atol=1e-5)
    return found


def test_three_classes(device):
    model = RBFClassifier(40, device=device, **PARAMS).fit(IRIS, NAMES)
    scores = model.decision_function(IRIS)
    found = check_explanation(model, IRIS, scores.argmax(axis=1), np.ones(len(IRIS)))
    np.testing.assert_allclose(found.scores, scores.max(axis=1), atol=1e-6)
    assert (found.predictions == model.predict(IRIS)).all()
    np.testing.assert_array_equal(found.support, model.support_[found.units])
    np.testing.assert_array_equal(found.targets, NAMES[found.support])


def test_two_classes():
    """There is one score; all signs are reversed where the first class is predicted."""
    X, y = IRIS[50:], NAMES[50:]
    model = RBFClassifier(40, **PARAMS).fit(X, y)
    scores = model.decision_function(X)
    signs = np.where(scores > 0, 1.0, -1.0)
    assert set(signs) == {1.0, -1.0}
    found = check_explanation(model, X, np.zeros(len(X), int), signs)
    np.testing.assert_allclose(found.scores, np.abs(scores), atol=1e-6)
    assert (found.predictions == model.predict(X)).all()


@pytest.mark.parametrize("weights", [[1, 0.5, 2, 0], IRIS[:4]], ids=["weights", "map"])
def test_feature_weights_and_learned_kernel(weights):
    model = RBFClassifier(30, random_state=0, feature_weights=weights).fit(IRIS, NAMES)
    found = check_explanation(
        model, IRIS, model.decision_function(IRIS).argmax(1), np.ones(len(IRIS))
    )
    assert (found.predictions == model.predict(IRIS)).all()


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_regression(size):
    X, y = load_diabetes(return_X_y=True)
    X, y = X.astype(np.float32), size * y  # coefficients in float64, H in float32
    model = RBFRegressor(60, **PARAMS).fit(X, y)
    found = check_explanation(model, X, np.zeros(len(X), int), np.ones(len(X)))
    np.testing.assert_allclose(found.scores, model.predict(X), rtol=1e-4)
    np.testing.assert_allclose(found.predictions, model.predict(X), rtol=1e-4)
    np.testing.assert_allclose(found.targets, y[found.support], rtol=1e-12)


def test_several_outputs():
    Y = np.column_stack([NAMES, IRIS[:, 0] > 6, SPECIES + 10])
    model = RBFClassifier(40, **PARAMS).fit(IRIS, Y)
    _, second, third = model.decision_function(IRIS)
    found = check_explanation(model, IRIS, 4 + third.argmax(axis=1), np.ones(len(IRIS)), output=2)
    np.testing.assert_allclose(found.scores, third.max(axis=1), atol=1e-6)
    assert (found.predictions == model.predict(IRIS)[:, 2]).all()
    np.testing.assert_array_equal(found.targets, Y[found.support, 2])
    signs = np.where(second > 0, 1.0, -1.0)
    check_explanation(model, IRIS, np.full(len(IRIS), 3), signs, output=1)
    Y = IRIS[:, :2] * 100
    model = RBFRegressor(40, **PARAMS).fit(IRIS, Y)
    found = check_explanation(model, IRIS, np.ones(len(IRIS), int), np.ones(len(IRIS)), output=1)
    np.testing.assert_allclose(found.scores, model.predict(IRIS)[:, 1], rtol=1e-5)
    with pytest.raises(ValueError, match="output=2: y has 2"):
        model.explain(IRIS, output=2)


@pytest.mark.parametrize("options", [{}, {"readout": "none"}])
def test_an_uncovered_sample_is_explained_by_the_nearest_centre(options):
    model = RBFClassifier(40, **PARAMS | options).fit(IRIS, NAMES)
    far = np.array([[1e4, 1e4, 1e4, 1e4], IRIS[3], [-1e4, 0, 0, 0]])
    found = model.explain(far, 3)
    nearest = np.abs(far[:, None] - model.centers_).sum(axis=2).argmin(axis=1)
    uncovered = [0, 2]
    np.testing.assert_array_equal(found.units[uncovered, 0], nearest[uncovered])
    assert not found.contributions[uncovered, 1:].any()
    every = model.explain(far, 40).units
    np.testing.assert_array_equal(np.sort(every, axis=1), np.tile(np.arange(40), (3, 1)))
    assert not found.rest[uncovered].any()
    assert not found.intercept[uncovered].any()
    np.testing.assert_array_equal(found.shares[uncovered], [[1, 0, 0], [1, 0, 0]])
    assert found.rest[1] != 0
    np.testing.assert_array_equal(found.predictions, model.predict(far))
    np.testing.assert_allclose(found.scores, model.decision_function(far).max(axis=1), atol=1e-6)


def test_an_uncovered_sample_of_a_regressor_is_explained_by_the_intercept():
    model = RBFRegressor(40, **PARAMS).fit(IRIS, SPECIES * 7.0)
    found = model.explain(np.full((1, 4), 1e4), 3)
    assert not found.contributions.any()
    assert not found.shares.any()
    assert found.intercept[0] == found.scores[0] == model.predict(np.full((1, 4), 1e4))[0]


def test_a_given_layer_has_no_support():
    pretrained = RBFClassifier(20, **PARAMS).fit(IRIS, NAMES)
    model = RBFClassifier(layer=FrozenEstimator(pretrained), alpha=0.1).fit(IRIS, NAMES)
    found = model.explain(IRIS[:2])
    assert found.support is None
    assert found.targets is None
    assert list(found.to_frame().columns) == [
        "row", "prediction", "rank", "contribution", "share", "unit",
    ]  # fmt: skip


def test_tiles_and_memory(rng):
    """Small tiles give the same numbers; a limit that is too small raises."""
    X = rng.normal(size=(400, 3))
    model = RBFClassifier(50, **PARAMS).fit(X, X[:, 0] > 0)
    whole = model.explain(X)
    small = model.set_params(max_memory="60kB").explain(X)
    np.testing.assert_array_equal(whole.contributions, small.contributions)
    np.testing.assert_array_equal(whole.units, small.units)
    with pytest.raises(ValueError, match=r"1000.0 B are available within max_memory"):
        model.set_params(max_memory=1000).explain(X)


def test_after_partial_fit():
    """explain solves the readout; `support` counts samples in the order of their addition."""
    model = RBFClassifier(20, **PARAMS).partial_fit(IRIS[::2], NAMES[::2], classes=np.unique(NAMES))
    model.partial_fit(IRIS[1::2], NAMES[1::2])
    found = model.explain(IRIS)
    np.testing.assert_allclose(found.scores, model.decision_function(IRIS).max(axis=1), atol=1e-6)
    added = np.concatenate([NAMES[::2], NAMES[1::2]])
    np.testing.assert_array_equal(found.targets, added[found.support])


def test_to_frame():
    model = RBFRegressor(10, **PARAMS).fit(IRIS, SPECIES)
    found = model.explain(IRIS[:3], n=20)  # more than there are units
    table = found.to_frame()
    assert found.units.shape == (3, 10)
    sums = table.groupby("row")["contribution"].sum() + found.rest + found.intercept
    np.testing.assert_allclose(sums, model.predict(IRIS[:3]))
    first = table[(table.row == 1) & (table["rank"] == 0)].iloc[0]
    assert first.support == found.support[1, 0]
    assert first.target == pytest.approx(SPECIES[found.support[1, 0]])
    assert first.prediction == found.predictions[1]
    # All units are listed.
    np.testing.assert_allclose(table.groupby("row")["share"].sum(), 1)
    assert first.share == found.shares[1, 0]


def test_bad_input():
    with pytest.raises(NotFittedError):
        RBFClassifier().explain(IRIS)
    model = RBFClassifier(10, **PARAMS).fit(IRIS, NAMES)
    for n, error in ((0, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match=f"n={n}"):
            model.explain(IRIS, n)
    with pytest.raises(ValueError, match="NaN"):
        model.explain(np.full((1, 4), np.nan))
