"""Default models on targets that are independent of X: errors near those of the best constant.

Leave-one-out errors, probabilities and intervals must not be too optimistic either.
"""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss

from sklearn_fsvc import (
    PatchClassifier,
    PatchRegressor,
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)

CLASSIFIERS = [
    RBFClassifier(), RBFClassifier(alpha="loo", kernel="triangular"),
    # The layer of one, and the readout of the other.
    *(
        pytest.param(RBFClassifier(**given), marks=pytest.mark.exhaustive)
        for given in ({"alpha": "loo"}, {"kernel": "triangular"})
    ),
    RBFClassifier(readout="softmax"), TanhClassifier(), TanhClassifier(500, alpha="loo"),
    # The same readout as RBFClassifier(readout="softmax"), with other units.
    pytest.param(TanhClassifier(readout="softmax"), marks=pytest.mark.exhaustive),
    StackedClassifier(), pytest.param(make_tabular_pipeline(), marks=pytest.mark.exhaustive),
]  # fmt: skip
REGRESSORS = [
    RBFRegressor(), RBFRegressor(alpha="loo", kernel="triangular"),
    # The layer of one, and the readout of the other; or the model of the intervals below.
    *(
        pytest.param(RBFRegressor(**given), marks=pytest.mark.exhaustive)
        for given in ({"alpha": "loo"}, {"kernel": "triangular"}, {"uncertainty": True})
    ),
    TanhRegressor(), TanhRegressor(500, alpha="loo"),
    StackedRegressor(),
    pytest.param(make_tabular_pipeline("regressor"), marks=pytest.mark.exhaustive),
]  # fmt: skip


UNCOVERING = {"kernel": "triangular", "radius": 0.2, "feature_weights": None}


def model_id(model):
    return "pipeline" if hasattr(model, "steps") else str(model)


def seeded(model, seed=0):
    params = {name: seed for name in model.get_params() if name.endswith("random_state")}
    return clone(model).set_params(**params)


def noise(n, n_features, seed, n_classes=None):
    """Return training samples and 2000 test samples, with targets drawn independently of X."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 2000, n_features))
    y = rng.normal(size=len(X)) if n_classes is None else rng.integers(n_classes, size=len(X))
    return X[:n], y[:n], X[n:], y[n:]


def network_of(model):
    return model[-1] if hasattr(model, "steps") else model


@pytest.mark.parametrize("n_features", [pytest.param(2, marks=pytest.mark.exhaustive), 20])
@pytest.mark.parametrize(
    ("n", "bound"), [(270, 1.3), pytest.param(600, 1.15, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("model", REGRESSORS, ids=model_id)
def test_errors_of_regressors(model, n, bound, n_features):
    X, y, X_new, y_new = noise(n, n_features, seed=n)
    model = seeded(model).fit(X, y)
    error = np.mean((y_new - model.predict(X_new)) ** 2) / np.var(y_new)
    assert error < bound
    network = network_of(model)
    loo_error = getattr(network, "loo_error_", None)
    if hasattr(network, "loo_errors_") and loo_error is None:
        loo_error = network.loo_errors_.min()
    if loo_error is not None:
        assert loo_error > 0.85


@pytest.mark.parametrize("n_classes", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("n", "bound"), [(300, 0.06), pytest.param(600, 0.04, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=model_id)
def test_log_loss_of_classifiers(model, n, bound, n_classes):
    X, y, X_new, y_new = noise(n, 2, n_classes, n_classes)
    p = seeded(model).fit(X, y).predict_proba(X_new)
    assert log_loss(y_new, p) < np.log(n_classes) + bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_features", [5, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_coverage_of_prediction_intervals(n_features, seed):
    X, y, X_new, y_new = noise(270, n_features, seed)
    model = RBFRegressor(uncertainty=True, random_state=seed).fit(X, y)
    mean, deviation = model.predict(X_new, return_std=True)
    assert 0.85 < np.mean(np.abs(y_new - mean) < 1.645 * deviation) < 0.95


@pytest.mark.exhaustive
def test_a_final_estimator_does_not_lose_a_weak_signal():
    """The log-loss of the Bayes classifier is about 0.67."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2600, 5))
    f = 0.4 * np.sin(X[:, 0]) + 0.2 * X[:, 1] * X[:, 2]
    y = rng.random(2600) < 1 / (1 + np.exp(-f))
    model = StackedClassifier(random_state=0).fit(X[:600], y[:600])
    assert log_loss(y[600:], model.predict_proba(X[600:])) < 0.695


@pytest.mark.parametrize("model", [PatchClassifier(), PatchRegressor()], ids=str)
def test_errors_on_images(model):
    rng = np.random.default_rng(0)
    X, y = rng.random((900, 64), np.float32), rng.integers(2, size=900)
    model = seeded(model.set_params(image_shape=(8, 8))).fit(X[:300], y[:300])
    if is_classifier(model):
        assert log_loss(y[300:], model.predict_proba(X[300:])) < np.log(2) + 0.06
    else:
        assert np.mean((y[300:] - model.predict(X[300:])) ** 2) < 1.3 * np.var(y)


@pytest.mark.parametrize(
    "model",
    [
        RBFRegressor(50, kernel="laplacian", feature_weights=None),
        TanhRegressor(50, feature_weights=None), RBFRegressor(50, **UNCOVERING),
        RBFRegressor(50, uncertainty=True, **UNCOVERING),
    ],
    ids=str,
)  # fmt: skip
def test_a_large_penalty_shrinks_predictions_to_the_mean(model):
    """Predictions of uncovered samples shrink, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = 5 + X[:, 0] + rng.normal(size=400)
    far = np.vstack([X, 10 * X])
    max_deviations = [
        np.abs(seeded(model).set_params(alpha=alpha).fit(X, y).predict(far) - y.mean()).max()
        for alpha in (1.0, 1e4, 1e9)
    ]
    assert (np.diff(max_deviations) < 0).all()
    assert max_deviations[-1] < 1e-3
