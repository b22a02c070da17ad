import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fsvc.tiling import format_bytes, parse_memory, rows_per_tile

sizes = st.integers(1, 10**12)


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
    [("2GiB", 2 * 2**30), ("1.5 MB", 1_500_000), (" 7 ", 7), ("3KiB", 3072), (5, 5)],
)
def test_sizes(text, n):
    assert parse_memory(text, free=1) == n


@pytest.mark.parametrize("text", ["two", "2 GIB", "-1", "", "1e9", "2GiBs"])
def test_not_a_size(text):
    with pytest.raises(ValueError, match=r"max_memory='.*' is not a size"):
        parse_memory(text, free=1)


@pytest.mark.parametrize("value", [0, -5, "0", "0GiB"])
def test_too_small(value):
    with pytest.raises(ValueError, match=r"max_memory.* greater than 0"):
        parse_memory(value, free=1)


@pytest.mark.parametrize("value", [1.5, True, [1]])
def test_wrong_type(value):
    with pytest.raises(TypeError, match="max_memory"):
        parse_memory(value, free=1)


@given(st.integers(0, 2**50))
def test_format_keeps_four_digits(n):
    number, unit = format_bytes(n).split()
    size = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert abs(float(number) * size - n) <= 0.05001 * size
