"""
2. A table with categories and missing values
=============================================

`make_tabular_pipeline` makes rows of numbers from a DataFrame. Beside gradient boosting each of
the two has its own strength: networks are good where the target changes smoothly with the
columns, trees where it follows rules. So try both.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline

# %%
# The table
# ---------
# Flats that are offered for rent. A tenth of the years of construction is not known.

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
# Two questions
# -------------
# Whether a flat is expensive depends smoothly on area, distance and district. Whether it gets a
# grant follows rules: either it is old and not heated by a pump, or it is small, but not both. Both
# targets have noise, as real ones have.

value = table["area"] / 25 - np.hypot(table["distance"] - 3, 1) + 2 * (table["district"] == "south")
old = (table["year"] < 1960) | table["year"].isna()
grant = (old & (table["heating"] != "pump")) ^ (table["area"] < 60)
questions = {
    "expensive (smooth)": value + rng.normal(scale=0.5, size=n) > value.median(),
    "gets a grant (rules)": grant ^ (rng.random(n) < 0.05),
}

# %%
# Both models
# -----------
# The pipeline reads from the dtypes which columns are categories. Missing years become the
# median year, and a column of 0 and 1 says where they were missing.

models = {
    "RBFClassifier": make_tabular_pipeline(RBFClassifier(random_state=0)),
    "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
}
scores = pd.DataFrame(
    {
        name: {
            question: cross_val_score(model, table, y, cv=3).mean()
            for question, y in questions.items()
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
