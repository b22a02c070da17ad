"""The number of centres, and the order of presentation."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, RBFProjector
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines import ENGINES, get_engine
from sklearn_fsvc._src.hidden_layers import centers, ordered_samples
from sklearn_fsvc._src.hidden_layers.centers import first_of_groups, presentation_order


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


@pytest.mark.parametrize("selection", ["global", "per_class"])
@pytest.mark.parametrize("n", [7, 100, 699, 700])
@pytest.mark.parametrize("seed", range(4))
def test_a_search_finds_exactly_the_number_of_centres(rows, selection, n, seed):
    p = RBFProjector(n, selection=selection, random_state=seed, device="jit").fit(*rows)
    assert len(np.unique(p.support_)) == len(p.support_) == n
    given = RBFProjector(
        n, selection=selection, random_state=seed, device="jit",
        selection_radius=p.selection_radius_,
    )  # fmt: skip
    np.testing.assert_array_equal(given.fit(*rows).support_, p.support_)


@pytest.mark.parametrize("max_pair_bytes", [0, 2**30])
def test_names_of_classes_change_no_centres(rows, max_pair_bytes, monkeypatch):
    """A search may end before all classes are processed."""
    monkeypatch.setattr(ordered_samples, "_MAX_PAIR_BYTES", max_pair_bytes)
    X, y = rows
    model = RBFProjector(30, selection="per_class", random_state=0)
    one, other = (clone(model).fit(X, names[y]) for names in (np.arange(3), np.array([2, 0, 1])))
    assert other.selection_radius_ == one.selection_radius_
    np.testing.assert_array_equal(other.support_, one.support_)


@pytest.mark.parametrize("values", [np.arange(20), np.arange(20) / 7])
def test_samples_on_a_grid(values):
    """The number of novel samples jumps from fewer to more than wanted."""
    X = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2).astype(np.float32)
    assert len(RBFProjector(150, random_state=0).fit(X).centers_) == 150


def test_dense_clusters(rng):
    """At many radii only one sample of each cluster is novel."""
    X = np.repeat(rng.normal(size=(10, 3)), 50, axis=0) + 1e-6 * rng.normal(size=(500, 3))
    assert len(RBFProjector(100, random_state=0).fit(X).centers_) == 100


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("n_different", [1, 2, 15])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["triangular", "laplacian", "gaussian"])
def test_fewer_distinct_samples_than_units(rng, n_different, dtype, kernel):
    X = np.repeat(rng.normal(size=(n_different, 5)), 20, axis=0).astype(dtype)
    n = len(X) - 5
    with pytest.warns(UserWarning, match=f"n_components={n}, but only {n_different} samples"):
        p = RBFProjector(n, random_state=0, kernel=kernel).fit(X)
    assert len(p.centers_) == n_different


@pytest.mark.usefixtures("two_splits")
def test_an_automatic_size_does_not_warn(rng, recwarn):
    X = np.repeat(rng.normal(size=(5, 3)), 40, axis=0)
    RBFClassifier(feature_weights=None, kernel="laplacian").fit(X, np.arange(200) % 2)
    assert not [w for w in recwarn if "differ" in str(w.message)]


@pytest.mark.usefixtures("two_splits")
@pytest.mark.parametrize(
    ("n_features", "all_samples", "n_units"),
    [(39, 1000, 40), (39, 30, 39), (20, 36, 36), (20, 10, 30), (40, 10, 40)],
)
def test_an_automatic_size(n_features, all_samples, n_units, rng, monkeypatch):
    """All samples of few ones or of many features, and three quarters of others."""
    monkeypatch.setattr(centers, "_ALL_SAMPLES", all_samples)
    X = rng.normal(size=(40, n_features))
    model = RBFClassifier(feature_weights=None, random_state=0).fit(X, np.arange(40) % 2)
    assert n_units - 2 <= len(model.centers_) <= n_units


@pytest.mark.usefixtures("two_splits")
@pytest.mark.parametrize("selection", ["per_class", "random"])
def test_an_automatic_size_is_limited_by_the_engine(selection, rng, monkeypatch):
    monkeypatch.setattr(ENGINES["jit"], "max_automatic_units", 25)
    X = rng.normal(size=(60, 3))
    model = RBFClassifier(feature_weights=None, selection=selection, random_state=0, device="jit")
    assert len(model.fit(X, np.arange(60) % 2).centers_) == 25


def test_a_gpu_has_more_units(device):
    with get_engine(device) as engine:
        is_gpu = device == "cuda" or (device == "torch" and engine.torch_device.type != "cpu")
        assert engine.max_automatic_units == (8000 if is_gpu else 4000)


def test_more_centres_than_fit_in_memory(rng):
    """A number is refused before any data is read, a radius as soon as it selects too many."""
    X = rng.normal(size=(2000, 500))
    with pytest.raises(ValueError, match="max_memory='10MB' is too small for 1000 units of 500"):
        RBFProjector(1000, max_memory="10MB", device="jit").fit(X)
    with pytest.raises(ValueError, match="radius=1 makes more than 516 samples novel"):
        RBFProjector(None, selection_radius=1.0, max_memory="10MB", device="jit").fit(X)


def test_presentation_order(rng):
    weight = np.array([1, 0, 2, 0, 1.0])
    unweighted, weighted = Samples(rng.random((100, 2))), Samples(rng.random((5, 2)), None, weight)
    np.testing.assert_array_equal(presentation_order(unweighted, False, None), np.arange(100))
    np.testing.assert_array_equal(presentation_order(weighted, False, None), [0, 2, 4])
    shuffled = presentation_order(unweighted, True, 0)
    assert sorted(shuffled) == list(range(100))
    assert list(shuffled) != list(range(100))
    np.testing.assert_array_equal(shuffled, presentation_order(unweighted, True, 0))


def test_first_of_groups(rng):
    order, groups = rng.permutation(10_000), np.repeat([0, 1, 2], [6000, 3900, 100])
    assert np.array_equal(first_of_groups(order, None, 700), order[:700])
    assert np.array_equal(first_of_groups(order, groups, 10_000), order)
    kept = first_of_groups(order, groups, 5000)
    # The part of each group, but all of the small one and 2000 at least.
    assert np.bincount(groups[kept]).tolist() == [3000, 2000, 100]
    for code in range(3):  # the first of each, in the order
        of_group = order[groups[order] == code]
        assert np.array_equal(kept[groups[kept] == code], of_group[: (groups[kept] == code).sum()])


def test_a_search_reads_few_of_many_samples(rng, monkeypatch):
    """Without an order by chance, or with a given radius, all samples are presented."""
    monkeypatch.setattr(centers, "_MIN_ROWS_OF_GROUP", 10)
    X = rng.random((4000, 3))
    order = presentation_order(Samples(X, None), True, 0)
    few = RBFProjector(20, selection="global", random_state=0).fit(X)
    assert len(few.centers_) == 20
    assert set(few.support_) <= set(order[:320])
    y = (X[:, 0] > 0.8).astype(int)
    few = RBFClassifier(20, random_state=0, feature_weights=None).fit(X, y)
    assert set(few.support_) <= set(first_of_groups(order, y, 320))
    for options in ({"shuffle": False}, {"selection_radius": 0.3}):
        model = RBFProjector(20, selection="global", random_state=0, **options).fit(X)
        assert len(model.centers_) == 20
        if "shuffle" in options:
            assert model.support_.max() > 320
