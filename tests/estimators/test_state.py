"""Models that another version of the package saved."""

import copy
import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

import sklearn_fsvc
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhProjector, TanhRegressor
from sklearn_fsvc._src.estimators import state
from sklearn_fsvc.export.skops import TRUSTED

VERSION = sklearn_fsvc.__version__
X = np.random.default_rng(0).random((20, 3))


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return lambda: joblib.load(file)


def by_pickle(model):
    data = pickle.dumps(model)
    return lambda: pickle.loads(data)


def by_skops(model):
    io = pytest.importorskip("skops.io")
    data = io.dumps(model)
    return lambda: io.loads(data, trusted=TRUSTED)


def saved(model, monkeypatch, version, save=by_pickle):
    """What loads a model that `version` has saved."""
    with monkeypatch.context() as patched:
        patched.setattr(state, "__version__", version)
        return save(model)


MODELS = [
    RBFClassifier(), TanhRegressor(), TanhProjector(), HiddenSizeSearchCV(TanhRegressor(), {})
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_of_another_minor_version(model, monkeypatch):
    load = saved(model, monkeypatch, "0.0.9")
    with pytest.warns(InconsistentVersionWarning) as caught:
        load()
    message = str(caught[-1].message)
    assert message.startswith(f"This {type(model).__name__} was saved by version 0.0.9 of sklearn_")
    assert f"loaded by {VERSION}" in message
    assert message.endswith("Fit it again, or install sklearn-fsvc==0.0.9.")


@pytest.mark.parametrize("save", [by_pickle, by_joblib, by_skops])
def test_the_warning_points_to_the_line_that_loads(save, monkeypatch):
    load = saved(TanhProjector(), monkeypatch, "9.1.0", save)
    with pytest.warns(InconsistentVersionWarning, match=r"by version 9\.1\.0") as caught:
        load()
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("save", [by_pickle, by_joblib])
def test_what_newer_packages_saved_says_so_before_it_fails(save, monkeypatch):
    """The state is made of what is not there, as NumPy 1 has not what NumPy 2 has."""
    search = HiddenSizeSearchCV(TanhRegressor(), {})
    with monkeypatch.context() as patched:
        newer = type("Newer", (), {"__module__": __name__, "__qualname__": "Newer"})
        patched.setitem(globals(), "Newer", newer)
        search.found_ = newer()
        packages = (("scikit-learn", "99.10.1"), ("numpy", np.__version__))
        patched.setattr(state, "_PACKAGES", packages)
        load = save(search)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(AttributeError, match="Newer"):
            load()
    assert {each.category for each in caught} == {state.InconsistentVersionWarning}
    message = str(caught[0].message)
    assert message.startswith("This HiddenSizeSearchCV was saved with scikit-learn 99.10.1 and is ")
    assert f"loaded with scikit-learn {sklearn.__version__}" in message
    assert "Install scikit-learn>=99.10.1" in message


@pytest.mark.parametrize("version", ["1.0.0", sklearn.__version__])
def test_what_older_packages_saved_is_loaded_without_a_word(version, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(state, "_PACKAGES", (("scikit-learn", version), ("numpy", "1.26.0")))
        load = by_pickle(TanhProjector(7))
    assert load().n_components == 7


def test_a_state_without_a_version():
    model = TanhProjector()
    with pytest.warns(InconsistentVersionWarning, match="saved by an unknown version"):
        model.__setstate__(dict(vars(model)))


@pytest.mark.parametrize("version", [VERSION, VERSION.rpartition(".")[0] + ".99"])
def test_no_warning_within_a_minor_version(version, monkeypatch):
    model = TanhRegressor(5, random_state=0).partial_fit(X, X[:, 0])
    load = saved(model, monkeypatch, version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load()
        copy.deepcopy(copy.copy(loaded))
    assert vars(loaded).keys() == vars(model).keys()  # the version is no attribute
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_parameters_that_an_older_version_did_not_have(monkeypatch):
    model = RBFClassifier(5, overlap=0.5, random_state=0).fit(X, X[:, 0] > 0.5)
    expected = model.predict(X)
    del model.forgetting_factor, model.layer
    loaded = saved(model, monkeypatch, VERSION)()
    assert (loaded.forgetting_factor, loaded.layer, loaded.overlap) == (1.0, None, 0.5)
    np.testing.assert_array_equal(loaded.predict(X), expected)
    loaded.fit(X, X[:, 0] > 0.5)
