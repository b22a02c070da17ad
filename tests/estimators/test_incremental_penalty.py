"""`alpha="auto"` with `partial_fit`: held-out samples, and when the search is repeated."""

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector, TanhRegressor
from sklearn_fsvc._src.data.samples import Samples, row_hashes
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.readouts.cross_validation import FEW, hash_held_rows

DIGITS, Y = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
LAYER = FrozenEstimator(TanhProjector(200, random_state=0).fit(DIGITS))
MODEL = TanhClassifier(layer=LAYER, random_state=0)
N = len(Y)


def learnt(rows, model=MODEL, n_calls=1):
    model = clone(model)
    for part in np.array_split(rows, n_calls):
        model.partial_fit(DIGITS[part], Y[part], classes=range(10))
    return model


def statistics(model):
    """Of all rows and of each part, as arrays."""
    stream = model.solve()._incremental_state.statistics
    each = [stream.total, *stream.held]
    return [(s.n, s.translated(np.zeros(len(s.h))).gram.full()) for s in each]


def assert_same_statistics(model, other):
    pairs = list(zip(statistics(model), statistics(other), strict=True))
    for (n, gram), (m, expected) in pairs:
        assert n == pytest.approx(m)
        np.testing.assert_allclose(gram, expected, atol=1e-9 * np.abs(expected).max())
    return len(pairs)


RBF = {"kernel": "gaussian", "radius": 20.0, "feature_weights": None}


@pytest.mark.parametrize("given", [MODEL, RBFClassifier(layer=DIGITS[::9], **RBF)], ids=type)
@pytest.mark.parametrize("n_first", [1, 5, 60])
def test_first_call_with_one_class(given, n_first):
    """The layer is given; the penalty of one class alone would be the largest there is."""
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


def test_the_penalty_adapts_to_the_samples():
    """With ever more of them, less is to be feared of each; in the end it is that of all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 10))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=6000)
    model, alphas = TanhRegressor(300, random_state=0, feature_weights=None), []
    for part in np.split(np.arange(6000), [40, 1000, 3000]):
        alphas.append(model.partial_fit(X[part], y[part]).solve().alpha_)
    assert alphas[0] > 3 * alphas[-1]
    at_once = clone(model).set_params(layer=FrozenEstimator(model)).partial_fit(X, y)
    assert at_once.solve().alpha_ == alphas[-1]


def test_held_out_sums_are_added_and_removed():
    """In whatever calls, orders and models rows came; and of six parts each row is in one."""
    rows, gone = np.arange(600), np.arange(100, 250)
    kept = np.setdiff1d(rows, gone)
    model = learnt(rows, n_calls=7)
    model.forget(DIGITS[gone], Y[gone])
    assert assert_same_statistics(model, learnt(kept)) == 7
    merged = learnt(kept[::2]).merge([learnt(kept[1::2])])
    assert_same_statistics(merged, learnt(kept))
    (n, gram), *held = statistics(merged)
    assert n == len(kept) == sum(m for m, _ in held)
    half = -(-200 // 2)
    total = sum(part for _, part in held)
    np.testing.assert_allclose(gram[:half, :half], total, atol=1e-9 * total.max())
    assert model.solve().alpha_ == merged.alpha_ == learnt(kept).solve().alpha_


def test_many_samples_have_one_validation_fold():
    model = learnt(np.arange(FEW - 1))
    assert len(model.solve()._incremental_state.statistics.held) == 6
    model.partial_fit(DIGITS[FEW - 1 : FEW + 1], Y[FEW - 1 : FEW + 1])
    assert len(model.solve()._incremental_state.statistics.held) == 1
    other = learnt(np.arange(FEW + 1), n_calls=1)
    assert_same_statistics(model, other)
    small = learnt(np.arange(FEW + 1, N))
    assert len(small.solve()._incremental_state.statistics.held) == 6
    assert_same_statistics(small.merge([model]), learnt(np.arange(N)))


def test_held_out_sums_decay_with_the_total():
    model = learnt(
        np.arange(500), clone(MODEL).set_params(forgetting_factor=0.99), n_calls=5
    ).solve()
    held = sum(part.n for part in model._incremental_state.statistics.held)
    assert model._incremental_state.statistics.total.n == pytest.approx(held)
    assert held == pytest.approx((1 - 0.99**500) / 0.01)


def test_the_search_is_repeated_after_a_tenth_of_the_samples_changed():
    model, searches = learnt(np.arange(500)), []

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


def test_pickled_penalty():
    model = learnt(np.arange(500))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.solve().alpha_ == copy.copy(model).solve().alpha_
        assert tuple(other.search_results_)[-2:] == ("alpha", "error")


def test_merge_with_a_model_without_held_out_samples():
    plain = learnt(np.arange(300, 600), clone(MODEL).set_params(alpha=1.0))
    with pytest.raises(ValueError, match=r"models\[0\].*held out.*set_params\(alpha="):
        learnt(np.arange(300)).merge([plain])
    merged = learnt(np.arange(300)).set_params(alpha=1.0).merge([plain])
    assert_same_statistics(merged, learnt(np.arange(600), clone(MODEL).set_params(alpha=1.0)))
    with pytest.raises(ValueError, match=r"was in a model that was merged.*give a number"):
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
    sizes = [len(rows) for rows in hash_held_rows(Samples(X), 6)]
    assert sum(sizes) == 6000
    assert 850 < min(sizes) <= max(sizes) < 1150
    assert hash_held_rows(Samples(X), 0) == []
