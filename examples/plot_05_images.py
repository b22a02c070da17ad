"""
5. Images
=========

Three networks for images: units that compare whole images, units with a random rectangle as
receptive field, and patch units, which are applied at all positions, as in a convolution. Only the
readout is trained.

The images are the small digits of scikit-learn, on which all three are about equally accurate. On
larger images patch units are the most accurate and the slowest (:doc:`/images`). To download
MNIST::

    from sklearn.datasets import fetch_openml

    X, y = fetch_openml("mnist_784", return_X_y=True, as_frame=False)
    X, shape = X.astype("uint8"), (28, 28)
"""

from time import perf_counter

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_fsvc import PatchClassifier, RBFClassifier, TanhClassifier

X, y = load_digits(return_X_y=True)
X, shape = X.astype("uint8"), (8, 8)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Three networks
# --------------
# Do not scale ``uint8`` images: their distances are computed exactly, and fast.

networks = {
    "whole images": RBFClassifier(random_state=0),
    "random rectangles": TanhClassifier(
        800, weights="class_informed", image_shape=shape, random_state=0
    ),
    "patches": PatchClassifier(50, image_shape=shape, random_state=0),
}
results = {}
for name, network in networks.items():
    network.fit(X_train[:200], y_train[:200])  # compiles the loops
    start = perf_counter()
    network.fit(X_train, y_train)
    results[name] = {
        "columns of H": network.readout_coef_.shape[1],
        "fit, s": perf_counter() - start,
        "accuracy": network.score(X_test, y_test),
    }
print(pd.DataFrame(results).T.to_string(float_format="{:.4g}".format))

# %%
# Misclassified images
# --------------------
# "4 as 9" is a 4 that is classified as 9.

fig, axes = plt.subplots(len(networks), 7, figsize=(8, 4.2), layout="constrained")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[], frame_on=False)
for line, (name, network) in zip(axes, networks.items(), strict=True):
    predicted = network.predict(X_test)
    line[0].set_ylabel(f"{name}\n{results[name]['accuracy']:.1%}")
    for ax, row in zip(line, (predicted != y_test).nonzero()[0], strict=False):
        ax.imshow(X_test[row].reshape(shape), cmap="gray_r")
        ax.set_title(f"{y_test[row]} as {predicted[row]}", fontsize=10)
plt.show()
