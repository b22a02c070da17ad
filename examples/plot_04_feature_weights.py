"""
4. Feature weights: relevant features
=====================================

All features contribute equally to a distance, even irrelevant ones. So `RBFClassifier` learns
feature weights, which can be inspected. The relevant features of this synthetic dataset are known:
whether a part breaks depends on heat, pressure, speed and material; nine other features are noise.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc.inspection import FeatureWeightsDisplay

# %%
# Data with known causes
# ----------------------
# The product of heat and pressure has an effect, and so does speed at both ends of its range.

rng = np.random.default_rng(0)
n = 2000
names = ["heat", "pressure", "speed", *(f"noise {k}" for k in range(1, 10))]
X = pd.DataFrame(rng.uniform(size=(n, len(names))), columns=names)
X["material"] = rng.choice(["steel", "brass", "glass"], size=n)
strain = np.sin(2 * np.pi * X["heat"] * X["pressure"]) + 8 * (X["speed"] - 0.5) ** 2
strain += X["material"] == "glass"
y = strain + rng.normal(scale=0.3, size=n) > 1.2
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# With and without weights
# ------------------------
# `make_tabular_pipeline` one-hot encodes the material, and each category has a weight.

weighted = make_tabular_pipeline(RBFClassifier(random_state=0))
unweighted = make_tabular_pipeline(RBFClassifier(feature_weights=None, random_state=0))
for name, model in {"without weights": unweighted, "with learned weights": weighted}.items():
    print(f"{name}: {model.fit(X_train, y_train).score(X_test, y_test):.1%} test accuracy")

# %%
# The figure
# ----------
# The importance of a feature is its weight times its standard deviation: how steeply the prediction
# changes with the standardised feature, without the sign. The pipeline passes each number to the
# network twice, as a rank ("numerical") and as a value ("values"). It has added the product of heat
# and pressure ("numerical_interactions").

display = FeatureWeightsDisplay.from_estimator(weighted, max_features=12, color="0.7")
for label, bar in zip(display.ax_.get_yticklabels(), display.bars_, strict=True):
    if "noise" not in label.get_text():
        bar.set_color("#0072B2")
display.ax_.set_title("Causes (blue) and noise (grey)")
display.figure_.set_layout_engine("constrained")
plt.show()
