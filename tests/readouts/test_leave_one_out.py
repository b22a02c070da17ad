"""Leave-one-out scores against brute force: the readout is retrained without each sample."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

import naive
from fake_sources import TiledArray
from peak_memory import MIB, PER_ROW, peak
from readouts.brute_force import (
    ALPHAS,
    error_of,
    hidden_of,
    press_of,
    rows_of,
    some_weights,
    unit_at_sample,
    without_each_row,
)
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers.rbf import RBF
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts import press as press_module
from sklearn_fsvc._src.readouts.draw_sample import find_sampled_rows, sample_by_hash, sample_unique
from sklearn_fsvc._src.readouts.dual import DualLOO, gather_dual_problem
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.leave_one_out import HeldOutScores, SampledLOO, leave_fold_out
from sklearn_fsvc._src.readouts.loo_penalty import select_from_loo_grid
from sklearn_fsvc._src.readouts.press import LOOScorer, compute_press
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
@pytest.mark.parametrize("alphas", [[1e-5], [1.0], ALPHAS], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_a_sample_leave_it_out(
    network, n_classes, weighted, alphas, dtype, tolerance
):  # fmt: skip
    X, y = rows_of(n_classes, dtype)
    weight = some_weights() if weighted else None
    clf = network.fit(X, y, sample_weight=weight)
    actual = press_of(clf, X, y, alphas, weight)
    assert actual.scores.shape == (len(alphas), 60, n_classes)
    assert actual.scores.dtype == dtype
    H, Y = hidden_of(clf, X), np.eye(n_classes)[y]
    for k, alpha in enumerate(alphas):
        expected = without_each_row(H, Y, alpha, weight)
        np.testing.assert_allclose(actual.scores[k], expected, rtol=0, atol=tolerance)
        error = error_of(expected, Y, weight)
        np.testing.assert_allclose(actual.errors[k], error, rtol=tolerance)
        W, b, problem = actual.solutions[k]
        expected_W, expected_b = naive.ridge(H, Y, alpha, weight)
        assert problem == ""
        np.testing.assert_allclose(H @ W.T + b, H @ expected_W.T + expected_b, atol=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alphas", [[1.0], ALPHAS], ids=str)
def test_duplicates_are_left_out_one_at_a_time(network, weighted, alphas, rng):
    X, _ = rows_of(3)
    X, y = X[rng.permutation(np.arange(60) % 25)], rng.permutation(np.arange(60) % 3)
    weight = some_weights() if weighted else None
    clf = network.fit(X, y, sample_weight=weight)
    actual = press_of(clf, X, y, alphas, weight)
    H, Y = hidden_of(clf, X), np.eye(3)[y]
    for k, alpha in enumerate(alphas):
        expected = without_each_row(H, Y, alpha, weight)
        np.testing.assert_allclose(actual.scores[k], expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(actual.errors[k], error_of(expected, Y, weight), rtol=1e-7)


@pytest.mark.parametrize("radius", [10.0, 0.5])
@pytest.mark.parametrize("alphas", [[1.0], ALPHAS], ids=str)
def test_scores_of_a_subset(alphas, radius, rng):
    """Also for duplicates, inside and outside of the subset, and of narrow units."""
    X, _ = rows_of(3)
    X, y = X[rng.permutation(np.arange(60) % 35)], np.arange(60) % 3
    weight, rows = some_weights(), np.sort(rng.permutation(60)[:40])
    clf = RBFClassifier(
        5, selection_radius=2.0, radius=radius, kernel="triangular", feature_weights=None,
        alpha=1.0, random_state=0, device="jit",
    ).fit(X, y)  # fmt: skip
    all_scores, subset = (press_of(clf, X, y, alphas, weight, rows=r) for r in (None, rows))
    np.testing.assert_allclose(subset.scores, all_scores.scores[:, rows], rtol=0, atol=1e-12)


class NumericTarget:
    """Several numeric targets for each sample."""

    is_binary = False

    def __init__(self, Y):
        self.Y, self.n_outputs = Y, Y.shape[1]

    def matrix(self, rows, xp):
        return xp.asarray(self.Y[rows])


def test_real_valued_targets(network, rng):
    X, y = rows_of(3)
    Y, weight = rng.normal(size=(60, 2)), some_weights()
    layer = layer_of(network.fit(X, y))
    with get_engine("jit") as engine:
        chosen = select_from_loo_grid(
            Job(engine), layer, Samples(X, NumericTarget(Y), weight), ALPHAS, True
        )
    H = naive.hidden(layer, X)
    expected = without_each_row(H, Y, ALPHAS, weight)
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
    H, Y, own = hidden_of(clf, X), np.eye(3)[y], unit_at_sample(clf)
    assert (own >= 0).sum() == (20 if hasattr(clf, "support_") else 0)
    expected = without_each_row(H, Y, ALPHAS, weight, own)
    errors = [error_of(scores, Y, weight) for scores in expected]
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)
    assert isinstance(clf.loo_errors_, np.ndarray)
    centers = getattr(clf, "support_", None)
    actual = press_of(clf, X, y, ALPHAS, weight, device, centers=centers)
    np.testing.assert_allclose(actual.scores, expected, rtol=0, atol=1e-8)
    expected_clf = clone(clf).set_params(device="jit").fit(X, y, sample_weight=weight)
    assert clf.alpha_ == expected_clf.alpha_
    np.testing.assert_allclose(clf.readout_coef_, expected_clf.readout_coef_, atol=1e-8)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_results_do_not_depend_on_tiles(network, rows):
    X, y = rows_of(3)
    weight = some_weights()
    clf = network.fit(X, y)
    whole = press_of(clf, X, y, ALPHAS, weight)
    tiled = press_of(clf, TiledArray(X, rows), y, ALPHAS, weight)
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


def test_results_do_not_depend_on_memory(network, monkeypatch):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    whole, sizes = press_of(clf, X, y, ALPHAS), []

    class Counting(LOOScorer):
        def scores(self, H, *args):
            sizes.append(len(H))
            return super().scores(H, *args)

    monkeypatch.setattr(press_module, "LOOScorer", Counting)
    tiled = press_of(clf, X, y, ALPHAS, max_memory=62_000)
    assert len(sizes) > 1
    assert sum(sizes) == 60
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


def test_the_scorer_is_not_pickled_on_one_machine(monkeypatch, rng):
    """Only other processes need its host arrays."""
    monkeypatch.setattr(LOOScorer, "__getstate__", None)
    X = rng.random((60, 4))
    model = TanhClassifier(10, feature_weights=None, alpha="loo", device="jit")
    assert model.fit(X, X[:, 0] > 0.5).alpha_ > 0


def test_a_sample_with_nearly_the_total_weight():
    X, y = rows_of(3)
    weight = np.ones(60)
    weight[7] = 1e7
    clf = TanhClassifier(20, feature_weights=None, random_state=0).fit(X, y)
    actual = press_of(clf, X, y, [1.0], weight)
    expected = without_each_row(hidden_of(clf, X), np.eye(3)[y], 1.0, weight)
    np.testing.assert_allclose(actual.scores[0], expected, rtol=0, atol=1e-5)


def test_too_little_memory_raises(network):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    with get_engine("jit") as engine:
        samples, layer = Samples(X, OneHotTargets.of_column(y, 3)), layer_of(clf)
        (statistics,) = gather(Job(engine), [layer], samples, dtype=float)
        with pytest.raises(
            ValueError, match=r"leave-one-out needs 1\d\.\d KiB.*Increase max_memory"
        ):
            compute_press(Job(engine, 5_000), layer, samples, statistics, [1.0], False)


@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_memory_limit(alpha):
    """As in test_memory.py, with few units, so that arrays with a value per sample matter."""
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
    clf.fit(X, y)  # compiles and imports before the measurement
    _, fit = peak(clf.fit, X, y)
    assert fit <= 4 * MIB + 20_000 * PER_ROW


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [RBFRegressor, TanhRegressor])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_with_fewer_samples_than_units(kind, dtype, seed):
    """They are those of brute force, or infinite if rounding would make them too small."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)).astype(dtype)
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=60)
    alphas = [1e-7, 1e-5, 1e-3, 0.1, 10.0]
    given = {"feature_weights": None, "random_state": 0}
    given |= {"kernel": "laplacian", "selection": "random"} if kind is RBFRegressor else {}
    n_units = 60 if kind is RBFRegressor else 120
    model = kind(n_units, alpha=alphas, **given).fit(X, y)
    H, Y = naive.of_model(model, X), (y[:, None] - y.mean()) / y.std()
    own = unit_at_sample(model)
    expected = np.array([error_of(s, Y) for s in without_each_row(H, Y, alphas, own=own)])
    is_known = np.isfinite(model.loo_errors_)
    assert is_known[2:].all()
    np.testing.assert_allclose(model.loo_errors_[is_known], expected[is_known], rtol=0.1)
    chosen = expected[alphas.index(model.alpha_)]
    assert chosen < 1.1 * expected[is_known].min()


@pytest.mark.parametrize("alpha", [1e-10, pytest.param(1e-6, marks=pytest.mark.exhaustive), 1e-2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolating_readouts_are_not_overconfident(alpha, dtype):
    """The labels are noise, so that the best log-loss is log 3."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2040, 30)).astype(dtype), rng.integers(3, size=2040)
    for model in (TanhClassifier(alpha=alpha), RBFClassifier(40, alpha=alpha)):
        model.set_params(random_state=0).fit(X[:40], y[:40])
        assert log_loss(y[40:], model.predict_proba(X[40:])) < np.log(3) + 0.1


@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1.0])
@pytest.mark.parametrize("is_dual", [True, False])
@pytest.mark.parametrize("is_merged", [True, False])
@pytest.mark.parametrize("has_centers", [True, False])
def test_scores_without_a_fold(has_centers, is_merged, is_dual, alpha, rng):
    """The readout is retrained without the samples of the fold and the units centred at them.

    If duplicates are merged, all copies of a sample are left out. Otherwise a unit is kept if its
    centre has another copy.
    """
    X, y = rows_of(3)
    X, y, weight = np.vstack([X, X[:9]]), np.append(y, y[5:14]), rng.uniform(0.5, 2, 69)
    C, centers = rng.normal(size=(160 if is_dual else 30, 8)), np.arange(0, 60, 3)
    if has_centers:
        C[: len(centers)] = X[centers]
    layer = RBFLayer(C, 9.0, kernel="laplacian")
    job, samples = Job(get_engine("jit")), Samples(X, OneHotTargets.of_column(y, 3), weight)
    sample = sample_unique(job, samples) if is_merged else sample_by_hash(job, samples, 69)
    assert sample.n_rows == (60 if is_merged else 69)
    folds = rng.integers(0, 4, len(sample.targets))
    units = RBF(kernel="laplacian").with_fitted(centers_=C[:20], support_=centers)
    units = units if has_centers else None
    if is_dual:
        loo = DualLOO(job, layer, sample, samples, folds=folds, units=units)
        problem = gather_dual_problem(job, layer, samples)
        _, dual = problem.try_solve(alpha)
        scores = loo.score(dual, problem)
    else:
        (statistics,) = gather(job, [layer], samples, dtype=float)
        loo = SampledLOO(job, layer, sample, statistics, folds=folds, units=units)
        _, scores = loo.solve(alpha)
    H, Y = naive.hidden(layer, X), np.eye(3)[y]
    numbers, at = find_sampled_rows(job, samples, sample)
    assert sorted(numbers) == list(range(69))
    is_repeated = ((numbers < 9) | (numbers >= 60)) & (not is_merged)

    def leave_out(left_out):
        """Return the scores of samples by a readout without these and without their units."""
        is_left, kept_units = np.isin(at, left_out), np.arange(len(C))
        if has_centers:
            rows = numbers[is_left & ~is_repeated]
            kept_units = np.setdiff1d(kept_units, np.flatnonzero(np.isin(centers, rows)))
        kept = numbers[~is_left]
        W, b = naive.ridge(H[np.ix_(kept, kept_units)], Y[kept], alpha, weight[kept])
        return naive.hidden(layer, sample.rows.X[left_out])[:, kept_units] @ W.T + b

    for fold in range(4):
        rows = np.flatnonzero(folds == fold)
        actual = scores.oof_scores[rows]
        np.testing.assert_allclose(actual, leave_out(rows), rtol=0, atol=1e-6)
    for i in range(0, sample.n_rows, 7):
        actual = scores.scores[[i]]
        np.testing.assert_allclose(actual, leave_out(np.array([i])), rtol=0, atol=1e-6)


def test_few_known_scores_are_shrunk_to_the_prior():
    """Three of 60 scores are known, and correct. The values of unknown scores are ignored."""
    X, y = rows_of(3)
    clf = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0).fit(X, y)
    target, samples = clf._parts().target, Samples(X, OneHotTargets.of_column(y, 3), None)
    sample, layer = sample_unique(Job(get_engine("jit")), samples), layer_of(clf)
    right = sample.targets + 0.01
    is_known = np.arange(60) < 3
    few = HeldOutScores(20, np.where(is_known[:, None], right, 1 / 3), is_known)
    every = HeldOutScores(20, right, np.ones(60, bool))
    all_known = target.calibrate(every, sample, None, layer)["temperature_"]
    assert 2 * all_known < target.calibrate(few, sample, None, layer)["temperature_"] < 1
    other = HeldOutScores(20, np.where(is_known[:, None], right, 9.0), is_known)
    assert target.calibrate(other, sample, None, layer) == target.calibrate(
        few, sample, None, layer
    )


def test_a_fold_that_is_interpolated():
    targets, root = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    complement = np.diag([1.0, 0.5, 0.25])
    scores = leave_fold_out(targets, complement @ np.full((3, 2), 7.0), complement, root)
    np.testing.assert_allclose(scores, targets - 7)
    complement[2, 2] = -1e-9
    assert leave_fold_out(targets, np.zeros((3, 2)), complement, root) is None
