"""Errors and warnings that name a column, and pyarrow Tables."""

import pickle
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.tabular import column_selector
from tabular.tables import convert, make_frame, preprocessing

GIVEN = {"feature_weights": None, "alpha": 1.0}


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_warning_for_integers_beyond_float64(library, dtype):
    numbers = np.arange(50, dtype=dtype)
    for X, names in [(2**60 + numbers, True), (2**53 + 2 * numbers, False), (numbers, False)]:
        X = convert(library, X[:, None])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            preprocessing().fit(X)
        assert [
            bool(re.search(r"Columns \[('x0'|0)\] .* 2\*\*53", str(w.message))) for w in caught
        ] == [True] * names


@pytest.mark.parametrize("container", [list, np.array])
def test_warning_for_integers_of_python(container):
    """In an array of dtype object, as lists become."""
    for start, is_rounded in [(2**60, True), (2**53, False), (2**70, True)]:
        step = 1 if is_rounded else 2
        X = container([[start + step * k, None if k == 3 else 0.5] for k in range(50)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            preprocessing().fit(X)
        assert len(caught) == is_rounded
        assert all(str(w.message).startswith("Columns [0] of X contain integers") for w in caught)


def test_warning_for_nullable_integers_beyond_float64():
    X = pd.DataFrame({"a": pd.Series([2**60, 2**60 + 1, None], dtype="Int64")})
    with pytest.warns(UserWarning, match=r"Columns \['a'\] of X contain integers beyond 2\*\*53"):
        preprocessing(missing="drop").fit(X)


def test_pyarrow_tables_are_as_pandas(mixed):
    """Fit and predict may use different libraries."""
    pa = pytest.importorskip("pyarrow")
    X, y = mixed
    X = X.assign(color=X["color"].astype("category"))
    model = make_tabular_pipeline(RBFClassifier(10, **GIVEN, random_state=0))
    expected = clone(model).fit(X, y).decision_function(X)
    held = pa.Table.from_pandas(X)
    (batch,) = held.to_batches()
    for rows in (held, batch):
        fitted = clone(model).fit(rows, y)
        assert fitted.feature_names_in_.tolist() == X.columns.tolist()
        np.testing.assert_array_equal(fitted.decision_function(rows), expected)
        np.testing.assert_array_equal(fitted.decision_function(X), expected)
    with pytest.raises(TypeError, match=r"X is a RecordBatchReader.*pass X\.read_pandas\(\)"):
        model.fit(held.to_reader(), y)


@pytest.mark.parametrize("estimator", [RBFClassifier(10, **GIVEN), TanhClassifier(10, **GIVEN)])
def test_pyarrow_tables_without_the_pipeline(estimator, mixed):
    pa = pytest.importorskip("pyarrow")
    X, y = mixed
    numbers = pa.table({"a": np.arange(60.0), "b": X["new"].to_numpy(dtype=float)})
    model = clone(estimator).set_params(random_state=0).fit(numbers, y)
    expected = model.decision_function(numbers.to_pandas())
    np.testing.assert_array_equal(model.decision_function(numbers), expected)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"'[xy]'\..* use make_tabular_pipeline"):
        clone(estimator).fit(pa.table({"a": ["x", "y"] * 30}), y)
    with pytest.raises(ValueError, match=r"NaN\..* use make_tabular_pipeline"):
        clone(estimator).fit(pa.table({"a": [1.0, None] * 30}), y)
    dates = pd.date_range("2020", periods=60)
    with pytest.raises(ValueError, match=r"Column 'a' of X .* holds dates"):
        clone(estimator).fit(pa.table({"a": dates, "b": np.arange(60.0)}), y)
    floats = {"a": np.arange(60, dtype=np.float32)}
    units = RBFProjector(5).fit(pa.table(floats)).centers_
    assert units.dtype == np.float32  # a table keeps its dtype, as an array does
    with pytest.raises(TypeError, match=r"X is a list of dictionaries.*pandas\.DataFrame"):
        clone(estimator).fit([{"a": 1.0}, {"a": 2.0}] * 30, y)


@pytest.mark.filterwarnings("ignore:Determining the data types")  # old versions of polars
def test_lazy_frames_are_not_supported():
    pl = pytest.importorskip("polars")
    X = pl.DataFrame({"a": [1.0, 2.0] * 5})
    y = pl.DataFrame({"y": [0, 1] * 5, "z": [0, 0, 1, 1, 0] * 2})
    network, message = TanhClassifier(5), r"X is a LazyFrame.*pass X\.collect\(\)"
    for model in (preprocessing(), network, HiddenSizeSearchCV(network, {}, cv=2)):
        with pytest.raises(TypeError, match=message):
            model.fit(X.lazy(), y)
    with pytest.raises(TypeError, match=message):
        network.fit(X.to_numpy(), y).predict(X.lazy())
    with pytest.raises(TypeError, match=r"y is a LazyFrame.*pass y\.collect\(\)"):
        network.fit(X, y.lazy())


def test_tables_of_dask_are_predicted_by_partition():
    dd = pytest.importorskip("dask.dataframe")
    X, y = pd.DataFrame({"a": [1.0, 2.0] * 5, "b": ["red", "blue"] * 5}), np.arange(10) % 2
    lazy, model = dd.from_pandas(X, npartitions=2), make_tabular_pipeline(TanhClassifier(5))
    with pytest.raises(TypeError, match=r"DataFrame of Dask.*pass X\.compute\(\)"):
        model.fit(lazy, y)
    model.fit(X, y)
    with pytest.raises(TypeError, match=r"X\.map_partitions\(model\.predict\)"):
        model.predict(lazy)
    np.testing.assert_array_equal(lazy.map_partitions(model.predict).compute(), model.predict(X))


def test_arrow_datasets_are_not_supported():
    dataset = pytest.importorskip("pyarrow.dataset")
    pa = pytest.importorskip("pyarrow")
    X = dataset.dataset(pa.table({"a": [1.0, 2.0] * 5}))
    with pytest.raises(TypeError, match=r"X is a InMemoryDataset.*pass X\.to_table\(\)"):
        TanhClassifier(5).fit(X, [0, 1] * 5)
    TanhClassifier(5).fit(X.to_table(), [0, 1] * 5)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (
            np.array([[1.0], [np.inf]]),
            ValueError,
            "Column 0 of X holds infinity in 1 of 2 rows, row 1",
        ),
        ([[1, "a"], [2, "b"]], ValueError, "Column 1 of X.*categorical_features='from_dtype'"),
        (np.array([["1", "a"]]), ValueError, "Column 1 of X.*categorical_features='from_dtype'"),
        (np.ones((2, 2), dtype=complex), ValueError, "Column 0 of X"),
        (csr_array(np.eye(3)), TypeError, "Use TanhClassifier .* TruncatedSVD.* or X.toarray"),
        (np.arange(3.0), ValueError, r"X has shape \(3,\)"),
        (pd.Series([1.0, 2.0]), ValueError, r"X has shape \(2,\)"),
        ([[1.0], [np.inf]], ValueError, "Column 0 of X holds infinity"),
        ([[10**400], [1]], ValueError, "Column 0 of X .* does not hold numbers"),
        ([{"a": 1}, {"a": 2}], TypeError, r"X is a list of dictionaries.*pandas\.DataFrame\(X\)"),
        ({"a": [1, 2]}, TypeError, r"X is a dict.*pandas\.DataFrame\(X\)"),
        (np.array([(1, 2)], "i4,i4"), TypeError, r"X is a ndarray.*pandas\.DataFrame\(X\)"),
    ],
)
def test_invalid_input(X, error, message):
    with pytest.raises(error, match=message):
        preprocessing().fit(X)


@pytest.mark.parametrize(
    ("X", "name"),
    [
        (None, "NoneType"),
        (5, "int"),
        ("abc", "str"),
        ({1, 2}, "set"),
        (pd.DataFrame({"a": [1, 2]}).groupby("a"), "DataFrameGroupBy"),
        (([k] for k in range(3)), "generator"),
    ],
)
def test_objects_that_are_not_tables(X, name):
    model = make_tabular_pipeline(TanhClassifier(5)).fit([[1.0], [2.0], [3.0]], [0, 1, 0])
    for call in (model.predict, model[0].transform, lambda X: clone(model).fit(X, [0, 1])):
        with pytest.raises(TypeError, match=f"X is a {name}, and must be a table.*DataFrame"):
            call(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_inconsistent_numbers_of_samples(library):
    """Also if y is encoded by the preprocessing, as for 40 categories."""
    X = make_frame(library, c=[f"c{i % 40}" for i in range(200)])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[200, 100\]"):
        make_tabular_pipeline(RBFClassifier()).fit(X, [0, 1] * 50)


@pytest.mark.filterwarnings("ignore:Some columns of X")
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_that_result_in_no_features(library):
    """Categories of one sample each have no mean targets."""
    X = make_frame(library, c=[f"id {i}" for i in range(200)])
    model = make_tabular_pipeline(TanhRegressor(5))
    with pytest.raises(ValueError, match=r"the columns \['c'\] of X.*max_categories=None"):
        model.fit(X, np.arange(200.0))
    model.set_params(preprocessing__categorical__max_categories=None).fit(X, np.arange(200.0))
    assert model[-1].n_features_in_ == 200


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_infinite_values_in_transform(library):
    """The error names the column of X, not of the selected ones."""
    words, infinite = ["x", "y", "x"], [1.0, np.inf, np.inf]
    fitted = preprocessing().fit(make_frame(library, c=words, a=[1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="Column 'a' of X holds infinity in 2 of 3 rows, row 1"):
        fitted.transform(make_frame(library, c=words, a=infinite))
    by_position = preprocessing(categorical_features=[0]).fit(np.array([[0, 1.0], [1, 2.0]]))
    with pytest.raises(ValueError, match=r"Column 1 of X.*numpy\.nan"):
        by_position.transform(np.array([[0, np.inf]]))


@pytest.mark.parametrize("value", ["inf", "1e999", "-Infinity"])
def test_infinity_as_text(value):
    fitted = preprocessing().fit(pd.DataFrame({"c": list("xyz"), "a": [1.0, 2.0, 3.0]}))
    message = "holds infinity in 1 of 2 rows, row 1"
    with pytest.raises(ValueError, match=f"Column 'a' of X {message}"):
        fitted.transform(pd.DataFrame({"c": ["inf", "x"], "a": ["1", value]}))
    with pytest.raises(ValueError, match="Column 'a' of X holds 'to infinity' in row 0"):
        fitted.transform(pd.DataFrame({"c": ["x"], "a": ["to infinity"]}))
    with pytest.raises(ValueError, match=f"Column 0 of X {message}"):
        preprocessing().fit(np.array([["1"], [value]]))


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
def test_objects_that_are_not_categories(values, message):
    """Errors of fit and transform, of DataFrames and arrays."""
    column = np.empty(3, dtype=object)
    column[:] = values
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": column})
    with pytest.raises(TypeError, match=message):
        preprocessing().fit(X)
    with pytest.raises(TypeError, match=message.replace("'c'", "1")):
        preprocessing(categorical_features=[1]).fit(X.to_numpy())
    if not any(isinstance(value, (list, dict, set, np.ndarray, pd.DataFrame)) for value in values):
        return  # an unknown category, which is ignored
    with pytest.raises(TypeError, match=message):
        preprocessing().fit(X.assign(c=list("xyz"))).transform(X)


def test_decimals_of_pyarrow_are_numbers():
    pa = pytest.importorskip("pyarrow")
    fitted = preprocessing().fit(pa.table({"a": [Decimal("1.5"), None, Decimal(3)]}))
    numbers = pd.DataFrame({"a": [1.5, np.nan, 3.0]})
    np.testing.assert_array_equal(fitted.transform(numbers), preprocessing().fit_transform(numbers))


@pytest.mark.parametrize("values", [[Fraction(1), Fraction(5, 2)], [b"a", b"b"], [10**400, 2]])
def test_objects_that_are_categories(values):
    H = preprocessing().fit_transform(pd.DataFrame({"c": pd.Series(values * 9, dtype=object)}))
    np.testing.assert_array_equal(H.sum(axis=0), [4.5, 4.5])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_text_in_a_numerical_column_of_transform(library):
    """The error names the column, the value and the remedy."""
    fitted = preprocessing().fit(make_frame(library, c=list("xyz"), a=[1.0, 2.0, 3.0]))
    new = make_frame(library, c=list("xyz"), a=["1", "2", "unknown"])
    with pytest.raises(ValueError, match=r"Column 'a' of X holds 'unknown' in row 2.*to_numeric"):
        fitted.transform(new)


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_bools_in_numerical_columns_of_transform(library):
    X = np.array([[0, 1], [1, 1], [0, 0]])
    fitted = preprocessing().fit(convert(library, X))
    H = fitted.transform(convert(library, X.astype(bool)))
    np.testing.assert_array_equal(H, fitted.transform(convert(library, X)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_columns_of_transform(library):
    fitted = preprocessing().fit(make_frame(library, c=list("xyz"), a=[1.0, 2.0, 3.0], b=[1, 2, 3]))
    with pytest.raises(ValueError, match=r"X has no columns \['c', 'b'\], .*columns are \['a'\]"):
        fitted.transform(make_frame(library, a=[1.0, 2.0]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_in_another_order(library):
    """Features are the same, and errors name the right column."""
    columns = {"c": list("xyz"), "a": [1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0]}
    fitted = preprocessing().fit(make_frame(library, **columns))
    others = {"more": [0, 0, 0], "b": columns["b"], "a": columns["a"], "c": columns["c"]}
    H = fitted.transform(make_frame(library, **others))
    np.testing.assert_array_equal(H, fitted.transform(make_frame(library, **columns)))
    with pytest.raises(ValueError, match="Column 'b' of X holds 'two' in row 1"):
        fitted.transform(make_frame(library, **others | {"b": ["1", "two", "3"]}))


OTHER_NAMES = {
    "default": [0, 1, 2],
    "integers": [10, 3, 0],
    "bools": [True, False, 2.5],
    "missing": [1.0, np.nan, 2.0],
    "tuples": pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]),
    "dates": pd.date_range("2026-01-01", periods=3),
}


@pytest.mark.parametrize("names", OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_columns_whose_names_are_no_strings(names, rng):
    """They are found by name, as strings are, also by a model that was saved."""
    X = pd.DataFrame(rng.normal(size=(2, 3)), columns=names)
    fitted = preprocessing().fit(pd.DataFrame(rng.normal(size=(20, 3)), columns=names))
    expected = fitted.transform(X.to_numpy())
    others = pd.concat([X.iloc[:, [2, 0]], X.iloc[:, [1]]], axis=1)
    for model in (fitted, pickle.loads(pickle.dumps(fitted))):
        for rows in (X, others):
            np.testing.assert_array_equal(model.transform(rows), expected)
    missing = re.escape(f"X has no columns [{str(X.columns[0])!r}], which it had in fit")
    with pytest.raises(ValueError, match=missing):
        fitted.transform(X.iloc[:, 1:])
    with pytest.raises(ValueError, match="X has several columns of the same name"):
        fitted.transform(X.iloc[:, [0, 1, 2, 1]])
    assert fitted.get_feature_names_out().tolist() == [f"numerical__x{j}" for j in range(3)]
    table = fitted.set_output(transform="pandas").fit(X)
    np.testing.assert_array_equal(table.transform(others), table.transform(X.to_numpy()))


@pytest.mark.parametrize("categorical_features", ["from_dtype", ["c"]])
def test_columns_are_inspected_once(categorical_features, monkeypatch):
    """In each fit: the table may have been modified since the last one."""
    X, y = make_frame("pandas", c=["a", "b"] * 20, x=np.arange(40.0)), np.arange(40.0) % 3
    model = clone(
        make_tabular_pipeline(
            TanhRegressor(5, alpha=1.0), categorical_features=categorical_features
        )
    )
    calls, compute = [], column_selector._compute_kinds
    monkeypatch.setattr(
        column_selector, "_compute_kinds", lambda *args: calls.append(args) or compute(*args)
    )
    model.fit(X, y)
    assert len(calls) == 1
    if categorical_features == "from_dtype":
        X["c"] = X["x"] + 1
        assert model.fit(X, y)[:-1].get_feature_names_out()[:2].tolist() == [
            "numerical__c",
            "numerical__x",
        ]


def test_products_of_the_preprocessing_have_one_thread():
    """More threads would wait for each other where other processes are busy."""
    numbers = []

    def record(X):
        pools = [each for each in threadpool_info() if each["user_api"] == "blas"]
        numbers.extend(each["num_threads"] for each in pools)
        return X

    model = preprocessing()
    model.set_params(values=FunctionTransformer(record, feature_names_out="one-to-one"))
    with threadpool_limits(2, user_api="blas"):
        model.fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert numbers
    assert set(numbers) == {1}


def test_names_of_a_second_fit():
    X = pd.DataFrame({1: [1.0, 2.0, 3.0], 0: [3.0, 1.0, 2.0]})
    fitted = preprocessing().fit(X).fit(X.rename(columns={1: "a", 0: "b"}))
    with pytest.raises(ValueError, match=r"X has no columns \['a', 'b'\]"):
        fitted.transform(X)
    expected = fitted.fit(X.to_numpy()).transform(X.to_numpy())
    np.testing.assert_array_equal(fitted.transform(X), expected)


def test_models_without_the_other_names():
    """Earlier versions did not save them."""
    X = pd.DataFrame({1: [1.0, 2.0, 3.0], 0: [3.0, 1.0, 2.0]})
    fitted = preprocessing().fit(X)
    expected = fitted.transform(X)
    del fitted._other_names
    np.testing.assert_array_equal(fitted.transform(X), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_arrays_after_data_frames(library):
    """There is one warning, and errors have the names of fit."""
    table = make_frame(library, a=[1.0, None, 3.0], c=list("xyz"), d=list("uvw"))
    model = make_tabular_pipeline(TanhClassifier(5, random_state=0)).fit(table, [0, 1, 0])
    X = np.array([[1.0, "x", "u"], [np.nan, "y", "v"]], dtype=object)
    with pytest.warns(UserWarning, match="X does not have valid feature names") as caught:
        predicted = model.decision_function(X)
    assert len(caught) == 1
    np.testing.assert_array_equal(predicted, model.decision_function(table[:2]))
    X[0, 0] = np.inf
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names"),
        pytest.raises(ValueError, match="Column 'a' of X holds infinity"),
    ):
        model.predict(X)


@pytest.mark.parametrize(
    ("library", "missing"),
    [("pandas", None), ("pandas", pd.NA), ("pandas", "nan"), ("polars", None), ("pyarrow", None)],
)
def test_missing_numbers_in_columns_of_objects(library, missing):
    """A request of one row, read from JSON, has a column of None."""
    fitted = preprocessing().fit(make_frame("pandas", a=[1.0, np.nan, 3.0], b=[3.0, 2.0, 1.0]))
    expected = fitted.transform(make_frame("pandas", a=[np.nan], b=[2.0]))
    assert expected[0, -1] == 1
    columns = {"a": [missing], "b": [2.0]}
    if library == "pyarrow":
        row = pytest.importorskip("pyarrow").table(columns)
    else:
        row = make_frame(library, **columns)
    np.testing.assert_array_equal(fitted.transform(row), expected)


@pytest.mark.parametrize("library", ["list", "array"])
def test_missing_numbers_in_lists_and_arrays_of_objects(library):
    X = [[1.0, None], [2.0, 3.0], [None, 5.0]]
    numbers = np.array(X, dtype=float)
    X, fitted = X if library == "list" else np.array(X), preprocessing()
    H = fitted.fit_transform(X)
    assert H.shape == (3, 4)
    np.testing.assert_array_equal(H, preprocessing().fit_transform(numbers))
    np.testing.assert_array_equal(fitted.transform(X[:1]), fitted.transform(numbers[:1]))


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT])
def test_missing_numbers_in_fit(missing):
    X = np.array([[1.0, missing], [2.0, 3.0], [missing, 5.0]], dtype=object)
    numbers = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 5.0]])
    np.testing.assert_array_equal(
        preprocessing().fit_transform(X), preprocessing().fit_transform(numbers)
    )


@pytest.mark.parametrize(
    "value", [np.datetime64("2024-01-01"), np.timedelta64(1, "D"), [1.0], [1.0, 2.0], np.ones(1)]
)
def test_objects_that_are_not_numbers(value):
    """In predict, and in fit of an array; NumPy converts some of them."""
    column = np.empty(3, dtype=object)
    column[:] = 1.0, None, value
    fitted = preprocessing().fit(pd.DataFrame({"a": [1.0, 2.0, 3.0]}))
    with pytest.raises(ValueError, match=r"Column 'a' of X holds .* in row 2, and numbers in fit"):
        fitted.transform(pd.DataFrame({"a": column}))
    with pytest.raises(ValueError, match=r"Column 0 of X .* does not hold numbers"):
        preprocessing().fit(column[:, None])


def test_sparse_columns_of_pandas():
    """They become dense, without a warning."""
    dense = pd.DataFrame(
        {"a": [0.0, 1.0, 0.0, 2.0] * 10, "b": [1, 0, 0, 3] * 10, "c": list("xyxy") * 10}
    )
    X = dense.astype({"a": "Sparse[float]", "b": "Sparse[int]"})
    model = make_tabular_pipeline(TanhRegressor(5, random_state=0))
    expected = clone(model).fit(dense, range(40)).predict(dense)
    np.testing.assert_array_equal(model.fit(X, range(40)).predict(X), expected)


def test_shapes_of_transform():
    fitted = preprocessing().fit(np.eye(3))
    for X, message in [
        (np.ones(3), r"X has shape \(3,\), and must have two dimensions"),
        (np.ones((2, 2)), "X has 2 features, and had 3 in fit"),
        (pd.Series([1.0, 2.0, 3.0]), r"X has shape \(3,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted.transform(X)
