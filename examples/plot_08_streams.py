"""
8. Online learning
==================

``partial_fit`` adds samples of a stream, and ``forget`` removes them again, exactly. In this
example two classes rotate by 8 degrees per day (concept drift). A model of all days fails; a
sliding window of eight days adapts.
"""

from collections import deque

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sklearn_fsvc import TanhClassifier

N_DAYS, WINDOW = 45, 8


def samples_of(day):
    """Return 200 samples of a day: rotating half-moons."""
    X, y = make_moons(200, noise=0.2, random_state=day)
    angle = np.deg2rad(8 * day)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (X - [0.5, 0.25]) @ turn.T, y


# %%
# Three strategies
# ----------------
# Each day is predicted before it is learned (prequential evaluation). The hidden layer is chosen
# anew from time to time until there are 6,000 samples. The window contains fewer, so its layer
# adapts as long as the stream lasts. The readout is updated every day.

cumulative, window, decaying = (
    TanhClassifier(100, alpha=1.0, forgetting_factor=factor, random_state=0)
    for factor in (1.0, 1.0, 0.999)
)
scores = {"all days": [], f"window of {WINDOW} days": [], "exponential decay": []}
buffered = deque()
for day in range(N_DAYS):
    X, y = samples_of(day)
    for model, accuracies in zip((cumulative, window, decaying), scores.values(), strict=True):
        if day:
            accuracies.append(model.score(X, y))
        model.partial_fit(X, y, classes=[0, 1])
    buffered.append((X, y))
    if len(buffered) > WINDOW:
        window.forget(*buffered.popleft())

# %%
# The figure
# ----------

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
styles = zip(["0.5", "#0072B2", "#D55E00"], ["-", "-", "--"], strict=True)
for (name, accuracies), (colour, line) in zip(scores.items(), styles, strict=True):
    print(f"{name}: {np.mean(accuracies[WINDOW:]):.1%} mean accuracy on later days")
    ax.plot(range(1, N_DAYS), accuracies, color=colour, linestyle=line, label=name)
ax.set(xlabel="day", ylabel="accuracy on the next day", ylim=(0, 1.02))
ax.grid(alpha=0.3)
ax.legend(loc="lower left")
plt.show()
