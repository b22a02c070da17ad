"""Errors of `partial_fit`, `forget` and `merge`: the message, and the unchanged estimator."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.parts.composition import layer_of

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = np.array(["a", "b", "c"])[np.arange(N) % 3]
Z = 3 * X[:, 0] + 100
TANH = {"n_hidden": 12, "feature_weights": None, "alpha": 0.1, "random_state": 0}


Y60 = np.where(Y == "c", "a", Y)[:60]


def make_labels(*n_classes):
    return np.column_stack([np.arange(N) % k for k in n_classes])


@pytest.fixture
def model():
    """Trained on the first 60 samples, without class "c"."""
    y = np.where(Y == "c", "a", Y)
    model = TanhClassifier(**TANH).partial_fit(X[:60], y[:60], classes=["c", "b", "a"])
    return model.solve(fix_layer=True)


@pytest.fixture
def regressor():
    return TanhRegressor(**TANH).partial_fit(X[:60], Z[:60]).solve(fix_layer=True)


def raises_unchanged(model, error, match):
    """Context that requires an error, after which the model and its samples are unchanged."""
    return _Unchanged(model, pytest.raises(error, match=match))


class _Unchanged:
    def __init__(self, model, raises):
        self.model, self.raises = model, raises

    def __enter__(self):
        self.before = dict(vars(self.model))
        self.coef = copy.copy(self.model).solve().readout_coef_ if self._is_incremental else None
        self.raises.__enter__()

    def __exit__(self, *exception):
        raised = self.raises.__exit__(*exception)
        assert vars(self.model).keys() == self.before.keys()
        assert all(vars(self.model)[name] is value for name, value in self.before.items())
        if self.coef is not None:
            again = copy.copy(self.model).solve()
            np.testing.assert_array_equal(again.readout_coef_, self.coef)
        return raised

    @property
    def _is_incremental(self):
        return self.model._is_incremental


INVALID_FIRST_CALLS = [
    (Y, ["a", "b"], r"y contains \['c'\], which are not among classes=\['a', 'b'\]"),
    (Y, ["a", "a"], "two or more"),
    (Y, [["a", "b"], ["c", "d"]], r"do not match y, which has 1 column\(s\)"),
    (Y, [1, 2, 3], "not among classes"),
    (np.arange(N), np.array(["a", "b"], object), "not among classes"),
    (Z, [100.5, 200.25], "[Uu]nknown label type"),
    (make_labels(3, 2), [0, 1, 2], r"do not match y, which has 2 column\(s\)"),
    (make_labels(3, 2), [[0, 1, 2]], r"do not match y, which has 2 column\(s\)"),
    (
        make_labels(3, 2),
        [[0, 1, 2], [1, 2]],
        r"y contains \[0\], which are not among classes=\[1, 2\]",
    ),
    (np.where(Y == "a", np.nan, 1.0), [0, 1], "NaN"),
]


@pytest.mark.parametrize(("y", "classes", "match"), INVALID_FIRST_CALLS)
def test_invalid_first_calls(y, classes, match):
    model = TanhClassifier(**TANH)
    with raises_unchanged(model, ValueError, match):
        model.partial_fit(X, y, classes=classes)


@pytest.mark.parametrize("y", [Y, make_labels(3, 2)], ids=["one output", "two outputs"])
def test_a_given_layer_needs_the_classes(y):
    model = TanhClassifier(layer=FrozenEstimator(TanhProjector(9).fit(X)), **TANH)
    with raises_unchanged(
        model, ValueError, "classes must be passed on the first call.*a list with"
    ):
        model.partial_fit(X, y)


@pytest.mark.parametrize("change", [{"n_hidden": 0}, {"alpha": -1}, {"device": "gpu"}])
def test_invalid_parameters_in_the_first_call(change):
    model = TanhClassifier(**TANH | change)
    with raises_unchanged(model, ValueError, str(next(iter(change)))):
        model.partial_fit(X, Y, classes=list("abc"))


def test_too_few_samples_to_hold_any_out():
    """predict uses a default penalty; the kernel of given centres has no default and raises."""
    for model, alpha in (
        (TanhClassifier(12, feature_weights=None, random_state=0), 10.0),
        (RBFClassifier(random_state=0), 0.1),
    ):
        model.partial_fit(X[:1], Y[:1], classes=list("abc"))
        assert model.predict(X)[0] == "a"
        assert model.alpha_ == pytest.approx(alpha)
    radial = RBFClassifier(layer=X[:9])
    with raises_unchanged(
        radial,
        ValueError,
        "n_samples=1. Pass more samples .in partial_fit with a given layer, in the first call",
    ):
        radial.partial_fit(X[:1], Y[:1], classes=list("abc"))


INVALID_LATER_CALLS = [
    ((X[:, :2], Y), {}, "2 features"),
    ((X, np.where(Y == "a", "d", Y)), {}, r"y contains \['d'\], which are not among classes"),
    ((X, Y), {"classes": ["a", "b"]}, "differ from those of the first call"),
    ((X, make_labels(2, 3)), {}, r"y has 2 column\(s\), but had 1"),
    ((X[:, :2], Y), {"sample_weight": np.zeros(N)}, "2 features"),
    ((X, Y), {"sample_weight": -np.ones(N)}, "sample_weight"),
    ((X, Y[:5]), {}, "inconsistent numbers of samples"),
    ((np.where(X > 1, np.inf, X), Y), {}, "infinity"),
]


@pytest.mark.parametrize("method", ["partial_fit", "forget"])
@pytest.mark.parametrize(("given", "more", "match"), INVALID_LATER_CALLS)
def test_invalid_later_calls(model, method, given, more, match):
    if method == "forget" and "classes" in more:
        return
    with raises_unchanged(model, ValueError, match):
        getattr(model, method)(*given, **more)


def test_classes_may_be_given_again(model):
    model.partial_fit(X, Y, classes=["b", "a", "c"])


def test_y_of_another_shape_or_scale_raises(regressor):
    with raises_unchanged(regressor, ValueError, r"y has shape \(120, 2\)"):
        regressor.partial_fit(X, np.column_stack([Z, Z]))
    with raises_unchanged(regressor, ValueError, r"more than 1e\+100 standard deviations"):
        regressor.partial_fit(X, Z * 1e150)


def test_a_changed_layer_raises(model):
    model.set_params(layer=FrozenEstimator(copy.deepcopy(model)))
    for call in (model.partial_fit, model.forget):
        with raises_unchanged(model, ValueError, "fixed by partial_fit.*set them back"):
            call(X[:3], ["a"] * 3)
    model.set_params(layer=None).partial_fit(X[:3], ["a"] * 3)
    radial = RBFClassifier(10, kernel="gaussian", radius=1.0, feature_weights=None, alpha=1.0)
    radial.partial_fit(X, Y, classes=list("abc")).solve(fix_layer=True)
    radial.set_params(metric="euclidean")
    with raises_unchanged(radial, ValueError, "layer or metric were changed"):
        radial.forget(X, Y)


@pytest.mark.parametrize("rows", [slice(3), np.flatnonzero(Y60 == "a")], ids=["all", "a"])
def test_changed_class_weights_raise(model, rows):
    """Samples would be removed with other weights than they were added with."""
    model = TanhClassifier(class_weight={"a": 2.0}, **TANH).partial_fit(X[:60], Y60)
    other = copy.deepcopy(model.solve(fix_layer=True))
    model.class_weight["a"] = 0.0  # in place
    for call in (model.partial_fit, model.forget):
        with raises_unchanged(
            model, ValueError, r"class_weight=\{'a': 2.0\}, and has class_weight=\{'a': 0.0\} since"
        ):
            call(X[rows], Y60[rows])
    model.set_params(class_weight={"a": 2.0}).forget(X[rows], Y60[rows])
    buffered = TanhClassifier(**TANH).partial_fit(X[60:], Y60)
    for first, second in ((other, buffered), (buffered, other)):
        with raises_unchanged(first, ValueError, r"models\[0\] has class_weight=.*with the same"):
            first.merge([second])


@pytest.mark.parametrize(
    ("regression", "change"),
    [
        (False, {"class_weight": "balanced"}),
        (False, {"readout": "softmax"}),
        (False, {"alpha": "loo"}),
        (True, {"uncertainty": True}),
        (True, {"target_transform": "log"}),
    ],
)
def test_parameters_without_partial_fit_have_no_forget(model, regressor, regression, change):
    model, y = (regressor, Z[:60]) if regression else (model, Y60)
    other = copy.deepcopy(model)
    model.set_params(**change)
    for call in (lambda: model.forget(X[:60], y), lambda: model.merge([other])):
        with pytest.raises(ValueError, match=rf"{next(iter(change))}=.*partial_fit"):
            call()


GONE = [
    (
        X[:60],
        np.array(["c"] * 60),
        None,
        "class c can have been added.*their sum of squares exceeds",
    ),
    (X[:60], np.array(["b"] * 60), None, "class b can have been added"),
    (X[:20], Y60[:20], np.full(20, 3.5), "class a can have been added"),
    (np.tile(X[:60], (2, 1)), np.tile(Y60, 2), None, "class a can have been added"),
    (X[:3] * 50, Y60[:3], np.full(3, 12.0), "sum of squares about the mean"),
    (X[60:], Y60, None, "weights add up to 60, and those of the samples that were added to 60"),
]


@pytest.mark.parametrize(("rows", "y", "weight", "match"), GONE)
def test_forget_of_unknown_samples_raises(model, rows, y, weight, match):
    with raises_unchanged(model, ValueError, match):
        model.forget(rows, y, weight)


def test_forget_of_unknown_targets_raises(regressor):
    with raises_unchanged(regressor, ValueError, "column 0 of y can have been added"):
        regressor.forget(X[:10], Z[:10] * 10)
    with raises_unchanged(regressor, ValueError, "weights add up to 120.*to 60"):
        regressor.forget(X, np.full(N, regressor.target_mean_))


def test_forget_of_unknown_multilabel_targets_raises():
    labels = (X[:, :2] > 0).astype(int)
    model = TanhClassifier(**TANH).partial_fit(X[:10], labels[:10]).solve(fix_layer=True)
    with raises_unchanged(model, ValueError, "class [01] in column [01] of y"):
        model.forget(X, 1 - labels)


@pytest.mark.parametrize("method", ["partial_fit", "forget", "merge"])
def test_an_error_during_a_pass_does_not_change_the_model(model, method, monkeypatch):
    other = copy.deepcopy(model)
    many = np.tile(X, (20, 1)), np.tile(Y, 20)
    calls = {
        "partial_fit": lambda: model.partial_fit(*many),
        "forget": lambda: model.forget(X[:5], Y60[:5]),
        "merge": lambda: model.merge([other, other.partial_fit(X[:5], Y60[:5])]),
    }

    class Failing(JitEngine):
        name = "failing"

        def hidden(self, *args, **kwargs):
            raise MemoryError("none left")

    monkeypatch.setitem(ENGINES, "failing", Failing)
    model.solve().set_params(device="failing")  # the buffer is empty
    with raises_unchanged(model, MemoryError, "none left"):
        calls[method]()


def incompatible_models(model):
    """Return models that cannot be merged, with type and message of the error."""
    frozen = FrozenEstimator(copy.deepcopy(model))
    plain = TanhClassifier(layer=frozen, **TANH)
    fitted = clone(plain).fit(X, Y)
    moved = copy.deepcopy(model)
    moved.hidden_intercept_ = moved.hidden_intercept_ + 1e-3
    return {
        "no sums": (fitted, ValueError, r"^models\[1\] was trained by fit"),
        "classes": (clone(plain).partial_fit(X, Y, list("abcd")), ValueError, "classes_=.*same"),
        "layer": (
            TanhClassifier(**TANH).partial_fit(2 * X, Y).solve(fix_layer=True), ValueError,
            r"models\[1\] has another hidden layer.*FrozenEstimator",
        ),
        "bias": (moved, ValueError, "another hidden layer"),
        "kind": (TanhRegressor(**TANH).partial_fit(X, Z), TypeError, "must be a TanhClassifier"),
        "not fitted": (plain, ValueError, "not fitted"),
    }  # fmt: skip


@pytest.mark.parametrize("which", ["no sums", "classes", "layer", "bias", "kind", "not fitted"])
def test_merge_of_incompatible_models_raises(model, which):
    other, error, match = incompatible_models(model)[which]
    compatible = copy.deepcopy(model)
    with raises_unchanged(model, error, match):
        model.merge([compatible, other])


def test_merge_needs_a_sequence(model):
    other = copy.deepcopy(model)
    with raises_unchanged(model, TypeError, r"models=TanhClassifier.* must be a sequence"):
        model.merge(other)


def test_weights_of_classes_that_have_not_occurred():
    """They are checked when the layer is fixed, unless the classes are listed."""
    model = TanhClassifier(**TANH, class_weight={"b": 5.0})
    for rows in (Y == "a", Y == "c"):
        model.partial_fit(X[rows], Y[rows])
    with raises_unchanged(model, ValueError, r"\['b'\], which are not .* classes=\[\.\.\.\]"):
        model.solve(fix_layer=True)
    model.partial_fit(X[Y == "b"], Y[Y == "b"]).solve(fix_layer=True)
    fitted = TanhClassifier(**TANH, class_weight={"b": 5.0}, layer=FrozenEstimator(model))
    np.testing.assert_allclose(model.readout_coef_, fitted.fit(X, Y).readout_coef_, atol=1e-6)
    with pytest.raises(ValueError, match=r"weights of \['b'\]"):
        clone(model).partial_fit(X[Y == "a"], Y[Y == "a"], classes=["a", "c"])


@pytest.mark.parametrize("fixes", [(), (0,), (1,), (0, 1)])
def test_merge_of_other_columns_raises(fixes):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    layer = FrozenEstimator(TanhProjector(12, random_state=0).fit(X))
    cases = [
        (table[["c", "b", "a"]], Z, r"^models\[0\] has 'c' as feature 0, but this model has 'a'"),
        (X[:, :2], Z, r"^models\[0\] has 2 features, but this model has 3; pass"),
        (X, np.column_stack([Z, Z]), r"models\[0\] has .* y of shape \(2,\), .* of shape \(\);"),
        (X, Z[:, None], r"models\[0\] has .* y of shape \(1,\), .* of shape \(\);"),
    ]
    for data, y, match in cases:
        given = {"layer": layer} if data.shape[1] == 3 and len(fixes) == 2 else {}
        models = [TanhRegressor(**TANH, **given).partial_fit(table, Z)]
        models.append(clone(models[0]).partial_fit(data, y))
        for i in fixes:
            models[i].solve(fix_layer=True)
        with raises_unchanged(models[0], ValueError, match):
            models[0].merge(models[1:])


@pytest.mark.parametrize("fix_layer", [False, True])
def test_merge_of_other_outputs_of_a_classifier_raises(fix_layer):
    one = TanhClassifier(**TANH).partial_fit(X, make_labels(2, 2))
    other = TanhClassifier(**TANH).partial_fit(X, make_labels(2, 2, 2)).solve(fix_layer=fix_layer)
    with raises_unchanged(one, ValueError, r"y of shape \(3,\), but this model of shape \(2,\)"):
        one.merge([other])


def test_merge_of_differently_scaled_targets_raises(regressor):
    other = TanhRegressor(**TANH).partial_fit(X[:60], 2 * Z[:60]).solve(fix_layer=True)
    with raises_unchanged(regressor, ValueError, "target_mean_.*FrozenEstimator"):
        regressor.merge([other])
    same = TanhRegressor(layer=FrozenEstimator(regressor), **TANH).partial_fit(X[60:], Z[60:])
    whole = TanhRegressor(layer=FrozenEstimator(regressor), **TANH).fit(X, Z)
    regressor.merge([same])
    np.testing.assert_allclose(regressor.predict(X), whole.predict(X), rtol=1e-12)


def test_merge_is_commutative(model):
    compatible = clone(model).set_params(layer=FrozenEstimator(copy.deepcopy(model)))
    parts = [
        clone(compatible).partial_fit(X[p], Y[p], list("abc"))
        for p in np.array_split(np.arange(N), 4)
    ]
    forwards = copy.deepcopy(model).merge(parts)
    backwards = parts[3].merge([*parts[2::-1], model])
    coefs = [each.solve().readout_coef_ for each in (forwards, backwards)]
    np.testing.assert_allclose(*coefs, atol=1e-10)
    assert forwards._incremental_state.statistics.total.n == 60 + N


@pytest.mark.parametrize("method", ["forget", "merge"])
def test_forget_and_merge_after_fit_raise(method):
    model = TanhClassifier(**TANH).fit(X, Y)
    with raises_unchanged(model, ValueError, "trained by fit.*use partial_fit instead"):
        model.forget(X, Y) if method == "forget" else model.merge([model])


@pytest.mark.parametrize("cls", [RBFClassifier, TanhClassifier, RBFRegressor, TanhRegressor])
def test_partial_fit_after_fit_warns_and_keeps_the_layer(cls):
    y = Z if cls.__name__.endswith("Regressor") else Y
    model = cls(**TANH)
    if cls in (RBFClassifier, RBFRegressor):
        model.set_params(kernel="laplacian", radius=2.0)
    model.fit(X[:60], y[:60])
    layer = layer_of(model)
    with pytest.warns(UserWarning, match="trained by fit.*call partial_fit for the first samples"):
        model.partial_fit(X[60:100], y[60:100])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(layer_of(model).units, layer.units)
    fresh = cls(layer=FrozenEstimator(model), alpha=0.1).fit(X[60:], y[60:])
    np.testing.assert_allclose(model.solve().readout_coef_, fresh.readout_coef_, atol=1e-9)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).readout_coef_, again.readout_coef_)


def test_partial_fit_after_fit_deletes_attributes_of_the_readout():
    model = TanhClassifier(**TANH | {"alpha": "loo"}).fit(X, Y)
    model.set_params(alpha=0.1)
    with pytest.warns(UserWarning, match="trained by fit"):
        model.partial_fit(X, Y)
    for stale in ("alphas_", "loo_errors_", "temperature_", "score_scale_"):
        assert not hasattr(model, stale)


@pytest.mark.parametrize("method", ["partial_fit", "forget"])
def test_a_chunk_function_raises(method):
    X = np.random.default_rng(0).random((30, 3))
    model = TanhRegressor(5, random_state=0).partial_fit(X, X[:, 0])
    with pytest.raises(TypeError, match="one chunk at a time"):
        getattr(model, method)(lambda: [X], X[:, 0])
