"""Calibration of probabilities on leave-one-out decision values."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, train_test_split

import naive
from modified_parts import with_parts
from readouts.brute_force import some_weights, unit_at_sample, without_each_row
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import parts_of
from sklearn_fsvc._src.readouts.calibration import (
    Calibration,
    find_root,
    fit_calibration,
    fit_temperature,
    probabilities,
)
from sklearn_fsvc._src.targets.encoding import OneHotTargets

# Wide units, which cover all samples.
NETWORKS = [
    RBFClassifier(
        20, selection_radius=2.0, radius=20.0, kernel="triangular", feature_weights=None, alpha=1.0,
        random_state=0,
    ),
    TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0),
]  # fmt: skip


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, train_size=800, random_state=0)


def rows_of(n_classes, n=60):
    return make_classification(n, 8, n_informative=6, n_classes=n_classes, random_state=0)


class Ridge(ClassifierMixin, BaseEstimator):
    """The readout of a network, trained by the oracle on rows of H: see `with_weight`.

    Decision values are logits, which scikit-learn divides by a temperature. The last two columns
    of H are the training weight of each sample, and the unit that is centred there, -1 for none,
    which is left out together with the sample. `sample_weight` is used by the calibration only.
    """

    def __init__(self, alpha, score_scale):
        self.alpha = alpha
        self.score_scale = score_scale

    def fit(self, H, y, sample_weight=None):
        self.classes_, codes = np.unique(y, return_inverse=True)
        Y, own = np.eye(len(self.classes_))[codes], H[:, -1].astype(int)
        self.units = np.unique(own) if own.max() >= 0 else np.arange(H.shape[1] - 2)
        self.units = self.units[self.units >= 0]
        self.W, self.b = naive.ridge(H[:, self.units], Y, self.alpha, H[:, -2])
        return self

    def decision_function(self, H):
        scores = H[:, self.units] @ self.W.T + self.b
        if len(self.classes_) > 2:
            return naive.logits(scores, self.score_scale)
        return np.diff(naive.logits(scores[:, 1] - scores[:, 0], self.score_scale))[:, 0]

    def predict(self, H):
        raise NotImplementedError  # scikit-learn requires the method


def with_weight(clf, X, weight=1.0, own=-1):
    """Return H with the additional columns of `Ridge`."""
    H = naive.of_model(clf, X)
    return np.column_stack([H, weight * np.ones(len(H)), own * np.ones(len(H))])


def by_brute_force(clf, X, y, weight=None):
    """Return scikit-learn's calibrated classifier with n splits, one for each sample.

    For label smoothing, each sample is repeated with each class. The weights of these copies add up
    to a quarter of a sample in all; they are used for calibration only.
    """
    n, k = len(X), y.max() + 1
    weight, smoothing = np.ones(n) if weight is None else weight, 0.25 / (n + 1)
    rows = np.tile(np.arange(n), k + 1)
    splits = [(np.delete(np.arange(n), i), np.flatnonzero(rows == i)) for i in range(n)]
    calibrated = CalibratedClassifierCV(
        Ridge(clf.alpha_, clf.score_scale_), method="temperature", cv=splits, ensemble=False
    )
    return calibrated.fit(
        with_weight(
            clf,
            X[rows],
            np.where(np.arange(len(rows)) < n, weight[rows], 0),
            unit_at_sample(clf, n)[rows],
        ),
        np.concatenate([y, np.repeat(np.arange(k), n)]),
        sample_weight=np.concatenate(
            [(1 - smoothing) * weight, np.tile(smoothing / k * weight, k)]
        ),
    )


@pytest.mark.parametrize(("alpha", "weighted"), [(0.1, False), ([0.01, 1.0], True)], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn_with_one_fit_per_sample(
    network, n_classes, alpha, weighted
):
    X, y = rows_of(n_classes)
    weight = np.random.default_rng(0).random(60) * 3 if weighted else None
    clf = network.set_params(alpha=alpha).fit(X, y, sample_weight=weight)
    brute = by_brute_force(clf, X, y, weight)
    for rows in (X, X[:30] + X[30:] / 2):
        expected = brute.predict_proba(with_weight(clf, rows))
        # Both find the temperature up to a tolerance.
        np.testing.assert_allclose(clf.predict_proba(rows), expected, rtol=0, atol=1e-5)


def test_class_weights_are_used_in_calibration(network):
    X, y = make_classification(120, 8, n_informative=6, weights=[0.8], random_state=0)
    clf = network
    weight = (60 / np.bincount(y))[y]
    by_class = clone(clf).set_params(class_weight="balanced").fit(X, y)
    by_row = clone(clf).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), atol=1e-6)
    expected = by_brute_force(by_class, X, y, weight)
    expected = expected.predict_proba(with_weight(by_class, X))
    np.testing.assert_allclose(by_class.predict_proba(X), expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_temperature_changes_no_prediction(network, n_classes, alpha, dtype):
    X, y = rows_of(n_classes, 300)
    clf = network.set_params(alpha=alpha)
    clf.fit(X[:100].astype(dtype), y[:100])
    X = X.astype(dtype)
    np.testing.assert_array_equal(clf.predict_proba(X).argmax(axis=1), clf.predict(X))
    plain = clone(clf).set_params().fit(X[:100], y[:100])
    assert (plain.predict(X) == clf.predict(X)).mean() > 0.99


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(
    "fit", [fit_calibration, lambda *sample: Calibration(fit_temperature(*sample))]
)
def test_label_smoothing_if_all_are_correct(n_classes, fit):
    """Smoothing adds a quarter of a sample, distributed over all classes."""
    codes = np.arange(40) % n_classes
    scores = np.eye(n_classes)[codes]
    scores = scores[:, 1:] - scores[:, :1] if n_classes == 2 else scores
    for weight in (None, np.full(40, 7.0)):
        p = probabilities(fit(scores, codes, weight), scores)
        smoothing = 1 - p[np.arange(40), codes]
        np.testing.assert_allclose(smoothing, 0.25 / 41 * (1 - 1 / n_classes), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_probabilities_are_finite(network, n_classes):
    """Also for well separated classes, and if probabilities underflow to 0 in float64."""
    X, y = make_blobs(90, n_classes, centers=n_classes, cluster_std=0.1, random_state=0)
    clf = network.fit(X, y)
    log_p = clf.predict_log_proba(X)
    assert clf.score(X, y) == 1
    assert -20 < log_p.min() < log_p.max() < -1e-6
    np.testing.assert_allclose(np.exp(log_p), clf.predict_proba(X), rtol=1e-9)
    clf.temperature_ = 1e-4
    assert (clf.predict_proba(X) == 0).any()
    log_p, logits = (
        clf.predict_log_proba(X),
        naive.logits(clf.decision_function(X), clf.score_scale_),
    )
    assert np.isfinite(log_p).all()
    if n_classes == 2:
        np.testing.assert_allclose(log_p.min(axis=1), -np.ptp(logits, axis=1) / 1e-4)


@pytest.fixture(params=[RBFClassifier(5, random_state=0), TanhClassifier(10, random_state=0)])
def small_network(request):
    return clone(request.param)


@pytest.mark.parametrize("alpha", ["auto", "loo"])
def test_one_sample_of_each_class(small_network, alpha, rng):
    X, y = rng.normal(size=(5, 8)), np.arange(5)
    model = small_network.set_params(alpha=alpha)
    with pytest.warns(UserWarning, match=r"Each class has one sample.*equal probabilities"):
        probabilities = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities, 1 / 5, rtol=1e-2)
    assert model.score(X, y) == 1


def test_no_warning_of_one_sample_of_each_class(small_network, rng):
    """Validation samples have information, and to a stream samples are added."""
    X, y = rng.normal(size=(5, 8)), np.arange(5)
    p = small_network.fit(X, y, X_val=X, y_val=y).predict_proba(X)
    assert p.max() > 0.5
    clone(small_network).partial_fit(X, y).predict_proba(X)


def test_calibration_changes_no_decision_value(network):
    X, y = rows_of(3)
    plain = clone(network).fit(X, y)
    clf = network.fit(X, y)
    np.testing.assert_allclose(clf.readout_coef_, plain.readout_coef_, atol=1e-10)
    np.testing.assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=1e-10)


@pytest.mark.parametrize(
    "network",
    [
        RBFClassifier(
            150, kernel="triangular", radius=70.0, feature_weights=None, alpha=1.0, random_state=0
        ),
        TanhClassifier(150, feature_weights=None, alpha=1.0, random_state=0),
    ],
    ids=lambda c: type(c).__name__,
)
def test_log_loss_is_close_to_that_of_five_fold_calibration(digits, network):
    """With ``ensemble=False``: the mean of five networks would be another classifier."""
    X, X_test, y, y_test = digits
    six = CalibratedClassifierCV(clone(network), method="temperature", cv=5, ensemble=False).fit(
        X, y
    )
    one = clone(network).fit(X, y)
    loss = log_loss(y_test, one.predict_proba(X_test))
    assert loss <= 1.1 * log_loss(y_test, six.predict_proba(X_test))
    assert loss < 0.2


def test_calibration_needs_no_further_fit(network, monkeypatch):
    units, calls = type(parts_of(network).units), []
    fit = units.fit

    def counted(self, *args):
        calls.append(1)
        return fit(self, *args)

    monkeypatch.setattr(units, "fit", counted)
    network.set_params(alpha="loo").fit(*rows_of(3))
    assert len(calls) == 1


def test_sample_weights_with_metadata_routing(network):
    """A direct call of fit uses them; cross-validation passes them if they are requested."""
    X, y = rows_of(3)
    weight = np.random.default_rng(0).random(60)
    clf = network.set_params(alpha=[0.1, 1.0])
    expected = clone(clf).fit(X, y, sample_weight=weight).predict_proba(X)
    whole = [(np.arange(60), np.arange(60))]
    with config_context(enable_metadata_routing=True):
        np.testing.assert_array_equal(
            clone(clf).fit(X, y, sample_weight=weight).predict_proba(X), expected
        )
        routed = clone(clf).set_fit_request(sample_weight=True)
        p = cross_val_predict(
            routed, X, y, cv=whole, method="predict_proba", params={"sample_weight": weight}
        )
    np.testing.assert_array_equal(p, expected)


def test_sample_weights_are_used_in_calibration(network):
    X, y = rows_of(3)
    weight = np.where(np.arange(60) < 30, 1.0, 0.1)
    clf = network
    if isinstance(clf, TanhClassifier):  # scale="auto" depends on the weights
        clf.set_params(scale=0.5)
    plain = clone(clf).fit(X, y)
    for constant in (1.0, 7.0):  # a constant weight only scales alpha
        scaled = clone(clf).set_params(alpha=constant).fit(X, y, np.full(60, constant))
        np.testing.assert_allclose(scaled.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    weighted = clf.fit(X, y, weight)
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 1e-3


def test_a_subset_of_many_samples_is_used_for_calibration(network):
    """It is drawn from samples with a weight; the readout is trained on all samples."""
    (X, y), weight = rows_of(3), some_weights()
    network = with_parts(
        network, target={"max_calibration_scores": 3 * 40, "min_calibration_samples": 1}
    )
    clf = network.set_params(alpha=[0.1, 1.0]).fit(X, y, weight)
    rows = parts_of(clf).target.calibration_rows(
        Samples(X, OneHotTargets.of_column(y, 3), weight), 0
    )
    assert len(rows) == 40
    assert (weight[rows] > 0).all()
    H = naive.of_model(clf, X)
    scores = without_each_row(H, np.eye(3)[y], clf.alpha_, weight, unit_at_sample(clf))
    expected, of_all = (fit_calibration(scores[r], y[r], weight[r]) for r in (rows, slice(None)))
    assert (clf.temperature_, clf.score_scale_) == pytest.approx(expected[:2], rel=1e-4)
    assert abs(of_all.temperature / expected.temperature - 1) > 1e-3


def test_root_finding_releases_the_function():
    """Unlike `scipy.optimize.brentq`, which keeps a reference to its function."""
    function = partial(np.polyval, np.array([1.0, 0.0, -2.0]))
    gone = weakref.ref(function.args[0])
    gc.disable()
    try:
        assert find_root(function, 0.0, 2.0, 1e-12) == pytest.approx(2**0.5)
        del function
        assert gone() is None
    finally:
        gc.enable()


def test_root_finding_propagates_errors():
    with pytest.raises(ZeroDivisionError):
        find_root(lambda x: 1 / 0, 0.0, 1.0, 1e-3)
