"""Smoothing of target encoding, compared with the variances that the data were drawn with."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

from sklearn_fsvc._src.tabular.target_means import (
    additive_predictions,
    cross_fit,
    draw_folds,
    estimate_smoothing,
    to_intervals,
)


def draw(n_cells, per_cell, sigma, seed=0):
    """Return cells, and targets whose means in cells have unit variance."""
    rng = np.random.default_rng(seed)
    cell = rng.integers(n_cells, size=n_cells * per_cell)
    return cell, rng.normal(size=n_cells)[cell] + sigma * rng.normal(size=len(cell))


@pytest.mark.parametrize("per_cell", [3, 20])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_smoothing_is_the_ratio_of_variances(per_cell, sigma):
    cell, y = draw(1000, per_cell, sigma)
    Y = np.column_stack([y, -7 * y])
    smoothing, depends = estimate_smoothing(cell, Y)
    np.testing.assert_allclose(smoothing, sigma**2, rtol=0.15)
    assert depends.all()


def test_smoothing_minimises_the_error():
    """Of cross-fitted means, against all others."""
    cell, y = draw(500, 6, 1.5)
    Y = y[:, None]
    fold = draw_folds(len(Y))

    def error(smoothing):
        return np.square(Y - cross_fit(fold, cell, 500, Y, smoothing)[1]).mean()

    (actual,), _ = estimate_smoothing(cell, Y)
    assert error(actual) < min(error(actual / 3), error(actual * 3))


@pytest.mark.parametrize("distribution", ["normal", "binary", "rare", "lognormal", "heavy tails"])
def test_noise_depends_on_nothing(distribution):
    """At three standard deviations, few of 200 features of noise are accepted."""
    n_accepted = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        cell = rng.zipf(1.5, size=600) % 100
        y = {
            "normal": rng.normal(size=600),
            "binary": rng.random(600) < 0.2,
            "rare": rng.random(600) < 0.01,
            "lognormal": rng.lognormal(size=600),
            "heavy tails": rng.lognormal(sigma=2, size=600),
        }[distribution]
        n_accepted += estimate_smoothing(cell, 1.0 * y[:, None])[1].sum()
    assert n_accepted <= 5


def test_degenerate_cells():
    """One cell, cells of one sample, and constant targets."""
    Y = np.random.default_rng(0).normal(size=(50, 1))
    for cell, targets in [
        (np.zeros(50, int), Y),
        (np.arange(50), Y),
        (np.arange(50) % 10, np.ones((50, 1))),
    ]:
        smoothing, depends = estimate_smoothing(cell, targets)
        assert not depends.any()
        assert (smoothing == 1000).all()


def test_folds_of_groups():
    groups = np.random.default_rng(0).integers(0, 50, 500)
    fold = draw_folds(500, groups)
    assert np.unique(fold).tolist() == [0, 1, 2, 3, 4]
    assert all(len(set(fold[groups == group])) == 1 for group in range(50))
    np.testing.assert_array_equal(draw_folds(500, np.ones(500)), draw_folds(500))


def test_groups_are_validated():
    groups = np.random.default_rng(0).integers(0, 50, 500)
    fold = draw_folds(500, groups)
    for column in (groups[:, None], pd.DataFrame({"g": groups})):
        np.testing.assert_array_equal(draw_folds(500, column), fold)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[500, 499\]"):
        draw_folds(500, groups[1:])
    with pytest.raises(TypeError, match="groups contains labels of several types, NoneType, int"):
        draw_folds(500, np.where(groups == 0, None, groups))


def test_additive_predictions_are_cross_fitted():
    """As those of ridge regression; 0 for a column of Y that does not depend on the features."""
    rng = np.random.default_rng(0)
    codes = rng.integers([4, 9], size=(600, 2))
    Y = np.column_stack([np.square(codes).sum(axis=1) + 5, rng.normal(size=600)])
    fold = draw_folds(600)
    predicted = additive_predictions(codes, Y, fold)
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(codes)
    for k in range(5):
        ridge = Ridge(fit_intercept=False).fit(one_hot[fold != k], (Y - Y.mean(axis=0))[fold != k])
        expected = ridge.predict(one_hot[fold == k])[:, 0]
        np.testing.assert_allclose(predicted[fold == k, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(predicted[:, 1], 0)


def test_intervals():
    """Of equally many samples; missing values have their own."""
    values = np.array([3.0, np.nan, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(to_intervals(values, 2), [1, 2, 0, 0, 1])
    np.testing.assert_array_equal(to_intervals(np.full(3, np.nan), 2), 0)
    np.testing.assert_array_equal(to_intervals(np.ones(3), 4), 0)
