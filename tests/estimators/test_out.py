"""The parameter `out`: predictions and activations are written to arrays and files."""

import numpy as np
import pytest
from sklearn import config_context

from fake_sources import ChunkFunction, SliceableFile
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    StackedClassifier,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)

N = 600
SMALL = {"random_state": 0, "device": "jit"}
TANH = {"feature_weights": None, "alpha": 1.0, **SMALL}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    X = rng.random((N, 5), np.float32) + y[:, None].astype(np.float32) / 3
    return X, y, rng.integers(0, 3, N) / 2


def test_uncovered_samples(data):
    """They are read a second time, and their predictions are written to their rows of `out`."""
    X, y, _ = data
    far = X.copy()
    far[[5, 6, 99, 300]] += 50
    params = {"radius": 0.1, "alpha": 1.0, "kernel": "triangular", "feature_weights": None}
    classifier = RBFClassifier(40, **params, **SMALL).fit(X, y)
    expected = classifier.predict(far)
    np.testing.assert_array_equal(classifier.predict(SliceableFile(far)), expected)
    out = np.full(N, -1)
    assert classifier.predict(ChunkFunction(far), out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.fixture
def file(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "out.h5", "w") as file:
        yield file


@pytest.mark.parametrize("kind", [np.asarray, SliceableFile])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_transform_into_a_file(data, file, kind, dtype):
    X, _, _ = data
    projector = RBFProjector(30, max_memory="1MB", **SMALL).fit(X)
    H = projector.transform(X)
    out = file.create_dataset("H", H.shape, dtype)
    assert projector.transform(kind(X), out=out) is out
    np.testing.assert_array_equal(out[:], H)


@pytest.mark.parametrize("make", [
    lambda shape: np.empty(shape, "f4"), lambda shape: np.empty(shape, "f8"),
    lambda shape: np.empty(shape, "f4", order="F"), lambda shape: np.empty(shape[::-1], "f4").T,
])  # fmt: skip
def test_transform_into_an_array(data, make):
    X, _, _ = data
    projector = TanhProjector(30, **SMALL).fit(X)
    out = make((N, 30))
    assert projector.transform(X, out=out) is out
    np.testing.assert_array_equal(out, projector.transform(X))


def test_transform_into_a_memmap(data, tmp_path):
    X, _, _ = data
    projector = TanhProjector(30, **SMALL).fit(X)
    out = np.lib.format.open_memmap(tmp_path / "H.npy", "w+", "f4", (N, 30))
    assert projector.transform(ChunkFunction(X), out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "H.npy"), projector.transform(X))


def test_out_is_not_converted_by_set_output(data, file):
    X, _, _ = data
    projector = TanhProjector(3, **SMALL).fit(X).set_output(transform="pandas")
    out = file.create_dataset("H", (N, 3), "f4")
    assert projector.transform(X, out=out) is out
    frame = projector.transform(SliceableFile(X))
    assert list(frame.columns) == [f"tanhprojector{j}" for j in range(3)]
    np.testing.assert_array_equal(frame, out[:])
    with config_context(transform_output="polars"):
        assert TanhProjector(3, **SMALL).fit(X).transform(X, out=out) is out


@pytest.mark.parametrize("labels", [[3, 4, 5], ["a", "b", "longer"]])
def test_predict_into_out(data, labels, file):
    X, y, _ = data
    y = np.array(labels)[y]
    classifier = TanhClassifier(20, **TANH).fit(X, y)
    expected = classifier.predict(X)
    out = np.empty(N, expected.dtype)
    assert classifier.predict(SliceableFile(X), out=out) is out
    np.testing.assert_array_equal(out, expected)
    if y.dtype.kind == "i":
        out = file.create_dataset("y", N, "u1")
        assert classifier.predict(X, out=out) is out
        np.testing.assert_array_equal(out[:], expected)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_predict_of_regressors_into_out(data, file, n_outputs):
    X, y, _ = data
    Y = y.astype(float) if n_outputs == 1 else np.stack([y, y * 2.0], axis=1)
    regressor = TanhRegressor(20, uncertainty=True, **TANH).fit(X, Y)
    mean, deviation = regressor.predict(X, return_std=True)
    out = file.create_dataset("y", Y.shape, "f4")
    found = regressor.predict(SliceableFile(X), return_std=True, out=out)
    assert found[0] is out
    np.testing.assert_allclose(out[:], mean, rtol=1e-6)
    np.testing.assert_array_equal(found[1], deviation)


@pytest.mark.parametrize(
    ("labels", "out", "error"),
    [
        ([0, 1, 300], np.empty(N, "u1"), "out has dtype uint8, which cannot hold all of"),
        (["a", "b", "longer"], np.empty(N, "U3"), "cannot hold all of"),
        (["a", "b", "c"], np.empty(N, int), "out has dtype int64, which cannot hold all of"),
        ([0, 1, 2], np.empty((N, 1), int), r"out has shape \(600, 1\), and the result"),
    ],
)
def test_out_that_cannot_hold_the_classes(data, labels, out, error):
    X, y, _ = data
    classifier = TanhClassifier(20, **TANH).fit(X, np.array(labels)[y])
    with pytest.raises(ValueError, match=error):
        classifier.predict(X, out=out)


@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_out_must_not_share_memory_with_x(dtype):
    """Rows of X that are read later would be overwritten; arrays of int64 are read in parts."""
    both = np.random.default_rng(0).integers(9, size=(70_000, 3)).astype(dtype)
    X = both[:, :2]
    y = X[:, 0] > 4
    projector = TanhProjector(2, **SMALL).fit(X)
    classifier = TanhClassifier(5, **TANH).fit(X, y)
    error = "out shares memory with X, which is read meanwhile; pass another array"
    if dtype == "f8":
        with pytest.raises(ValueError, match=error):
            projector.transform(X, out=both[:, 1:])
    with pytest.raises(ValueError, match=error):
        classifier.predict(X, out=both[:, 1])
    out = both[:, 2]  # between the rows of X, without an overlap
    assert classifier.predict(X, out=out) is out
    np.testing.assert_array_equal(out, classifier.predict(X))


def test_out_of_an_ensemble_must_not_share_memory_with_x(data):
    X, y, _ = data
    X = X.astype(float)
    ensemble = StackedClassifier([("tanh", TanhClassifier(5, **TANH))], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="out shares memory with X"):
        ensemble.predict(X, out=X[:, 0])


def test_out_of_another_shape(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"out has shape \(600, 5\), and the result has"):
        TanhProjector(6, **SMALL).fit(X).transform(X, out=np.empty((N, 5)))
    with pytest.raises(ValueError, match="out has dtype int64, and the result is float64"):
        TanhRegressor(6, **TANH).fit(X, y).predict(X, out=np.empty(N, int))
