"""Selection of kernel, width and feature weights by validation error."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import naive
from peak_memory import MIB, peak
from sklearn_fsvc import RBFRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.hidden_layers import feature_weights, proxy_networks, proxy_search
from sklearn_fsvc._src.hidden_layers.centers import RBFParameters
from sklearn_fsvc._src.hidden_layers.model_selection import SearchSpace, select_units
from sklearn_fsvc._src.hidden_layers.proxy_networks import apply_weights
from sklearn_fsvc._src.kernels import KERNELS
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.readouts.penalty_search import SearchHistory
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
TRIANGULAR, LAPLACIAN = KERNELS["triangular"], KERNELS["laplacian"]


def make_samples(n=800, seed=0, n_useless=0):
    """Return samples of two classes that depend on two features, and `n_useless` others."""
    X = np.random.default_rng(seed).normal(size=(n, 2 + n_useless))
    return samples_of(X, (X[:, 0] * X[:, 1] > 0).astype(int))


def samples_of(X, codes, **params):
    return Samples(
        X, OneHotTargets.of_column(codes, codes.max() + 1), order=np.arange(len(X)), **params
    )


def select(samples, space, engine=JIT, seed=0, max_memory=None, weights=None, **changes):
    """Return the kernel, radius and weights that are selected, and the history of the search."""
    history = SearchHistory(0.1)
    job, random = Job(engine, max_memory), np.random.default_rng(seed)
    options = {"n_units": 50, "selection": "random", "kernel": TRIANGULAR, "random_state": 0}
    parameters = RBFParameters(**options | changes)
    selected = select_units(job, samples, parameters, weights, space, random, history)
    return selected.kernel, selected.radius, selected.weights, history


def test_given_parameters_are_not_searched():
    kernel, radius, weights, history = select(make_samples(), SearchSpace((LAPLACIAN,), 3.0))
    assert (kernel, radius, weights, history.rows) == (LAPLACIAN, 3.0, None, [])


def test_the_lowest_error_is_selected(engine):
    kernels = TRIANGULAR, LAPLACIAN
    kernel, radius, weights, history = select(make_samples(), SearchSpace(kernels, None), engine)
    best = min(history.rows, key=lambda row: row["error"])
    assert (kernel.name, radius) == (best["kernel"], best["radius"])
    assert weights is None
    evaluated = {(row["kernel"], row["radius"]) for row in history.rows}
    # One width of each kernel, and the other widths of the better kernel.
    assert len(evaluated) == len(kernel.widths) + 1


@pytest.mark.parametrize(("n_periods", "is_narrow"), [(40, True), (0.5, False)])
def test_the_search_continues_to_narrower_and_wider_units(n_periods, is_narrow):
    """Here none of the initial widths is the best."""
    X = np.random.default_rng(0).uniform(0, 1, size=(2000, 1))
    samples = samples_of(X, (np.sin(2 * np.pi * n_periods * X[:, 0]) > 0).astype(int))
    _, radius, _, history = select(samples, SearchSpace((LAPLACIAN,), None), n_units=600)
    first = list(dict.fromkeys(row["radius"] for row in history.rows))[:3]
    assert (radius < min(first)) == is_narrow
    (at_best,) = {min(history.rows, key=lambda row: row["error"])["radius"]}
    assert radius == at_best


def test_the_first_candidate_is_selected_if_nothing_is_predicted(rng):
    """Tiny differences between errors had led to extreme widths, and to meaningless weights."""
    # Samples predict the other class for their neighbour.
    X = rng.normal(size=(30, 4)).repeat(2, axis=0) + 0.01 * rng.normal(size=(60, 4))
    samples = samples_of(X, np.tile([0, 1], 30))
    space = SearchSpace((LAPLACIAN, TRIANGULAR), None, "learned", tries_gaussian=True)
    kernel, radius, weights, history = select(samples, space)
    first = history.rows[0]
    assert (kernel.name, radius) == (first["kernel"], pytest.approx(first["radius"]))
    assert weights is None
    assert len({row["radius"] for row in history.rows}) > 8  # it was searched


def test_penalties_of_inaccurate_widths_are_not_searched(monkeypatch):
    def n_penalties(factor):
        monkeypatch.setattr(proxy_networks, "SKIP_FACTOR", factor)
        *_, history = select(make_samples(), SearchSpace((LAPLACIAN,), None))
        radii = [row["radius"] for row in history.rows]
        return [radii.count(radius) for radius in dict.fromkeys(radii)]

    assert n_penalties(0.5)[1:] == [1, 1]
    assert min(n_penalties(np.inf)) > 1


def test_widths_are_multiples_of_the_median_distance():
    samples = make_samples()
    *_, history = select(samples, SearchSpace((LAPLACIAN,), None))
    d = naive.distances(samples.X, samples.X, "manhattan")
    median = np.median(d[np.triu_indices(len(d), 1)])
    radii = sorted({row["radius"] for row in history.rows})
    np.testing.assert_allclose(radii, 0.7 * median * np.array([0.5, 1, 2]), rtol=0.05)


def test_errors_are_those_of_held_out_samples():
    """With random labels, no network is better than the class frequencies."""
    X = np.random.default_rng(0).normal(size=(600, 3))
    samples = samples_of(X, np.random.default_rng(1).integers(0, 2, 600))
    *_, history = select(samples, SearchSpace((LAPLACIAN,), None, "learned"))
    assert min(row["error"] for row in history.rows) > 0.48


@pytest.mark.parametrize("selection", ["random", "global", "per_class"])
def test_learned_weights_are_used_if_they_help(selection):
    samples = make_samples(n_useless=10)
    *_, weights, history = select(
        samples, SearchSpace((LAPLACIAN,), None, "learned"), selection=selection
    )
    assert weights.argsort()[-2:].tolist() in ([0, 1], [1, 0])
    assert {row["weighted"] for row in history.rows} == {False, True}


def test_few_relevant_features_of_many():
    """Noise in the gradients must not give 28 irrelevant features weights that hide the others.

    With the weights from gradients, the relevant features had an importance of 0.52 in total, the
    largest other weight was 0.06, and R2 0.90.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 30)).astype(np.float32)
    y = np.sin(2 * X[:, 0] - 1) * (1 + X[:, 1]) + 0.1 * rng.normal(size=1600)
    model = RBFRegressor(random_state=0, device="jit").fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.92
    assert model.feature_weights_[2:].max() < 0.02
    assert model.feature_importances_[:2].sum() > 0.9


def test_learned_weights_are_not_used_if_they_harm(monkeypatch):
    """Learned weights are validated, and those of the least leave-one-out error, too."""
    wrong = np.array([1e-6, 1e-6, 1.0, 1.0])
    monkeypatch.setattr(proxy_search, "learn_weights", lambda *_: (np.ones(4), wrong))
    monkeypatch.setattr(proxy_search, "minimise_error", lambda *_: wrong)
    samples = make_samples(n_useless=2)
    assert select(samples, SearchSpace((LAPLACIAN,), None, "learned"))[2] is None
    given = np.array([1.0, 1, 0.1, 0.1])
    *_, weights, _ = select(samples, SearchSpace((LAPLACIAN,), None, "learned"), weights=given)
    assert weights is given


def test_equal_deviations_are_used_if_they_help(monkeypatch):
    """The units of the relevant features are a thousand times too large."""

    def learn(*args):
        return feature_weights.learn_weights(*args)[0], np.array([0.0, 0, 1, 1])

    monkeypatch.setattr(proxy_search, "learn_weights", learn)
    monkeypatch.setattr(proxy_search, "minimise_error", lambda *_: None)
    samples = make_samples(n_useless=2)
    samples.X[:, :2] /= 1000
    weights = select(samples, SearchSpace((LAPLACIAN,), None, "learned"))[2]
    np.testing.assert_allclose(weights, [1, 1, 1e-3, 1e-3], rtol=0.5)


def test_weights_are_learned_from_training_samples_only(monkeypatch):
    training_rows = []

    def learn(job, samples, metric, kernel, seed, rows):
        training_rows.append(rows)
        return np.ones(2), np.ones(2)

    monkeypatch.setattr(proxy_search, "learn_weights", learn)
    select(make_samples(), SearchSpace((LAPLACIAN,), None, "learned"))
    assert len(training_rows[0]) == 667


@pytest.mark.parametrize("selection", ["per_class", "random"])
def test_more_units_than_those_of_the_proxy_change_no_selection(selection):
    space = SearchSpace((TRIANGULAR, LAPLACIAN), None, "learned")
    few, many = (
        select(
            make_samples(n_useless=3),
            space,
            n_units=n,
            selection_radius=radius,
            selection=selection,
        )
        for n, radius in ((200, None), (400, 0.3))  # 200: as many as the proxy has at most
    )
    assert few[:2] == many[:2]
    np.testing.assert_array_equal(few[2], many[2])


def test_proxy_networks_have_no_more_units_than_the_layer():
    *_, history = select(make_samples(), SearchSpace((TRIANGULAR, LAPLACIAN), None), n_units=5)
    assert {row["n_units"] for row in history.rows} == {5}


@pytest.mark.parametrize(
    ("n", "n_units"), [(120, 100), (300, 200), (3000, 450), (5400, 600), (9000, 800)]
)
def test_proxy_networks_of_more_samples_have_more_units(n, n_units):
    *_, history = select(make_samples(n), SearchSpace((LAPLACIAN,), None), n_units=2000)
    assert {row["n_units"] for row in history.rows} == {n_units}


def test_every_device_selects_the_same(engine):
    space = SearchSpace((TRIANGULAR, LAPLACIAN), None, "learned")
    actual, expected = (select(make_samples(n_useless=3), space, e) for e in (engine, JIT))
    assert actual[0] == expected[0]
    # A descent in float32 ends near the same weights; the radius is in units of the largest.
    assert actual[1] == pytest.approx(expected[1], rel=0.1)
    np.testing.assert_allclose(actual[2], expected[2], rtol=0.1, atol=0.02)


def test_samples_of_weight_0_are_ignored(rng):
    samples, keep = make_samples(), rng.random(800) < 0.7
    wrong_targets = OneHotTargets.of_column(np.where(keep, samples.targets.class_codes, 0), 2)
    with_wrong_labels = replace(samples, targets=wrong_targets, weight=keep.astype(float))
    without = samples_of(samples.X[keep], samples.targets.class_codes[keep])
    space = SearchSpace((TRIANGULAR, LAPLACIAN), None, "learned")
    actual, expected = select(with_wrong_labels, space), select(without, space)
    assert actual[0] == expected[0]
    assert actual[1] == pytest.approx(expected[1], rel=1e-9)


def test_a_memory_limit_is_kept_and_changes_no_selection():
    samples, space = (
        make_samples(3000, n_useless=20),
        SearchSpace((TRIANGULAR, LAPLACIAN), None),
    )
    select(samples, space)  # compiles
    free = select(samples, space)
    tight, taken = peak(partial(select, max_memory=20 * MIB), samples, space)
    assert tight[0] == free[0]
    assert tight[1] == pytest.approx(free[1])
    assert taken <= 20 * MIB + 3000 * 100


class RecordingEngine(JitEngine):
    """An engine that records the dtypes of the layers that it prepares."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def prepare(self, layer):
        self.dtypes.add(layer.units.dtype)
        return super().prepare(layer)


@pytest.mark.parametrize(("far", "dtype"), [(0, np.float32), (1e9, np.float64)])
def test_proxy_networks_use_float32_if_distances_do_not_suffer(far, dtype):
    near, engine = make_samples(3000), RecordingEngine()
    samples = replace(near, X=near.X + far)
    kernel, *_ = select(samples, SearchSpace((TRIANGULAR, LAPLACIAN), None), engine)
    assert engine.dtypes == {np.dtype(dtype)}
    assert kernel == select(near, SearchSpace((TRIANGULAR, LAPLACIAN), None))[0]


def test_weighted_centres_are_at_distance_0_from_their_samples():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    weights = np.array([0.3, 1.0, 0.7, 1e-3])
    layer = apply_weights(RBFLayer(X, 1.0, "manhattan", "distance"), weights)
    D = JIT.hidden(JIT.prepare(layer), X * weights.astype(np.float32))
    assert (D.diagonal() == 0).all()
    assert apply_weights(layer, None) is layer
