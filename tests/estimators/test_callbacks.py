"""Callbacks of scikit-learn 1.9: an estimator tells of its passes and tiles, and keeps nothing."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recorder import Recorder
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Pass
from sklearn_fsvc._src.utils.callbacks import NO_CALLBACKS, FitTask

callback = pytest.importorskip("sklearn.callback")

ESTIMATORS = [
    RBFClassifier(20), RBFRegressor(20), RBFProjector(20), TanhClassifier(20), TanhRegressor(20),
    TanhProjector(20, scale="auto"),
]  # fmt: skip


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def told(estimator, *data):
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(*data)
    return recorder


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_tells(estimator, wine):
    tasks = told(clone(estimator), *wine).tasks
    assert tasks[:2] == ["setup", "begin fit"]
    assert tasks[-2:] == ["end fit", "teardown"]
    for name in {task.partition(" ")[2] for task in tasks[1:-1]}:
        assert tasks.count(f"begin {name}") == tasks.count(f"end {name}")


def test_passes_and_tiles(rng):
    """A pass has a part for each tile, and a pass of one tile is a part without parts."""
    X = rng.normal(size=(500, 4))
    # Rows of 8 x 50 bytes and their like, so that not all fit.
    recorder = told(
        TanhClassifier(50, feature_weights=None, alpha=1.0, max_memory="100kB"), X, X[:, 0] > 0
    )
    (context,) = [c for c in recorder.contexts if c.task_name == "pass"]
    assert recorder.tasks.count("end tile") == context.max_subtasks > 1
    alone = told(TanhClassifier(50, feature_weights=None, alpha=1.0), X, X[:, 0] > 0)
    assert alone.tasks == ["setup", "begin fit", "begin pass", "end pass", "end fit", "teardown"]


class Heard(FitTask):
    """Writes down what a pass tells, without scikit-learn."""

    def __init__(self, told):
        object.__setattr__(self, "told", told)

    def part(self, name, n_parts=0):
        self.told.append((name, n_parts))
        return Heard(self.told)

    def begin(self):
        return self

    def end(self):
        self.told.append("end")


def test_a_tile_that_is_halved_is_one_tile():
    told = []
    rows = Pass(Heard(told), "TanhClassifier fit", total=10, tile_rows=4)
    for done in (4, 6, 8, 10):
        rows.advance(done)
    rows.end()
    tile = ("tile", 0), "end"
    assert told == [("pass", 3), *tile, *tile, *tile, "end"]


def test_pipelines_and_searches_do_not_warn(wine):
    """As they did: that an estimator of ours does not support callbacks. Warnings are errors."""
    pipeline = make_pipeline(StandardScaler(), TanhProjector(10), RBFClassifier(10, readout="none"))
    names = [c.estimator_name for c in told(pipeline, *wine).contexts]
    assert {"TanhProjector", "RBFClassifier"} < set(names)
    search = GridSearchCV(TanhClassifier(10), {"alpha": [0.1, 1.0]}, cv=2)
    passes = [c for c in told(search, *wine).contexts if c.task_name == "pass"]
    assert len(passes) == 2 * 2 + 1
    assert {c.estimator_name for c in passes} == {"TanhClassifier"}


def test_progress_bars(wine, capsys):
    pytest.importorskip("rich")
    GridSearchCV(TanhClassifier(10, alpha=1.0), {"scale": [0.5, 1.0]}, cv=2).set_callbacks(
        callback.ProgressBar()
    ).fit(*wine)
    lines = [
        line for line in capsys.readouterr().out.splitlines() if "TanhClassifier - fit" in line
    ]
    assert len(lines) == 2 * 2 + 1
    assert all("100%" in line for line in lines)


def test_scores_of_a_fit(wine):
    """What a callback is given at the end of a fit is the estimator, fitted."""
    X, y = wine
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = TanhClassifier(20, random_state=0).set_callbacks(monitor).fit(X, y)
    assert monitor.get_logs().data[-1]["accuracy"] == model.score(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_nothing_stays(estimator, wine):
    """Of callbacks, in a fitted model's file; nor of a fit in any other attribute."""
    plain, observed = clone(estimator).set_params(random_state=0), clone(estimator)
    observed.set_params(random_state=0).set_callbacks(Recorder())
    assert len(pickle.loads(pickle.dumps(observed))._skl_callbacks) == 1  # on its way to a worker
    plain.fit(*wine)
    observed.fit(*wine)
    assert set(vars(observed)) - set(vars(plain)) == {"_skl_callbacks"}
    assert set(vars(pickle.loads(pickle.dumps(observed)))) == set(vars(copy(plain)))
    assert b"Recorder" not in pickle.dumps(observed)


def test_an_error_ends_what_was_set_up(wine):
    """And leaves the estimator as it was."""
    X, y = wine
    recorder = Recorder()
    model = TanhClassifier(20).set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    assert recorder.tasks == ["setup", "begin fit", "teardown"]
    assert vars(model) == before


class SlowContext:
    """Numbers its parts as scikit-learn does, and leaves time for another thread to do the same."""

    def __init__(self):
        self.numbers = []

    def subcontext(self, **kwargs):
        number = len(self.numbers)
        time.sleep(0.01)
        self.numbers.append(number)


def test_parts_that_threads_begin_have_numbers_of_their_own():
    context = SlowContext()
    task = FitTask(None, context)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: task.part("pass"), range(8)))
    assert context.numbers == list(range(8))


def test_nobody_hears():
    """Without callbacks no context is made, of which scikit-learn would keep one for each tile."""
    assert NO_CALLBACKS.part("pass", 10).begin().part("tile") is NO_CALLBACKS
