"""Measure the scaling of Dask: two workers of one thread, one worker, and plain fits.

python benchmarks/clusters.py [--rows N] [--units M] [--repeats N] [--stream N] [--json FILE]

Fits alternate; times are medians. X is in memory, or in that of the workers, before the clock
starts. Bytes sent are those of the loopback device: samples, layers, statistics, and Dask's own
messages; hence an idle machine with Linux is needed. `--stream` also fits that many samples, which
are generated block by block on two workers and never exist as a whole. `--rows 0` skips the rest.
"""

import pickle
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster, wait
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from _report import arguments, report
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.tuning import medians

CLASSES, FEATURES, WORKERS = 10, 64, 2
STREAM_UNITS = 256
BLOCK, STREAM_BLOCK = 16_384, 131_072


def labels(n, number):
    return np.random.default_rng(number).integers(0, CLASSES, n, np.uint8)


def label_block(block_info=None):
    about = block_info[None]
    return labels(about["chunk-shape"][0], about["chunk-location"][0])


def row_block(block_info=None):
    """Return noise, with the class in one of the features."""
    about = block_info[None]
    number, shape = about["chunk-location"][0], about["chunk-shape"]
    X = np.random.default_rng([number, 1]).random(shape, np.float32)
    y = labels(len(X), number)
    X[np.arange(len(X)), y] += 1
    return X


def lazy_rows(n, block):
    """Return lazy X and y, generated block by block on the workers."""
    lengths = tuple(min(block, n - start) for start in range(0, n, block))
    X = da.map_blocks(row_block, chunks=(lengths, (FEATURES,)), dtype=np.float32)
    return X, da.map_blocks(label_block, chunks=(lengths,), dtype=np.uint8)


def classifier(units):
    given = {"scale": 0.1, "alpha": 1.0, "feature_weights": None}  # a single layer
    return TanhClassifier(units, **given, random_state=0, device="cpu")


@contextmanager
def workers(n):
    """Yield a client of new workers."""
    options = {"n_workers": n, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def cpu_seconds(client):
    return sum(client.run(time.process_time).values())


def tasks_done(client):
    return sum(client.run(lambda dask_worker: dask_worker.state.executed_count).values())


def bytes_sent():
    """Return the bytes of the loopback device, which carries all local messages."""
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


def peak():
    """Return the peak resident bytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def on_cluster(client, model, X, y):
    """Return the measurements of a fit, {name: value}."""
    cpu, tasks, sent = cpu_seconds(client), tasks_done(client), bytes_sent()
    with client.as_current():
        start = time.perf_counter()
        model.fit(X, y)
        wall = time.perf_counter() - start
    return {
        "fit, s": wall,
        "CPU of the workers, s": cpu_seconds(client) - cpu,
        "sent, MB": (bytes_sent() - sent) / 1e6,
        "tasks": tasks_done(client) - tasks,
    }


def plain(model, X, y, n_threads):
    with threadpool_limits(n_threads):
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        return {"fit, s": time.perf_counter() - start, "CPU, s": time.process_time() - cpu}


def persisted(client, arrays):
    with client.as_current():
        arrays = [array.persist() for array in arrays]
        wait(arrays)
    return arrays


def compare(args):
    """Return rows of the report: medians of plain fits on one and two threads, and of workers."""
    model, arrays = classifier(args.units), lazy_rows(args.rows, BLOCK)
    X, y = (array.compute(scheduler="threads") for array in arrays)
    with ExitStack() as stack:
        ways = {
            f"plain, threads: {n}": lambda n=n: plain(model, X, y, n) for n in (1, WORKERS)
        }  # fmt: skip
        for n in (1, WORKERS):
            client = stack.enter_context(workers(n))
            there = persisted(client, arrays)
            ways[f"Dask, workers: {n}"] = lambda client=client, there=there: on_cluster(
                client, model, *there
            )
        for way in ways.values():
            way()  # compiles
        results = {name: [] for name in ways}
        for _ in range(args.repeats):
            for name, way in ways.items():
                results[name].append(way())
    middle = {
        name: {what: float(np.median([one[what] for one in each])) for what in each[0]}
        for name, each in results.items()
    }
    thread, threads, one, two = (each["fit, s"] for each in middle.values())
    return [
        *((f"{name}: {what}", n) for name, each in middle.items() for what, n in each.items()),
        ("one thread / two", thread / threads),
        ("one worker / two", one / two),
        ("two workers / two threads", two / threads),
    ]


def terms(args):
    """Return rows of the report: the terms of the model of `docs/beyond.rst`, on one thread."""
    model, n = classifier(args.units), 4 * args.units
    X, y = (array.compute(scheduler="threads") for array in lazy_rows(2 * n, BLOCK))
    layer = FrozenEstimator(TanhProjector(args.units, scale=0.1, random_state=0).fit(X[:1000]))
    parts = TanhClassifier(layer=layer, alpha=1.0, device="cpu")
    first, other = (
        clone(parts).partial_fit(X[half], y[half], classes=range(CLASSES))
        for half in (slice(n), slice(n, 2 * n))
    )

    def merge():
        first.merge([pickle.loads(pickle.dumps(other))])

    ways = {"few": lambda: model.fit(X[:n], y[:n]), "more": lambda: model.fit(X, y)}
    with threadpool_limits(1):
        durations = medians(ways | {"merge": merge}, args.repeats)
    work = (durations["more"] - durations["few"]) / n
    return [
        ("work, us a row", 1e6 * work),
        ("solve, s", durations["few"] - n * work),
        ("merge, s", durations["merge"]),
        ("merge, MB", len(pickle.dumps(other)) / 1e6),
    ]


def stream(args):
    """Return rows of the report: a fit of data that never exist as a whole."""
    model = classifier(STREAM_UNITS)
    with workers(WORKERS) as client:
        on_cluster(client, model, *lazy_rows(4 * STREAM_BLOCK, STREAM_BLOCK))  # compiles
        results = on_cluster(client, model, *lazy_rows(args.stream, STREAM_BLOCK))
        peaks = client.run(peak).values()
    return [
        *results.items(),
        ("rows a second", args.stream / results["fit, s"]),
        ("all rows would be, MB", args.stream * FEATURES * 4 / 1e6),
        ("peak memory of a worker, MB", max(peaks) / 1e6),
        ("peak memory of the client, MB", peak() / 1e6),
    ]


def main(args):
    if args.rows:
        title = f"clusters: {args.rows} x {FEATURES} float32, {args.units} units"
        report(args, title, compare(args))
        report(args, f"clusters: terms of the model, {args.units} units", terms(args))
    if args.stream:
        title = f"clusters: a stream of {args.stream} x {FEATURES} float32, {STREAM_UNITS} units"
        report(args, title, stream(args))


if __name__ == "__main__":
    main(
        arguments(
            rows={"type": int, "default": 400_000},
            units={"type": int, "default": 2048},
            repeats={"type": int, "default": 5},
            stream={"type": int, "default": 0},
        )
    )
