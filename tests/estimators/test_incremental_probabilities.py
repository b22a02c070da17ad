"""Calibration with `partial_fit` and `forget`, compared with a fit to the present samples."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from sklearn_fsvc import TanhClassifier
from sklearn_fsvc._src.readouts.calibration import Calibration, fit_calibration, probabilities

N, LATER, ROWS = 12_000, 1500, 512
X, y = make_classification(
    N + LATER + 4000, 12, n_informative=8, n_classes=3, flip_y=0.2, random_state=0
)
NEW = slice(N + LATER, None)
MODEL = TanhClassifier(40, feature_weights=None, alpha=10.0, random_state=0, device="jit")


def pairs(y):
    """Two outputs: one of three classes, and one of two."""
    return np.column_stack([y, y > 0])


@pytest.fixture(scope="module")
def trained():
    return clone(MODEL).partial_fit(X[:N], y[:N], classes=range(3)).solve()


def loss(model):
    return log_loss(y[NEW], model.predict_proba(X[NEW]))


def fitted(model, rows):
    return clone(MODEL).set_params(layer=FrozenEstimator(model)).fit(X[rows], y[rows])


@pytest.mark.parametrize(("n_left", "bound"), [(50, 1.1), (200, 1.05), (1000, 1.05)])
def test_probabilities_after_most_samples_were_removed(trained, n_left, bound):
    """The loss is near that of calibration on all present samples; new ones refill the sample."""
    rest = np.arange(n_left)
    model = copy.deepcopy(trained).forget(X[n_left:N], y[n_left:N])
    sample = model.solve()._incremental_state.statistics.sample
    assert sample.n_rows < 0.1 * min(n_left + 20, ROWS)
    assert loss(model) < bound * loss(fitted(model, rest))
    later = np.arange(N, N + LATER)
    for rows in np.array_split(later, 3):
        model.partial_fit(X[rows], y[rows])
    assert model.solve()._incremental_state.statistics.sample.n_rows == ROWS
    other = fitted(model, np.concatenate([rest, later]))
    np.testing.assert_allclose(model.readout_coef_, other.readout_coef_, atol=1e-8)
    assert loss(model) < 1.01 * loss(other)


def test_no_calibration_sample_left(trained):
    """The calibration of each output is that of the prior."""
    sample = trained._incremental_state.statistics.sample
    rest = np.flatnonzero(~np.isin(X[:N, 0], sample.rows.X[:, 0]))[:30]
    removed = np.setdiff1d(np.arange(N), rest)
    model = copy.deepcopy(trained).forget(X[removed], y[removed])
    model.solve()
    assert model.temperature_ == pytest.approx((2 / 3) ** 0.5)
    assert model.score_scale_ == 0.16
    assert np.isfinite(model.predict_log_proba(X[NEW])).all()
    both = clone(MODEL).partial_fit(X[:N], pairs(y[:N]), classes=[range(3), range(2)])
    both.forget(X[removed], pairs(y[removed])).solve()
    np.testing.assert_allclose(both.temperature_, [(2 / 3) ** 0.5, 1.0])
    np.testing.assert_array_equal(both.score_scale_, [0.16, 0.16])
    assert [p.shape[1] for p in both.predict_proba(X[:5])] == [3, 2]


def test_forget_changes_the_readout_by_the_map_of_masked_classes_alone():
    """The map is fitted to the few calibration samples that are left; without one, a class is lost.

    See "The map of masked classes" of docs/streams.rst.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7000, 4))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=len(X)), [-0.4, 0.4])
    later, new = slice(1000, 5000), slice(5000, None)
    layer = FrozenEstimator(
        TanhClassifier(10, scale=0.05, feature_weights=None, random_state=0).fit(X, y)
    )
    model = TanhClassifier(layer=layer, alpha=1.0, device="cpu")
    never = clone(model).fit(X[:1000], y[:1000])
    forgot = clone(model).partial_fit(X[:5000], y[:5000], classes=range(3))
    forgot.forget(X[later], y[later]).solve()
    sample = forgot._incremental_state.statistics.sample
    assert 30 <= sample.n_rows < 150
    maps = [each.matrix_scaling_[:, :-1] for each in (never, forgot)]
    assert not np.allclose(*maps, atol=0.01)
    # One-hot targets have a sum of 1, hence the coefficients before the map have a sum of 0.
    coefs = [
        np.linalg.lstsq(np.vstack([A, np.ones(3)]), np.vstack([each.readout_coef_, np.zeros(10)]))[
            0
        ]
        for A, each in zip(maps, (never, forgot), strict=True)
    ]
    np.testing.assert_allclose(*coefs, atol=1e-6)
    assert never.score(X[new], y[new]) - forgot.score(X[new], y[new]) < 0.03


def test_copies_and_merged_models_continue_equally(trained):
    """A stream equals its pickled copy merged with parts, with weights and several outputs."""
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model, first, later = clone(MODEL), slice(0, 3000), np.arange(N, N + LATER)
    options = {"classes": [range(3), range(2)]}
    model.partial_fit(X[first], pairs(y[first]), sample_weight=weight[first], **options)
    model.solve(fix_layer=True)
    removed = slice(100, 3000)
    model.forget(X[removed], pairs(y[removed]), weight[removed])
    parts = [pickle.loads(pickle.dumps(model))]
    layer = FrozenEstimator(copy.deepcopy(model))
    for rows in np.array_split(np.random.default_rng(1).permutation(later), 3):
        part = clone(MODEL).set_params(layer=layer)
        parts.append(
            part.partial_fit(X[rows], pairs(y[rows]), sample_weight=weight[rows], **options)
        )
    model.partial_fit(X[later], pairs(y[later]), sample_weight=weight[later])
    merged = parts[0].merge(parts[1:])
    assert merged.solve()._incremental_state.statistics.sample.n_rows == ROWS
    np.testing.assert_allclose(merged.temperature_, model.solve().temperature_, rtol=1e-6)
    np.testing.assert_array_equal(merged.score_scale_, model.score_scale_)


def test_training_after_all_samples_were_removed(trained):
    model = copy.deepcopy(trained).forget(X[:N], y[:N]).partial_fit(X[:900], y[:900])
    other = clone(MODEL).set_params(layer=FrozenEstimator(trained))
    other.partial_fit(X[:900], y[:900], classes=range(3))
    assert model.solve().temperature_ == other.solve().temperature_
    assert model.score_scale_ == other.score_scale_


def test_decay_after_samples_were_removed(trained):
    model = copy.deepcopy(trained).forget(X[50:N], y[50:N]).set_params(forgetting_factor=0.999)
    later = slice(N, N + LATER)
    model.partial_fit(X[later], y[later]).solve()
    assert model._incremental_state.statistics.sample.n_rows == ROWS
    assert loss(model) < 1.01 * loss(fitted(model, np.arange(N, N + LATER)))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_temperature_is_that_of_the_prior_for_few_samples(n_classes):
    """The temperature approaches the prior with the number of samples that the prior counts as."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 40)
    shares = 0.6 * np.eye(n_classes)[codes] + 0.4 / n_classes
    scores = shares[:, 1:] - shares[:, :1] if n_classes == 2 else shares
    found = [fit_calibration(scores, codes, prior_rows=n) for n in (0, 1, 10, 100, 1e9)]
    assert len({calibration.score_scale for calibration in found}) == 1
    temperatures = np.array([calibration.temperature for calibration in found])
    assert (np.diff(temperatures) > 0).all()
    prior = (2 / n_classes) ** 0.5
    assert temperatures[-1] == pytest.approx(prior, rel=1e-6)
    assert fit_calibration(scores[:0], codes[:0]) == Calibration(prior, 0.16)
    # Scores far above the scale that are shares of the classes are probabilities at temperature 1.
    p = probabilities(Calibration(1.0, 0.16 / 200), scores)
    np.testing.assert_allclose(p, shares, atol=1e-3)
