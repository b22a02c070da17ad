"""
Rows on the workers of a Dask cluster
=====================================

A `TanhClassifier` learns from rows that lie in the memory of other processes: here two workers
on this machine, elsewhere a cluster. A zarr file is written block by block, the workers read
it, and only sums of it come back. Answers are computed where the rows are, too.

What starts processes must be under ``if __name__ == "__main__":``, for each process imports
this file.
"""

import argparse
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import zarr
from distributed import Client, LocalCluster, progress
from matplotlib.colors import ListedColormap

from sklearn_fsvc import TanhClassifier

# Colours that colour-blind readers can tell apart (Okabe and Ito).
COLOURS = ListedColormap(["#0072B2", "#D55E00", "#009E73"])
BLOCK, N_TEST = 20_000, 10_000


def make(n, seed):
    """`n` points on three arms of a spiral, with noise, and the numbers of their arms."""
    rng = np.random.default_rng(seed)
    arm, along = rng.integers(0, 3, n), rng.uniform(0.1, 1, n)
    angle = 2 * np.pi * (arm / 3 + 1.2 * along) + rng.normal(0, 0.45, n)
    X = np.column_stack([along * np.cos(angle), along * np.sin(angle)])
    return X.astype(np.float32), arm.astype(np.uint8)


def write(folder, n_rows):
    """The rows and their classes as two zarr arrays, of which no more than a block is here."""
    X = zarr.create_array(folder / "X.zarr", shape=(n_rows, 2), chunks=(BLOCK, 2), dtype="f4")
    y = zarr.create_array(folder / "y.zarr", shape=(n_rows,), chunks=(BLOCK,), dtype="u1")
    for seed, start in enumerate(range(0, n_rows, BLOCK)):
        stop = min(start + BLOCK, n_rows)
        X[start:stop], y[start:stop] = make(stop - start, seed)


@contextmanager
def timed(times, name):
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start
    print(f"{name}: {times[name]:.2g} s")


def learn(folder, n_rows):
    """A fitted model, its accuracy on the rows of the file, and the seconds of each stage."""
    times = {}
    with timed(times, "write the file"):
        write(folder, n_rows)
    model = TanhClassifier(300, scale=3.0, alpha=1.0, random_state=0)
    X, y = (da.from_zarr(str(folder / name)) for name in ("X.zarr", "y.zarr"))
    with timed(times, "read it into the workers"):
        X = X.persist()
        progress(X, notebook=False)
        print()
    with timed(times, "first fit: compile"):
        model.fit(X[:BLOCK], y[:BLOCK])
    with timed(times, "fit"):
        model.fit(X, y)
    # Nothing is computed until somebody asks; then blocks of answers are, side by side.
    with timed(times, "predict all rows"):
        right = (model.predict(X) == y).persist()
        progress(right, notebook=False)
        print()
        accuracy = float(right.mean().compute())
    return model, accuracy, times


def draw(model, times, n_rows):
    """Where which class is answered, with some points, and how long each stage took."""
    X, y = make(1500, seed=10**6)
    ticks = np.linspace(-1.3, 1.3, 300, dtype=np.float32)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    answers = model.predict(grid).reshape(len(ticks), -1)
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    left.pcolormesh(ticks, ticks, answers, cmap=COLOURS, alpha=0.35, rasterized=True)
    left.scatter(*X.T, c=y, cmap=COLOURS, s=5)
    left.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    left.set_title("Answers, and rows it has not seen")
    bars = right.barh(list(times), list(times.values()), color="#0072B2")
    right.bar_label(bars, fmt="%.2f s", padding=3)
    right.invert_yaxis()
    right.margins(x=0.2)
    right.set(xlabel="seconds, two workers of one thread")
    right.set_title(f"{n_rows:,} rows")
    fig.savefig("dask.png", dpi=120)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to learn from")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
    n_rows = 60_000 if args.quick else args.rows
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        print(f"What the workers do now: {client.dashboard_link} (with bokeh installed)")
        model, accuracy, times = learn(Path(folder), n_rows)
    print(f"accuracy on the {n_rows:,} rows of the file: {accuracy:.1%}")
    print(f"accuracy on {N_TEST:,} other rows: {model.score(*make(N_TEST, seed=10**6 + 1)):.1%}")
    draw(model, times, n_rows)


if __name__ == "__main__":
    main()
