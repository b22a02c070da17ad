"""examples/autogluon_models.py, where AutoGluon is installed."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("autogluon.tabular", reason="needs autogluon.tabular 1.6 or newer")
# AutoGluon's own warnings, and those of two features of its smallest datasets.
pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ["RBFNetworkModel", "StackedNetworksModel"]
rng = np.random.default_rng(0)


@pytest.fixture
def models(monkeypatch, tmp_path):
    """Return the module of the example, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    return import_module("autogluon_models")


@pytest.fixture
def table():
    """Return a table with missing values, a category with missing values, and a target."""
    X = pd.DataFrame(rng.normal(size=(1000, 3)), columns=["a", "b", "c"])
    color = rng.integers(3, size=len(X))
    X["color"] = pd.Categorical.from_codes(color, ["red", "green", "blue"])
    X["target"] = np.where(X["a"] + color + 0.2 * X["b"] > 1, "yes", "no")
    X.loc[::9, "b"] = np.nan
    X.loc[::50, "color"] = np.nan
    return X


def fit(cls, table, tmp_path, **options):
    """Return a fitted predictor of only this model, which raises if the model fails."""
    from autogluon.tabular import TabularPredictor

    predictor = TabularPredictor("target", path=str(tmp_path / "models"), verbosity=0)
    hyperparameters = {cls: options.pop("hyperparameters", {})}
    return predictor.fit(
        table, hyperparameters=hyperparameters, raise_on_model_failure=True,
        fit_weighted_ensemble=False, **options,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_autogluon_verifies(name, models):
    from autogluon.tabular.testing import FitHelper

    # Problem types, seeds, bagging, refits, single predictions.
    FitHelper.verify_model(getattr(models, name), model_hyperparameters={})


@pytest.mark.parametrize("name", NAMES)
def test_categories_and_missing_values(name, models, table, tmp_path):
    predictor = fit(getattr(models, name), table[:700], tmp_path)
    assert predictor.evaluate(table[700:])["accuracy"] > 0.93


def test_hyperparameters_seed_and_validation_set(models, table, tmp_path, monkeypatch):
    from sklearn_fsvc import RBFClassifier

    calls, original = [], RBFClassifier.fit

    def recorded(self, X, y, **kwargs):
        calls.append((self.get_params(), kwargs))
        return original(self, X, y, **kwargs)

    monkeypatch.setattr(RBFClassifier, "fit", recorded)
    options = {"n_hidden": 70}
    predictor = fit(
        models.RBFNetworkModel, table[:700], tmp_path, tuning_data=table[700:],
        hyperparameters=options,
    )  # fmt: skip
    predictor.refit_full()
    (params, fitted_with), (_, refitted_with) = calls
    assert (params["n_hidden"], params["random_state"]) == (70, 0)  # AutoGluon's seed
    assert len(fitted_with["X_val"]) == len(fitted_with["y_val"]) == 300
    assert "X_val" not in refitted_with


def time_left(models, monkeypatch, speed):
    """Make the networks appear as slow as `speed`, and return options for a limit of an hour."""
    for name in NAMES:
        monkeypatch.setattr(getattr(models, name), "speed", speed)
    return {"time_limit": 3600, "num_cpus": 1}


def test_units_are_reduced_and_refits_keep_them(models, table, tmp_path, monkeypatch):
    # n m (d + m) operations for 800 training samples, with m of about 300.
    options = time_left(models, monkeypatch, speed=800 * 300**2 / 3400)
    predictor = fit(models.RBFNetworkModel, table, tmp_path, **options)
    predictor.refit_full()
    sizes = [
        len(predictor._trainer.load_model(name).model[-1].centers_)
        for name in predictor.model_names()
    ]
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]
    assert 250 < sizes[0] < 310


@pytest.mark.parametrize("name", NAMES)
def test_too_little_time(name, models, table, tmp_path, monkeypatch):
    from autogluon.core.utils.exceptions import TimeLimitExceeded

    options = time_left(models, monkeypatch, speed=800 * 50**2 / 3400)
    with pytest.raises(TimeLimitExceeded):
        fit(getattr(models, name), table, tmp_path, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_ends_at_the_deadline(name, models, table, tmp_path, monkeypatch):
    from autogluon.core.utils.exceptions import TimeLimitExceeded

    # The estimate is too low: no operation takes time.
    monkeypatch.setattr(getattr(models, name), "overhead", -1e9)
    monkeypatch.setattr(models, "USABLE_TIME", 1e-9)
    with pytest.raises(TimeLimitExceeded):
        fit(getattr(models, name), table, tmp_path, time_limit=3600)


@pytest.mark.parametrize("problem_type", ["binary", "regression"])
@pytest.mark.parametrize("name", NAMES)
def test_warmup(name, problem_type, models):
    getattr(models, name).warmup(problem_type=problem_type, num_cpus=1)


def test_threads(models, table, tmp_path, monkeypatch):
    limits = []
    original = models.threadpool_limits
    monkeypatch.setattr(models, "threadpool_limits", lambda n: (limits.append(n), original(n))[1])
    fit(models.RBFNetworkModel, table, tmp_path, num_cpus=1)
    assert limits[0] == 1
