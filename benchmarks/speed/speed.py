"""Time and memory of layers, default fits and predictions of one sample, for `asv`."""

import numpy as np
from sklearn.datasets import load_digits, make_regression

from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
)

ESTIMATORS = {cls.__name__: cls for cls in (RBFClassifier, TanhClassifier, RBFRegressor)}
PROJECTORS = {cls.__name__: cls for cls in (RBFProjector, TanhProjector)}
N_UNITS = 1000


class Layer:
    """Activations of 10,000 samples of 100 features."""

    params = tuple(PROJECTORS)
    param_names = ("projector",)

    def setup(self, name):
        self.X = np.random.default_rng(0).normal(size=(10_000, 100)).astype(np.float32)
        self.projector = PROJECTORS[name](N_UNITS, device="cpu", random_state=0)
        self.projector.fit(self.X[:2000])
        self.out = np.empty((len(self.X), N_UNITS), np.float32)
        self.projector.transform(self.X, out=self.out)  # compiles

    def time_transform(self, name):
        self.projector.transform(self.X, out=self.out)


class SmallData:
    """Default fits, to 1,797 digits or to 1,500 samples of a regression problem."""

    params = tuple(ESTIMATORS)
    param_names = ("estimator",)
    timeout = 120

    def setup(self, name):
        if name.endswith("Regressor"):
            self.X, self.y = make_regression(1500, 20, noise=1.0, random_state=0)
        else:
            self.X, self.y = load_digits(return_X_y=True)
        self.model = ESTIMATORS[name](device="cpu", random_state=0).fit(self.X, self.y)
        self.model.predict(self.X[:1])

    def time_fit(self, name):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, name):
        self.model.fit(self.X, self.y)

    def time_predict_one_sample(self, name):
        self.model.predict(self.X[:1])
