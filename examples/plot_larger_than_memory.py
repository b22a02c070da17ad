"""
More rows than memory
=====================

A `TanhClassifier` learns from a file that it never has in memory: an HDF5 file is written
block by block, the classifier reads it tile by tile, and its answers go into the file again.
``--rows 1000000`` is the real thing: 256 MB, read with 64 MB of memory.
"""

import argparse
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from sklearn_fsvc import TanhClassifier

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=200_000, help="rows to learn from")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own
n_rows = 60_000 if args.quick else args.rows
n_test, n_features, block = 10_000, 64, 10_000


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def log_scale(axis):
    """A logarithmic axis with plain numbers: 1, 2, 5, 10, and so on."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


# %%
# The file
# --------
# Rows lie on a folded sheet with noise: two hidden coordinates, of which 64 features are waves.
# The sheet is cut into 6 x 6 fields in four classes, so that no straight cut tells the
# classes apart. A block of rows is made and written at a time.

rng = np.random.default_rng(0)
waves, phases = 1.5 * rng.normal(size=(2, n_features)), rng.uniform(0, 2 * np.pi, n_features)


def make(n):
    """`n` rows, and their classes."""
    sheet = rng.uniform(0, 6, size=(n, 2))
    column, row = sheet.astype(int).T
    X = np.sin(sheet @ waves + phases) + 0.3 * rng.normal(size=(n, n_features))
    return X.astype(np.float32), (column + 2 * row) % 4


folder = tempfile.TemporaryDirectory()
file = h5py.File(Path(folder.name) / "rows.h5", "w")
X = file.create_dataset("X", (n_rows, n_features), "f4", chunks=(1024, n_features))
y = file.create_dataset("y", n_rows, "u1")
for start in range(0, n_rows, block):
    stop = min(start + block, n_rows)
    X[start:stop], y[start:stop] = make(stop - start)
X_test, y_test = make(n_test)
max_memory = max(12 * 2**20, X.nbytes // 4)
print(f"{n_rows:,} rows, {X.nbytes / 1e6:.0f} MB; max_memory {max_memory / 1e6:.0f} MB")

# %%
# The fit
# -------
# ``fit`` takes the data set of the file as it would take an array. Meanwhile a thread looks at
# what is allocated. The small fit beforehand compiles the kernels.


class Watch(threading.Thread):
    """Looks at the memory that Python and NumPy have allocated, twenty times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.times, self.sizes, self._done = [], [], threading.Event()

    def run(self):
        start = time.perf_counter()
        while not self._done.wait(0.05):
            self.times.append(time.perf_counter() - start)
            self.sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)

    def __enter__(self):
        tracemalloc.start()
        self.start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        self.join()
        tracemalloc.stop()


model = TanhClassifier(400, max_memory=max_memory, random_state=0, verbose=1)
TanhClassifier(400, random_state=0).fit(X_test, y_test)
with Watch() as watch:
    _, fit_time = seconds(model.fit, X, y)
print(f"fit {fit_time:.2g} s, {max(watch.sizes):.0f} MB at most")
print(f"accuracy on other rows: {model.score(X_test, y_test):.1%}")

# %%
# The answers
# -----------
# They are as many as the rows, so they can go into the file as well.

model.set_params(verbose=0)
answers = model.predict(X, out=file.create_dataset("answers", n_rows, "u1"))
print(f"{answers.name} of {answers.file.filename}: {answers.shape[0]:,} classes")

# %%
# Why more rows
# -------------
# The first rows of the file alone would do, if more of them taught nothing more.

sizes = [n_rows // 4**k for k in (4, 3, 2, 1)]
fewer = TanhClassifier(400, random_state=0)
scores = [fewer.fit(X[:n], y[:n]).score(X_test, y_test) for n in sizes]
sizes, scores = [*sizes, n_rows], [*scores, model.score(X_test, y_test)]

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(watch.times, watch.sizes, color=BLUE, label="allocated during fit")
left.axhline(max_memory / 1e6, color=GREEN, linestyle="--", label="max_memory")
left.axhline(X.nbytes / 1e6, color=VERMILION, label="the rows in the file")
left.set(xlabel="time (s)", ylabel="MB", ylim=(0, 1.25 * X.nbytes / 1e6))
left.set_title("What a fit takes")
left.legend()
right.plot(sizes, scores, color=BLUE, marker="o")
log_scale(right.xaxis)
right.set_xticks(sizes, [f"{n:,}" for n in sizes])
right.set(xlabel="training rows", ylabel="accuracy on other rows")
right.set_title("What rows are good for")
for ax in (left, right):
    ax.grid(alpha=0.3)
fig.savefig("larger_than_memory.png", dpi=120)
file.close()
folder.cleanup()
