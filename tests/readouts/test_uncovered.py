"""Leave-one-out scores of samples that no other unit covers, against networks without them."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import naive
import readouts.brute_force as brute_force
from fake_sources import TiledArray
from readouts.brute_force import ALPHAS, error_of, rows_of
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples, exact_hashes
from sklearn_fsvc._src.hidden_layers.rbf import RBF
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts import press as press_module
from sklearn_fsvc._src.readouts.draw_sample import sample_by_hash
from sklearn_fsvc._src.readouts.dual import DualLOO, gather_dual_problem
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.leave_one_out import SampledLOO
from sklearn_fsvc._src.readouts.press import compute_press
from sklearn_fsvc._src.targets import labels
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

WEIGHT = np.random.default_rng(2).uniform(0.5, 2, 60)


@pytest.fixture(params=[60, 25])
def network(request):
    """Triangular units at the leading samples; other samples alone activate a third of them."""
    X, y = rows_of(3)
    layer = RBFLayer(X[: request.param], 0.15 * np.median(naive.distances(X, X, "manhattan")))
    return layer, X, y


def without_rows(layer, X, Y, left_out, alpha, weight):
    """Return the predictions for some samples by a network without these and their units."""
    kept = np.setdiff1d(np.arange(len(X)), left_out)
    units = np.setdiff1d(np.arange(layer.n_units), left_out)
    H = naive.hidden(layer, X)[:, units]
    W, b = naive.ridge(H[kept], Y[kept], alpha, weight[kept])
    scores, is_uncovered = H[left_out] @ W.T + b, ~H[left_out].any(axis=1)
    nearest = units[naive.distances(X[left_out], layer.units[units], "manhattan").argmin(axis=1)]
    shrunk = b + (Y[nearest] - b) / (1 + alpha)
    return np.where(is_uncovered[:, None], shrunk, scores)


def without_each_row(layer, X, Y, alpha, weight):
    """Return leave-one-out scores; for several penalties a stack of them."""
    n, d = len(X), naive.distances(X, layer.units, "manhattan")
    H, own = naive.hidden(layer, X), np.where(np.arange(n) < layer.n_units, np.arange(n), -1)
    scores = brute_force.without_each_row(H, Y, alpha, weight, own)
    units = np.arange(layer.n_units)
    H[units, units], d[units, units] = 0, np.inf
    is_uncovered, nearest = ~H.any(axis=1), d.argmin(axis=1)
    assert 10 < is_uncovered.sum() < 50
    # Without activations the score is the intercept.
    share = 1 / (1 + np.reshape(alpha, (-1, 1, 1)) if np.ndim(alpha) else 1 + alpha)
    return np.where(is_uncovered[:, None], scores + share * (Y[nearest] - scores), scores)


def job_and_samples(X, y):
    return Job(get_engine("jit")), Samples(X, OneHotTargets.of_column(y, 3), WEIGHT)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_the_change_of_the_error_by_uncovered_samples(network, alpha):
    """Other samples have the mean of y as scores, as if the units contributed nothing."""
    layer, X, y = network
    job, samples = job_and_samples(X, y)
    centers, Y = np.arange(layer.n_units), np.eye(3)[y]
    units = RBF(kernel="triangular").with_fitted(centers_=layer.units, support_=centers)
    (statistics,) = gather(job, [layer], samples)
    loo = SampledLOO(
        job, layer, sample_by_hash(job, samples, 60), statistics,
        units=units, center_outputs=Y[: layer.n_units], mean_weight=2.0,
    )  # fmt: skip
    mean = WEIGHT @ Y / WEIGHT.sum()
    d = naive.distances(X, layer.units, "manhattan")
    H = naive.hidden(layer, X)
    H[centers, centers], d[centers, centers] = 0, np.inf
    is_uncovered, nearest = ~H.any(axis=1)[:, None], Y[d.argmin(axis=1)]
    scores = np.where(is_uncovered, mean + (nearest - mean) / (1 + alpha / 2), mean)
    errors = [np.average(np.square(Y - s).sum(axis=1), weights=WEIGHT) for s in (scores, mean)]
    assert loo.uncovered_loss()(alpha) == pytest.approx(errors[0] - errors[1])


@pytest.mark.parametrize("is_dual", [True, False])
@pytest.mark.parametrize("alpha", [1e-6, 0.01, 1.0, 100.0])
def test_scores_equal_predictions_without_the_sample(network, alpha, is_dual):
    layer, X, y = network
    job, samples = job_and_samples(X, y)
    sample, folds = sample_by_hash(job, samples, 60), np.arange(60) % 4
    centers, Y = np.arange(layer.n_units), np.eye(3)[y]
    units = RBF(kernel="triangular").with_fitted(centers_=layer.units, support_=centers)
    options = {"folds": folds, "units": units, "center_outputs": Y[: layer.n_units]}
    if is_dual:
        problem = gather_dual_problem(job, layer, samples)
        _, dual = problem.try_solve(alpha)
        loo = DualLOO(job, layer, sample, samples, **options)
        loo.score(problem.try_solve(1.0)[1], problem)  # the scores of another penalty stay apart
        scores = loo.score(dual, problem)
    else:
        (statistics,) = gather(job, [layer], samples, dtype=float)
        scores = SampledLOO(job, layer, sample, statistics, **options).solve(alpha)[1]
    expected = without_each_row(layer, X, Y, alpha, WEIGHT)[sample.numbers]
    np.testing.assert_allclose(scores.scores, expected, rtol=0, atol=1e-9)
    for fold in range(4):
        rows = folds == fold
        expected = without_rows(layer, X, Y, sample.numbers[rows], alpha, WEIGHT)
        np.testing.assert_allclose(scores.oof_scores[rows], expected, rtol=0, atol=1e-9)


def test_scores_of_the_leading_units(network):
    layer, X, y = network
    job, samples = job_and_samples(X, y)
    (statistics,) = gather(job, [layer], samples, dtype=float)
    sample, Y = sample_by_hash(job, samples, 60), np.eye(3)[y]
    centers = np.arange(layer.n_units)
    units = RBF(kernel="triangular").with_fitted(centers_=layer.units, support_=centers)
    loo = SampledLOO(job, layer, sample, statistics, units=units, center_outputs=Y[: layer.n_units])
    sizes = [20, layer.n_units]
    for size, (_, scores) in zip(sizes, loo.solve_leading(0.1, sizes), strict=True):
        first = layer.part(slice(size))
        expected = without_each_row(first, X, Y, 0.1, WEIGHT)[sample.numbers]
        np.testing.assert_allclose(scores.scores, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("keep_scores", [True, False])
@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("alphas", [[0.1], ALPHAS], ids=str)
def test_errors_of_several_penalties(network, alphas, batch, keep_scores, monkeypatch):
    """The samples arrive in tiles; uncovered ones are scored again in batches."""
    layer, X, y = network
    job, samples = job_and_samples(TiledArray(X, 7), y)
    monkeypatch.setattr(press_module, "_FILL_SHARE", job.memory_limit // (24 * len(alphas) * batch))
    samples = samples.with_centers(np.arange(layer.n_units))
    (statistics,) = gather(job, [layer], samples, dtype=float)
    Y, rows = np.eye(3)[y], np.arange(0, 60, 2)
    outputs = Y[: layer.n_units]
    actual = compute_press(
        job, layer, samples, statistics, alphas, keep_scores, center_outputs=outputs
    )
    subset = compute_press(job, layer, samples, statistics, alphas, True, rows, outputs)
    for k, expected in enumerate(without_each_row(layer, X, Y, alphas, WEIGHT)):
        assert actual.errors[k] == pytest.approx(error_of(expected, Y, WEIGHT), rel=1e-9)
        np.testing.assert_allclose(subset.scores[k], expected[rows], rtol=0, atol=1e-9)
        if keep_scores:
            np.testing.assert_allclose(actual.scores[k], expected, rtol=0, atol=1e-9)


def test_the_only_unit_leaves_the_intercept():
    X, y = rows_of(3)
    job, samples = job_and_samples(X, y)
    layer = RBFLayer(X[:1], 1e-3)
    units = RBF(kernel="triangular").with_fitted(centers_=X[:1], support_=np.array([0]))
    (statistics,) = gather(job, [layer], samples, dtype=float)
    sample, Y = sample_by_hash(job, samples, 60), np.eye(3)[y]
    loo = SampledLOO(job, layer, sample, statistics, units=units, center_outputs=Y[:1])
    scores = loo.solve(0.1)[1].scores[sample.numbers == 0]
    mean = np.average(Y[1:], axis=0, weights=WEIGHT[1:])
    np.testing.assert_allclose(scores, mean[None], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_hidden", [20, 60])
@pytest.mark.parametrize("alpha", [1.0, "loo", "auto"])
def test_classifiers_are_calibrated_with_these_scores(alpha, n_hidden, n_classes, monkeypatch):
    X, y = rows_of(n_classes)
    given = []

    def fit_calibration(scores, *args, fit=labels.fit_calibration):
        given.append(np.array(scores))
        return fit(scores, *args)

    monkeypatch.setattr(labels, "fit_calibration", fit_calibration)
    radius = 0.15 * np.median(naive.distances(X, X, "manhattan"))
    clf = RBFClassifier(
        n_hidden, selection="random", radius=radius, kernel="triangular", metric="manhattan",
        feature_weights=None, alpha=alpha, random_state=0,
    ).fit(X, y)  # fmt: skip
    if alpha != "loo":  # the calibration sample is sorted by hash
        given[0] = given[0][np.argsort(np.argsort(exact_hashes(X)))]
    # The units first, as in the other tests.
    order = np.append(clf.support_, np.setdiff1d(np.arange(60), clf.support_))
    Y = np.eye(n_classes)[y[order]]
    expected = without_each_row(layer_of(clf), X[order], Y, clf.alpha_, np.ones(60))
    expected = np.diff(expected, axis=1) if n_classes == 2 else expected
    np.testing.assert_allclose(given[0][order], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("n", "n_features", "seed"), [(100, 1000, 2), (100, 300, 8)])
@pytest.mark.parametrize("alpha", ["auto", "loo"])
def test_probabilities_of_noise_are_not_confident(n, n_features, seed, alpha):
    """Units cover no other sample, and the labels are random."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, n_features)), rng.integers(0, 2, n)
    X_test, y_test = rng.normal(size=(1000, n_features)), rng.integers(0, 2, 1000)
    given = {"feature_weights": None, "kernel": "triangular", "radius": 1.0}
    clf = RBFClassifier(alpha=alpha, random_state=0, **given).fit(X, y)
    assert log_loss(y_test, clf.predict_proba(X_test)) < np.log(2) + 0.02
