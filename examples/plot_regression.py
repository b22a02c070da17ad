"""
Numbers with a band
===================

`RBFRegressor` foretells numbers, and with ``uncertainty=True`` how far from them new ones may
lie. On the left the truth is known: a wave that gets faster and faster, with a gap in the data.
On the right are the patients of scikit-learn's diabetes data, each with a band of its own.

With ``--data DIR``, where DIR or a folder in it holds california_housing.npz (arrays X, X_cat
and y), the right side shows prices of houses instead.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFRegressor, make_tabular_pipeline

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION = "#0072B2", "#D55E00"

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with california_housing.npz")
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own

# So many standard deviations to both sides hold 90 % of a normal distribution.
REACH = norm.ppf(0.95)


def is_inside(y, mean, std):
    return np.abs(y - mean) <= REACH * std


# %%
# A wave with a gap
# -----------------
# Gaussian units suit a smooth curve. How wide they are is found by held-out error.

rng = np.random.default_rng(0)
GAP = 5.3, 6.8


def wave(t):
    return np.sin(0.24 * t**2 + 0.8 * t)


def measure(n_rows):
    """Times outside the gap, and what is measured then."""
    t = rng.uniform(0, 10, size=n_rows)
    t = t[(t < GAP[0]) | (t > GAP[1])]
    return t[:, None], wave(t) + rng.normal(scale=0.25, size=len(t))


T, y = measure(200 if args.quick else 350)
curve = RBFRegressor(80, kernel="gaussian", uncertainty=True, random_state=0).fit(T, y)
T_new, y_new = measure(5000)
new_inside = is_inside(y_new, *curve.predict(T_new, return_std=True)).mean()
print(f"wave: units of radius {curve.radius_:.2f}, R2 {curve.score(T_new, y_new):.2f}")
print(f"{new_inside:.1%} of new points lie in the band of 90%")

# %%
# A table
# -------


def load_table():
    """X, y, the columns that are categories, and a name for y."""
    if args.data is None:
        X, y = load_diabetes(return_X_y=True)
        return X, y, [1], "progression of diabetes after a year"
    path = next(args.data.rglob("california_housing.npz"), None)
    if path is None:
        raise SystemExit(f"--data: there is no california_housing.npz in {args.data}")
    with np.load(path) as file:
        X, y = np.column_stack([file["X"], file["X_cat"]]), file["y"] / 1000
    return X, y, [X.shape[1] - 1], "price of a house in California (1000 $)"


X, target, categories, target_name = load_table()
X_train, X_test, y_train, y_test = train_test_split(X, target, random_state=0)
# A few thousand rows are enough for a picture.
X_train, y_train = X_train[:4000], y_train[:4000]
table = make_tabular_pipeline(
    RBFRegressor(uncertainty=True, random_state=0), categorical_features=categories
)
mean, std = table.fit(X_train, y_train).predict(X_test, return_std=True)
inside = is_inside(y_test, mean, std)
print(f"{target_name}: {len(X_train)} training rows, R2 {table.score(X_test, y_test):.2f}")
print(f"{inside.mean():.1%} of {len(y_test)} test rows lie in the band of 90%")

# %%
# The picture
# -----------

fig, (left, right) = plt.subplots(
    1, 2, figsize=(14, 5), layout="constrained", width_ratios=[1.6, 1]
)
grid = np.linspace(-0.4, 10.4, 1000)
height, spread = curve.predict(grid[:, None], return_std=True)
left.axvspan(*GAP, color="0.95")
left.text(np.mean(GAP), -1.95, "no data", ha="center", color="0.4")
left.plot(T[:, 0], y, ".", color="0.55", markersize=5, label="training rows")
left.fill_between(
    grid, height - REACH * spread, height + REACH * spread,
    color=BLUE, alpha=0.25, linewidth=0, label="band of 90%",
)  # fmt: skip
left.plot(grid, wave(grid), "--", color="black", linewidth=1.2, label="truth")
left.plot(grid, height, color=BLUE, linewidth=2, label="RBFRegressor")
left.set(xlim=(grid[0], grid[-1]), ylim=(-2.1, 2.5), xlabel="time", ylabel="y")
left.legend(loc="upper center", ncols=4, frameon=False)
left.set_title(f"outside the gap {new_inside:.0%} of new points lie in the band")

shown = rng.permutation(len(y_test))[:400]
shown = shown[mean[shown].argsort()]
low, high = mean - REACH * std, mean + REACH * std
right.fill_between(mean[shown], low[shown], high[shown], color=BLUE, alpha=0.25, linewidth=0)
for part, colour, label in ((inside, BLUE, "inside"), (~inside, VERMILION, "outside")):
    rows = shown[part[shown]]
    right.plot(mean[rows], y_test[rows], ".", color=colour, label=f"{label} its band")
right.axline((mean.mean(), mean.mean()), slope=1, color="black", linewidth=1.2, linestyle="--")
right.set(xlabel=f"{target_name}, predicted", ylabel="true")
right.set_title(f"{inside.mean():.0%} of the test rows lie in their bands")
right.legend(loc="upper left", frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("A band of 90% opens where there is no data, and holds about what it should elsewhere")
fig.savefig("regression.png", dpi=120)

# %%
# Several outputs
# ---------------
# The upper half of a digit is given, and each pixel of the lower half is an output. One
# network answers them all.

images = load_digits().images
upper, lower = images[:, :4].reshape(-1, 32), images[:, 4:].reshape(-1, 32)
upper_train, upper_test, lower_train, lower_test = train_test_split(
    upper, lower, train_size=300 if args.quick else None, random_state=0
)
completer = RBFRegressor(random_state=0).fit(upper_train, lower_train)
completed = completer.predict(upper_test)
print(f"lower halves: R2 {completer.score(upper_test, lower_test):.2f}, mean of 32 outputs")

fig, axes = plt.subplots(2, 12, figsize=(14, 2.9), layout="constrained")
for row, halves, label in zip(axes, (lower_test, completed), ("true", "completed"), strict=True):
    for ax, top, bottom in zip(row, upper_test, halves, strict=False):
        ax.imshow(np.concatenate([top, bottom]).reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axhline(3.5, color=VERMILION, linewidth=1)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    row[0].set_ylabel(label)
fig.suptitle("Test digits: what is under the line is foretold from what is above it")
fig.savefig("regression_digits.png", dpi=120)
