"""
8. Online learning
==================

``partial_fit`` learns rows as they come, and ``forget`` takes them out again, exactly. Here two
classes turn around each other by 8 degrees a day. A model that keeps all days is held back by
the past; a window of eight days follows.
"""

from collections import deque

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sklearn_fsvc import TanhClassifier

N_DAYS, WINDOW = 45, 8


def rows_of(day):
    """200 rows of a day: half-moons that turn."""
    X, y = make_moons(200, noise=0.2, random_state=day)
    angle = np.deg2rad(8 * day)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (X - [0.5, 0.25]) @ turn.T, y


# %%
# Three memories
# --------------
# Each day is predicted before it is learned. The hidden layer is that of the first day, and stays;
# what changes is the readout.

keeps, window, fades = (
    TanhClassifier(100, alpha=1.0, forgetting_factor=factor, random_state=0)
    for factor in (1.0, 1.0, 0.999)
)
scores = {"keeps all days": [], f"window of {WINDOW} days": [], "memory that fades": []}
held = deque()
for day in range(N_DAYS):
    X, y = rows_of(day)
    for model, found in zip((keeps, window, fades), scores.values(), strict=True):
        if day:
            found.append(model.score(X, y))
        model.partial_fit(X, y, classes=[0, 1])
    held.append((X, y))
    if len(held) > WINDOW:
        window.forget(*held.popleft())

# %%
# The picture
# -----------

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
looks = zip(["0.5", "#0072B2", "#D55E00"], ["-", "-", "--"], strict=True)
for (name, found), (colour, line) in zip(scores.items(), looks, strict=True):
    print(f"{name}: {np.mean(found[WINDOW:]):.1%} of the rows of later days are right")
    ax.plot(range(1, N_DAYS), found, color=colour, linestyle=line, label=name)
ax.set(xlabel="day", ylabel="accuracy on the next day", ylim=(0, 1.02))
ax.grid(alpha=0.3)
ax.legend(loc="lower left")
plt.show()
