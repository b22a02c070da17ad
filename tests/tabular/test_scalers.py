"""Numerical features, compared with hand computation and scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import QuantileTransformer

from sklearn_fsvc import (
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.tabular.scalers import RankScaler
from tabular.tables import convert, preprocessing, score


@pytest.mark.parametrize("largest", [6.0, 1e30])
def test_scores_are_those_of_the_midranks(largest):
    """The missing value is imputed by the median, 4; then each sample has its midrank."""
    H = preprocessing().fit_transform(np.array([[1.0], [np.nan], [3.0], [5.0], [largest]]))
    expected = [score(0.1), 0, score(0.25), score(0.75), score(0.9)]
    np.testing.assert_allclose(H[:, 0], expected, atol=1e-6)


def test_ties_have_the_midrank():
    """Four of six samples are 0: the middle of their ranks is 2 / 6."""
    H = preprocessing().fit_transform(np.array([[0.0], [0], [0], [0], [1], [2]]))
    np.testing.assert_allclose(H[:4, 0], score(2 / 6), atol=1e-6)
    assert H[3, 0] < H[4, 0] < H[5, 0]
    np.testing.assert_allclose(H[5, 0], score(11 / 12), atol=1e-6)
    H = preprocessing().fit_transform(np.array([[7.0], [7], [8]]))
    np.testing.assert_allclose(H[:, 0], [score(1 / 3), score(1 / 3), score(5 / 6)], atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "new_dtype", "largest"),
    [(np.float32, np.float64, 5), (np.float64, np.float32, 5), (np.float64, np.float32, 1e300)],
)
def test_ranks_do_not_depend_on_the_precision(dtype, new_dtype, largest):
    """Of equal values, also of the median, which replaces missing values."""
    X = np.repeat([[0.1], [0.2], [0.5], [np.nan]], 9, axis=0)
    fitted = np.vstack([X, [[-largest], [largest]]]).astype(dtype)
    far = np.finfo(new_dtype).max / 2
    columns = preprocessing().fit(fitted)
    H = columns.transform(np.vstack([X, [[-far], [far]]]).astype(new_dtype))
    np.testing.assert_allclose(H[:-2], columns.transform(fitted)[:-2], atol=1e-6)
    assert H[-2, 0] < H[0, 0] < H[18, 0] < H[-1, 0]


@pytest.mark.parametrize("dtypes", [(np.float64, np.float32), (np.float32, np.float64)])
def test_ranks_do_not_depend_on_the_precision_of_single_columns(dtypes):
    """Beside a column of int64, one of float32 is converted to float64."""
    X = pd.DataFrame({"a": np.repeat([0.1, 0.2, 0.5, 0.7], 9), "b": np.arange(36)})
    X.loc[::5, "a"] = np.nan
    fitted, new = (X.astype({"a": dtype}) for dtype in dtypes)
    columns = preprocessing().fit(fitted)
    np.testing.assert_allclose(columns.transform(new), columns.transform(fitted), atol=1e-6)


def test_integers_that_are_equal_in_float32():
    values = 2**30 + np.arange(5)[:, None]
    columns = preprocessing().fit(np.repeat(values, 9, axis=0))
    assert len(np.unique(columns.transform(values)[:, 0])) == 5


def test_values_that_are_zero_in_float32():
    columns = preprocessing().fit(np.repeat([[0.0], [2e-60]], 9, axis=0))
    ranks = columns.transform([[0.0], [1e-60], [2e-60]])[:, 0]
    assert ranks[0] < ranks[1] < ranks[2]


@pytest.mark.parametrize("unit", [1e-312, 1e-308, 1e-12, 1e12])
def test_scores_do_not_depend_on_the_unit(unit, rng):
    """Also of new values, between the others."""
    X, new = rng.lognormal(size=(2, 50, 1))
    expected, columns = preprocessing().fit(X), preprocessing().fit(unit * X)
    np.testing.assert_allclose(columns.transform(unit * X), expected.transform(X), atol=1e-6)
    np.testing.assert_allclose(columns.transform(unit * new), expected.transform(new), atol=1e-6)


def test_new_values_are_imputed_and_clipped():
    """By the median and the range of the training samples."""
    fitted = preprocessing().fit(np.array([[1.0], [2.0], [4.0], [7.0], [9.0]]))
    H = fitted.transform(np.array([[np.nan], [3.0], [-1e9], [1e9]]))
    np.testing.assert_allclose(H[:, 0], [0, score(0.375), score(0.1), score(0.9)], atol=1e-6)


def test_number_of_quantiles_is_limited_by_the_samples(rng):
    """The parameter `n_quantiles` is restored, also if fit fails."""
    quantiles = RankScaler()
    assert quantiles.fit(rng.random((5, 1))).n_quantiles_ == 5
    assert quantiles.n_quantiles == 1000
    assert quantiles.fit(rng.random((2000, 1))).n_quantiles_ == 1000
    for wrong in (0, "many"):
        quantiles.set_params(n_quantiles=wrong)
        with pytest.raises(ValueError, match="n_quantiles"):
            quantiles.fit(rng.random((5, 1)))
        assert quantiles.n_quantiles == wrong


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7, 3000, 12_000])
def test_quantiles_equal_those_of_scikit_learn(rng, n, missing):
    X = np.column_stack([rng.lognormal(sigma=3, size=n), rng.integers(0, 3, n), np.zeros(n)])
    X[:1] = np.nan if missing and n > 1 else 0
    X = pd.DataFrame(X.astype(np.float32), columns=list("abc"))
    transformer = RankScaler(random_state=0).fit(X)
    expected = QuantileTransformer(n_quantiles=min(n, 1000), random_state=0).fit(X)
    np.testing.assert_allclose(transformer.quantiles_, expected.quantiles_, rtol=1e-9)
    assert transformer.quantiles_.dtype == expected.quantiles_.dtype
    np.testing.assert_array_equal(transformer.references_, expected.references_)
    assert transformer.get_feature_names_out().tolist() == ["a", "b", "c"]


def test_ranks_of_unsorted_values_equal_those_of_scikit_learn(rng):
    """Bit for bit, with ties, missing values and values beyond the range."""
    X = rng.normal(size=(300, 3))
    X[:, 0], X[:, 2] = X[:, 0].round(1), X[:, 2].round()
    new = np.concatenate([X, 5 * rng.normal(size=(50, 3))])
    new[::7, 0] = np.nan
    model = RankScaler(n_quantiles=100, random_state=0).fit(X)
    plain = QuantileTransformer(n_quantiles=100)
    plain.__dict__ |= vars(model)  # the same quantiles
    ranks = QuantileTransformer.transform(model, new)
    np.testing.assert_array_equal(ranks, plain.transform(new))


def test_quantiles_of_a_subsample_are_reproducible(rng):
    """Of more than 10,000 samples scikit-learn draws a subsample."""
    X = rng.random((12_000, 1))
    H = preprocessing().fit_transform(X)
    np.testing.assert_array_equal(preprocessing().fit_transform(X), H)


def test_constant_and_empty_features_become_constants(rng):
    """They are kept, so that the number of features is the same in each fold."""
    X = np.column_stack([np.full(30, 7.0), np.full(30, np.nan), rng.random(30)])
    H = preprocessing().fit_transform(X)
    assert H.shape == (30, 3)
    assert np.isfinite(H).all()
    np.testing.assert_array_equal(np.ptp(H[:, :2], axis=0), 0)


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_values_of_a_column_without_any_in_fit_have_no_effect(library, rng):
    """Also no missing-value indicator, of which networks have learned a single value."""
    X = np.column_stack([rng.random(50), np.full(50, np.nan), rng.random(50)])
    X[0, 0] = np.nan
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(convert(library, X), X[:, 2])
    names = columns.get_feature_names_out().tolist()
    assert "missing__missingindicator_x0" in names
    assert "missing__missingindicator_x1" not in names
    X[::2, 1] = 5
    np.testing.assert_array_equal(columns.transform(convert(library, X)), H)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_standardised_and_clipped(dtype):
    """A feature in addition to the scores; new values are not far beyond the others."""
    X = np.tile(np.array([[1.0], [np.nan], [3.0], [5.0], [90.0]], dtype), (8, 1))
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"].fit(X)
    names = ["numerical__x0", "missing__missingindicator_x0", "values__x0"]
    assert columns.get_feature_names_out().tolist() == names
    H = columns.transform(X)
    complete = np.tile([1.0, 4, 3, 5, 90], 8)
    z = (complete - complete.mean()) / complete.std()
    np.testing.assert_allclose(H[:, 2], z, rtol=1e-5)
    far = columns.transform(np.array([[1e38], [-1e38]], dtype))
    np.testing.assert_allclose(far[:, 2], [z.max() + 1, z.min() - 1], rtol=1e-5)
    assert columns.set_params(values="drop").fit_transform(X).shape == (40, 2)


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e12, 1e39, 1e300])
def test_values_do_not_depend_on_the_unit(unit, rng):
    X = rng.lognormal(size=(50, 1))
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(X)
    np.testing.assert_allclose(clone(columns).fit_transform(unit * X), H, atol=1e-6)


def test_scores_of_float16_are_those_of_float32(rng):
    """In float16, the rank of the largest of 3000 samples would be rounded to 1, of score inf."""
    X = rng.normal(size=(3000, 1)).astype(np.float16)
    fitted = preprocessing().fit(X)
    np.testing.assert_array_equal(fitted.transform(X), fitted.transform(X.astype(np.float32)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("sign", [-1, 1])
def test_largest_finite_values_are_outliers(sign, dtype, rng):
    """Some datasets encode missing values by the largest number."""
    X = rng.uniform(size=(50, 1)).astype(dtype)
    X[::5] = sign * np.finfo(dtype).max
    X[1] = -X[0]
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(X)
    assert H.shape == (50, 2)
    assert np.isfinite(H).all()
    np.testing.assert_array_equal(np.sign(H[::5]), sign)
    np.testing.assert_array_equal(H[:, 0].argsort(kind="stable"), X[:, 0].argsort(kind="stable"))
    np.testing.assert_array_equal(columns.transform(X), H)


def test_median_does_not_overflow():
    X = np.full((6, 1), np.finfo(np.float64).max)
    X[:2, 0] = 1.0, np.nan
    assert np.isfinite(make_tabular_pipeline(TanhRegressor(2))[:-1].fit_transform(X)).all()


def test_subnormal_values(rng):
    X = np.round(rng.normal(size=(50, 1)), 1)
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(X)
    np.testing.assert_allclose(clone(columns).fit_transform(X * 1e-320), H, atol=1e-2)
    far = columns.fit(X * 1e-320).transform(np.array([[1e308], [-1e308]]))
    np.testing.assert_allclose(far[:, 1], [H[:, 1].max() + 1, H[:, 1].min() - 1], rtol=1e-2)


@pytest.mark.parametrize("n", [39, 40])
def test_few_samples_of_regressors_have_no_ranks(rng, n):
    """But standardised values, also of new samples a little beyond the range of the others."""
    X = rng.lognormal(size=(n, 2))
    X[3, 1] = np.nan
    fitted = make_tabular_pipeline(TanhRegressor(5, random_state=0))[:-1].fit(X, X[:, 0])
    names = fitted.get_feature_names_out().tolist()
    assert names[:2] == ["numerical__x0", "numerical__x1"]
    assert sum(name.startswith("values__") for name in names) == (0 if n < 40 else 2)
    new = np.array([[X[:, 0].mean() + 2 * X[:, 0].std(), np.nan]])
    largest = fitted.transform([[X[:, 0].max(), 1.0]])[0, 0]
    is_rank = largest == fitted.transform([[2 * X[:, 0].max(), 1.0]])[0, 0]
    assert is_rank == (n == 40)
    column = names.index("numerical__x0" if n < 40 else "values__x0")
    np.testing.assert_allclose(fitted.transform(new)[0, column], 2, rtol=1e-6)


def test_totals_of_heavy_tailed_features():
    """Values keep the size of outliers: clipped at 3 standard deviations, R2 would be .83."""
    X = np.random.default_rng(0).lognormal(sigma=1.5, size=(800, 6))
    y = X.sum(axis=1)
    network = TanhRegressor(500, feature_weights=None, random_state=0)
    model = make_tabular_pipeline(network).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.95
