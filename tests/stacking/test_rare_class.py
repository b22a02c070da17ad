"""Stacked classifiers of two classes, of which one is rare."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from sklearn_fsvc import StackedClassifier
from sklearn_fsvc._src.readouts.calibration import Calibration, fit_offset, probabilities
from sklearn_fsvc._src.targets import classes
from stacking.ensembles import classifier, small_ensemble, with_final

N = 800


def make_rare(shift=7.5, seed=0):
    """Return 5 N samples, of which few are positive, and their classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5 * N, 4))
    log_odds = 2 * X[:, 0] - 1.5 * X[:, 1] + np.square(X[:, 2]) - shift
    return X, (rng.random(len(X)) < expit(log_odds)).astype(int)


@pytest.fixture(scope="module")
def rare():
    X, y = make_rare()
    assert 20 < y[:N].sum() < N // 20
    return X, y


@pytest.fixture(scope="module")
def fitted(rare):
    X, y = rare
    return classifier().fit(X[:N], y[:N])


def test_weights_improve_the_ranking(rare, fitted, monkeypatch):
    X, y = rare
    p = fitted.predict_proba(X[N:])[:, 1]
    monkeypatch.setattr(classes, "_RARE_SHARE", 0.0)
    plain = classifier().fit(X[:N], y[:N])
    assert plain.score_offset_ == 0 < fitted.score_offset_
    before = plain.predict_proba(X[N:])[:, 1]
    assert roc_auc_score(y[N:], p) > roc_auc_score(y[N:], before) + 0.003
    assert log_loss(y[N:], p) < log_loss(y[N:], before)
    assert p.mean() == pytest.approx(y[:N].mean(), rel=0.1)


def test_the_positive_class_may_be_the_frequent_one(rare, fitted):
    X, y = rare
    swapped = classifier().fit(X[:N], 1 - y[:N])
    assert swapped.score_offset_ == pytest.approx(-fitted.score_offset_)
    expected = fitted.predict_proba(X)[:, ::-1]
    np.testing.assert_allclose(swapped.predict_proba(X), expected, atol=1e-6)


@pytest.mark.parametrize("final", [False, True])
def test_probabilities_decisions_and_contributions_agree(rare, final):
    X, y = rare
    model = with_final(small_ensemble(StackedClassifier)) if final else classifier()
    model.fit(X[:N], y[:N])
    assert (model.final_weight_ > 0) == final
    decisions, p = model.decision_function(X), model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(decisions > 0, p > 0.5)
    np.testing.assert_array_equal(model.predict(X), decisions > 0)
    assert (np.diff(p[np.argsort(decisions)]) >= 0).all()
    constant = (1 - model.final_weight_) * model.intercept_ - model.score_offset_
    signs = np.where(decisions > 0, 1, -1)
    total = model.contributions(X).sum(axis=1) + signs * constant
    np.testing.assert_allclose(total, np.abs(decisions), atol=1e-6)
    sets = model.predict_set(X[N:], confidence_level=0.99)
    covered = sets[np.arange(len(X) - N), y[N:]].mean()
    assert covered == pytest.approx(0.99, abs=0.01)


def test_without_weights(rare):
    """Of more than two classes, of very few samples and of given class weights."""
    X, y = rare
    X, y = X[:N], y[:N]
    three, few = y + (X[:, 3] > 0), y * (np.cumsum(y) < 10)
    balanced = classifier(class_weight="balanced").fit(X, y)
    for model in (balanced, classifier().fit(X, three), classifier().fit(X, few)):
        assert model.score_offset_ == 0
    enough = y * (np.cumsum(y) <= 10)
    assert classifier().fit(X, enough).score_offset_ > 0


def test_sample_weights_decide_what_is_rare(rare):
    X, y = rare
    X, y = X[:N], y[:N]
    assert classifier().fit(X, y, np.where(y, 20.0, 1.0)).score_offset_ == 0


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_three_classes_of_which_one_has_no_weight(rare, empty):
    X, y = rare[0][: N + 3], rare[1][: N + 3].copy()
    y = np.delete([0, 1, 2], empty)[y]
    y[N:] = empty
    model = classifier().fit(X, y, np.arange(N + 3) < N)
    assert model.score_offset_ == 0
    assert (model.predict(X) != empty).all()


def test_validation_set_with_one_class(rare):
    X, y = rare
    X_val = X[N:][y[N:] == 0][:100]
    model = classifier().fit(X[:N], y[:N], X_val=X_val, y_val=np.zeros(100, int))
    p = model.predict_proba(X_val)[:, 1]
    assert np.isfinite(p).all()
    assert p.mean() < 0.01


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [-0.9, 0.0, 0.5])
def test_offset_makes_the_mean_probability_the_share(weighted, shift):
    rng = np.random.default_rng(0)
    codes = (rng.random(5000) < 0.02).astype(int)
    scores = rng.normal(size=5000) / 3 + codes + shift
    weight = rng.uniform(0.5, 2, 5000) if weighted else None
    calibration = Calibration(0.7, 0.16)
    offset = fit_offset(calibration, scores, codes, weight)
    p = probabilities(calibration._replace(offset=offset), scores - offset)[:, 1]
    share = np.average(codes, weights=weight)
    assert np.average(p, weights=weight) == pytest.approx(share, rel=1e-2)
    if weighted:  # only the ratios of weights matter
        for unit in (1e-18, 1e18):
            assert fit_offset(calibration, scores, codes, unit * weight) == pytest.approx(offset)
    equal = probabilities(calibration._replace(offset=offset), np.zeros(1))
    np.testing.assert_allclose(equal, 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_offset_of_scores_that_differ_by_rounding(seed):
    rng = np.random.default_rng(seed)
    codes, weight = rng.integers(0, 2, 500), 10 ** rng.uniform(-12, 12, 500)
    scores = 0.5 + 1e-16 * rng.integers(0, 3, 500)
    calibration = Calibration(0.7, 0.16)
    offset = fit_offset(calibration, scores, codes, weight)
    p = probabilities(calibration._replace(offset=offset), scores - offset)[:, 1]
    share = (500 * np.average(codes, weights=weight) + 0.125) / 500.25  # with smoothed labels
    assert np.average(p, weights=weight) == pytest.approx(share)


@pytest.mark.parametrize("code", [0, 1])
def test_offset_of_equal_scores_and_one_class(code):
    calibration = Calibration(0.7, 0.16)
    offset = fit_offset(calibration, np.full(50, 0.3), np.full(50, code))
    p = probabilities(calibration._replace(offset=offset), np.full(1, 0.3) - offset)[0, 1]
    assert abs(code - p) < 0.01
