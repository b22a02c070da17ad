"""Measure 8- and 15-bit activations: products against OpenBLAS, fits against floats.

python benchmarks/integers.py [--device cuda] [--units N ...] [--rows N] [--data DIR] [--repeats 5]
    [--tables DIR] [--limit 4000] [--json FILE]

Products: H'H in float32 (ssyrk of SciPy or CuPy, on its default threads) against H'H of quantised
activations, including quantisation and conversion to float64; alternately, medians. Also the number
of activations that two engines round differently, for 784 random features. With `--data`, the
folder of MNIST: times and accuracy of fits at each precision. With `--tables`, the folder of
`tabular.py`: scores of RBFClassifier and RBFRegressor at each precision on all datasets, with a
limited number of training samples and three splits; without the rest unless `--units` is given.

To emulate a processor without VNNI set NUMBA_CPU_NAME=haswell, OPENBLAS_CORETYPE=Haswell
and NUMBA_CPU_FEATURES=+sse4.2,+avx,+avx2,+fma.
"""

import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg.blas import ssyrk
from sklearn.base import clone

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, make_tabular_pipeline
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines.registry import get_engine, known_engines
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer, quantize_layer
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.tuning import medians

PRECISIONS = "float", 8, 15, "auto"
UNITS = 2048, 4096, 8192


def product(args, engine, n_units):
    """Time each method for H'H, and its rate relative to that of the library."""
    H = np.random.default_rng(0).random((args.rows, n_units), np.float32)
    quantizers = {bits: Quantizer(bits, is_signed=False) for bits in (8, 15)}
    rounded = {
        bits: (quantizer.apply(H.copy(), np), quantizer) for bits, quantizer in quantizers.items()
    }
    H, gram = engine.to_device(H), PackedSymmetric(n_units, engine.algebra)
    work = {"ssyrk": _peer(engine, H), "ours, float32": partial(gram.add_gram, H)}
    if engine.algebra.round_to_fixed_point(H.copy()) is not None:
        work["floats by bytes"] = partial(_add_rounded, gram, H)
    for bits, (H_rounded, quantizer) in rounded.items():
        work[f"{bits} bits"] = partial(gram.add_gram, engine.to_device(H_rounded), quantizer)
    times = medians(work, args.repeats, 300, engine.stopwatch)
    yield from ((f"{n_units} units, {name}, ms", 1e3 * t) for name, t in times.items())
    for name in ("8 bits", "15 bits"):
        yield f"{n_units} units: ssyrk / {name}", times["ssyrk"] / times[name]


def _add_rounded(gram, H):
    """Add H'H of floats as a fit on a GPU does; H is rounded already after the first call."""
    gram.add_gram(H, gram.algebra.round_to_fixed_point(H))


def _peer(engine, H):
    if engine.xp is np:
        return partial(ssyrk, 1.0, H.T)
    from cupy import cublas

    return partial(cublas.syrk, "T", H)


def differences(n_rows=2000, n_units=500, n_features=784):
    """Count activations, of a million, that differ between the first engine and another."""
    random, layers = np.random.default_rng(0), {}
    for dtype in (np.uint8, np.float32, np.float64):
        X = random.integers(0, 256, (n_rows, n_features)).astype(dtype)
        X = X if dtype == np.uint8 else X / dtype(255)
        radius = float(np.abs(X[0].astype(float) - X[1]).sum())
        for kernel in ("triangular", "laplacian"):
            layers[f"{kernel}, {np.dtype(dtype)}"] = X, RBFLayer(X[:n_units], radius, kernel=kernel)
        if dtype != np.uint8:
            W = random.standard_normal((n_units, n_features)).astype(dtype) / 16
            layers[f"tanh, {np.dtype(dtype)}"] = X, TanhLayer(W, np.zeros(n_units, dtype))
    engines = [make() for make in known_engines().values()]
    engines = [engine.name for engine in engines if engine.why_unavailable() is None]
    for name, (X, layer) in layers.items():
        for bits in (8, 15):
            first, *others = (_hidden(engine, quantize_layer(layer, bits), X) for engine in engines)
            for engine, H in zip(engines[1:], others, strict=True):
                what = f"{name}, {bits} bits, of a million: {engines[0]} and {engine}"
                yield what, 1e6 * float((first != H).mean())


def _hidden(name, layer, X):
    with get_engine(name) as engine:
        return engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X))).copy()


def models(args):
    """Yield (name, model, whether its input is float)."""
    sizes = (4096, 16_384) if args.device == "cuda" else (4096, None)
    for precision in PRECISIONS:
        options = {"precision": precision, "random_state": 0, "device": args.device}
        for n in sizes:
            yield from _models(options, f', precision="{precision}")', n)


def _models(options, end, n):
    if n is None:
        yield f"RBFClassifier({end.removeprefix(', ')}", RBFClassifier(**options), False
        return
    yield f"TanhClassifier({n}{end}", TanhClassifier(n, **options), True
    if options["device"] == "cuda":
        informed = options | {"weights": "class_informed", "image_shape": (28, 28)}
        name = f'TanhClassifier({n}, weights="class_informed", image_shape=(28, 28)'
        yield f"{name}{end}", TanhClassifier(n, **informed), False
        yield f"{name}, alpha=1.0{end}", TanhClassifier(n, alpha=1.0, **informed), False
        yield f"RBFClassifier({n}{end}", RBFClassifier(n, **options), False


def fits(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    floats, floats_test = X / np.float32(255), X_test / np.float32(255)
    for _, model, is_float in models(args):  # compile
        clone(model).set_params(n_hidden=100).fit((floats if is_float else X)[:9000], y[:9000])
    times = {}
    for _ in range(args.repeats):
        for name, model, is_float in models(args):
            start = time.perf_counter()
            model.fit(floats if is_float else X, y)
            times.setdefault(name, []).append(time.perf_counter() - start)
            if len(times[name]) == args.repeats:
                yield f"{name}: fit, s", float(np.median(times[name]))
                score = model.score(floats_test if is_float else X_test, y_test)
                yield f"{name}: accuracy, %", 100 * score


def tables(args):
    """Report mean scores, the largest loss against floats, and the number of 8-bit fits."""
    from _tabular_data import SEEDS

    results, n_bytes = defaultdict(lambda: defaultdict(list)), 0
    for seed in SEEDS:  # first split of all datasets first, so that the run can be stopped early
        for name, model, train, test in _splits(args, seed):
            for precision in PRECISIONS:
                model[-1].set_params(precision=precision, random_state=seed)
                score = 100 * model.fit(*train).score(*test)
                results[precision][name].append(score)
                n_bytes += precision == "auto" and model[-1].precision_ == 8
                print(f"{name}, split {seed}, {precision}: {score:.2f}", flush=True)
    means = {p: {name: np.mean(all_) for name, all_ in of.items()} for p, of in results.items()}
    yield f"fits of {len(results['auto'])} tables that are automatic and take 8 bits", n_bytes
    for precision, of in means.items():
        what = f"precision={precision!r}: "
        yield f"{what}mean score", np.mean(list(of.values()))
        worst = min(of, key=lambda name: of[name] - means["float"][name])
        yield f"{what}least gain over floats, {worst}", of[worst] - means["float"][worst]


def _splits(args, seed):
    """Yield (dataset, pipeline, training and test samples)."""
    from _tabular_data import MAX_TEST, find_tables, read_table, splits, subsample

    for path in find_tables(args.tables):
        table = read_table(path)
        pairs = splits(table, "large")
        train, test = pairs[min(seed, len(pairs) - 1)]
        train = subsample(train, table.strata, args.limit, seed)
        test = subsample(test, table.strata, MAX_TEST, seed)
        cls = RBFClassifier if table.task == "classification" else RBFRegressor
        model = make_tabular_pipeline(cls(device=args.device))
        yield table.name, model, *((table.X.iloc[rows], table.y[rows]) for rows in (train, test))


def large(args):
    """Fit more units than one GPU has memory for in other benchmarks."""
    random = np.random.default_rng(0)
    X = random.integers(0, 256, (200_000, 784), dtype=np.uint8)
    y = random.integers(0, 10, len(X))
    for precision in (8,) if args.large == "8" else ("float", 8):
        options = {"precision": precision, "random_state": 0, "device": args.device}
        model = TanhClassifier(131_072, alpha=1.0, max_memory="125GiB", **options)
        start = time.perf_counter()
        model.fit(X, y)
        yield (
            f"131072 units, 200000 rows, precision={precision!r}: fit, s",
            time.perf_counter() - start,
        )


def main(args):
    if args.tables:
        what = f"Tables with each precision, {args.limit} rows at most, {args.device}"
        report(args, what, list(tables(args)))
        if args.units is None:
            return
    with get_engine("cuda" if args.device == "cuda" else "jit") as engine:
        where = {} if engine.xp is np else {"gpu": engine.identity()["device"]}
        products = [row for n in args.units or UNITS for row in product(args, engine, n)]
        report(args, f"H'H of {args.rows} rows of rounded activations", products, **where)
    report(args, "Activations that engines round to other integers", list(differences()), **where)
    if args.data:
        report(args, "MNIST with each precision", list(fits(args)), **where)
    if args.large:
        report(args, "A large layer with each precision", list(large(args)), **where)


if __name__ == "__main__":
    main(
        arguments(
            units={"type": int, "nargs": "+"}, rows={"type": int, "default": 4096}, data={},
            tables={"type": Path}, limit={"type": int, "default": 4000},
            large={"choices": ["all", "8"], "help": "131,072 units, which want a GPU of 100 GB"},
            device={"choices": ["cpu", "cuda"], "default": "cpu"},
            repeats={"type": int, "default": 5},
        )
    )  # fmt: skip
