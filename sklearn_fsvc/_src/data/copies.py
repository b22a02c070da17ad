"""Copies of samples, such as those of oversampling: they become one sample with a weight.

Random validation sets, folds and leave-one-out errors would have copies of training samples, and
favour models that interpolate. New samples do not repeat the training samples, other than in data
whose features have few values (see `draw_sample`). So copies are only merged if it is no
coincidence that samples are equal, and if all have the target of the first one: otherwise they are
repeated measurements.

It is no coincidence if nearly all distinct samples differ in a single feature, such as a
measurement. Features of bytes, such as pixels, have too few values for that; but if nearly all
distinct samples differ in the first half of the features, and also in the second half, few samples
would be equal in one half by chance, and hardly any in both. In a table of a few categories many
samples are equal in a half.
"""

from dataclasses import replace

import numpy as np
from sklearn.utils import gen_batches

from .rows import take_rows
from .samples import Samples, exact_hashes, mix_bits
from .sources import ArraySource, SparseSource

# Fraction of the samples that have to be copies, and of distinct samples that differ in a single
# feature or in a half of the features.
_MIN_COPIES, _MIN_DISTINCT = 0.1, 0.9
# Larger arrays are not searched, since hashing would take long, nor fewer samples.
_MAX_ELEMENTS, _MIN_ROWS = 2**25, 100
# Features by which arrays without copies are recognised, and elements that are read at a time.
_FEW_FEATURES, _BLOCK_ELEMENTS = 4, 2**15


def merge_copies(samples: Samples) -> Samples:
    """Return distinct samples with the sums of the weights of their copies, or the same samples.

    A sample of weight 2 and two samples of weight 1 define the same readout. Samples with groups or
    validation samples are the same; so are fewer than 100 samples, arrays of devices and of more
    than 2^25 elements, zeros of sparse matrices included.
    """
    X, n_rows = samples.X, len(samples)
    is_of_suitable_size = n_rows >= _MIN_ROWS and n_rows * X.shape[1] <= _MAX_ELEMENTS
    if not (_is_array(X) and is_of_suitable_size and samples.may_leave_one_out):
        return samples
    few = slice(None, None, max(1, X.shape[1] // _FEW_FEATURES))
    if not _has_copies(len(np.unique(_hashes(X, few))), n_rows):
        return samples
    hashes = _hashes(X)
    _, rows, copy_of = np.unique(hashes, return_index=True, return_inverse=True)
    with_targets = mix_bits(hashes) + _target_hashes(samples.targets, n_rows)
    if not _has_copies(len(rows), n_rows) or len(np.unique(with_targets)) > len(rows):
        return samples
    order = np.argsort(rows)
    distinct = _take_part(X, rows[order])
    if not (_differ_in_one_feature(distinct) or _differ_in_both_halves(distinct)):
        return samples
    merged = samples.with_rows(distinct, rows[order])
    weight = np.bincount(copy_of, samples.weight)[order].astype(np.float64)
    return replace(merged, weight=weight, rows=rows[order])


def _is_array(X):
    return isinstance(X, (np.ndarray, ArraySource, SparseSource))


def _take_part(X, rows):
    """Return a subset of the rows: of a sparse matrix sparse, of other X an array if possible."""
    # A part of a source that converts its rows converts them again, and takes no memory.
    is_converted = isinstance(X, ArraySource) and X.is_converted
    return X.part(rows) if is_converted or isinstance(X, SparseSource) else take_rows(X, rows)


def _hashes(X, columns=slice(None)):
    """Return the hashes of the rows, of some columns or all."""
    if isinstance(X, SparseSource):
        return exact_hashes(X.features(columns))
    parts = _parts(len(X), X.shape[1])
    return np.concatenate([exact_hashes(take_rows(X, part)[:, columns]) for part in parts])


def _target_hashes(targets, n_rows):
    parts = _parts(n_rows, targets.n_outputs)
    return np.concatenate([exact_hashes(targets.matrix(part, np)) for part in parts])


def _parts(n_rows, n_columns):
    """Return slices of the rows, of so few elements that they stay in the cache."""
    return list(gen_batches(n_rows, max(1, _BLOCK_ELEMENTS // n_columns)))


def _has_copies(n_distinct, n):
    return n - n_distinct >= _MIN_COPIES * n


def _differ_in_one_feature(X):
    """Return whether nearly all samples differ in a single feature; it has enough values for it."""
    if isinstance(X, SparseSource):
        # One of distinct values may be 0. Features of fewer values are not made dense.
        columns = X.features(X.counts >= _MIN_DISTINCT * len(X) - 1).columns()
    else:
        columns = X.columns() if isinstance(X, ArraySource) else X.T
    return any(map(_are_distinct, columns))


def _differ_in_both_halves(X):
    """Return whether nearly all samples differ in either half of the features."""
    half = X.shape[1] // 2
    return half > 0 and all(
        _are_distinct(_hashes(X, columns)) for columns in (slice(half), slice(half, None))
    )


def _are_distinct(values):
    return len(np.unique(values)) >= _MIN_DISTINCT * len(values)
