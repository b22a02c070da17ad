"""CategoryEncoder: one-hot features, mean targets of many categories, and warnings."""

import re
import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhRegressor, make_tabular_pipeline
from sklearn_fsvc._src.tabular.categories import (
    CategoryEncoder,
    category_codes,
    fit_ordinal,
    unify_missing,
)
from tabular.tables import convert, make_frame, preprocessing


def test_distances_of_categories():
    """Two categories are at Manhattan distance 1, an unknown one about as far from each."""
    fitted = preprocessing().fit(pd.DataFrame({"color": ["red", "green", "blue", "blue"]}))
    H = fitted.transform(pd.DataFrame({"color": ["blue", "green", "red", "pink"]}))
    unknown = [0.25, 0.125, 0.125]
    np.testing.assert_array_equal(H, [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], unknown])
    distances = cdist(H, H, "cityblock")
    np.testing.assert_array_equal(distances[:3, :3], 1 - np.eye(3))
    np.testing.assert_array_equal(distances[3, :3], [0.5, 0.75, 0.75])


@pytest.mark.parametrize("dtype", [object, "str", "string", "category", "boolean"])
def test_missing_values_of_pandas_are_one_category(dtype):
    """All kinds of missing values are one category, and as the mean sample if unknown."""
    values = [True, None, False] if dtype == "boolean" else ["b", None, "a"]
    column = pd.DataFrame({"c": pd.Series(values, dtype=dtype)})
    if dtype is object:
        column.loc[3] = np.nan
    H = preprocessing().fit_transform(column)
    expected = [[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0], [0, 0, 0.5]][: len(column)]
    np.testing.assert_array_equal(H, expected)
    without = preprocessing().fit(column.iloc[[0, 2]])
    np.testing.assert_array_equal(without.transform(column.iloc[[1]]), [[0.25, 0.25]])


def test_missing_values_of_polars_are_a_category():
    pl = pytest.importorskip("polars")
    for dtype in (pl.String, pl.Categorical, pl.Enum(["a", "b"])):
        column = pl.DataFrame({"c": pl.Series(["b", None, "a"], dtype=dtype)})
        H = preprocessing().fit_transform(column)
        np.testing.assert_array_equal(H, [[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0]])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_large_integers_are_not_rounded(library):
    """They would be, in a matrix of float64 with missing values or with a column of floats.

    Beside missing values and strings, polars would convert them to floats, and beside dates fail.
    """
    codes = (2**53 + np.arange(60) % 3).tolist()
    days = [date(2026, 1, 1), date(2026, 1, 2)] * 30
    columns = {"a": codes, "b": [1.5, 0.5] * 30, "missing": [None, *codes[1:]]}
    columns |= {"text": ["a", "b"] * 30, "day": days}
    table = getattr(pytest.importorskip(library), "table" if library == "pyarrow" else "DataFrame")
    for names in (["a", "b"], ["missing"], ["missing", "text"], ["a", "day"]):
        X = table({name: columns[name] for name in names})
        network = TanhClassifier(5, feature_weights=None)
        model = make_tabular_pipeline(network, categorical_features=names)
        encoded = model.fit(X, codes)[:-1].get_feature_names_out()
        for code in set(codes):
            assert f"categorical__{names[0]}_{code}" in encoded


def make_missing(container):
    """Return the same categories, some of which are missing, in a container."""
    values = ["b", None, "a", None, "b"]
    if container == "array with None":
        return np.array(values, dtype=object)[:, None]
    if container == "array with NaN":
        return np.array([np.nan if v is None else v for v in values], dtype=object)[:, None]
    if container == "array with NA":
        return np.array([pd.NA if v is None else v for v in values], dtype=object)[:, None]
    dtype = object if container == "pandas with None" else "category"
    if container == "polars":
        return make_frame("polars", x0=values)
    return pd.DataFrame({"x0": pd.Series(values, dtype=dtype)})


CONTAINERS = [
    "pandas", "pandas with None", "polars", "array with None", "array with NaN", "array with NA",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:X ")  # of names in only one of fit and transform
@pytest.mark.parametrize("container", CONTAINERS)
def test_missing_values_are_the_same_category_in_all_containers(container):
    """With the same feature name; also of interactions."""
    X = make_missing(container)
    encoder = CategoryEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0_a", "x0_b", "x0_nan"]
    expected = encoder.transform(X)
    np.testing.assert_array_equal(expected.argmax(axis=1), [1, 2, 0, 2, 1])
    codes = category_codes(fit_ordinal(unify_missing(X)), unify_missing(X))
    for other in CONTAINERS:
        H = encoder.transform(make_missing(other))
        np.testing.assert_array_equal(H, expected)
        new = category_codes(fit_ordinal(unify_missing(X)), unify_missing(make_missing(other)))
        np.testing.assert_array_equal(new, codes)


def encode(name, values):
    """Return the warnings of fit for a categorical column, and its encoding."""
    X = pd.DataFrame({name: values})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        H = preprocessing().fit_transform(X)
    return " ".join(str(warning.message) for warning in caught), H


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([f"user {i}" for i in range(300)], "'c': unique values in most samples.*drop them"),
        ([f"{i}" for i in range(300)], r"'c': numbers as text.*to_numeric"),
        ([i / 7 for i in range(300)], r"'c': numbers as text.*to_numeric"),
        ([*"??-", *map(str, range(297))], r"'c': numbers as text, and .*coerce"),
        ([*"?-", *(f"{i / 7:.2f} %" for i in range(298))], "'c': numbers as .*symbols.*to_numeric"),
        ([f"{7 * i:,}" for i in range(300)], "'c': numbers as text with symbols"),
        ([f"€{i},50" for i in range(300)], "'c': numbers as text with symbols"),
        ([f"{1 + i % 9}/11/2026" for i in range(300)], "'c': dates as text.*to_datetime"),
        ([f"town {i % 140}" for i in range(300)], "'c': more than max_categories=100.*TargetE"),
        ([f"name {i}" for i in range(30)], "'c': unique values in most samples"),
        ([f"it broke after day {i}" for i in range(90)], "'c': texts that differ.*TfidfVector"),
    ],
    ids=[
        "ID",
        "numbers",
        "objects",
        "marked",
        "percentages",
        "thousands",
        "decimal commas",
        "slashes",
        "many",
        "few",
        "texts",
    ],
)
def test_warning_for_doubtful_categories(values, what):
    """It includes the remedy; at most 100 features are encoded."""
    message, H = encode("c", np.array(values, dtype=object))
    assert re.search(what, message.replace("\n", " "))
    assert H.shape[1] <= 100
    np.testing.assert_array_equal(H.sum(axis=1), 0.5)


@pytest.mark.parametrize(
    "values",
    [
        [f"town {i % 100}" for i in range(300)],
        [f"name {i}" for i in range(20)],
        ["2026-01-01", "2027-01-01"] * 9,
        [*"ab", None] * 9,
        pd.Categorical([i % 50 for i in range(300)]),
        [f"{10000 + 7 * (i % 90)}" for i in range(300)],
        [f"{i % 90:02}" for i in range(300)],
        ["unknown", *(f"{10000 + 7 * (i % 90)}" for i in range(300))],
        [*"ABC", *(f"{i % 90}" for i in range(300))],
        [f"{i % 9},{i % 5},{i % 2}" for i in range(300)],
    ],
    ids=[
        "towns",
        "names",
        "two dates",
        "missing",
        "integers",
        "ZIP codes",
        "leading zeros",
        "one unknown",
        "codes with letters",
        "lists of codes",
    ],
)
def test_no_warning_for_categories(values):
    message, H = encode("c", values)
    assert message == ""
    assert H.shape[1] == len(set(values))


@pytest.mark.parametrize(
    "values", [[f"{i}" for i in range(90)] * 3, [f"{1 + i}/11/2026" for i in range(30)] * 3]
)
def test_named_columns_are_categorical_without_a_warning(values):
    """Numbers and dates as text, too, and those of the dtype "category"."""
    X = pd.DataFrame({"c": values})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        H = preprocessing(categorical_features=["c"]).fit_transform(X)
        np.testing.assert_array_equal(preprocessing().fit_transform(X.astype("category")), H)
    with pytest.warns(UserWarning, match="'c': .* as text"):
        np.testing.assert_array_equal(preprocessing().fit_transform(X), H)


@pytest.mark.parametrize("name", ["string", "large_string"])
def test_warning_for_strings_of_pyarrow(name):
    """Of numbers and dates as text, as for other strings."""
    pa = pytest.importorskip("pyarrow")
    dtype = pd.ArrowDtype(getattr(pa, name)())
    dates = [f"{1 + i % 9}/{1 + i % 7}/2026" for i in range(300)]
    X = pd.DataFrame({"a": [f"{i}" for i in range(300)], "b": dates})
    with pytest.warns(UserWarning, match=r"(?s)'b': dates as text.*'a': numbers as text"):
        preprocessing().fit(X.astype(dtype))


@pytest.mark.parametrize("dtype", ["int64", "category"])
def test_advice_for_many_integers(dtype):
    """Not to convert them to numbers."""
    X = pd.DataFrame({"c": np.arange(300) % 140}).astype(dtype)
    with pytest.warns(UserWarning, match="'c': more than max_categories=100"):
        preprocessing(categorical_features=["c"]).fit(X)


@pytest.mark.parametrize("n_categories", [5, 130])
def test_one_hot_features_are_those_of_scikit_learn(n_categories, rng):
    """Except for unknown categories, which get the mean."""
    values = rng.integers(n_categories, size=(400, 2)).astype(object)
    values[rng.random((400, 2)) < 0.1] = np.nan
    new = rng.integers(n_categories + 5, size=(50, 2)).astype(object)
    reference = OneHotEncoder(
        max_categories=100, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    actual = CategoryEncoder()
    if n_categories > 100:
        # Of equally frequent categories the first ones are kept, and scikit-learn keeps the last.
        values = np.repeat(np.arange(n_categories), 1 + np.arange(n_categories))[:, None]
        new = rng.integers(n_categories + 5, size=(50, 1))
        with pytest.warns(UserWarning, match="max_categories"):
            H = actual.fit_transform(values)
    else:
        H = actual.fit_transform(values)
    one_hot = reference.fit_transform(values)
    np.testing.assert_array_equal(2 * H, one_hot)
    expected = reference.transform(new).reshape(*new.shape, -1)
    mean = one_hot.mean(axis=0).reshape(expected.shape[1:])
    expected = np.where(expected.any(axis=2, keepdims=True), expected, mean)
    np.testing.assert_allclose(2 * actual.transform(new), expected.reshape(50, -1), atol=1e-7)
    np.testing.assert_array_equal(actual.get_feature_names_out(), reference.get_feature_names_out())


def test_infrequent_categories_share_a_feature():
    """So do unknown ones; with max_categories=None each has its own, without a warning."""
    values = np.repeat([f"town {i}" for i in range(140)], np.arange(140, 0, -1))
    X = pd.DataFrame({"c": values})
    with pytest.warns(UserWarning, match="max_categories=100"):
        fitted = preprocessing().fit(X)
    H = fitted.transform(pd.DataFrame({"c": ["town 98", "town 99", "town 139", "new"]}))
    np.testing.assert_array_equal(H.argmax(axis=1)[1:], 99)
    assert (H > 0).sum() == 4
    assert H[0, 99] == 0
    fitted.set_params(categorical__max_categories=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.fit_transform(X).shape[1] == 140


N_SHOPS = 300


def make_shops(n, seed=0, n_shops=N_SHOPS):
    """Return samples of shops with one numerical feature, and the log-odds of each sample."""
    effects = 2 * np.random.default_rng(7).normal(size=n_shops)
    rng = np.random.default_rng(seed)
    shop, price = rng.integers(n_shops, size=n), rng.normal(size=n)
    X = pd.DataFrame({"price": price, "shop": [f"shop {code}" for code in shop]})
    return X, effects[shop] + price


def feature_names(model):
    return model[:-1].get_feature_names_out().tolist()


@pytest.mark.parametrize("n_shops", [pytest.param(40, marks=pytest.mark.exhaustive), 300])
def test_many_categories_are_encoded_by_their_mean_target(n_shops):
    """Without a warning. Up to 100 of them have one-hot features, too."""
    X, odds = make_shops(3000, n_shops=n_shops)
    X_test, test_odds = make_shops(1000, seed=1, n_shops=n_shops)
    model = make_tabular_pipeline(RBFClassifier(50, feature_weights=None, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, odds > 0)
    n_one_hot = n_shops if n_shops <= 100 else 0
    assert len(feature_names(model)) == 3 + n_one_hot  # the price has two
    assert "categorical__mean(shop)" in feature_names(model)
    # The sign of the log-odds is known but for what is uncertain of the means of ten samples.
    assert model.score(X_test, test_odds > 0) > 0.9


def test_effects_of_a_feature_in_many_categories(rng):
    """Mean targets do not contain them: the slope of each of 120 shops, all of the same mean."""
    shop, price = rng.integers(120, size=6000), rng.normal(size=6000)
    X = pd.DataFrame({"price": price, "shop": [f"shop {code}" for code in shop]})
    y = rng.choice([-1, 1], 120)[shop] * price > 0
    model = make_tabular_pipeline(
        RBFClassifier(600, kernel="laplacian", feature_weights=None, alpha=0.1, random_state=0)
    )
    model.fit(X[:5000], y[:5000])
    assert len(feature_names(model)) >= 121
    assert model.score(X[5000:], y[5000:]) > 0.9


def make_towns():
    """Return towns, town 0 of 140 samples to town 139 of one, and their target."""
    codes = np.repeat(np.arange(140), np.arange(140, 0, -1))
    return pd.DataFrame({"c": [f"town {code:03}" for code in codes]}), codes % 2


def names_of_towns(**params):
    X, y = make_towns()
    encoder = CategoryEncoder("classification", **params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        H = encoder.fit_transform(X, y)
    names = encoder.get_feature_names_out().tolist()
    assert H.shape == (len(X), len(names))
    assert len(encoder.feature_origins()) == len(names)
    return names


def test_frequent_categories_have_one_hot_features_beside_means():
    """Those of 20 samples or more; all others, and unknown ones, share one, and have means."""
    expected = [f"c_town {code:03}" for code in range(121)] + ["c_infrequent_sklearn", "mean(c)"]
    assert names_of_towns() == expected
    X, y = make_towns()
    encoder = CategoryEncoder("classification").fit(X, y)
    H = encoder.transform(pd.DataFrame({"c": ["town 120", "town 121", "town 139", "new"]}))
    np.testing.assert_array_equal(H[:, :-1].argmax(axis=1), [120, 121, 121, 121])
    np.testing.assert_array_equal(H[:, :-1].sum(axis=1), 0.5)
    np.testing.assert_allclose(H[[0, 1, 3], -1], [0, 1, y.mean()], atol=0.05)


def test_limits_of_one_hot_features_beside_means(monkeypatch):
    """Five times `max_categories`, and a number of values, since they are dense."""
    assert len(names_of_towns(max_categories=10)) == 50 + 1
    assert len(names_of_towns(max_categories=None)) == 140 + 1
    n_samples = len(make_towns()[0])
    monkeypatch.setattr("sklearn_fsvc._src.tabular.categories._MAX_VALUES", 30 * n_samples)
    assert len(names_of_towns()) == 30 + 1
    monkeypatch.setattr("sklearn_fsvc._src.tabular.categories._MAX_VALUES", n_samples)
    assert names_of_towns() == ["mean(c)"]


@pytest.mark.parametrize("n_frequent", [4, 6])
def test_no_one_hot_features_if_most_samples_have_infrequent_categories(n_frequent):
    """A few frequent categories alone have none."""
    codes = np.repeat(np.arange(100 + n_frequent), [5] * 100 + [100] * n_frequent)
    X = pd.DataFrame({"c": [f"c{code}" for code in codes]})
    encoder = CategoryEncoder("classification").fit(X, codes % 2)
    expected = 0 if n_frequent == 4 else n_frequent + 1
    assert len(encoder.get_feature_names_out()) == expected + 1


def test_missing_values_are_a_frequent_category_beside_means():
    X, y = make_towns()
    X.loc[::5, "c"] = None
    encoder = CategoryEncoder("classification").fit(X, y)
    names = encoder.get_feature_names_out().tolist()
    assert names[-3:] == ["c_nan", "c_infrequent_sklearn", "mean(c)"]
    H = encoder.transform(pd.DataFrame({"c": [None, "new"]}))
    np.testing.assert_array_equal(H[:, -3:-1], [[0.5, 0], [0, 0.5]])


def test_means_of_regression_are_those_of_scikit_learn():
    """With the same smoothing; in fit_transform they are cross-fitted."""
    X, y = make_shops(5000)
    encoder = CategoryEncoder("regression").fit(X[["shop"]], y)
    smoothing = 1 / 4  # variance of the price by that of the effects
    standardised = (y - y.mean()) / y.std()
    reference = TargetEncoder(smooth=smoothing).fit(X[["shop"]], standardised)
    np.testing.assert_allclose(
        encoder.transform(X[["shop"]]), reference.transform(X[["shop"]]), atol=0.01
    )
    H = CategoryEncoder("regression").fit_transform(X[["shop"]], y)
    other = y.copy()
    other[7] += 0.1
    changed = CategoryEncoder("regression").fit_transform(X[["shop"]], other)
    same_fold = H[7] - changed[7]
    assert abs(same_fold) < 1e-4 < abs(H - changed).max()


@pytest.mark.parametrize("other", ["numbers", "missing numbers", "few categories", "many"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_effects_of_other_columns_are_subtracted(task, other):
    """Means of the residuals of an additive model are close to the effects of the shops."""
    rng = np.random.default_rng(0)
    n, effects = 3000, rng.normal(size=300)
    shop, item = (
        rng.integers(300, size=n),
        rng.integers(8 if other == "few categories" else 100, size=n),
    )
    number, offsets = rng.normal(size=n), 3 * rng.normal(size=100)
    y = effects[shop] + (2 * number if "numbers" in other else offsets[item])
    X = pd.DataFrame({"shop": [f"s{code}" for code in shop], "x": number, "z": rng.normal(size=n)})
    if other == "missing numbers":
        X.loc[::3, "x"], y[::3] = None, effects[shop[::3]] + 4
    elif other != "numbers":
        X["item"] = [f"i{code}" for code in item]
    if task == "classification":
        y = y > np.median(y)
    cls = {"regression": TanhRegressor, "classification": TanhClassifier}[task]

    def correlation(X):
        transformer = make_tabular_pipeline(cls())[0]
        H = transformer.fit_transform(X, y)
        names = transformer.get_feature_names_out().tolist()
        return np.corrcoef(H[:, names.index("categorical__mean(shop)")], effects[shop])[0, 1]

    alone = correlation(X[["shop"]])
    assert 1 - correlation(X) < {"regression": 0.3, "classification": 0.85}[task] * (1 - alone)


@pytest.mark.parametrize(("n_samples", "n_covariates", "effect"), [(300, 400, 0), (3000, 3, 1)])
def test_effects_are_not_subtracted_if_means_hardly_improve(n_samples, n_covariates, effect):
    """With many samples per shop; nor if an additive model would fit noise exactly."""
    X, y = make_shops(n_samples, n_shops=60)
    covariates = np.random.default_rng(0).normal(size=(n_samples, n_covariates))
    covariates[::7, 1] = covariates[:, 2] = np.nan
    y += effect * covariates[:, 0]
    encoder = CategoryEncoder("regression")
    expected = encoder.fit_transform(X[["shop"]], y)
    H = encoder.fit_transform(X[["shop"]], y, covariates=covariates)
    np.testing.assert_array_equal(H, expected)


@pytest.mark.parametrize("library", ["numpy", "pandas", "nullable", "polars"])
def test_libraries_give_the_same_means_of_residuals(library):
    """Missing numbers have their own interval, whatever the library."""
    X, y = make_shops(1000)
    X["price"] = X["price"].mask(np.arange(1000) % 9 == 0)
    encoder = CategoryEncoder("regression")
    expected = encoder.fit_transform(X[["shop"]], y, covariates=X[["price"]].to_numpy())
    assert abs(expected - encoder.fit_transform(X[["shop"]], y)).max() > 0.01
    transformer = make_tabular_pipeline(TanhRegressor(), categorical_features=[1])[0]
    if library == "numpy":
        table = X.to_numpy(dtype=object)
    elif library == "nullable":
        table = X.astype({"price": "Float64"})
    else:
        table = make_frame(library, price=X["price"].to_numpy(), shop=X["shop"].tolist())
    H = transformer.fit_transform(table, y)
    np.testing.assert_array_equal(H[:, [1]], expected.astype(np.float32))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_noise_is_not_encoded(task):
    """Neither categories without an effect, nor unique values."""
    X, odds = make_shops(2000)
    y = np.random.default_rng(5).permutation(odds > 0)
    encoder = CategoryEncoder(task)
    assert encoder.fit_transform(X[["shop"]], y).shape == (2000, 0)
    with pytest.warns(UserWarning, match="unique values"):
        H = encoder.fit_transform(pd.DataFrame({"id": [f"no{i}" for i in range(2000)]}), odds > 0)
    assert H.shape == (2000, 0)


def test_several_classes_and_outputs():
    """One mean for each class or output; too many for 100 features leave one-hot features."""
    X, odds = make_shops(3000)
    shops = X[["shop"]]
    classes = np.digitize(odds, [-1, 1])
    encoder = CategoryEncoder("classification").fit(shops, classes)
    assert encoder.get_feature_names_out().tolist()[:3] == [f"mean(shop)_{k}" for k in range(3)]
    np.testing.assert_allclose(encoder.transform(shops)[:, :3].sum(axis=1), 1, atol=0.2)
    encoder = CategoryEncoder("regression").fit(shops, np.column_stack([odds, -odds]))
    H = encoder.transform(shops)
    np.testing.assert_allclose(H[:, 0], -H[:, 1], atol=1e-6)
    encoder = CategoryEncoder("classification")
    with pytest.warns(UserWarning, match="max_categories=100"):
        encoder.fit(shops, np.arange(3000) % 101)
    assert len(encoder.get_feature_names_out()) == 100


def test_frequencies_that_matter():
    """A category is the rarer, the larger y is, as one frequent category may have any mean."""
    rng = np.random.default_rng(0)
    shop = (300 * rng.random(4000) ** 3).astype(int)
    X = pd.DataFrame({"shop": [f"s{code}" for code in shop]})
    encoder = CategoryEncoder("regression").fit(X, shop > 100)
    assert "log_count(shop)" in encoder.get_feature_names_out()
    assert "log_count(shop)" not in encoder.fit(X, rng.random(4000)).get_feature_names_out()


def test_missing_and_unknown_shops():
    """Missing values have a mean of their own, unknown categories the overall one."""
    X, odds = make_shops(3000)
    X.loc[odds > 3, "shop"] = None
    encoder = CategoryEncoder("classification").fit(X[["shop"]], odds > 0)
    H = encoder.transform(pd.DataFrame({"shop": [None, "new"]}))
    np.testing.assert_allclose(H[0, 0], 1, atol=0.01)
    np.testing.assert_allclose(H[1, 0], (odds > 0).mean(), atol=1e-6)


@pytest.mark.parametrize(
    "estimator", [TanhClassifier(5, feature_weights=None), TanhRegressor(5, feature_weights=None)]
)
def test_clone_and_refit_of_means(estimator):
    X, odds = make_shops(2000)
    y = (odds > 0).astype(int)
    model = make_tabular_pipeline(estimator.set_params(random_state=0)).fit(X, y)
    expected = model.predict(X)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), expected)
    model.set_params(preprocessing__categorical__task=None)
    with pytest.warns(UserWarning, match="max_categories=100"):
        model.fit(X, y)
    assert len(feature_names(model)) == 102


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_libraries_give_the_same_means(library):
    X, odds = make_shops(1000)
    table = make_frame(library, shop=X["shop"].tolist())
    H = CategoryEncoder("regression").fit_transform(table, odds)
    expected = CategoryEncoder("regression").fit_transform(X[["shop"]].to_numpy(), odds)
    np.testing.assert_array_equal(H, expected)


@pytest.mark.parametrize(
    ("fitted", "values", "message"),
    [
        (list("123"), [1, 2, 3], "contains 1, and contained '1' in fit; .* the type of fit, str"),
        ([1, 2, 3], list("123"), "contains '1', and contained 1 in fit; .* the type of fit, int"),
        ([True, False, True], ["True", "False", None], "contains 'True', and contained False"),
        (["a", "b", None], [None, "x", "y"], "contains 'x', and contained 'a' in fit"),
    ],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_warning_for_columns_of_unknown_categories(library, fitted, values, message):
    """One warning for each such column and call, also with interactions."""
    known = list("uvw")
    table = make_frame(library, c=fitted * 20, d=known * 20)
    model = make_tabular_pipeline(
        TanhClassifier(5, feature_weights=None, random_state=0), categorical_features=["c", "d"]
    ).fit(table, np.arange(60) % 2)
    new = make_frame(library, c=values, d=known)
    expected = rf"Column 'c' of X: none of its values occurred in fit\. It {message}"
    for _ in range(2):
        with pytest.warns(UserWarning, match=expected) as caught:
            model.predict(new)
        assert len(caught) == 1


@pytest.mark.parametrize(
    ("fitted", "values", "message"),
    [
        (["a", "b", None], ["a", "b "], "'b ' did not occur in fit, .* but 'b' occurred"),
        (["No", "Yes", "?"], ["no"], "'no' did not occur in fit, .* but 'No' occurred"),
        ([1, 2, 3], [1, 7, "2"], "'2' did not occur in fit, .* but 2 occurred"),
    ],
)
def test_warning_for_categories_in_another_spelling(fitted, values, message):
    encoder = CategoryEncoder().fit(pd.DataFrame({"c": pd.Series(fitted, dtype=object)}))
    with pytest.warns(UserWarning, match=f"Column 'c' of X: {message}"):
        encoder.transform(pd.DataFrame({"c": pd.Series(values, dtype=object)}))


@pytest.mark.parametrize("estimator", [TanhClassifier(5, feature_weights=None), "classifier"])
@pytest.mark.parametrize(
    ("prefix", "what"), [("no", "unique values in most samples"), ("it is ", "texts that differ")]
)
def test_an_id_causes_one_warning(estimator, prefix, what):
    """By fit, not again by predict: new samples have new IDs, or texts."""
    table = pd.DataFrame({"id": [f"{prefix}{i}" for i in range(60)], "d": list("uvw") * 20})
    model = make_tabular_pipeline(estimator)
    with pytest.warns(UserWarning, match=f"'id': {what}") as caught:
        model.fit(table[:40], np.arange(40) % 2)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(table[40:])


@pytest.mark.parametrize(
    ("fitted", "values"),
    [
        ([1, 2, 3], [1.0, 7.0, 8.0]),
        (["a", "b", None], ["x", None, None]),
        (["a", "b", "c"], [None] * 3),
        ([None] * 3, ["a", "b", "c"]),
        (["a", "b", "c"], ["x", "y", "c"]),
    ],
    ids=["same numbers", "one value", "missing", "missing in fit", "one known"],
)
def test_no_warning_for_unknown_categories(fitted, values):
    encoder = CategoryEncoder().fit(pd.DataFrame({"c": pd.Series(fitted, dtype=object)}))
    encoder.transform(pd.DataFrame({"c": pd.Series(values, dtype=object)}))


def test_columns_of_arrays_in_warnings():
    """Their positions are those among the categorical columns."""
    X = np.array([[0.5, "a", "1"], [1.5, "b", "2"]], dtype=object)
    fitted = preprocessing(categorical_features=[1, 2]).fit(X)
    with pytest.warns(UserWarning, match="Column 1 of the categorical columns of X: none of its"):
        fitted.transform(np.array([[0.5, "a", 1], [1.5, "b", 2]], dtype=object))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize(
    ("library", "new"), [("pandas", "polars"), ("polars", "pandas"), (object, "numpy")]
)
def test_numbers_as_categories_in_another_container(library, new, dtype):
    """Columns of DataFrames become objects; those of arrays remain numbers."""
    X = np.array([[1, 5], [2, 5], [1, 6]], dtype=dtype)
    encoder = preprocessing(categorical_features=[0, 1])
    expected = clone(encoder).fit_transform(X)
    encoder.fit(X.astype(object) if library is object else convert(library, X))
    np.testing.assert_array_equal(encoder.transform(convert(new, X)), expected)


def test_invalid_max_categories():
    encoder = CategoryEncoder(max_categories=0)
    with pytest.raises(ValueError, match="max_categories=0"):
        encoder.fit(pd.DataFrame({"c": list("ab")}))
