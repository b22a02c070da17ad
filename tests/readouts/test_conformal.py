"""Limits of prediction sets, compared with their definition."""

import numpy as np
import pytest
from scipy.special import expit

from sklearn_fsvc._src.readouts import calibration as of_probabilities
from sklearn_fsvc._src.readouts import conformal
from sklearn_fsvc._src.readouts.calibration import Calibration, probabilities
from sklearn_fsvc._src.readouts.conformal import conformity_scores, prediction_sets

# Of logits, and of probabilities with errors.
LOGITS, SCORES = Calibration(1.0), Calibration(0.5, 0.08)


def samples(n_classes, n=300, seed=0):
    """Return scores and classes of samples, about a third of which are misclassified."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n)
    scores = 1.5 * np.eye(n_classes)[codes] + rng.normal(size=(n, n_classes))
    return (np.diff(scores, axis=1) if n_classes == 2 else scores), codes


def coverage(scores, codes, threshold, calibration=LOGITS):
    is_in = prediction_sets(calibration, scores, threshold)
    return is_in[np.arange(len(codes)), codes].mean()


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("calibration", [LOGITS, SCORES])
def test_the_threshold_is_the_largest_of_a_level(n_classes, level, calibration, monkeypatch):
    monkeypatch.setattr(of_probabilities, "_BLOCK_SIZE", 50)
    scores, codes = samples(n_classes)
    threshold = conformity_scores(calibration, scores, codes).threshold(level)
    needed = np.ceil(301 * level) / 300
    assert coverage(scores, codes, threshold, calibration) >= needed
    if np.isfinite(threshold):
        assert coverage(scores, codes, np.nextafter(threshold, 1), calibration) < needed


@pytest.mark.parametrize("calibration", [Calibration(2.0), SCORES])
def test_the_predicted_class_is_always_in_a_set(calibration):
    scores, _ = samples(4)
    p = probabilities(calibration, scores)
    is_in = prediction_sets(calibration, scores, 0.3)
    np.testing.assert_array_equal(is_in, (p >= 0.3) | (p == p.max(axis=1, keepdims=True)))
    alone = prediction_sets(calibration, scores, np.inf)
    np.testing.assert_array_equal(alone.argmax(axis=1), scores.argmax(axis=1))
    assert (alone.sum(axis=1) == 1).all()
    binary = np.array([[-3.0], [0.0], [0.5]])
    np.testing.assert_array_equal(
        prediction_sets(LOGITS, binary, np.inf)[:, 1], [False, False, True]
    )
    of_both = prediction_sets(LOGITS, binary, expit(-1))
    np.testing.assert_array_equal(of_both, [[True, False], [True, True], [True, True]])


def test_rounded_thresholds_do_not_depend_on_the_last_bits():
    scores, codes = samples(3)
    other = scores * (1 + 1e-13)
    plain, rounded = (
        [conformity_scores(LOGITS, s, codes, None, is_rounded).thresholds for s in (scores, other)]
        for is_rounded in (False, True)
    )
    assert (plain[0] != plain[1]).any()
    np.testing.assert_array_equal(*rounded)
    np.testing.assert_allclose(rounded[0], plain[0], rtol=2**-8)


def test_too_few_samples_for_a_level():
    """Of 9 samples, the largest level is 9 / 10; beyond it, sets contain all classes."""
    scores, codes = samples(3, 9, seed=1)
    actual = conformity_scores(LOGITS, scores, codes)
    assert actual.threshold(0.9) > 0
    assert actual.threshold(0.91) == 0
    assert prediction_sets(LOGITS, np.array([[1e4, 0, 0]]), 0.0).all()


def test_weights():
    """Weights act like repetitions; samples of weight 0 are ignored."""
    scores, codes = samples(3, 2000)
    weight = np.where(codes == 0, 3.0, np.where(codes == 1, 1.0, 0.0))
    actual = conformity_scores(LOGITS, scores, codes, weight)
    rows = np.flatnonzero(weight)
    some = conformity_scores(LOGITS, scores[rows], codes[rows], weight[rows])
    np.testing.assert_array_equal(actual.thresholds, some.thresholds)
    np.testing.assert_array_equal(actual.levels, some.levels)
    repeated = np.repeat(rows, weight[rows].astype(int))
    copies = conformity_scores(LOGITS, scores[repeated], codes[repeated])
    assert actual.threshold(0.9) == pytest.approx(copies.threshold(0.9), rel=0.02)
    doubled = conformity_scores(LOGITS, scores, codes, 2 * weight)
    np.testing.assert_allclose(doubled.levels, actual.levels)


def test_the_number_of_stored_thresholds_is_limited(monkeypatch):
    """Sets do not become smaller."""
    scores, codes = samples(3, 5000)
    every = conformity_scores(LOGITS, scores, codes)
    monkeypatch.setattr(conformal, "_MAX_THRESHOLDS", 100)
    few = conformity_scores(LOGITS, scores, codes)
    assert len(few.thresholds) == len(few.levels) == 100 < len(every.thresholds)
    for level in (0.5, 0.7, 0.9, 0.95, 0.999):
        thresholds = few.threshold(level), every.threshold(level)
        assert thresholds[0] <= thresholds[1]
        assert (
            coverage(scores, codes, thresholds[0]) < coverage(scores, codes, thresholds[1]) + 0.01
        )
