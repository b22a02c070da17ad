"""Multi-output and multilabel classifiers agree with one classifier per output."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.multioutput import MultiOutputClassifier

from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.targets import labels

# A fixed layer and a fixed penalty: neither depends on y.
RBF = RBFClassifier(
    25, selection="random", kernel="laplacian", radius=3.0, feature_weights=None, alpha=0.3,
    random_state=0,
)  # fmt: skip
CLASSIFIERS = {
    "ridge": RBF,
    "lms": clone(RBF).set_params(readout="lms", max_iter=3, learning_rate=0.01),
    "none": clone(RBF).set_params(readout="none"),
    "tanh": TanhClassifier(25, feature_weights=None, scale=0.5, alpha=0.3, random_state=0),
}
N = 120


@pytest.fixture(params=CLASSIFIERS.values(), ids=CLASSIFIERS)
def classifier(request):
    return clone(request.param)


@pytest.fixture(params=[RBF, CLASSIFIERS["tanh"]], ids=["rbf", "tanh"])
def ridge(request):
    return clone(request.param)


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 4))


def multioutput(X):
    """Return outputs with 2, 4 and 3 classes of text of several lengths."""
    codes = [np.digitize(X[:, k], cuts) for k, cuts in enumerate([[0], [-1, 0, 1], [-0.5, 0.5]])]
    names = ["no", "yes"], ["b", "dddd", "a", "cc"], ["x", "longest", "y"]
    pairs = zip(names, codes, strict=True)
    return np.column_stack([np.array(name)[code] for name, code in pairs])


def multilabel(X):
    """Return an indicator of three labels."""
    return (X[:, :3] + X[:, 1:] > [0, 1, -1]).astype(int)


def plus_minus_one(X):
    """Return outputs with the same two classes: scikit-learn takes them for an indicator."""
    return np.where(X[:, :2] > 0.2, 1, -1)


OUTPUTS = [multioutput, multilabel, plus_minus_one]


def output_of(result, k):
    """Return output k of a result: an element of a list, or a column of an indicator."""
    return result[k] if isinstance(result, list) else result[:, k]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("y", OUTPUTS)
def test_predictions_are_those_of_one_classifier_per_output(device, classifier, X, y, weighted):
    Y, weight = y(X), None
    if weighted:
        weight = np.random.default_rng(1).random(N) * (X[:, 3] > -1)
    clf = classifier.set_params(device=device).fit(X, Y, sample_weight=weight)
    separate = MultiOutputClassifier(clone(classifier)).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(clf.predict(X), separate.predict(X))
    assert clf.predict(X).dtype.kind == Y.dtype.kind
    scores = clf.decision_function(X)
    assert isinstance(scores, np.ndarray) == (y is multilabel) == clf.multilabel_
    for k, each in enumerate(separate.estimators_):
        np.testing.assert_allclose(
            output_of(scores, k), each.decision_function(X), rtol=0, atol=1e-9
        )
        if y is multilabel:
            assert clf.classes_[k] == k
        else:
            np.testing.assert_array_equal(clf.classes_[k], each.classes_)
    assert clf.score(X, Y) == np.mean((clf.predict(X) == Y).all(axis=1)) > 0.2
    assert clf.score(X, Y, weight) == accuracy_score(
        np.ones(N), (clf.predict(X) == Y).all(axis=1), sample_weight=weight
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("y", OUTPUTS)
def test_probabilities_are_those_of_one_classifier_per_output(ridge, X, y, weighted):
    Y, weight = y(X), np.random.default_rng(1).random(N) if weighted else None
    clf = ridge.fit(X, Y, sample_weight=weight)
    separate = MultiOutputClassifier(clone(ridge)).fit(X, Y, sample_weight=weight)
    p, log_p = clf.predict_proba(X), clf.predict_log_proba(X)
    assert clf.temperature_.shape == clf.score_scale_.shape == (Y.shape[1],)
    for k, each in enumerate(separate.estimators_):
        np.testing.assert_allclose(clf.temperature_[k], each.temperature_, rtol=1e-6)
        assert clf.score_scale_[k] == each.score_scale_
        expected = each.predict_proba(X)
        expected = expected[:, 1] if y is multilabel else expected
        np.testing.assert_allclose(output_of(p, k), expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(np.exp(output_of(log_p, k)), output_of(p, k), atol=1e-12)
    assert len(set(clf.temperature_)) > 1


@pytest.mark.parametrize("y", [multioutput, multilabel])
def test_uncovered_samples_get_the_classes_of_the_nearest_centre(classifier, X, y, monkeypatch):
    monkeypatch.setattr(labels, "fit_matrix_scaling", lambda *_: None)
    if isinstance(classifier, TanhClassifier):
        classifier = clone(RBF)
    Y = y(X)
    clf = classifier.set_params(kernel="triangular", radius=0.1).fit(X, Y)
    far = np.array([[9.0, 0, 0, 0], [0, -9.0, 0, 0], [-4, -4, 9, 9]])
    nearest = np.abs(far[:, None] - clf.centers_).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(clf.predict(far), Y[clf.support_][nearest])
    scores = clf.decision_function(far)
    targets = scores if y is multilabel else np.column_stack(scores)
    if clf.readout == "ridge":  # shrunk towards the intercept
        share = 1 / (1 + clf.alpha_)
        targets = (targets - (1 - share) * clf.readout_intercept_) / share
    if y is multilabel:
        np.testing.assert_allclose(targets, 2 * Y[clf.support_][nearest] - 1, rtol=0, atol=1e-9)
    else:
        np.testing.assert_allclose(np.unique(targets.round(9)), [-1, 0, 1])


@pytest.mark.parametrize("value", [0, 1])
def test_constant_labels(classifier, X, value):
    Y = multilabel(X)
    Y[:, 1] = value
    others = clone(classifier).fit(X, Y[:, ::2]).decision_function(X)
    clf = classifier.fit(X, Y)
    assert (clf.predict(X)[:, 1] == value).all()
    np.testing.assert_allclose(clf.decision_function(X)[:, ::2], others, rtol=0, atol=1e-9)
    if clf.get_params().get("readout", "ridge") == "ridge":
        p = clf.fit(X, Y).predict_proba(X)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p[:, 1], value, atol=0.01)


def test_indicator_without_any_label(classifier, X):
    Y = np.zeros((N, 2), int)
    np.testing.assert_array_equal(classifier.fit(X, Y).predict(X), Y)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_output_with_one_class_is_named(classifier, X, weighted):
    Y, weight = multioutput(X), None
    if weighted:
        weight = (Y[:, 2] == "y").astype(float)
    else:
        Y[:, 2] = "y"
    with pytest.raises(
        ValueError, match=r"Column 2 of y has one class, y, among samples of positive"
    ):
        classifier.fit(X, Y, sample_weight=weight)
    assert not hasattr(classifier, "classes_")


@pytest.mark.parametrize("classes", [multioutput, multilabel])
@pytest.mark.parametrize("kind", ["balanced", "dicts"])
def test_class_weights_of_outputs_are_multiplied(ridge, X, classes, kind):
    Y = classes(X)
    each = [np.unique(column, return_inverse=True) for column in Y.T]
    times = np.random.default_rng(1).random(N)
    if kind == "dicts":
        weights = [dict(zip(k.tolist(), 1.0 + np.arange(len(k)), strict=True)) for k, _ in each]
        of_rows = np.prod([1.0 + codes for _, codes in each], axis=0)
    else:
        weights = "balanced"
        sums = [np.bincount(c, times) for _, c in each]
        of_rows = np.prod(
            [(times.sum() / len(s) / s)[c] for s, (_, c) in zip(sums, each, strict=True)], axis=0
        )
    by_class = clone(ridge).set_params(class_weight=weights).fit(X, Y, sample_weight=times)
    by_row = clone(ridge).fit(X, Y, sample_weight=times * of_rows)
    np.testing.assert_allclose(by_class.readout_coef_, by_row.readout_coef_, atol=1e-9)
    plain = ridge.fit(X, Y, sample_weight=times)
    assert np.abs(plain.readout_coef_ - by_row.readout_coef_).max() > 1e-3


def test_class_weights_without_ridge(X):
    """They multiply the activations of the centres of the classes."""
    Y, clf = multilabel(X), clone(CLASSIFIERS["none"])
    plain = clf.fit(X, Y).predict(X).sum(axis=0)
    heavy = [{0: 1, 1: 1}, {0: 1, 1: 20}, {0: 1, 1: 1}]
    weighted = clf.set_params(class_weight=heavy).fit(X, Y).predict(X).sum(axis=0)
    assert weighted[1] > plain[1]


def test_class_weight_of_several_outputs_must_be_a_list(ridge, X):
    with pytest.raises(ValueError, match=r"for 1 output\(s\), and y has 3; .* a list with a dict"):
        ridge.set_params(class_weight={0: 1, 1: 2}).fit(X, multilabel(X))


def test_formats_of_y(ridge, X):
    pd = pytest.importorskip("pandas")
    for make, forms in (
        (multilabel, (list, csr_array, pd.DataFrame, lambda Y: Y.astype(bool), lambda Y: Y * 1.0)),
        (multioutput, (lambda Y: Y.tolist(), lambda Y: Y.astype(object), pd.DataFrame)),
        (plus_minus_one, (csr_array, lambda Y: Y * 1.0)),
    ):
        Y = make(X)
        expected = clone(ridge).fit(X, Y)
        for form in forms:
            clf = clone(ridge).fit(X, form(Y))
            assert clf.multilabel_ == (make is multilabel)
            np.testing.assert_array_equal(clf.predict(X), expected.predict(X))
            assert clf.score(X, form(Y)) == expected.score(X, Y)


def test_score_needs_all_outputs(ridge, X):
    Y = multilabel(X)
    clf = ridge.fit(X, Y)
    for bad in (Y[:, :1], Y[:, 0], Y[:-1]):
        with pytest.raises(ValueError, match=r"y has shape \(1\d\d.*predictions have \(120, 3\)"):
            clf.score(X, bad)


@pytest.mark.parametrize("dtypes", [("bool", "int64"), ("boolean", "boolean")])
def test_score_of_a_data_frame_with_bools(ridge, X, dtypes):
    """NumPy makes an array of objects of it, in which scikit-learn finds no labels."""
    pd, Y = pytest.importorskip("pandas"), X[:, :2] > 0
    frame = pd.DataFrame(Y, columns=["a", "b"]).astype(dict(zip("ab", dtypes, strict=True)))
    assert ridge.fit(X, frame).score(X, frame) == ridge.fit(X, Y).score(X, Y) > 0.5


def test_score_needs_labels_of_the_same_type(ridge, X):
    """Text and numbers always differ: the score would be 0."""
    Y = (X[:, :2] > 0) + np.array([1, 2])
    ridge.fit(X, Y)
    assert ridge.score(X, Y.astype(float)) == ridge.score(X, Y) > 0.5
    with pytest.raises(ValueError, match=r"Mix of label input types \(string and number\)"):
        ridge.score(X, Y.astype(str))
    # scikit-learn casts y to integers.
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="contains NaN"):
        ridge.score(X, np.where(Y > 2, np.nan, Y))


@pytest.mark.parametrize("y", [multioutput, multilabel])
def test_attributes_of_rbf_units(X, y):
    Y = y(X)
    clf = clone(RBF).fit(X, Y)
    np.testing.assert_array_equal(clf.center_labels_, Y[clf.support_])
    assert clf.center_labels_.shape == (25, 3)
    assert clf.readout_coef_.shape == (3 if y is multilabel else 1 + 4 + 3, 25)
    assert clf.readout_intercept_.shape == clf.readout_coef_.shape[:1]
    assert not hasattr(clf, "n_support_")
    with pytest.raises(AttributeError, match="n_support_ counts the centres of each class of one"):
        _ = clf.n_support_


def test_a_column_vector_is_one_output(ridge, X):
    y = multioutput(X)[:, 1]
    with pytest.warns(UserWarning, match="column-vector"):
        clf = clone(ridge).fit(X, y[:, None])
    assert clf.classes_.shape == (4,)
    np.testing.assert_array_equal(clf.predict(X), ridge.fit(X, y).predict(X))


def test_selection_per_class_needs_one_output(X):
    """With several, centres are selected globally."""
    clf = RBFClassifier(30, kernel="triangular", feature_weights=None, radius=2.0, random_state=0)
    for y in (multioutput, multilabel):
        per_class = clone(clf).fit(X, y(X))
        over_all = clone(clf).set_params(selection="global").fit(X, y(X))
        np.testing.assert_array_equal(per_class.support_, over_all.support_)
    assert set(clf.fit(X, multioutput(X)[:, 0]).support_) != set(over_all.support_)


def test_class_informed_weights_need_one_output(X):
    for weights in ("class_informed", "constrained"):
        clf = TanhClassifier(20, weights=weights, random_state=0)
        for y in (multioutput, multilabel):
            with pytest.raises(ValueError, match=rf"weights='{weights}' needs one class .*gauss"):
                clf.fit(X, y(X))
        clf.fit(X, multioutput(X)[:, 1])


def test_automatic_parameters_find_one_layer_for_all_outputs(X):
    Y = multilabel(X)
    for network in (RBFClassifier(60, random_state=0), TanhClassifier(60, random_state=0)):
        clf = network.fit(X, Y)
        assert clf.alpha_ in clf.search_results_["alpha"]
        assert (clf.predict(X) == Y).mean() > 0.9


@pytest.mark.parametrize("y", OUTPUTS)
def test_pickle(classifier, X, y):
    clf = classifier.fit(X, y(X))
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.predict(X), clf.predict(X))
    for actual, same in zip(copy.decision_function(X), clf.decision_function(X), strict=True):
        np.testing.assert_array_equal(actual, same)


def test_a_failed_fit_changes_nothing(classifier, X):
    clf = classifier.fit(X, multioutput(X))
    before = dict(vars(clf))
    constant = multilabel(X) + 3
    constant[:, 1] = 3
    for bad in (multilabel(X)[:-1], constant, X, np.zeros((N, 2, 2)), [[1], [2, 3]] * 60):
        with pytest.raises(ValueError, match=r"inconsistent|Column 1 of y|continuous|dim 3|homog"):
            clf.fit(X[:, :2], bad)
        assert vars(clf) == before
    assert clf.fit(X, multioutput(X)[:, 0]).predict(X).shape == (N,)  # one output again


@pytest.mark.parametrize(("first", "later"), [(np.int64, np.uint64), (np.uint64, np.int64)])
@pytest.mark.parametrize("classes", [None, [2**60, 2**60 + 1]])
def test_large_integers_of_another_dtype(first, later, classes, X):
    """NumPy compares int64 and uint64 in float64, which rounds integers above 2^53."""
    y = 2**60 + np.arange(len(X)) % 2
    expected, model = (TanhClassifier(9, feature_weights=None, random_state=0) for _ in range(2))
    classes = classes and np.array(classes, first)
    expected.partial_fit(X, y.astype(first), classes=classes).partial_fit(X, y.astype(first))
    model.partial_fit(X, y.astype(first), classes=classes).partial_fit(X, y.astype(later))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    beyond = np.full(len(X), -1) if later == np.int64 else np.full(len(X), 2**63, later)
    with pytest.raises(ValueError, match=r"y contains|does not contain"):
        model.partial_fit(X, beyond.astype(later))
