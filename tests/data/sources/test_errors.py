"""Invalid sources: errors name the row and a remedy."""

import numpy as np
import pytest

from fake_sources import ChunkFunction, SliceableFile, batches
from sklearn_fsvc._src.data.sources import open_source, select_rows

X = np.random.default_rng(0).random((200, 6), np.float32)
Y = np.arange(200)


def with_value(row, value):
    bad = X.copy()
    bad[row, 4] = value
    return bad


def read_all(given, *args):
    source = open_source(given, None, *args)[0]
    return [*source.blocks(range(len(source)), 64)]


@pytest.mark.parametrize("kind", [SliceableFile, ChunkFunction, batches])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
@pytest.mark.parametrize("row", [0, 123, 199])
def test_values_that_are_not_finite_are_located(kind, value, what, row):
    with pytest.raises(ValueError, match=f"Input X contains {what} in row {row}, column 4"):
        read_all(kind(with_value(row, value)))


def test_infinities_that_cancel_are_found():
    bad = with_value(7, np.inf)
    bad[8, 4] = -np.inf
    with pytest.raises(ValueError, match="infinity in row 7"):
        read_all(SliceableFile(bad))


def test_finite_values_with_an_infinite_sum_are_accepted():
    """The sum overflows."""
    large = np.full((20, 3), np.finfo(np.float32).max)
    np.testing.assert_array_equal(np.concatenate(read_all(SliceableFile(large))), large)


def test_a_missing_value_of_an_arrow_table_is_located():
    import pyarrow

    def read():
        yield pyarrow.record_batch({"a": pyarrow.array([1, 2], pyarrow.uint8())})
        yield pyarrow.record_batch({"a": pyarrow.array([3, None], pyarrow.uint8())})

    with pytest.raises(ValueError, match="contains NaN in row 3, column 0"):
        open_source(read, None)


@pytest.mark.parametrize("iterator", [ChunkFunction(X)(), iter([X])])
def test_iterators_are_refused(iterator):
    with pytest.raises(TypeError, match=r"read only once.*function without arguments"):
        open_source(iterator, None)


def test_a_function_must_return_a_fresh_iterator():
    same = iter([X[:100], X[100:]])
    with pytest.raises(ValueError, match=r"gave 0 rows in this pass, and 200 in the first.*fresh"):
        read_all(lambda: same)


@pytest.mark.parametrize("later", [150, 250])
def test_a_later_pass_with_other_samples_is_refused(later):
    sizes = iter([200, later])
    rows = np.concatenate([X, X])
    with pytest.raises(ValueError, match=f"gave {later} rows in this pass, and 200 in the first"):
        read_all(lambda: ChunkFunction(rows[: next(sizes)])())


def test_a_later_pass_in_another_order_is_refused():
    orders = iter([Y, Y[::-1]])

    def read():
        order = next(orders)
        return ChunkFunction(X[order], Y[order])()

    with pytest.raises(ValueError, match=r"row 0 has another y than in the first pass.*same order"):
        read_all(read)


class ShrunkFile(SliceableFile):
    def __getitem__(self, key):
        return super().__getitem__(key)[: 150 - key.start]


def test_a_file_that_has_shrunk_is_refused():
    with pytest.raises(ValueError, match=r"X\[\d+:\d+\] has shape .* was the file changed"):
        read_all(ShrunkFile(X))


@pytest.mark.parametrize(
    ("chunks", "error"),
    [
        ([], "X() gave no rows"),
        ([X[:0]], "X() gave no rows"),
        ([X[:5], X[:5, :4]], "begins at row 5 has 4 features, and the first one 6"),
        ([X[:5], X[:5].astype(float)], "begins at row 5 is converted to float64, .* to float32"),
        ([X[:5], X[5]], "begins at row 5 has shape .6,."),
        ([np.array([["a"]])], "begins at row 0 has dtype <U1; it must be of real numbers"),
        ([X[:5] + 1j], "has dtype complex64"),
        ([(X, Y, Y, Y)], "is a tuple of 4; pass X, .X, y. or"),
        ([()], "is a tuple of 0"),
        ([[X, Y]], "begins at row 0 is a list of arrays; pass a tuple"),
        ([(X, Y[:-1])], "begins at row 0 has 200 rows, and its y has shape .199,."),
        ([(X, Y), (X, Y, Y[:9])], "begins at row 200 has 200 rows, and its sample_weight"),
        ([(X, Y), X], "Some chunks of X have y, and others have none.* begins at row 200"),
        ([(X, Y), (X, Y.astype(str))], "row 200 has a y of .*dtype <U.*either text or numbers"),
        ([(X, Y), (X, Y[:, None])], "row 200 has a y of shape .200, 1.*same number of columns"),
        ([X, (X, Y)], "Some chunks of X have y, and others have none.* begins at row 200"),
    ],
)
def test_invalid_chunks_are_refused(chunks, error):
    with pytest.raises(ValueError, match=error.replace("()", r"\(\)")):
        open_source(lambda: chunks, None)


def test_columns_must_keep_their_order():
    """Otherwise features would be confused."""
    import pandas

    frame = pandas.DataFrame({"a": [0.0, 1.0], "b": [2.0, 3.0]})
    with pytest.raises(ValueError, match=r"at row 2 has the columns \['b', 'a'\].*the same order"):
        open_source(lambda: [frame, frame[["b", "a"]]], None)
    with pytest.raises(ValueError, match="at row 2 has the columns None"):
        open_source(lambda: [frame, frame.to_numpy()], None)


def test_a_function_must_return_an_iterable():
    with pytest.raises(TypeError, match=r"X\(\) returned a int; it must return an iterable"):
        open_source(lambda: 5, None)


def test_columns_of_dates_are_refused():
    with pytest.raises(ValueError, match="begins at row 0: column 'when' has dtype datetime64"):
        open_source(batches(X, when=Y.astype("M8[s]")), None)


@pytest.mark.parametrize(
    ("given", "named", "error"),
    [
        (batches(X), {"y": "label"}, "has no column y='label'; its columns are .*'x5'"),
        (
            ChunkFunction(X),
            {"y": "label"},
            "is not a table, but y='label' names a column; pass chunks",
        ),
        (
            ChunkFunction(X, Y),
            {"sample_weight": "w"},
            "is not a table, but sample_weight='w' names",
        ),
        (
            SliceableFile(X),
            {"y": "label"},
            "y='label' would be the name of a column, and SliceableFile has none",
        ),
        (SliceableFile(X), {"sample_weight": "w"}, "sample_weight='w' would be"),
        (
            ChunkFunction(X, Y),
            {"y": Y},
            "y is given, and the chunks of X contain one, too; pass y=None",
        ),
        (ChunkFunction(X, Y, Y), {"sample_weight": Y}, "sample_weight is given, and the chunks"),
    ],
)
def test_ambiguous_y_and_weights_are_refused(given, named, error):
    with pytest.raises(ValueError, match=error):
        open_source(given, None, **named)


def test_a_chunk_that_exceeds_the_memory_is_refused():
    with pytest.raises(
        ValueError, match=r"a chunk of 200 rows of X needs 14.1 KiB, and 14.1 KiB are"
    ):
        open_source(ChunkFunction(X, chunk=200), 14399)
    open_source(ChunkFunction(X, chunk=200), 14400)


def test_a_subset_of_a_file_must_be_ascending():
    with pytest.raises(ValueError, match="another one; use a splitter that keeps the order"):
        select_rows(open_source(SliceableFile(X), None)[0], np.array([3, 1]))


def test_y_and_weights_of_chunks_are_collected():
    """They are in memory; those that the source does not have are the user's."""
    _, y, weight = open_source(ChunkFunction(X, Y, Y / 2), None)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, Y / 2)
    given = np.ones(200)
    assert open_source(ChunkFunction(X, Y), None, None, given)[2] is given
    source, y, weight = open_source(batches(X, label=Y, w=Y / 2), None, "label", "w")
    assert source.shape == X.shape
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, Y / 2)
    y = open_source(ChunkFunction(X, np.stack([Y, Y], axis=1)), None)[1]
    assert y.shape == (200, 2)
    y, weight = open_source(SliceableFile(X), None, Y, ConvertibleFile(Y))[1:]
    assert y is Y
    assert isinstance(weight, np.ndarray)
    np.testing.assert_array_equal(weight, Y)


class ConvertibleFile(SliceableFile):
    """A file of targets, which is read completely."""

    def __array__(self, dtype=None, copy=None):
        return self._X
