"""Data read from files and functions: the model equals that of arrays in memory."""

import threading

import numpy as np
import pytest

from fake_sources import LIBRARIES, ChunkFunction, SliceableFile, batches, written
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
ESTIMATORS = [
    RBFClassifier(60, **SMALL),
    RBFClassifier(60, metric="euclidean", kernel="gaussian", radius=0.8, alpha=1.0, **SMALL),
    RBFClassifier(60, selection="global", readout="none", **SMALL),
    RBFClassifier(60, readout="lms", shuffle=False, max_iter=2, **SMALL),
    RBFClassifier(60, selection="random", class_weight="balanced", **SMALL),
    RBFClassifier(60, feature_weights="learned", alpha="loo", **SMALL),
    RBFClassifier(60, feature_weights="map", metric="euclidean", **SMALL),
    RBFClassifier(selection_radius=0.2, **SMALL),
    TanhClassifier(60, feature_weights=None, **SMALL),
    TanhClassifier(60, feature_weights=None, weights="class_informed", **SMALL),
    TanhClassifier(60, feature_weights=None, weights="constrained", alpha=1.0, **SMALL),
    RBFRegressor(60, uncertainty=True, **SMALL),
    TanhRegressor(60, feature_weights=None, alpha=[0.1, 1.0], **SMALL),
    RBFProjector(60, selection="per_class", **SMALL),
    RBFProjector(60, feature_weights="learned", **SMALL),
    TanhProjector(60, **SMALL),
    PatchClassifier(30, image_shape=(1, 5), patch_size=(1, 3), pool=2, **SMALL),
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    X = rng.random((N, 5), np.float32) + y[:, None].astype(np.float32) / 3
    return X, y, rng.integers(0, 3, N) / 2


def attributes(estimator):
    """All that was fitted."""
    return {name: v for name, v in vars(estimator).items() if name.endswith("_")}


def answers(estimator, X):
    """What the methods of an estimator say of X."""
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


# Batches are chunks with names of features.
@pytest.mark.parametrize(
    ("kind", "estimator"),
    [
        *((kind, estimator) for kind in ("slices", "chunks") for estimator in ESTIMATORS),
        *(("batches", estimator) for estimator in ESTIMATORS[::8]),
        *(
            pytest.param("batches", estimator, marks=pytest.mark.exhaustive)
            for i, estimator in enumerate(ESTIMATORS) if i % 8
        ),
    ],
    ids=repr,
)  # fmt: skip
def test_every_estimator(estimator, kind, rows):
    """To the bit: the same tiles meet the same kernels."""
    X, y, weight = rows
    is_weighted = hasattr(estimator, "predict")
    own = [weight] if is_weighted else []
    estimator.fit(X, y, *own)
    expected = attributes(estimator), answers(estimator, X)
    score = estimator.score(X, y, *own) if is_weighted else None
    names = ["label", "w"][: 1 + len(own)]
    columns = dict(zip(names, [y, *own], strict=True))
    given = {
        "slices": (SliceableFile(X, chunks=(7, 5)), y, *own),
        "chunks": (ChunkFunction(X, y, *own),),
        "batches": (batches(X, **columns), *names),
    }[kind]
    bare = {"slices": given[0], "chunks": given[0], "batches": batches(X)}[kind]
    estimator.fit(*given)
    found = attributes(estimator)
    assert list(found.pop("feature_names_in_", [])) == [
        f"x{j}" for j in range(5) if kind == "batches"
    ]
    assert_same(found, expected[0])
    assert_same(answers(estimator, bare), expected[1])
    if is_weighted:
        assert estimator.score(*given) == score


@pytest.mark.parametrize("library", LIBRARIES)
def test_files(library, rows, tmp_path):
    X, y, _ = rows
    file = written(library, tmp_path, X)
    classifier = TanhClassifier(50, feature_weights=None, **SMALL).fit(X, y)
    expected = attributes(classifier), classifier.predict(X)
    assert_same(attributes(classifier.fit(file, y)), expected[0])
    np.testing.assert_array_equal(classifier.predict(file), expected[1])
    assert classifier.score(file, y) == np.mean(expected[1] == y)


@pytest.mark.parametrize("device", ["jit", "blas", "cpu"])
@pytest.mark.parametrize("max_memory", [2_000_000, 3_000_000])
def test_little_memory(rows, device, max_memory, monkeypatch):
    """Tiles are smaller than of an array, and sums rounded otherwise."""
    # Each thread of a BLAS engine takes memory, and there are few cores or many.
    monkeypatch.setattr("sklearn_fsvc._src.engines.blas.n_threads", lambda: 1)
    X, y = (np.concatenate([some] * 20) for some in rows[:2])
    how = {"random_state": 0, "device": device, "max_memory": max_memory, "alpha": 1.0}
    classifier = TanhClassifier(40, feature_weights=None, scale=1.0, **how).fit(X, y)
    expected = classifier.readout_coef_, classifier.decision_function(X)
    shelf = SliceableFile(X, max_memory // 16 // X[0].nbytes)
    classifier.fit(shelf, y)
    np.testing.assert_allclose(classifier.readout_coef_, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(classifier.decision_function(shelf), expected[1], atol=1e-4)


class Generated(SliceableFile):
    """Rows that are nowhere in memory: each is made as it is read."""

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
        (
            TanhClassifier(150, feature_weights=None, weights="class_informed", alpha=1.0, **SMALL),
            "chunks",
        ),
        (RBFClassifier(150, selection="random", **SMALL), "slices"),
        (TanhRegressor(150, feature_weights=None, alpha=1.0, **SMALL), "chunks"),
    ],
    ids=repr,
)
def test_max_memory(estimator, kind):
    """X has 13.7 MiB, and tiles that are read ahead count."""
    n, budget, answer = 45_000, 9 * MIB, 3 * MIB
    shelf = Generated(n, 80)
    y = np.arange(n) % 3
    given = shelf if kind == "slices" else lambda: shelf.chunks_of(1000)
    estimator.set_params(max_memory=budget)
    estimator.fit(shelf[0:1000], y[:1000])  # compiled and imported before it is measured
    _, fit = peak(estimator.fit, given, y)
    assert fit <= budget + n * PER_ROW
    estimator.set_params(max_memory=answer)
    _, predict = peak(estimator.predict, given)
    assert predict <= answer + n * PER_ROW


@pytest.mark.parametrize("kind", [SliceableFile, ChunkFunction])
def test_a_nan_does_not_change_the_model(rows, kind):
    X, y, _ = rows
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
def test_shapes(rows, kind):
    X, y, weight = rows
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
def test_shapes_of_files(shape, error):
    with pytest.raises(ValueError, match=error):
        TanhClassifier(20, feature_weights=None, **SMALL).fit(
            SliceableFile(np.zeros(shape)), np.arange(shape[0]) % 2
        )


def test_tables_without_feature_columns(rows):
    _, y, _ = rows
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        TanhClassifier(20, feature_weights=None, **SMALL).fit(
            batches(np.empty((N, 0)), label=y), "label"
        )


def test_feature_names(rows):
    X, y, _ = rows
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
        (RBFClassifier(60, selection="random", **SMALL), 6),
        (RBFClassifier(60, **SMALL), 6),
        (RBFClassifier(60, readout="none", **SMALL), 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("max_memory", [None, "22MB"])
def test_number_of_passes_over_the_data(rows, estimator, n_passes, max_memory):
    """In addition to the one that opens a function."""
    X, y = (np.concatenate([some] * 10) for some in rows[:2])
    X += np.random.default_rng(0).random(X.shape, np.float32)
    tap = ChunkFunction(X, y, chunk=700)
    estimator.set_params(max_memory=max_memory).fit(tap)
    assert tap.calls == 1 + n_passes
    assert tap.closed == tap.calls
    estimator.predict(tap)
    assert tap.calls == 1 + n_passes + 2


def test_weights_computed_from_samples_take_one_pass(rows, monkeypatch):
    """However many tiles there are."""
    X, y, _ = rows
    model = TanhClassifier(60, feature_weights=None, weights="class_informed", alpha=1.0, **SMALL)
    monkeypatch.setattr("sklearn_fsvc._src.hidden_layers.random_weights._TILE_BYTES", 5000)
    tap = ChunkFunction(X, y)
    found = model.fit(tap).components_
    assert tap.calls == 1 + 4
    np.testing.assert_array_equal(found, model.fit(X, y).components_)


@pytest.mark.parametrize("selection", ["per_class", "global"])
def test_novelty_does_not_read_a_file_for_each_block(rows, selection):
    """Nor for each radius that it tries: as many rows as fit wait in memory."""
    X, y = (np.concatenate([some] * 40) for some in rows[:2])
    X += np.random.default_rng(0).random(X.shape, np.float32)
    model = RBFClassifier(200, selection=selection, alpha=1.0, radius=0.5, kernel="triangular",
                          feature_weights=None, **SMALL)  # fmt: skip
    expected = model.fit(X, y).support_
    tap = ChunkFunction(X, chunk=1000)
    model.fit(tap, y)
    np.testing.assert_array_equal(model.support_, expected)
    # To open it, for selection, the natural radius, the centres, the readout.
    assert tap.calls <= 5


def test_lms_in_random_order_raises(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match=r'use readout="ridge", shuffle=False, or a numpy\.memmap'):
        RBFClassifier(20, readout="lms", **SMALL).fit(SliceableFile(X), y)


def test_a_model_of_a_file_is_pickled_without_it(rows):
    import pickle

    X, y, _ = rows
    read = lambda: ChunkFunction(X, y)()  # noqa: E731, which cannot be pickled
    classifier = pickle.loads(pickle.dumps(RBFClassifier(20, **SMALL).fit(read)))
    assert classifier.score(read) > 0.5


def test_several_outputs(rows):
    X, y, _ = rows
    Y = np.stack([y, y == 1], axis=1)
    expected = TanhClassifier(40, feature_weights=None, **SMALL).fit(X, Y)
    classifier = TanhClassifier(40, feature_weights=None, **SMALL).fit(ChunkFunction(X, Y))
    np.testing.assert_array_equal(classifier.predict(SliceableFile(X)), expected.predict(X))
    assert classifier.score(ChunkFunction(X, Y)) == expected.score(X, Y)
    regressor = TanhRegressor(40, feature_weights=None, **SMALL).fit(ChunkFunction(X, Y))
    assert regressor.score(ChunkFunction(X, Y)) == TanhRegressor(
        40, feature_weights=None, **SMALL
    ).fit(X, Y).score(X, Y)
