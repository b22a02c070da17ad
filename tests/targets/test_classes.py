"""Probabilities of classifiers: calibrated, per class, independent of the batch."""

import pickle

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from sklearn_fsvc import RBFClassifier, TanhClassifier, make_tabular_pipeline

# Units wide enough to cover all samples.
NETWORKS = [
    RBFClassifier(
        20, selection_radius=2.0, radius=20.0, kernel="triangular", feature_weights=None,
        random_state=0,
    ),
    TanhClassifier(20, feature_weights=None, random_state=0),
]  # fmt: skip


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)


def make_data(n_classes, n=60):
    return make_classification(n, 8, n_informative=6, n_classes=n_classes, random_state=0)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_valid(network, n_classes, dtype):
    X, y = make_data(n_classes)
    X = X.astype(dtype)
    clf = network.fit(X, y)
    p = clf.predict_proba(X)
    assert p.shape == (60, n_classes)
    assert p.min() >= 0
    assert p.max() <= 1
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    # In the order of `classes_`.
    assert (p.argmax(axis=1) == clf.predict(X)).mean() > 0.5
    # `log_loss` warns, which is an error here, if the sums of float64 rows differ from 1.
    assert log_loss(y, p) < 0.95 * np.log(n_classes)


@pytest.fixture(params=["Int64", "UInt64", "int64[pyarrow]"])
def nullable_integer(request):
    """Name of a dtype of pandas for integers, of which some may be missing."""
    if "pyarrow" in request.param:
        pytest.importorskip("pyarrow")
    return request.param


def test_nullable_integers_are_not_rounded(network, nullable_integer):
    pd = pytest.importorskip("pandas")
    X, y = make_data(3)
    plain = 2**53 + y  # float64 would round them
    nullable = pd.Series(plain).astype(nullable_integer)
    expected = clone(network).fit(X, plain)
    for clf in (clone(network).fit(X, nullable), clone(network).partial_fit(X, nullable)):
        assert clf.classes_.tolist() == [2**53, 2**53 + 1, 2**53 + 2]
        assert clf.score(X, nullable) == clf.score(X, plain)
    np.testing.assert_array_equal(clone(network).fit(X, nullable).predict(X), expected.predict(X))
    with pytest.raises(ValueError, match="Input y contains NaN or None in 1 of 60 rows"):
        network.fit(X, nullable.where(nullable.index > 0))


def test_strings_of_variable_length(network):
    """Of NumPy; scikit-learn does not accept their dtype."""
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 2 has this dtype")
    X, y = make_data(3)
    y = y.astype(str)
    strings = y.astype(np.dtypes.StringDType(na_object=None))
    expected = clone(network).fit(X, y)
    pipeline = make_tabular_pipeline(clone(network))
    for model in (clone(network), pipeline):
        model.fit(X, strings)
        assert model.classes_.tolist() == ["0", "1", "2"]
    assert clone(network).fit(X, strings).score(X, strings) == expected.score(X, y)
    added = clone(network).partial_fit(X, strings).forget(X[:30], strings[:30])
    assert added.classes_.tolist() == ["0", "1", "2"]
    strings[4] = None
    for model in (network, pipeline):
        with pytest.raises(ValueError, match="Input y contains NaN or None in 1 of 60 rows"):
            model.fit(X, strings)


def test_missing_labels_of_a_pipeline(network):
    pd = pytest.importorskip("pandas")
    X, y = make_data(3)
    y = pd.Series(y.astype(str), dtype="string").mask(y == 0)
    with pytest.raises(ValueError, match="Input y contains NaN or None in"):
        make_tabular_pipeline(network).fit(X, y)


def test_nullable_integers_in_columns_are_not_rounded(network, nullable_integer):
    pd = pytest.importorskip("pandas")
    X, y = make_data(3)
    plain = pd.DataFrame({"a": 2**53 + y, "b": 2**53 + (y > 0)})
    nullable = plain.astype(nullable_integer)
    clf, expected = clone(network).fit(X, nullable), clone(network).fit(X, plain)
    np.testing.assert_array_equal(clf.predict(X), expected.predict(X))
    assert clf.score(X, nullable) == expected.score(X, plain)
    assert (nullable.dtypes == nullable_integer).all()  # the user's table is unchanged
    with pytest.warns(match="column-vector y"):
        column = clone(network).fit(X, nullable[["a"]])
    assert column.classes_.tolist() == [2**53, 2**53 + 1, 2**53 + 2]


@pytest.mark.parametrize("other", [np.uint64, np.float64])
def test_columns_of_integers_that_numpy_rounds(other, rng):
    pd = pytest.importorskip("pandas")
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    table = pd.DataFrame({"a": 2**53 + y, "b": (y > 0).astype(other)})
    small = TanhClassifier(5, feature_weights=None, alpha=1.0)
    for fit in (clone(small).fit, clone(small).partial_fit):
        with pytest.raises(ValueError, match=r"labels of \['a'\] are equal; convert all columns"):
            fit(X, table)
    exact = table.astype(np.int64)
    with pytest.raises(
        ValueError, match=r"samples X_val and y_val: .* labels of \['a'\] are equal"
    ):
        clone(small).fit(X, exact, X_val=X, y_val=table)
    assert len(clone(small).fit(X, table.astype(str)).classes_[0]) == 3
    small.fit(X, table - [2**53, 0])
    assert small.classes_[0].tolist() == [0, 1, 2]


LABELS = {
    "counted from 1": np.array([1, 2, 3]),
    "negative": np.array([-7, -1, 40]),
    "large": np.array([100, 2000, 30_000]),
    "float": np.array([0.0, 2.0, 5.0]),
    "text": np.array(["a", "b", "c"]),
    "object": np.array(["a", "b", "c"], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_of_any_type(labels, n_classes):
    X, y = make_data(n_classes)
    clf = clone(NETWORKS[1])
    expected = clone(clf).fit(X, y).predict_proba(X)
    named = clf.fit(X, labels[y])
    np.testing.assert_array_equal(named.classes_, labels[:n_classes])
    np.testing.assert_allclose(named.predict_proba(X), expected, atol=1e-9)


def test_boolean_labels(network):
    X, y = make_data(2)
    expected = clone(network).fit(X, y).predict_proba(X)
    named = network.fit(X, y == 1)
    np.testing.assert_allclose(named.predict_proba(X), expected, atol=1e-9)


def test_columns_are_in_the_order_of_classes(network):
    X, y = make_data(3)
    labels = np.array(["z", "a", "m"])  # classes_ is a, m, z
    expected = clone(network).fit(X, y).predict_proba(X)
    named = network.fit(X, labels[y])
    np.testing.assert_allclose(named.predict_proba(X), expected[:, [1, 2, 0]], atol=1e-5)


@pytest.mark.parametrize(
    "network",
    [
        RBFClassifier(
            20, selection_radius=0.5, radius=3.0, kernel="triangular", feature_weights=None,
            random_state=0,
        ),
        NETWORKS[1],
    ],
    ids=lambda c: type(c).__name__,
)  # fmt: skip
@pytest.mark.parametrize("alpha", [1.0, 30.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_do_not_depend_on_the_batch(network, alpha, n_classes):
    """scikit-learn takes scores of a batch for probabilities if all are between 0 and 1."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    clf = clone(network).set_params(alpha=alpha).fit(X, y)
    p = clf.predict_proba(X)
    scores = clf.decision_function(X).reshape(len(X), -1)
    within_0_1 = ((scores >= 0) & (scores <= 1)).all(axis=1)
    assert 0 < within_0_1.sum() < len(X)
    for rows in (within_0_1, ~within_0_1, y == 0):
        np.testing.assert_allclose(clf.predict_proba(X[rows]), p[rows], atol=1e-6)
    single = [clf.predict_proba(X[i : i + 1])[0] for i in range(0, len(X), 10)]
    np.testing.assert_allclose(single, p[::10], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_of_uncovered_samples_do_not_depend_on_the_batch(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    given = {"feature_weights": None, "kernel": "triangular", "alpha": 1.0}
    clf = RBFClassifier(20, radius=0.3, selection_radius=0.3, random_state=0, **given)
    far = np.array([[50.0, 50, 50, 50], [-50, -50, -50, -50]])
    separate = clf.fit(X, y).predict_proba(far)
    np.testing.assert_allclose(separate, clf.predict_proba(np.vstack([far, X]))[:2], atol=1e-6)
    assert (separate.max(axis=1) > 0.5).all()


def test_log_probabilities(network):
    X, y = make_data(3)
    clf = network.fit(X, y)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
@pytest.mark.parametrize("readout", ["lms", "none"])
def test_readouts_without_probabilities(name, readout):
    X, y = make_data(2)
    unfitted = clone(NETWORKS[0]).set_params(readout=readout)
    for clf in (unfitted, clone(unfitted).fit(X, y)):
        assert not hasattr(clf, name)
        with pytest.raises(AttributeError, match=f"readout='{readout}' has no.*{name}.*ridge"):
            getattr(clf, name)
    clf.set_params(readout="ridge")
    with pytest.raises(AttributeError, match=r"no temperature_.*another readout.*Fit it again"):
        getattr(clf, name)(X)


TARGETS = {
    "two classes": lambda y: y % 2,
    "three classes": lambda y: y % 3,
    "outputs": lambda y: np.column_stack([y % 2, y % 3]),
    "labels": lambda y: np.column_stack([y % 2, y > 1]).astype(int),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_scores_of_a_softmax_readout_are_logits(network, target):
    """For probabilities, and for the thresholds of sets."""
    X, y = make_data(4, 200)
    clf = network.set_params(readout="softmax").fit(X, target(y), X_val=X, y_val=target(y))
    p, scores = clf.predict_proba(X), clf.decision_function(X)
    sets = clf.predict_set(X, confidence_level=0.9)
    if clf.multilabel_:
        np.testing.assert_allclose(p, expit(scores / clf.temperature_), atol=1e-12)
        p = [np.column_stack([1 - column, column]) for column in p.T]
        sets, scores = list(sets.transpose(1, 0, 2)), scores.T
    elif isinstance(p, np.ndarray):
        p, scores, sets = [p], [scores], [sets]
    thresholds = [one.threshold(0.9) for one in clf.conformity_scores_]
    outputs = zip(p, scores, sets, thresholds, np.atleast_1d(clf.temperature_), strict=True)
    for of_classes, decision, is_in, threshold, temperature in outputs:
        if decision.ndim == 1:
            decision = np.column_stack([-decision / 2, decision / 2])
        np.testing.assert_allclose(of_classes, softmax(decision / temperature, axis=1), atol=1e-12)
        is_chosen = of_classes == of_classes.max(axis=1, keepdims=True)
        # The threshold is the probability of a sample, up to rounding.
        is_tied = np.isclose(of_classes, threshold, rtol=0, atol=1e-12)
        assert is_tied.sum() < 5
        expected = (of_classes >= threshold) | is_chosen
        np.testing.assert_array_equal(is_in[~is_tied], expected[~is_tied])


def test_unfitted(network):
    assert hasattr(network, "predict_proba")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        network.predict_proba(make_data(2)[0])


def test_pickle(network):
    X, y = make_data(3)
    clf = network.fit(X, np.array(list("abc"))[y])
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.predict_proba(X), clf.predict_proba(X))


def test_a_pickle_contains_no_samples():
    """Its size does not grow with their number: calibration stores up to 512 scores."""
    few, many = (len(pickle.dumps(clone(NETWORKS[1]).fit(*make_data(2, n)))) for n in (600, 3000))
    assert many < few + 1000


@pytest.mark.parametrize("n_few", [1, 2, 4])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_of_few_samples(network, n_few, n_classes):
    """Too few for stratified cross-validation, which calibration does not need."""
    X, y = make_data(n_classes)
    few = np.flatnonzero(y == n_classes - 1)[:n_few]
    kept = np.concatenate([np.flatnonzero(y < n_classes - 1), few])
    clf = network.fit(X[kept], y[kept])
    p = clf.predict_proba(X)
    assert p.shape == (60, n_classes)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_a_class_of_weight_0(network):
    X, y = make_data(3)
    clf = network.fit(X, y, (y != 1).astype(float))
    p = clf.predict_proba(X)
    assert p.shape == (60, 3)
    assert np.isfinite(p).all()
