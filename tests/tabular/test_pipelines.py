"""make_tabular_pipeline: features by column type, its parameters, errors and estimators."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhProjector,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.tabular.interactions import InteractionEncoder
from sklearn_fsvc.inspection import explain, shapley_values
from tabular.tables import convert, make_frame, preprocessing, score

# Of networks, where the test is about their pipeline.
GIVEN = {"kernel": "laplacian", "feature_weights": None, "alpha": 1.0, "random_state": 0}


def test_default_estimators():
    assert type(make_tabular_pipeline()[-1]) is StackedClassifier
    assert type(make_tabular_pipeline("regressor")[-1]) is StackedRegressor
    with pytest.raises(ValueError, match="choose one of 'classifier', 'regressor', or pass an"):
        make_tabular_pipeline("best")


def test_presets_and_their_parameters():
    options = {"random_state": 3, "device": "blas", "max_memory": "1GB", "verbose": 1}
    for name, best, fast in [
        ("classifier", StackedClassifier, RBFClassifier),
        ("regressor", StackedRegressor, RBFRegressor),
    ]:
        for preset, expected in [("best", best), ("fast", fast)]:
            estimator = make_tabular_pipeline(name, preset=preset, **options)[-1]
            assert type(estimator) is expected
            assert {key: getattr(estimator, key) for key in options} == options
    with pytest.raises(ValueError, match="preset='quick'"):
        make_tabular_pipeline(preset="quick")


@pytest.mark.parametrize(
    "options", [{"preset": "fast"}, {"random_state": 0}, {"device": "cuda"}, {"verbose": 1}]
)
def test_parameters_of_a_preset_next_to_an_estimator(options):
    (name,) = options
    with pytest.raises(ValueError, match=rf"{name}=.* set it on the RBFClassifier"):
        make_tabular_pipeline(RBFClassifier(), **options)


def test_seeded_pipelines_are_equal(mixed):
    X, y = mixed
    first, second, other = (
        make_tabular_pipeline(preset="fast", random_state=seed)
        .set_params(rbfclassifier__n_hidden=20, rbfclassifier__feature_weights=None)
        .fit(X, y)
        .predict_proba(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_representation_names_transformers(mixed):
    """No addresses of functions, before and after fit."""
    network = RBFClassifier(5, kernel="laplacian", feature_weights=None, alpha=1.0)
    model = make_tabular_pipeline(network, categorical_features=["color", "new"])
    for fitted in (model, model.fit(*mixed)):
        for text in (repr(fitted), fitted._repr_html_()):
            assert " at 0x" not in text
            assert "functools" not in text
            assert "MedianImputer" in text


def test_classifiers_and_regressors_get_values(mixed):
    X, y = mixed
    for estimator, n in [(Ridge(), 1), (RBFClassifier(5), 1), (TanhProjector(2), 0)]:
        names = make_tabular_pipeline(estimator)["preprocessing"].fit(X, y).get_feature_names_out()
        assert sum(name.startswith("values__") for name in names) == n


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_missing_value_indicators(library, rng):
    """One for each column with missing values in fit."""
    X = rng.random((30, 3), dtype=np.float32)
    X[::5, 0] = X[1::7, 2] = np.nan
    other = rng.random((30, 3), dtype=np.float32)
    other[3:5] = np.nan
    fitted = preprocessing().fit(convert(library, X))
    for rows in (X, other):
        H = fitted.transform(convert(library, rows))
        assert H.dtype == np.float32
        assert H.shape == (30, 5)
        np.testing.assert_array_equal(H[:, 3:], np.isnan(rows[:, [0, 2]]))
    H = preprocessing(missing="drop").fit_transform(convert(library, X))
    np.testing.assert_array_equal(H, fitted.transform(convert(library, X))[:, :3])


@pytest.mark.parametrize("estimator", ["classifier", "regressor"])
def test_all_features_are_float32(rng, estimator):
    """Scores, categories, indicators, interactions, and the values of regressors."""
    X, codes = rng.random((90, 2)), rng.integers(2, size=(90, 2))
    X[::9] = np.nan
    mixed = pd.DataFrame({"a": X[:, 0], "b": codes[:, 0] > 0, "c": codes[:, 1] > 0})
    pipeline = make_tabular_pipeline(estimator)[:-1]
    for table in (X, X.astype(np.float32), mixed, mixed[["b", "c"]]):
        H = pipeline.fit_transform(table, codes.sum(axis=1) % 2)
        assert H.dtype == pipeline.transform(table).dtype == np.float32
    assert any("*" in name for name in pipeline.get_feature_names_out())


def test_feature_types_of_pandas_dtypes():
    dtypes = {
        "numerical": ["float32", "int8", "uint16", "Int64", "Float32"],
        "categorical": [object, "str", "string", "category", "bool", "boolean"],
    }
    columns = {
        f"{kind}__{dtype}": pd.Series([0, 1, 1], dtype="int8").astype(dtype)
        for kind in dtypes
        for dtype in dtypes[kind]
    }
    names = preprocessing().fit(pd.DataFrame(columns)).get_feature_names_out()
    expected = [f"numerical__{name}" for name in columns if name.startswith("numerical")]
    assert list(names[: len(expected)]) == expected
    assert all(name.startswith("categorical__categorical__") for name in names[len(expected) :])
    assert len(names) == 5 + 2 * 6


def test_decimals_of_pyarrow_are_numerical():
    pa = pytest.importorskip("pyarrow")
    numbers = [Decimal("1.5"), None, Decimal("-2.25"), Decimal("3.0")]
    for dtype in (pa.decimal128(10, 2), pa.decimal256(40, 2)):
        X = pd.DataFrame({"a": pd.Series(numbers, dtype=pd.ArrowDtype(dtype))})
        fitted = preprocessing().fit(X)
        floats = pd.DataFrame({"a": [1.5, np.nan, -2.25, 3.0]})
        assert fitted.get_feature_names_out()[0] == "numerical__a"
        np.testing.assert_array_equal(fitted.transform(X), preprocessing().fit_transform(floats))
        np.testing.assert_array_equal(fitted.transform(X), fitted.transform(floats))


@pytest.mark.parametrize("is_missing", [False, True])
def test_decimals_are_numbers(is_missing):
    """In columns of objects, also with floats among them, and of polars."""
    pl = pytest.importorskip("polars")
    decimals = [Decimal(f"{k}.25") for k in range(6)]
    values = [float(value) for value in decimals]
    if is_missing:
        decimals[2], values[2] = None, np.nan
    fitted = preprocessing().fit(pd.DataFrame({"price": values}))
    expected = fitted.transform(pd.DataFrame({"price": values}))
    for X in (
        pd.DataFrame({"price": pd.Series(decimals, dtype=object)}),
        pd.DataFrame({"price": pd.Series([0.25, *decimals[1:]], dtype=object)}),
        pl.DataFrame({"price": pl.Series(decimals, dtype=pl.Decimal(9, 2))}),
    ):
        np.testing.assert_array_equal(fitted.transform(X), expected)
        np.testing.assert_array_equal(preprocessing().fit_transform(X), expected)


def test_feature_types_of_polars_dtypes():
    pl = pytest.importorskip("polars")
    numerical = {
        str(dtype): pl.Series([0, 1, None], dtype=dtype) for dtype in (pl.Int8, pl.Float32)
    }
    words = [pl.String, pl.Categorical, pl.Enum(["a", "b"])]
    categories = {f"c{i}": pl.Series(["a", "b", "a"], dtype=d) for i, d in enumerate(words)}
    frame = pl.DataFrame({**categories, "bool": [True, False, True], **numerical})
    names = preprocessing(missing="drop").fit(frame).get_feature_names_out().tolist()
    encoded = [f"{name}_{category}" for name in categories for category in "ab"]
    encoded += ["bool_False", "bool_True"]
    assert names == [f"numerical__{n}" for n in numerical] + [f"categorical__{n}" for n in encoded]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_and_arrays_give_the_same(library, rng):
    """The order of named columns does not matter."""
    numbers, codes = rng.random((40, 2)).round(2), rng.integers(3, size=40)
    X = np.column_stack([codes, numbers])
    frame = make_frame(
        library, c=[f"category {i}" for i in codes], a=numbers[:, 0], b=numbers[:, 1]
    )
    expected = preprocessing(categorical_features=[0]).fit_transform(X)
    fitted = preprocessing().fit(frame)
    np.testing.assert_array_equal(fitted.transform(frame), expected)
    np.testing.assert_array_equal(fitted.transform(frame[["b", "c", "a"]]), expected)


@pytest.mark.parametrize(
    "features", [["c", "d"], [1, 3], [-3, 3], np.array([False, True, False, True]), ("d", "c")]
)
def test_categorical_features(features):
    """By name, position or mask; the order of features is that of the columns."""
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": [0, 7, 7], "b": [4, 5, 5], "d": ["x", "x", "y"]})
    fitted = preprocessing(categorical_features=features).fit(X)
    assert fitted.get_feature_names_out().tolist() == [
        "numerical__a", "numerical__b", "categorical__c_0", "categorical__c_7",
        "categorical__d_x", "categorical__d_y",
    ]  # fmt: skip


@pytest.mark.parametrize("names", [[10, 20], [1, 0], [10.0, 20.0], [0, 2]])
def test_integers_are_no_positions_beside_names_that_are_numbers(names):
    X = pd.DataFrame([[1, 0], [2, 7], [3, 7]], columns=names)
    for feature in [int(names[1]), 1]:
        remedy = rf"categorical_features=\[{feature}\] .* pass a mask .*X\.rename\(columns=str\)"
        with pytest.raises(ValueError, match=remedy):
            preprocessing(categorical_features=[feature]).fit(X)
    masked = preprocessing(categorical_features=[False, True]).fit_transform(X)
    renamed = X.rename(columns=str)
    for features, table in [([str(names[1])], renamed), ([1], renamed), ([1], X.to_numpy())]:
        found = preprocessing(categorical_features=features).fit_transform(table)
        np.testing.assert_array_equal(found, masked)


@pytest.mark.parametrize(
    "features", [[("b", "h")], pd.MultiIndex.from_tuples([("b", "h")]), [1], [False, True]]
)
def test_categorical_features_of_a_multi_index(features):
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("b", "h")])
    X = pd.DataFrame([[1, 0], [2, 7], [3, 7]], columns=columns)
    expected = ["numerical__x0", "categorical__x1_0", "categorical__x1_7"]
    fitted = preprocessing(categorical_features=features).fit(X)
    assert fitted.get_feature_names_out().tolist() == expected
    with pytest.raises(ValueError, match=r"contains \[\('b', 'x'\)\]; the columns of X are"):
        preprocessing(categorical_features=[("b", "x")]).fit(X)


def test_pairs_of_integers_are_names_of_a_multi_index():
    X = pd.DataFrame([[1, 0], [2, 7], [3, 7]], columns=pd.MultiIndex.from_product([[1], [2, 3]]))
    fitted = preprocessing(categorical_features=[(1, 3)]).fit(X)
    assert fitted.get_feature_names_out()[1:].tolist() == ["categorical__x1_0", "categorical__x1_7"]
    with pytest.raises(TypeError, match=r"categorical_features=\[\(1, 3\), \[1\]\] must be"):
        preprocessing(categorical_features=[(1, 3), [1]])


@pytest.mark.parametrize("features", [None, [], "from_dtype"])
def test_no_categorical_features(features):
    X = np.array([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]])
    low, high = score(1 / 6), score(5 / 6)
    expected = [[low, high], [0, low], [high, 0]]
    for rows in (X, X.tolist(), X.astype(object), X.astype(np.uint8), pd.DataFrame(X)):
        H = preprocessing(categorical_features=features).fit_transform(rows)
        np.testing.assert_allclose(H, expected, atol=1e-6)


def test_boolean_arrays_are_categorical():
    H = preprocessing().fit_transform(np.array([[True, False], [False, False]]))
    np.testing.assert_array_equal(H, [[0, 0.5, 0.5], [0.5, 0, 0.5]])


def test_object_array():
    X = np.array([[1, "a"], [None, "b"], [3, "a"]], dtype=object)
    H = preprocessing(categorical_features=[1]).fit_transform(X)
    expected = [[score(1 / 6), 0.5, 0, 0], [0, 0, 0.5, 1], [score(5 / 6), 0.5, 0, 0]]
    np.testing.assert_allclose(H, expected, atol=1e-6)


def test_clone_and_pickle(mixed):
    X, y = mixed
    network = RBFClassifier(**GIVEN)
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
    pipeline = make_tabular_pipeline(RBFClassifier(5, **GIVEN)).fit(X, y)
    expected = pipeline[:-1].transform(X)
    pipeline["preprocessing"].set_output(transform=library)
    H = pipeline.fit(X, y)[:-1].transform(X)
    assert isinstance(H, module.DataFrame)
    assert list(H.columns) == list(pipeline[:-1].get_feature_names_out())
    np.testing.assert_array_equal(H.to_numpy(), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"s": ["nan", "c", None] * 9}, ["s_c", "s_nan", "s_nan_2"]),
        (
            {"a": ["1_b", "c", "c"] * 9, "a_1": ["b", "x", "b"] * 9},
            ["a_1_b", "a_c", "a_1_b_2", "a_1_x"],
        ),
    ],
)
def test_feature_names_are_unique(library, columns, names):
    """A text "nan" and a missing value would have the same name; DataFrames need different ones."""
    X = make_frame(library, **columns)
    transformer = preprocessing().set_output(transform=library)
    H = transformer.fit_transform(X)
    assert list(H.columns) == [f"categorical__{name}" for name in names]
    assert list(H.columns) == transformer.get_feature_names_out().tolist()


def test_names_of_interactions_are_unique(rng):
    X = rng.choice(list("xyz"), size=(300, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "a*b"])
    y = 2 * ((X[:, 0] == "x") ^ (X[:, 1] == "y")) + ((X[:, 1] == "y") ^ (X[:, 2] == "z"))
    names = InteractionEncoder("regression").fit(frame, y).get_feature_names_out().tolist()
    assert names[:4] == ["a", "b", "a*b", "a*b_2"]
    assert len(set(names)) == len(names)


@pytest.fixture
def all_kinds(rng):
    """Columns of all kinds, with interactions; return X and y."""
    size, shop = rng.normal(size=(2, 300)), rng.integers(40, size=300)
    plug, socket = rng.choice(list("ab"), size=(2, 300))
    words = rng.choice(["red", "blue", "large", "small", "new", "old"], size=(300, 5))
    X = pd.DataFrame({
        "size": np.where(rng.random(300) < 0.1, np.nan, size[0]),
        "limit": size[1],
        "plug": plug,
        "socket": socket,
        "shop": [f"shop {code}" for code in shop],
        "sold": pd.date_range("2024-01-01", periods=300),
        "text": [" ".join(each) for each in words],
    })  # fmt: skip
    return X, 3.0 * (size[0] < size[1]) + 2.0 * (plug == socket) + 2.0 * (shop > 20)


@pytest.mark.parametrize(
    ("library", "estimator"), [("pandas", RBFRegressor), ("polars", RBFClassifier)]
)
def test_global_output_setting(all_kinds, library, estimator):
    """Features, predictions and explanations are the same, and only the result is a DataFrame."""
    module = pytest.importorskip(library)
    X, y = all_kinds
    y = y > 3 if estimator is RBFClassifier else y
    network = estimator(
        50, kernel="laplacian", radius=3.0, feature_weights=None, alpha=1.0, random_state=0
    )
    plain = make_tabular_pipeline(network).fit(X, y)
    names = plain[:-1].get_feature_names_out().tolist()
    for part in ("mean(shop)", "plug*socket", "sold_weekday", "text_0", "missingindicator_size"):
        assert any(name.endswith(part) for name in names)
    with sklearn.config_context(transform_output=library):
        model = make_tabular_pipeline(clone(network)).fit(X, y)
        H = model[:-1].transform(X)
        predicted = model.predict(X)
        found = explain(model, X[:3])
        numbers = make_tabular_pipeline(clone(network)).fit(X[["size", "limit"]], y)
        values = shapley_values(numbers, X[["size", "limit"]][:3], X[["size", "limit"]][:20])
        grid = {f"{model.steps[-1][0]}__n_hidden": [10, 50]}
        search = HiddenSizeSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert isinstance(H, module.DataFrame)
    assert list(H.columns) == names
    np.testing.assert_array_equal(H.to_numpy(), plain[:-1].transform(X))
    np.testing.assert_array_equal(predicted, plain.predict(X))
    np.testing.assert_array_equal(found.support, explain(plain, X[:3]).support)
    assert np.isfinite(values.values).all()
    assert np.isfinite(search.best_score_)


def test_estimators_of_any_type(mixed):
    X, y = mixed
    for estimator, name in [(Ridge(), "ridge"), (TanhProjector(3), "tanhprojector")]:
        pipeline = make_tabular_pipeline(estimator)
        assert [step for step, _ in pipeline.steps] == ["preprocessing", name]
        assert pipeline[-1] is estimator
        pipeline.fit(X, y)
    assert pipeline.transform(X).shape == (60, 3)


def test_grid_search(mixed):
    """Over parameters of the network, the preprocessing and its steps."""
    X, y = mixed
    grid = {
        "rbfclassifier__n_hidden": [5, 20],
        "preprocessing__categorical__max_categories": [3, 100],
        "preprocessing__numerical__ranks__n_quantiles": [2],
    }
    network = RBFClassifier(
        kernel="laplacian", radius=3.0, feature_weights=None, alpha=1.0, random_state=0
    )
    pipeline = make_tabular_pipeline(network)
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 4
    search.best_estimator_.set_params(preprocessing__transformer_weights={"missing": 3}).fit(X, y)
    names = search.best_estimator_[:-1].get_feature_names_out()
    is_indicator = [name.startswith("missing__") for name in names]
    assert search.best_estimator_[:-1].transform(X)[:, is_indicator].max() == 3


def test_hidden_size_search(mixed):
    X, y = mixed
    grid = {"tanhclassifier__n_hidden": [2, 10], "tanhclassifier__alpha": [0.1]}
    network = TanhClassifier(scale=0.5, feature_weights=None, random_state=0)
    pipeline = make_tabular_pipeline(network)
    actual = HiddenSizeSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    reference = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    np.testing.assert_allclose(
        actual.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"]
    )


TABLE = pd.DataFrame({"a": [1.0, 2.0], "c": ["x", "y"]})


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["c", "z"], r"categorical_features=\['c', 'z'\] contains \['z'\]; .*\['a', 'c'\]"),
        ([1, 2], r"contains \[2\]"),
        ([-3], r"contains \[-3\]"),
        ([True], "categorical_features has 1 .* 2 columns"),
        (["a"], r"Column 'c' of X .*categorical_features=\['a'\]"),
        (None, "Column 'c' of X .*categorical_features=None"),
    ],
)
def test_invalid_columns(features, message):
    with pytest.raises(ValueError, match=message):
        preprocessing(categorical_features=features).fit(TABLE)


@pytest.mark.parametrize("features", ["auto", 1, [[1]], True])
def test_invalid_categorical_features(features):
    with pytest.raises(TypeError, match=r'categorical_features=.* must be "from_dtype"'):
        make_tabular_pipeline(RBFClassifier(), categorical_features=features)


@pytest.mark.parametrize("estimator", [RBFClassifier, None])
def test_invalid_estimators(estimator):
    with pytest.raises(TypeError, match=r"estimator=.*pass an instance"):
        make_tabular_pipeline(estimator)


@pytest.mark.parametrize("preset", ["best", "fast"])
def test_invalid_targets(mixed, preset):
    """The errors are those of the estimators, although the preprocessing uses y first."""
    X, y = mixed
    with pytest.raises(ValueError, match=r"y has dtype object.* Use a classifier"):
        make_tabular_pipeline("regressor", preset=preset).fit(X, np.array(list("ab") * 30, object))
    missing = np.where(np.arange(len(X)) == 7, np.nan, y)
    for task in ("classifier", "regressor"):
        with pytest.raises(ValueError, match=r"NaN or None in 1 of 60 rows, row 7 first"):
            make_tabular_pipeline(task, preset=preset).fit(X, missing)


def test_columns_of_the_same_name():
    """In fit; in transform only if they are used."""
    twice = pd.DataFrame([[1.0, 2.0, 3.0]] * 4, columns=["a", "b", "a"])
    with pytest.raises(ValueError, match=r"same name: \['a'\]\. Rename them, or keep the first"):
        preprocessing().fit(twice)
    with pytest.raises(ValueError, match=r"same name: \['a'\]"):
        preprocessing().fit(twice.iloc[:, :2]).transform(twice)
    preprocessing().fit(twice[["b"]]).transform(twice)


def test_list_columns_are_not_supported():
    X = make_frame("polars", a=[1.0, 2.0], pairs=[[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="Column 'pairs' of X"):
        preprocessing().fit(X)


@pytest.mark.parametrize("estimator", ["classifier", RBFClassifier(50, **GIVEN)])
def test_validation_samples_are_preprocessed(estimator):
    """By metadata routing, which has to be enabled; otherwise by the steps of the user."""
    rng = np.random.default_rng(0)
    X = make_frame("pandas", size=rng.lognormal(size=600), color=rng.choice(["a", "b", "c"], 600))
    y = (X["size"] > 1) ^ (X["color"] == "a") ^ (rng.random(600) < 0.1)
    given = {} if estimator != "classifier" else {"preset": "fast", "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=True):
        if estimator != "classifier":
            estimator = clone(estimator).set_fit_request(X_val=True, y_val=True)
        routed = make_tabular_pipeline(estimator, **given)
        routed.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
        expected = routed.predict_proba(X)
    manual = make_tabular_pipeline(clone(estimator, safe=False), **given)
    assert manual.transform_input is None
    Z = manual[0].fit_transform(X[:300], y[:300])
    manual[-1].fit(Z, y[:300], X_val=manual[0].transform(X[300:]), y_val=y[300:])
    np.testing.assert_array_equal(manual.predict_proba(X), expected)
    plain = make_tabular_pipeline(clone(estimator, safe=False), **given).fit(X[:300], y[:300])
    assert plain[-1].temperature_ != manual[-1].temperature_
    with pytest.raises(ValueError, match="X_val"):
        plain.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])


@pytest.mark.parametrize("name", ["X_val", "rbfclassifier__X_val"])
@pytest.mark.parametrize("routed", [False, True])
def test_validation_samples_that_would_not_be_preprocessed(mixed, name, routed):
    """Without routing, and with a pipeline that was made without it."""
    X, y = mixed
    network = RBFClassifier(5, **GIVEN)
    model = make_tabular_pipeline(network)
    validation = {name: X, name.replace("X", "y"): y}
    with sklearn.config_context(enable_metadata_routing=routed):
        if routed:
            network.set_fit_request(X_val=True, y_val=True)
        for pipeline in (model, clone(model), pickle.loads(pickle.dumps(model))):
            assert isinstance(pipeline, Pipeline)
            with pytest.raises(ValueError, match=f"^{name} would not be preprocessed.*routing"):
                pipeline.fit(X, y, **validation)
        assert not hasattr(model[-1], "classes_")
    model.fit(X, y, rbfclassifier__X_val=None)


def test_validation_samples_of_nested_pipelines_and_other_estimators(mixed):
    X, y = mixed
    nested = make_pipeline(make_tabular_pipeline(RBFClassifier(5)))
    with pytest.raises(ValueError, match="rbfclassifier__X_val would not be preprocessed"):
        nested.fit(X, y, tabularpipeline__rbfclassifier__X_val=X)
    trees = make_tabular_pipeline(HistGradientBoostingClassifier(max_iter=2))
    with pytest.raises(ValueError, match="histgradientboostingclassifier__X_val would not"):
        trees.fit(X, y, histgradientboostingclassifier__X_val=X)
