"""The scale of scores as estimates of probabilities, compared with its definition."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.metrics import log_loss

import naive
from sklearn_fsvc._src.readouts.calibration import (
    Calibration,
    fit_calibration,
    fit_temperature,
    probabilities,
)
from sklearn_fsvc._src.readouts.conformal import predict_codes

CANDIDATES = [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56]


def samples(n_classes, error, n=400, seed=0):
    """Return probabilities with errors, as decision values, and classes drawn from the former."""
    rng = np.random.default_rng(seed)
    p = softmax(3 * rng.normal(size=(n, n_classes)), axis=1)
    codes = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    scores = p + error * rng.normal(size=p.shape)
    return (np.diff(scores, axis=1) if n_classes == 2 else scores), codes


def rare_class(n, seed):
    """Return decision values of two classes whose probabilities are mostly near 0 and 1."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(-4, 3, n))
    decision = 2 * p - 1 + 0.01 * rng.normal(size=n)
    return decision[:, None], (rng.random(n) < p).astype(int)


def logits(n, seed):
    """Return decision values of two classes that are proportional to logits."""
    rng = np.random.default_rng(seed)
    decision = rng.normal(size=n)
    return decision[:, None], (rng.random(n) < expit(4 * decision)).astype(int)


def loss_of(calibration, scores, codes):
    return log_loss(codes, probabilities(calibration, scores))


def least_loss(scale, scores, codes, weight):
    """Return the least mean log-loss with smoothed labels, and its temperature."""
    logits = naive.logits(scores, scale)
    n, n_classes = logits.shape
    smoothing = 0.25 / (n + 1)
    labels = (1 - smoothing) * np.eye(n_classes)[codes] + smoothing / n_classes

    def mean_loss(log_temperature):
        losses = -labels * log_softmax(logits / np.exp(log_temperature), axis=1)
        return np.average(losses.sum(axis=1), weights=weight)

    best = minimize_scalar(mean_loss, bounds=(-6, 6), method="bounded")
    return best.fun, np.exp(best.x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_scale_has_the_least_penalised_log_loss(n_classes, weighted):
    chosen = set()
    for error in (0.0, 0.1, 0.4, 2.0):
        scores, codes = samples(n_classes, error)
        weight = np.random.default_rng(1).uniform(0.1, 3, len(codes)) if weighted else None
        losses = []
        for scale in CANDIDATES:
            loss, temperature = least_loss(scale, scores, codes, weight)
            penalised = len(codes) * loss + np.log(scale / 0.16) ** 2 / 2
            losses.append((penalised, temperature, scale))
        calibration = fit_calibration(scores, codes, weight)
        assert calibration[:2] == pytest.approx(min(losses)[1:], rel=1e-3)
        chosen.add(min(losses)[2])
    assert len(chosen) > 2


@pytest.mark.parametrize("score_scale", [None, 1e-6, *CANDIDATES, 1e6])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_order_of_classes_is_that_of_the_scores(n_classes, score_scale):
    """Ridge scores may be below 0 and above 1."""
    scores, _ = samples(n_classes, 1.0)
    for temperature in (0.1, 1.0, 3.0):
        p = probabilities(Calibration(temperature, score_scale), scores)
        np.testing.assert_array_equal(p.argmax(axis=1), predict_codes(scores))
        if n_classes > 2 and temperature > 1 and score_scale != 1e6:  # no ties by rounding
            np.testing.assert_array_equal(p.argsort(axis=1), scores.argsort(axis=1))


def test_probabilities_near_0_and_1_need_a_scale():
    """A softmax of the scores themselves cannot be accurate at both ends."""
    left_out, new = rare_class(512, 0), rare_class(20_000, 1)
    scaled = loss_of(fit_calibration(*left_out), *new)
    plain = loss_of(Calibration(fit_temperature(*left_out)), *new)
    assert scaled < 0.95 * plain


def test_logits_get_a_large_scale():
    left_out, new = logits(512, 0), logits(20_000, 1)
    calibration = fit_calibration(*left_out)
    assert calibration.score_scale >= 0.32
    plain = loss_of(Calibration(fit_temperature(*left_out)), *new)
    assert loss_of(calibration, *new) < 1.01 * plain


@pytest.mark.parametrize("first", [0, 1])
def test_samples_without_weight_choose_no_scale(first):
    """The scale of many samples is chosen by some of them: not by samples of weight 0."""
    scores, codes = samples(3, 0.3, 2**12)
    weight = np.zeros(len(codes))
    weight[first::2] = 1
    subset = fit_calibration(scores[first::2], codes[first::2])
    assert subset.score_scale != CANDIDATES[0]
    whole = fit_calibration(scores, codes, weight)
    assert whole.score_scale == subset.score_scale
    assert whole.temperature == pytest.approx(subset.temperature, rel=1e-3)
    assert fit_calibration(scores, codes, 0 * weight) == Calibration((2 / 3) ** 0.5, 0.16)


def test_scores_are_transformed_in_blocks():
    scores, codes = samples(8, 0.1, 2**17)
    scores = scores.astype(np.float32)
    tracemalloc.start()
    try:
        fit_calibration(scores, codes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.7 * 8 * scores.size  # of a copy in float64
