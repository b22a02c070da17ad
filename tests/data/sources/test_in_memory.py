"""Arrays in memory as sources: subsets in any order, converted when they are read."""

import numpy as np
import pytest

from peak_memory import peak
from sklearn_fsvc._src.data.rows import row_blocks, take_rows
from sklearn_fsvc._src.data.sources import ArraySource, select_rows

# Wide rows, so that a piece has few of them.
N, FEATURES = 600, 300
ORDERS = {
    "all": np.arange(N),
    "neighbours": np.arange(100, 400),
    "ascending": np.arange(0, N, 3),
    "any": np.random.default_rng(0).permutation(N)[:500],
    "repeated": np.repeat(np.arange(200, 0, -1), 2),
    "none": np.arange(0),
}


@pytest.fixture(params=["float32", "uint8", "int64", ">f4", "bool"])
def array(request, rng):
    return rng.integers(0, 200, (N, FEATURES)).astype(request.param)


def expected_of(array):
    return array if array.dtype in (np.float32, np.uint8) else array.astype(np.float64)


@pytest.mark.parametrize("order", ORDERS)
def test_subsets_of_subsets(array, order):
    rows, expected = ORDERS[order], expected_of(array)
    part = select_rows(ArraySource(array), rows)
    assert part.shape == (len(rows), FEATURES)
    assert part.dtype == expected.dtype
    assert part.nbytes == expected[rows].nbytes
    back = np.arange(len(rows))[::-1]
    for source, own in ((part, rows), (select_rows(part, back), rows[back])):
        np.testing.assert_array_equal(source.copy(), expected[own])
        assert source.copy().dtype == expected.dtype
        np.testing.assert_array_equal(source[10:20], expected[own][10:20])
        np.testing.assert_array_equal(take_rows(source, slice(5, 70), np.float64), array[own][5:70])


@pytest.mark.parametrize("rows", [None, np.arange(3, N, 7), np.arange(N)[::-1]], ids=str)
def test_blocks_are_converted_rows(array, rows):
    chosen, expected = np.arange(N) if rows is None else rows, expected_of(array)
    parts = [slice(i, min(i + 100, len(chosen))) for i in range(0, len(chosen), 100)]
    blocks = list(row_blocks(ArraySource(array), rows, parts))
    assert all(block.flags.c_contiguous for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), expected[chosen])


def test_pieces_contain_all_rows(array):
    found = list(ArraySource(array).pieces(np.arange(7, 500, 2)))
    assert [first for first, _ in found] == [
        7 + sum(len(p) for _, p in found[:i]) for i in range(len(found))
    ]
    np.testing.assert_array_equal(
        np.concatenate([piece for _, piece in found])[: 500 - 7], expected_of(array)[7:500]
    )


def test_only_the_selected_rows_are_copied(array):
    source = ArraySource(array, np.arange(N)[::-1])
    block, found = peak(source.take, np.arange(64))
    assert found <= block.nbytes + 2 * source.read_bytes + 10_000
    assert source.read_bytes <= 2**17


def test_errors_name_the_row_number_of_the_user():
    """Row numbers refer to the user's array."""
    X = np.zeros((50, 3))
    X[41, 2] = np.nan
    part = ArraySource(X).part(np.arange(50)[::-1]).part(np.arange(20))
    with pytest.raises(ValueError, match="NaN in row 41, column 2"):
        part.copy()


def test_text_is_refused():
    with pytest.raises(ValueError, match="must be of real numbers"):
        ArraySource(np.array([["a", "b"]]))
