"""
1. A first model
================

`RBFClassifier` classifies handwritten digits with default hyperparameters. The centres of its
hidden units are training images, so the images that contribute most to a prediction can be plotted.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc.inspection import ExplanationDisplay

X, y = load_digits(return_X_y=True)  # 8 x 8 pixels
X = X.astype("uint8")  # distances between bytes are exact and fast
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = RBFClassifier(random_state=0).fit(X_train, y_train)
print(f"test accuracy: {model.score(X_test, y_test):.1%}")

# %%
# Selected hyperparameters
# ------------------------
# The kernel, the radius of the units and the regularisation strength are selected automatically, by
# validation and leave-one-out errors.

print(f"{len(model.centers_)} of {len(X_train)} training images are centres of hidden units")
print(f"kernel {model.kernel_}, radius {model.radius_:.0f}, penalty {model.alpha_:.2g}")

# %%
# Explanations
# ------------
# On the left, a test image and its prediction. On the right, the training images with the largest
# contributions to its score, and their classes. Blue contributions are evidence for the prediction,
# orange ones against it.

display = ExplanationDisplay.from_estimator(model, X_test[:3], n=6, image_shape=(8, 8))
display.figure_.suptitle("Three test images, and the training images that contribute most")
plt.show()
