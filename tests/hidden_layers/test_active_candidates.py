"""Novelty selection in rounds: exact for every block size and order, and lazy."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from peak_memory import peak
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines.base import round_activations
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.hidden_layers.active_candidates import ActiveCandidates, first_by_rank
from sklearn_fsvc._src.hidden_layers.centers import RBFParameters, fit_rbf_layer
from sklearn_fsvc._src.hidden_layers.novelty import (
    novel_rows,
    select_in_rounds,
    selection_bytes,
)
from sklearn_fsvc._src.hidden_layers.ordered_samples import NoveltyRule, OrderedSamples
from sklearn_fsvc._src.hidden_layers.radius import typical_distance
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
RULE = NoveltyRule("manhattan", "triangular", 0.05, 1.0)


class Counting(JitEngine):
    """An engine that counts the pairs of samples and units that it evaluates."""

    pairs = 0

    def hidden(self, prepared, X, out=None, units=None):
        self.pairs += len(X) * prepared.layer.n_units
        return super().hidden(prepared, X, out, units)


class Storage:
    """An array that records which rows are read, and in which order."""

    ndim = 2

    def __init__(self, X):
        self._X, self.reads = X, []
        self.shape, self.dtype, self.nbytes = X.shape, X.dtype, X.nbytes

    def __len__(self):
        return len(self._X)

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        self.reads.append(rows)
        return self._X[rows]


class Shards:
    """Candidates in several shards of the rows, as on several devices."""

    def __init__(self, ordered, rule, of_row, block_rows):
        ranks = [np.flatnonzero(of_row == i) for i in range(of_row.max() + 1)]
        self.shards = [ActiveCandidates(ordered, rule, of, block_rows) for of in ranks]

    def next_candidates(self, n):
        return first_by_rank([shard.next_candidates(n) for shard in self.shards], n, np)

    def add_centers(self, centers, first_undecided):
        for shard in self.shards:
            shard.add_centers(centers, first_undecided)


def in_shards(ordered, rule, of_row, block_rows, n):
    """Do as `novel_rows` does, with several shards of the rows."""
    candidates = Shards(ordered, rule, of_row, block_rows)
    return np.concatenate(list(select_in_rounds(ordered.engine, candidates, rule, n)))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 9999), n_rows=st.integers(1, 120), n_shards=st.integers(1, 4),
    chunk=st.integers(1, 40), block_rows=st.integers(1, 130), n=st.integers(1, 130),
    radius=st.floats(0.01, 2), overlap=st.sampled_from([0.1234567, 0.98765432, 2.3456789]),
    arrangement=st.sampled_from(["shuffled", "sorted", "unchanged"]), dtype=st.sampled_from("fd"),
)  # fmt: skip
def test_block_sizes_order_and_number_of_shards_change_no_centre(
    seed, n_rows, n_shards, chunk, block_rows, n, radius, overlap, arrangement, dtype
):
    rng = np.random.default_rng(seed)
    X = rng.integers(-4, 5, (n_rows, 2)).astype(dtype) / 4
    order = {
        "shuffled": rng.permutation(n_rows),
        "sorted": np.argsort(np.abs(X).sum(axis=1)),
        "unchanged": np.arange(n_rows),
    }[arrangement]
    rule = NoveltyRule("manhattan", "triangular", radius, overlap)
    of_row = rng.integers(0, n_shards, n_rows)
    engine = get_engine("jit")
    engine.chunk_units = chunk
    selected = in_shards(OrderedSamples(engine, X, order), rule, of_row, block_rows, n)
    np.testing.assert_array_equal(selected, naive.novel_rows(X[order], radius, overlap))


@pytest.mark.parametrize("seed", range(8))
def test_exact_ties_with_the_threshold_do_not_change_a_centre(seed):
    """Activations are rounded such that every order of summation yields the same activity."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(40, 20))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    row = centers.mean(axis=0)
    layer = RBFLayer(centers, 0.5, "euclidean", "gaussian")
    (activity,) = JIT.sum_activations(JIT.prepare(layer), row[None])
    rule = NoveltyRule("euclidean", "gaussian", 0.5, float(activity))
    X = np.vstack([centers, np.tile(row, (30, 1))])
    for chunk in (1, 3, 7, 64):
        engine = get_engine("jit")
        engine.chunk_units = chunk
        for n in (1, 5, 11, 40, 70):
            ordered = OrderedSamples(engine, X, np.arange(70))
            selected = in_shards(ordered, rule, np.arange(70) % 2, 20, n)
            np.testing.assert_array_equal(selected, np.arange(40))


def test_shuffled_samples_need_few_pairs(rng):
    """The sequential rule compares each sample with all earlier centres."""
    X, engine = rng.random((60_000, 4)).astype(np.float32), Counting()
    rule = NoveltyRule("manhattan", "triangular", 0.12, 1.0)
    selected, _ = novel_rows(OrderedSamples(engine, X, rng.permutation(60_000)), rule)
    row_by_row = np.searchsorted(selected, np.arange(60_000)).sum()
    assert len(selected) > 2000
    assert engine.pairs <= 0.6 * row_by_row


def test_a_round_takes_candidates_only(rng):
    """With covered samples in between, there would be as many rounds as blocks."""
    X, rule = rng.random((6000, 4)), NoveltyRule("manhattan", "triangular", 0.15, 1.0)
    ordered = OrderedSamples(JIT, X, np.arange(6000))
    candidates = ActiveCandidates(ordered, rule, np.arange(6000), 1000)
    selected = list(select_in_rounds(JIT, candidates, rule, 64))
    assert len(selected) < 1.3 * len(np.concatenate(selected)) / 64 < 6000 / 64 / 4


def test_rows_are_read_once_in_ascending_order_and_lazily(rng):
    X = Storage(rng.random((3000, 4)))
    order = rng.permutation(3000)
    ordered = OrderedSamples(JIT, X, order, block_rows=200)
    selected, n_seen = novel_rows(ordered, RULE, limit=100)
    assert sum(map(len, X.reads)) <= n_seen + 200 + 64
    X.reads.clear()
    selected, _ = novel_rows(ordered, RULE)
    np.testing.assert_array_equal(selected, novel_rows(OrderedSamples(JIT, X[:], order), RULE)[0])
    assert len(X.reads) == 15 + 1
    np.testing.assert_array_equal(np.sort(np.concatenate(X.reads[:15])), np.arange(3000))
    typical_distance(ordered, "manhattan")
    assert all((np.diff(rows) > 0).all() for rows in X.reads)


@pytest.mark.parametrize("selection", ["per_class", "global", "random"])
def test_a_layer_is_read_in_ascending_order(rng, selection):
    """By the distances, by every pass of the search, and for the centres themselves."""
    values, targets = rng.random((2000, 4)), OneHotTargets.of_column(rng.integers(0, 3, 2000), 3)
    parameters = RBFParameters(n_units=150, selection=selection, random_state=0)
    order, X = rng.permutation(2000), Storage(values)
    layer, rows, _ = fit_rbf_layer(parameters, Job(JIT), Samples(X, targets, order=order))
    assert len(X.reads) > 1
    assert all((np.diff(read) > 0).all() for read in X.reads)
    np.testing.assert_array_equal(layer.units, values[rows])
    assert (np.diff(rows) < 0).any()


@pytest.mark.parametrize(("dtype", "n_features"), [("f", 40), ("d", 3), ("u1", 784)])
@pytest.mark.parametrize("block_rows", [64, 1024])
def test_the_memory_of_a_pass(rng, dtype, n_features, block_rows):
    """In addition to the centres: each as a row, loaded, and its index."""
    X, order = rng.integers(0, 256, (5000, n_features)).astype(dtype), rng.permutation(5000)
    ordered = OrderedSamples(JIT, X, order, block_rows=block_rows)
    rule = NoveltyRule("manhattan", "triangular", 32.0 * n_features, 1.0)
    novel_rows(ordered, rule)  # compiles before the measurement
    (selected, _), most = peak(novel_rows, ordered, rule)
    centers = len(selected) * (3 * X[0].nbytes + 64 + 8 * n_features)
    needed = selection_bytes(JIT, block_rows, n_features, X.itemsize)
    assert most <= needed + centers + 3 * order.nbytes + 2**16


def test_a_worker_is_freed_with_its_last_reference(rng):
    """The next pass needs the memory of its window: there must be no reference cycle."""
    worker = ActiveCandidates(
        OrderedSamples(JIT, rng.random((9, 2)), np.arange(9)), RULE, np.arange(9), 9
    )
    gone = weakref.ref(worker)
    gc.disable()
    try:
        del worker
        assert gone() is None
    finally:
        gc.enable()


def test_activations_are_rounded_to_a_grid():
    H = np.array([0, 2.0**-41 * 1.01, 2.0**-41 * 0.99, 2.0**-17, 1, 1 / 3, 1e6 + 1 / 3])
    steps = round_activations(H, np)
    np.testing.assert_array_equal(steps[:5], [0, 2.0**-40, 0, 2.0**-17, 1])
    np.testing.assert_array_equal(steps * 2.0**40 % 1, 0)
    np.testing.assert_allclose(steps[5:], H[5:], rtol=2e-12)
    # Values of float32 above 2^-17 are on the grid.
    H = np.random.default_rng(0).uniform(2.0**-17, 1, 1000).astype(np.float32)
    np.testing.assert_array_equal(round_activations(H, np), H)
