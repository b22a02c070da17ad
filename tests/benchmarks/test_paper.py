"""The experiments of the paper, on layers that are too small to be timed."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import naive
from benchmark import benchmark
from sklearn_fsvc._src.tuning import example
from sklearn_fsvc.engines import get_engine

paper, methods = map(benchmark, ("_paper_2017", "_paper_methods"))
Refused, ours = methods.Refused, methods.ours
paper_kernel, paper_loop = methods.paper_kernel, methods.paper_loop
results_module, run_module = map(benchmark, ("_paper_results", "_paper_run"))
Results, read_csv = results_module.Results, results_module.read_csv
EXPERIMENTS, Run = run_module.EXPERIMENTS, run_module.Run
measure = benchmark("paper").measure
JitEngine = type(get_engine("jit"))

KINDS = ["manhattan triangular float32", "manhattan triangular uint8", "tanh float64"]
# Reasons of empty cells on a machine without a GPU.
REASONS = {
    "no GPU: --device cuda", "no product", "no distance", "rows are there already",
    "NotImplementedError",  # numba does not support float16 on the CPU
}  # fmt: skip


def call_once(functions, repeats, seconds, stopwatch, calls):
    """Call each function once, and return the same time for all."""
    for function in functions.values():
        function()
    return dict.fromkeys(functions, 2e-6)


class TinyRun(Run):
    M, n = 64, 8
    sizes = (16, 32, 48, 64)
    loop_synapses = 1e4
    timer = staticmethod(call_once)


@pytest.mark.parametrize("kind", KINDS)
def test_loop_of_the_paper(kind):
    X, layer = example(kind, 9, 7, 5)
    by_features = methods._by_features(kind, 9, 7, 5)
    assert by_features[0].shape == (5, 9)
    H = np.full((9, 7), np.nan)
    paper.loop(kind.split()[0], "int" in kind)(by_features[0], by_features[1], H, by_features[2], 8)
    np.testing.assert_allclose(H[:8], naive.hidden(layer, X)[:8], atol=1e-6)
    assert np.isnan(H[8]).all()


@pytest.mark.parametrize(
    "method", [paper_loop(1e4), ours(get_engine("jit")), ours(get_engine("blas"))]
)
def test_t_syn_is_the_time_per_synapse(method):
    calls = []

    def counted(kind, N, m, n):
        function, synapses = method.prepare(kind, N, m, n)
        return lambda: calls.append(function()), synapses

    synapses = method.prepare("tanh float32", 40, 30, 20)[1]
    assert synapses == (30 * 20 * 16 if method.name == "paper @jit" else 40 * 30 * 20)
    counted_method = methods.replace(method, prepare=counted)
    t_syn = counted_method.t_syn("tanh float32", 40, 30, 20, timer=call_once)
    assert t_syn == pytest.approx(2e-6 / synapses)
    assert len(calls) == 1


def test_given_settings_are_used():
    prepared = []

    class RecordingEngine(JitEngine):
        def hidden(self, *args):
            prepared.append(args[0])

    engine = RecordingEngine()
    kind = "manhattan triangular float32"
    ours(engine, tile_rows=32).prepare(kind, 10, 10, 4)[0]()
    ours(engine, threads=8).prepare(kind, 10, 10, 4)[0]()
    assert [layer.tile[0] for layer in prepared] == [
        32,
        engine.settings(example(kind, 1, 1)[1])["tile_rows"],
    ]
    assert prepared[1].threads == 8
    assert not engine.tuned


def test_reasons_of_empty_cells():
    class SmallEngine(JitEngine):
        def memory(self):
            return 1000, 1000

    engine = SmallEngine()
    with pytest.raises(Refused, match="too many threads"):
        paper_kernel(engine, 64).prepare("tanh float32", 10, 10, 4)
    for method in (paper_kernel(engine, 4), ours(engine)):
        with pytest.raises(Refused, match="too little memory"):
            method.prepare("tanh float32", 10, 10, 4)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name == "table4" else [])
        for name in EXPERIMENTS
    ],
)
def test_experiment(tmp_path, capsys, name):
    (results,) = measure([name], "jit", quick=True, output=tmp_path, run_type=TinyRun)
    output = capsys.readouterr().out
    assert results.title in output
    assert results.cells
    for cell in results.cells:
        filled = any(cell.get(value) is not None for value in results.values)
        assert filled or cell["error"] in REASONS, cell
        assert cell["experiment"] == name
        assert results.column in cell
    assert results.command == f"python benchmarks/paper.py {name} --device jit --quick"
    again = read_csv(tmp_path / f"{name}.csv", **EXPERIMENTS[name].options)
    for cell, stored in zip(results.cells, again.cells, strict=True):
        cell = {key: value for key, value in cell.items() if value is not None}
        assert stored.keys() == cell.keys()
        for key, value in cell.items():
            is_number = isinstance(value, float)
            assert stored[key] == (pytest.approx(value, rel=1e-5) if is_number else value)
    assert again.command == results.command
    assert (tmp_path / f"{name}.png").exists() == (name != "figure5")


def test_speed_up_is_relative_to_the_loop_of_the_paper():
    n_synapses = 8 * 4 * 2
    seconds = iter([2.0 * n_synapses, 6.0 * n_synapses])  # of the method, then of the loop

    class TimedRun(Run):
        timer = staticmethod(lambda functions, *args: dict.fromkeys(functions, next(seconds)))

    run, results = TimedRun(get_engine("jit")), Results("x", "X", "M")
    run.measure(results, ours(run.engine), "manhattan triangular uint8", 8, 4, 2, M=8)
    (cell,) = results.cells
    assert cell["speed_up"] == 3
    assert cell["t_syn_ps"] == 2e12
    assert cell["seconds"] == 2 * 8 * 4 * 2


def test_blocks_of_figure_4_are_those_of_the_paper():
    run = TinyRun(get_engine("jit"))
    results = EXPERIMENTS["figure4"](run)
    (cut,) = [c["value"] for c in results.cells if c["method"] == "basic layers of M = 4096"]
    assert cut == "2 x 3 of 4096 x 4096"


def test_unknown_experiment(tmp_path):
    with pytest.raises(ValueError, match="name='table9' is not an experiment; choose from table1"):
        measure(["table9"], output=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_table_and_figure(tmp_path):
    results = Results("x", "A title", "n", ("t_syn_ps",), paper="so it was.", command="python")
    results.add(layer="RBF", method="jit", n=16, t_syn_ps=12.345678)
    results.add(layer="RBF", method="jit", n=128, error="too little memory")
    results.add(layer="RBF", method="cuda:0", n=128, t_syn_ps=0.25)
    lines = results.text().splitlines()
    assert lines[0] == "A title"
    assert lines[2].split() == ["t_syn,", "ps", "n", "=", "16", "128", "in", "2017"]
    assert lines[3].split() == ["RBF", "jit", "12.35", "*", "too", "little", "memory", "46,000"]
    assert lines[4].split() == ["RBF", "cuda:0", "0.25", "130"]
    assert len({len(line) for line in lines[2:5]}) == 1
    assert results.draw(tmp_path / "x.png").stat().st_size > 5000
    assert Results("x", "X", "n").draw(tmp_path / "y.png") is None


@pytest.mark.parametrize("largest", [12.0, 15.0, 90.0, 9000.0])
def test_an_axis_has_several_labelled_ticks(largest):
    """Even if the values are within less than a decade."""
    axes = Figure().subplots()
    axes.set_yscale("log")
    axes.plot([9.0, largest])
    results_module._plain_ticks(axes.yaxis, [9.0, largest])
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.yaxis.get_majorticklocs()) >= 3
