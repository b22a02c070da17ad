"""Compare several GPUs with one: default fits, with the same and with twice as many samples.

python benchmarks/device_groups.py [--devices cuda:0 cuda:all] [--data DIR] [--units M ...]
    [--rows N] [--row_units M] [--order N ...] [--huge M ...] [--repeats N] [--only NAME ...]
    [--json FILE]

From host memory to the fitted model. "as made" has only a number of units, `device` and
`random_state`; other names contain their parameters. `--order` also factorises matrices of these
orders, and `--huge` fits more units than a single device has memory for. Devices alternate;
medians, and the first calls, which include compilation. `--data` names the folder of MNIST; other
samples are random bytes.
"""

import time

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric

CLASSES = 10


def random_rows(n, n_features):
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    X = rng.integers(0, 128, (n, n_features), np.uint8)
    X[:, :64] += (y[:, None] * 8).astype(np.uint8)
    return X, y


def models(m):
    return {
        "tanh, as made": TanhClassifier(m, random_state=0),
        "RBF, as made": RBFClassifier(m, random_state=0),
        "tanh, scale and alpha": TanhClassifier(m, scale=0.01, alpha=1.0, random_state=0),
        "RBF, random centres, all given": RBFClassifier(
            m, selection="random", kernel="triangular", feature_weights=None, radius=4e4, alpha=1.0,
            random_state=0,
        ),
    }  # fmt: skip


def in_turn(works, repeats):
    """Return {name: (seconds of the first call, median of the others)}, alternating."""
    times = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: (each[0], float(np.median(each[1:]))) for name, each in times.items()}


def compare(args, name, model, X, y):
    """Return rows of the report: first calls and medians of all devices, and speed-ups."""
    works = {
        device: lambda device=device: model.set_params(device=device).fit(X, y)
        for device in args.devices
    }
    results = in_turn(works, args.repeats)
    base = results[args.devices[0]][1]
    for device, (first, median) in results.items():
        what = f"{name}, {model.n_hidden} units, {len(X)} rows, {device}"
        yield f"{what}: first fit, s", first
        yield f"{what}: fit, s", median
        yield f"{what}: times as fast", base / median


def panels_of(engine, order):
    """Return a positive definite matrix, distributed over the device group if there is one."""

    def some(member, number, stop=None):
        own = PackedSymmetric.every_nth(order, member.algebra, number, n)
        own.add_gram(member.xp.asarray(np.random.default_rng(0).normal(size=(64, order))))
        own.add_to_diagonal(float(order))
        return own.blocks

    n = 1 if engine.device_group is None else len(engine.device_group.members)
    if n == 1:
        return PackedSymmetric(order, engine.algebra, some(engine, 0))
    parts = engine.device_group.map(some, list(range(n)))
    blocks = [parts[i % n][i] for i in range(len(parts[0]))]
    return PackedSymmetric(order, engine.algebra, blocks, engine.device_group)


def factorisations(args, order):
    """Return rows of the report: seconds of a factorisation by each device."""
    base = None
    for device in args.devices:
        with get_engine(device) as engine:
            matrix, times = panels_of(engine, order), []
            for _ in range(args.repeats + 1):
                copied = matrix.copy()
                engine.synchronize()
                start = time.perf_counter()
                assert copied.factorise()
                engine.synchronize()
                times.append(time.perf_counter() - start)
                del copied
            del matrix
            engine.xp.get_default_memory_pool().free_all_blocks()
        median = float(np.median(times[1:]))
        base = base or median
        yield f"factor of order {order}, {device}: TFLOP/s", order**3 / 3e12 / median
        yield f"factor of order {order}, {device}: times as fast", base / median


def huge_fit(args, units):
    """Return rows of the report: a fit of more units than one device has memory for."""
    X, y = random_rows(20_000, 784)
    model = TanhClassifier(units, scale=0.01, alpha=1.0, random_state=0, device=args.devices[-1])
    start = time.perf_counter()
    model.fit(X, y)
    yield f"{units} units, 20000 rows, {model.device_}: fit, s", time.perf_counter() - start
    yield f"{units} units: accuracy on 1000 of the rows", model.score(X[:1000], y[:1000])
    with get_engine(args.devices[-1]) as engine:
        for member in [engine] if engine.device_group is None else engine.device_group.members:
            with engine.xp.cuda.Device(member.index):
                peak = engine.xp.get_default_memory_pool().total_bytes()
            yield f"{units} units, GPU {member.index}: peak memory, GB", peak / 1e9


def main(args):
    results = []
    for order in args.order:
        results += factorisations(args, order)
    for units in args.huge:
        results += huge_fit(args, units)
    if args.data:
        X, y = load_images(args.data)[:2]
        for name in args.only:
            for m in args.units:
                results += compare(args, f"MNIST, {name}", models(m)[name], X, y)
    X, y = random_rows(args.rows, 784)
    for name in args.only if args.rows else ():
        for n in (len(X) // 2, len(X)):
            results += compare(args, name, models(args.row_units)[name], X[:n], y[:n])
    report(args, "device groups", results)


if __name__ == "__main__":
    main(
        arguments(
            devices={"nargs": "+", "default": ["cuda:0", "cuda:all"]},
            data={},
            rows={"type": int, "default": 1_000_000},
            units={"type": int, "nargs": "*", "default": [4096, 16_384, 32_768]},
            row_units={"type": int, "default": 8192},
            order={"type": int, "nargs": "*", "default": []},
            huge={"type": int, "nargs": "*", "default": []},
            repeats={"type": int, "default": 7},
            only={"nargs": "*", "default": list(models(1))},
        )
    )
