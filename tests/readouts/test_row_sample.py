"""Subsets drawn by hash: their content, and their leave-one-out scores."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import naive
from fake_sources import TiledArray
from readouts.brute_force import unit_at_sample, without_each_row
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.map_reduce import map_reduce
from sklearn_fsvc._src.data.samples import Samples, exact_hashes
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.hidden_layers.rbf import RBF
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.readouts import draw_sample, row_sample
from sklearn_fsvc._src.readouts.calibration import fit_calibration
from sklearn_fsvc._src.readouts.draw_sample import UniqueSamplePass, sample_by_hash, sample_unique
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.leave_one_out import SampledLOO
from sklearn_fsvc._src.readouts.row_sample import RowSample, mean_and_error, squared_deviation
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

CAPACITY = 20


@pytest.fixture
def rows(rng):
    """Return X with two copies of each sample, classes and weights."""
    X = np.repeat(rng.normal(size=(60, 4)), 2, axis=0)
    return X, rng.integers(0, 3, 120), rng.uniform(0.2, 3, 120)


def samples_of(X, y, weight=None, part=slice(None)):
    weight = None if weight is None else weight[part]
    return Samples(X[part], OneHotTargets.of_column(y[part], 3), weight)


def expected_sample(X, y, weight, max_rows=CAPACITY):
    """Return {hash: (weight, weighted targets)} of the samples with the smallest hashes."""
    hashes = exact_hashes(np.asarray(X))
    return {
        h: (weight[hashes == h].sum(), weight[hashes == h] @ np.eye(3)[y[hashes == h]])
        for h in np.unique(hashes)[:max_rows]
    }


def check(sample, expected_rows):
    actual = sample.rows
    assert actual.hashes.tolist() == list(expected_rows)
    np.testing.assert_array_equal(exact_hashes(actual.X), actual.hashes)
    for i, (weight, sums) in enumerate(expected_rows.values()):
        assert actual.weight[i] == pytest.approx(weight)
        np.testing.assert_allclose(actual.sums[i], sums, atol=1e-12)


def test_samples_of_parts_merge_in_any_order(rows):
    X, y, weight = rows
    parts = np.array_split(np.random.default_rng(0).permutation(120), 7)
    samples = [RowSample(CAPACITY).update(samples_of(X, y, weight, part)) for part in parts]
    merged = samples[0]
    for other in samples[1:]:
        merged = merged.merge(other)
    sequential = RowSample(CAPACITY)
    for part in reversed(parts):
        sequential = sequential.update(samples_of(X, y, weight, part))
    for sample in (merged, sequential):
        check(sample, expected_sample(X, y, weight))


def test_removed_rows(rows):
    X, y, weight = rows
    sample = (
        RowSample(CAPACITY)
        .update(samples_of(X, y, weight))
        .remove(samples_of(X, y, weight, slice(50)))
    )
    key_limit = np.unique(exact_hashes(X))[CAPACITY]
    left = expected_sample(X[50:], y[50:], weight[50:], 120)
    check(sample, {h: of_row for h, of_row in left.items() if h < key_limit})
    assert sample.remove(samples_of(X, y, weight, slice(50, None))).is_empty


@pytest.fixture
def after_removal(rng):
    """Return X, y, a sample of the first 2000, and the same after the first 1600 were removed."""
    X, y = rng.normal(size=(2300, 3)), rng.integers(0, 3, 2300)
    whole = RowSample(CAPACITY).update(samples_of(X, y, part=slice(2000)))
    return X, y, whole, whole.remove(samples_of(X, y, part=slice(1600)))


def are_equal(first, other):
    assert (first.key_limit, first.lacks_rows) == (other.key_limit, other.lacks_rows)
    a, b = np.argsort(first.rows.hashes), np.argsort(other.rows.hashes)
    for name in ("X", "hashes", "keys", "weight", "sums"):
        np.testing.assert_array_equal(getattr(first.rows, name)[a], getattr(other.rows, name)[b])


def test_later_samples_replace_removed_ones(after_removal):
    X, y, _, left = after_removal
    assert 0 < left.n_rows < CAPACITY / 2
    filled = left.update(samples_of(X, y, part=slice(2000, None)))
    assert filled.n_rows == CAPACITY
    least = np.sort(exact_hashes(X[2000:]))[: CAPACITY - left.n_rows]
    assert set(filled.rows.hashes) == {*left.rows.hashes, *least}
    np.testing.assert_array_equal(exact_hashes(filled.rows.X), filled.rows.hashes)


def test_replacement_does_not_depend_on_order_or_parts(after_removal):
    X, y, _, left = after_removal
    later = np.arange(2000, 2300)
    at_once = left.update(samples_of(X, y, part=later))
    sequential, separate = left, []
    for part in np.array_split(np.random.default_rng(0).permutation(later), 7):
        sequential = sequential.update(samples_of(X, y, part=part))
        separate.append(RowSample(CAPACITY).update(samples_of(X, y, part=part)))
    are_equal(sequential, at_once)
    merged = left
    for each in separate:
        are_equal(merged.merge(each), each.merge(merged))
        merged = merged.merge(each)
    are_equal(merged, at_once)
    copied = pickle.loads(pickle.dumps(left)).update(samples_of(X, y, part=later))
    are_equal(copied, at_once)


def test_prior_rows_only_if_rows_are_missing(after_removal, rows):
    X, y, whole, left = after_removal
    assert whole.prior_rows == 0
    assert left.prior_rows == pytest.approx(30 * (1 - left.n_rows / CAPACITY))
    assert RowSample(CAPACITY).merge(left).prior_rows == left.prior_rows
    assert left.update(samples_of(X, y, part=slice(2000, None))).prior_rows == 0
    none = left.remove(samples_of(X, y, part=slice(1600, 2000)))
    assert none.is_empty
    assert none.prior_rows == 30
    assert none.update(samples_of(X, y, part=slice(2000, 2005))).prior_rows == 22.5
    # The sample contained all rows before the removal, so that none is missing.
    small = RowSample(CAPACITY).update(samples_of(X, y, part=slice(15)))
    assert small.remove(samples_of(X, y, part=slice(10))).prior_rows == 0


def test_decay_alone_leaves_no_rows_missing(rng):
    X, y = rng.normal(size=(2000, 3)), rng.integers(0, 3, 2000)
    sample = RowSample(CAPACITY)
    for part in np.array_split(np.arange(1000), 9):
        decays = np.log(0.99) * np.arange(len(part) - 1, -1, -1)
        sample = sample.decayed(len(part) * np.log(0.99)).update(
            samples_of(X, y, part=part), decays
        )
    sample = sample.merge(RowSample(CAPACITY).update(samples_of(X, y, part=slice(1000, None))))
    assert sample.n_rows == CAPACITY
    assert sample.key_limit < np.inf
    assert sample.prior_rows == 0


def test_removed_copies_that_were_not_sampled(after_removal):
    """The removed copy was not sampled; a later copy of another class was."""
    X, y, _, left = after_removal
    again = np.flatnonzero(~np.isin(exact_hashes(X[1600:2000]), left.rows.hashes))[:5] + 1600
    other = (y + 1) % 3
    filled = left.update(samples_of(X, other, np.full(2300, 2.0), again))
    assert filled.n_rows == left.n_rows + 5
    without = filled.remove(samples_of(X, y, part=again))
    are_equal(without, left)


def test_part_of_a_weight_is_removed(rows):
    X, y, weight = rows
    sample = (
        RowSample(CAPACITY).update(samples_of(X, y, weight)).remove(samples_of(X, y, weight / 2))
    )
    check(sample, expected_sample(X, y, weight / 2))


def test_decayed_rows_are_replaced_by_new_ones(rng):
    """Weights decay as those of the sums, and most of the sampled rows are recent."""
    X, y, factor = rng.normal(size=(2000, 3)), rng.integers(0, 3, 2000), 0.98
    sample = RowSample(CAPACITY)
    for part in np.array_split(np.arange(2000), 40):
        decays = np.log(factor) * np.arange(len(part) - 1, -1, -1)
        sample = sample.decayed(len(part) * np.log(factor)).update(
            samples_of(X, y, part=part), decays
        )
    ages = [1999 - int(np.flatnonzero((row == X).all(axis=1))[0]) for row in sample.rows.X]
    assert np.median(ages) < 100
    np.testing.assert_allclose(sample.rows.weight, factor ** np.array(ages))


@pytest.mark.parametrize("n_different", [5, 60, 1000])
def test_key_limit_counts_distinct_rows(rng, n_different):
    keys = rng.random(n_different)
    rows = np.concatenate([np.arange(n_different), rng.integers(n_different, size=500)])
    # The smallest keys are the most frequent, so that the first rows are few distinct ones.
    rows = np.concatenate([rows, np.repeat(np.argsort(keys)[:5], 300)])
    key_limit = row_sample._key_limit(keys[rows], rows.astype(np.uint64), 20)
    assert key_limit == (np.sort(keys)[20] if n_different > 20 else np.inf)


@pytest.mark.parametrize("kind", ["dense", "sparse", "blocks"])
def test_a_sample_is_drawn_in_one_pass(rows, kind, monkeypatch):
    monkeypatch.setattr(row_sample, "_SPARSE_ROWS", 50)
    if kind == "blocks":
        monkeypatch.setattr(draw_sample, "_block_size", lambda *_: 4 * 7)
    X, y, weight = rows
    weight[5] = 0
    samples = samples_of(X, y, weight)
    if kind == "sparse":
        samples = replace(samples, X=SparseSource(csr_array(X)))
    sample_pass = UniqueSamplePass(CAPACITY)
    with get_engine("jit") as engine:
        whole = map_reduce(Job(engine), samples, sample_pass)
        part = map_reduce(Job(engine), samples, sample_pass, np.arange(10, 90))
    dense = whole.rows.X.take(slice(None)) if kind == "sparse" else whole.rows.X
    check(RowSample(CAPACITY, replace(whole.rows, X=dense)), expected_sample(X, y, weight))
    assert part.rows.hashes.tolist() == list(expected_sample(X[10:90], y[10:90], weight[10:90]))


@pytest.mark.parametrize("kind", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("is_subset", [False, True])
def test_duplicates_are_not_merged(rows, kind, is_subset):
    X, y, weight = rows
    weight[::5] = 0
    part = np.arange(0, 120, 3) if is_subset else None
    container = {"dense": X, "sparse": SparseSource(csr_array(X)), "blocks": TiledArray(X, 7)}[kind]
    samples, job = Samples(container, OneHotTargets.of_column(y, 3), weight), Job(get_engine("jit"))
    sample = sample_by_hash(job, samples, 120, part)
    present = np.flatnonzero(weight)
    np.testing.assert_array_equal(
        np.sort(sample.numbers), present if part is None else np.intersect1d(present, part)
    )
    small = sample_by_hash(job, samples, 20, part)
    np.testing.assert_array_equal(small.numbers, sample.numbers[: small.n_rows])
    assert sample.leading(20).numbers.tolist() == sample.numbers[:20].tolist()
    actual = small.rows.X.take(slice(None)) if kind == "sparse" else small.rows.X
    np.testing.assert_array_equal(actual, X[small.numbers])
    np.testing.assert_array_equal(small.targets, np.eye(3)[y[small.numbers]])
    np.testing.assert_array_equal(small.rows.weight, weight[small.numbers])


def test_without_duplicates_both_samples_are_equal(rows):
    samples, job = samples_of(*rows, part=np.arange(0, 120, 2)), Job(get_engine("jit"))
    merged, separate = (
        sample_unique(job, samples, n_rows=CAPACITY),
        sample_by_hash(job, samples, CAPACITY),
    )
    for name in ("hashes", "keys", "X", "weight", "sums"):
        np.testing.assert_array_equal(getattr(merged.rows, name), getattr(separate.rows, name))


def test_unequal_weights_enlarge_the_sample(rng):
    X, weight = rng.normal(size=(6000, 2)), np.where(np.arange(6000) % 100, 1.0, 99.0)
    with get_engine("jit") as engine:
        sample = sample_unique(Job(engine), samples_of(X, np.zeros(6000, int), weight))
    assert 8 * 500 < len(sample.rows.weight) <= 8 * 512


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by_eigenvectors", [False, True])
@pytest.mark.parametrize("has_centers", [False, True])
def test_leave_one_out_scores_of_a_sample(
    rows, has_centers, by_eigenvectors, dtype, rng, monkeypatch
):
    """They equal those of a readout without the sample and the unit that is centred there."""
    if by_eigenvectors:
        monkeypatch.setattr(RidgeStatistics, "cholesky", lambda *_, **__: None)
    (X, y, weight), n_units, alpha, units = rows, 9, 0.5, None
    layer: object = TanhLayer(rng.normal(size=(n_units, 4)), rng.normal(size=n_units))
    if has_centers:
        centers = np.unique(X, axis=0, return_index=True)[1][:n_units]
        layer = RBFLayer(X[centers].astype(float), 9.0, kernel="laplacian")
        units = RBF(kernel="laplacian").with_fitted(centers_=X[centers], support_=centers)
    samples = samples_of(X, y, weight)
    with get_engine("jit") as engine:
        job = Job(engine)
        (statistics,) = gather(job, [layer], samples, dtype=dtype)
        sample = sample_unique(job, samples)
        loo = SampledLOO(job, layer, sample, statistics, units=units)
        _, full = loo.solve(alpha)
        _, by_size = zip(*loo.solve_leading(alpha, [4, n_units]), strict=True)
    for results, sizes in (([full], [n_units]), (by_size, [4, n_units])):
        assert [result.n_units for result in results] == sizes
        for result in results:
            first = layer.part(slice(result.n_units))
            for i, row in enumerate(sample.rows.X[:10]):
                others = (row != X).any(axis=1)
                kept = np.arange(result.n_units)
                if has_centers:
                    kept = np.flatnonzero((row != X[centers[: result.n_units]]).any(axis=1))
                H, Y = naive.hidden(first, X)[:, kept], np.eye(3)[y]
                W, b = naive.ridge(H[others], Y[others], alpha, weight[others])
                own = naive.hidden(first, row[None])[0, kept]
                np.testing.assert_allclose(
                    result.scores[i], W @ own + b, atol=10 * np.finfo(dtype).eps
                )


@pytest.mark.parametrize("is_incremental", [False, True])
@pytest.mark.parametrize("make", [RBFClassifier, TanhClassifier])
def test_only_the_sample_is_used_for_calibration(make, rng, is_incremental, monkeypatch):
    monkeypatch.setattr(draw_sample, "sample_capacity", lambda *_: CAPACITY)
    X, y = rng.normal(size=(80, 4)), rng.integers(0, 3, 80)
    y[X[:, 0] > 0.3] = 2
    model = make(9, feature_weights=None, alpha=0.5, random_state=0)
    if is_incremental:
        monkeypatch.setattr(
            "sklearn_fsvc._src.estimators.incremental.sample_capacity", lambda *_: CAPACITY
        )
        model.partial_fit(X[:30], y[:30], classes=range(3)).partial_fit(X[30:], y[30:]).solve()
    else:
        model.fit(X, y)
    own = unit_at_sample(model, len(X))
    assert (own >= 0).any() == (make is RBFClassifier)
    scores = without_each_row(naive.of_model(model, X), np.eye(3)[y], 0.5, own=own)
    small = np.argsort(exact_hashes(X))[:CAPACITY]
    expected = fit_calibration(scores[small], y[small])
    assert (model.temperature_, model.score_scale_) == pytest.approx(expected[:2], rel=1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (21, 70)])
def test_hashes_do_not_depend_on_the_engine(engine, rng, shape, dtype):
    X = rng.integers(0, 9, shape).astype(dtype)
    X[0, -1] = -0.0 if X.dtype.kind == "f" else 0
    expected = exact_hashes(abs(X))
    assert len(np.unique(expected)) == len(X)
    actual = exact_hashes(engine.to_device(X), engine.algebra)
    np.testing.assert_array_equal(actual, expected)


def test_equal_weights_have_the_standard_error_of_the_mean():
    values = np.random.default_rng(0).normal(size=50)
    mean, error = mean_and_error(values, np.full(50, 3.0))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std() / np.sqrt(50))


def test_weights_multiply_the_values_and_their_errors():
    values, weight = np.array([1.0, 3.0, 5.0]), np.array([2.0, 1.0, 1.0])
    mean, error = mean_and_error(values, weight)
    assert mean == pytest.approx(2.5)
    assert error == pytest.approx(np.sqrt(0.25 * 1.5**2 + 0.0625 * (0.5**2 + 2.5**2)))


def test_deviations_from_the_mean_of_all_other_rows():
    Y, weight = np.array([[1.0, 0.0], [3.0, 1.0], [5.0, 0.0]]), np.array([2.0, 1.0, 1.0])
    others = [weight[rows] @ Y[rows] / weight[rows].sum() for rows in ([1, 2], [0, 2], [0, 1])]
    expected = weight @ np.square(Y - others).sum(axis=1) / 4
    assert squared_deviation(Y, weight, weight / 4) == pytest.approx(expected)
    assert np.isfinite(squared_deviation(Y, np.array([1.0, 1e-20, 0.0]), np.array([1.0, 1e-20, 0])))
