"""
10. A pipeline on the GPU
=========================

The same code runs with and without a GPU. ``device="cuda"`` uses the GPU, or raises an error with
the reason; ``"auto"``, the default, uses it for large jobs. If the data are on the GPU, as a CuPy
or PyTorch array, a whole scikit-learn pipeline can run there (:doc:`/engines`).
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector

# %%
# Data
# ----

X, y = make_classification(20_000, 64, n_informative=24, n_clusters_per_class=8, random_state=0)
X = X.astype(np.float32)
X_train, y_train, X_test, y_test = X[:16_000], y[:16_000], X[16_000:], y[16_000:]

# %%
# Is there a GPU?
# ---------------

try:
    TanhProjector(10, device="cuda").fit_transform(X_test)
    device = "cuda"
except RuntimeError as reason:
    device = "cpu"
    print(reason)

# %%
# Classifiers and a pipeline
# --------------------------
# In the pipeline only the features are computed on the GPU; they are transferred back for
# scikit-learn's classifier. The other classifiers transfer scores only. The first fit on a GPU may
# compile kernels, so each model is fitted twice. All hyperparameters are set, so that the time is
# that of a single fit.

models = {
    "RBFClassifier": RBFClassifier(
        1000,
        kernel="laplacian",
        radius=100.0,
        selection="random",
        feature_weights=None,
        alpha=1.0,
        random_state=0,
        device=device,
    ),
    "TanhClassifier": TanhClassifier(1000, alpha=1.0, random_state=0, device=device),
    "TanhProjector + RidgeClassifier": make_pipeline(
        TanhProjector(1000, random_state=0, device=device), RidgeClassifier()
    ),
}
times = {}
for name, model in models.items():
    for _ in range(2):
        start = perf_counter()
        model.fit(X_train, y_train)
        times[name] = perf_counter() - start
    network = getattr(model, "steps", [("", model)])[0][1]
    print(
        f"{name} on {network.device_}: {times[name]:.2f} s, "
        f"accuracy {model.score(X_test, y_test):.1%}"
    )

# %%
# The figure
# ----------

fig, ax = plt.subplots(figsize=(8, 2.4), layout="constrained")
bars = ax.barh(list(times), list(times.values()), color="#0072B2")
ax.bar_label(bars, fmt="{:.2f} s", padding=3)
ax.margins(x=0.15)
ax.set(xlabel="time to fit 16,000 samples (s)", title=f"device: {network.device_}")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
