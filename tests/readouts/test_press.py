"""Leave-one-out against brute force: the readout trained again without each row."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import naive
from allocated import MIB, PER_ROW, peak
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.engines.algebra import HostAlgebra
from sklearn_fsvc.estimators import classifier
from sklearn_fsvc.estimators.targets import ClassTargets
from sklearn_fsvc.parameters import LOO_ALPHAS
from sklearn_fsvc.readouts import press as module
from sklearn_fsvc.readouts.press import PressScorer, choose_penalty, press
from sklearn_fsvc.readouts.ridge import gather
from sklearn_fsvc.rows.job import Job
from sklearn_fsvc.rows.samples import Samples

# Wide units: where one has its own centre for its only row, float32 cannot tell the
# leverage of that row from 1.
NETWORKS = [
    RBFClassifier(20, selection_radius=2.0, radius=10.0, random_state=0),
    TanhClassifier(20, random_state=0),
]
ALPHAS = [1e-5, 0.01, 1.0, 100.0]


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)


def rows_of(n_classes, dtype=float):
    X, y = make_classification(60, 8, n_informative=6, n_classes=n_classes, random_state=0)
    return X.astype(dtype), y


def some_weights(n=60):
    """From 0 to 4, a quarter of them 0."""
    rng = np.random.default_rng(1)
    return rng.random(n) * rng.integers(0, 4, n) * 2


def hidden_of(clf, X):
    return naive.hidden(clf._layer(), X)


def without_each_row(H, Y, alpha, weight=None):
    """Scores (rows, classes) of each row by a readout trained on all other rows."""
    scores = np.empty(Y.shape)
    for i in range(len(H)):
        others = np.arange(len(H)) != i
        W, b = naive.ridge(H[others], Y[others], alpha, None if weight is None else weight[others])
        scores[i] = H[i] @ W.T + b
    return scores


def error_of(scores, Y, weight=None):
    return np.average(((Y - scores) ** 2).sum(axis=1), weights=weight)


def press_of(clf, X, y, alphas, weight=None, device="jit", max_memory=None):
    """What `press` finds for the hidden layer of a fitted classifier."""
    targets = ClassTargets(np.searchsorted(clf.classes_, y), len(clf.classes_))
    samples, layer = Samples(X, targets, weight), clf._layer()
    with get_engine(device) as engine:
        job = Job(engine, max_memory)
        (statistics,) = gather(job, [layer], samples, dtype=float)
        return press(job, layer, samples, statistics, alphas, True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
@pytest.mark.parametrize("alphas", [[1e-5], [1.0], ALPHAS], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_each_row_is_scored_without_itself(
    network, n_classes, weighted, alphas, dtype, tolerance
):  # fmt: skip
    X, y = rows_of(n_classes, dtype)
    weight = some_weights() if weighted else None
    clf = network.fit(X, y, sample_weight=weight)
    found = press_of(clf, X, y, alphas, weight)
    assert found.scores.shape == (len(alphas), 60, n_classes)
    assert found.scores.dtype == dtype
    assert not len(found.outside)
    H, Y = hidden_of(clf, X), np.eye(n_classes)[y]
    for k, alpha in enumerate(alphas):
        expected = without_each_row(H, Y, alpha, weight)
        np.testing.assert_allclose(found.scores[k], expected, rtol=0, atol=tolerance)
        error = error_of(expected, Y, weight)
        np.testing.assert_allclose(found.errors[k], error, rtol=tolerance)
        W, b, problem = found.solutions[k]
        expected_W, expected_b = naive.ridge(H, Y, alpha, weight)
        assert problem == ""
        np.testing.assert_allclose(H @ W.T + b, H @ expected_W.T + expected_b, atol=tolerance)


class Numbers:
    """Targets that are no classes: several numbers for each row."""

    def __init__(self, Y):
        self.Y, self.n_outputs = Y, Y.shape[1]

    def matrix(self, rows, xp):
        return xp.asarray(self.Y[rows])


def test_targets_may_be_any_numbers(network, rng):
    X, y = rows_of(3)
    Y, weight = rng.normal(size=(60, 2)), some_weights()
    layer = network.fit(X, y)._layer()
    with get_engine("jit") as engine:
        chosen = choose_penalty(Job(engine), layer, Samples(X, Numbers(Y), weight), ALPHAS, True)
    H = naive.hidden(layer, X)
    expected = [without_each_row(H, Y, alpha, weight) for alpha in ALPHAS]
    errors = [error_of(scores, Y, weight) for scores in expected]
    np.testing.assert_allclose(chosen.errors, errors, rtol=1e-8)
    best = int(np.argmin(errors))
    assert chosen.alpha == ALPHAS[best]
    np.testing.assert_allclose(chosen.scores, expected[best], rtol=0, atol=1e-8)
    W, b = naive.ridge(H, Y, ALPHAS[best], weight)
    np.testing.assert_allclose(chosen.solution.W, W, rtol=0, atol=1e-6)
    np.testing.assert_allclose(chosen.solution.b, b, rtol=0, atol=1e-6)


def test_on_every_device(device, network):
    X, y = rows_of(3)
    weight = some_weights()
    clf = network.set_params(device=device, alpha=ALPHAS).fit(X, y, sample_weight=weight)
    H, Y = hidden_of(clf, X), np.eye(3)[y]
    expected = [without_each_row(H, Y, alpha, weight) for alpha in ALPHAS]
    errors = [error_of(scores, Y, weight) for scores in expected]
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)
    assert isinstance(clf.loo_errors_, np.ndarray)
    found = press_of(clf, X, y, ALPHAS, weight, device)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-8)
    here = clone(clf).set_params(device="jit").fit(X, y, sample_weight=weight)
    assert clf.alpha_ == here.alpha_
    np.testing.assert_allclose(clf.readout_coef_, here.readout_coef_, atol=1e-8)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_tiles_change_nothing(network, rows, monkeypatch):
    X, y = rows_of(3)
    weight = some_weights()
    clf = network.fit(X, y)
    whole = press_of(clf, X, y, ALPHAS, weight)
    monkeypatch.setattr("sklearn_fsvc.rows.streaming.rows_per_tile", lambda *_: rows)
    tiled = press_of(clf, X, y, ALPHAS, weight)
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


def test_little_memory_makes_small_tiles_and_changes_nothing(network, monkeypatch):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    whole, sizes = press_of(clf, X, y, ALPHAS), []

    class Counting(PressScorer):
        def scores(self, H, *args):
            sizes.append(len(H))
            return super().scores(H, *args)

    monkeypatch.setattr(module, "PressScorer", Counting)
    tiled = press_of(clf, X, y, ALPHAS, max_memory=62_000)
    assert len(sizes) > 1
    assert sum(sizes) == 60
    np.testing.assert_allclose(tiled.scores, whole.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiled.errors, whole.errors, rtol=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1, 1: 5, 2: 0.5}])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_are_weights_of_rows(network, class_weight, weighted):
    X, y = rows_of(3)
    kept = (y < 2) | (np.arange(60) % 3 == 0)  # few of the last class
    X, y = X[kept], y[kept]
    weight = some_weights(len(y)) if weighted else np.ones(len(y))
    clf = network.set_params(class_weight=class_weight, alpha=ALPHAS)
    clf.fit(X, y, sample_weight=weight if weighted else None)
    each = len(y) / 3 / np.bincount(y) if class_weight == "balanced" else [1, 5, 0.5]
    weight = weight * np.array(each)[y]
    H, Y = hidden_of(clf, X), np.eye(3)[y]
    errors = [error_of(without_each_row(H, Y, a, weight), Y, weight) for a in ALPHAS]
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loo_takes_the_penalty_of_the_least_error(network, n_classes):
    X, y = rows_of(n_classes)
    clf = network.set_params(alpha="loo").fit(X, y)
    H, Y = hidden_of(clf, X), np.eye(n_classes)[y]
    errors = [error_of(without_each_row(H, Y, alpha), Y) for alpha in LOO_ALPHAS]
    np.testing.assert_array_equal(clf.alphas_, LOO_ALPHAS)
    np.testing.assert_allclose(clf.loo_errors_, errors, rtol=1e-8)
    best = int(np.argmin(errors))
    assert 0 < best < len(LOO_ALPHAS) - 1  # else it would be told by the ends alone
    assert clf.alpha_ == LOO_ALPHAS[best]
    number = clone(clf).set_params(alpha=clf.alpha_).fit(X, y)
    np.testing.assert_allclose(clf.readout_coef_, number.readout_coef_, atol=1e-10)


def test_the_penalties_of_loo():
    assert len(LOO_ALPHAS) == 17
    np.testing.assert_allclose([min(LOO_ALPHAS), max(LOO_ALPHAS)], [1e-5, 1e3])
    np.testing.assert_allclose(np.diff(np.log10(LOO_ALPHAS)), 0.5)


@pytest.mark.parametrize("alpha", [[100.0, 1e-5, 1.0, 7.0], (0.3,), np.array([0.5, 5.0, 50.0])])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_several_penalties_are_the_best_one_of_them(network, alpha, dtype):
    X, y = rows_of(3, dtype)
    clf = network.set_params(alpha=alpha).fit(X, y)
    np.testing.assert_array_equal(clf.alphas_, alpha)
    assert clf.alpha_ == clf.alphas_[clf.loo_errors_.argmin()]
    assert isinstance(clf.alpha_, float)
    number = clone(clf).set_params(alpha=clf.alpha_).fit(X, y)
    # A number has its products in float32, where H is.
    tolerance = 1e-10 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(clf.readout_coef_, number.readout_coef_, atol=tolerance)
    np.testing.assert_allclose(clf.readout_intercept_, number.readout_intercept_, atol=tolerance)
    assert clf.readout_coef_.dtype == clf.readout_intercept_.dtype == dtype


OF_LEAVE_ONE_OUT = {"alphas_", "loo_errors_"}
ALL = {"alpha_", "alphas_", "loo_errors_", "temperature_"}


def found_in(clf):
    return {name for name in ALL if hasattr(clf, name)}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"alpha": 2}, {"alpha_"}),
        ({"alpha": "loo"}, {"alpha_"} | OF_LEAVE_ONE_OUT),
        ({"alpha": [0.1, 1]}, {"alpha_"} | OF_LEAVE_ONE_OUT),
        ({"alpha": 2, "probability": True}, ALL),
        ({"alpha": "loo", "probability": True}, ALL),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_attributes_are_those_of_the_last_fit(network, params, expected):
    X, y = rows_of(3)
    assert found_in(clone(network).set_params(**params).fit(X, y)) == expected
    before = network.set_params(alpha="loo", probability=True).fit(X, y)
    assert found_in(before) == ALL
    again = before.set_params(**{"probability": False} | params).fit(X, y)
    assert found_in(again) == expected
    if params["alpha"] == 2:
        assert again.alpha_ == 2.0
        if again.probability:
            np.testing.assert_array_equal(again.alphas_, [2.0])
            assert again.loo_errors_.shape == (1,)


@pytest.mark.parametrize("readout", ["lms", "none"])
def test_other_readouts_have_no_penalty(readout):
    X, y = rows_of(3)
    clf = RBFClassifier(20, random_state=0, readout=readout, max_iter=1)
    assert not found_in(clone(clf).fit(X, y))
    clf.set_params(readout="ridge", alpha="loo", probability=True).fit(X, y)
    clf.set_params(readout=readout, probability=False).fit(X, y)
    assert not found_in(clf)


def test_a_number_takes_one_pass(network, monkeypatch):
    """Leave-one-out costs those who ask for it alone."""
    monkeypatch.setattr(module, "press", None)
    network.fit(*rows_of(3))
    with pytest.raises(TypeError):
        network.set_params(alpha=[1.0]).fit(*rows_of(3))


@pytest.mark.parametrize("params", [{"shuffle": False}, {}], ids=["RBF", "Tanh"])
def test_rows_of_weight_zero_are_absent_and_scored_by_all_others(params):
    X, y = rows_of(3)
    kept = np.random.default_rng(0).random(60) < 0.7
    if params:
        clf = RBFClassifier(20, alpha=ALPHAS, **params)
    else:
        clf = TanhClassifier(20, alpha=ALPHAS, random_state=0)
    with_zeros = clone(clf).fit(X, y, sample_weight=kept.astype(float))
    without = clone(clf).fit(X[kept], y[kept])
    np.testing.assert_allclose(with_zeros.loo_errors_, without.loo_errors_, rtol=1e-8)
    assert with_zeros.alpha_ == without.alpha_
    found = press_of(with_zeros, X, y, [with_zeros.alpha_], kept.astype(float))
    np.testing.assert_allclose(
        found.scores[0][~kept], with_zeros.decision_function(X)[~kept], rtol=0, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("alpha", [0.0, 1e-9, [0.0], [0.0, 1e-12, 1.0]], ids=str)
@pytest.mark.parametrize(
    "clf", [RBFClassifier(40, selection="random", random_state=0), TanhClassifier(60)], ids=str
)
def test_rows_that_are_fitted_exactly_have_finite_errors(clf, alpha, dtype):
    """As many units as rows and more: nothing is left of a row once it is left out."""
    X, y = rows_of(2, dtype)
    X, y = X[:40], y[:40]
    clf = clone(clf).set_params(alpha=alpha, probability=True).fit(X, y)
    assert np.isfinite(clf.loo_errors_).all()
    assert (clf.loo_errors_ >= 0).all()
    assert np.isfinite(clf.readout_coef_).all()
    assert np.isfinite(clf.predict_proba(X)).all()


def test_a_row_of_nearly_all_the_weight():
    X, y = rows_of(3)
    weight = np.ones(60)
    weight[7] = 1e7
    clf = TanhClassifier(20, random_state=0).fit(X, y)
    found = press_of(clf, X, y, [1.0], weight)
    expected = without_each_row(hidden_of(clf, X), np.eye(3)[y], 1.0, weight)
    np.testing.assert_allclose(found.scores[0], expected, rtol=0, atol=1e-5)


def test_penalties_that_are_too_small_warn_if_they_are_taken():
    X, y = load_iris(return_X_y=True)
    clf = RBFClassifier(100, radius=1e6, selection="random", random_state=0, alpha=[0.0])
    with pytest.warns(ConvergenceWarning, match="condition number"):
        clf.fit(X, y)
    clf = RBFClassifier(100, radius=2.0, selection="random", random_state=0)
    X = np.hstack([X, X])
    X[50:100] = X[:50]  # units twice over
    clf.set_params(alpha=[0.0, 1.0]).fit(X, y)  # and no warning
    assert clf.alpha_ == 1.0
    assert "ill-conditioned" in press_of(clf, X, y, [0.0, 1.0]).solutions[0].problem


@pytest.fixture(params=[2, 3])
def apart(request):
    """A network of narrow units, and rows most of which are outside all of them."""
    X, y = rows_of(request.param)
    radius = 0.1 * np.median(naive.distances(X, X, "manhattan"))
    clf = RBFClassifier(20, selection="random", radius=radius, random_state=0)
    return clf.fit(X, y), X, y


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_rows_outside_every_unit_are_known(apart, rows, monkeypatch):
    clf, X, y = apart
    monkeypatch.setattr("sklearn_fsvc.rows.streaming.rows_per_tile", lambda n, *_: min(rows, n))
    outside = np.flatnonzero(~hidden_of(clf, X).any(axis=1))
    assert 10 < len(outside) < 50
    np.testing.assert_array_equal(press_of(clf, X, y, ALPHAS).outside, outside)


@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_rows_outside_every_unit_are_calibrated_as_they_are_answered(apart, alpha, monkeypatch):
    clf, X, y = apart
    given = []

    def fit_temperature(scores, y, weight=None, fit=classifier.fit_temperature):
        given.append(np.array(scores))
        return fit(scores, y, weight)

    monkeypatch.setattr(classifier, "fit_temperature", fit_temperature)
    clf.set_params(alpha=alpha, probability=True).fit(X, y)
    H, Y = hidden_of(clf, X), np.eye(len(clf.classes_))[y]
    outside = ~H.any(axis=1)
    answered = clf.decision_function(X).reshape(len(X), -1)
    np.testing.assert_array_equal(given[0][outside], answered[outside])
    inside = without_each_row(H, Y, clf.alpha_)
    inside = np.diff(inside, axis=1) if len(clf.classes_) == 2 else inside
    np.testing.assert_allclose(given[0][~outside], inside[~outside], rtol=0, atol=1e-8)


# What several layers share, and what memory has to do with it.


@pytest.fixture
def layers(rng):
    """Two layers on the same units, and rows for them."""
    X, y = rows_of(3)
    clf = RBFClassifier(20, random_state=0).fit(X, y)
    wide = clone(clf).set_params(radius=2 * clf.radius_, selection_radius=clf.selection_radius_)
    return [clf._layer(), wide.fit(X, y)._layer()], X, y


def statistics_of(layers, X, y, weight=None, **how):
    with get_engine("jit") as engine:
        return gather(Job(engine), layers, Samples(X, ClassTargets(y, 3), weight), **how)


def assert_statistics(found, layer, X, y, weight=None):
    H, Y = naive.hidden(layer, X), np.eye(3)[y]
    w = np.ones(len(H)) if weight is None else weight
    assert found.n == pytest.approx(w.sum())
    found = found._seen_from(np.zeros(len(found.h)))
    np.testing.assert_allclose(found.h, w @ H, atol=1e-10)
    np.testing.assert_allclose(found.y, w @ Y, atol=1e-10)
    np.testing.assert_allclose(found.hy, H.T @ (w[:, None] * Y), atol=1e-10)
    np.testing.assert_allclose(np.tril(found.gram), np.tril(H.T @ (w[:, None] * H)), atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_statistics_of_several_layers(layers, rng, weighted, some):
    layers, X, y = layers
    weight = some_weights() if weighted else None
    rows = rng.permutation(60)[:40] if some else np.arange(60)
    found = statistics_of(layers, X, y, weight, rows=rows if some else None)
    assert len(found) == 2
    for of_layer, layer in zip(found, layers, strict=True):
        w = None if weight is None else weight[rows]
        assert_statistics(of_layer, layer, X[rows], y[rows], w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [1, 5, 40])
def test_out_of_memory_in_a_product_counts_each_row_once(layers, monkeypatch, weighted, most):
    layers, X, y = layers
    weight = some_weights() if weighted else None
    calls, add_gram = [0], HostAlgebra.add_gram

    def short(total, H):
        calls[0] += 1
        if len(H) > most and calls[0] % 2 == 0:  # the first layer has it
            raise MemoryError
        add_gram(total, H)

    monkeypatch.setattr(HostAlgebra, "add_gram", staticmethod(short))
    for of_layer, layer in zip(statistics_of(layers, X, y, weight), layers, strict=True):
        assert_statistics(of_layer, layer, X, y, weight)
    assert calls[0] > 2


def test_the_product_is_made_in_the_dtype_asked_for(layers):
    layers, X, y = layers
    X = X.astype(np.float32)
    layer = layers[0].astype(np.float32)
    for dtype, eps in ((None, 1.2e-7), (np.float32, 1.2e-7), (float, 2.3e-16)):
        (found,) = statistics_of([layer], X, y, dtype=dtype)
        assert found.gram.dtype == np.float64
        assert found.rounding == pytest.approx(eps, rel=0.1)


def test_too_little_memory_is_refused_with_the_number(network):
    X, y = rows_of(3)
    clf = network.fit(X, y)
    with get_engine("jit") as engine:
        samples, layer = Samples(X, ClassTargets(y, 3)), clf._layer()
        (statistics,) = gather(Job(engine), [layer], samples, dtype=float)
        with pytest.raises(ValueError, match=r"leave-one-out needs \d{4} .*Raise max_memory"):
            press(Job(engine, 5_000), layer, samples, statistics, [1.0], False)


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_the_budget_is_kept(alpha, probability):
    """As in test_memory.py, with so few units that what is kept for each row shows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 20_000)
    X = (rng.random((20_000, 10)) + y[:, None] / 4).astype(np.float32)
    clf = TanhClassifier(200, alpha=alpha, probability=probability, random_state=0, device="jit")
    clf.set_params(max_memory=4 * MIB)
    clf.fit(X, y)  # compiled and imported before it is measured
    _, fit = peak(clf.fit, X, y)
    assert fit <= 4 * MIB + 20_000 * PER_ROW
