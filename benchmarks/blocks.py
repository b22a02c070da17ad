"""Compare the register blocks of the jit engine: how far is the default from the best one?

python benchmarks/blocks.py [--threads N] [--json FILE]

For each kind of layer and number of features, 2048 samples x 2048 units.
"""

from functools import partial

import numpy as np

from _report import arguments, report
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.tuning import example, medians

SIZE = 2048
KINDS = (
    "manhattan triangular float32", "manhattan triangular float64", "manhattan triangular uint8",
    "euclidean triangular float32", "euclidean triangular float64", "tanh float32", "tanh float64",
)  # fmt: skip


def times_of(engine, kind, n_features, threads, repeats):
    """Return {block: seconds per operation of the layer}, the default first."""
    engine.tuned = {}
    X, layer = example(kind, SIZE, SIZE, n_features)
    H, functions = np.empty((SIZE, SIZE), layer.hidden_dtype), {}
    for block in engine.tunables(layer)["block"]:
        engine.tuned = {layer.profile_key: {"block": block, "threads": threads}}
        functions[block] = partial(engine.hidden, engine.prepare(layer), X, H)
    return {b: t / (H.size * n_features) for b, t in medians(functions, repeats).items()}


def main(args):
    rows = []
    with get_engine("jit") as engine:
        for kind in KINDS:
            for n in args.features:
                times = times_of(engine, kind, n, args.threads, args.repeats)
                default = next(iter(times))
                for block, time in times.items():
                    name = f"{kind}, {n} features, block {block}"
                    rows.append((name + (" (default)" * (block == default)), 1e12 * time))
                ratio = times[default] / min(times.values())
                rows.append((f"{kind}, {n} features: default / best", ratio))
    report(args, f"blocks: t_syn in ps, {args.threads} threads", rows)


if __name__ == "__main__":
    main(
        arguments(
            threads={"type": int, "default": n_threads()},
            features={"type": int, "nargs": "*", "default": [16, 128, 784]},
            repeats={"type": int, "default": 7},
        )
    )
