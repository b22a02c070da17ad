"""Novelty selection equals the sequential rule, for every block size, engine and limit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive
from sklearn_fsvc._src.hidden_layers import ordered_samples
from sklearn_fsvc._src.hidden_layers.novelty import first_novel_rows, min_centers, novel_rows
from sklearn_fsvc._src.hidden_layers.ordered_samples import NoveltyRule, OrderedSamples
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")

# Coordinates on a coarse grid yield ties and duplicates. The thresholds are not sums of activations
# on such a grid, so that rounding changes no decision.
grids = hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)),
                   elements=st.integers(-4, 4).map(float))  # fmt: skip
radii = st.floats(0.05, 10)
overlaps = st.sampled_from([0.1234567, 0.7654321, 0.98765432, 1.2345678, 2.3456789])
metrics = st.sampled_from(["manhattan", "euclidean", "sqeuclidean"])
kernels = st.sampled_from(["triangular", "gaussian"])


def ordered(X, order=None, groups=None, engine=JIT, **options):
    order = np.arange(len(X)) if order is None else order
    return OrderedSamples(engine, X, order, groups, **options)


def jit_engine(**sizes):
    """Return a jit engine with the given sizes."""
    engine = get_engine("jit")
    vars(engine).update(sizes)
    return engine


def select_rows(X, rule, engine=JIT):
    return novel_rows(ordered(X, engine=engine), rule)[0]


@settings(max_examples=75, deadline=None)
@given(X=grids, radius=radii, overlap=overlaps, metric=metrics, kernel=kernels)
def test_blocked_selection_equals_the_sequential_rule(X, radius, overlap, metric, kernel):
    rule = NoveltyRule(metric, kernel, radius, overlap)
    expected = naive.novel_rows(X, radius, overlap, metric, kernel)
    np.testing.assert_array_equal(select_rows(X, rule), expected)


@pytest.mark.parametrize("block", [64, 100, 1000])
def test_block_and_chunk_sizes_do_not_change_the_selection(rng, block):
    X = rng.random((700, 4))
    expected = naive.novel_rows(X, 0.08, 0.9)
    engine = jit_engine(block_rows=block, chunk_units=50)
    selected = select_rows(X, NoveltyRule("manhattan", "triangular", 0.08, 0.9), engine)
    np.testing.assert_array_equal(selected, expected)
    assert len(selected) > 100  # more than a chunk


def test_a_duplicate_of_a_centre_is_not_novel_in_a_later_block(rng):
    """Its activity is 1, which is not less than the threshold."""
    X = np.tile(rng.random((64, 3)), (3, 1))
    selected = select_rows(
        X, NoveltyRule("manhattan", "triangular", 1e-6, 1.0), jit_engine(block_rows=64)
    )
    np.testing.assert_array_equal(selected, np.arange(64))


def test_every_engine_selects_the_same(engine, rng):
    X = rng.random((400, 6))
    for metric in ("manhattan", "euclidean", "sqeuclidean"):
        rule = NoveltyRule(metric, "triangular", 0.2, 0.9)
        selected, _ = novel_rows(ordered(X, engine=engine), rule)
        np.testing.assert_array_equal(selected, naive.novel_rows(X, 0.2, 0.9, metric))


@settings(max_examples=50, deadline=None)
@given(X=grids, radius=radii, overlap=overlaps)
def test_invariants(X, radius, overlap):
    rule = NoveltyRule("manhattan", "triangular", radius, overlap)
    selected = select_rows(X, rule)
    H = naive.rbf(X, X[selected], radius)
    # Centre j was under the threshold with respect to the earlier centres.
    for j, row in enumerate(selected):
        assert H[row, :j].sum() < overlap
    if overlap <= 1:
        # The activity of all samples reaches the threshold, and no sample is selected twice.
        assert (H.sum(axis=1) >= overlap - 1e-9).all()
        assert len(np.unique(X[selected], axis=0)) == len(selected)


@settings(max_examples=30, deadline=None)
@given(X=grids, overlap=st.sampled_from([0.3, 1.0]))
def test_a_tiny_radius_selects_every_distinct_row(X, overlap):
    selected = select_rows(X, NoveltyRule("manhattan", "triangular", 1e-6, overlap))
    assert len(selected) == len(np.unique(X, axis=0))


@pytest.mark.parametrize(("overlap", "n"), [(0.5, 1), (1.0, 2), (1.5, 2), (3.7, 4)])
def test_a_huge_radius_selects_the_minimum(rng, overlap, n):
    X = rng.random((50, 3))
    selected = select_rows(X, NoveltyRule("manhattan", "triangular", 1e9, overlap))
    np.testing.assert_array_equal(selected, np.arange(n))
    assert min_centers(ordered(X), overlap) == n


@settings(max_examples=25, deadline=None)
@given(X=grids, radius=radii, overlap=overlaps, seed=st.integers(0, 9))
def test_each_group_is_selected_separately(X, radius, overlap, seed):
    groups = np.random.default_rng(seed).integers(0, 3, len(X))
    order = np.random.default_rng(seed).permutation(len(X))
    rule = NoveltyRule("manhattan", "triangular", radius, overlap)
    selected, n_seen = novel_rows(ordered(X, order, groups), rule)
    expected = naive.novel_rows_by_group(X[order], groups[order], radius, overlap)
    np.testing.assert_array_equal(selected, expected)
    assert n_seen == len(X)


def test_the_end_of_a_limited_pass_does_not_depend_on_the_block_size(rng):
    """Otherwise the search for a radius would end elsewhere on another engine."""
    X = rng.random((3000, 4))
    rule = NoveltyRule("manhattan", "triangular", 0.05, 1.0)
    ends = [novel_rows(ordered(X, block_rows=rows), rule, limit=100) for rows in (64, 200, 3000)]
    for selected, n_seen in ends:
        assert len(selected) == 101
        assert n_seen == selected[-1] + 1
        np.testing.assert_array_equal(selected, ends[0][0])


def test_the_limit_ends_the_pass_early(rng):
    X = rng.random((5000, 3))
    rule = NoveltyRule("manhattan", "triangular", 0.001, 1.0)
    selected, n_seen = novel_rows(ordered(X), rule, limit=100)
    assert len(selected) > 100
    assert n_seen < 5000


def test_with_a_fixed_radius_smaller_selections_are_prefixes(rng):
    X, groups = rng.random((600, 4)), rng.integers(0, 3, 600)
    rule = NoveltyRule("manhattan", "triangular", 0.1, 1.0)
    order = rng.permutation(600)
    few = first_novel_rows(ordered(X, order, groups), rule, 20)
    many = first_novel_rows(ordered(X, order, groups), rule, 90)
    every, _ = novel_rows(ordered(X, order, groups), rule)
    np.testing.assert_array_equal(few, many[:20])
    np.testing.assert_array_equal(many, every[:90])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_samples_are_multiplied_by_weights(engine, rng, dtype):
    X, weights = rng.integers(0, 256, (300, 6)).astype(dtype), rng.random(6)
    order, wide = rng.permutation(300), np.result_type(dtype, np.float32)
    weights = weights.astype(wide)
    ordered_samples = ordered(X, order, engine=engine, dtype=wide, weights=weights)
    expected = X[order].astype(wide) * weights
    block = engine.to_host(ordered_samples.block(slice(20, 60)))
    assert block.dtype == wide
    np.testing.assert_array_equal(block, expected[20:60])
    rule = NoveltyRule("manhattan", "triangular", 90.0, 0.9)
    selected, _ = novel_rows(ordered_samples, rule)
    np.testing.assert_array_equal(selected, naive.novel_rows(expected, 90.0, 0.9))
    assert 10 < len(selected) < 290


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairwise_comparison_of_groups_selects_the_same_as_rounds(rng, dtype, weighted):
    """For every limit. n_seen is equal, so that a search evaluates the same radii."""
    X = (rng.random((300, 3)) * 9).astype(dtype)
    order, groups = rng.permutation(300)[:250], np.minimum(rng.integers(0, 7, 300), 4)
    weights = np.array([1.0, 0.3, 0.0]) if weighted else None
    options = {"weights": weights, "dtype": np.dtype(float) if weighted else None}
    engine = jit_engine()
    in_rounds, pairwise = (
        ordered(X, order, groups, engine, group_bytes=n, **options) for n in (0, 2**24)
    )
    assert in_rounds.group_blocks is None
    assert len(pairwise.group_blocks) == 5
    calls, novel = [], engine.select_novel

    def recorded(layer, *args):
        calls.append(layer.n_units)
        return novel(layer, *args)

    for radius in (0.3, 1.0, 4.0):
        rule = NoveltyRule("manhattan", "triangular", radius, 0.9)
        for limit in (None, 0, 1, 5, 20, 60, 119, 250):
            selected, expected = (novel_rows(each, rule, limit) for each in (pairwise, in_rounds))
            np.testing.assert_array_equal(selected[0], expected[0])
            assert selected[1] == expected[1]
        for n in (1, 7, 300):
            selected, expected = (first_novel_rows(each, rule, n) for each in (pairwise, in_rounds))
            np.testing.assert_array_equal(selected, expected)
    engine.select_novel = recorded
    novel_rows(pairwise, rule)
    assert sorted(calls) == sorted(np.bincount(groups[order]))


@pytest.mark.parametrize("change", [{"group_bytes": 10_000}, {"groups": None}])
def test_large_groups_are_not_compared_pairwise(rng, change, monkeypatch):
    X, options = rng.random((100, 2)), {"groups": rng.integers(0, 3, 100), "group_bytes": 2**24}
    assert ordered(X, **options).group_blocks is not None
    assert ordered(X, **options | change).group_blocks is None
    monkeypatch.setattr(ordered_samples, "_MAX_PAIR_BYTES", 100 * 30 * 8)
    assert ordered(X, **options).group_blocks is None
