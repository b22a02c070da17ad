"""
2. Categorical features and missing values
==========================================

`make_tabular_pipeline` preprocesses a DataFrame for a network. Networks and gradient boosting have
different strengths: networks suit targets that are smooth functions of the features, trees suit
rules. So try both.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline

# %%
# The data
# --------
# Synthetic data on rented flats. A tenth of the construction years are missing.

rng = np.random.default_rng(0)
n = 1500
table = pd.DataFrame(
    {
        "area": rng.gamma(6, 12, n),
        "distance": rng.gamma(2, 2, n),
        "year": np.where(rng.random(n) < 0.1, np.nan, rng.integers(1900, 2025, n)),
        "district": pd.Categorical(rng.choice(["north", "east", "south", "west"], n)),
        "heating": pd.Categorical(rng.choice(["gas", "oil", "pump"], n)),
    }
)
print(table.head().to_string())

# %%
# Two targets
# -----------
# Whether a flat is expensive depends smoothly on area, distance and district. Whether it gets a
# grant follows a rule: it is either old and without a heat pump, or small, but not both. Both
# targets are noisy.

value = table["area"] / 25 - np.hypot(table["distance"] - 3, 1) + 2 * (table["district"] == "south")
old = (table["year"] < 1960) | table["year"].isna()
grant = (old & (table["heating"] != "pump")) ^ (table["area"] < 60)
targets = {
    "expensive (smooth)": value + rng.normal(scale=0.5, size=n) > value.median(),
    "gets a grant (rules)": grant ^ (rng.random(n) < 0.05),
}

# %%
# Both models
# -----------
# The pipeline recognises categorical features by their dtype, and one-hot encodes them. Missing
# years are imputed by the median, with a missing-value indicator as a further feature.

models = {
    "RBFClassifier": make_tabular_pipeline(RBFClassifier(random_state=0)),
    "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
}
scores = pd.DataFrame(
    {
        name: {
            target: cross_val_score(model, table, y, cv=3).mean() for target, y in targets.items()
        }
        for name, model in models.items()
    }
)
print(scores.round(3).to_string())

# %%
plt.style.use("tableau-colorblind10")
ax = scores.plot.barh(figsize=(6.4, 3.6), width=0.7)
for bars in ax.containers:
    ax.bar_label(bars, fmt="{:.1%}", padding=3)
ax.set(xlabel="accuracy, mean of 3 folds", xlim=(0.7, 1))
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
ax.figure.tight_layout()
plt.show()
