"""Dask collections: the model equals that of arrays, and predictions are lazy."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.estimators.prediction import as_array_list

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:distributed")

SIZED = {"n_hidden": 40, "random_state": 0, "device": "jit"}
GIVEN = {"alpha": 1.0, "feature_weights": None, **SIZED}
MODELS = [
    TanhClassifier(**GIVEN),
    TanhClassifier(class_weight="balanced", feature_weights=None, **SIZED),
    TanhClassifier(weights="class_informed", alpha="loo", feature_weights=None, **SIZED),
    TanhRegressor(uncertainty=True, feature_weights=None, **SIZED),
    RBFClassifier(**SIZED),
    RBFClassifier(selection="per_class", metric="euclidean", kernel="gaussian", **GIVEN),
    RBFClassifier(readout="none", shuffle=False, **SIZED),
    RBFClassifier(feature_weights="learned", selection_radius=0.8, **SIZED),
    RBFRegressor(selection="random", **SIZED),
    RBFProjector(30, random_state=0, device="jit"),
    TanhProjector(30, random_state=0, device="jit"),
]
METHODS = ["predict", "decision_function", "predict_proba", "predict_log_proba", "transform"]


@pytest.fixture(autouse=True, params=["threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 401)
    return (rng.random((401, 5)) + y[:, None] / 3).astype(np.float32), y


def blocks(array, *sizes):
    """Return a Dask array with blocks of these sizes, and the rest as the last block."""
    rest = len(array) - sum(sizes)
    return da.from_array(array, chunks=((*sizes, rest), *array.shape[1:]))


def assert_lazy_and_equal(found, expected, tolerance=2e-5):
    assert isinstance(found, da.Array)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert type(found._meta) is np.ndarray
    assert found._meta.dtype == expected.dtype
    assert found.ndim == expected.ndim == found._meta.ndim
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-3, atol=tolerance)


@pytest.mark.parametrize(
    ("model", "scheduler"),
    [
        *((model, "threads") for model in MODELS), (MODELS[0], "synchronous"),
        *(
            pytest.param(model, "synchronous", marks=pytest.mark.exhaustive)
            for model in MODELS[4::4]
        ),
    ],
    ids=str, indirect=["scheduler"],
)  # fmt: skip
def test_model_and_predictions_equal_those_of_arrays(data, model, scheduler, monkeypatch):
    # Each block is a leaf of its own, so that sums of several leaves are added.
    monkeypatch.setattr("sklearn_fsvc._src.data.dask_blocks._LEAF_ROWS", 100)
    X, y = data
    lazy = blocks(X, 100, 0, 57, 150)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(lazy, blocks(y, 200, 100))
    if hasattr(expected, "support_"):
        np.testing.assert_array_equal(found.support_, expected.support_)
        np.testing.assert_array_equal(found.centers_, expected.centers_)
    for name in METHODS:
        if hasattr(expected, name):
            assert_lazy_and_equal(getattr(found, name)(lazy), getattr(expected, name)(X), 1e-3)
            # The same model predicts the same for arrays and for Dask arrays.
            assert_lazy_and_equal(getattr(found, name)(lazy), getattr(found, name)(X))
    if hasattr(expected, "score"):
        assert found.score(lazy, blocks(y, 13)) == pytest.approx(expected.score(X, y), abs=1e-4)
    assert not any(hasattr(value, "__dask_graph__") for value in vars(found).values())


def test_standard_deviations_equal_those_of_arrays(data):
    X, y = data
    model = TanhRegressor(uncertainty=True, feature_weights=None, **SIZED).fit(X, y)
    np.testing.assert_array_equal(
        model.predict_interval(blocks(X, 100), 0.5).compute(),
        model.predict_interval(blocks(X, 100), confidence_level=0.5).compute(),
    )
    assert_lazy_and_equal(
        model.predict_quantiles(blocks(X, 100), 0.5), model.predict_quantiles(X, 0.5)
    )
    for found, expected in zip(
        model.predict(blocks(X, 100), return_std=True),
        model.predict(X, return_std=True),
        strict=True,
    ):
        assert_lazy_and_equal(found, expected)


def test_sparse_blocks_are_refused(data):
    X, y = data
    sparse = blocks(X, 100).map_blocks(csr_array)
    model = TanhRegressor(**GIVEN).fit(X, y)
    for call in (lambda: clone(model).fit(sparse, y), lambda: model.predict(sparse).compute()):
        with pytest.raises(TypeError, match=r"blocks of X are sparse.*block\.toarray\(\)"):
            call()
    dense = sparse.map_blocks(lambda block: block.toarray(), dtype=X.dtype)
    assert_lazy_and_equal(model.predict(dense), model.predict(X))


def test_several_outputs_equal_those_of_arrays(data):
    X, y = data
    Y = np.column_stack([y, y > 0])
    model = TanhClassifier(feature_weights=None, **SIZED).fit(blocks(X, 100), blocks(Y, 200))
    for name in ("decision_function", "predict_proba"):
        found, expected = getattr(model, name)(blocks(X, 100)), getattr(model, name)(X)
        assert len(found) == len(expected) == 2
        for one, other in zip(found, expected, strict=True):
            assert_lazy_and_equal(one, other)
    assert_lazy_and_equal(model.predict(blocks(X, 100)), model.predict(X))


def test_sample_weights_may_have_other_blocks_than_X(data):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    model = TanhClassifier(alpha="loo", feature_weights=None, **SIZED)
    expected = clone(model).fit(X, y, weight).readout_coef_
    found = clone(model).fit(blocks(X, 100), blocks(y, 9), blocks(weight, 300)).readout_coef_
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "dtype",
    [
        np.int64,
        np.float64,
        *(pytest.param(d, marks=pytest.mark.exhaustive) for d in (np.uint8, bool)),
    ],
)
def test_centres_have_the_dtype_of_X(data, dtype):
    X, y = data
    X = (10 * X).astype(dtype)
    model = RBFClassifier(kernel="triangular", radius=9.0, selection_radius=5.0, **GIVEN)
    expected, found = clone(model).fit(X, y), clone(model).fit(blocks(X, 100), y)
    assert found.centers_.dtype == expected.centers_.dtype
    np.testing.assert_array_equal(found.support_, expected.support_)
    assert_lazy_and_equal(found.decision_function(blocks(X, 77)), expected.decision_function(X))


def test_dask_dataframes_have_feature_names(data):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = data
    table = pd.DataFrame(X, columns=list("abcde"))
    table["y"] = np.array(["red", "green", "blue"])[y]
    lazy = dd.from_pandas(table, npartitions=3)
    model = TanhClassifier(**GIVEN)
    expected = clone(model).fit(table[list("abcde")], table["y"])
    found = clone(model).fit(lazy[list("abcde")], lazy["y"])
    assert list(found.feature_names_in_) == list("abcde")
    predictions = found.predict(lazy[list("abcde")])
    assert (predictions.compute() == expected.predict(table[list("abcde")])).all()
    with pytest.raises(ValueError, match="feature names"):
        found.predict(lazy[list("edcba")])


def test_columns_of_uint8_have_learned_weights(data):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = data
    X, y = X[:200], y[:200]
    table = pd.DataFrame((20 * X + 100).astype(np.uint8), columns=list("abcde"))
    lazy, model = dd.from_pandas(table, npartitions=3), TanhClassifier(alpha=1.0, **SIZED)
    expected, found = clone(model).fit(table, y), clone(model).fit(lazy, y)
    assert expected.feature_weights_ is not None
    probabilities = found.predict_proba(lazy).compute()
    np.testing.assert_allclose(probabilities, expected.predict_proba(table), atol=1e-5)


def test_columns_of_several_dtypes(data):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = data
    table = pd.DataFrame(X, columns=list("abcde")).astype({"a": "Float64", "b": "Float32"})
    table["c"], table["d"] = (10 * table["c"]).astype(int).astype("Int32"), table["d"] > 0.5
    lazy = dd.from_pandas(table, npartitions=3)
    model = TanhClassifier(**GIVEN)
    expected, found = clone(model).fit(table, y), clone(model).fit(lazy, y)
    probabilities = found.predict_proba(lazy).compute()
    np.testing.assert_allclose(probabilities, expected.predict_proba(table), atol=1e-5)
    missing = dd.from_pandas(table.assign(a=table["a"].mask(table["a"] > 1)), npartitions=3)
    with pytest.raises(ValueError, match=r"NaN in row \d+, column 0"):
        model.fit(missing, y)
    for values in (table["a"].astype(str), table["a"].astype("category")):
        with pytest.raises(ValueError, match=r"Column 'a' of X \(.*\) does not hold numbers.*comp"):
            model.fit(dd.from_pandas(table.assign(a=values), npartitions=3), y)


def test_other_collections_raise(data):
    X, y = data
    with pytest.raises(TypeError, match=r"X is a Delayed.* of Dask; pass a dask\.array"):
        TanhClassifier(**GIVEN).fit(dask.delayed(X), y)


def test_batches_are_those_of_arrays_and_tables(data):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = data
    table, target = pd.DataFrame(X, columns=list("abcde")), pd.Series(y)
    lazy = dd.from_pandas(table, npartitions=3), dd.from_pandas(target, npartitions=2)
    model = TanhClassifier(**GIVEN)
    expected, found = clone(model).partial_fit(table, target), clone(model).partial_fit(*lazy)
    assert list(found.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(found.predict_proba(table), expected.predict_proba(table))
    for change in (found.partial_fit, found.forget):
        with pytest.raises(ValueError, match="feature names"):
            change(lazy[0][list("edcba")], lazy[1])
    found.forget(lazy[0].partitions[0], y[:134])
    expected.forget(table[:134], y[:134])
    np.testing.assert_array_equal(found.predict_proba(table), expected.predict_proba(table))


def test_masked_batches_raise(data):
    X, y = data
    lazy, labels = blocks(X, 100), blocks(y, 30)
    model = TanhClassifier(**GIVEN).partial_fit(lazy, labels)
    masked = {
        "X": (da.ma.masked_greater(lazy, 1), y, None),
        "y": (lazy, da.ma.masked_equal(labels, y[0]), None),
        "sample_weight": (lazy, y, da.ma.masked_equal(labels + 1.0, 1)),
    }
    for name, batch in masked.items():
        for change in (model.partial_fit, model.forget):
            with pytest.raises(ValueError, match=f"{name} is a masked array"):
                change(*batch[:2], sample_weight=batch[2])


def test_masked_groups_and_tables_raise(data):
    X, y = data
    groups = da.ma.masked_less(blocks(np.arange(len(X)) // 4, 100), 9)
    with pytest.raises(ValueError, match="groups is a masked array"):
        TanhClassifier(**SIZED).fit(blocks(X, 100), y, groups=groups)
    model, masked = make_tabular_pipeline(TanhClassifier(**GIVEN)), da.ma.masked_greater
    with pytest.raises(ValueError, match="X is a masked array"):
        model.fit(masked(blocks(X, 100), 1), y)
    model.fit(blocks(X, 100), y)
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(masked(blocks(X, 100), 1))


def test_unknown_lengths_and_columns_in_blocks(data):
    X, y = data
    lazy = da.from_array(X, chunks=(100, 2))
    selected = lazy[lazy[:, 0] > 0.5]
    mask = X[:, 0] > 0.5
    model = TanhClassifier(**GIVEN)
    found = clone(model).fit(selected, da.from_array(y, chunks=50)[mask])
    np.testing.assert_allclose(
        found.readout_coef_, model.fit(X[mask], y[mask]).readout_coef_, rtol=1e-3, atol=1e-4
    )
    assert np.isnan(selected.chunks[0]).all()  # the user's array is unchanged
    predictions = found.predict(selected)
    assert np.isnan(predictions.chunks[0]).all()
    np.testing.assert_array_equal(predictions.compute(), found.predict(X[mask]))


def test_a_search_equals_that_on_arrays(data):
    X, y = data[0], data[1] > 0
    sizes = {"n_hidden": [10, 30]}
    rbf = RBFClassifier(selection_radius=0.8, kernel="laplacian", radius=1.0)
    for model, grid in ((TanhClassifier(), sizes | {"alpha": [1.0, "auto"]}), (rbf, sizes)):
        model.set_params(feature_weights=None, random_state=0)
        expected = HiddenSizeSearchCV(model, grid, cv=2).fit(X, y)
        found = HiddenSizeSearchCV(model, grid, cv=2).fit(blocks(X, 100, 100), blocks(y, 50))
        for name in ("mean_test_score", "std_test_score"):
            np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name])
        assert_lazy_and_equal(found.predict(blocks(X, 90)), expected.predict(X))


def with_nan(X, block, row):
    def set_nan(part, block_info):
        if block_info[0]["chunk-location"][0] == block:
            part = part.copy()
            part[row, 1] = np.nan
        return part

    return X.map_blocks(set_nan, dtype=X.dtype)


def test_invalid_data_raises(data):
    X, y = data
    lazy, model = blocks(X, 100), TanhClassifier(**GIVEN)
    with pytest.raises(ValueError, match="NaN in row 107, column 1"):
        model.fit(with_nan(lazy, 1, 7), y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y).predict(with_nan(lazy, 1, 7)).compute()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(lazy, blocks(y, 30)[:-1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(lazy[:, 0], y)
    with pytest.raises(ValueError, match="by its chunks it has"):
        model.fit(lazy.map_blocks(lambda b: b[1:], dtype=X.dtype, chunks=lazy.chunks), y)
    with pytest.raises(ValueError, match="X has 4 features, but TanhClassifier is expecting 5"):
        model.fit(X, y).predict(lazy[:, :4])
    with pytest.raises(TypeError, match=r"use dask\.array\.store"):
        model.fit(X, y).predict(lazy, out=np.empty(len(X)))
    with pytest.raises(ValueError, match="max_memory"):
        clone(model).set_params(max_memory=1000).fit(lazy, y)
    with pytest.raises(ValueError, match="object"):
        model.fit(lazy.astype(object), y)
    with pytest.raises(ValueError, match="X is a masked array"):
        model.fit(da.ma.masked_greater(lazy, 1), y)
    with pytest.raises(ValueError, match="y is a masked array"):
        model.fit(lazy, da.ma.masked_equal(blocks(y, 30), y[0]))


def test_a_failed_fit_does_not_change_the_model(data):
    X, y = data
    model = TanhClassifier(**GIVEN).fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_nan(blocks(X, 100), 1, 7), y)
    assert vars(model) == before


def test_blocks_are_not_fetched(data, monkeypatch):
    """A fit fetches only sums and a few samples."""
    X, y = data
    fetched, compute = [], dask.compute

    def record(*tasks, **options):
        found = compute(*tasks, **options)
        fetched.extend(part for part in found if isinstance(part, np.ndarray))
        return found

    monkeypatch.setattr(dask, "compute", record)
    model = RBFClassifier(
        selection_radius=0.5, radius=0.5, kernel="triangular", alpha="auto", **SIZED
    )
    model.set_params(feature_weights=None).fit(blocks(X, 100, 100, 100), y)
    assert sum(part.nbytes for part in fetched if part.ndim == 2) <= 2 * 40 * X.shape[1] * 4


def test_quantiles_are_lazy(data):
    X, y = data
    model = TanhRegressor(**GIVEN).fit(X, y)
    found = model.predict_quantiles(blocks(X, 150, 0, 100), quantiles=[0.1, 0.9])
    assert_lazy_and_equal(found, model.predict_quantiles(X, [0.1, 0.9]))
    model.fit(blocks(X, 150, 0, 100), np.column_stack([y, -y]))
    assert_lazy_and_equal(model.predict_interval(blocks(X, 150, 0, 100)), model.predict_interval(X))


def test_prediction_sets_of_blocks(data):
    X, y = data
    model = TanhClassifier(**GIVEN)
    for labels in (y > 0, np.column_stack([y > 0, y > 1]), np.column_stack([y > 0, y])):
        model.fit(blocks(X, 150, 0, 100), labels.astype(int))
        found = model.predict_set(blocks(X, 150, 0, 100), confidence_level=0.99)
        expected = model.predict_set(X, 0.99)
        for one, other in zip(*map(as_array_list, (found, expected)), strict=True):
            assert one.dtype == bool
            assert_lazy_and_equal(one, other)
    with pytest.raises(ValueError, match="confidence_level=2 must be between 0 and 1"):
        model.predict_set(blocks(X, 150, 0, 100), confidence_level=2)
