"""Estimators that are transformers."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from sklearn_fsvc import RBFProjector, TanhClassifier, TanhProjector

PROJECTORS = [RBFProjector(30, random_state=0), TanhProjector(30, random_state=0)]


@pytest.fixture(params=PROJECTORS, ids=lambda p: type(p).__name__)
def projector(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_transform_is_the_formula(digits, device, projector, dtype):
    X = digits[0][:600].astype(dtype)
    H = projector.set_params(device=device).fit_transform(X)
    expected = naive.of_model(projector, X)
    assert H.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_allclose(H, expected, atol=1e-4 if H.dtype == np.float32 else 1e-10)
    assert projector.device_.partition(":")[0] == device


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_euclidean_metrics_of_bytes(digits, device, metric):
    """Centres and samples are converted: products of uint8 would overflow."""
    X = digits[0][:300].astype(np.uint8)
    p = RBFProjector(
        30, radius=40.0, kernel="laplacian", metric=metric, random_state=0, device=device
    ).fit(X)
    H = p.set_params(metric="manhattan").transform(X)  # without effect before the next fit
    expected = naive.rbf(X.astype(float), p.centers_.astype(float), 40.0, metric, "laplacian")
    assert H.dtype == np.float32
    np.testing.assert_allclose(H, expected, atol=1e-4)


def test_tanh_features_follow_from_the_attributes(digits):
    X = digits[0]
    p = TanhProjector(20, random_state=0, scale=0.3, weights="orthogonal").fit(X)
    assert p.components_.shape == (20, 64)
    assert p.hidden_intercept_.shape == (20,)
    np.testing.assert_allclose(
        p.transform(X), np.tanh(X @ p.components_.T + p.hidden_intercept_), atol=1e-12
    )


def test_rbf_features_follow_from_the_attributes(digits):
    X, y = digits
    for selection in ("global", "per_class", "random"):
        p = RBFProjector(60, selection=selection, random_state=0).fit(X, y)
        np.testing.assert_array_equal(p.centers_, X[p.support_])
        H = p.transform(X)
        np.testing.assert_allclose(H, naive.rbf(X, p.centers_, p.radius_), atol=1e-10)
        np.testing.assert_array_equal(H[p.support_, np.arange(len(p.support_))], 1)


@pytest.mark.parametrize("budget", ["1MiB", "3MiB", "200MiB"])
def test_the_memory_limit_changes_no_bit(digits, projector, budget):
    X = digits[0].astype(np.float32)
    projector.set_params(device="jit")
    if isinstance(projector, RBFProjector):
        projector.set_params(selection="random")
    free = projector.fit_transform(X)
    tight = projector.set_params(max_memory="100MiB").fit(X)
    np.testing.assert_array_equal(tight.set_params(max_memory=budget).transform(X), free)


def test_pandas_output(digits, projector):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(digits[0], columns=[f"p{i}" for i in range(64)])
    H = projector.set_output(transform="pandas").fit_transform(X)
    name = type(projector).__name__.lower()
    assert list(H.columns[:2]) == [f"{name}0", f"{name}1"]
    assert list(H.index) == list(X.index)
    np.testing.assert_array_equal(projector.feature_names_in_, X.columns)
    with pytest.raises(ValueError, match="feature names"):
        projector.transform(X.rename(columns={"p0": "q"}))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_polars_output(digits, projector, dtype):
    """DataFrames have the feature names and the same values; `out` stays an array."""
    pl = pytest.importorskip("polars")
    X = digits[0][:200].astype(dtype)
    table = pl.DataFrame(X, schema=[f"p{i}" for i in range(64)])
    plain = clone(projector).fit(X).transform(X)
    projector.set_output(transform="polars")
    for H in projector.fit_transform(table), projector.transform(table):
        assert isinstance(H, pl.DataFrame)
        assert H.columns == list(projector.get_feature_names_out())
        assert H.dtypes == [pl.Float32 if dtype == np.float32 else pl.Float64] * H.width
        np.testing.assert_array_equal(H.to_numpy(), plain)
    out = np.empty_like(plain)
    assert projector.transform(table, out=out) is out
    if _supports_names(table):
        with pytest.raises(ValueError, match="feature names"):
            projector.transform(table.rename({"p0": "q"}))


def _supports_names(table):
    """Return whether scikit-learn reads the names: 1.8 reads those of polars 1 only."""
    return hasattr(StandardScaler().fit(table), "feature_names_in_")


def test_polars_in_a_pipeline(digits, projector):
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(digits[0][:200])
    pipeline = make_pipeline(StandardScaler(), projector).set_output(transform="polars")
    H = pipeline.fit_transform(table)
    assert isinstance(H, pl.DataFrame)
    if _supports_names(table):
        assert list(projector.feature_names_in_) == table.columns


def test_pickle_and_clone(digits, projector):
    X = digits[0]
    fitted = projector.fit(X)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
    assert not [k for k in vars(clone(fitted)) if k.endswith("_")]


def test_a_failed_fit_changes_nothing(digits, projector):
    X = digits[0]
    before = dict(vars(projector.fit(X)))
    with pytest.raises(ValueError, match="NaN"):
        projector.fit(np.full((9, 3), np.nan))
    assert vars(projector) == before


def test_the_layer_of_the_default_classifier():
    """As documented, the defaults differ in the number of units and the learned weights only."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::3]
    y = y[::3]
    projector = TanhProjector(2000, feature_weights="learned", random_state=0).fit(X, y)
    classifier = TanhClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(projector.feature_weights_, classifier.feature_weights_)
    np.testing.assert_array_equal(projector.components_, classifier.components_)
    default = TanhProjector(random_state=0)
    np.testing.assert_array_equal(default.fit(X, y).components_, clone(default).fit(X).components_)
