"""Selection of the metric, and of feature weights for tanh units, by the error of smooth units."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

import naive
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.hidden_layers.proxy_search import Candidate, ProxySearch
from sklearn_fsvc._src.parts.composition import parts_of

pytestmark = pytest.mark.usefixtures("two_splits")

GAUSSIAN = "euclidean", "gaussian"


def linear(n, n_features=60, seed=0):
    """Return samples, and a linear function of all of their features."""
    X = np.random.default_rng(seed).normal(size=(n, n_features))
    return X, X @ np.random.default_rng(1).normal(size=n_features)


def steps(n, seed=0):
    """Return samples, and a function that is constant in cells: a sharp peak suits it."""
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    return X, (np.floor(6 * X).sum(axis=1) % 2) + 0.1 * X[:, 0]


def choice(model):
    return model.metric_, model.kernel_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_linear_target(dtype, device):
    X, y = linear(700)
    X, y = X.astype(dtype), y.astype(dtype)
    model = RBFRegressor(random_state=0, device=device).fit(X[:400], y[:400])
    manhattan = clone(model).set_params(metric="manhattan").fit(X[:400], y[:400])
    assert choice(model) == GAUSSIAN
    assert model.score(X[400:], y[400:]) > 0.99
    assert manhattan.score(X[400:], y[400:]) < 0.97
    assert set(model.search_results_["metric"]) == {"manhattan", "euclidean"}
    if dtype == np.float64:
        H, H_new = (naive.of_model(model, rows) for rows in (X[:400], X[400:]))
        expected = Ridge(model.alpha_).fit(H, y[:400] / y[:400].std()).predict(H_new)
        np.testing.assert_allclose(model.predict(X[400:]), expected * y[:400].std(), rtol=1e-3)


def spectra(n, seed=0):
    """Return spectra of mixtures with a random baseline, and the share of one component."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, 100)
    peaks = np.exp(-((x - np.array([[0.2], [0.4], [0.7], [0.8]])) ** 2) / 0.01)
    shares = rng.dirichlet(np.ones(4), n)
    baseline = 3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 1)) * x
    return shares @ peaks + baseline + 0.005 * rng.normal(size=(n, 100)), shares[:, 0]


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("estimator", [RBFRegressor, RBFClassifier])
def test_directions_of_small_variance(estimator, n, device):
    """They are the target; penalties of usual size leave them out."""
    (X, y), (X_new, y_new) = spectra(n), spectra(500, seed=1)
    if estimator is RBFClassifier:
        y, y_new = y > 0.25, y_new > 0.25
    model = estimator(random_state=0, device=device).fit(X, y)
    assert choice(model) == GAUSSIAN
    assert model.alpha_ < 1e-5
    assert model.score(X_new, y_new) > 0.85
    usual = clone(model).set_params(alpha=1e-4).fit(X, y)
    assert usual.score(X_new, y_new) < model.score(X_new, y_new)


def test_penalties_that_are_smaller_than_usual_need_float64_and_few_samples():
    for n, dtype in ((60, np.float32), (1100, np.float64)):
        X, y = spectra(n)
        model = RBFRegressor(50, feature_weights=None, random_state=0)
        model.fit(X[:, ::2].astype(dtype), y)
        assert model.search_results_["alpha"].min() > 1e-5


def test_a_target_of_steps(device):
    X, y = steps(1500)
    model = RBFRegressor(random_state=0, device=device).fit(X, y)
    assert model.metric_ == "manhattan"
    assert model.score(*steps(500, seed=1)) > 0.5


def test_random_targets(rng):
    """Neither metric predicts anything, so the default remains."""
    model = RBFRegressor(100, random_state=0).fit(rng.normal(size=(600, 8)), rng.normal(size=600))
    assert model.metric_ == "manhattan"


def test_the_larger_network_decides(monkeypatch):
    X, y = linear(400)
    model = RBFRegressor(100, feature_weights=None, alpha=1.0, random_state=0)
    monkeypatch.setattr(ProxySearch, "errors_of_large", lambda *_: [1.0, 0.94])
    assert model.fit(X, y).metric_ == "manhattan"
    monkeypatch.setattr(ProxySearch, "errors_of_large", lambda *_: [1.0, 0.92])
    assert model.fit(X, y).metric_ == "euclidean"


@pytest.mark.parametrize(
    ("errors", "selected"),
    [
        ((1.0, 0.94, 0.93), 0),
        ((1.0, 0.92, 0.86), 1),
        ((1.0, 0.92, 0.84), 2),
        ((1.0, 0.94, 0.91), 2),
    ],
)
def test_candidates_must_be_better_than_the_best_before_them(errors, selected):
    candidates = [
        Candidate(layer, None, None, factor)
        for layer, factor in (("a", 1.0), ("b", 0.93), ("c", 0.92))
    ]
    proxy = SimpleNamespace(errors_of_large=lambda pairs, max_units: errors[: len(pairs)])
    best = ProxySearch.best_of_large(proxy, candidates, 10)
    assert best is candidates[selected]
    assert ProxySearch.best_of_large(None, candidates[:1], 10) is candidates[0]  # none is trained


@pytest.mark.parametrize(
    "given",
    [{"metric": "manhattan"}, {"kernel": "laplacian"}, {"radius": 3.0}, {"precision": 15}],
    ids=str,
)
def test_what_is_given_is_kept(given):
    X, y = linear(300, 20)
    model = RBFRegressor(50, random_state=0, feature_weights=None, **given).fit(X, y)
    assert model.metric_ == "manhattan"
    assert "gaussian" not in model.search_results_["kernel"]


def test_bytes_have_exact_distances(rng):
    X, y = linear(300, 20)
    bytes_ = np.clip(128 + 40 * X, 0, 255).astype(np.uint8)
    model = RBFRegressor(50, random_state=0).fit(bytes_, y)
    assert model.metric_ == "manhattan"
    assert set(model.search_results_["metric"]) == {"manhattan"}


def test_weights_that_harm_smooth_units(monkeypatch):
    """Of a linear function of all features, Laplacian units learn weights that hide some."""
    X, y = linear(700)
    wrong = np.where(np.arange(60) < 30, 1.0, 0.05)
    module = "sklearn_fsvc._src.hidden_layers.proxy_search"
    monkeypatch.setattr(f"{module}.learn_weights", lambda *_: (np.ones(60), wrong))
    monkeypatch.setattr(f"{module}.minimise_error", lambda *_: None)
    # The Laplacian units prefer them.
    errors = ProxySearch.errors
    monkeypatch.setattr(
        ProxySearch, "errors",
        lambda self, layers, *args, **options: [
            0.0 if layer.kernel.name == "laplacian" and layer.weights is not None
            and layer.weights[-1] < 0.1 else error
            for layer, error in zip(layers, errors(self, layers, *args, **options), strict=True)
        ],
    )  # fmt: skip
    model = TanhRegressor(400, random_state=0).fit(X[:400], y[:400])
    assert model.feature_weights_ is None or model.feature_weights_.min() > 0.5
    assert model.score(X[400:], y[400:]) > 0.98


@pytest.mark.parametrize("exponent", [-100, 100])
def test_squares_out_of_range(exponent):
    """Feature weights scale samples whose squared distances are not finite in float32."""
    X, y = linear(400)
    X = X.astype(np.float32)
    plain = RBFRegressor(random_state=0).fit(X[:300], y[:300])
    scaled = RBFRegressor(random_state=0).fit(np.ldexp(X[:300], exponent), y[:300])
    assert choice(scaled) == choice(plain) == GAUSSIAN
    np.testing.assert_allclose(
        scaled.predict(np.ldexp(X[300:], exponent)), plain.predict(X[300:]), rtol=0.01, atol=0.05
    )


def test_the_parameter_has_no_effect_after_fit():
    X, y = linear(200, 10)
    model = RBFRegressor(30, random_state=0).fit(X, y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(metric="sqeuclidean").predict(X), before)


def test_layers_of_other_estimators():
    X, y = linear(300)
    fitted = RBFRegressor(random_state=0).fit(X, y)
    other = RBFRegressor(layer=FrozenEstimator(fitted), alpha=1.0).fit(X, y)
    assert choice(other) == choice(fitted) == GAUSSIAN
    with pytest.raises(ValueError, match=r"metric='manhattan', but .* use 'euclidean' distances"):
        other.set_params(metric="manhattan").fit(X, y)


def test_invalid_metrics():
    X, y = linear(30, 3)
    with pytest.raises(ValueError, match=r"metric='cosine' is not known; choose one of .*'auto'"):
        RBFClassifier(metric="cosine").fit(X, y > 0)
    with pytest.raises(ValueError, match="metric='auto' is not known"):
        RBFProjector(metric="auto").fit(X)


def test_small_penalties_of_many_units():
    """Sums of more than 500 units are in float32 only if the penalty is of the usual size."""
    (X, y), (X_new, y_new) = spectra(620), spectra(500, seed=1)
    model = RBFRegressor(590, feature_weights=None, random_state=0).fit(X, y)
    assert model.alpha_ < 1e-5
    assert model.score(X_new, y_new) > 0.9


@pytest.mark.parametrize(
    ("parameters", "sizes", "n_selections"),
    [
        ({}, [850, 1000, 2000, None], 2),
        ({"kernel": "laplacian", "radius": 1.0}, [10, 450, 600, 800, 2000, None], 3),
        ({"kernel": "laplacian", "radius": 1.0, "feature_weights": None}, [10, 2000], 1),
    ],
)
def test_networks_share_a_selection_that_does_not_depend_on_their_size(
    parameters, sizes, n_selections
):
    keys = [parts_of(RBFClassifier(n, **parameters)).units.sharing.cache_key for n in sizes]
    assert len(set(keys)) == n_selections


def halfspace(n, n_features=8, seed=0):
    """Return samples, and the side of a plane that is oblique to all features."""
    X = np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)
    return X, X @ np.random.default_rng(1).normal(size=n_features)


@pytest.mark.parametrize("of_classes", [True, False])
@pytest.mark.parametrize("units", ["rbf", "tanh"])
def test_a_function_of_a_linear_combination_is_mapped(units, of_classes, device):
    X, combination = halfspace(900)
    y = combination > 0 if of_classes else np.sin(combination)
    classes = {"rbf": (RBFRegressor, RBFClassifier), "tanh": (TanhRegressor, TanhClassifier)}
    model = classes[units][of_classes](random_state=3, device=device).fit(X[:400], y[:400])
    weighted = clone(model).set_params(feature_weights="learned").fit(X[:400], y[:400])
    assert model.feature_map_.shape == (8, 8)
    assert model.feature_importances_.shape == (8,)
    assert weighted.feature_map_ is None
    assert model.score(X[400:], y[400:]) > weighted.score(X[400:], y[400:]) + 0.02
    if units == "rbf":
        assert choice(model) == GAUSSIAN


@pytest.mark.parametrize(
    ("parameters", "n"),
    [
        ({"feature_weights": "learned"}, 400),
        ({"kernel": "laplacian"}, 400),
        ({"metric": "manhattan"}, 400),
        ({"precision": 8}, 400),
        ({"feature_weights": np.ones(8)}, 400),
        ({"max_memory": "1MB"}, 400),
        ({}, 200),
    ],
)
def test_parameters_without_a_map(parameters, n):
    X, combination = halfspace(n)
    model = RBFClassifier(50, random_state=0, **parameters).fit(X, combination > 0)
    assert model.feature_map_ is None


def test_a_rule_over_single_features_is_not_mapped(device):
    X, _ = halfspace(400)
    corner, box = (X[:, 0] > 0) & (X[:, 1] > -0.5), np.abs(X[:, :3]).max(axis=1) < 1
    for classifier, y in ((RBFClassifier, corner), (TanhClassifier, box)):
        model = classifier(100, random_state=0, device=device).fit(X, y)
        assert model.feature_map_ is None


@pytest.mark.parametrize("exponent", [-600, 600])
def test_a_map_of_samples_whose_squares_are_out_of_range(exponent):
    X, combination = halfspace(300)
    X, y = X.astype(np.float64), combination > 0
    plain = RBFClassifier(50, random_state=0).fit(X, y)
    scaled = clone(plain).fit(np.ldexp(X, exponent), y)
    np.testing.assert_allclose(
        scaled.feature_map_ / np.abs(scaled.feature_map_).max(), plain.feature_map_, atol=1e-5
    )
    np.testing.assert_array_equal(scaled.predict(np.ldexp(X, exponent)), plain.predict(X))


def test_sparse_samples_are_mapped():
    X, combination = halfspace(300)
    X[np.abs(X) < 0.2] = 0
    model = TanhClassifier(50, random_state=0).fit(X, combination > 0)
    ours = clone(model).fit(sparse.csr_array(X), combination > 0)
    np.testing.assert_allclose(ours.feature_map_, model.feature_map_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), model.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("classifier", [RBFClassifier, TanhClassifier])
def test_samples_of_weight_0_do_not_change_the_map(classifier):
    X, combination = halfspace(300)
    y, weight = combination > 0, np.repeat([1.0, 0.0], 300)
    model = classifier(50, random_state=0)
    maps = [
        model.fit(np.vstack([X, others]), np.append(y, ~y), sample_weight=weight).feature_map_
        for others in (9 * X, X[::-1])
    ]
    np.testing.assert_array_equal(*maps)
