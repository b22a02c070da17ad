"""
7. Regression with prediction intervals
=======================================

With ``uncertainty=True``, `RBFRegressor` returns a standard deviation for each prediction. The true
function is known here: a wave of increasing frequency, with a gap in the training data.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from sklearn_fsvc import RBFRegressor

# %%
# A wave with a gap
# -----------------

rng = np.random.default_rng(0)
GAP = 5.3, 6.8


def wave(t):
    return np.sin(0.24 * t**2 + 0.8 * t)


def measure(n_samples):
    """Return times outside the gap, and noisy measurements."""
    t = rng.uniform(0, 10, size=n_samples)
    t = t[(t < GAP[0]) | (t > GAP[1])]
    return t[:, None], wave(t) + rng.normal(scale=0.25, size=len(t))


T, y = measure(350)
T_test, y_test = measure(5000)

# %%
# The model
# ---------
# Gaussian units of Euclidean distances suit smooth functions. A 90 % prediction interval extends
# 1.645 standard deviations to both sides of the prediction. Its coverage is estimated on test
# samples. The noise is assumed to be Gaussian. ``predict_interval`` needs neither that assumption
# nor ``uncertainty=True``, but its intervals would not widen in the gap (:doc:`/regression`).

model = RBFRegressor(80, metric="euclidean", kernel="gaussian", uncertainty=True, random_state=0)
model.fit(T, y)
reach = norm.ppf(0.95)
mean, std = model.predict(T_test, return_std=True)
inside = np.mean(np.abs(y_test - mean) <= reach * std)
print(
    f"R2 {model.score(T_test, y_test):.2f}; {inside:.1%} of test samples are in their 90 % interval"
)

# %%
# The figure
# ----------

times = np.linspace(-0.4, 10.4, 1000)
mean, std = model.predict(times[:, None], return_std=True)
fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
ax.axvspan(*GAP, color="0.93")
ax.text(np.mean(GAP), -1.95, "no data", ha="center", color="0.3")
ax.plot(T[:, 0], y, ".", color="0.5", markersize=4, label="training samples")
ax.fill_between(
    times,
    mean - reach * std,
    mean + reach * std,
    color="#0072B2",
    alpha=0.25,
    linewidth=0,
    label="90 % interval",
)
ax.plot(times, wave(times), "--", color="black", linewidth=1.2, label="true function")
ax.plot(times, mean, color="#0072B2", linewidth=2, label="RBFRegressor")
ax.set(xlabel="time", ylabel="y", ylim=(-2.1, 2.6))
ax.legend(loc="upper center", ncols=4, frameon=False)
ax.set_title(f"The interval widens in the gap; elsewhere it covers {inside:.0%} of test samples")
plt.show()
