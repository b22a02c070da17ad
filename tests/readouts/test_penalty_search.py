"""Validation errors from statistics equal those of readouts trained without the held-out part."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import naive
from readouts.brute_force import samples_of
from sklearn_fsvc import RBFRegressor, TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.readouts import (
    cross_validation,
    dual,
    loo_penalty,
    packed_symmetric,
    penalty_search,
)
from sklearn_fsvc._src.readouts.cross_validation import (
    draw_parts,
    hold_out,
    make_folds,
)
from sklearn_fsvc._src.readouts.gather_statistics import gather, gather_coarse
from sklearn_fsvc._src.readouts.penalty_search import (
    ALPHA_STEP,
    PenaltySearchResult,
    SearchHistory,
    gather_and_search,
    grid_power,
    minimise_over_alpha,
    search_penalty,
    squared_error,
)
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics
from sklearn_fsvc.engines import get_engine


def statistics_of(engine, H, Y, weight=None):
    s = RidgeStatistics.zeros(H.shape[1], Y.shape[1], engine.algebra, np.float64)
    for part in (slice(0, 7), slice(7, None)):
        w = None if weight is None else weight[part]
        s.update(engine.to_device(H[part].copy()), engine.to_device(Y[part].copy()), w)
    return s


@pytest.mark.parametrize("width", [1024, 7])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_error_from_statistics_is_that_of_the_samples(engine, monkeypatch, rng, width, is_weighted):
    monkeypatch.setattr(packed_symmetric, "WIDTH", width)  # one panel, or incomplete ones
    H, Y = rng.normal(size=(60, 20)) + 5, rng.normal(size=(60, 3))
    weight = rng.random(60) if is_weighted else None
    solution = statistics_of(engine, H[:40], Y[:40]).solve(0.3)
    W, b = engine.to_host(solution.W), engine.to_host(solution.b)
    squared = ((Y[40:] - H[40:] @ W.T - b) ** 2).sum(axis=1)
    w = None if weight is None else weight[40:]
    error = squared_error(statistics_of(engine, H[40:], Y[40:], w), solution)
    assert error == pytest.approx(np.average(squared, weights=w))


@pytest.mark.parametrize(
    ("few", "precisions"), [(1000, [None, None]), (10, ["float32", "float32"])]
)
def test_many_units_are_multiplied_in_float32(data, monkeypatch, few, precisions):
    X, y, layer, _ = data
    dtypes = []

    def recorded(job, layers, samples, rows=None, dtype=None):
        dtypes.append(dtype and np.dtype(dtype).name)
        return gather(job, layers, samples, rows, dtype)

    monkeypatch.setattr("sklearn_fsvc._src.readouts.gather_statistics.gather", recorded)
    monkeypatch.setattr("sklearn_fsvc._src.readouts.penalty_search.gather", recorded)
    with get_engine("jit") as engine:
        result, statistics = gather_and_search(
            Job(engine), layer, samples_of(X, y), np.random.default_rng(0), SearchHistory(1.0), few
        )
    assert dtypes == precisions[:1] + precisions[1:] * 6
    exact = precisions[-1] is None
    W, _ = naive.ridge(naive.hidden(layer, X), np.eye(3)[y], result.alpha)
    error = np.abs(statistics.solve(result.alpha).W - W).max()
    assert error < (1e-9 if exact else 1e-4)
    assert exact or error > 1e-9


@pytest.fixture(params=["f4", "f8"])
def ill_conditioned(request, data):
    """Nearly equal samples and units, whose eigenvalues differ by orders of magnitude."""
    X, y, layer, _ = data
    X, y = np.repeat(X[:20], 30, axis=0), np.repeat(y[:20], 30)
    X = (X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)).astype(request.param)
    return X, y, replace(layer, units=X[::2].copy())


@pytest.mark.parametrize("is_last", [False, True])
def test_float64_fallback_of_ill_conditioned_sums(ill_conditioned, is_last):
    X, y, layer = ill_conditioned
    samples = samples_of(X, y)
    with get_engine("jit") as engine:
        (statistics,) = gather(Job(engine), [layer], samples, dtype=np.float32)
        statistics.float64_fallback = partial(gather, Job(engine), [layer], samples, dtype=float)
        assert statistics.copy().try_solve(1e-5) is None
        solution = statistics.solve(1e-5, is_last)
    W, b = naive.ridge(naive.hidden(layer, X), np.eye(3)[y], 1e-5)
    assert solution.problem == ""
    scores, expected = (
        naive.hidden(layer, X) @ A.T + c for A, c in ((solution.W, solution.b), (W, b))
    )
    np.testing.assert_allclose(scores, expected, atol=1e-5 if X.dtype == "f8" else 1e-2)


def test_float32_samples_and_a_small_penalty_that_is_given(rng):
    """Sums in float32 would leave out most directions of so many smooth units."""
    X = rng.uniform(-1, 1, size=(1500, 2)).astype(np.float32)
    y = np.sin(6 * X[:, 0]) + X[:, 1]
    model = TanhRegressor(400, scale=6.0, alpha=1e-3, feature_weights=None, random_state=0)
    in_float32, in_float64 = (
        clone(model).set_params(device="jit").fit(X.astype(dtype), y).predict(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(in_float32, in_float64, atol=1e-4)
    assert np.abs(in_float64 - y).max() < 0.1


def test_a_search_that_conditioning_stops_is_repeated_in_float64(ill_conditioned, monkeypatch):
    X, y, layer = ill_conditioned
    penalties = {}
    with get_engine("jit") as engine:
        for stopped in (PenaltySearchResult.stopped_by_conditioning, False):
            monkeypatch.setattr(PenaltySearchResult, "stopped_by_conditioning", stopped)
            result, statistics = gather_and_search(
                Job(engine), layer, samples_of(X, y), np.random.default_rng(0), SearchHistory(1.0),
                many_units=10,
            )  # fmt: skip
            penalties[statistics.is_coarse] = result.alpha
    assert penalties[False] < penalties[True]
    # The bound is the rounding of float32, on every device.
    assert penalties[False] == pytest.approx(1e-4)


@pytest.mark.parametrize("far", [0, 1e7])
def test_large_layers_are_evaluated_in_float32_if_safe(data, monkeypatch, far):
    X, y, layer, _ = data
    X, layer, dtypes = X + far, replace(layer, units=layer.units + far), []

    def recorded(job, layers, *rest):
        dtypes.append(layers[0].units.dtype)
        return gather_coarse(job, layers, *rest)

    monkeypatch.setattr(penalty_search, "gather_coarse", recorded)
    monkeypatch.setattr(penalty_search, "LARGE_HIDDEN", 10)
    with get_engine("jit") as engine:
        _, statistics = gather_and_search(
            Job(engine), layer, samples_of(X, y), np.random.default_rng(0), SearchHistory(1.0),
            many_units=10,
        )  # fmt: skip
    assert set(dtypes) == {np.dtype(np.float64 if far else np.float32)}
    error = np.abs(statistics.mean - naive.hidden(layer, X).mean(axis=0)).max()
    assert error < 1e-6  # an offset of 1e7 would be rounded in float32


def test_fold_errors_are_weighted_by_their_samples(data):
    X, y, layer, weight = data
    samples, rows = samples_of(X, y, weight), [np.arange(0, 20), np.arange(20, 140)]
    with get_engine("jit") as engine:
        job = Job(engine)
        (whole,) = gather(job, [layer], samples, dtype=float)
        held_statistics = [gather(job, [layer], samples, part, float)[0] for part in rows]
        folds = make_folds(whole, held_statistics, 30)
        result = search_penalty(folds, 0.3, skip_above=0)
    H, Y = naive.hidden(layer, X)[:, :30], np.eye(3)[y]
    errors, weights = [], []
    for part in rows:
        kept = np.setdiff1d(np.arange(240), part)
        W, b = naive.ridge(H[kept], Y[kept], result.alpha, weight[kept])
        errors += list(((Y[part] - H[part] @ W.T - b) ** 2).sum(axis=1))
        weights += list(weight[part])
    assert result.error == pytest.approx(np.average(errors, weights=weights))


@pytest.mark.parametrize(("alpha", "is_far"), [(1.0, True), (1e-4, False)])
def test_compared_solutions_use_a_float32_factor_if_safe(engine, data, alpha, is_far):
    X, y, layer, _ = data
    (coarse,) = gather(Job(engine), [layer], samples_of(X, y), dtype=np.float32)
    (fine,) = gather(Job(engine), [layer], samples_of(X, y), dtype=float)
    for statistics, is_narrow in ((coarse, is_far), (fine, False)):
        result = statistics.try_solve(alpha, is_compared=True)
        statistics.workspace_bytes = 0  # for the float64 factor only
        expected = statistics.try_solve(alpha)
        W, W_exact = engine.to_host(result.W), engine.to_host(expected.W)
        np.testing.assert_allclose(W, W_exact, rtol=0, atol=1e-4 * np.abs(W_exact).max())
        assert (W_exact != W).any() == is_narrow


@pytest.mark.parametrize("start", [1e-9, 0.1, 1e9])
def test_search_ends_where_neighbours_are_worse(engine, data, start):
    X, y, layer, _ = data
    kept, held = hold_out(np.arange(240), np.random.default_rng(0))
    job, samples = Job(engine), samples_of(X, y)
    (kept_statistics,), (held_statistics,) = (
        gather(job, [layer], samples, rows) for rows in (kept, held)
    )
    result = search_penalty([(kept_statistics, held_statistics)], start)
    H, Y = naive.hidden(layer, X), np.eye(3)[y]

    def error(alpha):
        W, b = naive.ridge(H[kept], Y[kept], alpha)
        return ((Y[held] - H[held] @ W.T - b) ** 2).sum(axis=1).mean()

    for alpha, evaluated in result.tried.items():
        assert evaluated == pytest.approx(error(alpha), rel=1e-6)
    assert result.error == min(result.tried.values())
    assert result.error <= min(error(result.alpha * 10**0.5), error(result.alpha / 10**0.5))
    assert 0.1 < result.alpha < 100  # the data are noisy


@pytest.mark.parametrize(
    ("start", "valley", "best"), [(-6, 0.9, -6), (-6, 1.1, 10), (4, 0.9, -6), (4, 1.1, 10)]
)
def test_a_local_minimum_is_better_than_the_mean_of_the_targets(start, valley, best):
    # The error of noise may have a local minimum that is worse than that of the largest penalty.
    errors = {-8: 1.9, -7: 1.8, -6: valley} | dict.fromkeys(range(-5, 7), 2.0)

    def error_of(alpha):
        return errors.get(round(grid_power(alpha)), 1.0)

    result = minimise_over_alpha(error_of, 100, 50, ALPHA_STEP**start, mean_error=1.0)
    assert (result.alpha, result.error) == (pytest.approx(ALPHA_STEP**best), min(valley, 1.0))


@pytest.mark.parametrize(
    "model",
    [
        RBFRegressor(30, feature_weights=None, radius=1.0, random_state=0),  # leave-one-out
        TanhRegressor(30, feature_weights=None, random_state=0),  # statistics of folds
        TanhRegressor(200, feature_weights=None, random_state=0),  # dual equations
    ],
)
@pytest.mark.parametrize("has_validation_set", [False, True])
def test_error_of_the_mean_is_that_of_a_huge_penalty(model, has_validation_set, rng, monkeypatch):
    X, y = rng.normal(size=(90, 3)), rng.normal(size=90) + 5
    compared = []

    def search(error_of, n, n_units, start, mean_error, *args):
        compared.append((mean_error, error_of(1e12)))
        return minimise_over_alpha(error_of, n, n_units, start, mean_error, *args)

    for module in (penalty_search, dual, loo_penalty):
        monkeypatch.setattr(module, "minimise_over_alpha", search)
    validation = {"X_val": X[60:], "y_val": y[60:]} if has_validation_set else {}
    clone(model).fit(X[:60], y[:60], **validation)
    assert compared
    for mean_error, error in compared:
        assert mean_error == pytest.approx(error, rel=0.05)


def test_search_stops_above_the_limit(data):
    X, y, layer, _ = data
    kept, held = hold_out(np.arange(240), np.random.default_rng(0))
    with get_engine("jit") as engine:
        job, samples = Job(engine), samples_of(X, y)
        (kept_statistics,), (held_statistics,) = (
            gather(job, [layer], samples, rows) for rows in (kept, held)
        )
    (first,) = search_penalty(
        [(kept_statistics, held_statistics)], 0.1, skip_above=0.0
    ).tried.values()
    assert (
        len(
            search_penalty([(kept_statistics, held_statistics)], 0.1, skip_above=1.01 * first).tried
        )
        > 1
    )
    assert (
        len(
            search_penalty([(kept_statistics, held_statistics)], 0.1, skip_above=0.99 * first).tried
        )
        == 1
    )


def test_first_penalty_of_a_layer():
    history, layer = SearchHistory(0.1), TanhLayer(np.zeros((1, 1)), np.zeros(1))
    assert history.start_for(layer) == 0.1
    for error, alpha, first in ((0.9, 0.01, 0.1), (0.8, 3.0, 3.0)):
        history.rows.append({"error": error, "alpha": alpha})
        assert (history.best_alpha(layer), history.start_for(layer)) == (alpha, first)


def test_a_search_does_not_start_at_very_large_penalties():
    """Networks that predict nothing need them, and others predict nothing with them."""
    history, layer = (
        SearchHistory(0.1, n_rows=9, n_samples=9),
        TanhLayer(np.zeros((1, 1)), np.zeros(1)),
    )
    history.rows.append({"error": 0.9, "alpha": 1e5})
    assert history.best_alpha(layer) == 1e5
    assert history.start_for_proxy(layer) == history.start_for(layer) == 100


def test_first_penalty_is_that_of_small_networks_on_most_samples():
    layer = TanhLayer(np.zeros((1, 1)), np.zeros(1))
    for n_rows, first in ((99, 0.1), (100, 0.01)):
        history = SearchHistory(0.1, n_rows=n_rows, n_samples=200)
        history.rows.append({"error": 0.9, "alpha": 0.01})
        assert history.start_for(layer) == first


def test_best_penalty_is_of_similar_networks():
    """It depends on kernel and width, so that networks of others are ignored, even if better."""
    history, layer = SearchHistory(0.1), RBFLayer(np.zeros((1, 1)), 2.0, kernel="triangular")
    for kernel, radius, error, alpha in (
        ("laplacian", 3.0, 0.1, 1.0), ("triangular", 3.0, 0.3, 2.0), ("triangular", 2.0, 0.5, 3.0),
        ("triangular", 2.0, 0.4, 4.0), ("triangular", 2.0, 0.6, 5.0),
    ):  # fmt: skip
        history.add(
            replace(layer, kernel=kernel, radius=radius),
            PenaltySearchResult(alpha, error, 1, {alpha: error}),
        )
        assert history.best_alpha(layer) == min(alpha, 4.0)


@pytest.mark.parametrize(("n_units", "n_validated"), [(50, 25), (51, 26), (1, 1)])
def test_half_of_the_units_validate(data, n_units, n_validated):
    X, y, layer, _ = data
    samples, history, layer = samples_of(X[:240], y), SearchHistory(0.1), layer.part(slice(n_units))
    with get_engine("jit") as engine:
        result, statistics = gather_and_search(
            Job(engine), layer, samples, np.random.default_rng(0), history
        )
    assert result.n_units == n_validated
    assert {row["n_units"] for row in history.rows} == {n_validated}
    assert len(statistics.h) == n_units


def test_penalties_below_rounding_are_not_evaluated(data):
    class NeverWorse:
        n, h, y, yy = 10**6, np.zeros(3), np.zeros(1), np.zeros(1)

        def try_solve(self, alpha, is_compared):
            evaluated.append(alpha)

    evaluated = []
    search_penalty([(NeverWorse(), NeverWorse())], 0.1)
    assert min(evaluated) >= 10**6 * np.finfo(np.float32).eps


@pytest.mark.parametrize("depth", [0.2, 0.8])
@pytest.mark.parametrize(
    ("start", "with_small_penalties"), [(0.1, False), (0.1, True), (1e-9, True), (1e-9, False)]
)
def test_searches_with_small_penalties(start, with_small_penalties, depth):
    """There is a minimum among the usual penalties, and another one below these."""

    def error_of(alpha):
        evaluated.append(alpha)
        power = np.log10(alpha)
        return 0.5 + abs(power + 2) if power > -5.4 else depth + abs(power + 8)

    evaluated = []
    found = minimise_over_alpha(
        error_of, 100, 50, start, 10.0, with_small_penalties=with_small_penalties
    )
    has_both = with_small_penalties != (start < 1e-4)
    is_low = depth < 0.5 if has_both else with_small_penalties
    np.testing.assert_allclose(found.alpha, 1e-8 if is_low else 1e-2)
    assert min(evaluated) > (9e-11 if with_small_penalties or start < 1e-4 else 9e-5)


def test_ill_conditioned_penalties_are_skipped(engine, data):
    """All units are equal, so that the Cholesky factorisation fails for small penalties."""
    X, y, _, _ = data
    equal_units = RBFLayer(np.repeat(X[:1], 30, axis=0), 1e5, "manhattan", "laplacian")
    job, samples = Job(engine), samples_of(X, y)
    result, _ = gather_and_search(
        job, equal_units, samples, np.random.default_rng(0), SearchHistory(0.1)
    )
    assert np.isfinite(result.error)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_statistics_are_those_of_all_samples(engine, data, is_weighted):
    X, y, layer, weight = data
    weight = weight if is_weighted else None
    history = SearchHistory(0.1)
    result, statistics = gather_and_search(
        Job(engine), layer, samples_of(X, y, weight), np.random.default_rng(0), history
    )
    solution = statistics.solve(result.alpha)
    W, b = naive.ridge(naive.hidden(layer, X), np.eye(3)[y], result.alpha, weight)
    np.testing.assert_allclose(engine.to_host(solution.W), W, atol=1e-8)
    np.testing.assert_allclose(engine.to_host(solution.b), b, atol=1e-8)
    assert [row["alpha"] for row in history.rows] == list(result.tried)
    assert history.best_alpha(layer) == result.alpha


def test_samples_of_weight_zero_are_ignored(engine, data):
    X, y, layer, weight = data
    wrong_labels = np.where(weight == 0, 0, y)  # labels that must not be used
    result = [
        gather_and_search(
            Job(engine),
            layer,
            samples_of(X, labels, weight),
            np.random.default_rng(0),
            SearchHistory(0.1),
        )[0]
        for labels in (y, wrong_labels)
    ]
    assert result[0].tried == result[1].tried


@pytest.mark.parametrize("n_units", [120, 40])
@pytest.mark.parametrize("width", [1024, 7])
@pytest.mark.parametrize("few", [1000, 10])
def test_units_whose_centers_are_held_out_are_left_out(
    engine, data, monkeypatch, n_units, width, few
):
    """Readouts are retrained without the samples of each part and the units centred at them."""
    monkeypatch.setattr(packed_symmetric, "WIDTH", width)
    monkeypatch.setattr(cross_validation, "MAX_CV_SAMPLES", few)
    X, y, layer, weight = data
    layer, rows = layer.part(slice(n_units)), 2 * np.arange(n_units)
    samples, job = samples_of(X, y, weight).on_device(Job(engine))
    history, random = SearchHistory(0.1), np.random.default_rng(0)
    result, statistics = gather_and_search(job, layer, samples, random, history, center_rows=rows)
    parts = draw_parts(samples.rows_with_weight, np.random.default_rng(0))
    assert len(parts) == (6 if few == 1000 else 1)
    H, Y = naive.hidden(layer.part(slice(n_units // 2)), X), np.eye(3)[y]
    for alpha, error in result.tried.items():
        total = 0.0
        for part in parts:
            kept = np.setdiff1d(np.arange(240), part)
            units = np.flatnonzero(~np.isin(rows[: n_units // 2], part))
            assert len(units) < n_units // 2
            W, b = naive.ridge(H[kept][:, units], Y[kept], alpha, weight[kept])
            errors = np.square(Y[part] - H[part][:, units] @ W.T - b).sum(axis=1)
            total += weight[part] @ errors
        expected = total / weight[np.concatenate(parts)].sum()
        assert error == pytest.approx(expected, rel=1e-4)
    W, _ = naive.ridge(naive.hidden(layer, X), Y, result.alpha, weight)  # all units are trained
    np.testing.assert_allclose(engine.to_host(statistics.solve(result.alpha).W), W, atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "dtype_val"), [(float, float), (float, np.float32), (np.uint8, float)]
)
def test_errors_on_given_validation_samples(engine, data, dtype, dtype_val):
    """Their dtype may differ, and the readout is trained on all training samples."""
    X, y, layer, weight = data
    if dtype == np.uint8:
        X = X - X.min()
        X[:160] = X[:160].round()
        layer = RBFLayer(X[:160:2].astype(np.uint8), 9.0, "manhattan", "laplacian")
    samples = samples_of(X[:160].astype(dtype), y[:160], weight[:160])
    validation = samples_of(X[160:].astype(dtype_val), y[160:], weight[160:])
    samples, job = replace(samples, validation=validation).on_device(Job(engine))
    random = np.random.default_rng(0)
    result, _ = gather_and_search(job, layer, samples, random, SearchHistory(0.1))
    leading = layer.part(slice(layer.n_units // 2)).astype(np.float64)
    H, Y = naive.hidden(leading, X), np.eye(3)[y]
    for alpha, error in result.tried.items():
        W, b = naive.ridge(H[:160], Y[:160], alpha, weight[:160])
        errors = np.square(Y[160:] - H[160:] @ W.T - b).sum(axis=1)
        assert error == pytest.approx(np.average(errors, weights=weight[160:]), rel=1e-4)
