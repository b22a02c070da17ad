"""Numbers in the prose of pages are results in benchmarks/results."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
if not RESULTS.is_dir():
    pytest.skip("needs the results of the repository", allow_module_level=True)
GPU, CORES = "h200", "zen4_2cores"


def cells(machine, table, **fields):
    """Return the matching rows of a table of the paper."""
    with open(RESULTS / "paper" / machine / f"{table}.csv") as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def times(machine, table, **fields):
    """Return t_syn in picoseconds of the matching cells."""
    values = [row["t_syn_ps"] for row in cells(machine, table, **fields)]
    return [float(value) for value in values if value]


def time(machine, table, **fields):
    (value,) = times(machine, table, **fields)
    return value


def seconds(machine, **fields):
    (row,) = cells(machine, "figure4", **fields)
    return float(row["seconds"])


def format_excess(value, best):
    """Return by how many percent a value exceeds the best one."""
    return f"{100 * (value / best - 1):.0f} %"


def platform_sentences():
    for machine, dtype in ((CORES, "float32"), (CORES, "uint8"), (GPU, "float32"), (GPU, "uint8")):
        is_gpu = machine == GPU
        ours = time(machine, "table5", layer="RBF", dtype=dtype,
                    method=f"{'cuda:0' if is_gpu else 'jit'}, {dtype}")  # fmt: skip
        ways = [f"paper kernel, B = {b}" for b in (16, 32)] if is_gpu else ["paper @jit"]
        paper = min(time(machine, "table5", layer="RBF", method=f"{way}, {dtype}") for way in ways)
        digits = "{:.4g} {:.3g} {:.0f}" if is_gpu else "{:.0f} {:.3g} {:.0f}"
        yield digits.format(paper, ours, paper / ours)
    bytes_ = time(GPU, "table5", method="cuda:0, uint8")
    kernel = time(GPU, "table5", layer="RBF", method="paper kernel, B = 32, float32")
    yield f"and {kernel / bytes_:.0f} times as fast as the kernel on float32"


def size_sentences():
    paper = {M: time(GPU, "table1", method="paper kernel, B = 16", M=M) for M in ("1024", "8192")}
    yield f"{format_excess(paper['1024'], paper['8192'])} better at M = 8192 than at M = 1024"
    way = "cuda:0, B = 128 x 128, 8 x 8 a thread, step 8"
    small, large = (time(GPU, "table1", method=way, M=M) for M in ("256", "4096"))
    yield f"({large:.3f} ps against {small:.1f} ps at M = 256)"
    tiles = [
        float(row["t_syn_ps"]) for row in cells(GPU, "table1", M="8192") if "cuda" in row["method"]
    ]
    yield f"our tiles differ by {format_excess(max(tiles), min(tiles))} there"
    slow = time(GPU, "threads", layer="RBF", threads="16")
    fast = time(GPU, "table5", layer="RBF", method="jit, float32")
    yield f"{slow:.1f} ps at M = 2048 and {fast:.1f} ps at M = 8192"


def feature_sentences():
    def of(machine, figure, dtype, layer="RBF"):
        way = "cuda:0" if machine == GPU else "jit"
        rows = cells(machine, figure, layer=layer, method=f"{way}, {dtype}")
        return {int(row["n"]): float(row["t_syn_ps"]) for row in rows}

    places = ((GPU, "figure5"), (CORES, "figure6"))
    gpu, cores = (of(*place, "float32") for place in places)
    yield f"{gpu[16]:.3f} ps against {min(gpu.values()):.4f} ps"
    yield f"{cores[16]:.1f} ps against {min(cores.values()):.1f} ps"
    single, double = ([of(*place, dtype) for place in places] for dtype in ("float32", "float64"))
    for (one, other), where in zip(zip(single, double, strict=True),
                                   ("on the H200", "on two cores"), strict=True):  # fmt: skip
        rise = [format_excess(each[128], min(each.values())) for each in (one, other)]
        yield f"{rise[0]} and {rise[1]} {where}"
    on_gpu, on_cores = (of(*place, "uint8") for place in places)
    rise = [format_excess(each[128], min(each.values())) for each in (on_gpu, on_cores)]
    yield f"{rise[0]} (H200) and {rise[1]} (two cores) off their best"
    products = [of(*place, "float32", "MUL") for place in places]
    rise = [format_excess(each[128], min(each.values())) for each in products]
    yield f"({rise[0]} at n = 128)"
    yield f"on two cores ({rise[1]})"
    wide, best = (
        [pick(times(m, "table3", layer="RBF", method=way)) for m, way in
         ((GPU, "cuda:0"), (CORES, "jit"))]
        for pick in (lambda t: t[-1], min)
    )  # fmt: skip
    rise = [format_excess(w, b) for w, b in zip(wide, best, strict=True)]
    yield f"{wide[0]:.3f} ps and {wide[1]:.1f} ps, {rise[0]} and {rise[1]} above the best"


def product_and_dtype_sentences():
    gpu = time(GPU, "table5", layer="MUL", method="cuda:0, float32")
    loops, blas = (
        time(GPU, "table5", layer="MUL", method=f"{e}, float32") for e in ("jit", "blas")
    )
    yield f"takes {gpu:.3f} ps on the GPU, {loops:.1f} ps by our loops and {blas:.1f} ps by NumPy's"
    few = [
        time(CORES, "table5", layer="MUL", method=f"{e}, float32") for e in ("jit", "blas", "mkl")
    ]
    yield "{:.1f}, {:.1f} and {:.1f} ps by our loops, BLAS and MKL".format(*few)
    kernel = times(GPU, "table4", method="paper kernel, B = 16")
    yield f"takes {min(kernel):.1f} to {max(kernel):.1f} ps for every dtype"
    rates = []
    for machine, way in ((GPU, "cuda:0"), (CORES, "jit")):
        single, double, byte = (
            time(machine, "table4", layer="RBF", method=way, dtype=d)
            for d in ("float32", "float64", "uint8")
        )
        rates += [single / byte, double / single]
    yield "bytes are {:.1f} times as fast as float32 and float64 {:.1f} times as".format(*rates[:2])
    yield "on two cores {:.1f} times and {:.1f} times".format(*rates[2:])


def run_sentences():
    into, layer, out = (
        seconds(GPU, method="cuda:0", stage=stage)
        for stage in ("transfer in", "layer", "transfer out")
    )
    yield f"{1e3 * into:.1f} ms for the input, {1e3 * layer:.1f} ms for the layer"
    yield f"{1e3 * out:.0f} ms for the result"
    many, two = (seconds(m, method="jit", stage="layer") for m in (GPU, CORES))
    loops = [seconds(m, method="paper @jit, from some rows") for m in (CORES, GPU)]
    yield f"{many:.2f} s on the 16 cores, {two:.2f} s on two, "
    yield "and {:.0f} to {:.0f} s by the paper's loop".format(*loops)
    ahead = [
        float(row["seconds"])
        for method in ("prefetch", "no prefetch")
        for row in cells(GPU, "prefetch", method=method, stage="all")
    ]
    yield "take {:.0f} ms with prefetching and {:.0f} ms without".format(*(1e3 * s for s in ahead))
    gains = [
        time(m, "threads", layer=kind, threads="1") / time(m, "threads", layer=kind, threads=n)
        for m, n in ((CORES, "2"), (GPU, "16"))
        for kind in ("RBF", "MUL")
    ]
    yield "{:.2f} times as fast as one thread (RBF), {:.1f} times (MUL)".format(*gains[:2])
    yield "16 cores: {:.1f} times (RBF), {:.1f} times (MUL)".format(*gains[2:])


def results_of(title, file=CORES):
    return json.loads((RESULTS / f"{file}.json").read_text())[title]


def multi_gpu_sentences():
    of = results_of("device groups", "h200_x2")
    given = {"tanh": "tanh, scale and alpha", "RBF": "RBF, random centres, all given"}
    fits = {
        "1,000,000 x 784 bytes, tanh, 8192 units": "tanh, as made, 8192 units, 1000000 rows",
        "1,000,000 x 784 bytes, RBF, 8192 units": "RBF, as made, 8192 units, 1000000 rows",
        "the same, tanh, given": f"{given['tanh']}, 8192 units, 1000000 rows",
        "the same, RBF, given": f"{given['RBF']}, 8192 units, 1000000 rows",
        "MNIST, tanh, 32,768 units": "MNIST, tanh, as made, 32768 units, 60000 rows",
        "MNIST, RBF, 32,768 units": "MNIST, RBF, as made, 32768 units, 60000 rows",
        "MNIST, tanh, 4096 units": "MNIST, tanh, as made, 4096 units, 60000 rows",
        "MNIST, RBF, 4096 units": "MNIST, RBF, as made, 4096 units, 60000 rows",
    }
    for name, key in fits.items():
        one, two = (of[f"{key}, cuda:{which}: fit, s"] for which in ("0", "all"))
        yield f"{name} {one:.3f} s {two:.3f} s {one / two:.2f}"
    one, two = (of[f"factor of order 65536, cuda:{which}: TFLOP/s"] for which in ("0", "all"))
    yield f"factor of order 65,536, TFLOP/s {one:.1f} {two:.1f} {two / one:.2f}"
    parts = []
    for fit in ("tanh, as made", "RBF, as made", *given.values()):
        half, whole = (
            of[f"{fit}, 8192 units, {n} rows, cuda:{which}: fit, s"]
            for n, which in ((500_000, "0"), (1_000_000, "all"))
        )
        parts.append(100 * half / whole)
    yield "is {:.0f} % with tanh and {:.0f} % with RBF units, and {:.0f} and {:.0f} %".format(
        *parts
    )
    peaks = [of[f"150000 units, GPU {n}: peak memory, GB"] for n in (0, 1)]
    fit = of["150000 units, 20000 rows, cuda:0,1: fit, s"]
    yield "in {:.0f} s, with {:.0f} and {:.0f} GB of memory".format(fit, *peaks)


def torch_sentences():
    of = results_of("PyTorch beside CUDA, 8192 x 8192 x 784", "h100")
    layers = [
        f"{name}, torch:cuda / cuda"
        for name in (
            "tanh, float32",
            "Euclidean, float32",
            "Manhattan, float32",
            "Manhattan, bytes",
        )
    ]
    tanh, euclidean, manhattan, of_bytes = (f"{of[name]:.1f} times" for name in layers)
    assert tanh == euclidean
    yield f"layers take {tanh} as long as with ``cuda`` (tanh units and Euclidean distances)"
    yield f"{manhattan} as long (Manhattan distances of float32) and {of_bytes} as long (of bytes)"
    yield f"takes {of['Manhattan, float32, torch.cdist / cuda']:.0f} times as long"
    of = results_of("PyTorch beside CUDA, MNIST, 4096 units", "h100")
    tanh, rbf = (
        of[f"{name}, as made: fit, torch / cuda"] for name in ("TanhClassifier", "RBFClassifier")
    )
    yield f"take {tanh:.1f} times (``TanhClassifier``) and {rbf:.1f} times as long"


def layer_choice_sentences():
    of = results_of("layer_choice: 5000 samples, 300 units")
    rows = {
        "``fit``": "fit", "``partial_fit``, 1 sample per call": "batches of 1",
        "``partial_fit``, 10 samples per call": "batches of 10",
        "``partial_fit``, 50 samples per call": "batches of 50",
        "``partial_fit``, 300 samples per call": "batches of 300",
        "first 300 samples of one class": "first batch of one class",
    }  # fmt: skip
    models = ("RBFClassifier", "TanhClassifier", "RBFRegressor", "TanhRegressor")
    for name, key in rows.items():
        yield " ".join([name, *(f"{of[f'{model}: {key}']:.1f}" for model in models)])
    rbf, tanh = (of[f"{model}: sorted by class"] for model in models[:2])
    yield rf"sorted by class {rbf:.1f} {tanh:.1f} \- \-"
    tanh, rbf = (of[f"{model}: one at a time, accuracy before added"] for model in models[1::-1])
    yield f"is {tanh:.1f} % for ``TanhClassifier`` and {rbf:.1f} % for ``RBFClassifier``"
    tanh, rbf = (of[f"{model}: one at a time, CPU microseconds"] / 1000 for model in models[1::-1])
    yield f"takes {tanh:.0f} and {rbf:.0f} ms of CPU time"
    of = results_of("layer_choice: partial_fit - fit, 12000 samples, 300 units")
    means = [value for name, value in of.items() if name.endswith(", mean")]
    least, most = -min(means), max(means)
    yield f"is between {least:.1f} points below and {most:.1f} points above that of ``fit``"
    least = min(value for name, value in of.items() if name.endswith(", lowest"))
    yield f"the largest loss of a single run is {-least:.1f} points"


def left_out_sentences():
    of = results_of("Leave-one-out errors, letter")
    test, without, kept = (
        of[f"alpha 0.001, {kind}"]
        for kind in ("test error", "left out without its unit", "left out with its unit")
    )
    yield f"estimated as {without:.2f} without and {kept:.2f} with the unit, and is {test:.2f} on"


def stream_penalty_sentences():
    of = results_of("Leave-one-out errors, letter")
    scores = (
        100 * of[f"1000 units, {kind}: test score"]
        for kind in ("partial_fit", "partial_fit, given layer", "fit")
    )
    yield "is {:.1f} % without them and {:.1f} % with them, and that of ``fit`` is {:.1f} %".format(
        *scores
    )


def heavy_tail_sentences():
    both = [results_of(f"heavy tails, {kind}: 2000 samples") for kind in ("RBF", "tanh")]
    untouched = ("overdispersed counts", "additive Student noise", "outliers")
    gains = [
        value for of in both for name, value in of.items()
        if name.endswith("gain, median") and not name.startswith(untouched)
    ]  # fmt: skip
    yield f"rises by {min(gains):.2f} to {max(gains):.2f} (medians)"
    assert all(of[f"{name}: gain, median"] == 0 for of in both for name in untouched)
    least = min(v for of in both for name, v in of.items() if name.endswith("gain, least"))
    yield f"fell by {-least:.2f}"


def shapley_sentences():
    found = results_of("Shapley values, 100 background samples")
    of = {key.partition(": ")[2]: v for key, v in found.items() if key.startswith("laplacian")}
    explainers = ("shap, PermutationExplainer", "shap, KernelExplainer")
    seconds = [of[f"{name}, a sample, ms"] / 1000 for name in explainers]
    errors = [100 * of[f"{name}, relative error"] for name in explainers]
    yield f"with {of['units']:.0f} Laplacian units and 100 background samples, a sample takes " + (
        "{:.0f} ms of CPU time, and {:.1f} to {:.1f} s".format(of["a sample, ms"], *seconds)
    )
    yield "errors are {:.0f} and {:.0f} % of the largest value".format(*errors)


def cluster_sentences():
    of = results_of("clusters: 400000 x 64 float32, 2048 units")
    names = ("no Dask, one thread", "no Dask, two threads", "Dask, one worker", "Dask, two workers")
    keys = ("plain, threads: 1", "plain, threads: 2", "Dask, workers: 1", "Dask, workers: 2")
    for name, key in zip(names, keys, strict=True):
        cpu = of.get(f"{key}: CPU, s") or of[f"{key}: CPU of the workers, s"]
        yield f"{name} {of[f'{key}: fit, s']:.1f} s {cpu:.1f} s"
    gain = of["one worker / two"]
    yield f"speed-up of {gain:.2f} over one"
    terms = results_of("clusters: terms of the model, 2048 units")
    work, merge, solve = (terms[k] for k in ("work, us a row", "merge, s", "solve, s"))
    yield f"*work* is {work:.0f} µs per sample, *merge* {merge:.2f} s within a machine"

    def model(P, steps):
        return 400_000 * work / 1e6 / P + steps * merge + solve

    one, eight, many = model(1, 0), model(8, 3), model(64, 6)
    yield f"{one:.1f} s with one worker, {eight:.1f} s with eight (a speed-up of {one / eight:.1f})"
    yield f"{many:.1f} s with 64 ({one / many:.0f})"
    stream = results_of("clusters: a stream of 100000000 x 64 float32, 256 units")
    yield f"{stream['fit, s']:.0f} s, 730,000 samples per second"
    assert round(stream["rows a second"], -4) == 730_000


def c_header_sentences():
    of = results_of("C headers of 300 units")
    for name, dtype in (("RBF", "uint8"), ("RBF", "float32"), ("Tanh", "float32")):
        key = f"digits, {name}Classifier, {dtype}: "
        n_bytes, accuracy = of[key + "bytes of constants"], of[key + "accuracy, %"]
        yield f"``{name}Classifier``, {dtype} {n_bytes:,.0f} {accuracy:.1f} %"
        assert of[key + "C -Os, other answers"] == of[key + "C -O3, other answers"] == 0


def selection_sentences():
    parts = [
        results_of(f"selection: {data}, among all rows, device jit")["pairs / block by block"]
        for data in ("MNIST, uint8", "letter, float32")
    ]
    few, many = (100 * part for part in parts)
    yield f"{few:.0f} % of the pairs of a blockwise evaluation, and {many:.0f} % for letter"


def interval_sentences():
    for name in ("RBFRegressor", "TanhRegressor"):
        of = results_of(f"uncertainty: {name}")
        held = [v for key, v in of.items() if "coverage" in key and "mean" not in key]
        yield f"{min(held):.1f} to {max(held):.1f} %"


PAGES = {
    "paper.rst": (
        platform_sentences,
        size_sentences,
        feature_sentences,
        product_and_dtype_sentences,
        run_sentences,
    ),
    "beyond.rst": (multi_gpu_sentences, cluster_sentences),
    "microcontrollers.rst": (c_header_sentences,),
    "regression.rst": (interval_sentences, heavy_tail_sentences),
    "streams.rst": (layer_choice_sentences, stream_penalty_sentences),
    "automatic.rst": (left_out_sentences,),
    "explain.rst": (shapley_sentences,),
    "engines.rst": (selection_sentences, torch_sentences),
}


@pytest.mark.parametrize(
    ("page", "sentences"), [(page, function) for page, of in PAGES.items() for function in of]
)
def test_page_contains_the_results(page, sentences):
    text = re.sub(r"\s+", " ", (ROOT / "docs" / page).read_text())
    for sentence in sentences():
        assert sentence in text
