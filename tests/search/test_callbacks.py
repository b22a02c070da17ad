"""Callbacks of scikit-learn 1.9: the tasks of GridSearchCV, and those of the shared passes."""

import pickle

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from callback_recorder import Recorder
from search.comparing import TANH
from sklearn_fsvc import HiddenSizeSearchCV

pytestmark = pytest.mark.usefixtures("without_calibrations")

callback = pytest.importorskip("sklearn.callback")

GRID = {"n_hidden": [10, 20], "alpha": [0.1, 1.0]}


def fit_with_recorder(search, data):
    recorder = Recorder()
    search.set_callbacks(recorder).fit(*data)
    return recorder


def path_of(context):
    """Return the names of a task and of its parents, except the fit."""
    names = []
    while context.parent is not None:
        names.append(context.source_task_name or context.task_name)
        context = context.parent
    return tuple(reversed(names))


def test_the_tasks_of_a_search(wine):
    """The tasks of GridSearchCV, with a look-up in place of each fit."""
    actual = [
        path_of(c) for c in fit_with_recorder(HiddenSizeSearchCV(TANH, GRID, cv=3), wine).contexts
    ]
    reference = [
        path_of(c) for c in fit_with_recorder(GridSearchCV(TANH, GRID, cv=3), wine).contexts
    ]
    assert actual.count(("search", "candidates", "candidate-split-evaluation")) == 3 * 4
    assert reference.count(("search", "candidate-split-evaluation")) == 3 * 4
    assert reference.count(("search", "candidate-split-evaluation", "pass")) == 3 * 4
    for tasks in actual, reference:
        assert tasks.count(("refit-with-best-params",)) == 1
        assert tasks.count(("refit-with-best-params", "pass")) == 1
    assert not any(path[2:] == ("candidate-split-evaluation", "pass") for path in actual)


def passes_of(search, data):
    """Return the names of all passes, with their parents."""
    paths = map(path_of, fit_with_recorder(search, data).contexts)
    return sorted(path[2:] for path in paths if path[:2] == ("search", "passes") and path[3:])


def test_a_pass_for_each_split(wine):
    search = HiddenSizeSearchCV(clone(TANH).set_params(scale="auto"), GRID, cv=2)
    names = ("split 1 of 2", "split 2 of 2")
    expected = [(name, f"{name}, {what}") for name in names for what in ("scores", "statistics")]
    assert passes_of(search, wine) == expected


def test_one_pass_for_all_splits(wine):
    passes = passes_of(HiddenSizeSearchCV(TANH, GRID, cv=2), wine)
    assert {path[0] for path in passes} == {"all splits"}
    assert ("all splits", "rows held out by split 2 of 2") in passes


def test_names_and_order_of_tasks(wine):
    """Passes precede candidates, and all tasks have the name of the user's estimator."""
    recorder = fit_with_recorder(HiddenSizeSearchCV(TANH, GRID, cv=3, n_jobs=2), wine)
    ends = [name for name in recorder.tasks if name in ("end passes", "begin candidates")]
    assert ends == ["end passes", "begin candidates"]
    names = {c.estimator_name for c in recorder.contexts}
    assert names == {"HiddenSizeSearchCV", "TanhClassifier"}


def test_a_pipeline_within_a_search(wine):
    model = make_pipeline(StandardScaler(), TANH)
    grid = {f"tanhclassifier__{name}": values for name, values in GRID.items()}
    actual = [
        path_of(c) for c in fit_with_recorder(HiddenSizeSearchCV(model, grid, cv=3), wine).contexts
    ]
    assert actual.count(("search", "candidates", "candidate-split-evaluation")) == 3 * 4
    assert ("refit-with-best-params", "fit-transform-standardscaler") in actual


def test_progress_bars(wine, capsys):
    pytest.importorskip("rich")
    search = HiddenSizeSearchCV(TANH, GRID, cv=3)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=0)).fit(*wine)
    lines = capsys.readouterr().out.splitlines()
    assert any("HiddenSizeSearchCV - passes" in line and "100%" in line for line in lines)
    assert not any("look-up" in line for line in lines)


def test_no_callback_state_is_kept(wine):
    search = HiddenSizeSearchCV(TANH, GRID, cv=3)
    plain = set(vars(HiddenSizeSearchCV(TANH, GRID, cv=3).fit(*wine)))
    fit_with_recorder(search, wine)
    assert set(vars(search)) - plain == {"_skl_callbacks"}
    assert set(vars(pickle.loads(pickle.dumps(search)))) == plain
    assert not hasattr(search.best_estimator_, "_skl_callbacks")
