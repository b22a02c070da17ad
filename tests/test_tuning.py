import re
import sys

import numpy as np
import pytest

import contract
import naive
from sklearn_fsvc._src import tuning
from sklearn_fsvc._src.engines import profiles
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.tuning import KINDS, ROUNDED, example
from sklearn_fsvc._src.utils.availability import install
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.tuning import tune

KIND = "manhattan triangular float32"
TWO = [KIND, "tanh float32"]
N_FEATURES = 3

pytestmark = pytest.mark.usefixtures("few_cores")


def layer_of(kind):
    return example(kind, 1, 1)[1]


def tunables(kind=KIND):
    return get_engine("jit").tunables(layer_of(kind))


def defaults(kind=KIND):
    return {name: values[0] for name, values in tunables(kind).items()}


def saved():
    return profiles.read(get_engine("jit").identity())


def settings_of(kind):
    """What an engine uses once it is entered."""
    with get_engine("jit") as engine:
        return engine.settings(layer_of(kind))


@pytest.fixture
def fake(monkeypatch):
    """fake(cost): an output takes cost(settings), and nothing is measured.

    What comes back fills with the (settings, X.shape, H.shape) that were to be measured.
    """

    def install(cost):
        seen = []

        def rounds(functions, repeats, **options):
            times = {}
            for name, function in functions.items():
                if not isinstance(function.args[0], dict):  # the update of statistics
                    dtype = str(function.func.__self__.dtype)
                    times[name] = [cost({"statistics": dtype})] * repeats
                    continue
                settings, X, H = function.args
                seen.append((settings, X.shape, H.shape))
                times[name] = [cost(settings) * H.size] * repeats
            return times

        monkeypatch.setattr(JitEngine, "prepare", lambda self, layer: self.settings(layer))
        monkeypatch.setattr(tuning, "rounds", rounds)
        return seen

    return install


def quick(**choice):
    """A cost that a choice halves."""
    [(name, value)] = choice.items()
    return lambda settings: 0.5 if settings.get(name) == value else 1


def tune_kind(kind=KIND, **options):
    return tune("jit", [kind], n_features=N_FEATURES, repeats=1, **options)[kind]


@pytest.mark.parametrize(("device", "kinds"), [("jit", TWO), ("blas", ["tanh float64"])])
def test_a_choice_for_every_knob_is_found_and_kept(device, kinds):
    found = tune(device, kinds, n_features=N_FEATURES, repeats=1)
    assert list(found) == kinds
    with get_engine(device) as engine:
        assert profiles.read(engine.identity()) == {k: found[k].settings for k in kinds}
        for kind in kinds:
            choices = engine.tunables(layer_of(kind))
            assert list(found[kind].settings) == list(choices)
            assert all(found[kind].settings[name] in choices[name] for name in choices)
            assert engine.settings(layer_of(kind)) == found[kind].settings
            assert min(found[kind].default, found[kind].best) > 0


def test_what_was_found_is_used(fake):
    fake(quick(M=1024))
    tune_kind()
    assert settings_of(KIND) == {**defaults(), "M": 1024}
    assert settings_of("tanh float32") == defaults("tanh float32")


def test_rounded_outputs_have_settings_of_their_own_or_those_of_floats(fake):
    fake(quick(M=1024))
    tune_kind()
    assert settings_of(f"{KIND} 8 bits") == {**defaults(), "M": 1024}
    fake(quick(M=4096))
    tune_kind(f"{KIND} 8 bits")
    assert settings_of(f"{KIND} 8 bits") == {**defaults(), "M": 4096}
    assert settings_of(f"{KIND} 15 bits") == settings_of(KIND) == {**defaults(), "M": 1024}


def test_what_wins_now_and_then_is_not_kept():
    """On a busy machine the median may say that it is faster."""
    holder = [1.0] * 9
    assert tuning._wins([0.9] * 9, holder, 0.97)
    assert not tuning._wins([0.5] * 5 + [1.1] * 4, holder, 0.97)
    assert tuning._wins([0.5] * 8 + [1.1], holder, 0.97)
    assert not tuning._wins([0.98] * 9, holder, 0.97)
    # What slows down both is no difference.
    assert tuning._wins([0.9, 9.0, 0.9], [1.0, 10.0, 1.0], 0.97)


def test_without_save_nothing_is_written(fake):
    fake(quick(M=1024))
    assert tune_kind(save=False).settings["M"] == 1024
    assert not profiles.folder().exists()


@pytest.mark.parametrize("name", ["M", "asymmetry", "block", "tile_rows", "tile_units", "step"])
def test_the_fastest_value_is_found(fake, name):
    for value in tunables()[name][1:]:
        fake(quick(**{name: value}))
        found = tune_kind(save=False)
        assert found.settings == {**defaults(), name: value}
        assert found.default == pytest.approx(2 * found.best)


def test_the_threads_that_are_fastest_are_found(fake, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.engines.jit.thread_choices", lambda: (4, 1, 2, 8))
    fake(quick(threads=8))
    assert tune_kind(save=False).settings == {**defaults(), "threads": 8}


def test_a_knob_is_measured_with_those_found_before(fake):
    last = tunables()["block"][-1]
    seen = fake(lambda s: 1 - 0.2 * (s["M"] == 4096) * (1 + (s["block"] == last)))
    assert tune_kind(save=False).settings == {**defaults(), "M": 4096, "block": last}
    assert {s["M"] for s, *_ in seen if s["block"] != defaults()["block"]} == {4096}


@pytest.mark.parametrize(("cost", "value"), [(0.99, 2048), (0.95, 1024)])
def test_a_small_gain_is_noise(fake, cost, value):
    fake(lambda settings: cost if settings["M"] == 1024 else 1)
    assert tune_kind(save=False).settings["M"] == value


def test_winners_that_lose_together_are_not_kept(fake):
    measured = []

    def slower_at_the_end(settings):
        measured.append(settings["M"])
        cost = 1.1 if len(measured) > n_before else 0.5
        return cost if settings["M"] == 1024 else 1

    n_before = sum(map(len, tunables().values()))
    fake(slower_at_the_end)
    found = tune_kind(save=False)
    assert found.settings == defaults()
    assert found.best == found.default


def test_a_time_is_that_of_a_synapse(fake):
    """A larger basic layer that takes as much longer as it is larger is no slower."""
    fake(lambda settings: 6e-9)
    found = tune_kind(save=False)
    assert found.settings == defaults()
    assert found.default == found.best == pytest.approx(6e-9 / N_FEATURES)


def test_a_basic_layer_is_measured(fake):
    """N = M As rows meet m = M / As units."""
    seen = fake(lambda settings: 1)
    tune_kind(save=False)
    for settings, rows, outputs in seen:
        n_rows = settings["M"] * settings["asymmetry"]
        assert rows == (n_rows, N_FEATURES)
        assert outputs == (n_rows, settings["M"] // settings["asymmetry"])
    assert {(8192, 512), (4096, 1024), (1024, 1024), (4096, 4096)} <= {H for *_, H in seen}


@pytest.fixture
def with_statistics(monkeypatch):
    """An engine with few tunables, one of them the precision of statistics."""
    few = {"M": (256,), "asymmetry": (1,), "statistics": ("float64", "float32")}
    real = JitEngine.tunables

    def tunables(self, layer):
        return {name: values[:1] for name, values in real(self, layer).items()} | few

    monkeypatch.setattr(JitEngine, "tunables", tunables)


@pytest.mark.parametrize(("cost", "best"), [(0.6, "float64"), (0.4, "float32")])
def test_statistics_of_fewer_digits_must_halve_the_time(with_statistics, fake, cost, best):
    fake(lambda settings: cost if settings == {"statistics": "float32"} else 1)
    assert tune_kind(save=False).settings["statistics"] == best


def test_statistics_are_measured(with_statistics):
    assert tune_kind().settings["statistics"] in ("float64", "float32")


def test_a_profile_is_no_start(fake):
    """What is not faster than the defaults now goes back to them."""
    fake(quick(M=1024))
    tune_kind()
    fake(lambda settings: 1)
    assert tune_kind().settings == defaults()
    assert saved() == {KIND: defaults()}


def test_other_kinds_stay(fake):
    fake(lambda settings: 1)
    tune_kind("tanh float64")
    tune_kind(KIND)
    assert set(saved()) == {"tanh float64", KIND}


def broken(*args, **options):
    raise MemoryError("broken")


def test_a_failure_leaves_the_profile(fake, monkeypatch):
    fake(quick(M=1024))
    tune("jit", TWO, n_features=N_FEATURES)
    before = profiles.path_of(get_engine("jit").identity()).read_bytes()
    monkeypatch.setattr(tuning, "rounds", broken)
    with pytest.raises(MemoryError, match="broken"):
        tune_kind()
    assert profiles.path_of(get_engine("jit").identity()).read_bytes() == before


def test_a_failure_leaves_what_was_found_before(fake, monkeypatch):
    def cost(settings):
        return broken() if saved() else 1

    fake(cost)
    with pytest.raises(MemoryError):
        tune("jit", TWO, n_features=N_FEATURES)
    assert saved() == {KIND: defaults()}


def test_a_failure_of_a_first_measurement_is_not_a_profile(monkeypatch):
    monkeypatch.setattr(tuning, "rounds", broken)
    with pytest.raises(MemoryError):
        tune_kind()
    assert saved() == {}


@pytest.mark.filterwarnings("ignore:.* is ignored:RuntimeWarning")
def test_a_corrupt_profile_is_replaced(fake):
    path = profiles.write(get_engine("jit").identity(), {})
    path.write_text("{")
    fake(quick(M=1024))
    tune_kind()
    assert settings_of(KIND)["M"] == 1024


@pytest.mark.parametrize(
    "kind",
    ["manhattan triangular float16", "tanh uint8", "", "tanh", f"{KIND} 7 bits", "tanh 8 bits"],
)
def test_an_unknown_kind_is_named_before_anything_is_measured(monkeypatch, kind):
    monkeypatch.setattr(tuning, "rounds", broken)
    with pytest.raises(ValueError, match=f"kind='{kind}' is not known.*{KIND}"):
        tune("jit", [KIND, kind])
    assert not profiles.folder().exists()


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="device='gpu' is not known"):
        tune("gpu")


def test_a_device_that_does_not_work_says_why(monkeypatch):
    monkeypatch.setattr(JitEngine, "why_unavailable", lambda self: "it is broken")
    with pytest.raises(RuntimeError, match="device='jit' cannot be used: it is broken"):
        tune("jit")


def test_a_profile_that_cannot_be_written_is_known_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(tuning, "rounds", broken)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv(profiles.FOLDER)
    with pytest.raises(RuntimeError, match=re.escape(install("tune"))):
        tune_kind()
    with pytest.raises(MemoryError):
        tune_kind(save=False)


def test_verbose_prints_a_line_for_each_kind(fake, capsys):
    fake(quick(M=1024))
    tune("jit", TWO, n_features=N_FEATURES, verbose=1)
    fake(lambda settings: 1)
    tune("jit", ["tanh float64"], n_features=N_FEATURES, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    for line, kind in zip(lines, [*TWO, "tanh float64"], strict=True):
        assert line.startswith("jit ")
        assert kind in line
    assert lines[0].endswith("2.00 x default  M 1024")
    assert lines[2].endswith("1.00 x default  the defaults")


def test_without_verbose_nothing_is_printed(fake, capsys):
    fake(lambda settings: 1)
    tune_kind()
    assert capsys.readouterr().out == ""


def test_every_kind_of_layer_is_known():
    dtypes = (np.uint8, np.float32, np.float64)
    layers = (layer for dtype in dtypes for _, layer in contract.layers((2, 3, 4), dtype))
    assert sorted(KINDS) == sorted(layer.kind for layer in layers)


@pytest.mark.parametrize("n_features", [30, 784])
@pytest.mark.parametrize("kind", KINDS + ROUNDED)
def test_an_example_is_of_its_kind_and_typical(kind, n_features):
    X, layer = example(kind, 50, 40, n_features)
    assert layer.kind == kind
    assert (layer.steps is None) == (kind in KINDS)
    assert X.shape == (50, n_features)
    assert layer.units.shape == (40, n_features)
    assert X.dtype == layer.units.dtype
    H = naive.hidden(layer, X)
    assert len(np.unique(H)) > 100
    if "triangular" in kind:
        assert 0.1 < (H > 0).mean() < 0.9
    if "tanh" in kind:
        assert (np.abs(H) < 0.99).mean() > 0.5


def test_an_example_depends_on_its_seed_alone():
    (X, layer), (again, same), (other, _) = (example(KIND, 5, 4, 3, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(layer.units, same.units)
    assert not np.array_equal(X, other)
