"""Callbacks of scikit-learn 1.9: a search tells of its tasks as GridSearchCV does."""

import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import TANH
from sklearn_fsvc import HiddenSizeSearchCV

pytest.importorskip("sklearn.callback")

GRID = {"n_hidden": [10, 20], "alpha": [0.1, 1.0]}


class Recorder:
    """Keeps the names of the tasks that begin and end."""

    max_propagation_depth = None

    def __init__(self):
        self.tasks = []

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def teardown(self, estimator, context):
        self.tasks.append("teardown")

    def on_fit_task_begin(self, estimator, context, **kwargs):
        self.tasks.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.tasks.append(f"end {context.task_name}")


def tasks_of(search, data):
    recorder = Recorder()
    search.set_callbacks(recorder).fit(*data)
    return recorder.tasks


def test_tasks_of_a_search(wine):
    """Without the warning that somebody nobody knows does not support callbacks."""
    ours = tasks_of(HiddenSizeSearchCV(TANH, GRID, cv=3), wine)
    with pytest.warns(UserWarning, match="TanhClassifier does not support callbacks"):
        theirs = tasks_of(GridSearchCV(TANH, GRID, cv=3), wine)
    assert ours == theirs
    assert ours.count("end candidate-split-evaluation") == 3 * 4


def test_a_pipeline_within_a_search(wine):
    model = make_pipeline(StandardScaler(), TANH)
    grid = {f"tanhclassifier__{name}": values for name, values in GRID.items()}
    ours = tasks_of(HiddenSizeSearchCV(model, grid, cv=3), wine)
    assert ours.count("end candidate-split-evaluation") == 3 * 4
