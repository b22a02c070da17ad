"""Prediction sets of classifiers, from leave-one-out probabilities."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    RBFClassifier,
    StackedClassifier,
    TanhClassifier,
)
from sklearn_fsvc._src.readouts.calibration import Calibration
from sklearn_fsvc._src.readouts.conformal import conformity_scores

N, NEW = 1500, slice(1500, None)
X, y = make_classification(
    N + 5000, 9, n_informative=8, n_redundant=0, n_classes=4, flip_y=0.1, class_sep=0.8,
    random_state=0,
)  # fmt: skip
OPTIONS = {"random_state": 0, "device": "jit", "alpha": 1.0}
TANH = TanhClassifier(60, feature_weights=None, **OPTIONS)
RBF = RBFClassifier(150, kernel="laplacian", feature_weights=None, **OPTIONS)
PATCH = PatchClassifier(50, image_shape=(3, 3), patch_size=2, **OPTIONS)
STACKED = StackedClassifier([("tanh", TANH), ("rbf", RBF)], random_state=0)


def coverage(model, level=0.9, y=y, rows=NEW, weight=None):
    is_in = model.predict_set(X[rows], level)
    codes = np.searchsorted(model.classes_, y[rows])
    return np.average(is_in[np.arange(len(codes)), codes], weights=weight)


@pytest.mark.parametrize("model", [TANH, RBF, PATCH, STACKED], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sets_cover_the_true_class_at_each_level(model, n_classes):
    model, labels = clone(model), np.array(["d", "a", "c", "b"])[y % n_classes]
    model.fit(X[:N], labels[:N])
    assert model.score(X[NEW], labels[NEW]) < 0.88
    previous = np.zeros((5000, n_classes), bool)
    for level in (0.9, 0.95, 0.98):
        assert coverage(model, level, labels) == pytest.approx(level, abs=0.03)
        is_in = model.predict_set(X[NEW], level)
        assert (is_in >= previous).all()
        previous = is_in
    predicted = np.searchsorted(model.classes_, model.predict(X[NEW]))
    assert is_in[np.arange(5000), predicted].all()
    p = model.predict_proba(X[NEW])
    assert p[~is_in].max() <= p[is_in & (p < p.max(axis=1, keepdims=True))].min()
    assert 1 < is_in.sum(axis=1).mean() < n_classes


@pytest.mark.parametrize("model", [TANH, STACKED], ids=lambda m: type(m).__name__)
def test_a_level_below_the_accuracy(model):
    """Sets contain only the predicted class."""
    model = clone(model).fit(X[:N], y[:N] % 2)
    level = model.score(X[NEW], y[NEW] % 2) - 0.1
    is_in = model.predict_set(X[NEW], level)
    np.testing.assert_array_equal(is_in, np.eye(2, dtype=bool)[model.predict(X[NEW])])


@pytest.mark.parametrize("alpha", ["auto", "loo", [0.1, 10.0]], ids=str)
def test_weights_and_penalties(alpha):
    """Coverage is that of weighted samples; samples of weight 0 may be of any class."""
    model, weight = clone(TANH).set_params(alpha=alpha), np.array([0.0, 1.0, 1.0, 5.0])[y]
    corrupted = np.where(weight > 0, y, 1)
    model.fit(X[:N], corrupted[:N], weight[:N])
    assert coverage(model, weight=weight[NEW]) == pytest.approx(0.9, abs=0.03)
    balanced = clone(TANH).set_params(class_weight={3: 20.0}).fit(X[:N], y[:N])
    assert coverage(balanced, rows=np.flatnonzero(y[NEW] == 3) + N) > 0.92


def test_several_outputs_and_labels():
    Y = np.column_stack([y, y > 1])
    model = clone(TANH).fit(X[:N], Y[:N])
    sets, single = model.predict_set(X[NEW]), clone(TANH).fit(X[:N], Y[:N, 1]).predict_set(X[NEW])
    assert [each.shape for each in sets] == [(5000, 4), (5000, 2)]
    np.testing.assert_array_equal(sets[1], single)
    labels = np.column_stack([y > 1, y % 2]).astype(int)
    model = clone(TANH).fit(X[:N], labels[:N])
    found = model.predict_set(X[NEW])
    assert found.shape == (5000, 2, 2)
    np.testing.assert_array_equal(found[:, 0], single)
    covered = np.take_along_axis(found, labels[NEW][:, :, None], axis=2)[:, :, 0].mean(axis=0)
    np.testing.assert_allclose(covered, 0.9, atol=0.03)


def test_sets_of_incremental_fits():
    """Batches, copies and merged models have the sets of a fit; `forget` keeps them valid."""
    n, new = 2500, slice(2500, None)
    model = clone(TANH).partial_fit(X[:1000], y[:1000], classes=range(4))
    assert coverage(model) == pytest.approx(0.9, abs=0.04)  # the layer is provisional
    model.partial_fit(X[1000:n], y[1000:n]).solve(fix_layer=True)
    assert coverage(model, rows=new) == pytest.approx(0.9, abs=0.03)
    copied = pickle.loads(pickle.dumps(model))
    layer = FrozenEstimator(model)
    parts = [clone(TANH).set_params(layer=layer) for _ in range(2)]
    for part, rows in zip(parts, (slice(0, 700), slice(700, n)), strict=True):
        part.partial_fit(X[rows], y[rows], classes=range(4))
    fitted = clone(TANH).set_params(layer=layer).fit(X[:n], y[:n])
    expected = model.predict_set(X[new])
    for other in (copied, parts[0].merge(parts[1:]), fitted):
        np.testing.assert_array_equal(other.predict_set(X[new]), expected)
    is_sampled = np.isin(X[:n, 0], model._incremental_state.statistics.sample.rows.X[:, 0])
    sampled, others = np.flatnonzero(is_sampled), np.flatnonzero(~is_sampled)
    assert len(sampled) == 512
    for removed in (sampled[40:], others[200:]):
        model.forget(X[removed], y[removed])
    assert coverage(model, rows=new) > 0.85  # calibrated on 40 samples
    model.forget(X[sampled[:40]], y[sampled[:40]])
    with pytest.raises(ValueError, match="`forget` has removed the calibration set"):
        model.predict_set(X[:5])


def test_softmax_readouts_need_validation_samples():
    model = clone(RBF).set_params(readout="softmax", kernel="triangular")
    X_val, y_val = X[N : N + 500].copy(), y[N : N + 500]
    with pytest.raises(ValueError, match=r'readout="softmax" has no .* pass X_val and y_val'):
        model.fit(X[:N], y[:N]).predict_set(X[:5])
    assert hasattr(model, "predict_proba")
    X_val[::2] += 1e6  # scored by the nearest unit
    model.fit(X[:N], y[:N], X_val=X_val, y_val=y_val)
    expected = conformity_scores(Calibration(1.0), model.decision_function(X_val), y_val)
    for found, values in zip(model.conformity_scores_[0], expected, strict=True):
        np.testing.assert_allclose(found, values)
    two = np.column_stack([y, y > 1])
    model.fit(X[:N], two[:N], X_val=X[NEW], y_val=two[NEW])
    pairs = zip(model.predict_set(X[NEW]), two[NEW].T, strict=True)
    covered = [is_in[np.arange(5000), codes].mean() for is_in, codes in pairs]
    np.testing.assert_allclose(covered, 0.9, atol=0.03)


def test_validation_samples():
    """The sets are those of the shifted distribution of the validation samples."""
    shifted = np.where(np.random.default_rng(0).random(len(y)) < 0.1, 3 - y, y)
    for model in (TANH, STACKED):
        model = clone(model).fit(X[:N], y[:N], X_val=X[N:3000], y_val=shifted[N:3000])
        new = slice(3000, None)
        assert coverage(model, y=shifted, rows=new) == pytest.approx(0.9, abs=0.03)
        assert coverage(model, rows=new) > 0.93


def test_little_memory_and_few_samples():
    model = clone(TANH).set_params(max_memory="1MiB").fit(X, y)
    assert coverage(model) == pytest.approx(0.9, abs=0.04)
    few = clone(TANH).fit(X[:8], y[:8] % 2)
    assert few.predict_set(X[NEW]).all()  # the highest level of 8 samples is 8 / 9


def test_a_search_predicts_sets_by_its_best_estimator():
    search = HiddenSizeSearchCV(clone(TANH), {"n_hidden": [20, 60]}, cv=3).fit(X[:N], y[:N])
    assert coverage(search.best_estimator_) == pytest.approx(0.9, abs=0.04)


def test_invalid_arguments_and_models():
    with pytest.raises(NotFittedError):
        clone(TANH).predict_set(X)
    model = clone(TANH).fit(X[:N], y[:N])
    for level in (0, 1, -0.5, float("nan")):
        with pytest.raises(ValueError, match=f"confidence_level={level} must be between 0 and 1"):
            model.predict_set(X, confidence_level=level)
    with pytest.raises(TypeError, match="confidence_level='90' must be a number"):
        model.predict_set(X, "90")
    untrained = RBFClassifier(20, readout="none", feature_weights=None).fit(X[:N], y[:N])
    assert not hasattr(untrained, "predict_set")
    with pytest.raises(AttributeError, match=r"no predict_proba, .* and predict_set; use readout="):
        untrained.predict_set(X)
    with pytest.warns(ConvergenceWarning, match="ill-conditioned"):
        exact = clone(TANH).set_params(n_hidden=300, alpha=0, precision=8).fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="each sample determines its own"):
        exact.predict_set(X)
