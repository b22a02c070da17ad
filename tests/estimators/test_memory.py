"""`max_memory` is kept: what NumPy allocates is measured, in fit, transform and predict."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from allocated import MIB, PER_ROW, peak
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

N, FEATURES, UNITS = 20_000, 40, 1000
# Less than a call takes that is left alone, as a test makes sure.
FIT, ANSWER, STREAM = 24 * MIB, 4 * MIB, 44 * MIB

ESTIMATORS = [
    RBFClassifier(UNITS, random_state=0),
    RBFClassifier(UNITS, selection="global", readout="none", random_state=0),
    RBFClassifier(UNITS, metric="euclidean", kernel="gaussian", random_state=0),
    RBFClassifier(UNITS, readout="lms", max_iter=1, random_state=0),
    TanhClassifier(UNITS, random_state=0),
    RBFRegressor(
        UNITS, selection="random", metric="euclidean", kernel="laplacian", radius=2.0,
        feature_weights=None, alpha=1.0, random_state=0,
    ),
    TanhRegressor(UNITS, alpha=1.0, random_state=0),
    RBFProjector(UNITS, random_state=0),
    TanhProjector(UNITS, random_state=0),
    PatchClassifier(40, image_shape=(5, 8), patch_size=3, random_state=0),
    PatchProjector(
        120, image_shape=(5, 8), kernel="below_mean", metric="manhattan", random_state=0
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N)
    return rng.random((N, FEATURES), np.float32) + y[:, None].astype(np.float32) / 4, y


def test_an_unbounded_call_would_take_more(rows):
    """Else the tests below would test nothing."""
    X, y = rows
    clf, free = peak(TanhClassifier(UNITS, random_state=0).fit, X, y)
    assert free > FIT + N * PER_ROW
    assert peak(clf.predict, X)[1] > ANSWER + N * PER_ROW


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_the_budget_is_kept(device, rows, estimator, monkeypatch):
    # Each thread of a BLAS engine takes memory: as many as on the smallest machine.
    monkeypatch.setattr("sklearn_fsvc.engines.blas.n_threads", lambda: 2)
    if device == "cuda":
        pytest.skip("the memory of a GPU is another one: test_cuda_memory.py")
    if device == "mkl" and not is_classifier(estimator):
        pytest.skip("the same code as that of blas, but for the products, which classifiers have")
    if device != "jit" and getattr(estimator, "metric", "product") == "manhattan":
        pytest.skip("the same memory as for Euclidean distances, and slow")
    X, y = rows
    estimator.set_params(device=device, max_memory=FIT)
    estimator.fit(X[:3000], y[:3000])  # compiled and imported before it is measured
    _, fit = peak(estimator.fit, X, y)
    assert fit <= FIT + N * PER_ROW
    estimator.set_params(max_memory=ANSWER)
    if hasattr(estimator, "predict"):
        _, predict = peak(estimator.predict, X)
        assert predict <= ANSWER + N * PER_ROW
    else:
        H, transform = peak(estimator.transform, X)
        assert transform - H.nbytes <= ANSWER + N * PER_ROW


def test_the_budget_is_kept_by_explanations(rows):
    """Beside the answer; a call that is left alone takes more."""
    X, y = rows
    model = RBFClassifier(
        UNITS, selection="random", metric="euclidean", kernel="laplacian", radius=2.0,
        feature_weights=None, alpha=1.0, random_state=0, device="jit",
    ).fit(X[:8000], y[:8000])  # fmt: skip
    found, free = peak(model.explain, X)
    own = sum(array.nbytes for array in vars(found).values())
    assert free > own + ANSWER + N * PER_ROW
    _, bounded = peak(model.set_params(max_memory=ANSWER).explain, X)
    assert bounded <= own + ANSWER + N * PER_ROW


@pytest.mark.parametrize("n_parts", [1, 3, 200])
def test_the_budget_is_kept_while_rows_come_and_go(rows, n_parts):
    X, y = rows
    plain = TanhClassifier(UNITS, alpha=1.0, random_state=0, device="jit")

    def come_and_go(model):
        for part in np.array_split(np.arange(N), n_parts):
            model.partial_fit(X[part], y[part], classes=range(4))
        model.forget(X[:5000], y[:5000])
        model.predict(X[:10])

    come_and_go(plain)  # compiled and imported before it is measured
    _, free = peak(come_and_go, clone(plain))
    _, bounded = peak(come_and_go, clone(plain).set_params(max_memory=STREAM))
    assert bounded <= STREAM + N * PER_ROW < free
