"""`max_memory`: the allocations of NumPy in fit, transform and predict are measured."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from modified_parts import with_parts
from peak_memory import MIB, PER_ROW, peak
from sklearn_fsvc import (
    PatchClassifier,
    PatchProjector,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.hidden_layers.random_weights import draw_gaussian
from sklearn_fsvc._src.readouts import dual, softmax
from sklearn_fsvc.engines import get_engine

N, FEATURES, UNITS = 10_000, 40, 400
# Less than a call allocates without a limit, as a test asserts; and little more than it needs, so
# that a copy of X (1.5 MiB) exceeds the limit.
SELECTION, FIT, PREDICT, INCREMENTAL = 4 * MIB, 5 * MIB, 7 * MIB // 2, 9 * MIB
FIT_TANH, FIT_WEIGHTS, FIT_PATCHES = 10 * MIB, 8 * MIB, 13 * MIB
TANH = TanhClassifier(2 * UNITS, feature_weights=None, random_state=0)

ESTIMATORS = [
    (RBFClassifier(UNITS, kernel="laplacian", random_state=0), FIT_WEIGHTS),
    # The kernels are compared in the same passes.
    pytest.param(
        RBFClassifier(UNITS, random_state=0), FIT_WEIGHTS, marks=pytest.mark.exhaustive
    ),
    (RBFClassifier(UNITS, selection="global", readout="none", random_state=0), SELECTION),
    pytest.param(  # feature weights are learned by the same code; the same layer is below
        RBFClassifier(UNITS, metric="euclidean", kernel="gaussian", random_state=0), FIT_WEIGHTS,
        marks=pytest.mark.exhaustive,
    ),
    (RBFClassifier(UNITS, readout="lms", max_iter=1, random_state=0), FIT),
    (TANH, FIT_TANH),
    (
        RBFRegressor(
            UNITS, selection="random", metric="euclidean", kernel="laplacian", radius=2.0,
            feature_weights=None, alpha=1.0, random_state=0,
        ), FIT,
    ),
    (TanhRegressor(UNITS, feature_weights=None, alpha=1.0, random_state=0), FIT),
    (TanhRegressor(UNITS, feature_weights=None, alpha=1.0, precision=8, random_state=0), FIT),
    (RBFProjector(UNITS, random_state=0), SELECTION),
    (TanhProjector(UNITS, random_state=0), FIT),
    (PatchClassifier(40, image_shape=(5, 8), patch_size=3, random_state=0), FIT_PATCHES),
    (
        PatchProjector(
            120, image_shape=(5, 8), kernel="below_mean", metric="manhattan", random_state=0
        ), FIT,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N)
    return rng.random((N, FEATURES), np.float32) + y[:, None].astype(np.float32) / 4, y


def test_without_a_limit_more_memory_is_allocated(data):
    """The limits of the tests below are effective."""
    X, y = data
    clf, free = peak(clone(TANH).set_params(device="jit").fit, X, y)
    assert free > FIT_TANH + N * PER_ROW
    assert peak(clf.predict, X)[1] > PREDICT + N * PER_ROW


@pytest.mark.parametrize(("estimator", "fit_limit"), ESTIMATORS, ids=repr)
def test_max_memory(device, data, estimator, fit_limit, monkeypatch):
    # Each thread of a BLAS engine takes memory: use as many as the smallest machine has.
    monkeypatch.setattr("sklearn_fsvc._src.engines.blas.n_threads", lambda: 2)
    if device == "cuda" or (device == "torch" and get_engine(device).torch_device.type != "cpu"):
        pytest.skip("test_cuda_memory.py tests the memory of a GPU")
    if device == "mkl" and not isinstance(estimator, TanhClassifier):
        pytest.skip("the code of blas, except for products and tanh")
    if device != "jit" and getattr(estimator, "metric", "product") == "manhattan":
        pytest.skip("the same memory as for Euclidean distances, and slow")
    if device == "blas" and isinstance(estimator, PatchClassifier):
        pytest.skip("test_large_images_need_little_memory has patches on blas")
    X, y = data
    estimator.set_params(device=device, max_memory=fit_limit)
    size = "n_hidden" if hasattr(estimator, "predict") else "n_components"
    # A smaller fit, by the same code, compiles and imports before memory is measured.
    clone(estimator).set_params(**{size: 20}).fit(X[:1500], y[:1500])
    _, fit = peak(estimator.fit, X, y)
    assert fit <= fit_limit + N * PER_ROW
    estimator.set_params(max_memory=PREDICT)
    if hasattr(estimator, "predict"):
        _, predict = peak(estimator.predict, X)
        assert predict <= PREDICT + N * PER_ROW
    else:
        H, transform = peak(estimator.transform, X)
        assert transform - H.nbytes <= PREDICT + N * PER_ROW


def test_max_memory_of_explain(data):
    """In addition to the result; without a limit the call allocates more."""
    X, y = data
    model = RBFClassifier(
        UNITS, selection="random", metric="euclidean", kernel="laplacian", radius=2.0,
        feature_weights=None, alpha=1.0, random_state=0, device="jit",
    ).fit(X[:8000], y[:8000])  # fmt: skip
    found, free = peak(model.explain, X)
    own = sum(array.nbytes for array in vars(found).values())
    assert free > own + PREDICT + N * PER_ROW
    _, bounded = peak(model.set_params(max_memory=PREDICT).explain, X)
    assert bounded <= own + PREDICT + N * PER_ROW


@pytest.fixture(scope="module")
def data_with_many_classes():
    rng, y = np.random.default_rng(0), np.arange(N) % 100
    X = rng.random((100, 10), np.float32)[y] + rng.random((N, 10), np.float32) / 4
    return X, y


def test_max_memory_of_predict_proba(data_with_many_classes):
    """In addition to the result, which is five times as large as the limit."""
    X, y = data_with_many_classes
    clf = TanhClassifier(50, feature_weights=None, alpha=1.0, random_state=0, device="jit")
    clf.fit(X[:1000], y[:1000]).set_params(max_memory=PREDICT // 2)
    for method in (clf.predict_proba, clf.predict_log_proba):
        p, found = peak(method, X)
        assert p.nbytes == 8 * 100 * N
        assert found - p.nbytes <= PREDICT // 2 + N * PER_ROW
    is_in, found = peak(clf.predict_set, X)
    assert is_in.nbytes == 100 * N
    assert found - is_in.nbytes <= PREDICT // 2 + N * PER_ROW


@pytest.mark.parametrize(
    ("alpha", "with_duplicates"),
    [
        (1.0, False), (1.0, True), ([0.1, 1.0, 10.0], True),
        pytest.param([0.1, 1.0, 10.0], False, marks=pytest.mark.exhaustive),
    ],
)  # fmt: skip
def test_max_memory_of_calibration(data_with_many_classes, alpha, with_duplicates):
    """The scores of all samples, 7.6 MiB, would exceed the limit."""
    X, y = data_with_many_classes
    if with_duplicates:
        X = X[np.arange(N) // 2]
    clf = TanhClassifier(50, feature_weights=None, alpha=alpha, random_state=0, device="jit")
    clf = with_parts(clf, target={"max_calibration_scores": 2**17})
    clf.fit(X[:1000], y[:1000]).set_params(max_memory=6 * MIB)
    _, found = peak(clf.fit, X, y)
    assert found <= 6 * MIB + N * PER_ROW


@pytest.mark.parametrize(
    ("n", "features", "units", "limit"),
    [
        pytest.param(2000, 200, 30, 3, id="one validation fold"),
        pytest.param(
            600, 3000, 50, 12, id="six folds, many features", marks=pytest.mark.exhaustive
        ),
        pytest.param(900, 20, 900, 40, id="six folds, many units", marks=pytest.mark.exhaustive),
    ],
)
def test_max_memory_of_the_softmax_penalty_search(n, features, units, limit, monkeypatch):
    """Validation and training samples are copied only if the limit allows it."""
    # Shrunk to a ridge with a map of the ordered classes, any penalty is as good.
    monkeypatch.setattr(softmax, "fit_matrix_scaling", lambda *_: None)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    X = rng.random((n, features), np.float32) + y[:, None].astype(np.float32) / 8
    clf = TanhClassifier(
        units, readout="softmax", feature_weights=None, scale=1.0, max_memory=limit * MIB,
        random_state=0, device="jit",
    ).fit(X[:100], y[:100])  # fmt: skip
    _, found = peak(clf.fit, X, y)
    assert found <= limit * MIB + n * PER_ROW
    free = clone(clf).set_params(max_memory=None)
    _, found = peak(free.fit, X, y)
    assert found > limit * MIB + n * PER_ROW
    assert 1 / 5 < clf.alpha_ / free.alpha_ < 5
    assert clf.score(X, y) == pytest.approx(free.score(X, y), abs=0.02)


INTEGER_MODELS = {
    "tanh": TanhClassifier(50, feature_weights=None, random_state=0),
    "RBF": RBFClassifier(
        50, selection="random", radius=30.0, kernel="laplacian", feature_weights=None, alpha=1.0,
        random_state=0,
    ),
    "projector": TanhProjector(8, random_state=0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("tanh", dtype) for dtype in ("int64", "int8", "uint16", "float16", "bool")),
        ("RBF", "int64"),
        ("projector", "int32"),
    ],
)
def test_integer_arrays_are_never_converted_as_a_whole(data, name, dtype):
    """As float64 they would exceed the limit, and predictions are those for float64."""
    (X, y), limit = data, 2 * MIB
    X = (X > 0.7 if dtype == "bool" else 10 * X).astype(dtype)
    model = clone(INTEGER_MODELS[name]).set_params(device="jit").fit(X[:1000], y[:1000])
    method = model.predict if hasattr(model, "predict") else model.transform
    np.testing.assert_array_equal(method(X), method(X.astype(np.float64)))
    model.set_params(max_memory=limit)
    assert 8 * X.size > limit + N * PER_ROW
    _, fit = peak(model.fit, X, y)
    assert fit <= limit + N * PER_ROW
    outputs, predict = peak(method, X)
    assert predict - outputs.nbytes <= limit + N * PER_ROW


def test_integer_batches_of_partial_fit(data):
    """Buffered batches are stored in the dtype of the computations."""
    X, y = data
    X, models = (10 * X).astype(np.int64), []
    for samples in (X, X.astype(np.float64)):
        model = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0, device="jit")
        for part in np.array_split(np.arange(N), 2):
            assert samples[part].size > 2**17  # smaller batches are converted immediately
            model.partial_fit(samples[part], y[part], classes=range(4))
        models.append(model.forget(samples[:5000], y[:5000]).solve())
    np.testing.assert_allclose(models[0].readout_coef_, models[1].readout_coef_, atol=1e-10)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", "class_informed", "constrained"])
def test_a_layer_larger_than_the_limit_raises_before_it_is_drawn(weights):
    X, y = np.ones((50, 20_000), np.float32), np.arange(50) % 2
    clf = TanhClassifier(500, weights=weights, random_state=0, device="jit", max_memory="16MiB")

    def fit():
        with pytest.raises(
            ValueError, match=r"Not enough memory: .* 500 units and 20000 .*Increase max_m"
        ):
            clf.fit(X, y)

    assert peak(fit)[1] < MIB


def test_weights_are_drawn_in_their_own_dtype():
    """Drawing them in float64 first would take twice the memory."""
    W, found = peak(draw_gaussian, 100, 20_000, 0, np.float32)
    np.testing.assert_array_equal(W, draw_gaussian(100, 20_000, 0).astype(np.float32))
    assert found <= W.nbytes + MIB


@pytest.mark.parametrize("n_parts", [pytest.param(1, marks=pytest.mark.exhaustive), 3, 40])
def test_max_memory_of_incremental_fits(data, n_parts):
    X, y = data
    plain = TanhClassifier(UNITS, feature_weights=None, alpha=1.0, random_state=0, device="jit")

    def add_and_remove(model, n_rows=N):
        for part in np.array_split(np.arange(n_rows), n_parts):
            model.partial_fit(X[part], y[part], classes=range(4))
        model.forget(X[: n_rows // 4], y[: n_rows // 4])
        model.predict(X[:10])

    add_and_remove(clone(plain), 1000)  # compiled and imported before it is measured
    _, free = peak(add_and_remove, clone(plain))
    _, bounded = peak(add_and_remove, clone(plain).set_params(max_memory=INCREMENTAL))
    assert bounded <= INCREMENTAL + N * PER_ROW < free


@pytest.mark.parametrize("given", [{"uncertainty": True}, {"alpha": "loo"}], ids=str)
def test_targets_count_towards_the_limit(given):
    """Those of many outputs take more memory than X."""
    X, Y = np.random.default_rng(0).random((N, 8), np.float32), np.random.default_rng(1)
    model = TanhRegressor(
        50, feature_weights=None, max_memory=9 * MIB, device="jit", random_state=0, **given
    )
    Y = Y.normal(size=(N, 50))
    model.fit(X[:300], Y[:300])
    assert peak(model.fit, X, Y)[1] <= 9 * MIB


@pytest.mark.parametrize(
    "case", ["plain", "weighted", pytest.param("heavy tail", marks=pytest.mark.exhaustive)]
)
def test_targets_are_copied_once(case):
    """The only large allocation is one float64 copy of y."""
    rng = np.random.default_rng(0)
    X, Y, weight = rng.random((N, 8), np.float32), rng.normal(size=(N, 100)), None
    if case == "weighted":
        weight = np.arange(N) % 3 / 2
    if case == "heavy tail":
        Y[:, 1] = np.exp(3 * Y[:, 1])
    y, limit = Y.copy(), Y.nbytes + 12 * MIB
    weights = "auto" if case == "heavy tail" else None  # learned in one of the variants
    model = TanhRegressor(
        50, feature_weights=weights, max_memory=limit, device="jit", random_state=0
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Column 1 of y has a heavy tail")
        model.fit(X[:300], Y[:300])
        _, found = peak(model.fit, X, Y, weight)
        with pytest.raises(
            ValueError, match=r"a copy of y needs 7.6 MiB, and 7.5 MiB are available"
        ):
            model.set_params(max_memory=Y.nbytes - 10**5).fit(X, Y)
    assert found <= limit + N * PER_ROW
    np.testing.assert_array_equal(Y, y)


def test_targets_of_partial_fit_are_copied_once():
    rng = np.random.default_rng(0)
    X, Y = rng.random((N, 8), np.float32), rng.normal(size=(N, 100))
    model = TanhRegressor(
        50, feature_weights=None, alpha=1.0, max_memory=20 * MIB, device="jit", random_state=0
    )
    model.partial_fit(X[:1500], Y[:1500])
    y = Y.copy()
    assert peak(model.partial_fit, X, Y)[1] <= Y.nbytes + 20 * MIB + N * PER_ROW
    np.testing.assert_array_equal(Y, y)


@pytest.mark.parametrize(
    ("device", "model", "limit"),
    [
        ("jit", RBFClassifier(20, kernel="laplacian", alpha=1.0), 18 * MIB),
        ("jit", TanhClassifier(50), 18 * MIB),
        ("blas", TanhClassifier(50), 18 * MIB),
    ],
    ids=repr,
)  # fmt: skip
def test_wide_data_with_few_samples_is_not_copied(device, model, limit, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.engines.blas.n_threads", lambda: 2)
    X, y = np.random.default_rng(0).random((50, 10_000), np.float32), np.arange(50) % 2
    model = clone(model).set_params(device=device, max_memory=limit, random_state=0)
    model.fit(X[:, :10], y).predict(X[:, :10])  # compiled and imported before it is measured
    assert peak(model.fit, X, y)[1] <= limit
    assert peak(model.predict, X)[1] <= limit


@pytest.mark.exhaustive
def test_many_activations_of_patches_need_little_more_than_their_sums(monkeypatch):
    """3200 outputs have sums of 60 MiB; products are added to them strip by strip."""
    for name in ("_ROWS_PER_UNIT", "_MAX_PRECISE_ROWS"):  # so few samples would need no sums
        monkeypatch.setattr(dual, name, 0)
    X, y = np.random.default_rng(0).random((12, 128 * 128 * 3), np.float32), np.arange(12) % 2
    shared = {"image_shape": (128, 128, 3), "device": "jit", "random_state": 0}
    for alpha, limit in ((1.0, 70), ("auto", 125)):
        clf = PatchClassifier(100, stride=4, alpha=alpha, **shared).fit(X, y)  # also compiled
        _, fit = peak(clone(clf).set_params(max_memory=limit * MIB).fit, X, y)
        assert fit <= limit * MIB
    with pytest.raises(
        ValueError, match=r"needs 1.*, and 100.0 MiB are available within max_memory"
    ):
        clf.set_params(max_memory="100MiB").fit(X, y)


@pytest.mark.parametrize("device", ["jit", pytest.param("blas", marks=pytest.mark.exhaustive)])
def test_large_images_need_little_memory(device):
    """The patches of an image take 11 MiB, and as much again while activations are computed."""
    X, y = np.random.default_rng(0).random((5, 128 * 128 * 3), np.float32), np.arange(5) % 2
    limit = 40 * MIB
    clf = PatchClassifier(
        100, image_shape=(128, 128, 3), pool=1, alpha=1.0, device=device, random_state=0
    ).fit(X, y)  # also compiled and imported before it is measured
    free = clf.decision_function(X)
    bounded, fit = peak(clone(clf).set_params(max_memory=limit).fit, X, y)
    scores, predict = peak(bounded.decision_function, X)
    assert fit <= limit
    assert predict <= limit / 4
    np.testing.assert_allclose(scores, free, rtol=0, atol=1e-3)
