"""
1. A first model
================

`RBFClassifier` learns handwritten digits without a single setting. Its hidden units are training
images, so it can show which of them decided a prediction.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc.inspection import ExplanationDisplay

X, y = load_digits(return_X_y=True)  # 8 x 8 pixels
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = RBFClassifier(random_state=0).fit(X_train, y_train)
print(f"accuracy on new digits: {model.score(X_test, y_test):.1%}")

# %%
# What it chose
# -------------
# The kernel, the radius of the units and the penalty of the readout are found with rows that are
# held out.

print(f"{len(model.centers_)} of {len(X_train)} training images are centres of hidden units")
print(f"kernel {model.kernel_}, radius {model.radius_:.0f}, penalty {model.alpha_:.2g}")

# %%
# Why it predicts so
# ------------------
# On the left a new digit and the prediction. Then the training images that had the most to say,
# what they show, and what they added: blue speaks for the prediction, red against it.

display = ExplanationDisplay.from_estimator(model, X_test[:3], n=6, image_shape=(8, 8))
display.figure_.suptitle("Three new digits, and the training images behind each prediction")
plt.show()
