"""`partial_fit`, `forget` and `merge`, compared with a fit to the present samples."""

import copy
import pickle
from dataclasses import dataclass

import joblib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import NotFittedError

from modified_parts import set_buffer_size
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor
from sklearn_fsvc._src.estimators import incremental
from sklearn_fsvc._src.parts.composition import layer_of

N, PARTS = 240, 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
PLAIN = {"alpha": 0.1, "feature_weights": None, "random_state": 0}
RBF = {"kernel": "gaussian", "radius": 1.0, "selection": "random", **PLAIN}
N_RBF, N_TANH = 15, 12


@dataclass
class Case:
    """A model, its targets, and further arguments of its first call."""

    model: object
    y: np.ndarray
    options: dict


def make_targets(n_outputs):
    return np.sin(X @ RNG.normal(size=(3, n_outputs))) * 100 + 1e4


CLASSES = np.array(["a", "b", "c"])[(X @ [2, 1, -1]).astype(int) % 3]
LABELS = (X[:, :2] + X[:, 1:] > 0).astype(int)
BOTH = np.column_stack([CLASSES == "a", np.arange(N) % 4])
CASES = {
    "tanh": Case(TanhClassifier(N_TANH, **PLAIN), CLASSES, {"classes": ["c", "b", "a"]}),
    "two classes": Case(TanhClassifier(N_TANH, **PLAIN), CLASSES == "a", {"classes": [0, 1]}),
    "rbf": Case(RBFClassifier(N_RBF, **RBF), CLASSES, {"classes": ["a", "b", "c"]}),
    "multilabel": Case(TanhClassifier(N_TANH, **PLAIN), LABELS, {}),
    "outputs": Case(RBFClassifier(N_RBF, **RBF), BOTH.astype(int), {"classes": [[0, 1], range(4)]}),
    "class weights": Case(
        TanhClassifier(N_TANH, class_weight={"a": 3.0}, **PLAIN), CLASSES, {"classes": list("abc")}
    ),
    "regression": Case(TanhRegressor(N_TANH, **PLAIN), make_targets(1)[:, 0], {}),
    "several targets": Case(RBFRegressor(N_RBF, **RBF), make_targets(3), {}),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


# A given layer is fixed in the first call, however few samples it has.
LAYER = FrozenEstimator(clone(CASES["tanh"].model).fit(X, CLASSES))
GIVEN = TanhClassifier(layer=LAYER, **PLAIN)


@pytest.fixture
def tanh():
    """Return a classifier with a given layer, trained on all samples, with an extra class "d"."""
    return clone(GIVEN).partial_fit(X, CLASSES, classes=list("abcd"))


def refit(case, model, rows, weight):
    """Return a model with the same layer, fitted to some of the samples."""
    other = clone(case.model).set_params(layer=FrozenEstimator(model))
    return other.fit(X[rows], case.y[rows], sample_weight=weight[rows])


def assert_same(model, other, tolerance=1e-8):
    model.solve(), other.solve()
    for name in ("readout_coef_", "readout_intercept_"):
        a, b = getattr(model, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


OPERATIONS = st.tuples(
    st.sampled_from(["add", "remove", "remove half", "pickle", "predict", "merge", "alpha"]),
    st.integers(1, PARTS - 1),
)


@each_case
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    operations=st.lists(OPERATIONS, max_size=40), buffer_size=st.integers(1, 100), data=st.data()
)
def test_random_operations_equal_a_fit_to_the_present_samples(case, operations, buffer_size, data):
    """Parts of the data are added and removed in random order, with a fixed or provisional layer.

    Part 0 is never removed, since the fit for comparison needs all classes.
    """
    is_weighted = data.draw(st.booleans())
    weight = np.random.default_rng(1).random(N) + 0.1 if is_weighted else np.ones(N)
    parts = np.array_split(np.arange(N), PARTS)
    present = np.zeros(N)  # the present weight of each sample

    def add(model, part, factor=1.0):
        given = weight[part] * factor if is_weighted or factor != 1 else None
        model.partial_fit(X[part], case.y[part], sample_weight=given, **case.options)
        present[part] += factor * weight[part]

    model = clone(case.model)
    add(model, parts[0])
    if data.draw(st.booleans()):
        set_buffer_size(model.solve(fix_layer=True), buffer_size)
    for operation, i in operations:
        part = parts[i]
        if operation == "add":
            add(model, part)
        elif operation in ("remove", "remove half") and present[part[0]] > 0:
            removed = present[part] * (0.5 if operation == "remove half" else 1.0)
            model.forget(X[part], case.y[part], removed)
            present[part] -= removed
        elif operation == "pickle":
            model = pickle.loads(pickle.dumps(model))
        elif operation == "predict":
            model.predict(X[:2])
        elif operation == "merge":
            other = clone(case.model).set_params(layer=FrozenEstimator(copy.deepcopy(model)))
            add(other, part)
            if "target_mean_" in vars(model):
                assert np.array_equal(other.target_mean_, model.target_mean_)
            model.merge([other])
        elif operation == "alpha":
            model.set_params(alpha=0.1 * i)
            assert model.solve().alpha_ == 0.1 * i
    case = Case(clone(case.model).set_params(alpha=model.alpha), case.y, case.options)
    model.solve()  # the layer may be chosen again
    assert_same(model, refit(case, model, present > 0, present))


@each_case
def test_forget_of_a_tenth_equals_a_fit_to_the_rest(case):
    model = clone(case.model).partial_fit(X, case.y, **case.options).solve(fix_layer=True)
    removed = np.random.default_rng(0).permutation(N)[: N // 10]
    model.forget(X[removed], case.y[removed])
    rest = np.setdiff1d(np.arange(N), removed)
    assert_same(model, refit(case, model, rest, np.ones(N)), 1e-10)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_forget_in_single_precision_is_accurate(dtype):
    """float32 products of H would cause errors of 1e-4 in the coefficients."""
    rows = (50 * np.abs(X)).astype(dtype)
    model = TanhClassifier(60, feature_weights=None, alpha=1e-4, random_state=0)
    first = clone(model).partial_fit(rows, CLASSES, classes=list("abc")).solve(fix_layer=True)
    rest = clone(model).set_params(layer=FrozenEstimator(first))
    rest.partial_fit(rows[:100], CLASSES[:100], classes=list("abc"))
    assert_same(first.forget(rows[100:], CLASSES[100:]), rest, 1e-6)


@pytest.fixture
def gathered(monkeypatch):
    """Return a list of (number of samples, dtype) of each pass over samples."""
    passes, plain_gather = [], incremental.gather

    def gather(job, layers, samples, **params):
        passes.append((len(samples), samples.X.dtype.char))
        return plain_gather(job, layers, samples, **params)

    monkeypatch.setattr(incremental, "gather", gather)
    return passes


def test_batches_of_several_dtypes(gathered):
    """Buffered batches keep their dtypes: float64 would take eight times the memory of uint8."""
    rows = (50 * np.abs(X)).astype(np.uint8)
    model = TanhClassifier(N_TANH, **PLAIN)
    for part, dtype in zip(np.array_split(np.arange(N), 6), "BBfddB", strict=True):
        model.partial_fit(rows[part].astype(dtype), CLASSES[part], classes=list("abc"))
    again = TanhClassifier(layer=FrozenEstimator(model), **PLAIN)
    assert_same(model, again.fit(rows.astype(float), CLASSES), 1e-5)
    assert gathered == [(80, "B"), (40, "f"), (80, "d"), (40, "B")]


@each_case
def test_the_layer_is_that_of_fit(case):
    chosen = clone(case.model).set_params(alpha="auto")
    if chosen.get_params().get("weights"):  # tanh networks can also choose feature weights
        chosen.set_params(feature_weights="auto")
    model, fitted = clone(chosen), chosen.fit(X, case.y)
    for part in np.array_split(np.arange(N), 7):
        model.partial_fit(X[part], case.y[part], **case.options)
    model.solve(fix_layer=True)
    # Numeric targets are standardised in two steps, which rounds them in another way.
    tolerance = 1e-5 if is_regressor(model) else 0
    units = [layer_of(each).units for each in (model, fitted)]
    np.testing.assert_allclose(*units, rtol=tolerance, atol=tolerance)
    if "Tanh" in type(model).__name__:  # RBF networks use leave-one-out errors
        # The errors differ a little, since the six validation folds are not those of fit.
        min_errors = [each.search_results_["error"].min() for each in (model, fitted)]
        np.testing.assert_allclose(*min_errors, rtol=0.1)
    refitted = clone(chosen).set_params(layer=FrozenEstimator(model), alpha=model.alpha_)
    assert_same(model, refitted.fit(X, case.y))


def test_another_penalty_needs_no_data(tanh):
    for alpha in (1.0, 0.01):
        tanh.set_params(alpha=alpha)
        scores = tanh.decision_function(X)
        assert tanh.alpha_ == alpha
        other = TanhClassifier(layer=tanh, alpha=alpha)
        other.partial_fit(X, CLASSES, classes=list("abcd"))
        np.testing.assert_allclose(scores, other.decision_function(X), atol=1e-10)
    with pytest.raises(
        ValueError,
        match=r'alpha="auto" minimises the error on samples that are held out.*use a number',
    ):
        tanh.set_params(alpha="auto").predict(X)
    with pytest.raises(ValueError, match=r"alpha='loo' is chosen by leave-one-out.*use a number"):
        tanh.set_params(alpha="loo").predict(X)


NOT_INCREMENTAL = [
    (TanhClassifier(alpha="loo"), "alpha='loo'.*use a number"),
    (TanhRegressor(alpha=[0.1, 1.0]), r"alpha=\[0.1, 1.0\].*use a number"),
    (RBFClassifier(readout="lms"), "readout='lms'.*ridge"),
    (RBFClassifier(readout="none"), "readout='none'.*ridge"),
    (RBFRegressor(uncertainty=True), "uncertainty=True.*uncertainty=False"),
    (TanhClassifier(class_weight="balanced"), 'class_weight="balanced".*dict'),
]


@pytest.mark.parametrize(("model", "reason"), NOT_INCREMENTAL)
def test_parameters_that_need_several_passes_have_no_partial_fit(model, reason):
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, CLASSES)
    with pytest.raises(AttributeError, match=reason):
        raise error.value


@pytest.mark.parametrize("forgetting_factor", [0, -0.5, 1.5, np.nan, "0.5"])
def test_invalid_forgetting_factor(forgetting_factor):
    with pytest.raises((ValueError, TypeError), match="forgetting_factor="):
        TanhClassifier(forgetting_factor=forgetting_factor).partial_fit(
            X, CLASSES, classes=list("abc")
        )


@pytest.mark.parametrize("step", [1, 7, N])
@pytest.mark.parametrize("layer", [LAYER, None], ids=["given", "provisional"])
def test_a_forgetting_factor_equals_decaying_sample_weights(step, layer):
    present = np.random.default_rng(0).random(N) > 0.2  # samples of weight 0 are ignored
    age = present[::-1].cumsum()[::-1] - 1
    model = TanhClassifier(N_TANH, layer=layer, forgetting_factor=0.97, **PLAIN)
    for start in range(0, N, step):
        part = slice(start, start + step)
        model.partial_fit(X[part], CLASSES[part], list("abc"), present[part].astype(float))
        if layer is not None:
            set_buffer_size(model, 50)
    fitted = TanhClassifier(layer=FrozenEstimator(model), **PLAIN)
    assert_same(model, fitted.fit(X, CLASSES, present * 0.97**age), 1e-9)
    np.testing.assert_allclose(model.temperature_, fitted.temperature_, rtol=1e-6)
    assert_same(pickle.loads(pickle.dumps(model)), fitted)
    with pytest.raises(ValueError, match=r"forgetting_factor=0.97.*forgetting_factor=1"):
        model.forget(X[:5], CLASSES[:5])


@pytest.mark.parametrize("name", ["two classes", "several targets", "multilabel"])
@pytest.mark.parametrize("layer", [LAYER, None], ids=["given", "chosen"])
@pytest.mark.parametrize("fix_layer", [False, True])
def test_a_batch_of_weight_0_changes_nothing(name, layer, fix_layer):
    case, zeros = CASES[name], np.zeros(N)
    is_rbf = isinstance(case.model, RBFRegressor)
    model = clone(case.model).set_params(layer=X[:9] if is_rbf and layer is not None else layer)
    expected = clone(model).partial_fit(X, case.y, **case.options).solve(fix_layer=fix_layer)
    model.partial_fit(X, case.y, sample_weight=zeros, **case.options)
    with pytest.raises(NotFittedError, match=r"or have weight 0; add others by partial_fit"):
        model.predict(X)
    model.partial_fit(X, case.y).solve(fix_layer=fix_layer)
    np.testing.assert_array_equal(model.readout_coef_, expected.readout_coef_)
    solved = model.readout_coef_
    model.partial_fit(X + 1, case.y, sample_weight=zeros.tolist()).forget(X, case.y, zeros)
    assert model.readout_coef_ is solved  # need not be solved again
    for wrong in ((X[:, 1:], case.y, zeros), (X, case.y, zeros[1:]), (X * np.nan, case.y, zeros)):
        with pytest.raises(ValueError, match=r"features|inconsistent numbers|NaN"):
            model.partial_fit(*wrong[:2], sample_weight=wrong[2])


@pytest.mark.parametrize("layer", [LAYER, None], ids=["given", "chosen"])
@pytest.mark.parametrize("fix_layer", [False, True])
def test_a_batch_of_classes_of_weight_0_changes_nothing(layer, fix_layer):
    weights = {"a": 1.0, "b": 2.0, "c": 0.0}
    model = TanhClassifier(N_TANH, layer=layer, class_weight=weights, **PLAIN)
    zeros = CLASSES == "c"
    expected = clone(model).partial_fit(X, CLASSES, list("abc")).solve(fix_layer=fix_layer)
    model.partial_fit(X[zeros], CLASSES[zeros], list("abc"))
    model.partial_fit(X, CLASSES).solve(fix_layer=fix_layer)
    np.testing.assert_array_equal(model.readout_coef_, expected.readout_coef_)
    solved = model.readout_coef_
    model.partial_fit(X[zeros], CLASSES[zeros]).forget(X[zeros][:3], CLASSES[zeros][:3])
    model.partial_fit(X, CLASSES, sample_weight=zeros)
    assert model.readout_coef_ is solved
    # The weight of b is 1 if it is not given, also in a batch of this class alone.
    of_b = CLASSES == "b"
    model = clone(model).set_params(class_weight={"c": 0.0})
    model.partial_fit(X[of_b], CLASSES[of_b], list("abc"))


@pytest.mark.parametrize("operation", ["partial_fit", "forget"])
def test_class_weights_may_change_while_samples_are_buffered(operation):
    """Sums in a provisional layer are computed again."""
    model = TanhClassifier(N_TANH, class_weight={"a": 3.0}, **PLAIN)
    model.partial_fit(X, CLASSES).predict(X[:1])
    model.set_params(class_weight={"b": 5.0})
    getattr(model, operation)(X[:30], CLASSES[:30])
    rows = np.r_[:N, :30] if operation == "partial_fit" else np.arange(30, N)
    assert_same(model, clone(model).partial_fit(X[rows], CLASSES[rows]))


@pytest.mark.parametrize("fix_layer", [False, True])
def test_all_that_is_left_of_a_batch_may_have_weight_0(fix_layer):
    model = TanhClassifier(N_TANH, class_weight={"c": 0.0}, **PLAIN)
    others = CLASSES != "c"
    model.partial_fit(X, CLASSES, list("abc")).partial_fit(X + 1, CLASSES)
    model.forget(X[others], CLASSES[others]).solve(fix_layer=fix_layer)
    expected = clone(model).partial_fit(X + 1, CLASSES, list("abc")).solve(fix_layer=fix_layer)
    assert_same(model, expected, 1e-9)


@pytest.mark.parametrize("factors", [(0.95, 1.0, 0.9, 1.0), (1.0, 0.9, 1.0, 0.95)])
def test_the_forgetting_factor_may_change(factors):
    """Also for buffered samples that were added before the first decay."""
    model = TanhClassifier(N_TANH, **PLAIN)
    parts, weight = np.array_split(np.arange(N), 4), np.ones(N)
    for part, factor in zip(parts, factors, strict=True):
        model.set_params(forgetting_factor=factor).partial_fit(X[part], CLASSES[part], list("abc"))
        weight[: part[0]] *= factor ** len(part)
        weight[part] = factor ** np.arange(len(part))[::-1]
    fitted = TanhClassifier(layer=FrozenEstimator(model), **PLAIN)
    assert_same(model, fitted.fit(X, CLASSES, weight), 1e-9)
    np.testing.assert_allclose(model.temperature_, fitted.temperature_, rtol=1e-6)


def test_ill_conditioned_equations_warn():
    twice = np.vstack([X[:10], X[:10]])
    model = RBFRegressor(layer=twice, kernel="gaussian", radius=1.0, alpha=0)
    model.partial_fit(X, X[:, 0])
    with pytest.warns(ConvergenceWarning, match="10 of 20 directions"):
        model.predict(X)


def test_a_small_forgetting_factor_underflows_to_zero():
    """Weights far below the smallest float cause neither NaN nor a warning."""
    model = TanhClassifier(N_TANH, forgetting_factor=0.3, **PLAIN)
    model.partial_fit(X, CLASSES, classes=list("abc")).predict(X)
    for _ in range(5):
        model.partial_fit(X, CLASSES).predict(X)
    fitted = TanhClassifier(layer=FrozenEstimator(model), **PLAIN)
    assert_same(model, fitted.fit(X, CLASSES, 0.3 ** np.arange(N - 1, -1, -1)))


def test_all_samples_may_be_removed_and_added_again(tanh):
    weight = np.random.default_rng(0).random(N) / 3
    tanh.partial_fit(X, CLASSES, sample_weight=weight)
    for part in np.array_split(np.arange(N), 7):
        tanh.forget(X[part], CLASSES[part], 1 + weight[part])
    with pytest.raises(NotFittedError, match=r"All samples of this .* were removed.*partial_fit"):
        tanh.predict(X)
    assert not hasattr(tanh, "readout_coef_")
    with pytest.raises(ValueError, match="no samples left"):
        tanh.forget(X[:1], CLASSES[:1])
    tanh.partial_fit(X, CLASSES)
    again = TanhClassifier(layer=FrozenEstimator(tanh), **PLAIN)
    assert_same(tanh, again.partial_fit(X, CLASSES, classes=list("abcd")), 1e-13)


@pytest.mark.parametrize("classes", [list("abc"), ["a", "b"]], ids=len)
def test_the_only_class_so_far_is_predicted(classes):
    model = TanhClassifier(N_TANH, **PLAIN).partial_fit(X[:20], ["b"] * 20, classes=classes)
    assert set(model.predict(X)) == {"b"}
    radial = RBFClassifier(10, random_state=0)
    radial.partial_fit(X[:20], ["b"] * 20, classes=classes)
    with pytest.warns(UserWarning, match="are of one class.*FrozenEstimator"):
        radial.solve(fix_layer=True)
    assert radial.solve().n_iter_ == 1
    assert set(radial.predict(X)) == {"b"}
    with pytest.raises(ValueError, match="one class"):
        TanhClassifier(N_TANH).fit(X[:20], ["b"] * 20)


def test_buffered_samples_are_copies():
    rows, y, weight = X.copy(), CLASSES.copy(), np.ones(N)
    model = TanhClassifier(N_TANH, **PLAIN).partial_fit(rows, y, list("abc"), weight)
    rows[:], y[:], weight[:] = 0, "a", 0
    assert_same(model, TanhClassifier(N_TANH, **PLAIN).fit(X, CLASSES))


def test_the_buffer_is_limited(gathered):
    """100 calls need two passes; batches that exceed the limit of the buffer are not buffered."""
    model = clone(GIVEN)
    for _ in range(100):
        model.partial_fit(X[:12], CLASSES[:12], classes=list("abc"))
    assert gathered == [(1032, "d")]
    model.predict(X)
    model.predict(X)
    assert gathered == [(1032, "d"), (168, "d")]
    model.partial_fit(np.tile(X, (5, 1)), np.tile(CLASSES, 5))
    assert gathered[2:] == [(1200, "d")]
    gathered.clear()
    small = clone(model).set_params(max_memory=60_000)
    for _ in range(10):
        small.partial_fit(X[:60], CLASSES[:60], classes=list("abc"))
        assert small._incremental_state.statistics.n_bytes < 60_000 // 8
    assert sum(n for n, _ in gathered) > 300
    assert max(gathered) <= (180, "d")


def test_copies_are_independent(tanh, tmp_path):
    tanh.partial_fit(X[:30], CLASSES[:30])
    joblib.dump(tanh, tmp_path / "model")
    copies = [copy.deepcopy(tanh), copy.copy(tanh), joblib.load(tmp_path / "model")]
    before = tanh.solve().readout_coef_.copy()
    for other in copies:
        np.testing.assert_array_equal(other.solve().readout_coef_, before)
        other.partial_fit(X[:50], CLASSES[:50]).forget(X[:30], CLASSES[:30]).solve()
        np.testing.assert_array_equal(tanh.readout_coef_, before)
    assert not hasattr(clone(tanh), "readout_coef_")


def test_buffered_samples_are_pickled(tanh):
    tanh.partial_fit(X[:30], CLASSES[:30])
    restored = pickle.loads(pickle.dumps(tanh))
    assert (
        sum(len(each.samples) for each in restored._incremental_state.statistics.buffered) == N + 30
    )
    solved = pickle.loads(pickle.dumps(tanh.solve()))
    assert not solved._incremental_state.statistics.buffered
    assert (
        restored.solve()._incremental_state.statistics.total.n
        == solved._incremental_state.statistics.total.n
        == N + 30
    )


@pytest.mark.parametrize(
    "case",
    [
        *(CASES[name] for name in ("tanh", "class weights", "several targets")),
        *(  # the same sums of other targets
            pytest.param(CASES[name], marks=pytest.mark.exhaustive)
            for name in ("two classes", "rbf", "multilabel", "outputs", "regression")
        ),
    ],
    ids=lambda case: type(case.model).__name__,
)
def test_rounding_errors_do_not_accumulate(case):
    """After 100 random additions and removals, the model equals a fit to the present samples."""
    parts = np.array_split(np.arange(N), PARTS)
    random = np.random.default_rng(0)
    model, present = clone(case.model).partial_fit(X, case.y, **case.options), np.ones(N)
    set_buffer_size(model.solve(fix_layer=True), 60)
    for i in random.integers(1, PARTS, 100):
        part, size = parts[i], 1 + 100 * random.random()
        if present[part[0]] and random.random() < 0.7:
            model.forget(X[part], case.y[part], present[part])
            present[part] = 0
        else:
            model.partial_fit(X[part], case.y[part], sample_weight=np.full(len(part), size))
            present[part] += size
    assert_same(model, refit(case, model, present > 0, present), 1e-8)


def test_sparse_multilabel_targets():
    case = CASES["multilabel"]
    model = clone(case.model)
    for part in np.array_split(np.arange(N), 3):
        model.partial_fit(X[part], csr_array(case.y[part]))
    model.forget(X[:9], csr_array(case.y[:9]))
    assert_same(model, refit(case, model, np.arange(9, N), np.ones(N)))
    np.testing.assert_array_equal(model.classes_, [0, 1])


def test_classes_of_multilabel_targets_may_be_given():
    case = CASES["multilabel"]
    for classes in ([0, 1], [[0, 1], [0, 1]], None):
        model = clone(case.model).partial_fit(X, case.y, classes=classes)
        assert model.multilabel_
    model = clone(case.model).partial_fit(X, case.y, classes=[[0, 1], [0, 1, 2]])
    assert not model.multilabel_


def test_metadata_is_routed():
    with config_context(enable_metadata_routing=True):
        model = TanhClassifier().set_partial_fit_request(sample_weight=True, classes=True)
        assert model.get_metadata_routing().partial_fit.requests["sample_weight"] is True
