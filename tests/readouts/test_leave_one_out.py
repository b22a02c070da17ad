"""Leave-one-out scores in closed form, where rounding bites, and the penalty that a sample chooses.

Where the others say next to nothing of a row, its score without itself is known or said not to be.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

import naive
from readouts.left_out import error_of, hidden_of, rows_of, some_weights, without_each_row
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.estimators import readouts as module
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.parts import layer_of
from sklearn_fsvc._src.readouts.cross_validation import STEP
from sklearn_fsvc._src.readouts.dual import gather_rows
from sklearn_fsvc._src.readouts.leave_one_out import LOOScores, SampledLOO
from sklearn_fsvc._src.readouts.loo_penalty import search_loo_penalty
from sklearn_fsvc._src.readouts.ridge import gather
from sklearn_fsvc._src.readouts.sample import draw, rows_in
from sklearn_fsvc._src.targets.validation import ClassTargets

PENALTIES = [STEP**power for power in range(-6, 9)]


def best_by_brute_force(H, y, weight=None):
    """The penalty with the least error of readouts that are trained again without each row."""
    Y = np.eye(y.max() + 1)[y]
    errors = [error_of(without_each_row(H, Y, a, weight), Y, weight) for a in PENALTIES]
    return PENALTIES[int(np.argmin(errors))]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("start", [0.01, 100.0])
def test_it_is_the_one_of_brute_force(weighted, start):
    X, y = rows_of(3)
    weight = some_weights() if weighted else None
    clf = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0).fit(X, y)
    job, samples = Job(get_engine("jit")), Samples(X, ClassTargets(y, 3), weight)
    sample = draw(job, samples)
    (statistics,) = gather(job, [layer_of(clf)], samples)
    found = search_loo_penalty(job, layer_of(clf), sample, statistics, start)
    assert found == pytest.approx(best_by_brute_force(hidden_of(clf, X), y, weight))
    statistics.room = 0
    assert search_loo_penalty(job, layer_of(clf), sample, statistics, start) == start


def test_an_ensemble_takes_it_for_its_members(monkeypatch):
    """Where held-out rows, of half of the units, say something else; not where rows are many."""
    X, y = make_classification(300, 8, n_informative=6, flip_y=0.2, random_state=7)
    single = TanhClassifier(60, feature_weights=None, random_state=0)
    ensemble = StackedClassifier([("tanh", single)], final_estimator=None, random_state=0).fit(X, y)
    member = ensemble.estimators_[0]
    best = best_by_brute_force(hidden_of(member, X), y)
    assert member.alpha_ == pytest.approx(best)
    alone = clone(single).fit(X, y).alpha_
    assert alone != pytest.approx(best)
    monkeypatch.setattr(module, "_MAX_LOO_ROWS", 299)
    assert clone(ensemble).fit(X, y).estimators_[0].alpha_ != pytest.approx(best)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", [RBFRegressor, TanhRegressor])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_fewer_rows_than_units(kind, dtype, seed):
    """They are those of brute force, or infinite: never the less the less is known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)).astype(dtype)
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=60)
    alphas = [1e-7, 1e-5, 1e-3, 0.1, 10.0]
    given = {"feature_weights": None, "random_state": 0}
    given |= {"kernel": "laplacian", "selection": "random"} if kind is RBFRegressor else {}
    n_units = 60 if kind is RBFRegressor else 300
    model = kind(n_units, alpha=alphas, **given).fit(X, y)
    H, Y = naive.of_model(model, X), (y[:, None] - y.mean()) / y.std()
    expected = np.array([error_of(without_each_row(H, Y, alpha), Y) for alpha in alphas])
    is_known = np.isfinite(model.loo_errors_)
    assert is_known[2:].all()
    np.testing.assert_allclose(model.loo_errors_[is_known], expected[is_known], rtol=0.1)
    chosen = expected[alphas.index(model.alpha_)]
    assert chosen < 1.1 * expected[is_known].min()


@pytest.mark.parametrize("alpha", [1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_of_interpolating_readouts(alpha, dtype):
    """Noise: whatever fits it has a log-loss of log 3."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2040, 30)).astype(dtype), rng.integers(3, size=2040)
    for model in (TanhClassifier(alpha=alpha), RBFClassifier(40, alpha=alpha)):
        model.set_params(random_state=0).fit(X[:40], y[:40])
        assert log_loss(y[40:], model.predict_proba(X[40:])) < np.log(3) + 0.1


@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1.0])
@pytest.mark.parametrize("is_dual", [True, False])
def test_scores_without_a_fold(is_dual, alpha, rng):
    """Those of readouts that are trained again without its rows, and all that are equal to them."""
    X, y = rows_of(3)
    X, y, weight = np.vstack([X, X[:9]]), np.append(y, y[5:14]), rng.uniform(0.5, 2, 69)
    layer = RBFLayer(rng.normal(size=(160 if is_dual else 30, 8)), 9.0, kernel="laplacian")
    job, samples = Job(get_engine("jit")), Samples(X, ClassTargets(y, 3), weight)
    sample = draw(job, samples)
    folds = rng.integers(0, 4, len(sample.targets))
    if is_dual:
        loo = SampledLOO(job, layer, sample, folds=folds)
        _, dual = gather_rows(job, layer, samples).try_solve(alpha)
        scores = loo.score_dual(dual, *rows_in(job, samples, sample))
    else:
        (statistics,) = gather(job, [layer], samples, dtype=float)
        loo = SampledLOO(job, layer, sample, statistics, folds)
        _, scores = loo.solve(alpha)
    H, Y = naive.hidden(layer, X), np.eye(3)[y]
    numbers, at = rows_in(job, samples, sample)
    assert sorted(numbers) == list(range(69))
    for fold in range(4):
        kept = numbers[folds[at] != fold]
        W, b = naive.ridge(H[kept], Y[kept], alpha, weight[kept])
        own = np.flatnonzero(folds == fold)
        expected = naive.hidden(layer, sample.rows.X[own]) @ W.T + b
        found = scores.fold_scores[own]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_few_known_scores_are_no_certainty():
    """Of 60 rows three are known, and right; the others say nothing, whatever stands for them."""
    X, y = rows_of(3)
    clf = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0).fit(X, y)
    task, samples = clf._parts().task, Samples(X, ClassTargets(y, 3), None)
    sample = draw(Job(get_engine("jit")), samples)
    right = sample.targets + 0.01
    is_known = np.arange(60) < 3
    few = LOOScores(20, np.where(is_known[:, None], right, 1 / 3), np.empty(0, int), is_known)
    every = LOOScores(20, right, np.empty(0, int), np.ones(60, bool))
    at_hand = task.calibrated(every, sample)["temperature_"]
    assert 2 * at_hand < task.calibrated(few, sample)["temperature_"] < 1
    other = LOOScores(20, np.where(is_known[:, None], right, 9.0), np.empty(0, int), is_known)
    assert task.calibrated(other, sample) == task.calibrated(few, sample)
