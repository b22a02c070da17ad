"""
Which columns matter
====================

In a distance every column counts alike, also one that says nothing. So `RBFClassifier` learns
weights of the columns, and they can be read. Here the truth is known: whether a part breaks
depends on three measurements and on its material; nine other columns are noise.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc.inspection import FeatureWeightsDisplay

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE = "#0072B2"

parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true", help="less of everything")
args, _ = parser.parse_known_args()  # a gallery or a notebook has arguments of its own

# %%
# A table with a category
# -----------------------
# Heat and pressure matter by their product, and speed at both of its ends.

rng = np.random.default_rng(0)
n_rows = 1000 if args.quick else 2000
names = ["heat", "pressure", "speed", *(f"noise {k}" for k in range(1, 10))]
X = pd.DataFrame(rng.uniform(size=(n_rows, len(names))), columns=names)
X["material"] = rng.choice(["steel", "brass", "glass"], size=n_rows)
strain = np.sin(2 * np.pi * X["heat"] * X["pressure"]) + 8 * (X["speed"] - 0.5) ** 2
strain += X["material"] == "glass"
y = strain + rng.normal(scale=0.3, size=n_rows) > 1.2
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Weights and accuracy
# --------------------
# `make_tabular_pipeline` sees that the material is a category; each level becomes a column,
# with a weight of its own. What can be reached at all is what the formula itself answers: the
# noise that was added to it cannot be known.

weighted = make_tabular_pipeline(RBFClassifier(random_state=0)).fit(X_train, y_train)
unweighted = make_tabular_pipeline(RBFClassifier(feature_weights=None, random_state=0))
trees = make_tabular_pipeline(HistGradientBoostingClassifier(random_state=0))
accuracies = {
    "the formula itself": np.mean((strain[y_test.index] > 1.2) == y_test),
    "boosted trees": trees.fit(X_train, y_train).score(X_test, y_test),
    "RBF, no weights": unweighted.fit(X_train, y_train).score(X_test, y_test),
    "RBF, learned weights": weighted.score(X_test, y_test),
}

# %%
# Permutation importance asks another question: how much accuracy is lost where a column of
# the test rows is shuffled. It needs many predictions, and the weights are there after fit.

shuffled = permutation_importance(weighted, X_test, y_test, random_state=0)
losses = dict(zip(X.columns, 100 * shuffled.importances_mean, strict=True))

# %%
# The picture
# -----------
# `FeatureWeightsDisplay` draws the weights. The causes are blue.


def plot_bars(ax, values, blue, title):
    labels = sorted(values, key=values.get)
    colours = [BLUE if label in blue else "0.7" for label in labels]
    ax.barh(labels, [values[label] for label in labels], color=colours)
    ax.set_title(title)
    ax.spines[["top", "right"]].set_visible(False)


fig, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
causes = ["heat", "pressure", "speed", "material", "material_glass"]
display = FeatureWeightsDisplay.from_estimator(weighted, ax=axes[0], color="0.7")
for label, bar in zip(axes[0].get_yticklabels(), display.bars_, strict=True):
    if label.get_text() in causes:
        bar.set_color(BLUE)
axes[0].set_title("learned weights")
plot_bars(axes[1], losses, causes, "points of accuracy lost by shuffling")
plot_bars(axes[2], accuracies, ["RBF, learned weights"], "accuracy on new rows")
axes[2].bar_label(axes[2].containers[0], fmt="{:.1%}", padding=3)
axes[2].set(xlim=(0, 1.15), xticks=[])
fig.suptitle("The weights find the causes (blue) among the noise, and the network gains by them")
fig.savefig("feature_weights.png", dpi=120)
print({label: f"{accuracy:.1%}" for label, accuracy in accuracies.items()})
