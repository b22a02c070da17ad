"""Third-party hidden units and readouts work like the built-in ones."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid

from conftest import open_engine
from estimators.fourier import FourierClassifier, FourierProjector, FourierRegressor
from estimators.test_sklearn import parametrize_checks
from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
from sklearn_fsvc._src.parts.composition import parts_of
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.linear import Solution
from sklearn_fsvc.parts import Linear, Parts

IRIS, SPECIES = load_iris(return_X_y=True)
DIABETES, Y = load_diabetes(return_X_y=True)
PARAMS = {"radius": 2.0, "alpha": 0.5, "random_state": 0}


@parametrize_checks(
    [
        FourierClassifier(20, alpha=1.0),
        FourierRegressor(50, radius=5.0, alpha=0.1),
        FourierProjector(20),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("device", ["jit", "blas"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_are_cosines(device, dtype, request):
    open_engine(device, request.config)
    projector = FourierProjector(2000, radius=2.0, random_state=0, device=device)
    H = projector.fit_transform(IRIS.astype(dtype))
    assert H.dtype == dtype
    expected = np.cos(IRIS @ projector.components_.T + projector.hidden_intercept_)
    np.testing.assert_allclose(H, expected, atol=1e-4)
    np.testing.assert_allclose(2 * H @ H.T / 2000, rbf_kernel(IRIS, gamma=1 / 8), atol=0.1)


def test_the_readout_equals_ridge_regression():
    model = FourierRegressor(30, **PARAMS).fit(DIABETES, Y)
    H = np.cos(DIABETES @ model.components_.T + model.hidden_intercept_)
    ridge = Ridge(0.5).fit(H, Y / Y.std())
    np.testing.assert_allclose(model.predict(DIABETES), ridge.predict(H) * Y.std(), rtol=1e-8)


def test_a_search_shares_passes_over_the_data():
    grid = {"n_hidden": [10, 30], "alpha": [0.1, 1.0]}
    search = HiddenSizeSearchCV(FourierClassifier(**PARAMS), grid, cv=3)
    with pytest.MonkeyPatch.context() as patched:
        fits, fit = [], FourierClassifier._fit
        patched.setattr(FourierClassifier, "_fit", lambda *args: fits.append(1) or fit(*args))
        search.fit(IRIS, SPECIES)
    expected = GridSearchCV(FourierClassifier(**PARAMS), grid, cv=3).fit(IRIS, SPECIES)
    assert len(fits) == 1  # the refit of the best candidate
    for name in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], expected.cv_results_[name])


def test_partial_fit_forget_and_merge():
    model = FourierClassifier(20, **PARAMS)
    parts = [slice(i, None, 3) for i in range(3)]
    each = [clone(model).partial_fit(IRIS[p], SPECIES[p], classes=range(3)) for p in parts]
    merged = (
        each[0].merge(each[1:]).partial_fit(IRIS[:9], SPECIES[:9]).forget(IRIS[:9], SPECIES[:9])
    )
    expected = model.fit(IRIS, SPECIES).decision_function(IRIS)
    np.testing.assert_allclose(merged.decision_function(IRIS), expected, rtol=1e-6, atol=1e-9)


class Centroids(Linear):
    """A nearest-centroid readout of the activations."""

    def train(self, training):
        (sums,) = gather(training.job, [training.layer], training.samples)
        class_counts = sums.y  # the targets are 0 and 1
        means = (sums.hy / class_counts + sums.shift[:, None]).T
        solution = Solution(means, -0.5 * (means**2).sum(axis=1))
        return self.with_solution(training, solution)

    def why_not_incremental(self):
        return "Class means cannot be updated."


class CentroidClassifier(TanhClassifier):
    def _parts(self):
        parts = super()._parts()
        return Parts(parts.units, parts.target, Centroids.from_estimator(self))


def test_a_custom_readout():
    model = CentroidClassifier(25, feature_weights=None, random_state=0).fit(IRIS, SPECIES)
    layer = parts_of(model).units.layer
    H = np.tanh(IRIS @ layer.units.T + layer.bias)
    expected = NearestCentroid().fit(H, SPECIES).predict(H)
    np.testing.assert_array_equal(model.predict(IRIS), expected)
    assert not hasattr(model, "partial_fit")
    assert not hasattr(model, "alpha_")
    grid = {"n_hidden": [5, 25]}  # candidates share no work without a ridge readout
    search = HiddenSizeSearchCV(model, grid, cv=3).fit(IRIS, SPECIES)
    expected = GridSearchCV(model, grid, cv=3).fit(IRIS, SPECIES)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
