"""Devices and their engines, reasons for refusal, and engines of other packages."""

import re
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import contract
import naive
from conftest import open_engine
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.cli import info
from sklearn_fsvc._src.engines import ALIASES, CPU, ENGINES, mkl, register, registry
from sklearn_fsvc._src.engines.algebra import HostAlgebra
from sklearn_fsvc._src.engines.blas import BlasEngine
from sklearn_fsvc._src.engines.host import host_identity
from sklearn_fsvc._src.hidden_layers import proxy_networks
from sklearn_fsvc.engines import Engine, HostEngine, get_engine
from sklearn_fsvc.tuning import tune


def test_registered_engines_have_their_names():
    for name, engine in ENGINES.items():
        assert issubclass(engine, Engine)
        assert engine.name == name
    assert CPU in ENGINES
    assert not set(ALIASES) & set(ENGINES)


@pytest.mark.parametrize(
    "device", ["gpu", "CPU", "", None, 0, "jit:1", "cuda:", "cuda:x", "cuda:-1", "auto:0"]
)
def test_unknown_device(device):
    with pytest.raises(ValueError, match=r"device=.* is not known; choose one of 'auto'"):
        get_engine(device)


def test_unavailable_engine_is_refused_with_its_reason(monkeypatch):
    reason = "no such library; pip install it"
    monkeypatch.setattr(ENGINES["mkl"], "why_unavailable", lambda self: reason)
    with pytest.raises(RuntimeError, match=f"device='mkl' cannot be used: {reason}"):
        get_engine("mkl")


def test_missing_mkl_names_the_remedy(tmp_path):
    library, reason = mkl.load_library([])
    assert library is None
    assert re.match("Intel MKL is not installed; .*pip install", reason)
    broken = tmp_path / "libmkl_rt.so"
    broken.write_text("not a library")
    library, reason = mkl.load_library([str(broken)])
    assert library is None
    assert reason.startswith("Intel MKL does not load (")


def test_a_gpu_that_does_not_exist(request):
    open_engine("cuda", request.config)
    with pytest.raises(RuntimeError, match=r"'cuda:99' cannot be used: there (is|are) \d+ GPU"):
        get_engine("cuda:99")


def test_auto_selects_a_gpu_for_large_jobs_only(monkeypatch):
    is_installed = []
    monkeypatch.setattr(ENGINES["cuda"], "is_installed", lambda: is_installed[-1])
    monkeypatch.setattr(ENGINES["cuda"], "why_unavailable", lambda self: None)
    large = ENGINES["cuda"].auto_work
    for has_gpu, work, expected in [
        (True, 0, CPU),
        (True, large - 1, CPU),
        (True, large, "cuda"),
        (False, large, CPU),
    ]:
        is_installed.append(has_gpu)
        assert get_engine("auto", work).name == expected


@pytest.fixture
def plain_engine():
    """An engine of another package: one class, and one call."""

    @register
    class PlainEngine(HostEngine):
        name = "plain"

        def why_unavailable(self):
            return None

        def identity(self):
            return host_identity(self.name, "none")

        def tunables(self, layer):
            return {"M": (1024, 512), "asymmetry": (1, 2)}

        def prepare(self, layer):
            return layer

        def prepared_bytes(self, layer):
            return 0

        def hidden(self, prepared, X, out=None, units=None):
            H = naive.hidden(prepared, X).astype(prepared.hidden_dtype)
            if out is None:
                return H
            units = slice(None) if units is None else units
            out[:, units] = H[:, units]
            return out

    yield PlainEngine
    del ENGINES["plain"]


@pytest.mark.usefixtures("idle_machine")
def test_a_new_engine_is_one_class_and_one_call(plain_engine, capsys):
    contract.check_engine(plain_engine(), [np.uint8])
    for dtype in (np.float32, np.float64):
        contract.check_values(plain_engine(), (67, 131, 9), dtype)
    X, y = load_digits(return_X_y=True)
    X, y = X[:100], y[:100]
    for estimator in (
        RBFClassifier(30, feature_weights=None, kernel="laplacian", random_state=0),
        TanhClassifier(30, feature_weights=None, random_state=0),
    ):
        model = clone(estimator).set_params(device="plain").fit(X, y)
        assert model.device_ == "plain"
        scores = estimator.set_params(device="jit").fit(X, y).decision_function(X)
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-8)
    info()
    assert "  plain   works: plain" in capsys.readouterr().out
    kind = "manhattan laplacian float64"
    tuned = tune("plain", [kind], n_features=2, repeats=1, save=False)
    assert set(tuned[kind].settings) == {"M", "asymmetry"}
    with pytest.raises(ValueError, match=r"choose one of .*'plain'"):
        get_engine("plane")


class Tagged(np.ndarray):
    """An array of another namespace."""


def _tagged(name):
    def function(*args, **kwargs):
        result = getattr(np, name)(*args, **kwargs)
        return result.view(Tagged) if isinstance(result, np.ndarray) else result

    return function


def test_the_array_namespace_is_the_engines_own(plain_engine, rng, monkeypatch):
    """No code assumes that arrays are either NumPy's or CuPy's."""
    monkeypatch.setattr(proxy_networks, "_MAX_SPLITS", 1)
    names = {name: _tagged(name) for name in ("zeros", "ones", "empty", "asarray", "arange")}
    xp = SimpleNamespace(**{**vars(np), **names})

    class Algebra(HostAlgebra):
        pass

    Algebra.xp = plain_engine.xp = xp
    plain_engine.algebra = Algebra()
    X, y = rng.random((60, 4)), np.arange(60) % 3
    given = {"alpha": "loo", "kernel": "laplacian", "radius": 2.0, "feature_weights": None}
    for params in ({"alpha": 0.5}, given):
        clf = RBFClassifier(9, device="plain", random_state=0, **params).fit(X, y)
        expected = clone(clf).set_params(device="jit").fit(X, y).predict(X)
        np.testing.assert_array_equal(clf.predict(X), expected)


def test_a_class_that_is_defined_again_replaces_itself(plain_engine):
    """As by a notebook cell that runs again."""
    again = type("PlainEngine", (plain_engine,), {})
    again.__module__, again.__qualname__ = plain_engine.__module__, plain_engine.__qualname__
    assert register(again) is again
    assert ENGINES["plain"] is again


class _NotAnEngine:
    name = "no"


def _engine_named(name):
    return type("Named", (BlasEngine,), {"name": name})


@pytest.mark.parametrize(
    ("engine", "error", "message"),
    [
        (_NotAnEngine, TypeError, "must be a subclass of"),
        ("jit", TypeError, "engine='jit' must be a subclass"),
        (HostEngine, TypeError, "HostEngine does not define .*hidden.*why_unavailable"),
        (_engine_named("auto"), ValueError, "name='auto' of Named cannot be the name of a device"),
        (_engine_named("my:gpu"), ValueError, "name='my:gpu' of Named cannot be the name"),
        (_engine_named(None), ValueError, "name=None of Named cannot be the name"),
        (_engine_named("jit"), ValueError, "device='jit' is JitEngine already; take another"),
    ],
)
def test_invalid_engines_are_not_registered(engine, error, message):
    before = dict(ENGINES)
    with pytest.raises(error, match=message):
        register(engine)
    assert before == ENGINES


def test_entry_points(monkeypatch):
    """Of two engines of other packages, one is broken: that is a warning, not an error."""

    def entry_points(group):
        assert group == "sklearn_fsvc.engines"
        return [EntryPoint("a", "no_such_package:Engine", group), good]

    good = SimpleNamespace(value="good:Good", load=lambda: _engine_named("good"))
    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._load_entry_points.cache_clear()
    assert get_engine("jit").name == "jit"  # without loading other packages, which would warn
    assert get_engine("cpu").name == CPU
    with pytest.warns(RuntimeWarning, match="no_such_package:Engine is ignored .ModuleNotFound"):
        assert get_engine("good").name == "good"
    del ENGINES["good"]
