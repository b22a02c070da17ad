"""Compare products of sparse samples with those of the same tile converted to dense.

python benchmarks/sparse_rows.py [--device blas] [--units 1000] [--clock cpu] [--json FILE]

A tile of random samples of 20,000 features, at several densities: time per sample in tanh units.
Then samples of 100,000 features of which 0.1 % are nonzero, as in bag-of-words data: a fit, and a
prediction of one sample. ``--clock cpu`` adds up the time of all threads, which is more reliable on
a busy machine.
"""

import tracemalloc

import numpy as np
from scipy.sparse import csr_array, random

from _report import CLOCKS, arguments, report
from sklearn_fsvc import TanhClassifier
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.layers import TanhLayer
from sklearn_fsvc._src.tuning import medians

FEATURES = 20_000
# Density -> samples of a tile.
TILES = {0.001: 4096, 0.01: 1024, 0.05: 512, 0.1: 256, 0.2: 256, 0.5: 256}
TEXTS, WORDS = 5000, 100_000


def random_samples(n_rows, n_features, density, dtype):
    return csr_array(random(n_rows, n_features, density, dtype=dtype, random_state=0))


def of_tile(engine, layer, density, args):
    """Return the seconds per sample, sparse and dense."""
    X, place = (
        random_samples(TILES[density], FEATURES, density, layer.units.dtype),
        engine.sparse_evaluator(),
    )
    H = engine.xp.empty((X.shape[0], layer.n_units), layer.hidden_dtype)
    as_sparse, as_dense = place.prepare(layer), engine.prepare(layer)
    ways = {
        "sparse": lambda: place.hidden(as_sparse, X, H),
        "dense": lambda: engine.hidden(as_dense, engine.to_device(X.toarray()), H),
    }
    watch = CLOCKS["cpu"] if args.clock == "cpu" else engine.stopwatch
    times = medians(ways, args.repeats, stopwatch=watch)
    return {way: seconds / len(H) for way, seconds in times.items()}


def tiles(args):
    rng = np.random.default_rng(0)
    with get_engine(args.device) as engine:
        for dtype in (np.float32, np.float64):
            W = rng.standard_normal((args.units, FEATURES)).astype(dtype)
            layer = TanhLayer(W, np.zeros(args.units, dtype))
            for density in TILES:
                results, what = (
                    of_tile(engine, layer, density, args),
                    f"{layer.profile_key}, {density:.1%}",
                )
                yield from ((f"{what}, {way}: us", 1e6 * results[way]) for way in results)
                yield f"{what}: sparse / dense", results["sparse"] / results["dense"]


def texts(args):
    """Report times and peak allocations of a fit and a prediction."""
    X, y = random_samples(TEXTS, WORDS, 0.001, np.float64), np.arange(TEXTS) % 3
    for weights in ("gaussian", "class_informed"):
        model = TanhClassifier(500, weights=weights, device=args.device, random_state=0)
        calls = {
            "fit: s": lambda model=model: model.fit(X, y),
            "one row: s": lambda model=model: model.predict(X[:1]),
        }
        times = medians(calls, 3, stopwatch=CLOCKS[args.clock])
        yield from ((f"{weights}, {what}", seconds) for what, seconds in times.items())
        tracemalloc.start()
        model.fit(X, y)
        yield f"{weights}, fit: peak MB", tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    yield "the rows: MB", sum(a.nbytes for a in (X.data, X.indices, X.indptr)) / 1e6
    yield "the rows, dense: MB", X.shape[0] * X.shape[1] * 8 / 1e6


def main(args):
    options = {"clock": args.clock, "device": args.device}
    title = f"sparse rows of {FEATURES} features, {args.units} units, {args.device}"
    report(args, title, list(tiles(args)), **options)
    title = f"sparse rows, {TEXTS} x {WORDS}, 500 units, {args.device}"
    report(args, title, list(texts(args)), **options)


if __name__ == "__main__":
    main(
        arguments(
            device={"default": "blas"},
            units={"type": int, "default": 1000},
            clock={"choices": list(CLOCKS), "default": "wall"},
            repeats={"type": int, "default": 5},
        )
    )
