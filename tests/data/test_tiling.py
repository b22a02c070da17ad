import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fsvc._src.data.tiling import TileShape, format_bytes, parse_memory, rows_per_tile

sizes = st.integers(1, 10**12)
small = st.integers(1, 60)


@given(n_rows=sizes, row=sizes, fixed=st.integers(0, 10**12), budget=sizes, preferred=sizes)
def test_a_tile_fits_and_is_as_large_as_it_may_be(n_rows, row, fixed, budget, preferred):
    try:
        rows = rows_per_tile(n_rows, row, fixed, budget, preferred)
    except ValueError:
        assert fixed + row > budget
        return
    assert 1 <= rows <= min(n_rows, preferred)
    assert fixed + rows * row <= budget
    if rows < min(n_rows, preferred):
        assert fixed + (rows + 1) * row > budget


def test_the_error_says_what_would_do():
    with pytest.raises(ValueError, match=r"max_memory=100 bytes is too small.*needs 130"):
        rows_per_tile(10, 30, 100, 100, 10)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("2GiB", 2 * 2**30), ("1.5 MB", 1_500_000), (" 7 ", 7), ("3KiB", 3072), (5, 5),
        ("1G", 10**9), ("500M", 500_000_000), ("10k", 10_000), ("10K", 10_000), ("2kB", 2000),
        ("2T", 2 * 10**12), (np.int64(5), 5), (np.uint8(200), 200),
    ],
)  # fmt: skip
def test_sizes(text, n):
    parsed = parse_memory(text, free=1)
    assert parsed == n
    assert type(parsed) is int  # numbers of NumPy overflow


@pytest.mark.parametrize("text", ["two", "2 GIB", "-1", "", "1e9", "2GiBs", "2Gi", "2g"])
def test_not_a_size(text):
    known = "B, kB, KB, KiB, MB, MiB, GB, GiB, TB, TiB, where k, K, M, G or T alone mean kB"
    with pytest.raises(ValueError, match=rf"max_memory='.*' is not a size; .* {known}"):
        parse_memory(text, free=1)


@pytest.mark.parametrize("value", [0, -5, "0", "0GiB"])
def test_too_small(value):
    with pytest.raises(ValueError, match=r"max_memory.* greater than 0"):
        parse_memory(value, free=1)


@pytest.mark.parametrize("value", [1.5, True, np.True_, [1], np.float64(5), np.ones(1, int)])
def test_wrong_type(value):
    with pytest.raises(TypeError, match="max_memory"):
        parse_memory(value, free=1)


@given(st.integers(0, 2**50))
def test_format_keeps_four_digits(n):
    number, unit = format_bytes(n).split()
    size = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert abs(float(number) * size - n) <= 0.05001 * size


def test_the_layer_of_the_paper():
    """Dogaru & Dogaru 2017: 8000 units and 10,000 samples by M = 4096."""
    basic = TileShape.of(4096, asymmetry=1, n_units=8000)
    parts = list(basic.parts(10_000, 8000))
    assert parts[0] == (slice(0, 4096), slice(0, 4096))
    assert parts[-1] == (slice(8192, 10_000), slice(4096, 8000))
    assert len(parts) == 6


@pytest.mark.parametrize(
    ("asymmetry", "rows", "units"), [(1, 2048, 2048), (2, 4096, 1024), (4, 8192, 512)]
)
def test_asymmetry_takes_units_and_gives_rows(asymmetry, rows, units):
    assert TileShape.of(2048, asymmetry, n_units=8000) == TileShape(rows, units)


@given(M=small, asymmetry=small, n_units=sizes)
def test_a_basic_layer_has_M_squared_outputs_whatever_the_units(M, asymmetry, n_units):
    asymmetry = min(M, asymmetry)
    basic = TileShape.of(M, asymmetry, n_units)
    assert basic.units == min(n_units, M // asymmetry)
    assert basic.rows * basic.units <= M**2 < (basic.rows + 1) * basic.units


@given(rows=small, units=small, n_rows=small, n_units=small)
def test_basic_layers_cover_every_output_once(rows, units, n_rows, n_units):
    basic, H = TileShape(rows, units), np.zeros((n_rows, n_units), int)
    parts = list(basic.parts(n_rows, n_units))
    for part in parts:
        assert 0 < H[part].shape[0] <= rows
        assert 0 < H[part].shape[1] <= units
        assert all(0 <= s.start < s.stop <= n for s, n in zip(part, H.shape, strict=True))
        H[part] += 1
    assert (H == 1).all()
