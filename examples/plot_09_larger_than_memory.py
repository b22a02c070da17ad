"""
9. A file larger than memory
============================

A `TanhClassifier` is fitted out of core to an HDF5 file, and its predictions are written to the
file. Both the file and ``max_memory`` are small here; the code for large ones is the same.
"""

import tempfile
import tracemalloc
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sklearn_fsvc import TanhClassifier

N_SAMPLES, N_FEATURES, BLOCK = 200_000, 64, 20_000

# %%
# The file
# --------
# Half-moons in a nonlinear embedding of 64 features. They are generated and written block by block.

embedding = np.random.default_rng(0).normal(size=(2, N_FEATURES))


def make(n, seed):
    """Return `n` samples, and their classes."""
    points, y = make_moons(n, noise=0.2, random_state=seed)
    return np.sin(3 * points @ embedding).astype(np.float32), y


folder = tempfile.TemporaryDirectory()
file = h5py.File(Path(folder.name) / "data.h5", "w")
X = file.create_dataset("X", (N_SAMPLES, N_FEATURES), "f4", chunks=(1024, N_FEATURES))
y = file.create_dataset("y", N_SAMPLES, "u1")
for k in range(N_SAMPLES // BLOCK):
    block = slice(k * BLOCK, (k + 1) * BLOCK)
    X[block], y[block] = make(BLOCK, seed=k)

# %%
# The fit
# -------
# ``fit`` accepts an HDF5 dataset in place of an array.

X_test, y_test = make(10_000, seed=N_SAMPLES)
model = TanhClassifier(400, max_memory="16MB", random_state=0)
model.fit(X_test, y_test)  # compiles the loops
tracemalloc.start()
model.fit(X, y)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(f"test accuracy: {model.score(X_test, y_test):.1%}")

# %%
# The predictions
# ---------------
# There is one prediction per sample, so they are written to the file, too.

predicted = model.predict(X, out=file.create_dataset("predictions", N_SAMPLES, "u1"))
print(f"{predicted.shape[0]:,} predictions are in the file")

# %%
# The figure
# ----------

sizes = {
    "H, if it were stored": N_SAMPLES * 400 * 4,
    "data in the file": X.nbytes,
    "peak allocation of fit": peak,
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
