"""Leave-one-out against brute force: the readout trained again without each row."""

import numpy as np
import pytest
from sklearn.base import clone

import naive
from allocated import MIB, PER_ROW, peak
from readouts.left_out import (
    ALPHAS,
    error_of,
    hidden_of,
    press_of,
    rows_of,
    some_weights,
    without_each_row,
)
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples, exact_hashes
from sklearn_fsvc._src.parts import layer_of
from sklearn_fsvc._src.readouts import leave_one_out as module
from sklearn_fsvc._src.readouts.duplicates import find_duplicates
from sklearn_fsvc._src.readouts.leave_one_out import LOOScorer, press
from sklearn_fsvc._src.readouts.loo_penalty import choose_penalty
from sklearn_fsvc._src.readouts.ridge import gather
from sklearn_fsvc._src.targets import labels
from sklearn_fsvc._src.targets.validation import ClassTargets
from sklearn_fsvc.engines import get_engine
from sourced import InTiles


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
@pytest.mark.parametrize("alphas", [[1e-5], [1.0], ALPHAS], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_each_row_is_scored_without_itself(
    network, n_classes, weighted, alphas, dtype, tolerance
):  # fmt: skip
    X, y = rows_of(n_classes, dtype)
    weight = some_weights() if weighted else None
    clf = network.fit(X, y, sample_weight=weight)
    found = press_of(clf, X, y, alphas, weight)
    assert found.scores.shape == (len(alphas), 60, n_classes)
    assert found.scores.dtype == dtype
    assert not len(found.uncovered)
    H, Y = hidden_of(clf, X), np.eye(n_classes)[y]
    for k, alpha in enumerate(alphas):
        expected = without_each_row(H, Y, alpha, weight)
        np.testing.assert_allclose(found.scores[k], expected, rtol=0, atol=tolerance)
        error = error_of(expected, Y, weight)
        np.testing.assert_allclose(found.errors[k], error, rtol=tolerance)
        W, b, problem = found.solutions[k]
        expected_W, expected_b = naive.ridge(H, Y, alpha, weight)
        assert problem == ""
        np.testing.assert_allclose(H @ W.T + b, H @ expected_W.T + expected_b, atol=tolerance)


def without_its_twins(H, Y, groups, alpha, weight):
    """Scores of each row by a readout trained on all rows that are not equal to it."""
    scores = np.empty(Y.shape)
    for group in np.unique(groups):
        rows = groups == group
        W, b = naive.ridge(H[~rows], Y[~rows], alpha, None if weight is None else weight[~rows])
        scores[rows] = H[rows] @ W.T + b
    return scores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alphas", [[1.0], ALPHAS], ids=str)
def test_equal_rows_are_left_out_together(network, weighted, alphas, rng):
    X, _ = rows_of(3)
    groups = rng.permutation(np.arange(60) % 25)  # twice or three times
    X, y = X[groups], rng.permutation(np.arange(60) % 3)  # and not always of the same class
    X[X < -2] = 0.0
    X[::2][X[::2] == 0] = -0.0
    weight = some_weights() if weighted else None
    clf = network.fit(X, y, sample_weight=weight)
    found = press_of(clf, X, y, alphas, weight)
    H, Y = hidden_of(clf, X), np.eye(3)[y]
    for k, alpha in enumerate(alphas):
        expected = without_its_twins(H, Y, groups, alpha, weight)
        np.testing.assert_allclose(found.scores[k], expected, rtol=0, atol=1e-7)
        alone = without_each_row(H, Y, alpha, weight)
        np.testing.assert_allclose(found.errors[k], error_of(alone, Y, weight), rtol=1e-7)


@pytest.mark.parametrize("block_size", [1, 7, 2**16])
@pytest.mark.parametrize("rows", [None, np.arange(0, 60, 3)])
def test_groups_of_equal_rows(block_size, rows, rng):
    """Those of equal rows have their total weight and mean target, in blocks of any size."""
    group = rng.permutation(np.arange(60) % 25)
    X, y, weight = rng.normal(size=(25, 4))[group], np.arange(60) % 3, some_weights()
    X[X < -1] = 0.0
    X[::2][X[::2] == 0] = -0.0
    samples = Samples(InTiles(X, 7), ClassTargets(y, 3), weight)
    duplicates = find_duplicates(Job(get_engine("jit")), samples, rows, block_size)
    for i in range(60) if rows is None else rows:
        equal = (X[i] == X).all(axis=1)
        np.testing.assert_array_equal(equal, duplicates.group == duplicates.group[i])
        total = weight[equal].sum()
        expected = weight[equal] @ np.eye(3)[y[equal]] / total if total else np.zeros(3)
        (found_weight,), (mean,) = duplicates.of([i], np)
        np.testing.assert_allclose(found_weight, total)
        np.testing.assert_allclose(mean, expected)


def test_distinct_rows_have_no_groups(rng):
    samples = Samples(rng.normal(size=(60, 4)), ClassTargets(np.arange(60) % 3, 3))
    assert find_duplicates(Job(get_engine("jit")), samples) is None


@pytest.mark.parametrize("radius", [10.0, 0.5])
@pytest.mark.parametrize("alphas", [[1.0], ALPHAS], ids=str)
def test_some_rows_are_scored_as_they_are_among_all(alphas, radius, rng):
    """Also those with equal ones, here and among the others, and those outside of all units."""
    X, _ = rows_of(3)
    X, y = X[rng.permutation(np.arange(60) % 35)], np.arange(60) % 3
    weight, rows = some_weights(), np.sort(rng.permutation(60)[:40])
    clf = RBFClassifier(
        5, selection_radius=2.0, radius=radius, kernel="triangular", feature_weights=None,
        alpha=1.0, random_state=0, device="jit",
    ).fit(X, y)  # fmt: skip
    of_all, of_some = (press_of(clf, X, y, alphas, weight, rows=r) for r in (None, rows))
    np.testing.assert_allclose(of_some.scores, of_all.scores[:, rows], rtol=0, atol=1e-12)
    assert (radius == 10) == (not len(of_all.uncovered))
    np.testing.assert_array_equal(of_some.uncovered, np.intersect1d(of_all.uncovered, rows))


class NumericTarget:
    """Targets that are no classes: several numbers for each row."""

    are_whole = False

    def __init__(self, Y):
        self.Y, self.n_outputs = Y, Y.shape[1]

    def matrix(self, rows, xp):
        return xp.asarray(self.Y[rows])


def test_targets_may_be_any_numbers(network, rng):
    X, y = rows_of(3)
    Y, weight = rng.normal(size=(60, 2)), some_weights()
    layer = layer_of(network.fit(X, y))
    with get_engine("jit") as engine:
        chosen = choose_penalty(
            Job(engine), layer, Samples(X, NumericTarget(Y), weight), ALPHAS, True
        )
    H = naive.hidden(layer, X)
    expected = [without_each_row(H, Y, alpha, weight) for alpha in ALPHAS]
    errors = [error_of(scores, Y, weight) for scores in expected]
    np.testing.assert_allclose(chosen.errors, errors, rtol=1e-8)
    best = int(np.argmin(errors))
    assert chosen.alpha == ALPHAS[best]
    np.testing.assert_allclose(chosen.scores, expected[best], rtol=0, atol=1e-8)
    W, b = naive.ridge(H, Y, ALPHAS[best], weight)
    np.testing.assert_allclose(chosen.solution.W, W, rtol=0, atol=1e-6)
    np.testing.assert_allclose(chosen.solution.b, b, rtol=0, atol=1e-6)


def test_on_every_device(device, network):
    X, y = rows_of(3)
    weight = some_weights()
    clf = network.set_params(device=device, alpha=ALPHAS).fit(X, y, sample_weight=weight)
    H, Y = hidden_of(clf, X), np.eye(3)[y]
    expected = [without_each_row(H, Y, alpha, weight) for alpha in ALPHAS]
    errors = [error_of(scores, Y, weight) for scores in expected]
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)
    assert isinstance(clf.loo_errors_, np.ndarray)
    found = press_of(clf, X, y, ALPHAS, weight, device)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-8)
    here = clone(clf).set_params(device="jit").fit(X, y, sample_weight=weight)
    assert clf.alpha_ == here.alpha_
    np.testing.assert_allclose(clf.readout_coef_, here.readout_coef_, atol=1e-8)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_tiles_change_nothing(network, rows):
    X, y = rows_of(3)
    weight = some_weights()
    clf = network.fit(X, y)
    whole = press_of(clf, X, y, ALPHAS, weight)
    tiled = press_of(clf, InTiles(X, rows), y, ALPHAS, weight)
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


def test_little_memory_makes_small_tiles_and_changes_nothing(network, monkeypatch):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    whole, sizes = press_of(clf, X, y, ALPHAS), []

    class Counting(LOOScorer):
        def scores(self, H, *args):
            sizes.append(len(H))
            return super().scores(H, *args)

    monkeypatch.setattr(module, "LOOScorer", Counting)
    tiled = press_of(clf, X, y, ALPHAS, max_memory=62_000)
    assert len(sizes) > 1
    assert sum(sizes) == 60
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


def test_rows_are_scored_where_they_are(monkeypatch, rng):
    """What scores them travels to other processes as host arrays, and nowhere else."""
    monkeypatch.setattr(LOOScorer, "__getstate__", None)
    X = rng.random((60, 4))
    assert TanhClassifier(10, alpha="loo", device="jit").fit(X, X[:, 0] > 0.5).alpha_ > 0


def test_a_row_of_nearly_all_the_weight():
    X, y = rows_of(3)
    weight = np.ones(60)
    weight[7] = 1e7
    clf = TanhClassifier(20, feature_weights=None, random_state=0).fit(X, y)
    found = press_of(clf, X, y, [1.0], weight)
    expected = without_each_row(hidden_of(clf, X), np.eye(3)[y], 1.0, weight)
    np.testing.assert_allclose(found.scores[0], expected, rtol=0, atol=1e-5)


@pytest.fixture(params=[2, 3])
def apart(request):
    """A network of narrow units, and rows most of which are outside all of them."""
    X, y = rows_of(request.param)
    radius = 0.1 * np.median(naive.distances(X, X, "manhattan"))
    clf = RBFClassifier(
        20,
        selection="random",
        radius=radius,
        kernel="triangular",
        feature_weights=None,
        random_state=0,
    )
    return clf.fit(X, y), X, y


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_rows_outside_every_unit_are_known(apart, rows):
    clf, X, y = apart
    outside = np.flatnonzero(~hidden_of(clf, X).any(axis=1))
    assert 10 < len(outside) < 50
    np.testing.assert_array_equal(press_of(clf, InTiles(X, rows), y, ALPHAS).uncovered, outside)


@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_rows_outside_every_unit_are_calibrated_as_they_are_answered(apart, alpha, monkeypatch):
    clf, X, y = apart
    given = []

    def fit_temperature(scores, *args, fit=labels.fit_temperature):
        given.append(np.array(scores))
        return fit(scores, *args)

    monkeypatch.setattr(labels, "fit_temperature", fit_temperature)
    clf.set_params(alpha=alpha).fit(X, y)
    if alpha == 1.0:  # by a sample, which is in the order of its hashes
        order = np.argsort(exact_hashes(X))
        given[0] = given[0][np.argsort(order)]
    H, Y = hidden_of(clf, X), np.eye(len(clf.classes_))[y]
    outside = ~H.any(axis=1)
    answered = clf.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(given[0][outside], answered[outside], rtol=0, atol=1e-12)
    inside = without_each_row(H, Y, clf.alpha_)
    inside = np.diff(inside, axis=1) if len(clf.classes_) == 2 else inside
    np.testing.assert_allclose(given[0][~outside], inside[~outside], rtol=0, atol=1e-8)


def test_too_little_memory_is_refused_with_the_number(network):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    with get_engine("jit") as engine:
        samples, layer = Samples(X, ClassTargets(y, 3)), layer_of(clf)
        (statistics,) = gather(Job(engine), [layer], samples, dtype=float)
        with pytest.raises(ValueError, match=r"leave-one-out needs \d{5} .*Raise max_memory"):
            press(Job(engine, 5_000), layer, samples, statistics, [1.0], False)


@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_the_budget_is_kept(alpha):
    """As in test_memory.py, with so few units that what is kept for each row shows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 20_000)
    X = (rng.random((20_000, 10)) + y[:, None] / 4).astype(np.float32)
    clf = TanhClassifier(
        200,
        feature_weights=None,
        alpha=alpha,
        random_state=0,
        device="jit",
    )
    clf.set_params(max_memory=4 * MIB)
    clf.fit(X, y)  # compiled and imported before it is measured
    _, fit = peak(clf.fit, X, y)
    assert fit <= 4 * MIB + 20_000 * PER_ROW
