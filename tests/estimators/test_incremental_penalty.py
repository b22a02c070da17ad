"""`alpha="auto"` with `partial_fit`: held-out samples, and when the search is repeated."""

import copy
import pickle
from itertools import permutations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

import naive
from readouts.brute_force import translated
from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector, TanhRegressor
from sklearn_fsvc._src.data.samples import row_hashes
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.parts.composition import parts_of
from sklearn_fsvc._src.readouts.cross_validation import (
    MAX_CV_SAMPLES,
    hash_validation_rows,
    n_validation_units,
)
from sklearn_fsvc._src.readouts.penalty_search import squared_error

DIGITS, Y = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
LAYER = FrozenEstimator(TanhProjector(200, random_state=0).fit(DIGITS))
MODEL = TanhClassifier(layer=LAYER, random_state=0)
N = len(Y)
LIMIT = MAX_CV_SAMPLES


def train(rows, model=MODEL, n_calls=1):
    model = clone(model)
    for part in np.array_split(rows, n_calls):
        model.partial_fit(DIGITS[part], Y[part], classes=range(10))
    return model


def statistics(model):
    """Return sample counts and Gram matrices of all samples and of each validation fold."""
    stream = model.solve()._incremental_state.statistics
    each = [stream.total, *stream.validation]
    return [(s.n, translated(s, np.zeros(len(s.h))).gram.full()) for s in each]


def assert_same_statistics(model, other):
    pairs = list(zip(statistics(model), statistics(other), strict=True))
    for (n, gram), (m, expected) in pairs:
        assert n == pytest.approx(m)
        np.testing.assert_allclose(gram, expected, atol=1e-9 * np.abs(expected).max())
    return len(pairs)


RBF = {"kernel": "gaussian", "radius": 20.0, "feature_weights": None}
WEIGHTS = np.linspace(0.5, 2, 64)


@pytest.mark.parametrize("given", [MODEL, RBFClassifier(layer=DIGITS[::9], **RBF)], ids=type)
@pytest.mark.parametrize("n_first", [1, 5, 60])
def test_first_call_with_one_class(given, n_first):
    """With one class a search would choose the largest penalty, so it must start later."""
    first = np.flatnonzero(Y == 3)[:n_first]
    rest = np.setdiff1d(np.arange(N), first)
    model = clone(given)
    model.partial_fit(DIGITS[first], Y[first], classes=range(10))
    assert set(model.predict(DIGITS[:20])) == {3}
    assert model.alpha_ in (0.1, 10.0)
    for part in np.array_split(rest, 7):
        model.partial_fit(DIGITS[part], Y[part])
    assert model.score(DIGITS, Y) > 0.96
    assert model.alpha_ < 10.0


@pytest.mark.parametrize("radius", [0.5, 2.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_penalty_suits_samples_that_no_unit_covers(radius, is_weighted):
    """Their scores do not depend on H: sums over held-out samples alone would lead to 1e5."""
    rows, weight = slice(400), np.full(400, 3.5) if is_weighted else None
    model = RBFClassifier(
        100, kernel="triangular", radius=radius, selection="random", feature_weights=None,
        random_state=0,
    )  # fmt: skip
    fitted = clone(model).fit(DIGITS[rows], Y[rows], sample_weight=weight)
    model.partial_fit(DIGITS[rows], Y[rows], sample_weight=weight)
    assert model.score(DIGITS[400:], Y[400:]) > 0.8
    assert model.alpha_ == pytest.approx(fitted.alpha_)
    outputs = [m.decision_function(DIGITS[400:]) for m in (model, fitted)]
    np.testing.assert_allclose(*outputs, atol=1e-6)


def test_the_penalty_adapts_to_the_samples():
    """More samples need a smaller penalty; the final one is that of a single call."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 10))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=6000)
    model, alphas = TanhRegressor(300, random_state=0, feature_weights=None), []
    for part in np.split(np.arange(6000), [40, 1000, 3000]):
        alphas.append(model.partial_fit(X[part], y[part]).solve().alpha_)
    assert alphas[0] > 3 * alphas[-1]
    at_once = clone(model).set_params(layer=FrozenEstimator(model)).partial_fit(X, y)
    assert at_once.solve().alpha_ == alphas[-1]


def test_validation_sums_are_added_and_removed():
    """Sums do not depend on calls, order or merged models; the six folds are disjoint."""
    rows, removed = np.arange(600), np.arange(100, 250)
    kept = np.setdiff1d(rows, removed)
    model = train(rows, n_calls=7)
    model.forget(DIGITS[removed], Y[removed])
    assert assert_same_statistics(model, train(kept)) == 7
    merged = train(kept[::2]).merge([train(kept[1::2])])
    assert_same_statistics(merged, train(kept))
    (n, gram), *held = statistics(merged)
    assert n == len(kept) == sum(m for m, _ in held)
    half = -(-200 // 2)
    total = sum(part for _, part in held)
    np.testing.assert_allclose(gram[:half, :half], total, atol=1e-9 * total.max())
    assert model.solve().alpha_ == merged.alpha_ == train(kept).solve().alpha_


def brute_force_error(model, X, y, weight, alpha, keeps_units=False):
    """Mean squared error over the folds, of readouts without the samples and units of each fold."""
    units = parts_of(model).units
    H = naive.of_model(model, X)[:, : n_validation_units(len(model.centers_))]
    Y = (y[:, None] == model.classes_).astype(float)
    total = n = 0.0
    n_parts = len(model._incremental_state.statistics.validation)
    for part, own in zip(
        hash_validation_rows(X, n_parts), hash_validation_rows(units.centers_, n_parts), strict=True
    ):
        kept = np.setdiff1d(np.arange(len(X)), part)
        others = np.setdiff1d(np.arange(H.shape[1]), () if keeps_units else own)
        ridge = Ridge(alpha).fit(H[kept][:, others], Y[kept], weight[kept])
        errors = np.square(Y[part] - ridge.predict(H[part][:, others])).sum(axis=1)
        total, n = total + weight[part] @ errors, n + weight[part].sum()
    return total / n


@pytest.mark.parametrize(
    ("feature_weights", "dtype", "n"),
    [
        (None, np.float64, 600), (None, np.float32, LIMIT + 100),
        (WEIGHTS, np.float32, 600), (WEIGHTS, np.float64, LIMIT + 100),
        *(  # other combinations of the same values
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                (None, np.float32, 600), (None, np.float64, LIMIT + 100),
                (WEIGHTS, np.float64, 600), (WEIGHTS, np.float32, LIMIT + 100),
            )
        ),
    ],
)  # fmt: skip
def test_units_are_left_out_with_their_centers(n, dtype, feature_weights):
    """Errors equal those of readouts trained without the fold and the units centred in it."""
    X, y, weight = DIGITS[:n].astype(dtype), Y[:n], np.linspace(0.5, 1.5, n)
    model = RBFClassifier(200, **RBF | {"feature_weights": feature_weights}, random_state=0)
    for rows in np.array_split(np.arange(n), 3):
        model.partial_fit(X[rows], y[rows], range(10), weight[rows])
    model.solve(fix_layer=True)
    assert len(model._incremental_state.statistics.validation) == (6 if n <= LIMIT else 1)
    errors = dict(zip(*(model.search_results_[name] for name in ("alpha", "error")), strict=True))
    assert len(errors) >= 3
    for alpha, error in errors.items():
        expected = brute_force_error(model, X, y, weight, alpha)
        assert error == pytest.approx(expected, rel=1e-5)
        with_units = brute_force_error(model, X, y, weight, alpha, keeps_units=True)
        assert error != pytest.approx(with_units, rel=1e-3)
    assert model.alpha_ == min(errors, key=errors.get)


def test_removed_and_merged_samples_leave_the_same_units_out():
    """Which units are left out depends on the layer alone."""
    rows = np.arange(400)
    first = train(rows, RBFClassifier(100, **RBF, random_state=0)).solve(fix_layer=True)
    part = hash_validation_rows(DIGITS[rows], 6)[2]
    kept = np.setdiff1d(rows, part)

    def errors_of(model):
        folds = model.solve()._incremental_state.statistics.sums.folds(model.centers_)
        return [squared_error(held, kept.solve(0.1)) for kept, held in folds]

    less = copy.deepcopy(first).forget(DIGITS[part], Y[part])
    assert len(errors_of(less)) == 5  # one fold is empty
    again = copy.deepcopy(less).partial_fit(DIGITS[part], Y[part])
    np.testing.assert_allclose(errors_of(again), errors_of(first), rtol=1e-8)
    halves = [copy.deepcopy(first).forget(DIGITS[rows], Y[rows]) for rows in (part, kept)]
    merged = pickle.loads(pickle.dumps(halves[0])).merge(halves[1:])
    np.testing.assert_allclose(errors_of(merged), errors_of(first), rtol=1e-8)
    assert merged.alpha_ == again.alpha_ == first.alpha_


def test_given_centers_are_not_left_out():
    """They may not be training samples."""
    model = RBFClassifier(layer=DIGITS[:200], **RBF, random_state=0)
    model = train(np.arange(200, 800), model).solve()
    (alpha, *_), (error, *_) = (model.search_results_[name] for name in ("alpha", "error"))
    weight, X, y = np.ones(600), DIGITS[200:800], Y[200:800]
    expected = brute_force_error(model, X, y, weight, alpha, keeps_units=True)
    assert error == pytest.approx(expected, rel=1e-5)


def test_many_samples_have_one_validation_fold():
    model = train(np.arange(LIMIT - 1))
    assert len(model.solve()._incremental_state.statistics.validation) == 6
    model.partial_fit(
        DIGITS[LIMIT - 1 : LIMIT + 1],
        Y[LIMIT - 1 : LIMIT + 1],
    )
    assert len(model.solve()._incremental_state.statistics.validation) == 1
    other = train(np.arange(LIMIT + 1), n_calls=1)
    assert_same_statistics(model, other)
    small = train(np.arange(LIMIT + 1, N))
    assert len(small.solve()._incremental_state.statistics.validation) == 6
    assert_same_statistics(small.merge([model]), train(np.arange(N)))


def test_a_window_of_few_samples_keeps_all_validation_folds():
    model = train(np.arange(600))
    for start in range(0, 1000, 200):
        old, new = np.arange(start, start + 200), np.arange(start + 600, start + 800)
        model.forget(DIGITS[old], Y[old]).partial_fit(DIGITS[new], Y[new])
    assert assert_same_statistics(model, train(np.arange(1000, 1600))) == 7


def test_validation_sums_decay_with_the_total():
    model = train(
        np.arange(500), clone(MODEL).set_params(forgetting_factor=0.99), n_calls=5
    ).solve()
    held = sum(part.n for part in model._incremental_state.statistics.validation)
    assert model._incremental_state.statistics.total.n == pytest.approx(held)
    assert held == pytest.approx((1 - 0.99**500) / 0.01)


def test_the_search_is_repeated_after_a_tenth_of_the_samples_changed():
    model, searches = train(np.arange(500)), []

    def predict():
        model.predict(DIGITS[:3])
        searched_at = model._incremental_state.searched_at
        if searched_at not in searches:
            searches.append(searched_at)

    for n_calls, more in [(1, 500), (1, 555), (2, 556), (2, 600), (3, 700)]:
        have = int(model._incremental_state.statistics.n_added)
        if more > have:
            model.partial_fit(DIGITS[have:more], Y[have:more])
        predict()
        predict()
        assert len(searches) == n_calls, more
    model.set_params(alpha=1.0)
    predict()
    assert (model.alpha_, len(searches)) == (1.0, 3)
    model.set_params(alpha="auto")
    predict()
    assert len(searches) == 3
    model.forget(DIGITS[:100], Y[:100])
    predict()
    assert len(searches) == 4


@pytest.mark.parametrize("fractions", [(0.5,), (0.3, 0.3), (0.9,)])
def test_fractions_of_all_samples_may_be_removed(fractions):
    """The sums and the penalty are then for samples of the weight that is left."""
    rows = np.arange(500)
    model, left = train(rows), 1 - sum(fractions)
    for fraction in fractions:
        model.forget(DIGITS[rows], Y[rows], np.full(len(rows), fraction))
    model.solve()
    expected = train(rows, clone(MODEL).set_params(alpha=model.alpha_ / left))
    scores = (m.decision_function(DIGITS) for m in (model, expected))
    np.testing.assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize("weight", [1e4, 0.5])
def test_the_unit_of_removed_weights_is_forgotten(weight):
    some, weights = np.arange(100), np.full(100, weight)
    never = train(np.arange(N)).solve()
    for batches in permutations([(np.arange(N), None), (some, weights)]):
        model = clone(MODEL)
        for rows, w in batches:
            model.partial_fit(DIGITS[rows], Y[rows], range(10), w)
        model.forget(DIGITS[some], Y[some], weights).solve()
        assert model.alpha_ == pytest.approx(never.alpha_)
        assert not hasattr(model, "mean_weight_")


@pytest.mark.parametrize(("weight", "removed", "left"), [(1000, 999, 1), (1, 0.25, 0.75)])
@pytest.mark.parametrize("n_calls", [1, 40])
def test_parts_of_weights_may_be_removed(weight, removed, left, n_calls):
    rows = np.arange(400)
    model = clone(MODEL).partial_fit(DIGITS[rows], Y[rows], range(10), np.full(400, weight))
    for part in np.array_split(rows, n_calls):
        model.forget(DIGITS[part], Y[part], np.full(len(part), removed))
    unit = getattr(model.solve(), "mean_weight_", 1.0)
    assert left / 2 < unit < left * 2


def test_pickled_penalty():
    model = train(np.arange(500))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.solve().alpha_ == copy.copy(model).solve().alpha_
        assert tuple(other.search_results_)[-2:] == ("alpha", "error")


def test_merge_with_a_model_without_held_out_samples():
    plain = train(np.arange(300, 600), clone(MODEL).set_params(alpha=1.0))
    with pytest.raises(ValueError, match=r"models\[0\].*held out.*set_params\(alpha="):
        train(np.arange(300)).merge([plain])
    merged = train(np.arange(300)).set_params(alpha=1.0).merge([plain])
    assert_same_statistics(merged, train(np.arange(600), clone(MODEL).set_params(alpha=1.0)))
    with pytest.raises(ValueError, match=r"was in a model that was merged.*use a number"):
        merged.set_params(alpha="auto").predict(DIGITS[:3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_duplicates_are_in_one_fold(dtype):
    X = np.random.default_rng(0).integers(0, 3, (3000, 12)).astype(np.float64)
    expected = row_hashes(X)
    assert len(np.unique(expected)) == len(np.unique(X, axis=0))
    given = X.astype(dtype)
    np.testing.assert_array_equal(row_hashes(given), expected)
    np.testing.assert_array_equal(row_hashes(np.asfortranarray(given)), expected)
    np.testing.assert_array_equal(row_hashes(SparseSource(csr_array(given))), expected)
    np.testing.assert_array_equal(row_hashes(given[::-7]), expected[::-7])
    if dtype is not np.uint8:
        np.testing.assert_array_equal(row_hashes(-given), row_hashes(-1.0 * X))
        np.testing.assert_array_equal(row_hashes(given * 0), row_hashes(given * -0.0))


def test_folds_are_of_similar_size():
    X = np.arange(6000.0)[:, None]
    sizes = [len(rows) for rows in hash_validation_rows(X, 6)]
    assert sum(sizes) == 6000
    assert 850 < min(sizes) <= max(sizes) < 1150
    assert hash_validation_rows(X, 0) == []
