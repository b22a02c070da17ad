"""Random Fourier features as a third-party extension: a layer, a class of units, three estimators.

Random Fourier features (A. Rahimi, B. Recht, "Random features for large-scale kernel machines",
NIPS 2007): ``H = cos(X W' + b)`` with normal weights, whose inner products converge to the
Gaussian kernel with the number of units.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_fsvc.kernels import Function
from sklearn_fsvc.parts import (
    UNSET,
    ClassTarget,
    LinearLayer,
    NetworkClassifier,
    NetworkRegressor,
    NetworkTransformer,
    NumericTarget,
    Parts,
    Ridge,
    Sharing,
    Units,
)

COS = Function("cos", lambda A, xp: xp.cos(A, out=A), lambda H, xp: xp.sqrt(1 - H * H))


class CosLayer(LinearLayer):
    """H[i, j] = cos(x_i . w_j + b_j)."""

    formula, function = "cos", COS


@dataclass(frozen=True, eq=False, kw_only=True)
class Fourier(Units):
    """Random Fourier features of a Gaussian kernel with a given radius."""

    radius: Any
    random_state: Any
    start_alpha = 1.0
    takes_sparse = True
    of_units = ("components_", "hidden_intercept_")
    components_: Any = UNSET
    hidden_intercept_: Any = UNSET

    def check(self):
        if self.n_units < 1:
            raise ValueError(f"{self.size_name}={self.n_units!r} must be 1 or more.")
        if not self.radius > 0:
            raise ValueError(f"radius={self.radius!r} must be above 0.")

    def fit(self, job, samples, history):
        n_features = samples.X.shape[1]
        dtype = np.result_type(samples.X.dtype, np.float32)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        directions, phases = map(np.random.default_rng, seeds)
        W = directions.normal(size=(self.n_units, n_features)) / self.radius
        b = phases.uniform(0, 2 * np.pi, self.n_units)
        return self.with_fitted(components_=W.astype(dtype), hidden_intercept_=b.astype(dtype))

    @cached_property
    def layer(self):
        return CosLayer(self.components_, self.hidden_intercept_)

    @property
    def sharing(self):
        return Sharing(frozenset({"n_hidden", "alpha"}), depends_on_samples=False)


class FourierClassifier(NetworkClassifier):
    def __init__(
        self, n_hidden=100, *, radius=1.0, alpha="auto", forgetting_factor=1.0,
        class_weight=None, random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden, self.radius, self.alpha, self.forgetting_factor = (
            n_hidden,
            radius,
            alpha,
            forgetting_factor,
        )
        self.class_weight = class_weight
        self.random_state, self.device = random_state, device
        self.max_memory, self.verbose = max_memory, verbose

    def _parts(self):
        return Parts(
            Fourier.from_estimator(self),
            ClassTarget.from_estimator(self),
            Ridge.from_estimator(self),
        )


class FourierRegressor(NetworkRegressor):
    def __init__(
        self, n_hidden=100, *, radius=1.0, alpha="auto", forgetting_factor=1.0, uncertainty=False,
        random_state=None, device="auto", max_memory=None, verbose=0,
    ):  # fmt: skip
        self.n_hidden, self.radius, self.alpha, self.forgetting_factor = (
            n_hidden,
            radius,
            alpha,
            forgetting_factor,
        )
        self.uncertainty, self.random_state = uncertainty, random_state
        self.device, self.max_memory, self.verbose = device, max_memory, verbose

    def _parts(self):
        return Parts(
            Fourier.from_estimator(self),
            NumericTarget.from_estimator(self),
            Ridge.from_estimator(self),
        )


class FourierProjector(NetworkTransformer):
    def __init__(
        self, n_components=100, *, radius=1.0, random_state=None, device="auto", max_memory=None,
        verbose=0,
    ):  # fmt: skip
        self.n_components, self.radius, self.random_state = n_components, radius, random_state
        self.device, self.max_memory, self.verbose = device, max_memory, verbose

    def _parts(self):
        return Parts(Fourier.from_estimator(self))
