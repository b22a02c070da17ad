"""Data read from files and functions: the model equals that of arrays in memory."""

import threading

import numpy as np
import pytest

from fake_sources import LIBRARIES, ChunkFunction, SliceableFile, batches, write_dataset
from peak_memory import MIB, PER_ROW, peak
from sklearn_fsvc import (
    PatchClassifier,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)

N = 300
SMALL = {"random_state": 0, "device": "jit"}
GIVEN = {"feature_weights": None, "alpha": 1.0, **SMALL}
RBF = {"kernel": "laplacian", "feature_weights": None, **SMALL}
ESTIMATORS = [
    RBFClassifier(60, feature_weights=None, **SMALL),
    RBFClassifier(60, metric="euclidean", kernel="gaussian", radius=0.8, **GIVEN),
    RBFClassifier(60, selection="global", readout="none", **SMALL),
    RBFClassifier(60, readout="lms", shuffle=False, max_iter=2, **RBF),
    RBFClassifier(60, selection="random", class_weight="balanced", **RBF),
    RBFClassifier(60, feature_weights="learned", kernel="laplacian", alpha="loo", **SMALL),
    RBFClassifier(60, feature_weights="map", metric="euclidean", kernel="gaussian", **SMALL),
    RBFClassifier(selection_radius=0.2, **RBF),
    TanhClassifier(60, feature_weights=None, **SMALL),
    TanhClassifier(60, feature_weights=None, weights="class_informed", **SMALL),
    TanhClassifier(60, feature_weights=None, weights="constrained", alpha=1.0, **SMALL),
    RBFRegressor(60, uncertainty=True, **RBF),
    TanhRegressor(60, feature_weights=None, alpha=[0.1, 1.0], **SMALL),
    RBFProjector(60, selection="per_class", **SMALL),
    RBFProjector(60, feature_weights="learned", kernel="laplacian", **SMALL),
    TanhProjector(60, **SMALL),
    PatchClassifier(30, image_shape=(1, 5), patch_size=(1, 3), pool=2, **SMALL),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    X = rng.random((N, 5), np.float32) + y[:, None].astype(np.float32) / 3
    return X, y, rng.integers(0, 3, N) / 2


def attributes(estimator):
    """Return the fitted attributes."""
    return {name: v for name, v in vars(estimator).items() if name.endswith("_")}


def outputs_of(estimator, X):
    """Return the outputs of all methods of the estimator."""
    found = {}
    for name in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)(X)
    if getattr(estimator, "uncertainty", False):
        found["std"] = estimator.predict(X, return_std=True)[1]
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name in ("posterior_", "residual_distribution_"):
            assert_same(found[name]._asdict(), value._asdict())
        elif isinstance(value, dict):
            assert_same(found[name], value)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


# Batches are chunks with feature names.
@pytest.mark.parametrize(
    ("kind", "estimator"),
    [
        *((kind, estimator) for kind in ("slices", "chunks") for estimator in ESTIMATORS),
        *(("batches", estimator) for estimator in ESTIMATORS[1::7]),
        *(
            pytest.param("batches", estimator, marks=pytest.mark.exhaustive)
            for i, estimator in enumerate(ESTIMATORS) if i % 7 != 1
        ),
    ],
    ids=repr,
)  # fmt: skip
def test_models_and_predictions_equal_those_of_arrays(estimator, kind, data):
    """Results are bitwise equal: the same tiles are processed by the same kernels."""
    X, y, weight = data
    is_weighted = hasattr(estimator, "predict")
    weights = [weight] if is_weighted else []
    estimator.fit(X, y, *weights)
    expected = attributes(estimator), outputs_of(estimator, X)
    score = estimator.score(X, y, *weights) if is_weighted else None
    names = ["label", "w"][: 1 + len(weights)]
    columns = dict(zip(names, [y, *weights], strict=True))
    given = {
        "slices": (SliceableFile(X, chunks=(7, 5)), y, *weights),
        "chunks": (ChunkFunction(X, y, *weights),),
        "batches": (batches(X, **columns), *names),
    }[kind]
    X_only = {"slices": given[0], "chunks": given[0], "batches": batches(X)}[kind]
    estimator.fit(*given)
    found = attributes(estimator)
    assert list(found.pop("feature_names_in_", [])) == [
        f"x{j}" for j in range(5) if kind == "batches"
    ]
    assert_same(found, expected[0])
    assert_same(outputs_of(estimator, X_only), expected[1])
    if is_weighted:
        assert estimator.score(*given) == score


# Importing zarr takes a second; test_files_of_real_libraries reads its files.
@pytest.mark.parametrize(
    "library",
    [*LIBRARIES[:-1], pytest.param(LIBRARIES[-1], marks=pytest.mark.exhaustive)],
)
def test_models_of_files_equal_those_of_arrays(library, data, tmp_path):
    X, y, _ = data
    file = write_dataset(library, tmp_path, X)
    classifier = TanhClassifier(50, feature_weights=None, **SMALL).fit(X, y)
    expected = attributes(classifier), classifier.predict(X)
    assert_same(attributes(classifier.fit(file, y)), expected[0])
    np.testing.assert_array_equal(classifier.predict(file), expected[1])
    assert classifier.score(file, y) == np.mean(expected[1] == y)


@pytest.mark.parametrize("device", ["jit", "blas", "cpu"])
@pytest.mark.parametrize("max_memory", [2_000_000, 3_000_000])
def test_small_tiles_give_nearly_the_same_model(data, device, max_memory, monkeypatch):
    """Tiles are smaller than those of arrays, so that sums are rounded differently."""
    # Each thread of a BLAS engine takes memory: do not depend on the number of cores.
    monkeypatch.setattr("sklearn_fsvc._src.engines.blas.n_threads", lambda: 1)
    X, y = (np.concatenate([array] * 20) for array in data[:2])
    params = {"random_state": 0, "device": device, "max_memory": max_memory, "alpha": 1.0}
    classifier = TanhClassifier(40, feature_weights=None, scale=1.0, **params).fit(X, y)
    expected = classifier.readout_coef_, classifier.decision_function(X)
    file = SliceableFile(X, max_memory // 16 // X[0].nbytes)
    classifier.fit(file, y)
    np.testing.assert_allclose(classifier.readout_coef_, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(classifier.decision_function(file), expected[1], atol=1e-4)


class Generated(SliceableFile):
    """Samples that are generated when they are read, and never stored."""

    def __init__(self, n_rows, n_features):
        self.shape, self.dtype = (n_rows, n_features), np.dtype(np.float32)

    def __getitem__(self, key):
        n = key.stop - key.start
        noise = np.arange(key.start * self.shape[1], key.stop * self.shape[1], dtype=np.uint32)
        noise = (noise * np.uint32(2654435761) >> np.uint32(8)).reshape(n, -1)
        return noise.astype(np.float32) / 2**24

    def chunks_of(self, n):
        for start in range(0, self.shape[0], n):
            yield self[start : min(start + n, self.shape[0])]


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (TanhClassifier(150, feature_weights=None, **SMALL), "slices"),
        (TanhClassifier(150, feature_weights=None, **SMALL), "chunks"),
        (TanhClassifier(150, weights="class_informed", **GIVEN), "chunks"),
        (RBFClassifier(150, selection="random", **SMALL), "slices"),
        # The passes of TanhClassifier, without that of the penalty.
        pytest.param(TanhRegressor(150, **GIVEN), "chunks", marks=pytest.mark.exhaustive),
    ],
    ids=repr,
)
def test_max_memory(estimator, kind):
    """X has 18.3 MiB; prefetched tiles count towards the limit."""
    n, fit_limit, predict_limit = 40_000, 9 * MIB, 3 * MIB
    file = Generated(n, 120)
    y = np.arange(n) % 3
    given = file if kind == "slices" else lambda: file.chunks_of(1000)
    estimator.set_params(max_memory=fit_limit)
    estimator.fit(file[0:1000], y[:1000])  # compiled and imported before it is measured
    _, fit = peak(estimator.fit, given, y)
    assert fit <= fit_limit + n * PER_ROW
    estimator.set_params(max_memory=predict_limit)
    _, predict = peak(estimator.predict, given)
    assert predict <= predict_limit + n * PER_ROW


@pytest.mark.parametrize("kind", [SliceableFile, ChunkFunction])
def test_a_nan_does_not_change_the_model(data, kind):
    X, y, _ = data
    classifier = TanhClassifier(20, feature_weights=None, **SMALL).fit(X, y)
    before = attributes(classifier)
    bad = X.copy()
    bad[256, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN in row 256, column 2"):
        classifier.fit(kind(bad), y)
    assert attributes(classifier) == before
    with pytest.raises(ValueError, match="Input X contains NaN in row 256, column 2"):
        classifier.predict(kind(bad))
    assert not [t for t in threading.enumerate() if t.name.startswith("sklearn_fsvc_reader")]


@pytest.mark.parametrize("kind", [SliceableFile, ChunkFunction])
def test_inconsistent_shapes_raise(data, kind):
    X, y, weight = data
    classifier = TanhClassifier(20, feature_weights=None, **SMALL)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[300, 299\]"):
        classifier.fit(kind(X), y[:-1])
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(299,\), expected \(300,\)"):
        classifier.fit(kind(X), y, weight[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        classifier.fit(kind(X))
    classifier.fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but TanhClassifier is expecting 5"):
        classifier.predict(kind(X[:, :4]))


@pytest.mark.parametrize(
    ("shape", "error"),
    [((5,), "Expected 2D array, got 1D"), ((0, 5), "0 sample"), ((5, 0), r"0 feature\(s\)")],
)
def test_invalid_shapes_of_files_raise(shape, error):
    with pytest.raises(ValueError, match=error):
        TanhClassifier(20, feature_weights=None, **SMALL).fit(
            SliceableFile(np.zeros(shape)), np.arange(shape[0]) % 2
        )


def test_tables_without_feature_columns_raise(data):
    _, y, _ = data
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        TanhClassifier(20, feature_weights=None, **SMALL).fit(
            batches(np.empty((N, 0)), label=y), "label"
        )


def test_other_feature_names_raise_or_warn(data):
    X, y, _ = data
    classifier = TanhClassifier(20, feature_weights=None, **SMALL).fit(batches(X, label=y), "label")
    with pytest.raises(ValueError, match="unseen at fit time:\n- label"):
        classifier.predict(batches(X, label=y))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        classifier.predict(SliceableFile(X))


@pytest.mark.parametrize(
    ("estimator", "n_passes"),
    [
        (TanhClassifier(60, feature_weights=None, scale=1.0, alpha=1.0, **SMALL), 2),
        (TanhClassifier(60, feature_weights=None, alpha=1.0, **SMALL), 3),
        (TanhClassifier(60, feature_weights=None, **SMALL), 4),
        (TanhClassifier(60, feature_weights=None, weights="class_informed", alpha=1.0, **SMALL), 4),
        (RBFClassifier(60, selection="random", kernel="laplacian", **SMALL), 6),
        (RBFClassifier(60, kernel="laplacian", **SMALL), 6),
        (RBFClassifier(60, readout="none", **SMALL), 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("max_memory", [None, "22MB"])
def test_number_of_passes_over_the_data(data, estimator, n_passes, max_memory):
    """Opening a function takes one call in addition."""
    X, y = (np.concatenate([array] * 4) for array in data[:2])
    X += np.random.default_rng(0).random(X.shape, np.float32)
    source = ChunkFunction(X, y, chunk=300)
    estimator.set_params(max_memory=max_memory).fit(source)
    assert source.calls == 1 + n_passes
    assert source.closed == source.calls
    estimator.predict(source)
    assert source.calls == 1 + n_passes + 2


def test_weights_computed_from_samples_take_one_pass(data, monkeypatch):
    """The number of passes does not depend on the number of tiles."""
    X, y, _ = data
    model = TanhClassifier(60, feature_weights=None, weights="class_informed", alpha=1.0, **SMALL)
    monkeypatch.setattr("sklearn_fsvc._src.hidden_layers.class_directions._TILE_BYTES", 5000)
    source = ChunkFunction(X, y)
    found = model.fit(source).components_
    assert source.calls == 1 + 4
    np.testing.assert_array_equal(found, model.fit(X, y).components_)


@pytest.mark.parametrize("selection", ["per_class", "global"])
def test_novelty_does_not_read_a_file_for_each_block(data, selection):
    """Nor for each candidate radius: it caches as many samples as fit in memory."""
    X, y = (np.concatenate([array] * 40) for array in data[:2])
    X += np.random.default_rng(0).random(X.shape, np.float32)
    model = RBFClassifier(200, selection=selection, alpha=1.0, radius=0.5, kernel="triangular",
                          feature_weights=None, **SMALL)  # fmt: skip
    expected = model.fit(X, y).support_
    source = ChunkFunction(X, chunk=1000)
    model.fit(source, y)
    np.testing.assert_array_equal(model.support_, expected)
    # One each to open it, and for selection, natural radius, centres and readout.
    assert source.calls <= 5


def test_lms_in_random_order_raises(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r'use readout="ridge", shuffle=False, or a numpy\.memmap'):
        RBFClassifier(20, readout="lms", **SMALL).fit(SliceableFile(X), y)


@pytest.mark.parametrize("cls", [RBFRegressor, TanhRegressor])
def test_hyperparameters_for_float64_files_equal_those_of_arrays(cls):
    """Both are selected in float32, since there are more than a thousand samples."""
    X = np.random.default_rng(0).normal(size=(1050, 2))
    y = X[:, 0] * X[:, 1]
    found, expected = (cls(10, **SMALL).fit(data, y) for data in (SliceableFile(X), X))
    assert_same(attributes(found), attributes(expected))


def test_a_model_of_a_file_is_pickled_without_it(data):
    import pickle

    X, y, _ = data
    read = lambda: ChunkFunction(X, y)()  # noqa: E731, which cannot be pickled
    model = RBFClassifier(20, kernel="laplacian", radius=1.0, **GIVEN)
    classifier = pickle.loads(pickle.dumps(model.fit(read)))
    assert classifier.score(read) > 0.5


def test_several_outputs_equal_those_of_arrays(data):
    X, y, _ = data
    Y = np.stack([y, y == 1], axis=1)
    expected = TanhClassifier(40, feature_weights=None, **SMALL).fit(X, Y)
    classifier = TanhClassifier(40, feature_weights=None, **SMALL).fit(ChunkFunction(X, Y))
    np.testing.assert_array_equal(classifier.predict(SliceableFile(X)), expected.predict(X))
    assert classifier.score(ChunkFunction(X, Y)) == expected.score(X, Y)
    regressor = TanhRegressor(40, feature_weights=None, **SMALL).fit(ChunkFunction(X, Y))
    assert regressor.score(ChunkFunction(X, Y)) == TanhRegressor(
        40, feature_weights=None, **SMALL
    ).fit(X, Y).score(X, Y)
