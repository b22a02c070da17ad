"""
9. A file larger than memory
============================

A `TanhClassifier` learns from a file that it never has in memory, and its predictions go into the
file again. The file is small here, and so is ``max_memory``; neither matters to the code.
"""

import tempfile
import tracemalloc
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sklearn_fsvc import TanhClassifier

N_ROWS, N_FEATURES, BLOCK = 200_000, 64, 20_000

# %%
# The file
# --------
# Half-moons that are folded into 64 features, with noise. A block of rows is made and written at
# a time.

folds = np.random.default_rng(0).normal(size=(2, N_FEATURES))


def make(n, seed):
    """`n` rows, and their classes."""
    points, y = make_moons(n, noise=0.2, random_state=seed)
    return np.sin(3 * points @ folds).astype(np.float32), y


folder = tempfile.TemporaryDirectory()
file = h5py.File(Path(folder.name) / "rows.h5", "w")
X = file.create_dataset("X", (N_ROWS, N_FEATURES), "f4", chunks=(1024, N_FEATURES))
y = file.create_dataset("y", N_ROWS, "u1")
for k in range(N_ROWS // BLOCK):
    block = slice(k * BLOCK, (k + 1) * BLOCK)
    X[block], y[block] = make(BLOCK, seed=k)

# %%
# The fit
# -------
# ``fit`` takes the data set of the file as it would take an array.

X_test, y_test = make(10_000, seed=N_ROWS)
model = TanhClassifier(400, max_memory="16MB", random_state=0)
model.fit(X_test, y_test)  # compiles the loops
tracemalloc.start()
model.fit(X, y)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(f"accuracy on other rows: {model.score(X_test, y_test):.1%}")

# %%
# The predictions
# ---------------
# They are as many as the rows, so they can go into the file as well.

predicted = model.predict(X, out=file.create_dataset("predictions", N_ROWS, "u1"))
print(f"{predicted.shape[0]:,} predictions are in the file")

# %%
# The picture
# -----------

sizes = {
    "H, if it were stored": N_ROWS * 400 * 4,
    "rows in the file": X.nbytes,
    "most that fit allocated": peak,
    "max_memory": 16e6,
}
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(list(sizes), [size / 1e6 for size in sizes.values()], color="#0072B2")
ax.bar_label(bars, fmt="{:.0f} MB", padding=3)
ax.set(xlabel="MB", xlim=(0, 370))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
file.close()
folder.cleanup()
