"""Transforms of y: their inverses, their choice, and quantiles of residuals."""

import numpy as np
import pytest

from sklearn_fsvc._src.targets.encoding import StandardisedTargets
from sklearn_fsvc._src.targets.transforms import (
    KINDS,
    TargetTransformer,
    choose_kind,
    find_heavy_tails,
    residual_quantiles,
    validation_rows,
)

PRICES = np.exp(np.random.default_rng(0).normal(size=(400, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_inverse_returns_y(kind):
    y = np.maximum(PRICES - 0.5, 0)  # some are 0
    transformer = TargetTransformer([kind]).fit(y)
    z = transformer.transform(y)
    np.testing.assert_allclose(transformer.inverse_transform(z), y, atol=1e-3)
    no_residuals = np.zeros((1, 1))
    far = transformer.inverse_mean(np.array([[-1e9], [1e9]]), no_residuals)
    *_, next_largest, largest = np.unique(y)
    limits = {"log": [0, largest], "quantiles": [0, next_largest]}[kind]
    np.testing.assert_allclose(far[:, 0], limits, atol=1e-9)
    assert transformer.inverse_mean(z[:0], no_residuals).shape == (0, 1)


@pytest.mark.parametrize("factor", [2.0**-100, 2.0**-20, 2.0**100])
@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_of_y_changes_no_transform(kind, zeros, factor):
    """`QuantileTransformer` would merge values that differ by less than 1e-7."""
    y = np.maximum(PRICES - np.quantile(PRICES, zeros), 0) if zeros else PRICES
    transformer, other = (TargetTransformer([kind]).fit(values) for values in (y, factor * y))
    z, of_other = transformer.transform(y), other.transform(factor * y)
    if kind == "quantiles":
        np.testing.assert_array_equal(of_other, z)
        inverse = other.inverse_transform(of_other) / factor
        np.testing.assert_array_equal(inverse, transformer.inverse_transform(z))
    else:  # the logarithm of the factor is added
        np.testing.assert_allclose(of_other, z + np.log(factor), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_integer_weights_are_counts(kind):
    weight = np.random.default_rng(1).integers(1, 4, len(PRICES))
    weighted = TargetTransformer([kind]).fit(PRICES, weight.astype(float))
    repeated = TargetTransformer([kind]).fit(np.repeat(PRICES, weight, axis=0))
    np.testing.assert_array_equal(weighted.transform(PRICES), repeated.transform(PRICES))
    np.testing.assert_array_equal(weighted.range_, repeated.range_)


@pytest.mark.parametrize("factor", [1e-3, 1.5, 1e6])
def test_quantiles_do_not_depend_on_a_factor_of_weights(factor):
    weight = np.random.default_rng(1).integers(1, 4, len(PRICES)).astype(float)
    z, scaled = (
        TargetTransformer(["quantiles"]).fit(PRICES, w).transform(PRICES)
        for w in (weight, factor * weight)
    )
    inner = np.abs(z) < 2
    np.testing.assert_allclose(scaled[inner], z[inner], atol=0.05)


@pytest.mark.parametrize("factor", [2.0**-20, 4.0, 2.0**20])
def test_only_the_ratios_of_weights_matter(factor):
    """Unless they are counts: the number of quantiles and rare values are those of the samples."""
    weight = np.random.default_rng(1).uniform(0.5, 1.5, len(PRICES))
    both = weight, factor * weight
    one, other = (TargetTransformer(["quantiles"]).fit(PRICES, w) for w in both)
    np.testing.assert_array_equal(other.transform(PRICES), one.transform(PRICES))
    np.testing.assert_array_equal(other.range_, one.range_)


def test_copies_of_the_largest_value_do_not_extend_the_range():
    """But a value of many samples is predicted, such as 0 or a limit of measurements."""
    values = np.sort(PRICES, axis=0)
    for y in (values, np.append(values, values[-1:], axis=0)):
        transformer = TargetTransformer(["quantiles"]).fit(y)
        high = transformer.inverse_quantile(np.array([[9.0]]))
        np.testing.assert_allclose(high, values[-2:-1])
    capped = np.minimum(values, values[-20])
    high = TargetTransformer(["quantiles"]).fit(capped).inverse_quantile(np.array([[9.0]]))
    np.testing.assert_allclose(high, values[-20:-19])


def test_quantiles_of_equal_values():
    y = np.full((5, 1), 7.0)
    transformer = TargetTransformer(["quantiles"]).fit(y)
    np.testing.assert_allclose(transformer.inverse_transform(transformer.transform(y)), y)


def test_the_logarithm_of_counts():
    """The least positive count is 1, which is added."""
    counts = np.array([[0.0], [1], [2], [7]])
    z = TargetTransformer(["log"]).fit(counts).transform(counts)
    np.testing.assert_allclose(z, np.log1p(counts))
    assert TargetTransformer(["log"]).fit(np.zeros((3, 1))).transform(
        np.zeros((3, 1))
    ).tolist() == ([[0.0]] * 3)


@pytest.mark.parametrize("least", [0, 1])
def test_the_inverse_of_the_least_logarithm_is_exact(least):
    """Rounded up, the lower end of an interval would be above all y that are 0."""
    y = np.arange(least, 9.0)[:, None] * [0.01, 0.1, 0.7, 3.1, 10.0]
    transformer = TargetTransformer(["log"] * 5).fit(y)
    inverse = transformer.inverse_quantile(np.full((100, 5), -99.0))
    np.testing.assert_array_equal(inverse, np.tile(y.min(axis=0), (100, 1)))


def test_the_mean_over_residuals():
    transformer = TargetTransformer(["log", None]).fit(np.hstack([PRICES, PRICES]))
    z, residuals = np.zeros((1, 2)), np.array([[-0.5, 9], [0.5, 9]])
    expected = [[(np.exp(-0.5) + np.exp(0.5)) / 2, 0.0]]
    np.testing.assert_allclose(transformer.inverse_mean(z, residuals), expected)


def test_quantiles_of_weighted_residuals():
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(500, 2))
    weight = rng.integers(0, 4, 500)
    repeated = np.repeat(residuals, weight, axis=0)
    actual = residual_quantiles(residuals, weight.astype(float))
    without_zeros = residual_quantiles(residuals[weight > 0], weight[weight > 0].astype(float))
    np.testing.assert_array_equal(actual, without_zeros)
    expected = residual_quantiles(repeated, np.ones(len(repeated)))
    np.testing.assert_allclose(actual, expected, atol=0.05)
    assert abs(np.std(actual) - 1) < 0.1


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_choices(unit):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 3))
    z = X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=600)
    assert choose_kind(X, unit * np.exp(2 * z)) == "log"
    assert choose_kind(X * [unit, 1, 1], np.exp(2 * z)) == "log"
    assert find_heavy_tails(
        StandardisedTargets.standardise(unit * np.exp(2 * z[:, None])), None
    ) == [0]
    assert choose_kind(X, z**5) == "quantiles"
    assert choose_kind(X, z) is None
    assert choose_kind(X[:40], np.exp(2 * z[:40])) is None  # too few


def test_the_squared_error_must_not_grow():
    """Rare large values that X does not predict: transforms predict the median of the rest."""
    rng = np.random.default_rng(101)
    X = rng.normal(size=(900, 3))
    amounts = np.exp(5 + 1.2 * (X[:, 0] + np.abs(X[:, 1])) + 0.5 * rng.normal(size=900))
    assert choose_kind(X, np.where(rng.random(900) < 0.3, amounts, 0.0)) is None


def test_squared_errors_of_outliers_may_remain():
    """No transform reduces them, and one predicts all other samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = 3 * X[:, 0] + 0.3 * rng.normal(size=600)
    y[::100] += 500 * rng.normal(size=6)
    assert choose_kind(X, y) == "quantiles"


def test_rows_are_bounded_and_ascending():
    rows = validation_rows(np.arange(5000), 3)
    assert len(rows) == 1000
    assert (np.diff(rows) > 0).all()
    assert len(validation_rows(np.arange(5000), 2**17)) == 128
    assert validation_rows(np.arange(9), 3).tolist() == list(range(9))
