"""Sizes: memory limits, counts of what fits into them, and parts of H."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fsvc._src.data.memory_plan import (
    TileShape,
    count_fitting,
    format_bytes,
    host_memory_limit,
    parse_memory,
    rows_per_tile,
)
from sklearn_fsvc._src.engines.host import host_memory

sizes = st.integers(1, 10**12)
small = st.integers(1, 60)


@given(n_rows=sizes, row=sizes, fixed=st.integers(0, 10**12), limit=sizes, preferred=sizes)
def test_a_tile_is_the_largest_that_fits(n_rows, row, fixed, limit, preferred):
    try:
        rows = rows_per_tile(n_rows, row, fixed, limit, preferred)
    except ValueError:
        assert fixed + row > limit
        return
    assert 1 <= rows <= min(n_rows, preferred)
    assert fixed + rows * row <= limit
    if rows < min(n_rows, preferred):
        assert fixed + (rows + 1) * row > limit


@given(limit=sizes, item=sizes, fixed=st.integers(0, 10**12), maximum=st.integers(0, 100))
def test_as_many_items_as_fit_are_counted(limit, item, fixed, maximum):
    n = count_fitting(limit, item, fixed)
    assert n == 0 or fixed + n * item <= limit
    assert fixed + (n + 1) * item > limit
    assert count_fitting(limit, item, fixed, maximum) == min(n, maximum)


def test_the_default_limit_is_half_of_the_free_host_memory():
    assert host_memory_limit(None) == pytest.approx(host_memory()[0] // 2, rel=0.2)
    assert host_memory_limit("3KiB") == 3072


def test_the_error_names_the_bytes_that_are_needed():
    with pytest.raises(
        ValueError, match=r"needs 130.0 B, and 100.0 B are available within max_memory"
    ):
        rows_per_tile(10, 30, 100, 100, 10)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("2GiB", 2 * 2**30), ("1.5 MB", 1_500_000), (" 7 ", 7), ("3KiB", 3072), (5, 5),
        ("1G", 10**9), ("500M", 500_000_000), ("10k", 10_000), ("10K", 10_000), ("2kB", 2000),
        ("2T", 2 * 10**12), (np.int64(5), 5), (np.uint8(200), 200),
    ],
)  # fmt: skip
def test_sizes_are_parsed(text, n):
    parsed = parse_memory(text, free=1)
    assert parsed == n
    assert type(parsed) is int  # NumPy's integers overflow


@pytest.mark.parametrize("text", ["two", "2 GIB", "-1", "", "1e9", "2GiBs", "2Gi", "2g"])
def test_invalid_sizes_are_refused(text):
    known = "B, kB, KB, KiB, MB, MiB, GB, GiB, TB, TiB, where k, K, M, G or T alone mean kB"
    with pytest.raises(ValueError, match=rf"max_memory='.*' is not a size; .* {known}"):
        parse_memory(text, free=1)


@pytest.mark.parametrize("value", [0, -5, "0", "0GiB"])
def test_sizes_must_be_positive(value):
    with pytest.raises(ValueError, match=r"max_memory.* greater than 0"):
        parse_memory(value, free=1)


@pytest.mark.parametrize("value", [1.5, True, np.True_, [1], np.float64(5), np.ones(1, int)])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match="max_memory"):
        parse_memory(value, free=1)


@given(st.integers(0, 2**50))
def test_format_keeps_four_digits(n):
    number, unit = format_bytes(n).split()
    size = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert abs(float(number) * size - n) <= 0.05001 * size


def test_parts_of_the_layer_of_the_paper():
    """Dogaru & Dogaru 2017: 8000 units and 10,000 samples with M = 4096."""
    shape = TileShape.of(4096, asymmetry=1, n_units=8000)
    parts = list(shape.parts(10_000, 8000))
    assert parts[0] == (slice(0, 4096), slice(0, 4096))
    assert parts[-1] == (slice(8192, 10_000), slice(4096, 8000))
    assert len(parts) == 6


@pytest.mark.parametrize(
    ("asymmetry", "rows", "units"), [(1, 2048, 2048), (2, 4096, 1024), (4, 8192, 512)]
)
def test_asymmetry_trades_units_for_rows(asymmetry, rows, units):
    assert TileShape.of(2048, asymmetry, n_units=8000) == TileShape(rows, units)


@given(M=small, asymmetry=small, n_units=sizes)
def test_a_part_has_M_squared_activations_for_any_number_of_units(M, asymmetry, n_units):
    asymmetry = min(M, asymmetry)
    shape = TileShape.of(M, asymmetry, n_units)
    assert shape.units == min(n_units, M // asymmetry)
    assert shape.rows * shape.units <= M**2 < (shape.rows + 1) * shape.units


@given(rows=small, units=small, n_rows=small, n_units=small)
def test_parts_cover_every_activation_once(rows, units, n_rows, n_units):
    shape, H = TileShape(rows, units), np.zeros((n_rows, n_units), int)
    parts = list(shape.parts(n_rows, n_units))
    for part in parts:
        assert 0 < H[part].shape[0] <= rows
        assert 0 < H[part].shape[1] <= units
        assert all(0 <= s.start < s.stop <= n for s, n in zip(part, H.shape, strict=True))
        H[part] += 1
    assert (H == 1).all()
