"""make_tabular_pipeline against hand computation, on arrays and on tables of pandas and polars."""

import pickle
import re
import warnings
from datetime import date, time
from decimal import Decimal
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import QuantileTransformer

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.tabular.pipelines import MidrankTransformer

normal = NormalDist().inv_cdf


def score(rank):
    """What becomes of a number at a rank between 0 and 1."""
    return (normal(rank) + 12**0.5 * (rank - 0.5)) / 2


def preprocessing(missing=None, **options):
    """What stands before the network."""
    columns = make_tabular_pipeline(TanhProjector(2), **options)["preprocessing"]
    return columns if missing is None else columns.set_params(missing=missing)


def test_a_word_for_the_best():
    assert type(make_tabular_pipeline()[-1]) is StackedClassifier
    assert type(make_tabular_pipeline("regressor")[-1]) is StackedRegressor
    with pytest.raises(ValueError, match="choose one of 'classifier', 'regressor', or give an"):
        make_tabular_pipeline("best")


def table(library, **columns):
    return pytest.importorskip(library).DataFrame(columns)


@pytest.fixture
def mixed(rng):
    """A table of 60 rows with a class that size and color decide, and the class."""
    size = rng.lognormal(sigma=2, size=60)
    color = rng.choice(["red", "green", "blue"], size=60)
    y = (size > 1) ^ (color == "red")
    size[::10] = np.nan
    return pd.DataFrame({"size": size, "color": color, "new": rng.random(60) < 0.5}), y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_for_regressors(dtype):
    """Beside the scores: in standard deviations, the ends drawn in to 3 of them."""
    X = np.array([[1.0], [np.nan], [3.0], [5.0], [90.0]], dtype)
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"].fit(X)
    names = ["numbers__x0", "missing__missingindicator_x0", "values__x0"]
    assert columns.get_feature_names_out().tolist() == names
    H = columns.transform(X)
    complete = np.array([1.0, 4, 3, 5, 90])
    z = (complete - complete.mean()) / complete.std()
    np.testing.assert_allclose(H[:, 2], z / np.sqrt(1 + z**2 / 9), rtol=1e-5)
    far = columns.transform(np.array([[1e38], [-1e38]], dtype))
    np.testing.assert_allclose(far[:, 2], [3, -3], rtol=1e-6)
    assert columns.set_params(values="drop").fit_transform(X).shape == (5, 2)


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e12, 1e39, 1e300])
def test_values_have_no_unit(unit, rng):
    X = rng.lognormal(size=(50, 1))
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(X)
    np.testing.assert_allclose(clone(columns).fit_transform(unit * X), H, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("sign", [-1, 1])
def test_numbers_as_large_as_they_can_be(sign, dtype, rng):
    """Some tables write the largest number where one is missing: outliers as others are."""
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


def test_the_median_of_the_largest_numbers():
    X = np.full((6, 1), np.finfo(np.float64).max)
    X[:2, 0] = 1.0, np.nan
    assert np.isfinite(make_tabular_pipeline(TanhRegressor(2))[:-1].fit_transform(X)).all()


def test_numbers_all_but_0(rng):
    X = np.round(rng.normal(size=(50, 1)), 1)
    columns = make_tabular_pipeline(TanhRegressor(2))["preprocessing"]
    H = columns.fit_transform(X)
    np.testing.assert_allclose(clone(columns).fit_transform(X * 1e-320), H, atol=1e-2)
    far = columns.fit(X * 1e-320).transform(np.array([[1e308], [-1e308]]))
    np.testing.assert_allclose(far[:, 1], [3, -3], rtol=1e-6)


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_float64_cannot_tell_apart(library, dtype):
    numbers = np.arange(50, dtype=dtype)
    for X, names in [(2**60 + numbers, True), (2**53 + 2 * numbers, False), (numbers, False)]:
        X = as_table(library, X[:, None])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            preprocessing().fit(X)
        assert [
            bool(re.search(r"Columns \[('x0'|0)\] .* 2\*\*53", str(w.message))) for w in said
        ] == [True] * names


def test_nullable_integers_that_float64_cannot_tell_apart():
    X = pd.DataFrame({"a": pd.Series([2**60, 2**60 + 1, None], dtype="Int64")})
    with pytest.warns(UserWarning, match=r"Columns \['a'\] of X hold integers beyond 2\*\*53"):
        preprocessing(missing="drop").fit(X)


def test_values_are_for_regressors(mixed):
    X, y = mixed
    for estimator, n in [(Ridge(), 1), (RBFClassifier(5), 0), (TanhProjector(2), 0)]:
        names = make_tabular_pipeline(estimator)["preprocessing"].fit(X, y).get_feature_names_out()
        assert sum(name.startswith("values__") for name in names) == n


@pytest.mark.parametrize("largest", [6.0, 1e30])
def test_numbers(largest):
    """The median (4) takes the place of what is missing; then each row stands on its quantile."""
    H = preprocessing().fit_transform(np.array([[1.0], [np.nan], [3.0], [5.0], [largest]]))
    expected = [score(0.1), 0, score(0.25), score(0.75), score(0.9)]
    np.testing.assert_allclose(H[:, 0], expected, atol=1e-6)


def test_equal_numbers_have_the_rank_in_their_middle():
    """Of six rows four are 0: those that have four ranks of six have 2 / 6."""
    H = preprocessing().fit_transform(np.array([[0.0], [0], [0], [0], [1], [2]]))
    np.testing.assert_allclose(H[:4, 0], score(2 / 6), atol=1e-6)
    assert H[3, 0] < H[4, 0] < H[5, 0]
    np.testing.assert_allclose(H[5, 0], score(11 / 12), atol=1e-6)
    H = preprocessing().fit_transform(np.array([[7.0], [7], [8]]))
    np.testing.assert_allclose(H[:, 0], [score(1 / 3), score(1 / 3), score(5 / 6)], atol=1e-6)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_unit_of_a_column(unit, rng):
    X = rng.lognormal(size=(50, 1))
    H = preprocessing().fit_transform(X)
    np.testing.assert_allclose(preprocessing().fit_transform(unit * X), H, atol=1e-6)


def test_new_numbers():
    """Missing ones get the median of the training rows; beyond the ends all are alike."""
    fitted = preprocessing().fit(np.array([[1.0], [2.0], [4.0], [7.0], [9.0]]))
    H = fitted.transform(np.array([[np.nan], [3.0], [-1e9], [1e9]]))
    np.testing.assert_allclose(H[:, 0], [0, score(0.375), score(0.1), score(0.9)], atol=1e-6)


def test_categories():
    """Two levels lie 1 apart in the Manhattan distance, a new one 0.5 from each."""
    fitted = preprocessing().fit(pd.DataFrame({"color": ["red", "green", "blue"]}))
    H = fitted.transform(pd.DataFrame({"color": ["blue", "green", "red", "pink"]}))
    np.testing.assert_array_equal(H, [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0, 0, 0]])
    distances = cdist(H, H, "cityblock")
    np.testing.assert_array_equal(distances[:3, :3], 1 - np.eye(3))
    np.testing.assert_array_equal(distances[3, :3], 0.5)


@pytest.mark.parametrize("dtype", [object, "str", "string", "category", "boolean"])
def test_missing_category_of_pandas(dtype):
    """All that pandas calls missing is one level; where fit saw none, it is ignored."""
    values = [True, None, False] if dtype == "boolean" else ["b", None, "a"]
    column = pd.DataFrame({"c": pd.Series(values, dtype=dtype)})
    if dtype is object:
        column.loc[3] = np.nan
    H = preprocessing().fit_transform(column)
    expected = [[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0], [0, 0, 0.5]][: len(column)]
    np.testing.assert_array_equal(H, expected)
    without = preprocessing().fit(column.iloc[[0, 2]])
    np.testing.assert_array_equal(without.transform(column.iloc[[1]]), [[0, 0]])


def test_missing_category_of_polars():
    pl = pytest.importorskip("polars")
    for dtype in (pl.String, pl.Categorical, pl.Enum(["a", "b"])):
        column = pl.DataFrame({"c": pl.Series(["b", None, "a"], dtype=dtype)})
        H = preprocessing().fit_transform(column)
        np.testing.assert_array_equal(H, [[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0]])


def test_dtypes_of_pandas():
    dtypes = {
        "numbers": ["float32", "int8", "uint16", "Int64", "Float32"],
        "categories": [object, "str", "string", "category", "bool", "boolean"],
    }
    columns = {
        f"{kind}__{dtype}": pd.Series([0, 1, 1], dtype="int8").astype(dtype)
        for kind in dtypes
        for dtype in dtypes[kind]
    }
    names = preprocessing().fit(pd.DataFrame(columns)).get_feature_names_out()
    expected = [f"numbers__{name}" for name in columns if name.startswith("numbers")]
    assert list(names[: len(expected)]) == expected
    assert all(name.startswith("categories__categories__") for name in names[len(expected) :])
    assert len(names) == 5 + 2 * 6


def test_dtypes_of_polars():
    pl = pytest.importorskip("polars")
    numbers = {str(dtype): pl.Series([0, 1, None], dtype=dtype) for dtype in (pl.Int8, pl.Float32)}
    words = [pl.String, pl.Categorical, pl.Enum(["a", "b"])]
    categories = {f"c{i}": pl.Series(["a", "b", "a"], dtype=d) for i, d in enumerate(words)}
    frame = pl.DataFrame({**categories, "bool": [True, False, True], **numbers})
    names = preprocessing(missing="drop").fit(frame).get_feature_names_out().tolist()
    levels = [f"{name}_{level}" for name in categories for level in "ab"]
    levels += ["bool_False", "bool_True"]
    assert names == [f"numbers__{n}" for n in numbers] + [f"categories__{n}" for n in levels]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_give_what_arrays_give(library, rng):
    """Also with columns in another order, where the table has names."""
    numbers, codes = rng.random((40, 2)).round(2), rng.integers(3, size=40)
    X = np.column_stack([codes, numbers])
    frame = table(library, c=[f"level {i}" for i in codes], a=numbers[:, 0], b=numbers[:, 1])
    expected = preprocessing(categorical_features=[0]).fit_transform(X)
    fitted = preprocessing().fit(frame)
    np.testing.assert_array_equal(fitted.transform(frame), expected)
    np.testing.assert_array_equal(fitted.transform(frame[["b", "c", "a"]]), expected)


@pytest.mark.parametrize(
    "features", [["c", "d"], [1, 3], [-3, 3], np.array([False, True, False, True]), ("d", "c")]
)
def test_categorical_features(features):
    """By name, by position, by a mask; the order is that of the table."""
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": [0, 7, 7], "b": [4, 5, 5], "d": ["x", "x", "y"]})
    fitted = preprocessing(categorical_features=features).fit(X)
    assert fitted.get_feature_names_out().tolist() == [
        "numbers__a", "numbers__b", "categories__c_0", "categories__c_7",
        "categories__d_x", "categories__d_y",
    ]  # fmt: skip


@pytest.mark.parametrize("features", [None, [], "from_dtype"])
def test_no_categories(features):
    X = np.array([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]])
    low, high = score(1 / 6), score(5 / 6)
    expected = [[low, high], [0, low], [high, 0]]
    for numbers in (X, X.tolist(), X.astype(object), X.astype(np.uint8), pd.DataFrame(X)):
        H = preprocessing(categorical_features=features).fit_transform(numbers)
        np.testing.assert_allclose(H, expected, atol=1e-6)


def test_bools_of_an_array():
    H = preprocessing().fit_transform(np.array([[True, False], [False, False]]))
    np.testing.assert_array_equal(H, [[0, 0.5, 0.5], [0.5, 0, 0.5]])


def test_object_array():
    X = np.array([[1, "a"], [None, "b"], [3, "a"]], dtype=object)
    H = preprocessing(categorical_features=[1]).fit_transform(X)
    expected = [[score(1 / 6), 0.5, 0], [0, 0, 0.5], [score(5 / 6), 0.5, 0]]
    np.testing.assert_allclose(H, expected, atol=1e-6)


def test_constant_and_empty_columns(rng):
    """They stay, as constants, so that features keep their number from fold to fold."""
    X = np.column_stack([np.full(30, 7.0), np.full(30, np.nan), rng.random(30)])
    H = preprocessing().fit_transform(X)
    assert H.shape == (30, 4)
    assert np.isfinite(H).all()
    np.testing.assert_array_equal(np.ptp(H[:, [0, 1, 3]], axis=0), 0)


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_where_numbers_are_missing(library, rng):
    """A column of 0 and 1 for each column where fit has seen one missing, and no other."""
    X = rng.random((30, 3), dtype=np.float32)
    X[::5, 0] = X[1::7, 2] = np.nan
    other = rng.random((30, 3), dtype=np.float32)
    other[3:5] = np.nan
    fitted = preprocessing().fit(as_table(library, X))
    for rows in (X, other):
        H = fitted.transform(as_table(library, rows))
        assert H.dtype == np.float32
        assert H.shape == (30, 5)
        np.testing.assert_array_equal(H[:, 3:], np.isnan(rows[:, [0, 2]]))
    H = preprocessing(missing="drop").fit_transform(as_table(library, X))
    np.testing.assert_array_equal(H, fitted.transform(as_table(library, X))[:, :3])


def as_table(library, X):
    if library == "numpy":
        return X
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    if library == "polars":  # where a number is missing there is null
        pl = pytest.importorskip("polars")
        return pl.DataFrame(columns).fill_nan(None)
    return pd.DataFrame(columns)


@pytest.mark.parametrize("estimator", ["classifier", "regressor"])
def test_all_columns_are_float32(rng, estimator):
    """Numbers, levels, where a number is missing, crosses, and values for regressors."""
    X, levels = rng.random((90, 2)), rng.integers(2, size=(90, 2))
    X[::9] = np.nan
    mixed = pd.DataFrame({"a": X[:, 0], "b": levels[:, 0] > 0, "c": levels[:, 1] > 0})
    pipeline = make_tabular_pipeline(estimator)[:-1]
    for table in (X, X.astype(np.float32), mixed, mixed[["b", "c"]]):
        H = pipeline.fit_transform(table, levels.sum(axis=1) % 2)
        assert H.dtype == pipeline.transform(table).dtype == np.float32
    assert any("*" in name for name in pipeline.get_feature_names_out())


def test_quantiles_are_as_many_as_rows_at_most(rng):
    """And `n_quantiles` stays what it was, for clones and for the next fit."""
    quantiles = MidrankTransformer()
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
def test_quantiles_are_those_of_scikit_learn(rng, n, missing):
    X = np.column_stack([rng.lognormal(sigma=3, size=n), rng.integers(0, 3, n), np.zeros(n)])
    X[:1] = np.nan if missing and n > 1 else 0
    X = pd.DataFrame(X.astype(np.float32), columns=list("abc"))
    found = MidrankTransformer(random_state=0).fit(X)
    expected = QuantileTransformer(n_quantiles=min(n, 1000), random_state=0).fit(X)
    np.testing.assert_allclose(found.quantiles_, expected.quantiles_, rtol=1e-9)
    assert found.quantiles_.dtype == expected.quantiles_.dtype
    np.testing.assert_array_equal(found.references_, expected.references_)
    assert found.get_feature_names_out().tolist() == ["a", "b", "c"]


def test_same_quantiles_each_time(rng):
    """Of more than 10,000 rows scikit-learn draws some."""
    X = rng.random((12_000, 1))
    H = preprocessing().fit_transform(X)
    np.testing.assert_array_equal(preprocessing().fit_transform(X), H)


def test_clone_and_pickle(mixed):
    X, y = mixed
    network = RBFClassifier(random_state=0)
    pipeline = make_tabular_pipeline(network, categorical_features=["color", "new"])
    expected = pipeline.fit(X, y).decision_function(X)
    loaded = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    again = clone(loaded)
    assert not hasattr(again["preprocessing"], "transformers_")
    np.testing.assert_array_equal(again.fit(X, y).decision_function(X), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(mixed, library):
    module = pytest.importorskip(library)
    X, y = mixed
    X = module.DataFrame({name: X[name].to_numpy() for name in X})
    pipeline = make_tabular_pipeline(RBFClassifier()).fit(X, y)
    expected = pipeline[:-1].transform(X)
    pipeline["preprocessing"].set_output(transform=library)
    H = pipeline.fit(X, y)[:-1].transform(X)
    assert isinstance(H, module.DataFrame)
    assert list(H.columns) == list(pipeline[:-1].get_feature_names_out())
    np.testing.assert_array_equal(H.to_numpy(), expected)


def test_any_estimator(mixed):
    X, y = mixed
    for estimator, name in [(Ridge(), "ridge"), (TanhProjector(3), "tanhprojector")]:
        pipeline = make_tabular_pipeline(estimator)
        assert [step for step, _ in pipeline.steps] == ["preprocessing", name]
        assert pipeline[-1] is estimator
        pipeline.fit(X, y)
    assert pipeline.transform(X).shape == (60, 3)


def test_grid_search(mixed):
    """Parameters of the network, of the preprocessing, and of its parts."""
    X, y = mixed
    grid = {
        "rbfclassifier__n_hidden": [5, 20],
        "preprocessing__transformer_weights": [{"categories": 0.5}, None],
        "preprocessing__numbers__ranks__n_quantiles": [2, 1000],
    }
    pipeline = make_tabular_pipeline(RBFClassifier(random_state=0))
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 8
    search.best_estimator_.set_params(preprocessing__transformer_weights=None).fit(X, y)
    assert search.best_estimator_[:-1].transform(X).max(axis=0)[1:].tolist() == [1.0] * 6


def test_hidden_size_search(mixed):
    X, y = mixed
    grid = {"tanhclassifier__n_hidden": [2, 10, 30], "tanhclassifier__alpha": [0.1, 10.0]}
    pipeline = make_tabular_pipeline(TanhClassifier(random_state=0))
    ours = HiddenSizeSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    theirs = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


TABLE = pd.DataFrame({"a": [1.0, 2.0], "c": ["x", "y"]})


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["c", "z"], r"categorical_features=\['c', 'z'\] names \['z'\]; .*\['a', 'c'\]"),
        ([1, 2], r"names \[2\]"),
        ([-3], r"names \[-3\]"),
        ([True], "categorical_features has 1 .* 2 columns"),
        (["a"], r"Column 'c' of X .*categorical_features=\['a'\]"),
        (None, "Column 'c' of X .*categorical_features=None"),
    ],
)
def test_bad_columns(features, message):
    with pytest.raises(ValueError, match=message):
        preprocessing(categorical_features=features).fit(TABLE)


@pytest.mark.parametrize("features", ["auto", 1, [[1]], True])
def test_bad_categorical_features(features):
    with pytest.raises(TypeError, match=r'categorical_features=.* must be "from_dtype"'):
        make_tabular_pipeline(RBFClassifier(), categorical_features=features)


@pytest.mark.parametrize("estimator", [RBFClassifier, None])
def test_bad_estimator(estimator):
    with pytest.raises(TypeError, match=r"estimator=.*give an instance"):
        make_tabular_pipeline(estimator)


@pytest.mark.parametrize("features", ["from_dtype", ["c"]])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_are_refused(library, features):
    """They would become numbers of 19 digits, and missing ones of polars the lowest of all."""
    days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")
    for values in (days, days - days[0]):
        X = table(library, a=[1.0, 2.0], c=["x", "y"], when=values)
        with pytest.raises(ValueError, match="Column 'when' of X"):
            preprocessing(categorical_features=features).fit(X)


def test_lists_are_refused():
    X = table("polars", a=[1.0, 2.0], pairs=[[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="Column 'pairs' of X"):
        preprocessing().fit(X)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (
            np.array([[1.0], [np.inf]]),
            ValueError,
            "Column 0 of X holds infinity in 1 of 2 rows, row 1",
        ),
        ([[1, "a"], [2, "b"]], ValueError, "Column 1 of X.*categorical_features='from_dtype'"),
        (np.array([[1.0], [pd.NA]]), ValueError, "Column 0 of X"),
        (np.array([["1", "a"]]), ValueError, "Column 1 of X.*categorical_features='from_dtype'"),
        (np.ones((2, 2), dtype=complex), ValueError, "Column 0 of X"),
        (csr_array(np.eye(3)), TypeError, "toarray"),
        (np.arange(3.0), ValueError, r"X has shape \(3,\)"),
        (pd.Series([1.0, 2.0]), ValueError, r"X has shape \(2,\)"),
        ([[1.0], [np.inf]], ValueError, "Column 0 of X holds infinity"),
        ([[10**400], [1]], ValueError, "Column 0 of X .* does not hold numbers"),
        ([{"a": 1}, {"a": 2}], TypeError, r"X is a list of dictionaries.*pandas\.DataFrame\(X\)"),
        ({"a": [1, 2]}, TypeError, r"X is a dict.*pandas\.DataFrame\(X\)"),
        (np.array([(1, 2)], "i4,i4"), TypeError, r"X is a ndarray.*pandas\.DataFrame\(X\)"),
    ],
)
def test_bad_rows(X, error, message):
    with pytest.raises(error, match=message):
        preprocessing().fit(X)


def test_tables_of_arrow(mixed):
    """They are as those of pandas, and may be mixed with them."""
    pa = pytest.importorskip("pyarrow")
    X, y = mixed
    X = X.assign(color=X["color"].astype("category"))
    model = make_tabular_pipeline(RBFClassifier(10, random_state=0))
    expected = clone(model).fit(X, y).decision_function(X)
    held = pa.Table.from_pandas(X)
    (batch,) = held.to_batches()
    for rows in (held, batch):
        found = clone(model).fit(rows, y)
        assert found.feature_names_in_.tolist() == X.columns.tolist()
        np.testing.assert_array_equal(found.decision_function(rows), expected)
        np.testing.assert_array_equal(found.decision_function(X), expected)
    with pytest.raises(TypeError, match=r"X is a RecordBatchReader.*give X\.read_pandas\(\)"):
        model.fit(held.to_reader(), y)


@pytest.mark.parametrize("estimator", [RBFClassifier(10), TanhClassifier(10)])
def test_rows_of_arrow_for_a_network(estimator, mixed):
    pa = pytest.importorskip("pyarrow")
    X, y = mixed
    numbers = pa.table({"a": np.arange(60.0), "b": X["new"].to_numpy(dtype=float)})
    model = clone(estimator).set_params(random_state=0).fit(numbers, y)
    expected = model.decision_function(numbers.to_pandas())
    np.testing.assert_array_equal(model.decision_function(numbers), expected)
    with pytest.raises(TypeError, match=r"X is a Table.*X\.to_pandas\(\)"):
        clone(estimator).fit(pa.table({"a": ["x", "y"] * 30}), y)
    with pytest.raises(TypeError, match=r"X is a list of dictionaries.*pandas\.DataFrame"):
        clone(estimator).fit([{"a": 1.0}, {"a": 2.0}] * 30, y)


def test_tables_of_polars_that_are_not_there_yet():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"X is a LazyFrame.*give X\.collect\(\)"):
        preprocessing().fit(pl.DataFrame({"a": [1.0, 2.0]}).lazy())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_infinite_numbers_of_rows_that_come_later(library):
    """The column is named as in the table, whatever stands before it."""
    words, infinite = ["x", "y", "x"], [1.0, np.inf, np.inf]
    fitted = preprocessing().fit(table(library, c=words, a=[1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="Column 'a' of X holds infinity in 2 of 3 rows, row 1"):
        fitted.transform(table(library, c=words, a=infinite))
    by_position = preprocessing(categorical_features=[0]).fit(np.array([[0, 1.0], [1, 2.0]]))
    with pytest.raises(ValueError, match=r"Column 1 of X.*numpy\.nan"):
        by_position.transform(np.array([[0, np.inf]]))


def levels_of(name, values):
    """What fit says of a column of categories, and the columns that it becomes."""
    X = pd.DataFrame({name: values})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        H = preprocessing().fit_transform(X)
    return " ".join(str(warning.message) for warning in said), H


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([f"user {i}" for i in range(300)], "'c': a value of its own in most rows.*TfidfVec"),
        ([f"{i}" for i in range(300)], r"'c': numbers as text.*to_numeric"),
        ([i / 7 for i in range(300)], r"'c': numbers as text.*to_numeric"),
        ([f"2026-01-{1 + i % 9:02}" for i in range(300)], "'c': dates as text.*to_datetime"),
        ([f"{1 + i % 9}/11/2026" for i in range(300)], "'c': dates as text.*to_datetime"),
        ([date(2026, 1, 1 + i % 9) for i in range(300)], "'c': dates as text.*to_datetime"),
        ([f"town {i % 140}" for i in range(300)], "'c': more than max_categories=100.*TargetE"),
        ([f"name {i}" for i in range(30)], "'c': a value of its own in most rows"),
    ],
    ids=["ID", "numbers", "objects", "ISO", "slashes", "dates", "many", "few"],
)
def test_what_is_no_category(values, what):
    """It is said with the remedy, and takes 100 columns at most."""
    said, H = levels_of("c", np.array(values, dtype=object))
    assert re.search(what, said.replace("\n", " "))
    assert H.shape[1] <= 100
    np.testing.assert_array_equal(H.sum(axis=1), 0.5)


@pytest.mark.parametrize(
    "values",
    [
        [f"town {i % 100}" for i in range(300)],
        [f"name {i}" for i in range(20)],
        ["2026-01-01", "2027-01-01"] * 9,
        [*"ab", None] * 9,
    ],
)
def test_what_is_a_category(values):
    said, H = levels_of("c", values)
    assert said == ""
    assert H.shape[1] == len(set(values))


def test_rare_levels_share_a_column():
    """A level that fit has not seen does, too; max_categories=None gives each its own, unsaid."""
    values = np.repeat([f"town {i}" for i in range(140)], np.arange(140, 0, -1))
    X = pd.DataFrame({"c": values})
    with pytest.warns(UserWarning, match="max_categories=100"):
        fitted = preprocessing().fit(X)
    H = fitted.transform(pd.DataFrame({"c": ["town 98", "town 99", "town 139", "new"]}))
    np.testing.assert_array_equal(H.argmax(axis=1)[1:], 99)
    assert (H > 0).sum() == 4
    assert H[0, 99] == 0
    fitted.set_params(categories__one_hot__max_categories=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.fit_transform(X).shape[1] == 140


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1, 2.5], r"Column 'c' of X .* several types, number and str, .*astype\(str\)"),
        ([True, "a", None], "Column 'c' of X .* number and str"),
        ([[1], [2], None], "Column 'c' of X holds objects of type list"),
        ([{"a": 1}, {"b": 1}, None], "Column 'c' of X holds objects of type dict"),
        ([(1, 2), (1, 3), None], "Column 'c' of X holds objects of type tuple, .*leave the col"),
        ([(1, 2)] * 3, "Column 'c' of X holds objects of type tuple"),
        ([{1}, {2}, {1}], "Column 'c' of X holds objects of type set"),
        ([frozenset([1])] * 3, "Column 'c' of X holds objects of type frozenset"),
        ([np.arange(2), np.arange(3), None], "Column 'c' of X holds objects of type ndarray"),
        ([np.array(1.0)] * 3, "Column 'c' of X holds objects of type ndarray"),
        ([pd.DataFrame({"a": [1]})] * 3, "Column 'c' of X holds objects of type DataFrame"),
        ([pd.Series([1, 2])] * 3, "Column 'c' of X holds objects of type Series"),
        ([1j, 2j, None], "Column 'c' of X holds objects of type complex"),
        ([(1, 2), "a", "b"], "Column 'c' of X .* several types, str and tuple"),
    ],
)
def test_objects_that_are_no_levels(values, message):
    """Whether fit meets them or rows that come later, in tables and in arrays."""
    column = np.empty(3, dtype=object)
    column[:] = values
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": column})
    with pytest.raises(TypeError, match=message):
        preprocessing().fit(X)
    with pytest.raises(TypeError, match=message.replace("'c'", "1")):
        preprocessing(categorical_features=[1]).fit(X.to_numpy())
    if not any(isinstance(value, (list, dict, set, np.ndarray, pd.DataFrame)) for value in values):
        return  # a level that fit has not seen
    with pytest.raises(TypeError, match=message):
        preprocessing().fit(X.assign(c=list("xyz"))).transform(X)


@pytest.mark.parametrize(
    "values", [[time(1), time(2)], [Decimal(1), Decimal("2.5")], [b"a", b"b"], [10**400, 2]]
)
def test_objects_that_are_levels(values):
    H = preprocessing().fit_transform(pd.DataFrame({"c": pd.Series(values * 9, dtype=object)}))
    np.testing.assert_array_equal(H.sum(axis=0), [4.5, 4.5])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_what_to_do_with_dates(library):
    """The first advice is numbers, not a category."""
    days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")
    with pytest.raises(ValueError, match=r"holds dates\. .*\['c'\].dt.year") as error:
        preprocessing().fit(table(library, c=days))
    assert "categorical" not in str(error.value)
    with pytest.raises(ValueError, match=r"holds times; .*total_seconds"):
        preprocessing().fit(table(library, c=days - days[0]))
