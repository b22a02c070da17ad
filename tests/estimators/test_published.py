"""Numbers of units and accuracies published by the authors of FSVC, in float64."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import naive
from sklearn_fsvc import RBFClassifier

# data, selection, overlap, radius, kernel, metric; number of centres; correct predictions if
# uncovered samples get the class of the nearest centre (ours) or the first class (published);
# number of uncovered samples
TARGETS = [
    ("iris", "global", 1, 0.6, "triangular", "manhattan", 15, 50, 50, 0),
    ("iris", "global", 0.1, 0.5, "triangular", "manhattan", 7, 50, 50, 0),
    ("optd64", "global", 1, 7.6, "triangular", "manhattan", 595, 1757, 1755, 3),
    ("optd64", "global", 0.25, 1, "gaussian", "euclidean", 1720, 1773, 1773, 0),
    ("optd64", "per_class", 1, 7.5, "triangular", "sqeuclidean", 426, 1763, 1762, 1),
    ("optd64", "global", 1, 9, "triangular", "manhattan", 279, 1708, 1708, 0),
]
FIRST = {("iris", 0.6): [0, 1, 2, 3, 5, 7, 13, 20], ("optd64", 7.6): list(range(8))}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t[0]}-{t[1]}-{t[3]}")
def test_published_results(fsvc_data, device, target):
    name, selection, overlap, radius, kernel, metric, n_centers, ours, published, n_uncovered = (
        target
    )
    if device == "mkl" and metric == "manhattan":
        pytest.skip("the code of blas, except for products")
    X, y, X_test, y_test = fsvc_data(name)
    clf = RBFClassifier(
        radius=radius, overlap=overlap, selection=selection, metric=metric, kernel=kernel,
        readout="none", shuffle=False, device=device,
    ).fit(X, y)  # fmt: skip
    assert len(clf.centers_) == clf.n_support_.sum() == n_centers
    if (name, radius) in FIRST:
        np.testing.assert_array_equal(clf.support_[:8], FIRST[name, radius])
    predictions = clf.predict(X_test)
    assert (predictions == y_test).sum() == ours

    is_uncovered = naive.rbf(X_test, clf.centers_, radius, metric, kernel).sum(axis=1) == 0
    assert is_uncovered.sum() == n_uncovered
    predictions[is_uncovered] = clf.classes_[0]
    assert (predictions == y_test).sum() == published


def test_lms_on_the_published_data(fsvc_data):
    """FSVC as published: one pass in file order from the 0/1 readout, rate 1/16."""
    X, y, X_test, y_test = fsvc_data("iris")
    clf = RBFClassifier(
        radius=0.6, selection="global", readout="lms", learning_rate=1 / 16, max_iter=3,
        shuffle=False,
    ).fit(X, y)  # fmt: skip
    codes = np.searchsorted(clf.classes_, y)
    W = np.equal.outer(np.arange(3), codes[clf.support_]).astype(float)
    H = naive.rbf(X, X[clf.support_], 0.6)
    for _ in range(3):
        W = naive.lms(W, H, np.eye(3)[codes], 1 / 16)
    np.testing.assert_allclose(clf.readout_coef_, W, rtol=0, atol=1e-12)
    assert not clf.readout_intercept_.any()
    assert clf.score(X_test, y_test) >= 0.9


def test_without_the_published_files():
    """The selection on public data equals the reference implementation."""
    X, y = load_iris(return_X_y=True)
    clf = RBFClassifier(radius=0.6, selection="global", readout="none", shuffle=False).fit(X, y)
    np.testing.assert_array_equal(clf.support_, naive.novel_rows(X, 0.6, 1.0))
