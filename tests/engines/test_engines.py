from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import contract
import naive
from conftest import usable
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc.__main__ import info
from sklearn_fsvc.engines import ALIASES, CPU, ENGINES, get_engine, register, registry
from sklearn_fsvc.engines.algebra import HostAlgebra
from sklearn_fsvc.engines.base import Engine
from sklearn_fsvc.engines.blas import BlasEngine
from sklearn_fsvc.engines.host import HostEngine, host_identity
from sklearn_fsvc.layers import RBFLayer
from sklearn_fsvc.tuning import tune

DTYPES = [np.float32, np.float64, np.uint8]


def evaluate(engine, layer, X):
    return engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", contract.SHAPES)
def test_values(engine, shape, dtype):
    contract.check_values(engine, shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_distance(engine, dtype):
    contract.check_zero_distance(engine, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero(engine, dtype):
    contract.check_far_from_zero(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_independent(engine, dtype):
    contract.check_rows_are_independent(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_the_units(engine, dtype):
    contract.check_parts_of_the_units(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_settings(engine, dtype):
    contract.check_settings(engine, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_input_is_untouched(engine, dtype):
    contract.check_input_is_untouched(engine, dtype)


def test_surface(engine):
    contract.check_surface(engine)


def test_large_uint8_distances_are_exact(engine):
    """255 in each of 65,536 features: more than 16 bits hold, just what float32 holds."""
    X = np.zeros((3, 65_536), np.uint8)
    X[1] = 255
    X[2, :7] = 1
    H = evaluate(engine, RBFLayer(X, kernel="distance"), X)
    np.testing.assert_array_equal(H[0], [0, 255 * 65_536, 7])


def test_overflowing_sums_are_not_nan(engine):
    """sum x overflows to infinity although the distances do not."""
    big = np.float32(3e37)
    X = np.full((2, 20), big, np.float32)
    X[1, 0] = 0
    H = evaluate(engine, RBFLayer(X, kernel="distance"), X)
    np.testing.assert_allclose(H, [[0, big], [big, 0]], rtol=1e-6)


def test_many_threads_give_the_same(engine, monkeypatch):
    from sklearn_fsvc.engines import blas, jit

    X = np.random.default_rng(0).random((3000, 40), np.float32)
    layer = RBFLayer(X[:700], 3.0)
    results = []
    for n in (1, 5):
        monkeypatch.setattr(jit, "allowed_threads", lambda _, n=n: n)
        monkeypatch.setattr(blas, "n_threads", lambda n=n: n)
        results.append(evaluate(engine, layer, X))
    np.testing.assert_array_equal(*results)


class _Broken(BlasEngine):
    """An engine that is right but for `flaw`."""

    def __init__(self, flaw):
        self.flaw = flaw

    def hidden(self, prepared, X, out=None, units=None):
        given = out is not None
        H = super().hidden(prepared, X, out, units)
        if self.is_odd:
            H *= 0.999
        if self.flaw == "last unit":
            H[:, -1] = 0
        if self.flaw == "last row of a tile":
            H[-1] *= 0.999
        if self.flaw == "precision":
            H[:] = H.astype(np.float16)
        if self.flaw == "ignores out" and given:
            out[:] = np.nan
            return out
        if self.flaw == "dtype":
            H = H.astype(np.float32)
        if self.flaw == "depends on the tile":
            H += 1e-3 * len(X)
        if self.flaw == "ignores units" and units is not None:
            super().hidden(prepared, X, H)
        return H

    def settings(self, layer):
        settings = super().settings(layer)
        self.is_odd = self.flaw == "a setting changes H" and settings["asymmetry"] > 1
        return settings

    def prepare(self, layer):
        self.settings(layer)
        return super().prepare(layer)

    def memory(self):
        return (2, 1) if self.flaw == "memory" else super().memory()


FLAWS = [
    "last unit", "last row of a tile", "precision", "ignores out", "dtype",
    "depends on the tile", "memory", "ignores units", "a setting changes H",
]  # fmt: skip


@pytest.mark.parametrize("flaw", FLAWS)
def test_the_contract_finds_a_broken_engine(flaw):
    with pytest.raises(AssertionError):
        contract.check_engine(_Broken(flaw))


def test_the_contract_accepts_a_sound_engine():
    contract.check_engine(_Broken(None))


def test_engines_are_engines():
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


def test_missing_mkl_names_the_remedy(monkeypatch):
    from sklearn_fsvc.engines import mkl

    monkeypatch.setattr(mkl, "_candidates", lambda: [])
    mkl._open.cache_clear()
    assert "pip install" in mkl.why_unavailable()
    mkl._open.cache_clear()


def test_a_gpu_that_is_not_there(request):
    usable("cuda", request.config)
    with pytest.raises(RuntimeError, match=r"'cuda:99' cannot be used: there (is|are) \d+ GPU"):
        get_engine("cuda:99")


def test_auto_takes_a_gpu_for_large_jobs_only(monkeypatch):
    works = []
    monkeypatch.setattr(ENGINES["cuda"], "is_installed", lambda: works[-1])
    monkeypatch.setattr(ENGINES["cuda"], "why_unavailable", lambda self: None)
    large = ENGINES["cuda"].auto_work
    for works_, work, expected in [
        (True, 0, CPU),
        (True, large - 1, CPU),
        (True, large, "cuda"),
        (False, large, CPU),
    ]:
        works.append(works_)
        assert get_engine("auto", work).name == expected


@pytest.mark.parametrize("threshold", [0.9, 1.7])
def test_novelty_is_the_sequential_rule(engine, rng, threshold):
    X, start = rng.random((300, 3)), rng.random(300)
    there = engine.to_device(X)
    kept = engine.novel(RBFLayer(there, 0.1), there, engine.to_device(start.copy()), threshold)
    K, activity, expected = naive.hidden(RBFLayer(X, 0.1), X), start, []
    for i in range(300):
        if activity[i] < threshold:
            expected.append(i)
            activity = activity + K[i]
    np.testing.assert_array_equal(kept, expected)
    assert 10 < len(expected) < 290


def test_novelty_may_keep_nothing(engine, rng):
    X = engine.to_device(rng.random((5, 3)))
    kept = engine.novel(RBFLayer(X, 0.1), X, engine.to_device(np.ones(5)), 0.9)
    assert len(kept) == 0


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

        def knobs(self, layer):
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


def test_a_new_engine_is_one_class_and_one_call(plain_engine, capsys):
    contract.check_engine(plain_engine())
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    for estimator in (RBFClassifier(30, random_state=0), TanhClassifier(30, random_state=0)):
        own = clone(estimator).set_params(device="plain").fit(X, y)
        assert own.device_ == "plain"
        scores = estimator.set_params(device="jit").fit(X, y).decision_function(X)
        np.testing.assert_allclose(own.decision_function(X), scores, atol=1e-8)
    info()
    assert "  plain   works: plain" in capsys.readouterr().out
    kind = "manhattan laplacian float64"
    found = tune("plain", [kind], n_features=2, repeats=1)
    assert set(found[kind].settings) == {"M", "asymmetry"}
    with pytest.raises(ValueError, match=r"choose one of .*'plain'"):
        get_engine("plane")


class Tagged(np.ndarray):
    """An array of another namespace."""


def _tagged(name):
    def function(*args, **kwargs):
        result = getattr(np, name)(*args, **kwargs)
        return result.view(Tagged) if isinstance(result, np.ndarray) else result

    return function


def test_the_array_namespace_is_the_engines_own(plain_engine, rng):
    """Nothing asks whether it is NumPy's, else CuPy's."""
    names = {name: _tagged(name) for name in ("zeros", "ones", "empty", "asarray", "arange")}
    xp = SimpleNamespace(**{**vars(np), **names})

    class Algebra(HostAlgebra):
        pass

    Algebra.xp = plain_engine.xp = xp
    plain_engine.algebra = Algebra()
    X, y = rng.random((60, 4)), np.arange(60) % 3
    for alpha in (0.5, "loo"):
        clf = RBFClassifier(9, alpha=alpha, device="plain", random_state=0).fit(X, y)
        expected = clone(clf).set_params(device="jit").fit(X, y).predict(X)
        np.testing.assert_array_equal(clf.predict(X), expected)


class _NoEngine:
    name = "no"


def _engine_named(name):
    return type("Named", (BlasEngine,), {"name": name})


@pytest.mark.parametrize(
    ("engine", "error", "message"),
    [
        (_NoEngine, TypeError, "must be a subclass of"),
        ("jit", TypeError, "engine='jit' must be a subclass"),
        (HostEngine, TypeError, "HostEngine does not define .*hidden.*why_unavailable"),
        (_engine_named("auto"), ValueError, "name='auto' of Named cannot be the name of a device"),
        (_engine_named("my:gpu"), ValueError, "name='my:gpu' of Named cannot be the name"),
        (_engine_named(None), ValueError, "name=None of Named cannot be the name"),
        (_engine_named("jit"), ValueError, "device='jit' is JitEngine already; take another"),
    ],
)
def test_what_cannot_be_registered(engine, error, message):
    before = dict(ENGINES)
    with pytest.raises(error, match=message):
        register(engine)
    assert before == ENGINES


def test_entry_points(monkeypatch):
    """An engine of another package; a broken one is named, and stops nothing."""

    def entry_points(group):
        assert group == "sklearn_fsvc.engines"
        return [EntryPoint("a", "no_such_package:Engine", group), own]

    own = SimpleNamespace(value="own:Own", load=lambda: _engine_named("own"))
    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._load_entry_points.cache_clear()
    with pytest.warns(RuntimeWarning, match="no_such_package:Engine is ignored .ModuleNotFound"):
        assert get_engine("own").name == "own"
    del ENGINES["own"]
