"""Classifiers of one output: the formula, sample weights, dtypes, memory, copies and progress."""

import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import train_test_split

import naive
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.data import job
from sklearn_fsvc._src.hidden_layers import centers
from sklearn_fsvc._src.parts.composition import layer_of

# The kernel and feature weights are given, so that only a width and the penalty are searched.
TANH = {"feature_weights": None, "random_state": 0}
RBF = {"kernel": "laplacian", **TANH}
CLASSIFIERS = [RBFClassifier(40, **RBF), TanhClassifier(40, **TANH)]
READOUTS = ["ridge", "lms", "none"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, train_size=600, test_size=300, random_state=0)


@pytest.fixture(params=CLASSIFIERS, ids=lambda c: type(c).__name__)
def classifier(request):
    return clone(request.param)


def hidden_of(clf, X):
    return naive.of_model(clf, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_equals_the_formula(device, classifier, n_classes):
    X, y = make_classification(
        200, 10, n_informative=6, n_classes=n_classes, random_state=0
    )  # fmt: skip
    clf = classifier.set_params(device=device, alpha=0.1).fit(X, y)
    H, Y = hidden_of(clf, X), np.eye(n_classes)[y]
    W, b = naive.ridge(H, Y, 0.1)
    scores = H @ W.T + b
    if n_classes == 2:
        scores = scores[:, 1] - scores[:, 0]
        assert clf.readout_coef_.shape == (1, H.shape[1])
    np.testing.assert_allclose(clf.decision_function(X), scores, atol=1e-6)
    expected = scores > 0 if n_classes == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(clf.predict(X), expected)


@pytest.mark.parametrize(
    ("selection", "metric", "kernel"),
    [
        ("per_class", "manhattan", "triangular"), ("global", "euclidean", "triangular"),
        ("random", "sqeuclidean", "gaussian"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)  # other pairs of the same values
            for case in (
                ("global", "manhattan", "gaussian"), ("random", "manhattan", "triangular"),
                ("per_class", "euclidean", "gaussian"), ("random", "euclidean", "gaussian"),
                ("per_class", "sqeuclidean", "gaussian"), ("global", "sqeuclidean", "triangular"),
            )
        ),
    ],
)  # fmt: skip
def test_rbf_attributes(digits, selection, metric, kernel):
    X, X_test, y, y_test = digits
    labels = np.array(list("abcdefghij"))[y]
    clf = RBFClassifier(
        150, selection=selection, metric=metric, kernel=kernel, feature_weights=None, random_state=0
    ).fit(X, labels)  # fmt: skip
    m = len(clf.centers_)
    assert 0.9 * 150 <= m <= 150
    np.testing.assert_array_equal(clf.centers_, X[clf.support_])
    np.testing.assert_array_equal(clf.center_labels_, labels[clf.support_])
    np.testing.assert_array_equal(
        clf.n_support_, [(clf.center_labels_ == c).sum() for c in clf.classes_]
    )
    assert clf.readout_coef_.shape == (10, m)
    assert clf.readout_intercept_.shape == (10,)
    assert (clf.selection_radius_ is None) == (selection == "random")
    assert clf.device_ == "jit"
    assert clf.score(X_test, np.array(list("abcdefghij"))[y_test]) > 0.93


@pytest.mark.parametrize("selection", ["per_class", "global"])
def test_without_n_hidden_all_novel_samples_are_centres(digits, selection):
    X, _, y, _ = digits
    clf = RBFClassifier(selection=selection, readout="none", random_state=0)
    auto = clone(clf).fit(X, y)
    assert auto.selection_radius_ == auto.radius_
    assert 0.24 * len(X) <= len(auto.centers_) <= 0.25 * len(X)
    fixed = clf.set_params(radius=auto.radius_).fit(X, y)
    np.testing.assert_array_equal(fixed.support_, auto.support_)
    in_order = clf.set_params(radius=60.0, shuffle=False).fit(X, y)
    groups = y if selection == "per_class" else np.zeros_like(y)
    np.testing.assert_array_equal(
        in_order.support_, naive.novel_rows_by_group(X, groups, 60.0, 1.0)
    )


@pytest.mark.parametrize("selection", ["per_class", "global", "random"])
def test_without_n_hidden_most_samples_are_centres(digits, selection, monkeypatch):
    X, _, y, _ = digits
    clf = RBFClassifier(
        selection=selection, kernel="laplacian", alpha=1.0, feature_weights=None, random_state=0
    )
    assert 0.97 * len(X) <= len(clone(clf).fit(X, y).centers_) <= len(X)
    monkeypatch.setattr(centers, "_ALL_SAMPLES", 100)
    clf.fit(X, y)
    assert 0.72 * len(X) <= len(clf.centers_) <= 0.75 * len(X)
    # The radius of the selection is not the radius of the units.
    assert clf.selection_radius_ != clf.radius_


def test_more_units_than_samples_gives_all_samples(digits):
    X, _, y, _ = digits
    with pytest.warns(UserWarning, match="n_hidden=500 is more than the 200 samples"):
        clf = RBFClassifier(500, selection="random", **RBF).fit(X[:200], y[:200])
    np.testing.assert_array_equal(np.sort(clf.support_), np.arange(200))


def test_a_smaller_network_has_the_first_units(digits):
    X, _, y, _ = digits
    small, large = (
        RBFClassifier(n, selection_radius=30.0, alpha=1.0, **RBF).fit(X, y) for n in (400, 420)
    )
    np.testing.assert_array_equal(small.support_, large.support_[:400])
    assert len(large.support_) == 420
    # Small networks choose the radius, so it does not depend on the final number of units.
    assert small.radius_ == large.radius_
    small, large = (TanhClassifier(n, alpha=1.0, **TANH).fit(X, y) for n in (50, 120))
    np.testing.assert_allclose(small.components_, large.components_[:50], atol=1e-12)
    np.testing.assert_allclose(small.hidden_intercept_, large.hidden_intercept_[:50], atol=1e-12)


@pytest.mark.parametrize("shuffle", [True, False])
def test_random_centres_of_a_smaller_network_are_the_first(digits, shuffle):
    X, _, y, _ = digits
    few, many = (
        RBFClassifier(n, selection="random", readout="none", shuffle=shuffle, random_state=0)
        .fit(X, y)
        .support_
        for n in (20, 50)
    )
    np.testing.assert_array_equal(few, many[:20])
    assert len(set(many)) == 50
    assert max(many) > 500


def test_fewer_units_than_classes(digits):
    """No radius selects so few novel samples, but n_hidden is never exceeded."""
    X, _, y, _ = digits
    assert len(RBFClassifier(7, **RBF).fit(X, y).centers_) == 7


def test_as_many_units_as_samples():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="n_hidden=150, but only 149 samples differ"):
        clf = RBFClassifier(150, radius=0.5, random_state=0).fit(X, y)
    assert len(clf.centers_) == len(np.unique(X, axis=0)) == 149


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_uncovered_samples_get_the_class_of_the_nearest_centre(readout, n_classes):
    X = np.array([[0.0, 0], [0, 1], [10, 0], [10, 1], [20, 0], [20, 1]])[: 2 * n_classes]
    y = np.repeat(["x", "y", "z"], 2)[: 2 * n_classes]
    clf = RBFClassifier(
        radius=0.1, kernel="triangular", feature_weights=None, readout=readout, random_state=0
    ).fit(X, y)
    far = np.array([[4.0, 50], [6, 50], [16, -90]])[:n_classes]
    np.testing.assert_array_equal(clf.predict(far), ["x", "y", "z"][:n_classes])
    scores = clf.decision_function(np.vstack([far, X]))[: len(far)]
    expected = np.array([-1.0, 1.0]) if n_classes == 2 else np.eye(3)
    if readout in ("ridge", "softmax"):  # shrunk towards the intercept
        b = clf.readout_intercept_
        expected = b + (expected - b) / (1 + clf.alpha_)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-7)
    for other in READOUTS:  # has no effect before the next fit
        clf.set_params(readout=other)
        np.testing.assert_array_equal(clf.decision_function(far), scores[: len(far)])


def test_the_penalty_shrinks_scores_of_uncovered_samples():
    """They shrink to the class means, like the scores of all other samples."""
    X, y = np.arange(30.0)[:, None], np.arange(30) % 3
    far, given = np.array([[0.5], [80.0], [200.0]]), {"kernel": "triangular", "radius": 0.1}
    clf = RBFClassifier(alpha=1e9, feature_weights=None, random_state=0, **given).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(far), 1 / 3, rtol=0, atol=1e-6)
    np.testing.assert_allclose(clf.predict_proba(far), 1 / 3, rtol=0, atol=1e-2)


@pytest.mark.parametrize("readout", READOUTS)
def test_integer_sample_weights_equal_repetitions(rng, readout):
    X, y = make_classification(120, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    times = rng.integers(1, 4, 120)
    common = {
        "radius": 1.5, "selection_radius": 0.8, "kernel": "triangular", "feature_weights": None,
        "alpha": 1.0, "readout": readout, "shuffle": False,
    }  # fmt: skip
    weighted = RBFClassifier(**common).fit(X, y, sample_weight=times)
    repeated = RBFClassifier(**common).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.centers_, repeated.centers_)
    if readout != "lms":  # LMS updates the readout after each repetition
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-9
        )


@pytest.mark.parametrize("readout", READOUTS)
def test_samples_of_weight_zero_have_no_effect(rng, readout):
    X, y = make_classification(120, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    kept = rng.random(120) < 0.7
    clf = RBFClassifier(
        radius=1.0, kernel="laplacian", feature_weights=None, readout=readout, shuffle=False,
        learning_rate=0.05, random_state=0,
    )  # fmt: skip
    with_zeros = clone(clf).fit(X, y, sample_weight=kept.astype(float))
    without = clone(clf).fit(X[kept], y[kept])
    np.testing.assert_array_equal(with_zeros.centers_, without.centers_)
    np.testing.assert_allclose(
        with_zeros.decision_function(X), without.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("readout", ["lms", "none"])
def test_class_weight_without_ridge(readout):
    X, y = make_classification(300, 8, weights=[0.9], random_state=0)
    clf = RBFClassifier(60, readout=readout, random_state=0)
    plain = clf.fit(X, y).predict(X)
    balanced = clf.set_params(class_weight="balanced").fit(X, y).predict(X)
    assert (balanced == 1).sum() > (plain == 1).sum()


def test_class_weight_equals_sample_weight(classifier):
    X, y = make_classification(150, 8, weights=[0.9], random_state=0)
    by_class = clone(classifier).set_params(class_weight="balanced").fit(X, y)
    counts = np.bincount(y)
    by_sample = clone(classifier).fit(X, y, sample_weight=(150 / 2 / counts)[y])
    np.testing.assert_allclose(by_class.readout_coef_, by_sample.readout_coef_, atol=1e-9)
    plain = clone(classifier).fit(X, y)
    assert (by_class.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


def test_lms_equals_the_update_rule_in_order_of_presentation():
    X, y = load_iris(return_X_y=True)
    clf = RBFClassifier(
        radius=0.7, readout="lms", learning_rate=0.05, max_iter=4, random_state=3
    ).fit(X, y)
    order = np.random.RandomState(3).permutation(len(X))
    W = np.equal.outer(np.arange(3), clf.center_labels_).astype(float)
    H = naive.rbf(X[order], clf.centers_, 0.7)
    for _ in range(4):
        W = naive.lms(W, H, np.eye(3)[y[order]], 0.05)
    np.testing.assert_allclose(clf.readout_coef_, W, atol=1e-12)
    assert clf.n_iter_ == 4


def test_a_random_state_object_is_drawn_from_once():
    """Selection and LMS process the samples in the same order."""
    X, y = load_iris(return_X_y=True)
    common = {"radius": 0.7, "readout": "lms", "max_iter": 2}
    a = RBFClassifier(random_state=np.random.RandomState(5), **common).fit(X, y)
    b = RBFClassifier(random_state=5, **common).fit(X, y)
    np.testing.assert_array_equal(a.support_, b.support_)
    np.testing.assert_allclose(a.readout_coef_, b.readout_coef_)


def test_auto_learning_rate_is_stable(digits):
    X, X_test, y, y_test = digits
    clf = RBFClassifier(
        300, radius=200.0, kernel="triangular", readout="lms", feature_weights=None, random_state=0
    ).fit(X, y)
    assert np.isfinite(clf.readout_coef_).all()
    with pytest.raises(ValueError, match=r"learning_rate=0.5 makes"):
        clf.set_params(learning_rate=0.5).fit(X, y)
    assert clf.score(X_test, y_test) > 0.8  # the failed fit did not change the model


@pytest.mark.parametrize("rate", [2.0, 100.0])
def test_lms_that_diverges_is_an_error(rate):
    """W of the order 1e9, or 1e225, where intermediate values overflow."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    clf = RBFClassifier(50, readout="lms", learning_rate=rate, random_state=0)
    with pytest.raises(ValueError, match=f"learning_rate={rate} makes the LMS readout diverge"):
        clf.fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_dtypes_of_scores_and_centres(digits, dtype, classifier):
    X, X_test, y, _ = digits
    clf = classifier.set_params(alpha=1.0).fit(X[:200].astype(dtype), y[:200])
    expected = np.float64 if dtype == np.float64 else np.float32
    scores = clf.decision_function(X_test.astype(dtype))
    assert scores.dtype == clf.readout_coef_.dtype == expected
    if isinstance(clf, RBFClassifier):
        assert clf.centers_.dtype == dtype
    # Predictions accept any dtype.
    for other in (np.uint8, np.float32, np.float64):
        np.testing.assert_allclose(clf.decision_function(X_test.astype(other)), scores, atol=2e-4)


def test_uint8_euclidean(digits):
    X, X_test, y, y_test = digits
    clf = RBFClassifier(200, metric="euclidean", random_state=0).fit(X.astype(np.uint8), y)
    assert clf.score(X_test.astype(np.uint8), y_test) > 0.95


def test_same_seed_same_model_on_every_device(digits, device, classifier):
    X, X_test, y, _ = digits
    by_default = type(classifier)(40, random_state=0)  # everything is searched
    model = clone(by_default).set_params(device=device).fit(X[:100], y[:100])
    expected = by_default.set_params(device="jit").fit(X[:100], y[:100])
    if isinstance(model, RBFClassifier):
        np.testing.assert_array_equal(model.support_, expected.support_)
    # Feature weights are learned from float32 products, which another BLAS rounds differently.
    tolerance = 1e-8 if device != "torch" else 1e-5
    np.testing.assert_allclose(
        model.decision_function(X_test),
        expected.decision_function(X_test),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize("readout", READOUTS)
def test_max_memory_does_not_change_the_model(digits, readout):
    X, X_test, y, _ = digits
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    clf = RBFClassifier(60, readout=readout, max_iter=2, random_state=0)
    free = clone(clf).fit(X, y)
    tight = clone(clf).set_params(max_memory="3MiB").fit(X, y)
    np.testing.assert_array_equal(tight.support_, free.support_)
    np.testing.assert_allclose(
        tight.decision_function(X_test), free.decision_function(X_test), atol=2e-4
    )


def test_too_little_memory_raises_with_the_number_of_bytes(digits, classifier):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match=r"needs \d+.*1000.0 B are available within max_memory"):
        classifier.set_params(max_memory=1000).fit(X, y)


def test_a_memmap_is_read_in_place(tmp_path, digits, classifier):
    X, _, y, _ = digits
    X, y = X[:200], y[:200]
    path = tmp_path / "X.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    np.testing.assert_array_equal(
        clone(classifier).fit(mapped, y).predict(mapped), classifier.fit(X, y).predict(X)
    )


def test_pickled_models_predict_the_same(digits, classifier):
    X, X_test, y, _ = digits
    clf = classifier.fit(X[:200], y[:200])
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.decision_function(X_test), clf.decision_function(X_test))
    # Results of the search are a dict of arrays, as of GridSearchCV; conformity scores are pairs.
    (conformity,) = copy.conformity_scores_
    state = vars(copy) | copy.search_results_ | conformity._asdict()
    assert all(isinstance(v, np.ndarray) or np.isscalar(v) or v is None
               for k, v in state.items() if k.endswith("_")
               and k not in ("search_results_", "conformity_scores_"))  # fmt: skip


def test_ill_conditioned_ridge_warns_and_predicts():
    X, y = load_iris(return_X_y=True)
    clf = RBFClassifier(
        100, kernel="triangular", radius=1e6, feature_weights=None, alpha=0.0, selection="random",
        random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="condition number"):
        clf.fit(X, y)
    assert clf.score(X, y) > 0.8


def test_a_failed_fit_does_not_change_the_estimator(digits, classifier):
    X, _, y, _ = digits
    X, y = X[:200], y[:200]
    clf = classifier.fit(X, y)
    before = dict(vars(clf))
    X_bad = X[:, :5].copy()
    X_bad[3, 3] = np.nan
    for bad in ((X_bad, y), (X[:, :5], np.zeros(len(X))), (X[:, :5], y[:-1])):
        with pytest.raises(ValueError, match=r"NaN|class|inconsistent"):
            clf.fit(*bad)
        assert vars(clf) == before
    with pytest.raises(ValueError, match="alpha"):
        clf.set_params(alpha=-1).fit(X[:, :5], y)
    assert clf.n_features_in_ == 64


def test_verbose_shows_progress(digits, capsys):
    """verbose=2 prints the time of each stage of a pass."""
    X, _, y, _ = digits
    X, y = X[:100], y[:100]
    RBFClassifier(50, random_state=0, verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    for start, detail in [
        ("[RBFClassifier fit] selecting centres: ", "; radius "),
        ("[RBFClassifier fit] selecting kernel, width and weights: ", " tile: copy in "),
        ("[RBFClassifier fit] 100 of 100 rows, ", "layer "),
    ]:
        assert any(line.startswith(start) and detail in line for line in lines), start
    TanhClassifier(50, random_state=0, verbose=2).fit(X, y)
    phases = re.findall(r"selecting ([a-z, ]+): ", capsys.readouterr().out)
    assert set(phases) == {"feature weights", "the penalty"}  # tanh units have no kernel


def test_verbose_prints_one_line_of_progress_per_second(digits, capsys, monkeypatch):
    """In addition to the decisions, and only after the first second of a computation."""
    X, _, y, _ = digits
    X, y = X[:100], y[:100]
    now, step = [0.0], 0.0

    def clock():
        now[0] += step
        return now[0]

    monkeypatch.setattr(job, "_last_line", -1.0)
    monkeypatch.setattr(job, "time", SimpleNamespace(perf_counter=clock))
    model = RBFClassifier(50, random_state=0, verbose=True).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "[RBFClassifier fit] hidden layer", "[RBFClassifier fit] readout",
    ]  # fmt: skip
    now[0] = 5.0  # predict prints nothing at its start, however long ago the last line was
    model.predict(X)
    assert capsys.readouterr().out == ""
    step = 0.4  # seconds between two readings of the clock
    model.fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    progress = [line for line in lines if "hidden layer: " not in line and "readout: " not in line]
    assert len(lines) == len(progress) + 2
    assert progress
    for line in progress:
        assert re.match(r"\[RBFClassifier fit\] (selecting [a-z, ]+: )*[\d,]+ (novel|of )", line)
        assert "tile" not in line


@pytest.mark.parametrize("selector", [RFE, SelectFromModel])
def test_feature_selectors_reject_the_readout_coefficients(selector, classifier):
    """Its columns are units: a `coef_` of that shape would select wrong features."""
    X, y = load_iris(return_X_y=True)
    unweighted = clone(classifier).set_params(feature_weights=None)  # it has no importances
    with pytest.raises((ValueError, AttributeError), match=r"coef_|importance"):
        selector(unweighted).fit(X, y).transform(X)
    fitted = classifier.fit(X, y)
    assert not {"coef_", "intercept_"} & set(dir(fitted))
    assert fitted.readout_coef_.shape == (3, len(layer_of(fitted).units))
    state = {name for name, value in vars(fitted).items() if name.endswith("_")
             and not isinstance(value, (np.ndarray, int, float, str, type(None)))}  # fmt: skip
    # All other fitted attributes are arrays, numbers and strings.
    assert state == {"search_results_", "conformity_scores_"}
