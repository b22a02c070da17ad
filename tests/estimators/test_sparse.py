"""Sparse data with tanh units: predictions equal those of dense data, up to rounding."""

import pickle
import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fake_devices import FakeDevice
from peak_memory import MIB, PER_ROW, peak
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    PatchProjector,
    PatchRegressor,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.engines import ENGINES

N, FEATURES = 300, 400
NAMES = [f"word {j}" for j in range(FEATURES)]
SIZED = {"n_hidden": 40, "feature_weights": None, "random_state": 0}
MODELS = [
    TanhClassifier(**SIZED),
    TanhClassifier(alpha="loo", **SIZED),
    TanhClassifier(weights="class_informed", alpha=1.0, **SIZED),
    TanhClassifier(weights="constrained", alpha=1.0, scale=0.3, **SIZED),
    TanhClassifier(weights="orthogonal", image_shape=(20, 20), alpha=1.0, **SIZED),
    TanhRegressor(alpha=1.0, uncertainty=True, **SIZED),
    TanhProjector(30, random_state=0),
]
all_models = pytest.mark.parametrize("model", MODELS, ids=str)
CLASSIFIER, REGRESSOR = TanhClassifier(alpha=1.0, **SIZED), TanhRegressor(alpha=1.0, **SIZED)


def make_data(density=0.03, dtype=np.float64):
    """Return samples of small integers, some of them all zero, and classes."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 9, (N, FEATURES)) * (rng.random((N, FEATURES)) < density)
    X[5:8] = X[-1] = 0
    return X.astype(dtype), np.arange(N) % 3


def outputs_of(model, X):
    if hasattr(model, "transform"):
        return [model.transform(X)]
    if hasattr(model, "decision_function"):
        proba = [model.predict_proba(X)] if hasattr(model, "predict_proba") else []
        return [model.predict(X), model.decision_function(X), *proba]
    return model.predict(X, return_std=True) if model.uncertainty else [model.predict(X)]


def assert_same(found, expected, tolerance=1e-9):
    for actual, reference in zip(found, expected, strict=True):
        assert actual.dtype == reference.dtype
        np.testing.assert_allclose(
            actual, reference, rtol=0, atol=tolerance * max(1, abs(reference).max())
        )


@all_models
def test_predictions_equal_those_of_dense_data(device, model):
    X, y = make_data()
    model.set_params(device=device)
    expected = outputs_of(clone(model).fit(X, y), X)
    fitted = clone(model).fit(sparse.csr_array(X), y)
    assert_same(outputs_of(fitted, sparse.csr_array(X)), expected)
    assert_same(outputs_of(fitted, X), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, bool])
@all_models
def test_dtypes_of_sparse_data(model, dtype):
    X, y = make_data(dtype=dtype)
    expected = outputs_of(clone(model).fit(X, y), X)
    fitted, X = clone(model).fit(sparse.csr_array(X), y), sparse.csr_array(X)
    assert_same(outputs_of(fitted, X), expected, 1e-9 if dtype in (np.int64, bool) else 1e-4)


def unsorted_indices(X):
    """Return a CSR array with reversed column indices in each row."""
    X = sparse.csr_array(X)
    for row in range(len(X.indptr) - 1):
        entries = slice(X.indptr[row], X.indptr[row + 1])
        X.indices[entries], X.data[entries] = (
            X.indices[entries][::-1].copy(),
            X.data[entries][::-1].copy(),
        )
    X.has_sorted_indices = False
    return X


def duplicate_entries(X):
    """Return a CSR array with two equal entries that add up to each value."""
    X = sparse.csr_array(X)
    return sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )


def explicit_zeros(X):
    """Return a CSR array with explicit zeros in the first features."""
    stored = X + (X == 0) * (np.arange(FEATURES) < 20) * 1000
    stored = sparse.csr_array(stored)
    stored.data[stored.data == 1000] = 0
    return stored


def int64_indices(X):
    X = sparse.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


FORMS = [
    sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix,
    unsorted_indices, duplicate_entries, explicit_zeros, int64_indices,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_sparse_formats(form):
    X, y = make_data()
    given = form(X)
    before = given.copy()
    np.testing.assert_array_equal(given.toarray(), X)  # the format keeps the values
    model = clone(CLASSIFIER).fit(given, y)
    assert_same(outputs_of(model, given), outputs_of(clone(CLASSIFIER).fit(X, y), X))
    if given.format == "csr":
        np.testing.assert_array_equal(given.indices, before.indices)
        np.testing.assert_array_equal(given.data, before.data)


def test_a_dataframe_with_sparse_columns():
    pandas = pytest.importorskip("pandas")
    X, y = make_data()
    table = pandas.DataFrame.sparse.from_spmatrix(sparse.csr_array(X), columns=NAMES)
    model = clone(CLASSIFIER).fit(table, y)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same(outputs_of(model, table), outputs_of(clone(CLASSIFIER).fit(X, y), X))


def test_high_density():
    X, y = make_data(density=0.5)
    expected = outputs_of(clone(CLASSIFIER).fit(X, y), X)
    X = sparse.csr_array(X)
    assert_same(outputs_of(clone(CLASSIFIER).fit(X, y), X), expected)


def test_few_samples():
    X, y = make_data()
    model = clone(CLASSIFIER).fit(X, y)
    for rows in (slice(0, 1), slice(5, 6), slice(8, 11)):
        expected = outputs_of(model, X[rows])
        assert_same(outputs_of(model, sparse.csr_array(X[rows])), expected)


def test_sample_weight_class_weight_and_max_memory():
    """Also with samples of weight 0 and small tiles."""
    X, y = make_data()
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    # The libraries of a GPU need more memory than this limit.
    model = clone(CLASSIFIER).set_params(class_weight="balanced", device="cpu")
    expected = outputs_of(clone(model).fit(X, y, weight), X)
    model.set_params(max_memory=4_000_000)
    assert_same(outputs_of(model.fit(sparse.csr_array(X), y, weight), X), expected)


@pytest.mark.parametrize("method", ["learned", "refined"])
def test_feature_weights_equal_those_of_dense_data(method):
    """Few non-zeros, so that samples are multiplied as CSR; weights are learned from distances."""
    rng = np.random.default_rng(0)
    density = np.repeat([0.4, 0.03], [3, 37])
    X = rng.normal(size=(300, 40)) * (rng.random((300, 40)) < density)
    model = TanhRegressor(40, feature_weights=method, random_state=0)
    y = np.abs(X[:, :3]).sum(axis=1)
    expected = clone(model).fit(X, y)
    assert expected.feature_weights_ is not None
    fitted = model.fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(fitted.feature_weights_, expected.feature_weights_)
    assert_same(outputs_of(fitted, X), outputs_of(expected, X))


@pytest.mark.parametrize("model", [CLASSIFIER, REGRESSOR], ids=str)
def test_incremental_fits_equal_those_on_dense_data(model):
    """Dense and sparse batches with samples of weight 0; then some samples are removed."""
    X, y = make_data()
    weight = (np.arange(N) % 5 > 0).astype(float)
    forms = [sparse.csr_array, sparse.csc_array, np.asarray]

    def train(forms):
        learner = clone(model)
        for i, form in enumerate(forms):
            part = slice(100 * i, 100 * (i + 1))
            classes = {"classes": range(3)} if model is CLASSIFIER and i == 0 else {}
            learner.partial_fit(form(X[part]), y[part], sample_weight=weight[part], **classes)
        return learner.forget(forms[0](X[20:50]), y[20:50], weight[20:50])

    learner, expected = train(forms), outputs_of(train([np.asarray] * 3), X)
    assert_same(outputs_of(pickle.loads(pickle.dumps(learner)), X), expected)
    assert_same(outputs_of(learner, sparse.csr_array(X)), expected)


def test_buffered_samples_stay_sparse():
    X, y = make_data()
    model = clone(CLASSIFIER).set_params(layer=FrozenEstimator(clone(CLASSIFIER).fit(X, y)))
    model.partial_fit(sparse.csr_array(X[:30]), y[:30], classes=range(3))
    given = sparse.csr_array(X[30:40])
    before = model._incremental_state.statistics.n_bytes
    model.partial_fit(given, y[30:40], sample_weight=np.arange(10) % 2)
    (*_, last) = model._incremental_state.statistics.buffered
    assert isinstance(last.samples.X, SparseSource)
    assert len(last.samples) == 5
    assert model._incremental_state.statistics.n_bytes - before < X[30:40].nbytes / 10
    given.data[:] = np.nan  # they are copies
    assert model.predict(X).shape == (N,)


def test_merged_models_equal_one_fit():
    X, y = make_data()
    given = sparse.csr_array(X)
    layer = FrozenEstimator(TanhProjector(40, random_state=0).fit(given))
    model = TanhClassifier(layer=layer, alpha=1.0)
    parts = [clone(model).partial_fit(given[i::2], y[i::2], classes=range(3)) for i in range(2)]
    merged = parts[0].merge(parts[1:])
    assert_same(outputs_of(merged, given), outputs_of(model.fit(X, y), X))


def test_device_groups_equal_one_device(monkeypatch):
    monkeypatch.setitem(ENGINES, FakeDevice.name, FakeDevice)
    X, y = make_data()
    for model in MODELS[:3] + MODELS[-1:]:
        expected = outputs_of(clone(model).fit(X, y), X)
        device_group = clone(model).set_params(device="half:all").fit(sparse.csr_array(X), y)
        assert_same(outputs_of(device_group, sparse.csr_array(X)), expected)


@pytest.mark.parametrize(
    "grid", [{"n_hidden": [10, 30], "alpha": [0.1, 1.0]}, {"weights": ["class_informed"]}]
)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_array])
def test_a_search_equals_that_on_dense_data(form, grid):
    X, y = make_data()
    searches = [
        HiddenSizeSearchCV(TanhClassifier(scale=0.2, alpha=1.0, **SIZED), grid, cv=3).fit(rows, y)
        for rows in (X, form(X))
    ]
    dense_scores, sparse_scores = (search.cv_results_["mean_test_score"] for search in searches)
    np.testing.assert_allclose(sparse_scores, dense_scores)
    np.testing.assert_array_equal(*(search.predict(X) for search in searches))


FURRY = ["the cat is furry", "a kitten is soft and furry", "my dog is furry and loud"]
STEEL = ["the engine is steel", "a motor is loud steel", "my car is made of steel"]


def test_bag_of_words():
    texts, y = 4 * FURRY + 4 * STEEL, 12 * ["animal"] + 12 * ["machine"]
    words = TfidfVectorizer()
    model = make_pipeline(words, TanhClassifier(30, weights="class_informed", random_state=0))
    assert cross_val_score(model, texts, y, cv=4, error_score="raise").mean() == 1
    predictions = model.fit(texts, y).predict(["a furry friend", "steel, of all things"])
    assert predictions.tolist() == ["animal", "machine"]


@all_models
def test_invalid_values_are_named(model):
    X, y = make_data()
    fitted, given = clone(model).fit(X, y), sparse.csr_array(X)
    row, column = np.argwhere(X)[40]
    for value, what in ((np.nan, "NaN"), (np.inf, "infinity")):
        given.data[40] = value
        match = f"Input X contains {what} in row {row}, column {column}; remove or impute"
        for call in (
            lambda: clone(model).fit(given, y),
            lambda: outputs_of(fitted, sparse.csc_array(given)),
        ):
            with pytest.raises(ValueError, match=match):
                call()


@all_models
def test_invalid_shapes_raise(model):
    X, y = make_data()
    fitted = clone(model).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="0 sample"):
        clone(model).fit(sparse.csr_array((0, FEATURES)), [])
    with pytest.raises(ValueError, match="0 sample"):
        outputs_of(fitted, sparse.csr_array((0, FEATURES)))
    with pytest.raises(ValueError, match=f"X has 3 features, but .* expecting {FEATURES}"):
        outputs_of(fitted, sparse.csr_array((2, 3)))


DENSE = [RBFClassifier, RBFRegressor, RBFProjector, PatchClassifier, PatchRegressor, PatchProjector]


@pytest.mark.parametrize("cls", DENSE)
def test_estimators_that_need_dense_data_raise_with_the_remedy(cls):
    X, y = make_data()
    other = re.sub("RBF|Patch", "Tanh", cls.__name__)
    match = f"{cls.__name__} needs dense rows. Use {other}, .*TruncatedSVD.*toarray"
    calls = [lambda: cls().fit(sparse.csr_array(X), y)]
    if hasattr(cls, "partial_fit"):
        calls.append(lambda: cls().set_params(alpha=1.0).partial_fit(sparse.csr_array(X), y))
    for call in calls:
        with pytest.raises(TypeError, match=match):
            call()


def test_sparse_chunks_raise():
    X, y = make_data()
    with pytest.raises(TypeError, match=r"begins at row 0 is sparse; .*toarray"):
        clone(CLASSIFIER).fit(lambda: iter([(sparse.csr_array(X), y)]))


def random_sparse(n_rows, n_features, density):
    """Draw with a Generator: with a RandomState SciPy permutes all positions of the matrix."""
    options = {"format": "csr", "random_state": np.random.default_rng(0)}
    return sparse.csr_array(sparse.random(n_rows, n_features, density, **options))


# As a dense array it would have 160 MB; a layer of 100 units has 1.6 MB.
N_WIDE = 10_000
WIDE = random_sparse(N_WIDE, 2000, 2.5e-3)
LABELS = np.arange(N_WIDE) % 3


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"alpha": 1.0}, marks=pytest.mark.exhaustive),  # the passes of {}, without one
        {},
        {"alpha": "loo"},
        {"weights": "class_informed"},
    ],
    ids=str,
)
def test_data_is_never_dense_as_a_whole(params):
    model = TanhClassifier(100, feature_weights=None, random_state=0, device="cpu", **params)
    model.fit(WIDE[:200], LABELS[:200])  # imported before it is measured
    _, fit = peak(model.fit, WIDE, LABELS)
    _, predict = peak(model.predict, WIDE)
    assert fit < 100 * MIB  # the samples from which the scale is computed are dense
    assert predict < 40 * MIB


def test_max_memory():
    X = random_sparse(N_WIDE, 1000, 5e-3)
    given = {"feature_weights": None, "scale": 0.2, "alpha": 1.0, "device": "cpu"}
    model = TanhClassifier(200, random_state=0, **given)
    model.fit(X[:500], LABELS[:500])

    def measure(max_memory):
        model.set_params(max_memory=max_memory)
        _, fit = peak(model.fit, X, LABELS)
        _, predict = peak(model.predict, X)
        results = PER_ROW * N_WIDE
        return fit - model.components_.nbytes - results, predict - results

    assert max(measure(15_000_000)) <= 15_000_000
    assert measure(None)[1] > 15_000_000  # the limit above is effective


def test_max_memory_with_many_features():
    X = random_sparse(4000, 5000, 0.05)
    projector = TanhProjector(10, scale=0.2, random_state=0, device="cpu").fit(X[:500])

    def measure(max_memory):
        H, n_bytes = peak(projector.set_params(max_memory=max_memory).transform, X)
        return n_bytes - H.nbytes

    assert measure(4_000_000) <= 4_000_000
    assert measure(None) > 10_000_000


@pytest.mark.slow
def test_many_features():
    X = random_sparse(3000, 60_000, 1e-3)
    model, y = TanhClassifier(200, random_state=0), np.arange(3000) % 3
    _, fit = peak(model.fit, X, y)  # as a dense array X would have 1.4 GB
    assert fit < 2.5 * model.components_.nbytes
    _, predict = peak(model.predict, X[:1])
    assert predict < 4 * MIB  # and the layer has 96 MB
