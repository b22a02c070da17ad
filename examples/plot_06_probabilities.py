"""
6. Calibrated probabilities
===========================

Of all rows to which a model gives a probability of 80 %, 80 % should be of that class. Networks
learn to do that from rows that the readout has not seen, with none set aside and no more fits. The
readout "softmax" is trained for nothing else.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier, TanhClassifier

# %%
# Two classes that overlap
# ------------------------
# No model can be right everywhere here, so it helps to know where it is in doubt.

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
# On the dotted line probabilities are right. The log-loss says it in one number: less is better.

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
ax.set(xlabel="probability that the model gave", ylabel="share of rows of that class")
plt.show()
