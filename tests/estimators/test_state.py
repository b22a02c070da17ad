"""Estimators saved by another version of this package, of scikit-learn or of NumPy."""

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


class SavedBy:
    """Is pickled as an estimator that was saved with other versions of packages."""

    def __init__(self, model, packages):
        self._model, self._packages = model, packages

    def __reduce__(self):
        make, (cls, _), model_state = self._model.__reduce_ex__(4)[:3]
        return make, (cls, self._packages), model_state


def saved(model, monkeypatch, version, save=by_pickle):
    """Return a function that loads a model saved by a version of this package."""
    with monkeypatch.context() as patched:
        patched.setattr(state, "__version__", version)
        return save(model)


MODELS = [
    RBFClassifier(), TanhRegressor(), TanhProjector(), HiddenSizeSearchCV(TanhRegressor(), {})
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_another_minor_version_warns(model, monkeypatch):
    load = saved(model, monkeypatch, "0.0.9")
    with pytest.warns(InconsistentVersionWarning) as caught:
        load()
    message = str(caught[-1].message)
    assert message.startswith(f"This {type(model).__name__} was saved by version 0.0.9 of sklearn_")
    assert f"loaded by {VERSION}" in message
    assert message.endswith("Fit it again, or install sklearn-fsvc==0.0.9.")


@pytest.mark.parametrize("save", [by_pickle, by_joblib, by_skops])
def test_the_warning_has_the_line_that_loads(save, monkeypatch):
    load = saved(TanhProjector(), monkeypatch, "9.1.0", save)
    with pytest.warns(InconsistentVersionWarning, match=r"by version 9\.1\.0") as caught:
        load()
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("save", [by_pickle, by_joblib])
def test_newer_packages_warn_before_loading_fails(save, monkeypatch):
    """The state refers to a class that does not exist, as one of NumPy 2 in NumPy 1."""
    search = HiddenSizeSearchCV(TanhRegressor(), {})
    with monkeypatch.context() as patched:
        newer = type("Newer", (), {"__module__": __name__, "__qualname__": "Newer"})
        patched.setitem(globals(), "Newer", newer)
        search.result_ = newer()
        load = save(SavedBy(search, (("scikit-learn", "99.10.1"), ("numpy", np.__version__))))
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
def test_older_packages_do_not_warn(version):
    packages = (("scikit-learn", version), ("numpy", "1.26.0"))
    load = by_pickle(SavedBy(TanhProjector(7), packages))
    assert load().n_components == 7


def test_a_state_without_version_warns():
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
    assert vars(loaded).keys() == vars(model).keys()  # the version is not an attribute
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_new_parameters_get_their_defaults(monkeypatch):
    model = RBFClassifier(
        5, overlap=0.5, kernel="laplacian", feature_weights=None, alpha=1.0, random_state=0
    ).fit(X, X[:, 0] > 0.5)  # fmt: skip
    expected = model.predict(X)
    del model.forgetting_factor, model.layer
    loaded = saved(model, monkeypatch, VERSION)()
    assert (loaded.forgetting_factor, loaded.layer, loaded.overlap) == (1.0, None, 0.5)
    np.testing.assert_array_equal(loaded.predict(X), expected)
    loaded.fit(X, X[:, 0] > 0.5)
