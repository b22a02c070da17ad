"""Arrays and files that results are written into."""

import numpy as np
import pytest

from sklearn_fsvc._src.data.streaming import write
from sklearn_fsvc._src.data.validation import check_holds, check_out


class Slots:
    """A file that is written to in slices alone."""

    def __init__(self, *shape, dtype=float):
        self.shape, self.dtype, self.X = shape, np.dtype(dtype), np.zeros(shape, dtype)

    def __setitem__(self, key, value):
        assert isinstance(key, slice)
        assert len(value) == key.stop - key.start
        self.X[key] = value


@pytest.mark.parametrize("rows", [[], [3], [0, 1, 2], [0, 2, 3, 7, 8, 9], [1, 3, 5]])
def test_rows_of_a_file_are_written_in_slices(rows):
    out, values = Slots(10, 2), np.arange(1.0, 2 * len(rows) + 1).reshape(-1, 2)
    write(out, np.array(rows, int), values)
    expected = np.zeros((10, 2))
    expected[rows] = values
    np.testing.assert_array_equal(out.X, expected)


def test_of_an_array_at_once():
    out = np.zeros(5)
    write(out, np.array([0, 4]), np.array([1.0, 2.0]))
    write(out, slice(1, 3), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(out, [1, 3, 4, 0, 2])


def read_only(*shape):
    out = np.zeros(shape)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([[0.0]], TypeError, "out is a list; give an array"),
        (np.zeros((4, 3)), ValueError, r"out has shape \(4, 3\), and the result has \(3, 3\)"),
        (Slots(3), ValueError, r"out has shape \(3,\), and the result has \(3, 3\)"),
        (read_only(3, 3), ValueError, "read-only"),
        (np.zeros((3, 3), int), ValueError, "out has dtype int64, and the result is float32"),
        (Slots(3, 3, dtype="u1"), ValueError, "out has dtype uint8, and the result is float32"),
    ],
)
def test_what_cannot_be_written_into(out, error, message):
    with pytest.raises(error, match=message):
        check_out(out, (3, 3), np.float32)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_floats_of_any_width(dtype):
    check_out(Slots(3, 3, dtype=dtype), (3, 3), np.float32)


@pytest.mark.parametrize(
    ("values", "dtype", "is_held"),
    [
        ([0, 255], "u1", True), ([0, 256], "u1", False), ([-1, 0], "u1", False),
        (["a", "bc"], "U2", True), (["a", "bc"], "U1", False), (["a", "b"], int, False),
        ([0.0, 1.0], int, True), ([0.5, 1.0], int, False), (["a", "bc"], object, True),
    ],
)  # fmt: skip
def test_what_holds_values(values, dtype, is_held):
    out, values = np.empty(5, dtype), np.array(values)
    if is_held:
        check_holds(out, values)
    else:
        with pytest.raises(ValueError, match="which cannot hold all of"):
            check_holds(out, values)
