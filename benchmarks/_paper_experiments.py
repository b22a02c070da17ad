"""The experiments of the paper, and of its survey, on this machine.

Sizes are those of the paper: N samples of n features and m units; M^2 = m N is the size of a layer
and As its asymmetry, N = M As and m = M / As. t_syn is the time per synapse, t / (N m n).
"""

from dataclasses import replace
from functools import partial

import numpy as np

import _paper_2017 as paper
from _paper_methods import (
    Method,
    Refused,
    numpy_product,
    ours,
    paper_kernel,
    paper_loop,
    scipy_cdist,
)
from _paper_run import MUL, RBF, experiment
from sklearn_fsvc._src.data.memory_plan import TileShape, format_bytes, tile_shape_for
from sklearn_fsvc._src.data.rows import take_rows
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.host import processor_name
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.tuning import example

_BLOCKS = (4, 8, 16, 32, 64)
_DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")


def _blocks(run, results, formula):
    kind = f"{formula} float32"
    sizes = run.sizes[1:4] if run.quick else (*run.sizes, 262_144 if run.is_gpu else 65_536)
    tunables = run.engine.tunables(example(kind, 1, 1)[1])
    name = next((k for k in ("tile", "tile_rows") if k in tunables), None)
    methods = [ours(run.engine)]
    if name:
        methods = [
            ours(run.engine, f"{run.engine.name}, {_label(name, value)}", **{name: value})
            for value in sorted(tunables[name])
        ]
    if run.is_gpu:
        methods = [paper_kernel(run.engine, B) for B in _BLOCKS] + methods
    for method in methods:
        for M in sizes:
            run.measure(results, method, kind, M, M, run.n, M=M)


def _label(name, value):
    if name == "tile_rows":
        return f"B = {value} rows"
    return "B = {} x {}, {} x {} a thread, step {}".format(*value)


for _name, _layer, _formula in (("table1", "I: RBF", RBF), ("table2", "II: MUL", MUL)):
    experiment(
        _name, f"Table {_layer} layer, over the block B and the size M", "M",
        f"a GPU under full load is {paper.SPEED_UP} times as fast as its CPU implementation.",
        ("seconds", "t_syn_ps", "speed_up"),
    )(partial(_blocks, formula=_formula))  # fmt: skip


@experiment(
    "asymmetry", "As from 1 to 16: N = M As samples, m = M / As units", "As",
    "As is one of the three things that its optimiser looks for.",
)  # fmt: skip
def asymmetry(run, results):
    for formula in (RBF, MUL):
        for method in run.methods(formula):
            for As in (1, 2, 4, 8, 16):
                N, m = run.M * As, run.M // As
                run.measure(results, method, f"{formula} float32", N, m, run.n, M=run.M, As=As)


def _over_features(run, results, methods, formula, dtypes=("float32",)):
    sizes = (16, 128, 512) if run.quick else (16, 32, 64, 128, 256, 512, 784, 1024, 2048, 4096)
    for dtype in dtypes:
        for method in methods:
            named = replace(method, name=f"{method.name}, {dtype}")
            for n in sizes:
                M = run.M if n <= 1024 else run.M // 2
                run.measure(results, named, f"{formula} {dtype}", M, M, n, M=M)


_NEEDED = "n > 200 is needed to be near the best."


@experiment("figure5", "Figure 5: t_syn against n, on a GPU", "n", _NEEDED)
def figure5(run, results):
    gpu = run if run.is_gpu else replace(run, engine=None)
    for formula in (RBF, MUL):
        _over_features(gpu, results, [_on_gpu(run, ours), _on_gpu(run, paper_kernel, 16)], formula)
    _over_features(gpu, results, [_on_gpu(run, ours)], RBF, ("uint8", "float64"))


def _on_gpu(run, method, *args):
    """Return a method on the GPU of this run, or one whose cells have the reason why not."""

    def refuse(*_):
        raise Refused("no GPU: --device cuda")

    return method(run.engine, *args) if run.is_gpu else Method("GPU", refuse)


@experiment("figure6", "Figure 6: t_syn against n, compiled loops on the CPU", "n", _NEEDED)
def figure6(run, results):
    with get_engine("jit") as engine:
        host = replace(run, engine=engine)
        for formula in (RBF, MUL):
            _over_features(host, results, [ours(engine), paper_loop(run.loop_synapses)], formula)
        _over_features(host, results, [ours(engine)], RBF, ("uint8", "float64"))


@experiment(
    "figure7", "Figure 7: t_syn against n, MUL layer by the BLAS of NumPy and by MKL", "n",
    f"MKL, at {paper.T_SYN['MKL, float32']} ps in float32, is comparable to the GPU.",
)  # fmt: skip
def figure7(run, results):
    with get_engine("jit") as engine:
        host = replace(run, engine=engine)
        methods = [ours(e) for e in host.engines()]
        _over_features(host, results, methods, MUL, ("float32", "float64"))


@experiment(
    "table3", "Table III: n from 16 to 65,536, for decreasing M", "n",
)  # fmt: skip
def table3(run, results):
    room = (2**22 if run.quick else 2**25) * (4 if run.is_gpu else 1)
    for formula in (RBF, MUL):
        for method in run.methods(formula):
            for n in (16, 256, 4096, 65_536) if run.quick else tuple(4**i for i in range(2, 9)):
                M = min(2 * run.M, 2 ** int(np.log2(room / n)))
                run.measure(results, method, f"{formula} float32", M, M, n, M=M)


@experiment(
    "table4", "Table IV: types of data", "dtype", values=("t_syn_ps",),
)  # fmt: skip
def table4(run, results):
    for formula in (RBF, MUL):
        for dtype in _DTYPES:
            methods = [_converting(e, dtype) for e in run.engines()[: 1 if formula == RBF else 3]]
            methods += (
                [paper_kernel(run.engine, 16)] if run.is_gpu else [paper_loop(run.loop_synapses)]
            )
            for method in methods:
                M = run.M // 2
                run.measure(results, method, f"{formula} {dtype}", M, M, run.n, compare=False, M=M)


def _converting(engine, dtype):
    """Return ours as an estimator uses it: other dtypes are converted in each call."""

    def prepare(kind, N, m, n):
        formula = kind.rpartition(" ")[0]
        takes = ("uint8", "float32", "float64") if formula == RBF else ("float32", "float64")
        layer_dtype = dtype if dtype in takes else "float32" if dtype == "uint8" else "float64"
        X, layer = example(f"{formula} {layer_dtype}", N, m, n)
        given, H = engine.to_device(X.astype(dtype)), engine.xp.empty((N, m), layer.hidden_dtype)
        prepared = engine.prepare(layer)

        def function():
            engine.hidden(prepared, take_rows(given, slice(None), X.dtype), H)

        return function, N * m * n

    return replace(ours(engine), prepare=prepare)


@experiment(
    "table5", "Table V: platforms", "layer",
    ", ".join(f"{name} {ps:,} ps" for name, ps in paper.T_SYN.items()) + ".",
)  # fmt: skip
def table5(run, results):
    for formula in (RBF, MUL):
        methods = [paper_loop(run.loop_synapses), scipy_cdist(), numpy_product()]
        if run.is_gpu:
            methods += [paper_kernel(run.engine, B) for B in (16, 32)]
        with get_engine("jit") as jit:
            methods += [
                ours(e) for e in replace(run, engine=jit).engines() if formula == MUL or e is jit
            ]
            methods += [ours(run.engine)] if run.is_gpu else []
            kinds = [f"{formula} float32"] + ([f"{formula} uint8"] if formula == RBF else [])
            for kind in kinds:
                for method in methods:
                    named = replace(method, name=f"{method.name}, {kind.split()[-1]}")
                    run.measure(results, named, kind, run.M, run.M, run.n, M=run.M)


@experiment(
    "figure4", "Figure 4: one run, from host to host", "stage",
    "8000 neurons and 10,000 samples make 2 x 3 basic layers of M = 4096.",
    ("seconds", "speed_up", "value"),
)  # fmt: skip
def figure4(run, results):
    n, N, m = run.n, *((2000, 1600) if run.quick else (10_000, 8000))
    kind = f"{RBF} float32"
    X, layer = example(kind, N, m, n)
    add = partial(results.add, device=run.device, dtype="float32", N=N, m=m, n=n)
    loop = run.base(kind, N, m, n) * N * m * n
    H = {}
    with get_engine("jit") as host:
        for engine in {e.name: e for e in (host, run.engine)}.values():
            H[engine.name], stages = _in_stages(engine, layer, X)
            for stage, duration in stages.items():
                speed_up = loop / duration if stage == "layer" else None
                add(method=engine.name, stage=stage, seconds=duration, speed_up=speed_up)
    add(method="paper @jit, from some rows", stage="layer", seconds=loop, speed_up=1.0)
    for name, basic in (
        ("basic layers of the M measured", tile_shape_for(run.engine, layer)),
        ("basic layers of M = 4096", TileShape.of(4096, 1, m)),
    ):
        across, down = -(-m // basic.units), -(-N // basic.rows)
        add(method=name, stage="all", value=f"{across} x {down} of {basic.units} x {basic.rows}")
    n_bytes = X.nbytes + layer.units.nbytes + H["jit"].nbytes
    add(method="arrays", stage="all", value=format_bytes(n_bytes))
    if not run.is_gpu:
        with get_engine("blas") as blas:
            rows = 200  # differences in NumPy are slow
            H["blas"] = blas.hidden(blas.prepare(layer), X[:rows])
    one, other = (h[: min(map(len, H.values()))] for h in H.values())
    difference = float(np.abs(one - other).max())
    add(method=f"largest difference, {' and '.join(H)}", stage="all", value=difference)


def _in_stages(engine, layer, X):
    """Return H on the host, and the seconds of each stage."""
    prepared = engine.prepare(layer)
    engine.hidden(prepared, engine.to_device(X[:64]))  # compile first
    watch = engine.stopwatch()
    there = engine.to_device(X)
    watch.time_stage("transfer in")
    H = engine.hidden(prepared, there)
    watch.time_stage("layer")
    H = engine.to_host(H)
    watch.time_stage("transfer out")
    return H, watch.totals()


@experiment(
    "threads", "Threads: 1, 2, 4, 8 and the physical cores", "threads",
)  # fmt: skip
def threads(run, results):
    with get_engine("jit") as engine:
        for formula in (RBF, MUL):
            for count in sorted({1, 2, 4, 8, n_threads()}):
                method = ours(engine, f"jit, {processor_name()}", threads=count)
                M = replace(run, engine=engine).M
                run.measure(results, method, f"{formula} float32", M, M, run.n, M=M, threads=count)


@experiment(
    "prefetch", "Copy and compute, with and without prefetch", "stage",
    values=("seconds", "value"),
)  # fmt: skip
def prefetch(run, results):
    engine, n, m = run.engine, 784, 1024
    rows = (20_000 if run.quick else 60_000) * (8 if run.is_gpu else 1)
    X, layer = example("tanh float32", rows, m, n)
    X = X.astype(np.uint8)
    prepared, step = engine.prepare(layer), rows // 8
    H = engine.xp.empty((step, m), np.float32)
    in_turn = partial(map, engine.to_device)
    ways = {"prefetch": engine.iter_uploads, "no prefetch": in_turn}
    if not run.is_gpu:
        results.add(
            device=run.device, method="prefetch", stage="compute", error="rows are there already"
        )
        del ways["prefetch"]
    for name, uploads in ways.items():
        for _ in range(2):  # the first call allocates pinned memory
            watch = engine.stopwatch()
            for block in uploads(X[i : i + step] for i in range(0, rows, step)):
                block = take_rows(block, slice(None), np.float32)
                watch.time_stage("copy and widen")
                engine.hidden(prepared, block, H)
                watch.time_stage("compute")
            stages = watch.totals()
        total = sum(stages.values())
        stages["all"] = total
        for stage, duration in stages.items():
            results.add(
                device=run.device, dtype="uint8", N=rows, m=m, n=n, method=name, stage=stage,
                seconds=duration, value=100 * duration / total,
            )  # fmt: skip
