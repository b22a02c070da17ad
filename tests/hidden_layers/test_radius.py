"""The search for a selection radius, and the median distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from sklearn_fsvc._src.hidden_layers.novelty import novel_rows
from sklearn_fsvc._src.hidden_layers.ordered_samples import NoveltyRule, OrderedSamples
from sklearn_fsvc._src.hidden_layers.radius import search_radius, typical_distance
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")


def ordered(X):
    return OrderedSamples(JIT, X, np.arange(len(X)), None)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), n_rows=st.integers(30, 400), part=st.floats(0.05, 0.9),
    start=st.floats(1e-3, 1e3),
)  # fmt: skip
def test_the_number_of_centres_is_close_to_the_target_and_never_exceeds_it(
    seed, n_rows, part, start
):
    X = np.random.default_rng(seed).normal(size=(n_rows, 5))
    target = max(2, int(part * n_rows))

    def count_at(radius):
        rule = NoveltyRule("manhattan", "triangular", radius, 1.0)
        return novel_rows(ordered(X), rule, limit=target)

    radius, selected, _ = search_radius(count_at, start, target, n_rows)
    assert len(selected) <= target
    # The count is discontinuous, so a small number is not always possible.
    assert len(selected) >= 0.85 * target - 2
    np.testing.assert_array_equal(selected, naive.novel_rows(X, radius, 1.0))


@pytest.mark.parametrize("start", [1e-9, 1e9])
def test_the_search_may_start_anywhere(rng, start):
    X = rng.normal(size=(300, 5))

    def count_at(radius):
        rule = NoveltyRule("manhattan", "triangular", radius, 1.0)
        return novel_rows(ordered(X), rule, limit=50)

    assert 45 <= len(search_radius(count_at, start, 50, 300, min_count=2)[1]) <= 50


def test_the_search_takes_few_passes(rng):
    X, passes = rng.normal(size=(3000, 20)), []

    def count_at(radius):
        passes.append(radius)
        rule = NoveltyRule("manhattan", "triangular", radius, 1.0)
        return novel_rows(ordered(X), rule, limit=300)

    start = typical_distance(ordered(X), "manhattan")
    search_radius(count_at, start, 300, 3000)
    assert len(passes) <= 8


def test_the_search_ends_if_there_are_too_few_distinct_samples(rng):
    X, radii = np.repeat(rng.random((5, 3)), 20, axis=0), []

    def count_at(radius):
        radii.append(radius)
        rule = NoveltyRule("manhattan", "triangular", radius, 1.0)
        return novel_rows(ordered(X), rule, limit=30)

    _, selected, _ = search_radius(count_at, 1.0, 30, 100)
    assert len(selected) == 5
    assert min(radii) > 1e-30  # the radius does not underflow
    radii.clear()
    search_radius(count_at, 1.0, 30, 100, min_count=5)
    assert min(radii) > 1e-30


@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "sqeuclidean"])
def test_typical_distance(rng, metric):
    X = rng.random((100, 4))
    d = naive.distances(X, X, metric)[np.triu_indices(100, 1)]
    assert typical_distance(ordered(X), metric) == pytest.approx(np.median(d))


def test_typical_distance_of_duplicates():
    X = np.zeros((10, 2))
    assert typical_distance(ordered(X), "manhattan") == 1.0
    X[0] = 9  # one distinct sample: the median distance is 0, the mean is not
    assert typical_distance(ordered(X), "manhattan") == pytest.approx(18 * 9 / 45)
    assert typical_distance(ordered(X[:1]), "manhattan") == 1.0
