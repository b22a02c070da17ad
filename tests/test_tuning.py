"""The measurement of settings: what is measured, which values win, and what is saved."""

import re
import subprocess
import sys
from os import cpu_count

import numpy as np
import pytest

import contract
import naive
from sklearn_fsvc._src.engines import profiles
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.tuning import (
    KINDS,
    ROUNDED,
    StatisticsRun,
    example,
    group_kinds,
    is_faster,
    other_load,
    rounds,
    tune_engine,
)
from sklearn_fsvc._src.utils.availability import install_command
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.tuning import tune

KIND = "manhattan triangular float32"
TWO = [KIND, "tanh float32"]
N_FEATURES = 3
REAL_LOAD = other_load  # before `idle_machine` replaces it

pytestmark = pytest.mark.usefixtures("few_cores", "idle_machine")


def layer_of(kind):
    return example(kind, 1, 1)[1]


def tunables(kind=KIND):
    return get_engine("jit").tunables(layer_of(kind))


def defaults(kind=KIND):
    return {name: values[0] for name, values in tunables(kind).items()}


def saved():
    return profiles.read(get_engine("jit").identity())


def settings_of(kind):
    """Return the settings of an engine that is entered."""
    with get_engine("jit") as engine:
        return engine.settings(layer_of(kind))


class FakeMeasurement:
    """Replaces `tuning.rounds`: an activation takes ``cost(settings)`` seconds.

    `runs` are the (settings, X.shape, H.shape) of layers that were to be measured.
    """

    def __init__(self, cost):
        self.cost, self.runs = cost, []

    def __call__(self, functions, repeats, seconds, **options):
        times = {}
        for name, run in functions.items():
            if isinstance(run, StatisticsRun):
                times[name] = [self.cost({"statistics": str(run.statistics.dtype)})] * repeats
                continue
            self.runs.append((run.settings, run.X.shape, run.H.shape))
            times[name] = [self.cost(run.settings) * run.H.size] * repeats
        return times


def half_cost_of(**choice):
    """Return a cost that one value of a setting halves."""
    [(name, value)] = choice.items()
    return lambda settings: 0.5 if settings.get(name) == value else 1


def equal_cost(settings):
    return 1


def tune_kinds(measure, *kinds, engine=None, **options):
    """Tune an engine with a cost or a measurement; return what was found for each kind."""
    if measure is not broken and not isinstance(measure, FakeMeasurement):
        measure = FakeMeasurement(measure)
    with engine or get_engine("jit") as engine:
        return tune_engine(engine, kinds or [KIND], [N_FEATURES], 1, measure=measure, **options)


def tune_kind(measure, kind=KIND, **options):
    return tune_kinds(measure, kind, **options)[kind]


@pytest.mark.exhaustive  # test_cli.py tunes an engine in less time, of one setting
@pytest.mark.parametrize(
    ("device", "kinds"),
    [("jit", TWO), ("blas", ["tanh float64"])],
)
def test_a_value_of_every_setting_is_found_and_saved(device, kinds):
    results = tune(device, kinds, n_features=N_FEATURES, repeats=1)
    assert list(results) == kinds
    with get_engine(device) as engine:
        assert profiles.read(engine.identity()) == {k: results[k].settings for k in kinds}
        for kind in kinds:
            choices = engine.tunables(layer_of(kind))
            assert list(results[kind].settings) == list(choices)
            assert all(results[kind].settings[name] in choices[name] for name in choices)
            assert engine.settings(layer_of(kind)) == results[kind].settings
            assert min(results[kind].default, results[kind].best) > 0


def test_engines_use_the_settings_found():
    tune_kind(half_cost_of(M=1024))
    assert settings_of(KIND) == {**defaults(), "M": 1024}
    assert settings_of("tanh float32") == defaults("tanh float32")


def test_rounded_layers_have_their_own_settings_or_those_of_floats():
    tune_kind(half_cost_of(M=1024))
    assert settings_of(f"{KIND} 8 bits") == {**defaults(), "M": 1024}
    tune_kind(half_cost_of(M=4096), f"{KIND} 8 bits")
    assert settings_of(f"{KIND} 8 bits") == {**defaults(), "M": 4096}
    assert settings_of(f"{KIND} 15 bits") == settings_of(KIND) == {**defaults(), "M": 1024}


def test_a_value_must_be_faster_in_most_rounds():
    """On a busy machine the median alone may be lower by chance."""
    default = [1.0] * 9
    assert is_faster([0.9] * 9, default, 0.97)
    assert not is_faster([0.5] * 5 + [1.1] * 4, default, 0.97)
    assert is_faster([0.5] * 8 + [1.1], default, 0.97)
    assert not is_faster([0.98] * 9, default, 0.97)
    # A gain that is smaller than the spread of the measurements.
    assert not is_faster([0.5, 0.6, 0.9, 0.95] * 2, [1.0] * 8, 0.97)
    assert is_faster([0.5, 0.55, 0.6, 0.65] * 2, [1.0] * 8, 0.97)
    # A slowdown of both is not a difference.
    assert is_faster([0.9, 9.0, 0.9], [1.0, 10.0, 1.0], 0.97)


@pytest.mark.parametrize("loads", [[0.4], [0.0, 0.4]], ids=["before", "after"])
def test_measurements_on_a_busy_machine_are_not_saved(capsys, loads):
    """Under load, few threads seem to be fast. The previous profile is kept."""
    tune_kind(half_cost_of(M=1024))
    before, pending = saved(), [*loads, 0.0, 0.1]
    measure = FakeMeasurement(half_cost_of(M=4096))
    with pytest.warns(RuntimeWarning, match="took up to 40% of the cores: for 1 of 2 kinds"):
        results = tune_kinds(measure, *TWO, load=lambda: pending.pop(0), verbose=1)
    assert results[KIND].settings == defaults()
    assert results[KIND].load == 0.4
    assert results[TWO[1]].load == 0.1
    assert saved() == before | {TWO[1]: {**defaults(TWO[1]), "M": 4096}}
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("not saved: other processes took 40% of the cores")
    assert second.endswith("2.00 x default  M 4096")


def test_the_load_of_other_processes_is_measured():
    """Twice as many threads as cores get half of the time each."""
    compete = (
        "import numpy as np, sys; print(flush=True)\nwhile True: np.sqrt(np.ones(2**18)).sum()"
    )
    command = [sys.executable, "-c", compete]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2 * cpu_count())]
    try:
        for other in others:
            other.stdout.readline()
        assert 0.1 < min(REAL_LOAD() for _ in range(3)) < 1
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_nothing_is_measured_when_the_time_is_over():
    measure = FakeMeasurement(half_cost_of(M=1024))
    results = tune_kinds(measure, *TWO, max_seconds=1e-9)
    assert all(results[kind].settings == defaults(kind) for kind in TWO)
    assert {run[0]["M"] for run in measure.runs} == {2048}  # the comparison at the end


def test_kinds_share_the_time():
    given = []

    def measure(functions, repeats, seconds, **options):
        given.append(seconds)
        return dict.fromkeys(functions, [1.0] * repeats)

    with get_engine("jit") as engine:
        tune_engine(engine, TWO, [N_FEATURES], 1, measure=measure, max_seconds=6000)
    n_settings = sum(len(values) > 1 for values in tunables().values())
    first, second = given[: n_settings + 1], given[n_settings + 1 :]
    # Each setting has a share, and the comparison at the end; unused time is passed on.
    planned = 0.85 * 6000
    assert first[0] == pytest.approx(planned / 2 / (n_settings + 1), rel=0.1)
    assert first[-1] == pytest.approx(planned / 2, rel=0.1)
    assert second[-1] == pytest.approx(planned, rel=0.1)


def test_a_comparison_needs_several_rounds():
    """Unless there was time for all rounds that were requested."""
    measure = FakeMeasurement(half_cost_of(M=1024))

    def in_time(functions, repeats, seconds, **options):
        return {name: times[:2] for name, times in measure(functions, repeats, seconds).items()}

    for repeats, M in ((5, 2048), (2, 1024)):
        with get_engine("jit") as engine:
            results = tune_engine(engine, [KIND], [N_FEATURES], repeats, measure=in_time)
        assert results[KIND].settings["M"] == M


def test_kernels_of_a_metric_are_measured_once():
    measure = FakeMeasurement(half_cost_of(M=1024))
    kinds = [KIND, "manhattan laplacian float32", "manhattan laplacian float64", "tanh float32"]
    results = tune_kinds(measure, *kinds)
    assert list(results) == kinds
    assert results[kinds[0]] is results[kinds[1]]
    assert set(saved()) == set(kinds)
    assert group_kinds([*kinds, f"{KIND} 8 bits"]) == [
        kinds[:2], kinds[2:3], kinds[3:], [f"{KIND} 8 bits"],
    ]  # fmt: skip
    assert len(group_kinds(KINDS)) == 9


def test_rounds_end_in_time_with_one_at_least():
    calls = []
    for seconds, n_rounds in ((0.0, 1), (60, 4)):
        times = rounds({"a": lambda: calls.append(1), "b": int}, 4, seconds)
        assert [len(each) for each in times.values()] == [n_rounds, n_rounds]
    assert len(calls) == 2 + 1 + 4  # including warm-up calls


def test_without_save_nothing_is_written():
    assert tune_kind(half_cost_of(M=1024), save=False).settings["M"] == 1024
    assert not profiles.folder().exists()


@pytest.mark.parametrize("name", ["M", "asymmetry", "block", "tile_rows", "tile_units", "step"])
def test_the_fastest_value_is_found(name):
    for value in tunables()[name][1:]:
        results = tune_kind(half_cost_of(**{name: value}), save=False)
        assert results.settings == {**defaults(), name: value}
        assert results.default == pytest.approx(2 * results.best)


def test_the_fastest_number_of_threads_is_found(monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.engines.jit.thread_choices", lambda: (4, 1, 2, 8))
    assert tune_kind(half_cost_of(threads=8), save=False).settings == {**defaults(), "threads": 8}


def test_a_setting_is_measured_with_those_found_before():
    last = tunables()["block"][-1]
    measure = FakeMeasurement(lambda s: 1 - 0.2 * (s["M"] == 4096) * (1 + (s["block"] == last)))
    assert tune_kind(measure, save=False).settings == {**defaults(), "M": 4096, "block": last}
    assert {s["M"] for s, *_ in measure.runs if s["block"] != defaults()["block"]} == {4096}


@pytest.mark.parametrize(("cost", "value"), [(0.99, 2048), (0.95, 1024)])
def test_a_small_gain_is_noise(cost, value):
    results = tune_kind(lambda settings: cost if settings["M"] == 1024 else 1, save=False)
    assert results.settings["M"] == value


def test_settings_that_are_slower_together_are_not_used():
    measured = []

    def slower_at_the_end(settings):
        measured.append(settings["M"])
        cost = 1.1 if len(measured) > n_before else 0.5
        return cost if settings["M"] == 1024 else 1

    n_before = sum(map(len, tunables().values()))
    results = tune_kind(slower_at_the_end, save=False)
    assert results.settings == defaults()
    assert results.best == results.default


def test_times_are_divided_by_the_number_of_operations():
    """A larger basic layer whose time is proportional to its size is not slower."""
    results = tune_kind(lambda settings: 6e-9, save=False)
    assert results.settings == defaults()
    assert results.default == results.best == pytest.approx(6e-9 / N_FEATURES)


def test_basic_layers_are_measured():
    """N = M As samples and m = M / As units."""
    measure = FakeMeasurement(equal_cost)
    tune_kind(measure, save=False)
    for settings, rows, outputs in measure.runs:
        n_rows = settings["M"] * settings["asymmetry"]
        assert rows == (n_rows, N_FEATURES)
        assert outputs == (n_rows, settings["M"] // settings["asymmetry"])
    assert {(8192, 512), (4096, 1024), (1024, 1024), (4096, 4096)} <= {H for *_, H in measure.runs}


class FewTunables(JitEngine):
    """An engine with few settings, one of them the precision of statistics."""

    def tunables(self, layer):
        values = {name: values[:1] for name, values in super().tunables(layer).items()}
        precisions = "float64", "float32"
        return values | {"M": (256,), "asymmetry": (1,), "statistics": precisions}


@pytest.mark.parametrize(("cost", "best"), [(0.6, "float64"), (0.4, "float32")])
def test_statistics_of_lower_precision_must_halve_the_time(cost, best):
    measure = FakeMeasurement(lambda s: cost if s == {"statistics": "float32"} else 1)
    results = tune_kind(measure, engine=FewTunables(), save=False)
    assert results.settings["statistics"] == best


def test_statistics_are_measured():
    results = tune_kinds(FakeMeasurement(equal_cost), engine=FewTunables())
    assert results[KIND].settings["statistics"] == "float64"
    with FewTunables() as engine:
        results = tune_engine(engine, [KIND], [N_FEATURES], 1)
    assert results[KIND].settings["statistics"] in ("float64", "float32")


def test_a_new_measurement_starts_from_the_defaults():
    tune_kind(half_cost_of(M=1024))
    assert tune_kind(equal_cost).settings == defaults()
    assert saved() == {KIND: defaults()}


def test_other_kinds_stay():
    tune_kind(equal_cost, "tanh float64")
    tune_kind(equal_cost, KIND)
    assert set(saved()) == {"tanh float64", KIND}


def broken(*args, **options):
    raise MemoryError("broken")


def test_a_failure_leaves_the_profile():
    tune_kinds(half_cost_of(M=1024), *TWO)
    before = profiles.path_of(get_engine("jit").identity()).read_bytes()
    with pytest.raises(MemoryError, match="broken"):
        tune_kind(broken)
    assert profiles.path_of(get_engine("jit").identity()).read_bytes() == before


def test_a_failure_leaves_the_settings_of_kinds_before():
    with pytest.raises(MemoryError):
        tune_kinds(lambda settings: broken() if saved() else 1, *TWO)
    assert saved() == {KIND: defaults()}


def test_after_a_failure_of_the_first_measurement_there_is_no_profile():
    with pytest.raises(MemoryError):
        tune_kind(broken)
    assert saved() == {}


def test_a_corrupt_profile_is_replaced(monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.tuning.rounds", FakeMeasurement(equal_cost))
    path = profiles.write(get_engine("jit").identity(), {})
    path.write_text("{")
    assert "tanh float32" in tune("jit", ["tanh float32"], n_features=N_FEATURES, repeats=1)
    assert set(saved()) == {"tanh float32"}


@pytest.mark.parametrize(
    "kind",
    ["manhattan triangular float16", "tanh uint8", "", "tanh", f"{KIND} 7 bits", "tanh 8 bits"],
)
def test_an_unknown_kind_is_named_before_anything_is_measured(kind):
    with pytest.raises(ValueError, match=f"kind='{kind}' is not known.*{KIND}"):
        tune("jit", [KIND, kind])
    assert not profiles.folder().exists()


def test_kinds_may_be_one_string():
    found = tune("jit", KIND, n_features=4, repeats=1, max_seconds=0.1, save=False)
    assert list(found) == [KIND]


@pytest.mark.parametrize("name", ["repeats", "max_seconds", "n_features"])
def test_zero_is_named_before_anything_is_measured(name):
    with pytest.raises(ValueError, match=f"{name}=0"):
        tune("jit", [KIND], **{name: 0})
    assert not profiles.folder().exists()


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="device='gpu' is not known"):
        tune("gpu")


def test_the_error_of_an_unavailable_device_has_the_reason(monkeypatch):
    monkeypatch.setattr(JitEngine, "why_unavailable", lambda self: "it is broken")
    with pytest.raises(RuntimeError, match="device='jit' cannot be used: it is broken"):
        tune("jit")


def test_a_profile_that_cannot_be_written_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv(profiles.FOLDER)
    with pytest.raises(RuntimeError, match=re.escape(install_command("tune"))):
        tune_kind(broken)
    with pytest.raises(MemoryError):
        tune_kind(broken, save=False)


def test_verbose_prints_a_line_for_each_kind(capsys):
    tune_kinds(half_cost_of(M=1024), *TWO, verbose=1)
    tune_kinds(equal_cost, "tanh float64", verbose=1)
    lines = capsys.readouterr().out.splitlines()
    for line, kind in zip(lines, [*TWO, "tanh float64"], strict=True):
        assert line.startswith("jit ")
        assert kind in line
    assert lines[0].endswith("2.00 x default  M 1024")
    assert lines[2].endswith("1.00 x default  the defaults")


def test_without_verbose_nothing_is_printed(capsys):
    tune_kind(equal_cost)
    assert capsys.readouterr().out == ""


def test_every_kind_of_layer_is_known():
    dtypes = (np.uint8, np.float32, np.float64)
    layers = (layer for dtype in dtypes for _, layer in contract.layers((2, 3, 4), dtype))
    assert sorted(KINDS) == sorted(layer.profile_key for layer in layers)


@pytest.mark.parametrize("n_features", [30, 784])
@pytest.mark.parametrize("kind", KINDS + ROUNDED)
def test_an_example_is_of_its_kind_and_typical(kind, n_features):
    X, layer = example(kind, 50, 40, n_features)
    assert layer.profile_key == kind
    assert (layer.quantizer is None) == (kind in KINDS)
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
