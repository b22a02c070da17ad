"""`partial_fit` while the hidden layer is not fixed, compared with `fit` to the same samples."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor
from sklearn_fsvc._src.estimators import buffer
from sklearn_fsvc._src.parts.composition import layer_of

ENOUGH = 2000  # number of samples that fixes a small layer in these tests
N = ENOUGH + 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Z = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=N)
Y = np.array(["low", "high"])[(Z > 0).astype(int)]
ESTIMATORS = (RBFClassifier, TanhClassifier, RBFRegressor, TanhRegressor)
each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)
PLAIN = {"feature_weights": None, "random_state": 0, "alpha": 1.0}
TANH = TanhClassifier(9, **PLAIN)
REGRESSOR = TanhRegressor(9, **PLAIN)


@pytest.fixture(autouse=True)
def few_required_samples(monkeypatch):
    monkeypatch.setattr(buffer, "_MIN_ROWS", ENOUGH)


def targets(cls):
    return Y if issubclass(cls, (RBFClassifier, TanhClassifier)) else Z


def train(model, rows, size=100, y=Y, **options):
    """Return the model after `partial_fit` with batches of these samples."""
    for part in np.split(rows, np.arange(size, len(rows), size)):
        model.partial_fit(X[part], y[part], **options)
    return model


def has_buffer(model):
    return "_sample_buffer" in vars(model)


def assert_same_layer(model, other):
    """Up to rounding, since the targets of a regressor are standardised in another way."""
    np.testing.assert_allclose(layer_of(model).units, layer_of(other).units, rtol=1e-9, atol=1e-12)


def assert_same(model, other):
    """Require the same layer and readout."""
    model.solve(fix_layer=True), other.solve(fix_layer=True)
    assert_same_layer(model, other)
    np.testing.assert_allclose(model.readout_coef_, other.readout_coef_, atol=1e-9)
    np.testing.assert_allclose(model.readout_intercept_, other.readout_intercept_, atol=1e-9)


@pytest.mark.parametrize(
    ("cls", "size"), [(RBFRegressor, 1), (TanhClassifier, 40), *((e, 200) for e in ESTIMATORS)]
)
def test_the_layer_is_that_of_fit_to_enough_samples(cls, size, monkeypatch):
    """For any size of batches; the readout is fitted to all samples."""
    y, enough = targets(cls), 200
    monkeypatch.setattr(buffer, "_MIN_ROWS", enough)
    model = train(cls(20, alpha=1.0, random_state=0), np.arange(enough), size, y)
    assert not has_buffer(model)
    fitted = cls(20, alpha=1.0, random_state=0).fit(X[:enough], y[:enough])
    assert_same_layer(model, fitted)
    train(model, np.arange(enough, 260), size, y)
    fitted = cls(layer=FrozenEstimator(fitted), alpha=1.0).fit(X[:260], y[:260])
    np.testing.assert_allclose(model.solve().readout_coef_, fitted.readout_coef_, atol=1e-5)


@each_estimator
def test_a_provisional_layer_is_that_of_fit(cls):
    """Also for a single sample, for which `fit` of a classifier raises."""
    y, model = targets(cls), cls(20, alpha=1.0, random_state=0)
    train(model, np.arange(30), 1, y).predict(X)
    assert has_buffer(model)
    fitted = cls(20, alpha=1.0, random_state=0).fit(X[:30], y[:30])
    assert_same_layer(model, fitted)
    np.testing.assert_allclose(model.solve().readout_coef_, fitted.readout_coef_, atol=1e-5)
    single = cls(20, random_state=0).partial_fit(
        X[:1], y[:1], **({"classes": ["low", "high"]} if y is Y else {})
    )
    assert single.predict(X[:1])[0] == pytest.approx(y[0]) if y is Z else y[0]


def test_a_provisional_layer_is_chosen_again_after_many_new_samples_only():
    model, chosen_at, previous = clone(TANH), [], None
    for i in range(50):
        model.partial_fit(X[i : i + 1], Y[i : i + 1], classes=["low", "high"]).predict(X[:2])
        components = model.components_
        if components is not previous:
            chosen_at.append(i + 1)
        previous = components
        model.predict(X[:2])
        assert model.components_ is components
        assert model._incremental_state.statistics.total.n == i + 1  # the readout has all samples
    assert chosen_at[:5] == [1, 2, 3, 5, 8]
    assert len(chosen_at) < 12


def test_partial_fit_defers_the_layer_and_the_readout():
    model = train(RBFClassifier(20, kernel="laplacian", **PLAIN), np.arange(500))
    assert not hasattr(model, "centers_")
    with pytest.raises(AttributeError, match=r"until its readout is solved.*solve\(\)"):
        _ = model.readout_coef_
    assert model.score(X[:500], Y[:500]) > 0.8
    assert len(model.centers_) == 20
    assert len(train(model, np.arange(500, 510)).centers_) == 20
    assert not hasattr(model, "readout_coef_")


@pytest.mark.parametrize(
    ("n_hidden", "required"), [(1, 6000), (300, 6000), (3000, 6000), (4000, 8000)]
)
def test_required_samples(n_hidden, required, monkeypatch):
    monkeypatch.undo()
    assert buffer.required_samples(TanhClassifier(n_hidden)._parts().units) == required
    assert buffer.required_samples(RBFClassifier()._parts().units) == 8000


def test_the_layer_is_not_fixed_before_all_classes_occur():
    """After four times the required samples it is fixed without the missing class."""
    many = np.tile(np.arange(N), 4)[: 4 * ENOUGH]
    model = train(clone(TANH), many[:2000], classes=["low", "high", "never"])
    assert has_buffer(model)
    assert has_buffer(train(model, many[2000 : 4 * ENOUGH - 1], 500))
    assert not has_buffer(train(model, many[-1:]))


@pytest.mark.parametrize("options", [{}, {"classes": ["low", "high"]}], ids=["omitted", "listed"])
def test_the_layer_needs_samples_of_each_class(options):
    """Samples that are sorted by class are buffered until the layer can separate the classes."""
    low, high = (np.flatnonzero(name == Y) for name in ("low", "high"))
    model = train(clone(TANH), np.tile(low, 3)[:ENOUGH], **options)
    share = int(buffer._CLASS_SHARE * ENOUGH / 2)
    assert has_buffer(train(model, high[: share - 1], **options))
    assert not has_buffer(train(model, high[share - 1 : share], **options))


@pytest.mark.parametrize("n_columns", [2, 3], ids=["outputs", "indicators"])
def test_the_layer_needs_samples_of_each_class_of_each_output(n_columns):
    """Labels of a multilabel problem may be constant."""
    rare = np.arange(ENOUGH) % 20 == 0
    y = np.column_stack([np.arange(ENOUGH) % 2, *[rare] * (n_columns - 1)])
    model = train(clone(TANH), np.arange(ENOUGH), y=2 * y if n_columns == 2 else y)
    assert has_buffer(model) == (n_columns == 2)


def test_a_stream_that_is_sorted_by_class(monkeypatch):
    """The layer separates the classes as well as that of `fit`."""
    monkeypatch.setattr(buffer, "_MIN_ROWS", 500)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3))
    y = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    model = RBFClassifier(40, kernel="laplacian", **PLAIN)
    train, test = slice(1000), slice(1000, None)
    fitted = clone(model).fit(rows[train], y[train])
    order = np.argsort(y[train], kind="stable")
    for part in np.array_split(order, 20):
        model.partial_fit(rows[part], y[part], classes=[0, 1])
    assert not has_buffer(model)
    assert model.score(rows[test], y[test]) > fitted.score(rows[test], y[test]) - 0.03


def test_max_memory_ends_buffering():
    n_bytes = 200 * (8 * 3 + Y.itemsize + 16)
    model = TanhClassifier(9, max_memory=8 * n_bytes, **PLAIN)
    assert has_buffer(train(model, np.arange(199), 1))
    assert not has_buffer(train(model, np.arange(199, 200)))
    fitted = TanhClassifier(9, **PLAIN).fit(X[:200], Y[:200])
    assert_same_layer(model, fitted)
    # A batch that exceeds the limit determines the layer alone.
    model = train(TanhClassifier(9, max_memory=8 * n_bytes, **PLAIN), np.arange(20))
    train(model, np.arange(20, 500), 480)
    assert_same_layer(model, TanhClassifier(9, **PLAIN).fit(X[20:500], Y[20:500]))
    assert model.solve()._incremental_state.statistics.total.n == 500


def test_units_independent_of_the_samples_are_fixed_at_once():
    model = TanhClassifier(9, scale=1.0, **PLAIN).partial_fit(X[:2], Y[:2], classes=np.unique(Y))
    assert not has_buffer(model)
    assert has_buffer(clone(TANH).partial_fit(X[:2], Y[:2]))


def test_warnings_are_issued_when_the_layer_is_fixed():
    model = RBFClassifier(50, kernel="laplacian", **PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, np.arange(30), 10, classes=["low", "high"]).predict(X[:3])
    with pytest.warns(UserWarning, match="n_hidden=50 is more than the 30 samples"):
        model.solve(fix_layer=True)
    assert not has_buffer(model)


def test_a_layer_for_one_class():
    model = clone(TANH).partial_fit(X[:9], Y[:9] != "", classes=[False, True])
    with pytest.warns(UserWarning, match=r"are of one class.*FrozenEstimator"):
        model.solve(fix_layer=True)


def test_solve_without_a_buffer_fixes_nothing():
    fitted = clone(TANH).fit(X, Y)
    before = dict(vars(fitted))
    assert fitted.solve(fix_layer=True) is fitted
    assert vars(fitted) == before


class TestClasses:
    """Classes that are not listed are those that occur before the layer is fixed."""

    def test_new_classes_may_occur_later(self):
        model = clone(TANH).partial_fit(X[:5], ["a"] * 5)
        np.testing.assert_array_equal(model.classes_, ["a"])
        with pytest.raises(ValueError, match=r"one class.*'a'.*classes=\[\.\.\.\]"):
            model.predict(X)
        model.partial_fit(X[5:9], ["c", "c", "a", "c"])
        assert model.decision_function(X).shape == (N,)
        model.partial_fit(X[9:12], ["b"] * 3)
        np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
        assert model.decision_function(X).shape == (N, 3)
        model.solve(fix_layer=True)
        with pytest.raises(ValueError, match=r"y contains \['d'\].*list there all classes"):
            model.partial_fit(X[:1], ["d"])

    def test_classes_may_be_listed_later(self):
        model = clone(TANH).partial_fit(X[:9], Y[:9])
        with pytest.raises(ValueError, match="not among classes"):
            model.partial_fit(X[:2], Y[:2], classes=["a", "b"])
        model.partial_fit(X[9:12], Y[9:12], classes=["low", "high", "medium"])
        assert model.predict_proba(X).shape == (N, 3)
        with pytest.raises(ValueError, match="differ from those of the first call"):
            model.partial_fit(X[:2], Y[:2], classes=["low", "high"])
        with pytest.raises(ValueError, match=r"y contains \['other'\]"):
            model.partial_fit(X[:1], ["other"])

    def test_a_multilabel_target_may_become_multiclass(self):
        y = np.column_stack([np.arange(20) % 2, np.arange(20) % 2])
        model = clone(TANH).partial_fit(X[:20], y)
        assert model.multilabel_
        assert model.decision_function(X).shape == (N, 2)
        model.partial_fit(X[:20], y * [1, 2])
        assert not model.multilabel_
        assert [p.shape[1] for p in model.predict_proba(X)] == [2, 3]

    @pytest.mark.parametrize(
        ("y", "match"),
        [([1, 2], "text or numbers"), ([["a", "b"], ["b", "a"]], r"2 column\(s\), but had 1")],
    )
    def test_y_of_another_type_or_shape(self, y, match):
        model = clone(TANH).partial_fit(X[:9], Y[:9])
        with pytest.raises(ValueError, match=match):
            model.partial_fit(X[:2], y)
        assert len(model._sample_buffer) == 9


def test_targets_of_another_shape():
    model = clone(REGRESSOR).partial_fit(X[:9], Z[:9])
    with pytest.raises(ValueError, match=r"y has shape \(9, 2\)"):
        model.partial_fit(X[:9], np.column_stack([Z[:9], Z[:9]]))


class TestForget:
    def test_removed_samples_have_no_effect(self):
        for is_solved in (False, True):
            model = train(clone(TANH), np.arange(300))
            if is_solved:
                model.predict(X)
            model.partial_fit(X[300:310], Y[300:310])
            model.forget(X[50:305], Y[50:305])
            assert model.score(X[:50], Y[:50]) > 0.7
            rest = np.r_[np.arange(50), np.arange(305, 310)]
            assert_same(model, train(clone(TANH), rest, 55))

    def test_a_removed_sample_stays_a_centre_of_a_provisional_layer_only(self):
        model = RBFClassifier(20, kernel="laplacian", **PLAIN)
        model.partial_fit(X[:100], Y[:100]).solve()
        centers = model.centers_
        rows = model.support_[:5]
        model.forget(X[rows], Y[rows]).solve()
        np.testing.assert_array_equal(model.centers_, centers)
        model.solve(fix_layer=True)
        assert not np.isin(model.centers_, X[rows]).all(axis=1).any()

    def test_samples_that_are_added_afterwards_are_summed(self):
        model = train(clone(TANH), np.arange(100)).solve()
        train(model.forget(X[:10], Y[:10]), np.arange(100, 105)).solve()
        assert model._incremental_state.statistics.total.n == 95
        fitted = TanhClassifier(layer=FrozenEstimator(model), alpha=1.0).fit(X[10:105], Y[10:105])
        np.testing.assert_allclose(model.readout_coef_, fitted.readout_coef_, atol=1e-9)

    def test_copies_and_parts_of_weights(self):
        model = train(clone(TANH), np.tile(np.arange(40), 3), 40)
        model.forget(X[:40], Y[:40]).forget(X[:40], Y[:40], np.full(40, 0.25))
        assert sum(len(part) for part in model._sample_buffer.parts) == 80
        model.forget(X[:40], Y[:40], np.full(40, 0.75))
        assert_same(model, train(clone(TANH), np.arange(40), 40))

    def test_weights_of_very_different_size(self):
        weight = 10.0 ** np.arange(-10, 10)
        model = clone(REGRESSOR).partial_fit(X[:20], Z[:20], weight)
        model.forget(X[:20:2], Z[:20:2], weight[::2]).forget(X[1:2], Z[1:2], weight[1:2] / 2)
        (part,) = model._sample_buffer.parts
        weight[1] /= 2
        np.testing.assert_allclose(part.weight, weight[1::2], rtol=1e-12)

    @pytest.mark.parametrize(
        ("rows", "y", "weight"),
        [
            (slice(300, 301), Y[300:301], None),
            (slice(1), [{"low": "high", "high": "low"}[Y[0]]], None),
            (slice(1), Y[:1], [1.001]),
            ([0, 0], Y[[0, 0]], None),
        ],
        ids=["features", "class", "weight", "twice"],
    )
    def test_unknown_samples(self, rows, y, weight):
        model = train(clone(TANH), np.arange(300))
        before = dict(vars(model))
        with pytest.raises(ValueError, match="Not all of these samples can have been added"):
            model.forget(X[rows], y, weight)
        assert vars(model) == before

    def test_all_samples(self):
        model = train(clone(TANH), np.arange(30)).solve()
        model.forget(X[:30], Y[:30])
        with pytest.raises(NotFittedError, match=r"All samples of this .* were removed"):
            model.predict(X)
        with pytest.raises(NotFittedError, match=r"All samples of this .* were removed"):
            model.solve(fix_layer=True)
        with pytest.raises(ValueError, match="no samples left"):
            model.forget(X[:1], Y[:1])
        assert_same(train(model, np.arange(40)), train(clone(TANH), np.arange(40)))

    def test_a_window_stays_provisional(self):
        """The readout is exact, and the layer is chosen again as samples are replaced."""
        model, layers = clone(REGRESSOR), set()
        for start in range(0, 400, 20):
            train(model, np.arange(start, start + 20), y=Z)
            if start >= 100:
                model.forget(X[start - 100 : start - 80], Z[start - 100 : start - 80])
            model.solve()
            layers.add(model.components_.tobytes())
        assert 5 < len(layers) < 15
        fitted = TanhRegressor(layer=FrozenEstimator(model), alpha=1.0).fit(X[300:400], Z[300:400])
        np.testing.assert_allclose(model.predict(X), fitted.predict(X), atol=1e-9)

    def test_decayed_samples(self):
        model = train(clone(TANH).set_params(forgetting_factor=0.9), np.arange(30))
        with pytest.raises(ValueError, match=r"forgetting_factor=0.9"):
            model.forget(X[:1], Y[:1])
        with pytest.raises(ValueError, match=r"forgetting_factor=1"):
            model.set_params(forgetting_factor=1.0).forget(X[:1], Y[:1])


class TestMerge:
    PARTS = tuple(np.split(np.arange(300), [100, 250]))

    @pytest.mark.parametrize("model", [TANH, REGRESSOR], ids=["classifier", "regressor"])
    def test_buffered_models(self, model):
        y = Y if model is TANH else Z
        first, *others = [train(clone(model), rows, y=y) for rows in self.PARTS]
        others[0].solve()
        first.merge(others)
        assert has_buffer(first)
        assert has_buffer(others[0])
        assert_same(first, train(clone(model), np.arange(300), y=y))

    def test_merged_buffers_with_enough_samples_fix_the_layer(self):
        parts = [train(clone(TANH), rows) for rows in np.split(np.arange(N), 2)]
        merged = parts[0].merge(parts[1:])
        assert not has_buffer(merged)
        assert_same(merged, clone(TANH).partial_fit(X, Y))

    @pytest.mark.parametrize("which", [0, 1, 2])
    @pytest.mark.parametrize("model", [TANH, REGRESSOR], ids=["classifier", "regressor"])
    def test_a_fixed_layer_receives_the_buffered_samples(self, model, which):
        """In any order of the models."""
        y = Y if model is TANH else Z
        models = [train(clone(model), rows, y=y) for rows in self.PARTS]
        layer = FrozenEstimator(copy.deepcopy(models[which].solve(fix_layer=True)))
        merged = models[0].merge(models[1:])
        expected = clone(model).set_params(layer=layer).fit(X[:300], y[:300])
        assert not has_buffer(merged)
        merged.solve()
        assert_same_layer(merged, expected)
        np.testing.assert_allclose(merged.readout_coef_, expected.readout_coef_, atol=1e-9)
        train(merged, np.arange(300, 310), y=y).forget(X[:5], y[:5])

    def test_classes_of_merged_models(self):
        """Listed classes must agree; otherwise the merged model has the classes of both."""
        listed = train(clone(TANH), np.arange(9), classes=["low", "high", "a"])
        other = clone(TANH).partial_fit(X[:9], list("aabbaabba"))
        both = copy.deepcopy(other).merge([train(clone(TANH), np.arange(9))])
        np.testing.assert_array_equal(both.classes_, ["a", "b", "high", "low"])
        with pytest.raises(ValueError, match=r"y contains \['b'\]"):
            copy.deepcopy(listed).merge([other])
        both = train(clone(TANH), np.arange(9)).merge([listed])
        np.testing.assert_array_equal(both.classes_, ["a", "high", "low"])
        with pytest.raises(ValueError, match="not among classes"):
            both.partial_fit(X[:1], ["b"])
        copy.deepcopy(listed).merge([train(clone(TANH), np.arange(9))])
        fewer = train(clone(TANH), np.arange(9), classes=["low", "high"])
        for one, two in ((listed, fewer), (fewer, listed)):
            with pytest.raises(ValueError, match=r"models\[0\] has classes_="):
                copy.deepcopy(one).merge([two])
            with pytest.raises(ValueError, match=r"models\[0\] has classes_="):
                copy.deepcopy(one).merge([copy.deepcopy(two).solve(fix_layer=True)])
            with pytest.raises(ValueError, match=r"models\[0\] has classes_="):
                copy.deepcopy(one).solve(fix_layer=True).merge([two])

    @pytest.mark.parametrize("factor", [0.98, 1.0])
    def test_each_sample_keeps_its_decay(self, factor):
        """Also if those of the first model have not decayed."""
        factors = (factor, 0.98, 0.98)
        parts = [
            train(clone(REGRESSOR).set_params(forgetting_factor=f), rows, y=Z)
            for f, rows in zip(factors, self.PARTS, strict=True)
        ]
        merged = parts[0].merge(parts[1:])
        train(merged, np.arange(300, 310), y=Z)
        ages = [np.arange(len(rows))[::-1] for rows in self.PARTS]
        weight = np.concatenate([f**age for f, age in zip(factors, ages, strict=True)])
        weight = np.concatenate([weight * factor**10, factor ** np.arange(10)[::-1]])
        merged.solve()
        fitted = TanhRegressor(layer=FrozenEstimator(merged), alpha=1.0)
        fitted.fit(X[:310], Z[:310], weight)
        np.testing.assert_allclose(merged.predict(X), fitted.predict(X), atol=1e-9)

    def test_another_metric(self):
        given = {"radius": 1.0, "kernel": "gaussian", "feature_weights": None, "alpha": 1.0}
        fixed = train(RBFRegressor(9, metric="euclidean", **given), np.arange(50), y=Z)
        buffered = train(RBFRegressor(9, metric="manhattan", **given), np.arange(50), y=Z)
        with pytest.raises(ValueError, match="another metric"):
            buffered.merge([fixed.solve(fix_layer=True)])


def test_a_layer_may_be_set_while_samples_are_buffered():
    """The next call fixes it, and a regressor takes the target scale of that layer."""
    layer = FrozenEstimator(clone(REGRESSOR).fit(X[:50], Z[:50]))
    for n_calls in (0, 1):
        model = train(clone(REGRESSOR), np.arange(60), y=Z)
        model.set_params(layer=layer)
        if n_calls:
            train(model, np.arange(60, 61), y=Z)
        model.solve()
        assert not has_buffer(model)
        assert_same_layer(model, layer.estimator)
        assert model.target_scale_ == layer.estimator.target_scale_


def test_the_layer_of_a_buffered_model_may_be_used():
    model = train(clone(TANH), np.arange(50))
    other = TanhClassifier(layer=FrozenEstimator(model), alpha=1.0).fit(X, Y)
    assert_same_layer(other, clone(TANH).fit(X[:50], Y[:50]))


def test_parameters_may_change_while_samples_are_buffered():
    """They take effect when the layer is chosen."""
    model = train(clone(TANH), np.arange(60)).solve().set_params(n_hidden=5)
    assert model.solve(fix_layer=True).components_.shape == (5, 3)


def test_the_metric_may_change_while_samples_are_buffered():
    """The sums of the provisional layer, for the old metric, are discarded."""
    model = train(RBFRegressor(9, kernel="gaussian", radius=1.0, **PLAIN), np.arange(60), y=Z)
    model.solve().set_params(metric="euclidean")
    train(model, np.arange(60, 61), y=Z).solve()
    fitted = RBFRegressor(layer=FrozenEstimator(model), metric="euclidean", alpha=1.0)
    np.testing.assert_allclose(model.predict(X), fitted.fit(X[:61], Z[:61]).predict(X), atol=1e-8)


@pytest.mark.parametrize("n_new", [0, 1])
def test_the_penalty_may_become_automatic(n_new):
    """A fixed penalty has no held-out sums, so the provisional layer is chosen again."""
    model = train(clone(TANH), np.arange(60)).solve().set_params(alpha="auto")
    if n_new:
        train(model, np.arange(60, 61))
    model.solve()
    assert model.alpha_ == model.search_results_["alpha"][model.search_results_["error"].argmin()]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
@pytest.mark.parametrize("is_solved", [False, True])
def test_copies_are_independent(copied, is_solved):
    model = train(clone(TANH), np.arange(50))
    if is_solved:
        model.solve()
    other = copied(model)
    train(other, np.arange(50, 60))
    assert_same(other, train(clone(TANH), np.arange(60)))
    assert_same(model, train(clone(TANH), np.arange(50)))


def test_buffered_samples_are_copies():
    rows, y, weight = X[:50].copy(), Z[:50].copy(), np.ones(50)
    model = clone(REGRESSOR).partial_fit(rows, y, weight)
    rows[:], y[:], weight[:] = 0, 0, 0
    assert_same(model, clone(REGRESSOR).partial_fit(X[:50], Z[:50]))


def test_samples_of_weight_zero_are_ignored():
    weight = (np.arange(100) % 3 > 0).astype(float)
    model = clone(TANH).partial_fit(X[:100], Y[:100], sample_weight=weight)
    assert_same(model, train(clone(TANH), np.flatnonzero(weight)))
    model.partial_fit(X[:9], np.full(9, "other"), sample_weight=np.zeros(9))
    assert_same(model, train(clone(TANH), np.flatnonzero(weight)))


def test_batches_of_several_kinds():
    rows = np.abs(10 * X).astype(np.uint8)
    kinds = [np.asarray, csr_array, np.float32, np.int64, csr_array]
    model = clone(TANH)
    parts = np.array_split(np.arange(300), 5)
    for part, kind in zip(parts, kinds, strict=True):
        model.partial_fit(kind(rows[part]), Y[part])
    model.forget(rows[parts[1]], Y[parts[1]])
    rest = np.setdiff1d(np.arange(300), parts[1])
    expected = clone(TANH).partial_fit(rows[rest].astype(float), Y[rest])
    assert_same(model, expected)


def test_a_large_batch_of_integers_joins_the_buffer():
    """Integers are converted as they are read; those that join the buffer, at once."""
    rows = RNG.integers(0, 9, (2200, 200))
    y = rows[:, 0] > 4
    model = clone(TANH).partial_fit(rows[:100], y[:100]).partial_fit(rows[100:], y[100:])
    assert_same(model, clone(TANH).partial_fit(rows.astype(float), y))


def test_a_failed_choice_changes_nothing():
    model = train(TanhClassifier(9, feature_weights=[1.0, 2.0], random_state=0), np.arange(N - 200))
    before = dict(vars(model))
    for call in (lambda: model.predict(X), lambda: train(model, np.arange(N - 200, N), 200)):
        with pytest.raises(ValueError, match="feature_weights"):
            call()
        assert vars(model) == before


def test_an_invalid_device_raises_in_the_first_call():
    with pytest.raises(ValueError, match="device='gpu'"):
        TanhClassifier(9, device="gpu").partial_fit(X[:9], Y[:9])


@pytest.mark.exhaustive
def test_drift_rises_if_the_target_changes():
    """The error on new samples rises if the target changes, and not otherwise."""
    rng = np.random.default_rng(1)
    model = TanhRegressor(20, alpha=1.0, random_state=0).partial_fit(X, Z)

    def add_batches(n, angle):
        for _ in range(n):
            new = rng.normal(size=(50, 3))
            a = np.cos(angle) * new[:, 0] + np.sin(angle) * new[:, 2]
            model.predict(new)
            model.partial_fit(new, a * new[:, 1] + 0.1 * rng.normal(size=50))
        return model.solve()

    add_batches(9, 0)
    with pytest.raises(AttributeError, match="no drift_: it is estimated on 500 samples"):
        _ = model.drift_
    assert add_batches(30, 0).drift_ < 1.3
    assert pickle.loads(pickle.dumps(model)).drift_ == model.drift_
    assert add_batches(10, np.pi / 2).drift_ > 1.5
    for fresh in (clone(model), clone(model).partial_fit(X[:5], Z[:5]), clone(model).fit(X, Z)):
        assert not hasattr(fresh, "drift_")


@pytest.mark.exhaustive
def test_drift_of_a_window_counts_new_samples_only():
    """The estimate counts the new samples, and not those that `forget` removes."""
    rng = np.random.default_rng(1)
    model = TanhRegressor(20, alpha=1.0, random_state=0).partial_fit(X, Z).solve()
    for i in range(20):
        new = rng.normal(size=(50, 3))
        model.partial_fit(new, new[:, 0] * new[:, 1])
        rows = slice(50 * i, 50 * i + 50)
        model.forget(X[rows], Z[rows]).solve()
    assert model._incremental_state.errors.n_rows == 1000
    assert model.drift_ < 1.3


@pytest.mark.parametrize(
    # Before samples are removed from the window, it contains all.
    "window", [pytest.param(None, marks=pytest.mark.exhaustive), 300], ids=["all", "window"],
)  # fmt: skip
def test_drift_of_provisional_layers(window):
    """Errors are compared although the layer is chosen again."""
    model, layers, found = TanhRegressor(25, **PLAIN), set(), []
    target = np.where(np.arange(N) < 1000, Z, -Z)
    for start in range(0, 1500, 20):
        train(model, np.arange(start, start + 20), 20, target)
        if window and start >= window:
            rows = slice(start - window, start - window + 20)
            model.forget(X[rows], target[rows])
        model.solve()
        layers.add(model.components_.tobytes())
        found.append(getattr(model, "drift_", None))
    assert has_buffer(model)
    assert len(layers) > 5
    assert found[24] is None
    assert max(found[40:50]) < 1.4
    assert found[60] > 1.5
    model.forget(X[1300:1400], target[1300:1400])
    assert model.drift_ > 1.5
    model.solve(fix_layer=True)
    assert model.drift_ > 1.5
