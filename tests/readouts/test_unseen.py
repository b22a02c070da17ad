"""The penalty of the least leave-one-out error of a sample: a mixture takes it for its members."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from readouts.left_out import error_of, hidden_of, rows_of, some_weights, without_each_row
from sklearn_fsvc import MixtureClassifier, TanhClassifier
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.estimators import readouts as module
from sklearn_fsvc._src.estimators.parts import layer_of
from sklearn_fsvc._src.estimators.targets import ClassTargets
from sklearn_fsvc._src.readouts.held_out import STEP
from sklearn_fsvc._src.readouts.ridge import gather
from sklearn_fsvc._src.readouts.sample import draw
from sklearn_fsvc._src.readouts.unseen import search_unseen
from sklearn_fsvc._src.rows.job import Job
from sklearn_fsvc._src.rows.samples import Samples

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
    found = search_unseen(job, layer_of(clf), sample, statistics, start)
    assert found == pytest.approx(best_by_brute_force(hidden_of(clf, X), y, weight))
    statistics.room = 0
    assert search_unseen(job, layer_of(clf), sample, statistics, start) == start


def test_a_mixture_takes_it_for_its_members(monkeypatch):
    """Where held-out rows, of half of the units, say something else; not where rows are many."""
    X, y = make_classification(300, 8, n_informative=6, flip_y=0.2, random_state=7)
    single = TanhClassifier(60, feature_weights=None, random_state=0)
    mixture = MixtureClassifier([("tanh", single)], final_estimator=None, random_state=0).fit(X, y)
    member = mixture.estimators_[0]
    best = best_by_brute_force(hidden_of(member, X), y)
    assert member.alpha_ == pytest.approx(best)
    alone = clone(single).fit(X, y).alpha_
    assert alone != pytest.approx(best)
    monkeypatch.setattr(module, "_MOST_LEFT_OUT", 299)
    assert clone(mixture).fit(X, y).estimators_[0].alpha_ != pytest.approx(best)
