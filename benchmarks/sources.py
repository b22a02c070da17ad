"""Compare fits and transforms of data in files with arrays in memory: time and peak memory.

python benchmarks/sources.py [--rows 1000000] [--units 256] [--clock cpu] [--json FILE]

The files contain the same float32 samples of 64 features: a memmap, HDF5 as one block and in
chunks, zarr, and Parquet. They are written to a temporary folder (1.4 GB) and read once
before anything is timed: they come from the page cache, not from a disk. ``--clock cpu`` adds up
the time of all threads, including prefetching, which is more reliable on a busy machine.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import zarr

from _report import CLOCKS, arguments, report
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.tuning import medians

FEATURES, CHUNK = 64, 16_384
# Bytes in addition to `max_memory`: labels, their codes, and Python objects.
LIMIT, ADDITIONAL = 128 * 2**20, 100e6


def labels(n_rows):
    return np.random.default_rng(0).integers(0, 10, n_rows)


def blocks(n_rows):
    """Yield (slice, samples) of ten overlapping classes."""
    rng, y = np.random.default_rng(1), labels(n_rows)
    means = rng.normal(size=(10, FEATURES))
    for start in range(0, n_rows, CHUNK):
        part = slice(start, min(start + CHUNK, n_rows))
        noise = rng.normal(size=(part.stop - start, FEATURES))
        yield part, (means[y[part]] + 2 * noise).astype(np.float32)


def write(folder, n_rows):
    shape = n_rows, FEATURES
    memmap = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, shape)
    store = zarr.create_array(folder / "X.zarr", shape=shape, dtype="f4", chunks=(CHUNK, FEATURES))
    schema = pyarrow.schema([(f"x{j}", pyarrow.float32()) for j in range(FEATURES)])
    with (
        h5py.File(folder / "X.h5", "w") as file,
        pyarrow.parquet.ParquetWriter(folder / "X.parquet", schema) as table,
    ):
        whole = file.create_dataset("whole", shape, "f4")
        chunked = file.create_dataset("chunked", shape, "f4", chunks=(CHUNK, FEATURES))
        for part, X in blocks(n_rows):
            memmap[part] = whole[part] = chunked[part] = store[part] = X
            table.write_table(pyarrow.table(list(X.T), schema=schema))
    memmap.flush()


def sources(folder):
    """Yield (name, data) of each file."""
    file = h5py.File(folder / "X.h5")

    def batches():
        # Otherwise Arrow keeps read data until the end of the pass.
        file = pyarrow.parquet.ParquetFile(folder / "X.parquet", pre_buffer=False)
        return file.iter_batches(CHUNK)

    return {
        "memmap": np.load(folder / "X.npy", mmap_mode="r"),
        "HDF5, one block": file["whole"],
        "HDF5, chunks": file["chunked"],
        "zarr": zarr.open_array(folder / "X.zarr", mode="r"),
        "Parquet": batches,
    }


def classifier(units, **options):
    given = {"scale": 0.1, "alpha": 1.0, "feature_weights": None}  # a single pass
    return TanhClassifier(units, **given, random_state=0, **options)


def times(args, folder):
    """Time fit and transform of each file, and of arrays in memory."""
    y, given, clock = labels(args.rows), sources(folder), CLOCKS[args.clock]
    given = {"memory": np.array(given["memmap"])} | given
    model = classifier(args.units)
    projector = TanhProjector(args.units, scale=0.1, random_state=0)
    projector.fit(given["memory"][:1000])
    H = np.empty((args.rows, args.units), np.float32)

    def transform(X):
        with warnings.catch_warnings():  # of column names
            warnings.simplefilter("ignore", UserWarning)
            projector.transform(X, out=H)

    for what, call in {"fit": lambda X: model.fit(X, y), "transform": transform}.items():
        calls = {name: lambda X=X, call=call: call(X) for name, X in given.items()}
        results = medians(calls, args.repeats, seconds=3000, stopwatch=clock)
        for name, seconds in results.items():
            yield f"{what}, {name}: s", seconds
            if name != "memory":
                yield f"{what}, {name} / memory", seconds / results["memory"]
    calls = {
        "Parquet": lambda: sum(len(batch) for batch in given["Parquet"]()),
        "zarr": lambda: sum(len(given["zarr"][i : i + CHUNK]) for i in range(0, args.rows, CHUNK)),
    }
    for name, seconds in medians(calls, args.repeats, stopwatch=clock).items():
        yield f"{name}: a pass of reading alone, s", seconds


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(args):
    """Return the peak bytes of a fit and a prediction, in a process of its own."""
    X, y = sources(args.folder)[args.source], labels(args.rows)
    model = classifier(args.units, max_memory=LIMIT)
    few = np.array(sources(args.folder)["memmap"][:20_000])
    model.fit(few, y[:20_000]).predict(few)  # compile and import first
    del few
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident("VmRSS")
    model.fit(X, y)
    model.predict(X)
    print(resident("VmHWM") - before)


def memory(args, folder):
    for name in sources(folder):
        if name == "memmap":
            continue  # its pages belong to the page cache, and count as resident
        command = [sys.executable, __file__, "--folder", folder, "--source", name]
        command += ["--rows", str(args.rows), "--units", str(args.units)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        yield f"{name}: peak memory of fit and predict, MB", float(done.stdout) / 1e6
    yield "limit: max_memory + 100 MB", (LIMIT + ADDITIONAL) / 1e6


def main(args):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, args.rows)
        rows = [*times(args, folder), *memory(args, folder)]
    title = f"sources: {args.rows} x {FEATURES} float32, {args.units} units, {args.clock} time"
    report(args, title, rows)


if __name__ == "__main__":
    args = arguments(
        rows={"type": int, "default": 1_000_000},
        units={"type": int, "default": 256},
        clock={"choices": list(CLOCKS), "default": "wall"},
        repeats={"type": int, "default": 7},
        folder={"type": Path},
        source={},
    )
    measure(args) if args.source else main(args)
