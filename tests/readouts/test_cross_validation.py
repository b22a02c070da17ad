"""Which samples are held out."""

from dataclasses import replace

import numpy as np
import pytest

from readouts.brute_force import samples_of
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.readouts.cross_validation import (
    draw_parts,
    draw_split,
    hold_out,
    select_folds,
)
from sklearn_fsvc.engines import get_engine


def test_hold_out_a_sixth():
    rows = np.arange(100, 160)
    kept, held = hold_out(rows, np.random.default_rng(0))
    assert len(held) == 10
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), rows)
    other, _ = hold_out(rows, np.random.default_rng(1))
    assert not np.array_equal(kept, other)
    assert [len(part) for part in hold_out(np.arange(2), np.random.default_rng(0))] == [1, 1]


@pytest.mark.parametrize(("n", "sizes"), [(2, [1, 1]), (5, [1] * 5), (60, [10] * 6), (1002, [167])])
def test_each_of_few_samples_is_held_out_once(n, sizes):
    rows = np.arange(100, 100 + n)
    parts = draw_parts(rows, np.random.default_rng(0))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(parts[0], hold_out(rows, np.random.default_rng(0))[1])
    if n <= 1000:
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), rows)
    assert len(select_folds(parts, 4000)) == len(parts)
    assert len(select_folds(parts, 4001)) == 1


GROUPS = np.random.default_rng(0).integers(0, 30, 1500)


@pytest.mark.parametrize("n", [60, 600, 1200])
def test_whole_groups_are_held_out(n):
    rows = np.arange(100, 100 + n)
    kept, held = hold_out(rows, np.random.default_rng(0), GROUPS)
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), rows)
    assert not set(GROUPS[kept]) & set(GROUPS[held])
    assert abs(len(held) - n / 6) <= np.bincount(GROUPS[rows]).max() / 2
    parts = draw_parts(rows, np.random.default_rng(0), GROUPS)
    np.testing.assert_array_equal(parts[0], held)
    if n > 1000:
        assert len(parts) == 1
        return
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), rows)
    assert len(parts) == 6
    assert sum(len(set(GROUPS[part])) for part in parts) == len(set(GROUPS[rows]))


def test_a_group_of_most_samples_is_not_held_out():
    groups = np.where(np.arange(100) < 70, 3, np.arange(100) % 3)
    for seed in range(5):
        _, held = hold_out(np.arange(100), np.random.default_rng(seed), groups)
        assert 3 not in groups[held]
        assert len(held) in (10, 20)


def test_one_group_holds_out_samples():
    rows, groups = np.arange(60), np.where(np.arange(90) < 60, 1, 2)
    actual = hold_out(rows, np.random.default_rng(0), groups)
    for rows_found, expected in zip(actual, hold_out(rows, np.random.default_rng(0)), strict=True):
        np.testing.assert_array_equal(rows_found, expected)


def test_the_number_of_held_out_samples_is_limited():
    kept, held = hold_out(np.arange(60_000), np.random.default_rng(0))
    assert (len(kept), len(held)) == (55_000, 5000)


@pytest.mark.parametrize(("n_rows", "n_training", "n_held"), [(60, 50, 10), (600, 159, 79)])
def test_a_split_with_given_validation_samples(engine, data, n_rows, n_training, n_held):
    """Training samples come first, and those of weight 0 are left out."""
    X, y, _, _ = data
    weight = np.ones(240)
    weight[[3, 170]] = 0
    samples = samples_of(X[:160], y[:160], weight[:160])
    validation = samples_of(X[160:].astype(np.float32), y[160:], weight[160:])
    samples, job = replace(samples, validation=validation).on_device(Job(engine))
    _, joined, training, held = draw_split(job, samples, n_rows, np.random.default_rng(0))
    assert (len(training), len(held)) == (n_training, n_held)
    np.testing.assert_array_equal(np.concatenate([training, held]), np.arange(len(joined)))
    X_joined = engine.to_host(joined.X)
    for rows, part in ((training, np.arange(160)), (held, np.arange(160, 240))):
        distances = np.abs(X_joined[rows][:, None] - X[part]).sum(axis=2)
        actual = part[distances.argmin(axis=1)]
        assert distances.min(axis=1).max() < 1e-5
        assert len(set(actual)) == len(rows)
        np.testing.assert_array_equal(joined.targets.class_codes[rows], y[actual])
        np.testing.assert_array_equal(joined.weight[rows], 1)


def test_a_split_with_validation_samples_that_do_not_fit(data):
    X, y, _, _ = data
    samples = replace(samples_of(X[:160], y[:160]), validation=samples_of(X[160:], y[160:]))
    job = Job(get_engine("cpu", 1), max_memory=1000)
    with pytest.raises(
        ValueError, match=r"model selection on X_val needs .* pass fewer samples as X_val"
    ):
        draw_split(job, samples, 600, np.random.default_rng(0))
