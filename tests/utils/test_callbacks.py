"""Callbacks of scikit-learn 1.9 are notified of fits, passes and tiles, and are not pickled."""

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

from callback_recorder import Recorder
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import PassTask
from sklearn_fsvc._src.utils.callbacks import NO_CALLBACKS, FitTask

callback = pytest.importorskip("sklearn.callback")

# Only one of them searches for hyperparameters.
GIVEN = {"feature_weights": None, "alpha": 1.0}
ESTIMATORS = [
    RBFClassifier(20, **GIVEN), RBFRegressor(20), RBFProjector(20), TanhClassifier(20, **GIVEN),
    TanhRegressor(20, **GIVEN), TanhProjector(20, scale="auto"),
]  # fmt: skip


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def record_fit(estimator, *data):
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(*data)
    return recorder


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_notifies_callbacks(estimator, wine):
    tasks = record_fit(clone(estimator), *wine).tasks
    assert tasks[:2] == ["setup", "begin fit"]
    assert tasks[-2:] == ["end fit", "teardown"]
    for name in {task.partition(" ")[2] for task in tasks[1:-1]}:
        assert tasks.count(f"begin {name}") == tasks.count(f"end {name}")


def test_passes_and_tiles(rng):
    """A pass has a subtask for each tile, but none if there is only one tile."""
    X = rng.normal(size=(500, 4))
    # A tile needs a few times 8 x 50 bytes for each sample, so that several are needed.
    recorder = record_fit(
        TanhClassifier(50, feature_weights=None, alpha=1.0, max_memory="100kB"), X, X[:, 0] > 0
    )
    (context,) = [c for c in recorder.contexts if c.task_name == "pass"]
    assert recorder.tasks.count("end tile") == context.max_subtasks > 1
    single = record_fit(TanhClassifier(50, feature_weights=None, alpha=1.0), X, X[:, 0] > 0)
    assert single.tasks == ["setup", "begin fit", "begin pass", "end pass", "end fit", "teardown"]


class RecordedTask:
    """A `FitTask` that records its subtasks, without scikit-learn."""

    def __init__(self, events):
        self.events = events

    def subtask(self, name, n_parts=0):
        self.events.append((name, n_parts))
        return RecordedTask(self.events)

    def begin(self):
        return self

    def end(self):
        self.events.append("end")


def test_a_tile_that_is_split_is_one_subtask():
    events = []
    progress = PassTask(RecordedTask(events), "TanhClassifier fit", total=10, tile_rows=4)
    for done in (4, 6, 8, 10):
        progress.advance(done)
    progress.end()
    tile = ("tile", 0), "end"
    assert events == [("pass", 3), *tile, *tile, *tile, "end"]


def test_pipelines_and_searches_do_not_warn(wine):
    """scikit-learn warns of estimators without callbacks, and warnings are errors here."""
    network = RBFClassifier(10, readout="none", feature_weights=None)
    pipeline = make_pipeline(StandardScaler(), TanhProjector(10), network)
    names = [c.estimator_name for c in record_fit(pipeline, *wine).contexts]
    assert {"TanhProjector", "RBFClassifier"} < set(names)
    search = GridSearchCV(TanhClassifier(10, feature_weights=None), {"alpha": [0.1, 1.0]}, cv=2)
    passes = [c for c in record_fit(search, *wine).contexts if c.task_name == "pass"]
    assert len(passes) == 2 * 2 + 1
    assert {c.estimator_name for c in passes} == {"TanhClassifier"}


def test_progress_bars(wine, capsys):
    pytest.importorskip("rich")
    GridSearchCV(TanhClassifier(10, **GIVEN), {"scale": [0.5, 1.0]}, cv=2).set_callbacks(
        callback.ProgressBar()
    ).fit(*wine)
    lines = [
        line for line in capsys.readouterr().out.splitlines() if "TanhClassifier - fit" in line
    ]
    assert len(lines) == 2 * 2 + 1
    assert all("100%" in line for line in lines)


def test_a_callback_scores_the_fitted_estimator(wine):
    """It receives the estimator at the end of a fit."""
    X, y = wine
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = TanhClassifier(20, random_state=0, **GIVEN).set_callbacks(monitor).fit(X, y)
    assert monitor.get_logs().data[-1]["accuracy"] == model.score(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_fitted_models_pickle_no_callbacks(estimator, wine):
    """Unfitted ones do, for workers; and a fit leaves no other attribute."""
    given = {"feature_weights": None, "random_state": 0}
    plain, observed = (clone(estimator).set_params(**given) for _ in range(2))
    observed.set_callbacks(Recorder())
    assert len(pickle.loads(pickle.dumps(observed))._skl_callbacks) == 1
    plain.fit(*wine)
    observed.fit(*wine)
    assert set(vars(observed)) - set(vars(plain)) == {"_skl_callbacks"}
    assert set(vars(pickle.loads(pickle.dumps(observed)))) == set(vars(copy(plain)))
    assert b"Recorder" not in pickle.dumps(observed)


def test_callbacks_are_torn_down_after_an_error(wine):
    """And the estimator is left as it was."""
    X, y = wine
    recorder = Recorder()
    model = TanhClassifier(20).set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    assert recorder.tasks == ["setup", "begin fit", "teardown"]
    assert vars(model) == before


class SlowContext:
    """Numbers subtasks like scikit-learn, with a delay in which another thread may interfere."""

    def __init__(self):
        self.numbers = []

    def subcontext(self, **kwargs):
        number = len(self.numbers)
        time.sleep(0.01)
        self.numbers.append(number)


def test_subtasks_of_several_threads_have_different_numbers():
    context = SlowContext()
    task = FitTask(None, context)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: task.subtask("pass"), range(8)))
    assert context.numbers == list(range(8))


def test_no_subtasks_without_callbacks():
    """scikit-learn would keep one context for each tile."""
    assert NO_CALLBACKS.subtask("pass", 10).begin().subtask("tile") is NO_CALLBACKS
