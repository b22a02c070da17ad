"""The penalty that leave-one-out errors select, and the fitted attributes of a classifier."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import naive
from readouts.brute_force import (
    ALPHAS,
    error_of,
    hidden_of,
    press_of,
    rows_of,
    some_weights,
    unit_at_sample,
    without_each_row,
)
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    TanhClassifier,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.layers import TanhLayer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts import loo_penalty as module
from sklearn_fsvc._src.readouts.draw_sample import sample_unique
from sklearn_fsvc._src.readouts.loo_penalty import (
    LOOCriterion,
    gather_and_search_loo,
    select_from_loo_grid,
)
from sklearn_fsvc._src.readouts.penalty_search import ALPHA_STEP, SearchHistory
from sklearn_fsvc._src.readouts.press import LOOScorer, PressResult
from sklearn_fsvc._src.readouts.statistics import MAX_FACTORS
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc._src.utils.parameters import LOO_ALPHAS
from sklearn_fsvc.engines import get_engine


def loo_errors(clf, X, y, alphas, weight=None):
    """Return leave-one-out errors by brute force."""
    H, Y, own = hidden_of(clf, X).astype(float), np.eye(y.max() + 1)[y], unit_at_sample(clf, len(X))
    return [error_of(scores, Y, weight) for scores in without_each_row(H, Y, alphas, weight, own)]


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1, 1: 5, 2: 0.5}])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_are_sample_weights(network, class_weight, weighted):
    X, y = rows_of(3)
    kept = (y < 2) | (np.arange(60) % 3 == 0)  # few of the last class
    X, y = X[kept], y[kept]
    weight = some_weights(len(y)) if weighted else np.ones(len(y))
    clf = network.set_params(class_weight=class_weight, alpha=ALPHAS)
    clf.fit(X, y, sample_weight=weight if weighted else None)
    balanced = weight.sum() / 3 / np.bincount(y, weight)
    each = balanced if class_weight == "balanced" else [1, 5, 0.5]
    weight = weight * np.array(each)[y]
    errors = loo_errors(clf, X, y, ALPHAS, weight)
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loo_selects_the_penalty_of_the_lowest_error(network, n_classes):
    X, y = rows_of(n_classes)
    clf = network.set_params(alpha="loo").fit(X, y)
    errors = loo_errors(clf, X, y, LOO_ALPHAS)
    np.testing.assert_array_equal(clf.alphas_, LOO_ALPHAS)
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)
    best = int(np.argmin(errors))
    assert 0 < best < len(LOO_ALPHAS) - 1  # an inner minimum
    assert clf.alpha_ == LOO_ALPHAS[best]
    number = clone(clf).set_params(alpha=clf.alpha_).fit(X, y)
    np.testing.assert_allclose(clf.readout_coef_, number.readout_coef_, atol=1e-10)


@pytest.mark.parametrize("n_together", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_search_descends_if_there_are_many_units(
    network, n_together, dtype, device, monkeypatch
):
    X, y = rows_of(3, dtype)
    clf = network.set_params(device=device, alpha="loo").fit(X, y)
    samples, layer = Samples(X, OneHotTargets.of_column(y, 3)), layer_of(clf)
    samples = samples.with_centers(getattr(clf, "support_", None))
    with get_engine(device) as engine:
        job, start = Job(engine), (np.random.default_rng(0), 0.1)
        whole = select_from_loo_grid(job, layer, samples, LOO_ALPHAS, True)
        monkeypatch.setattr(module, "FEW_UNITS", 0)
        monkeypatch.setattr(module, "_penalties_per_pass", lambda *_: n_together)
        chosen = select_from_loo_grid(job, layer, samples, LOO_ALPHAS, True, start=start)
        W, expected_W = (engine.to_host(found.solution.W) for found in (chosen, whole))
    assert whole.alphas == LOO_ALPHAS
    assert len(chosen.alphas) < len(LOO_ALPHAS)
    at = np.searchsorted(LOO_ALPHAS, chosen.alphas)
    np.testing.assert_array_equal(np.diff(at), 1)
    tolerance = 1e-8 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(chosen.errors, whole.errors[at], rtol=tolerance)
    # Both neighbours of the best penalty are worse.
    assert 0 < chosen.errors.argmin() < len(chosen.alphas) - 1
    assert chosen.alpha == whole.alpha == clf.alpha_
    errors = loo_errors(clf, X, y, chosen.alphas)
    np.testing.assert_allclose(chosen.errors, errors, rtol=tolerance)
    np.testing.assert_allclose(W, expected_W, rtol=0, atol=tolerance)
    np.testing.assert_allclose(chosen.scores, whole.scores, rtol=0, atol=1e2 * tolerance)


def test_penalties_per_pass_depend_on_memory():
    layer = TanhLayer(np.ones((50, 3)), np.zeros(50))
    needed = LOOScorer.nbytes(50, 8, HOST, 2 * MAX_FACTORS)
    with get_engine("jit") as engine:
        n_penalties = [
            module._penalties_per_pass(Job(engine, 2 * needed - n), layer) for n in (0, 2)
        ]
    assert n_penalties == [MAX_FACTORS, 1]


@pytest.mark.parametrize("n_together", [1, 3])
@pytest.mark.parametrize("valley", [0, 1, 5, 8])
def test_descend_finds_the_minimum_from_any_start(n_together, valley):
    alphas = [10.0**k for k in range(9)]
    for start in (1e-9, 1.0, 2e3, 1e99):
        evaluated = []

        def evaluate(penalties, n_kept, evaluated=evaluated):
            assert len(penalties) <= n_together
            evaluated.extend(penalties)
            errors = np.abs(np.log10(penalties) - valley)
            return PressResult(penalties, None, errors, None, None)

        path, errors, result, best = module._descend(evaluate, alphas, start, n_together)
        assert result.alphas[best] == alphas[valley]
        assert (
            sorted(evaluated) == path == alphas[alphas.index(path[0]) : alphas.index(path[-1]) + 1]
        )
        assert {alphas[max(0, valley - 1)], alphas[min(8, valley + 1)]} <= set(path)
        np.testing.assert_array_equal(errors, np.abs(np.log10(path) - valley))


def test_the_penalties_of_loo():
    assert len(LOO_ALPHAS) == 17
    np.testing.assert_allclose([min(LOO_ALPHAS), max(LOO_ALPHAS)], [1e-5, 1e3])
    np.testing.assert_allclose(np.diff(np.log10(LOO_ALPHAS)), 0.5)


@pytest.mark.parametrize("alpha", [[100.0, 1e-5, 1.0, 7.0], (0.3,), np.array([0.5, 5.0, 50.0])])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_best_of_several_penalties_is_used(network, alpha, dtype):
    X, y = rows_of(3, dtype)
    clf = network.set_params(alpha=alpha).fit(X, y)
    np.testing.assert_array_equal(clf.alphas_, alpha)
    assert clf.alpha_ == clf.alphas_[clf.loo_errors_.argmin()]
    assert isinstance(clf.alpha_, float)
    number = clone(clf).set_params(alpha=clf.alpha_).fit(X, y)
    # With a given penalty, products of a float32 H are in float32.
    tolerance = 1e-10 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(clf.readout_coef_, number.readout_coef_, atol=tolerance)
    np.testing.assert_allclose(clf.readout_intercept_, number.readout_intercept_, atol=tolerance)
    assert clf.readout_coef_.dtype == clf.readout_intercept_.dtype == dtype


OF_LEAVE_ONE_OUT = {"alphas_", "loo_errors_"}
ALL = {"alpha_", "alphas_", "loo_errors_", "temperature_", "score_scale_"}


def fitted_attributes(clf):
    return {name for name in ALL if hasattr(clf, name)}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"alpha": 2}, ALL - OF_LEAVE_ONE_OUT),
        ({"alpha": "loo"}, ALL),
        ({"alpha": [0.1, 1]}, ALL),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_attributes_are_those_of_the_last_fit(network, params, expected):
    X, y = rows_of(3)
    assert fitted_attributes(clone(network).set_params(**params).fit(X, y)) == expected
    before = network.set_params(alpha="loo").fit(X, y)
    assert fitted_attributes(before) == ALL
    again = before.set_params(**params).fit(X, y)
    assert fitted_attributes(again) == expected
    if params["alpha"] == 2:
        assert again.alpha_ == 2.0


def test_a_softmax_readout_has_no_scale_of_scores(network):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    assert clf.score_scale_ > 0
    clf.set_params(readout="softmax").fit(X, y)
    assert fitted_attributes(clf) == {"alpha_", "temperature_"}


@pytest.mark.parametrize("readout", ["lms", "none"])
def test_other_readouts_have_no_penalty(readout):
    X, y = rows_of(3)
    given = {"feature_weights": None, "kernel": "laplacian", "radius": 3.0}
    clf = RBFClassifier(20, random_state=0, readout=readout, max_iter=1, **given)
    assert not fitted_attributes(clone(clf).fit(X, y))
    clf.set_params(readout="ridge", alpha="loo").fit(X, y)
    clf.set_params(readout=readout).fit(X, y)
    assert not fitted_attributes(clf)


def test_a_given_penalty_skips_leave_one_out(network, monkeypatch):
    monkeypatch.setattr(module, "compute_press", None)
    network.fit(*rows_of(3))
    with pytest.raises(TypeError):
        network.set_params(alpha=[1.0]).fit(*rows_of(3))


@pytest.mark.parametrize("params", [{"shuffle": False}, {}], ids=["RBF", "Tanh"])
def test_samples_of_weight_zero_are_scored_but_not_trained_on(params):
    X, y = rows_of(3)
    kept = np.random.default_rng(0).random(60) < 0.7
    if params:
        clf = RBFClassifier(20, alpha=ALPHAS, random_state=0, **params)
    else:
        clf = TanhClassifier(20, alpha=ALPHAS, random_state=0)
    with_zeros = clone(clf).fit(X, y, sample_weight=kept.astype(float))
    without = clone(clf).fit(X[kept], y[kept])
    np.testing.assert_allclose(with_zeros.loo_errors_, without.loo_errors_, rtol=1e-8)
    assert with_zeros.alpha_ == without.alpha_
    actual = press_of(with_zeros, X, y, [with_zeros.alpha_], kept.astype(float))
    np.testing.assert_allclose(
        actual.scores[0][~kept], with_zeros.decision_function(X)[~kept], rtol=0, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("alpha", [0.0, 1e-9, [0.0], [0.0, 1e-12, 1.0]], ids=str)
@pytest.mark.parametrize(
    "clf", [RBFClassifier(40, selection="random", random_state=0), TanhClassifier(60)], ids=str
)
def test_samples_with_a_leverage_of_one(clf, alpha, dtype):
    """With as many units as samples, leave-one-out scores are undefined: errors are not 0."""
    X, y = rows_of(2, dtype)
    X, y = X[:40], y[:40]
    clf = clone(clf).set_params(alpha=alpha).fit(X, y)
    errors = getattr(clf, "loo_errors_", np.zeros(1))
    assert (errors >= 0).all()
    if len(errors) == 3 and isinstance(clf, TanhClassifier):
        assert np.isinf(errors[0])
        assert clf.alpha_ == 1.0
    assert np.isfinite(clf.readout_coef_).all()
    assert np.isfinite(clf.predict_proba(X)).all()


def test_too_small_penalties_warn_only_if_chosen():
    X, y = load_iris(return_X_y=True)
    given = {"feature_weights": None, "kernel": "laplacian", "selection": "random"}
    clf = RBFClassifier(100, radius=1e6, random_state=0, alpha=[0.0], **given)
    with pytest.warns(ConvergenceWarning, match="condition number"):
        clf.fit(X, y)
    clf = RBFClassifier(100, radius=2.0, random_state=0, **given)
    X = np.hstack([X, X])
    X[50:100] = X[:50]  # duplicate units
    clf.set_params(alpha=[0.0, 1.0]).fit(X, y)  # and no warning
    assert clf.alpha_ == 1.0
    assert "ill-conditioned" in press_of(clf, X, y, [0.0, 1.0]).solutions[0].problem


PENALTIES = [ALPHA_STEP**power for power in range(-8, 11)]


def best_by_brute_force(clf, X, y, weight=None, prefers_large=False):
    """Return the penalty with the lowest error of readouts retrained without each sample.

    The unit centred at the sample is left out, too. Of many units that are centred at samples, half
    are used. With `prefers_large`, return the largest penalty whose error exceeds the lowest one by
    at most one standard error, and 2 %.
    """
    H, Y, own = hidden_of(clf, X), np.eye(y.max() + 1)[y], unit_at_sample(clf, len(X))
    is_half = hasattr(clf, "support_") and H.shape[1] > module.MIN_HALVED_UNITS
    H = H[:, : -(-H.shape[1] // 2)] if is_half else H
    weight = np.ones(len(y)) if weight is None else weight
    scores = without_each_row(H, Y, PENALTIES, weight, own)
    losses = np.array([((Y - s) ** 2).sum(axis=1) for s in scores])
    share = weight / weight.sum()
    best = at = int((losses @ share).argmin())
    while prefers_large and at + 1 < len(PENALTIES):
        difference = losses[at + 1] - losses[best]
        mean = share @ difference
        standard_error = (share**2 @ (difference - mean) ** 2) ** 0.5
        if mean > min(standard_error, 0.02 * losses[best] @ share):
            break
        at += 1
    return PENALTIES[at]


@pytest.mark.parametrize(
    ("weighted", "start", "many", "prefers_large"),
    [(False, 0.01, 1000, False), (True, 100.0, 19, False), (True, 0.01, 1000, True)],
)
def test_search_finds_the_best_penalty(network, weighted, start, many, prefers_large, monkeypatch):
    monkeypatch.setattr(module, "MIN_HALVED_UNITS", many)
    X, y = rows_of(3)
    weight = some_weights() if weighted else None
    clf = network.fit(X, y)
    job, samples = Job(get_engine("jit")), Samples(X, OneHotTargets.of_column(y, 3), weight)
    sample, history = sample_unique(job, samples), SearchHistory(start)
    criterion = LOOCriterion(sample, clf._parts().units, prefers_large=prefers_large)
    result, statistics = gather_and_search_loo(job, layer_of(clf), samples, criterion, history)
    best = best_by_brute_force(clf, X, y, weight, prefers_large)
    assert result.alpha == pytest.approx(best)
    assert statistics.n == pytest.approx(60 if weight is None else weight.sum())
    assert [row["alpha"] for row in history.rows] == list(result.tried)
    assert result.error == result.tried[result.alpha]


def test_the_penalty_of_regressors_has_the_lowest_error(rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=120)
    model = RBFRegressor(60, feature_weights=None, random_state=0).fit(X, y)
    H, Y, own = (
        naive.of_model(model, X),
        (y[:, None] - y.mean()) / y.std(),
        unit_at_sample(model, 120),
    )
    errors = [error_of(scores, Y) for scores in without_each_row(H, Y, PENALTIES, own=own)]
    assert model.alpha_ == pytest.approx(PENALTIES[int(np.argmin(errors))])


@pytest.mark.parametrize(
    "network", [RBFClassifier(30, metric="manhattan"), TanhClassifier(30)], ids=str
)
def test_auto_is_the_leave_one_out_penalty(network, monkeypatch):
    """A hold-out set selects another one: for random units of a single network, or many samples."""
    X, y = make_classification(150, 8, n_informative=6, flip_y=0.2, random_state=5)
    network = clone(network).set_params(feature_weights=None, random_state=0)
    single, is_rbf = clone(network).fit(X, y), isinstance(network, RBFClassifier)
    if is_rbf:
        best = best_by_brute_force(single, X, y, prefers_large=True)
        assert single.alpha_ == pytest.approx(best)
    best = best_by_brute_force(single, X, y)
    ensemble = StackedClassifier([("a", network)], final_estimator=None, random_state=0)
    assert ensemble.fit(X, y).estimators_[0].alpha_ == pytest.approx(best)
    monkeypatch.setattr(module, "MAX_LOO_ROWS", 149)
    assert (clone(network).fit(X, y).alpha_ == pytest.approx(single.alpha_)) != is_rbf
    assert clone(ensemble).fit(X, y).estimators_[0].alpha_ != pytest.approx(best)
