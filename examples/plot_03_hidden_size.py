"""
3. How many hidden units
========================

More units usually improve accuracy, and need more time and memory. `HiddenSizeSearchCV` replaces
``GridSearchCV``. It evaluates all sizes and penalties in one pass over the data per fold, because a
smaller network is part of a larger one. :doc:`/benchmarks` compares their times.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
from sklearn_fsvc.inspection import HiddenSizeDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# The search
# ----------

grid = {"n_hidden": [25, 50, 100, 200, 400, 800], "alpha": [0.1, 1.0, 10.0, 100.0]}
model = TanhClassifier(random_state=0)
search = HiddenSizeSearchCV(model, grid, cv=5).fit(X_train, y_train)
print(f"best: {search.best_params_}, test accuracy {search.score(X_test, y_test):.1%}")

# %%
# The figure
# ----------
# One line per penalty. Bands are the standard deviation over the folds.

display = HiddenSizeDisplay.from_estimator(search, by="alpha")
display.ax_.set_title(f"{search.best_params_['n_hidden']} units are best: {search.best_score_:.1%}")
plt.show()
