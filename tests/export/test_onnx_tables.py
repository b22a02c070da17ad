"""`make_tabular_pipeline` in onnxruntime: features and predictions are those of the pipeline."""

from unittest import mock

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import skl2onnx
from skl2onnx.common.data_types import DoubleTensorType, StringTensorType
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from export.converted import TOLERANCE, onnx_outputs
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
from sklearn_fsvc._src.tabular import interactions
from sklearn_fsvc.export.onnx import register, to_onnx

N, N_NEW = 900, 300
FIXED = {"n_hidden": 30, "alpha": 0.1, "feature_weights": None, "random_state": 0}
# Features are float32, and scores of ranks lie between -4 and 4.
ATOL = 1e-6


def make_table(n, seed):
    """Return a table with ties, a long tail, missing values, and many categories."""
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.1
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(9, 3, n)),
            "hours per-week": np.where(missing, np.nan, rng.normal(size=n)),
            "degrees": rng.normal(20, 5, n).round(1).astype(np.float32),
            "color": pd.Series(rng.choice(["red", "green", "blue"], n)).mask(missing),
            "shop": np.char.add("S", rng.integers(150, size=n).astype(str)),
            "member": rng.random(n) < 0.3,
        }
    )


def make_target(table):
    """Return a numeric target that depends on numbers, many categories and an interaction."""
    shop = table["shop"].str[1:].fillna("0").astype(int) % 5
    return np.log1p(table["income"]) / 4 + shop + 4 * ((table["color"] == "red") == table["member"])


TABLE, Y = make_table(N, 0), make_target(make_table(N, 0))
LABELS = np.where(Y > 5, "high", "low")
NEW = make_table(N_NEW, 1)
NEW.loc[0, ["color", "shop"]] = ["pink", "S999"]
NEW.loc[1, ["color", "shop"]] = None
NEW.loc[2, ["income", "hours per-week", "degrees"]] = np.nan
NEW.loc[3, ["income", "hours per-week", "degrees"]] = 2.0**90
NEW.loc[4, ["income", "hours per-week", "degrees"]] = -(2.0**90)


def check_features(model, X, y, X_new):
    """Fit the preprocessing of a pipeline, and compare its outputs; return their names."""
    preprocessing = model[:-1].fit(X, y)
    features = onnx_outputs(preprocessing, X_new)["variable"]
    expected = preprocessing.transform(X_new)
    assert features.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=0, atol=ATOL)
    return preprocessing.get_feature_names_out().tolist()


@pytest.mark.parametrize("model", [RBFRegressor(**FIXED), RBFClassifier(**FIXED)])
def test_features_of_tables(model):
    y = LABELS if isinstance(model, RBFClassifier) else Y
    names = check_features(make_tabular_pipeline(model), TABLE, y, NEW)
    for name in ("numerical__income", "categorical__mean(shop)", "interactions__color*member"):
        assert name in names
    assert "missing__missingindicator_hours per-week" in names
    assert "values__age" in names


def test_features_of_few_samples():
    """Regressors get values in place of ranks."""
    model = make_tabular_pipeline(RBFRegressor(**FIXED))
    columns = ["age", "income", "hours per-week"]
    names = check_features(model, TABLE.loc[:29, columns], Y[:30], NEW[columns])
    assert "numerical__age" in names
    assert not any(name.startswith("values__") for name in names)


def test_features_of_several_outputs():
    y = np.column_stack([Y, -(Y**2)])
    names = check_features(make_tabular_pipeline(TanhRegressor(**FIXED)), TABLE, y, NEW)
    assert "categorical__mean(shop)_1" in names
    check_features(make_tabular_pipeline(TanhClassifier(**FIXED)), TABLE, Y.round() // 3, NEW)


def test_frequencies_and_infrequent_categories():
    """Without a target the infrequent categories share a feature."""
    rng = np.random.default_rng(0)
    codes = rng.geometric(0.02, N)
    table = pd.DataFrame({"many": [f"c{k}" for k in codes], "x": rng.normal(size=N)})
    y = np.log(np.bincount(codes)[codes])
    names = check_features(make_tabular_pipeline(TanhRegressor(**FIXED)), table, y, table)
    assert "categorical__log_count(many)" in names
    with pytest.warns(UserWarning, match="more than max_categories"):
        names = check_features(
            make_tabular_pipeline(RBFProjector(30, random_state=0)), table, None, table
        )
    assert "categorical__many_infrequent_sklearn" in names


def test_frequent_categories_beside_means():
    """Infrequent and unknown categories share a one-hot feature."""
    codes = np.random.default_rng(0).geometric(0.02, 3000)
    table = pd.DataFrame({"many": [f"c{k}" for k in codes]})
    new = pd.DataFrame({"many": [f"c{k}" for k in range(300)]})
    model = make_tabular_pipeline(RBFClassifier(**FIXED))
    names = check_features(model, table, codes % 2, new)
    for name in ("many_c1", "many_infrequent_sklearn", "mean(many)"):
        assert f"categorical__{name}" in names


def test_infrequent_categories_of_interactions():
    rng = np.random.default_rng(0)
    a, b = rng.integers(130, size=2000), rng.integers(2, size=2000)
    table = pd.DataFrame({"a": [f"a{k}" for k in a], "b": [f"b{k}" for k in b]})
    names = check_features(
        make_tabular_pipeline(RBFClassifier(**FIXED)), table, (a % 2 == b).astype(int), table
    )
    assert "interactions__a*b" in names


@pytest.mark.parametrize("dtype", [str, np.int64, np.float32])
def test_equal_categories(dtype):
    """Also of values that are unknown, missing, or an empty string."""
    rng = np.random.default_rng(0)
    codes = rng.integers(300, size=(N, 2))
    codes[::2, 1] = codes[::2, 0]
    table = pd.DataFrame(codes.astype(dtype), columns=["a", "b"])
    new = table[:9].copy()
    new.loc[0] = np.array([999]).astype(dtype)[0]
    if dtype is not np.int64:
        new.loc[1], new.loc[2, "a"] = None, None
    if dtype is str:
        table.loc[3], new.loc[4] = "", ""
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["a", "b"])
    y = codes[:, 0] == codes[:, 1]
    assert "interactions__a==b" in check_features(model, table, y, new)
    if dtype is str:
        with pytest.raises(ValueError, match=r"target_opset=18 .* use 19 or more"):
            to_onnx(model[:-1], new, target_opset=18)


def test_equal_categories_of_other_dtypes():
    table = pd.DataFrame(np.random.default_rng(0).integers(9, size=(N, 2)), columns=["a", "b"])
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["a", "b"])
    model = model[:-1].fit(table, table["a"] == table["b"])
    with pytest.raises(TypeError, match=r"'a' and 'b' .* object and int64.* convert both"):
        to_onnx(model, table.astype({"a": object}))


def test_other_dtypes():
    """Extension types of pandas have the inputs of their NumPy arrays."""
    dtypes = {"age": "Int64", "color": "category", "shop": object, "member": "boolean"}
    table = TABLE.astype(dtypes).assign(rank=pd.Categorical(TABLE["age"] % 4))
    new = NEW.astype(dtypes).assign(rank=pd.Categorical(NEW["age"] % 5))
    for frame in (table, new):
        frame.loc[::9, ["age", "member", "rank"]] = None
    names = check_features(make_tabular_pipeline(RBFClassifier(**FIXED)), table, LABELS, new)
    assert {"categorical__member_True", "categorical__rank_3", "numerical__age"} <= set(names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interactions_of_numerical_features(dtype):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(1, 9, (N, 2)), rng.lognormal(size=(N, 2)) * [1, 1000]])
    X = np.hstack([X, rng.normal(size=(N, 4))]).astype(dtype)
    a, b, c, d, e, f, g, h = X.T
    new = X[:9].copy()
    new[0], new[1, 3], new[2] = 0, 0, 2.0**100
    new[3] = np.nan
    for y, name in [
        (a == b, "x0==x1"),
        (c > d / 1000, "x2/x3"),
        (e * f, "x4*x5"),
        (g > h, "x6-x7"),
    ]:
        model = make_tabular_pipeline(RBFRegressor(**FIXED))
        assert f"numerical_interactions__{name}" in check_features(model, X, 1.0 * y, new)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_of_numerical_features(dtype):
    X = np.random.default_rng(0).uniform(-1, 1, size=(N, 4)).astype(dtype)
    model = make_tabular_pipeline(RBFRegressor(**FIXED))
    y = 1.0 * ((X[:, :3] > 0.2).sum(axis=1) > 1)
    new = np.vstack([X[:9], np.full(4, np.nan), np.full(4, 2.0**100)]).astype(dtype)
    names = check_features(model, X, y, new)
    encoder = model["preprocessing"].named_transformers_["thresholds"]["encode"]
    assert len(encoder.thresholds_) == 3
    assert {f"thresholds__{name}" for name in encoder.get_feature_names_out()} <= set(names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_repeated_values(dtype, n_classes):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, size=(2 * N, 2)) / 10
    y = rng.integers(n_classes, size=40)[np.round(10 * X[:, 0]).astype(int)]
    X[::30, 0] = np.nan
    model = make_tabular_pipeline(RBFClassifier(**FIXED))
    new = np.vstack([X[:99], X[:99] + 0.05, [[np.nan, 0], [-1, -1], [1e30, 9], [0.1, 3.9]]])
    names = check_features(model, X.astype(dtype), y, new.astype(dtype))
    encoded = [name for name in names if name.startswith("repeated_values__mean(x0)")]
    assert len(encoded) == (1 if n_classes == 2 else 3)
    other = np.float32 if dtype == np.float64 else np.float64
    check_features(model, X.astype(dtype), y, new.astype(other))


def test_polars():
    columns = ["age", "income", "color", "member"]
    frames = [frame[columns].astype(object).where(frame.notna(), None) for frame in (TABLE, NEW)]
    table, new = (pl.DataFrame(frame.to_dict("list")) for frame in frames)
    assert 0 not in new.select("income", "color").null_count().row(0)
    check_features(make_tabular_pipeline(RBFClassifier(**FIXED)), table, LABELS, new)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("fit_dtype", [np.float64, np.float32, None])
def test_arrays(dtype, fit_dtype):
    """The features are those of this dtype, also if the model was fitted in another one."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0.3, 1, N).round(1), rng.integers(40, size=N), rng.random(N)])
    X = X * [3, 1, 100]
    X_new = np.vstack([X[:200], X[:200] + [0, 2, 5], X[200:220] - [5, 3, 0.5]])
    if dtype != np.int64:
        X[::20, 0] = X[::30, 1] = X_new[::20] = np.nan
    X, X_new, y = X.astype(fit_dtype or dtype), X_new.astype(dtype), np.nan_to_num(X[:, 1]) % 2
    model = make_tabular_pipeline(RBFRegressor(**FIXED), categorical_features=[1])
    names = check_features(model, X, y, X_new)
    assert {"categorical__mean(x1)", "values__x2"} <= set(names)


def test_quantiles_beyond_the_range_of_inputs():
    X = np.array([[-1e300], [0.1], [0.1], [0.5], [1e300]])
    new = np.array([[-1e38], [0.1], [0.3], [1e38], [np.nan]], np.float32)
    check_features(make_tabular_pipeline(RBFProjector(5, random_state=0)), X, None, new)


@pytest.mark.parametrize("dtypes", [(np.float64, np.float32), (np.float32, np.float64)])
def test_columns_in_another_precision(dtypes):
    """With missing values, which are the median, and values next to others."""
    X = pd.DataFrame({"a": np.repeat([0.1, 0.2, 0.5, 0.7], 9), "b": np.arange(36)})
    fitted, new = (X.astype({"a": dtype}) for dtype in dtypes)
    new.loc[::5, "a"] = np.nan
    new.loc[1::5, "a"] = np.nextafter(new.loc[1::5, "a"].to_numpy(), dtypes[1](1))
    check_features(make_tabular_pipeline(RBFProjector(5, random_state=0)), fitted, None, new)


def test_equality_of_objects():
    """As strings, 1 and 1.0 are different; and any text of a missing value may be a category."""
    codes = np.random.default_rng(0).integers(9, size=(N, 2))
    y = codes[:, 0] == codes[:, 1]
    numbers = pd.DataFrame(codes, columns=["a", "b"], dtype=object)
    numbers["b"] = [float(b) if b > 4 else b for b in codes[:, 1]]
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["a", "b"])
    with pytest.raises(TypeError, match=r"'a' and 'b' .*\['float', 'int'\].* to a numeric one"):
        to_onnx(model[:-1].fit(numbers, y), numbers)
    names = np.array(["", "None", "nan", "<NA>", "a", "b", "c", "d", "e"], dtype=object)
    table = pd.DataFrame(names[codes], columns=["a", "b"])
    assert "interactions__a==b" in check_features(model, table, y, table[:50])


def test_objects_of_equal_values():
    """A number has several texts. A text of a missing value may be a category beside it."""
    new_of = {
        (1, 2.0, np.nan, np.inf): [1.0, 2, True, 3, np.inf],
        (True, False, None): [1, 0.0, False],
        ("nan", "a", None): ["nan", "a"],
    }
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=[0])
    for categories, new in new_of.items():
        X = np.array(categories, dtype=object)[np.arange(N) % len(categories), None]
        check_features(model, X, np.arange(N) % 3, np.array(new, dtype=object)[:, None])


def test_integers_beyond_float64():
    """They are equal to a category, and to a value of another column, only if they are exactly."""
    ids = 2**60 + np.random.default_rng(0).integers(9, size=(N, 2))
    ids[::2, 1] = ids[::2, 0]
    table = pd.DataFrame(ids, columns=["a", "b"])
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["a"])
    for of_fit, of_input in ((np.int64, float), (float, np.int64)):
        new = table[["a"]].astype(of_input)
        check_features(model, table[["a"]].astype(of_fit), ids[:, 0] % 2, new)
    table = table.astype({"b": float})
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["a", "b"])
    with mock.patch.object(interactions, "_explained_by_equality", return_value=1.0):
        assert "interactions__a==b" in check_features(model, table, ids[:, 0] == ids[:, 1], table)


def test_quantiles_of_a_subsample():
    """The ranks of the smallest and of the largest value are those among all samples."""
    X = np.random.default_rng(0).binomial(2, np.linspace(0.2, 0.8, 20), (12_000, 20)).astype(float)
    check_features(make_tabular_pipeline(RBFClassifier(**FIXED)), X, X[:, 0] > 1, X[:200])


@pytest.mark.parametrize("missing", [None, np.nan])
def test_arrays_of_objects(missing):
    columns = ["color", "member", "age"]
    X, X_new = (
        frame[columns].astype(object).where(frame[columns].notna(), missing).to_numpy()
        for frame in (TABLE, NEW)
    )
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=[0, 1])
    check_features(model, X, LABELS, X_new)


def test_arrays_of_strings_and_bools():
    X, X_new = (frame[["shop", "member"]].to_numpy(str) for frame in (TABLE, NEW))
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=[0, 1])
    check_features(model, X, LABELS, X_new)
    X = np.random.default_rng(0).random((N, 5)) < 0.3
    check_features(make_tabular_pipeline(RBFClassifier(**FIXED)), X, X[:, 0], X[:50])


def test_columns_of_any_magnitude():
    """Also constant and empty columns."""
    x = np.linspace(-1, 1, N)
    table = pd.DataFrame(
        {
            "constant": 3.0, "empty": np.nan, "tiny": x * 1e-300, "huge": x * 1e308,
            "two": np.repeat([0.0, 1.0], N // 2), "none": pd.Series([None] * N, dtype=object),
        }
    )  # fmt: skip
    numerical = ["constant", "empty", "tiny", "huge", "two"]
    new = table.copy()
    for row, value in enumerate([-1.7e308, -2.0, 0.0, 0.5, 2.0, 3.0, 4.0, 1.7e308, np.nan]):
        new.loc[row, numerical] = value
    model = make_tabular_pipeline(RBFRegressor(**FIXED), categorical_features=["none"])
    check_features(model, table, x, new)


def test_one_sample():
    preprocessing = make_tabular_pipeline(RBFRegressor(**FIXED))[:-1]
    features = preprocessing.fit_transform(TABLE[:1], Y[:1])
    np.testing.assert_array_equal(onnx_outputs(preprocessing, TABLE[:1])["variable"], features)


@pytest.mark.parametrize(
    "classifier",
    [
        RBFClassifier(**FIXED),
        TanhClassifier(**FIXED),
        StackedClassifier(
            [("rbf", RBFClassifier(**FIXED)), ("tanh", TanhClassifier(**FIXED))],
            final_estimator=None,
        ),
        LogisticRegression(),
    ],
)
def test_classifiers(classifier):
    """Also those of scikit-learn."""
    model = make_tabular_pipeline(classifier).fit(TABLE, LABELS)
    outputs = onnx_outputs(model, NEW)
    np.testing.assert_array_equal(outputs["label"], model.predict(NEW))
    np.testing.assert_allclose(
        outputs["probabilities"], model.predict_proba(NEW), atol=TOLERANCE[np.float32]
    )


@pytest.mark.parametrize(
    "regressor",
    [
        RBFRegressor(**FIXED),
        TanhRegressor(**FIXED),
        StackedRegressor(
            [("rbf", RBFRegressor(**FIXED)), ("tanh", TanhRegressor(**FIXED))],
            final_estimator=TanhRegressor(**FIXED),
        ),
    ],
)
def test_regressors(regressor):
    model = make_tabular_pipeline(regressor).fit(TABLE, Y)
    outputs = onnx_outputs(model, NEW)["variable"]
    np.testing.assert_allclose(outputs.ravel(), model.predict(NEW), rtol=0, atol=1e-4)


def test_inputs_of_several_columns():
    """By skl2onnx itself."""
    columns = ["income", "hours per-week", "color"]
    model = make_tabular_pipeline(RBFClassifier(**FIXED)).fit(TABLE[columns], LABELS)
    register()
    types = [("numbers", DoubleTensorType([None, 2])), ("text", StringTensorType([None, 1]))]
    converted = skl2onnx.to_onnx(model[:-1], initial_types=types)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    inputs = {"numbers": NEW[columns[:2]].to_numpy(), "text": NEW[["color"]].to_numpy(object)}
    (features,) = session.run(None, inputs)
    np.testing.assert_allclose(features, model[:-1].transform(NEW[columns]), rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("column", "part", "remedy"),
    [
        (np.datetime64("2026-01-01") + np.arange(N) % 300, "datetime", "replace dates"),
        ([f"one two {k % 500} three" for k in range(N)], "text", "preprocessing__text='drop'"),
    ],
)
def test_dates_and_text(column, part, remedy):
    """The network alone can be converted, or the pipeline without this part."""
    table = TABLE[["age"]].assign(column=column)
    model = make_tabular_pipeline(RBFClassifier(**FIXED)).fit(table, LABELS)
    with pytest.raises(TypeError, match=rf"Part '{part}'.*{remedy}.*pipeline\[-1\]"):
        to_onnx(model, table)
    to_onnx(model[-1], model[:-1].transform(table))
    model.set_params(**{f"preprocessing__{part}": "drop"}).fit(table, LABELS)
    to_onnx(model, table)


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]", "category", "text"])
def test_dates_as_categories(kind):
    days = pd.Series(np.arange(N) % 5).astype("timedelta64[s]")
    days = days if kind == "timedelta64[ns]" else days + pd.Timestamp("2026-01-01")
    days = days.astype(str if kind == "text" else kind)
    table = TABLE[["age"]].assign(day=days)
    model = make_tabular_pipeline(RBFClassifier(**FIXED), categorical_features=["day"])
    model.fit(table, LABELS)
    if kind == "text":
        check_features(model, table, LABELS, table)
        return
    with pytest.raises(TypeError, match=r"'day' of X .* as categories.* to text, astype\(str\)"):
        to_onnx(model, table)


def test_other_transformers():
    model = make_tabular_pipeline(RBFClassifier(**FIXED))
    model.set_params(preprocessing__numerical__ranks=StandardScaler()).fit(TABLE, LABELS)
    with pytest.raises(TypeError, match=r"'numerical'.*StandardScaler\(\).*keep the transformers"):
        to_onnx(model, TABLE)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (TABLE.drop(columns="age"), ValueError, "X has 6 columns.* with 7"),
        (TABLE.assign(shop=1.0), TypeError, "'shop'.* float64.*categories such as 'S0'.*dtypes"),
    ],
)
def test_other_columns(table, error, message):
    model = make_tabular_pipeline(RBFClassifier(**FIXED)).fit(TABLE, LABELS)
    with pytest.raises(error, match=message):
        to_onnx(model, table)


@pytest.mark.parametrize("transform", ["log", "quantiles"])
@pytest.mark.parametrize("stacked", [False, True])
def test_transformed_targets(stacked, transform):
    """Predictions are means over the residuals, within the range of y."""
    network = RBFRegressor(**FIXED | {"feature_weights": "auto"})
    model = StackedRegressor([("rbf", network)], final_estimator=None) if stacked else network
    model.set_params(target_transform=transform)
    prices = np.exp(Y + np.random.default_rng(0).normal(size=N))
    pipeline = make_tabular_pipeline(model).fit(TABLE[:400], prices[:400])
    converted = onnx_outputs(pipeline, NEW)["variable"][:, 0]
    expected = pipeline.predict(NEW)
    assert expected.max() > 20 * expected.min() > 0
    np.testing.assert_allclose(converted, expected, rtol=1e-4)  # sharp units in float32


def test_transform_of_one_of_two_targets():
    y = np.column_stack([Y, np.exp(2 * Y)])
    pipeline = make_tabular_pipeline(RBFRegressor(**FIXED, target_transform="auto")).fit(TABLE, y)
    assert pipeline[-1].target_transformer_.kinds == [None, "log"]
    converted = onnx_outputs(pipeline, NEW)["variable"]
    np.testing.assert_allclose(converted, pipeline.predict(NEW), rtol=2e-4)  # exp of float32
