"""A profile changes the settings of an engine that is entered, and no output."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sklearn_fsvc import RBFClassifier, RBFProjector, TanhClassifier, TanhProjector
from sklearn_fsvc._src.engines import profiles
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.tuning import KINDS, example
from sklearn_fsvc.engines import get_engine

pytestmark = pytest.mark.usefixtures("few_cores")

KIND = "manhattan triangular float32"


def layer_of(kind):
    return example(kind, 1, 1)[1]


def settings_of(kind=KIND):
    """Return the settings of an engine that is entered."""
    with get_engine("jit") as engine:
        return engine.settings(layer_of(kind))


def write_profile(kinds=(KIND,), **values):
    """Write a profile of the jit engine with values, and a block that is not the default."""
    engine = get_engine("jit")
    blocks = {kind: engine.tunables(layer_of(kind))["block"] for kind in kinds}
    settings = {kind: {"block": blocks[kind][-1], **values} for kind in kinds}
    profiles.write(engine.identity(), settings)
    return settings


def test_an_engine_uses_the_profile_after_it_is_entered():
    engine = get_engine("jit")
    default = engine.settings(layer_of(KIND))
    settings = write_profile(M=1024, tile_rows=32)[KIND]
    assert settings_of() == {**default, **settings} != default
    assert engine.settings(layer_of(KIND)) == default


def test_a_profile_does_not_change_other_kinds():
    default = settings_of("manhattan triangular float64")
    write_profile(M=1024)
    assert settings_of("manhattan triangular float64") == default


def test_settings_of_older_versions_are_ignored():
    default = settings_of()
    profiles.write(get_engine("jit").identity(), {KIND: {"removed": 7}})
    assert settings_of() == default


INVALID = [
    ("M", 3000), ("M", "2048"), ("M", None), ("block", (9, 9)), ("block", [[2], 8]),
    ("tile_rows", {"a": 1}), ("threads", 10**9),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), INVALID)
def test_an_invalid_value_is_ignored(name, value):
    default = settings_of()[name]
    write_profile(**{"step": 2048, name: value})
    with pytest.warns(RuntimeWarning, match=f"{KIND}.* {name}=.* is none of"):
        settings = settings_of()
    assert settings[name] == default
    assert settings["step"] == 2048


EQUAL = [("M", 2048.0), ("asymmetry", True), ("tile_rows", 128.0), ("block", [4.0, 4.0])]


@pytest.mark.parametrize(("name", "value"), EQUAL)
@pytest.mark.filterwarnings("ignore:.* is ignored")
def test_an_equal_value_of_another_type_is_converted(name, value):
    write_profile(**{name: value})
    values = get_engine("jit").tunables(layer_of(KIND))[name]
    assert repr(settings_of()[name]) in map(repr, values)


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


def outputs(estimator, X, y):
    estimator.fit(X, y)
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


ESTIMATORS = [
    RBFClassifier(
        300, selection="random", feature_weights=None, kernel="laplacian", device="jit",
        random_state=0,
    ),
    TanhClassifier(300, feature_weights=None, device="jit", random_state=0),
    RBFProjector(300, selection="random", device="jit", random_state=0),
    TanhProjector(300, device="jit", random_state=0),
]  # fmt: skip


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_profile_changes_no_output(estimator, digits, monkeypatch):
    expected, hidden, slices = outputs(estimator, *digits), JitEngine.hidden, []

    def recorded(engine, prepared, X, out=None, units=None):
        slices.append(units)
        return hidden(engine, prepared, X, out, units)

    write_profile(KINDS, M=1024, asymmetry=4)
    monkeypatch.setattr(JitEngine, "hidden", recorded)
    np.testing.assert_array_equal(outputs(estimator, *digits), expected)
    assert slice(256, 300) in slices


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_estimator_works_with_a_corrupt_profile(estimator, digits):
    expected = outputs(estimator, *digits)
    path = profiles.path_of(get_engine("jit").identity())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    with pytest.warns(RuntimeWarning, match="is ignored: it is corrupt") as caught:
        np.testing.assert_array_equal(outputs(estimator, *digits), expected)
    assert len(caught) == 1


@pytest.mark.parametrize(("limit", "used"), [("", 16), ("1", 1)])
def test_threads_of_a_profile_are_limited_by_the_environment(
    sixteen_threads, monkeypatch, limit, used
):
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    write_profile(threads=16)
    with get_engine("jit") as engine:
        prepared = engine.prepare(layer_of(KIND))
        assert engine.n_threads_for(prepared, work=2**40) == used
        assert engine.n_threads_for(prepared, work=1) == 1
