"""Masked classes, whose scores a logistic regression maps."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_gaussian_quantiles
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_info

import naive
from readouts.brute_force import unit_at_sample, without_each_row
from search.comparing import ALL_SCORES, compare
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, StackedClassifier, TanhClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.calibration import Calibration, fit_calibration
from sklearn_fsvc._src.readouts.matrix_scaling import fit_matrix_scaling
from sklearn_fsvc._src.readouts.softmax import train_softmax
from sklearn_fsvc._src.targets.encoding import OneHotTargets

# The class of a sample is how far it is from the origin: the middle one is masked.
SHELLS = make_gaussian_quantiles(n_samples=1600, n_features=5, random_state=0)
X_TRAIN, Y_TRAIN, X_TEST, Y_TEST = (
    SHELLS[0][:600],
    SHELLS[1][:600],
    SHELLS[0][600:],
    SHELLS[1][600:],
)
NETWORKS = [
    RBFClassifier(60, selection="random", radius=20.0, kernel="laplacian", random_state=0),
    TanhClassifier(100, scale=0.3, random_state=0),
]
NETWORKS = [network.set_params(feature_weights=None, alpha=0.1) for network in NETWORKS]


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)


def masked_scores(n_samples, n_classes=3, seed=0):
    """Return scores of which the middle classes are the largest nowhere, and the classes.

    They are the exact probabilities of a line, as straight lines fit them.
    """
    rng = np.random.default_rng(seed)
    x, codes = rng.random(n_samples), np.arange(n_samples) % n_classes
    x = (codes + x) / n_classes
    centred = (x - x.mean())[:, None] * (np.arange(n_classes) - (n_classes - 1) / 2)
    return 1 / n_classes + centred / n_classes + 0.02 * rng.normal(size=(n_samples, 1)), codes


def ridge_of(network):
    """Return the coefficients and intercepts of the plain ridge readout, in float64."""
    H, Y = naive.of_model(network, X_TRAIN), np.eye(3)[Y_TRAIN]
    return naive.ridge(H, Y, network.alpha_)


def test_masked_classes_are_predicted(network):
    W, b = ridge_of(network.fit(X_TRAIN, Y_TRAIN))
    ridge = (naive.of_model(network, X_TEST) @ W.T + b).argmax(axis=1)
    assert np.mean(ridge == Y_TEST) < 0.85
    assert np.mean(network.predict(X_TEST) == Y_TEST) > np.mean(ridge == Y_TEST) + 0.08
    p = network.predict_proba(X_TEST)
    np.testing.assert_array_equal(p.argmax(axis=1), network.predict(X_TEST))
    assert -np.log(p[np.arange(len(p)), Y_TEST]).mean() < 0.3
    in_set = network.predict_set(X_TEST, 0.95)[np.arange(len(p)), Y_TEST]
    assert 0.93 < in_set.mean() < 0.98


def test_readout_is_that_of_a_logistic_regression_on_leave_one_out_scores(network):
    X, y = X_TRAIN[:250], Y_TRAIN[:250]  # all of them calibrate
    network.set_params(n_hidden=40).fit(X, y)
    H, Y = naive.of_model(network, X), np.eye(3)
    scores = without_each_row(H, Y[y], network.alpha_, None, unit_at_sample(network, 250))
    logistic = LogisticRegression(C=10, tol=1e-12, max_iter=10_000)
    logistic.fit(np.vstack([scores, Y]), np.append(y, [0, 1, 2]))
    W, b = naive.ridge(H, Y[y], network.alpha_)
    expected = naive.of_model(network, X_TEST) @ W.T + b
    expected = expected @ logistic.coef_.T + logistic.intercept_
    actual = network.decision_function(X_TEST)
    ratio = (expected * actual).sum() / (actual**2).sum()
    np.testing.assert_allclose(actual * ratio, expected, atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("params", "fit_params"),
    [
        ({"alpha": "loo"}, {}),
        ({"precision": 8}, {}),
        ({}, {"X_val": X_TEST[:300], "y_val": Y_TEST[:300]}),
        ({}, {"sample_weight": np.full(600, 0.37)}),
        ({"class_weight": "balanced"}, {}),
    ],
    ids=["loo", "8 bits", "validation", "weights", "balanced"],
)
def test_all_kinds_of_fits_map_scores(params, fit_params):
    network = clone(NETWORKS[1]).set_params(**params)
    network.fit(X_TRAIN, Y_TRAIN, **fit_params)
    assert network.matrix_scaling_.shape == (3, 4)
    assert network.score(X_TEST[300:], Y_TEST[300:]) > 0.9


@pytest.mark.parametrize("alpha", [0.1, [0.1], "loo"])
def test_matrix_of_exact_sums_has_few_digits(alpha):
    """Rounding errors of leave-one-out scores would make it depend on the order of the samples."""
    network = clone(NETWORKS[1]).set_params(precision=8, alpha=alpha)
    matrix = network.fit(X_TRAIN, Y_TRAIN).matrix_scaling_
    fraction = np.frexp(matrix)[0]
    np.testing.assert_array_equal(fraction * 2**8, np.rint(fraction * 2**8))


def test_mapped_readouts_of_streams_are_those_of_fits():
    """Also on another engine: sums of 8-bit activations are exact."""
    one = clone(NETWORKS[1]).set_params(precision=8, device="jit").fit(X_TRAIN, Y_TRAIN)
    two = TanhClassifier(layer=FrozenEstimator(one), alpha=0.1, precision=8, device="blas")
    for rows in np.array_split(np.random.default_rng(0).permutation(600), 3):
        two.partial_fit(X_TRAIN[rows], Y_TRAIN[rows], classes=[0, 1, 2])
    assert hasattr(two.solve(), "matrix_scaling_")
    np.testing.assert_array_equal(one.readout_coef_, two.readout_coef_)
    np.testing.assert_array_equal(one.readout_intercept_, two.readout_intercept_)


def test_classes_that_do_not_occur():
    """They need no samples, of which there would be too few for 17 classes."""
    network = clone(NETWORKS[1]).partial_fit(X_TRAIN, Y_TRAIN, classes=range(17))
    assert network.score(X_TEST, Y_TEST) > 0.9
    assert network.matrix_scaling_.shape == (17, 18)
    assert network.predict_proba(X_TEST)[:, 3:].max() < 0.01


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_other_classes_are_not_mapped(network, load):
    X, y = load(return_X_y=True)
    assert not hasattr(network.fit(scale(X), y), "matrix_scaling_")


def test_noise_is_not_mapped():
    """Chance must not decide: of shuffled classes, equal scores, and scores with outliers."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        codes, outliers = rng.integers(0, 3, 300), 0.15 * rng.standard_t(3, size=(300, 3))
        noisy = 0.2 + 0.4 * np.eye(3)[codes] + outliers - outliers.mean(axis=1, keepdims=True)
        masked, equal = masked_scores(300, seed=seed)[0], np.full((300, 3), 1 / 3)
        for scores, y in ((noisy, codes), (masked, rng.permutation(codes)), (equal, codes)):
            assert fit_matrix_scaling(fit_calibration(scores, y), scores, y) is None


def test_uncovered_samples_have_the_mapped_scores_of_the_nearest_centre():
    """Shrunk to the intercept, as without a map."""
    network = clone(NETWORKS[0]).set_params(kernel="triangular").fit(X_TRAIN, Y_TRAIN)
    assert network.score(X_TEST, Y_TEST) > 0.88
    X = 100 * X_TEST[:50]
    nearest = np.abs(X[:, None] - network.centers_).sum(axis=2).argmin(axis=1)
    matrix, b = network.matrix_scaling_, network.readout_intercept_
    scores = (matrix[:, :-1] + matrix[:, -1:]).T[network.center_labels_[nearest]]
    expected = b + (scores - b) / (1 + network.alpha_)
    np.testing.assert_allclose(network.decision_function(X), expected, atol=1e-6)


def test_each_of_several_outputs_is_mapped(network):
    """Those of two classes are not."""
    y = np.column_stack([Y_TRAIN > 1, Y_TRAIN])
    each = [clone(network).fit(X_TRAIN, column) for column in y.T]
    first, second = network.fit(X_TRAIN, y).matrix_scaling_
    assert first is None
    assert not hasattr(each[0], "matrix_scaling_")
    np.testing.assert_allclose(second, each[1].matrix_scaling_, rtol=1e-4, atol=1e-4)
    for scores, one in zip(network.decision_function(X_TEST), each, strict=True):
        np.testing.assert_allclose(scores, one.decision_function(X_TEST), rtol=1e-3, atol=1e-3)


def test_base_estimators_of_ensembles_are_not_mapped():
    """Their scores would not be those by which the final estimator weighs them."""
    pair = list(zip(("rbf", "tanh"), NETWORKS, strict=True))
    ensemble = StackedClassifier(pair, random_state=0).fit(X_TRAIN, Y_TRAIN)
    networks = ensemble.estimators_
    assert not any(hasattr(network, "matrix_scaling_") for network in networks)
    assert ensemble.score(X_TEST, Y_TEST) > 0.9


def test_partial_fit_and_forget(network):
    """The matrix is fitted to the samples at hand."""
    for rows in np.split(np.arange(600), 3):
        network.partial_fit(X_TRAIN[rows], Y_TRAIN[rows], classes=[0, 1, 2])
    network.solve(fix_layer=True)
    assert network.score(X_TEST, Y_TEST) > 0.9
    matrix = network.matrix_scaling_
    network.forget(X_TRAIN[:200], Y_TRAIN[:200])
    assert network.score(X_TEST, Y_TEST) > 0.85
    assert not np.array_equal(network.matrix_scaling_, matrix)
    network.forget(X_TRAIN[200:590], Y_TRAIN[200:590]).solve()
    assert not hasattr(network, "matrix_scaling_")
    assert np.isfinite(network.predict_proba(X_TEST)).all()


@pytest.mark.parametrize("options", [{}, ALL_SCORES])
def test_searches_compare_mapped_scores(network, options):
    """With the accuracy, and with a score of decision values: neither needs probabilities."""
    search = compare(network, {"n_hidden": [60, 30]}, (X_TRAIN, Y_TRAIN), **options)
    assert isinstance(search, HiddenSizeSearchCV)
    if not options:
        assert search.cv_results_["mean_test_score"].max() > 0.85


def test_searches_of_many_classes_with_unequal_weights():
    """The sample that is left out has more than 512 rows, as 17 classes need."""
    X, y = make_gaussian_quantiles(n_samples=1200, n_features=3, n_classes=17, random_state=0)
    weight = np.ones(1200)
    weight[np.random.default_rng(1).choice(1200, 4, replace=False)] = 20
    network = TanhClassifier(60, scale=0.3, feature_weights=None, alpha=0.1, random_state=0)
    network.fit(X, y, weight)
    assert hasattr(network, "matrix_scaling_")
    cv = [(np.arange(1200), np.arange(100))]
    search = HiddenSizeSearchCV(network, {"n_hidden": [60]}, cv=cv, refit=False)
    search.fit(X, y, sample_weight=weight)
    assert search.cv_results_["mean_test_score"] == network.score(X[:100], y[:100])


def test_searches_map_the_scores_of_single_networks():
    """The largest network with the smaller penalty distinguishes the classes without a map."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-0.5, 0.5])
    network = TanhClassifier(scale=0.5, feature_weights=None, random_state=0)
    sizes = [
        clone(network).set_params(n_hidden=size, alpha=0.01).fit(X[300:], y[300:])
        for size in (60, 5)
    ]
    assert [hasattr(fitted, "matrix_scaling_") for fitted in sizes] == [False, True]
    compare(network, {"n_hidden": [60, 5], "alpha": [0.01, 1000.0]}, (X, y))


def test_softmax_readouts_are_shrunk_to_the_mapped_ridge(network, engine):
    """So a very large penalty gives that ridge, up to constants of all classes."""
    layer, X, y = layer_of(network.fit(X_TRAIN[:500], Y_TRAIN[:500])), X_TRAIN[:500], Y_TRAIN[:500]
    samples, options = Samples(X, OneHotTargets.of_column(y, 3)), {"tol": 1e-6, "ridge_alpha": 0.1}
    readout = train_softmax(Job(engine), layer, samples, 1e8, **options).solution
    W, b = engine.to_host(readout.W), engine.to_host(readout.b)
    logits = naive.hidden(layer, X_TEST) @ W.T + b
    assert np.mean(logits.argmax(axis=1) == Y_TEST) > 0.88
    expected = network.decision_function(X_TEST)
    logits, expected = (s - s.mean(axis=1, keepdims=True) for s in (logits, expected))
    assert np.corrcoef(logits.ravel(), expected.ravel())[0, 1] > 0.999


def test_devices(network, device):
    """The map is that of the scores of each device, up to rounding."""
    X = X_TRAIN.astype(np.float32)
    expected = clone(network).fit(X, Y_TRAIN).predict_proba(X_TEST)
    actual = network.set_params(device=device).fit(X, Y_TRAIN).predict_proba(X_TEST)
    np.testing.assert_allclose(actual, expected, atol=1e-2)


# The map of scores.


def test_map_of_many_classes_separates_them():
    scores, codes = masked_scores(2000, 6)
    calibration = fit_calibration(scores, codes)
    assert np.mean(scores.argmax(axis=1) == codes) < 0.4
    scaling = fit_matrix_scaling(calibration, scores, codes)
    mapped = scores @ scaling.matrix[:, :-1].T + scaling.matrix[:, -1]
    for values in (mapped, scaling.scores):
        assert np.mean(values.argmax(axis=1) == codes) > 0.9
        assert np.abs(values).max() < 1.1
    assert np.abs(mapped - scaling.scores).max() > 1e-6  # without the fold of each sample


def test_more_samples_than_are_used_have_scores():
    scores, codes = masked_scores(6000)
    scaling = fit_matrix_scaling(fit_calibration(scores, codes), scores, codes)
    assert np.mean(scaling.scores.argmax(axis=1) == codes) > 0.9


def test_unit_of_the_weights_changes_nothing():
    scores, codes = masked_scores(400)
    weight = np.random.default_rng(0).random(400)
    plain, scaled = (
        fit_matrix_scaling(Calibration(0.5, 0.16), scores, codes, w)
        for w in (weight, 1000 * weight)
    )
    np.testing.assert_allclose(plain.matrix, scaled.matrix, rtol=1e-6)
    unweighted = fit_matrix_scaling(Calibration(0.5, 0.16), scores, codes)
    assert np.abs(plain.matrix - unweighted.matrix).max() > 1e-3


def test_few_samples_of_large_weight_are_no_evidence():
    """The number of samples counts by the spread of their weights."""
    scores, codes = masked_scores(400)
    weight = np.where(np.arange(400) < 20, 1e6, 1.0)
    assert fit_matrix_scaling(Calibration(0.5, 0.16), scores, codes, weight) is None


def test_classes_that_never_occur_have_finite_scores():
    """As those that `partial_fit` lists; the ridge has the score 0 for them."""
    scores, codes = masked_scores(600)
    scores = np.column_stack([scores, np.zeros(600)])
    scaling = fit_matrix_scaling(fit_calibration(scores, codes), scores, codes)
    assert np.isfinite(scaling.matrix).all()
    assert not (scaling.scores.argmax(axis=1) == 3).any()


def test_classes_without_calibration_samples_are_not_removed():
    """A validation set may lack a class; the map would never predict it."""
    scores, codes = masked_scores(600, 4)
    scores, codes = scores[codes != 2], codes[codes != 2]
    assert fit_matrix_scaling(fit_calibration(scores, codes), scores, codes) is None
    network = clone(NETWORKS[1])
    network.fit(X_TRAIN, Y_TRAIN, X_val=X_TEST[Y_TEST != 1], y_val=Y_TEST[Y_TEST != 1])
    assert not hasattr(network, "matrix_scaling_")


def test_samples_without_weight_change_nothing():
    """They are not among the samples that are used."""
    scores, codes = masked_scores(40_000)
    weight = (np.arange(40_000) % 1000 < 3).astype(float)
    scores[weight == 0] *= 1000
    with_weight = scores[weight > 0], codes[weight > 0]
    matrix, expected = (
        fit_matrix_scaling(Calibration(0.5, 0.16), *output).matrix
        for output in ((scores, codes, weight), with_weight)
    )
    np.testing.assert_allclose(matrix, expected, rtol=1e-6)


def test_samples_that_are_not_used_do_not_count():
    """Only 2048 are, too few for the 552 coefficients."""
    scores, codes = masked_scores(3000, 24)
    assert fit_matrix_scaling(fit_calibration(scores, codes), scores, codes) is None


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e12])
def test_very_large_scores_are_not_mapped(factor):
    """The logistic regression would not converge, with warnings."""
    scores, codes = masked_scores(600)
    scores *= factor
    assert fit_matrix_scaling(fit_calibration(scores, codes), scores, codes) is None


def test_one_thread_of_blas_is_used(monkeypatch):
    """Threads that wait for busy cores would take most of the time of a fit."""
    counts = []

    def fit(self, *args):
        pools = threadpool_info()
        counts.extend(pool["num_threads"] for pool in pools if pool["user_api"] == "blas")
        return original(self, *args)

    original = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", fit)
    scores, codes = masked_scores(600)
    assert fit_matrix_scaling(fit_calibration(scores, codes), scores, codes) is not None
    assert set(counts) == {1}
