"""
6. Calibrated probabilities
===========================

Of the samples predicted with probability 0.8, 80 % should be of that class. Networks are calibrated
by leave-one-out predictions, without a hold-out set or further fits. The readout "softmax"
minimises the log-loss directly.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier, TanhClassifier

# %%
# Two overlapping classes
# -----------------------
# No model can classify all samples correctly, so good probabilities matter.

X, y = make_moons(6000, noise=0.45, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=1000, random_state=0)
models = {
    "RBFClassifier": RBFClassifier(random_state=0),
    "TanhClassifier": TanhClassifier(random_state=0),
    "TanhClassifier, softmax": TanhClassifier(readout="softmax", random_state=0),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
}

# %%
# Calibration curves
# ------------------
# The dotted line is perfect calibration. The log-loss summarises calibration and accuracy: lower is
# better.

fig, ax = plt.subplots(figsize=(5.5, 5.5), layout="constrained")
for (name, model), colour, marker in zip(
    models.items(), ["#0072B2", "#D55E00", "#009E73", "0.5"], "osD^", strict=True
):
    model.fit(X_train, y_train)
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name}: accuracy {model.score(X_test, y_test):.1%}, log-loss {loss:.3f}")
    CalibrationDisplay.from_estimator(
        model,
        X_test,
        y_test,
        n_bins=10,
        name=f"{name}, log-loss {loss:.2f}",
        ax=ax,
        color=colour,
        marker=marker,
    )
ax.set(xlabel="predicted probability", ylabel="fraction of positives")
plt.show()
