"""Copies of samples, such as those of oversampling: they become one sample with a weight.

Random validation sets, folds and leave-one-out errors would have copies of training samples, and
favour models that interpolate. New samples do not repeat the training samples, other than in data
whose features have few values (see `draw_sample`): there, a model without the copies of a sample
could not learn its target. So copies are only merged if it is no coincidence that samples are
equal, and if all have the target of the first one: otherwise they are repeated measurements.

Two conditions make a coincidence improbable:

- The numbers of copies are those of a table that was repeated, or of most of it (three at most), of
  a bootstrap sample, or of classes that were oversampled (a class has no copies). In datasets whose
  samples were measured or collected repeatedly, most occur once, and some often. Their new samples
  repeat the others, too.
- Nearly all distinct samples differ in a single continuous feature, such as a measurement, or in
  the first half of the features and also in the second half, and these have many possible values.
  Features of bytes, such as pixels, have too few values for the former. In a table of a few
  categories many samples are equal in a half.
"""

from dataclasses import replace
from itertools import islice
from math import e

import numpy as np
from sklearn.utils import gen_batches

from .rows import take_rows
from .samples import Samples, exact_hashes, mix_bits
from .sources import ArraySource, SparseSource

# Fraction of the samples that have to be copies, and of distinct samples that differ in a single
# feature or in a half of the features; fewer distinct samples are not merged.
_MIN_COPIES, _MIN_DISTINCT, _MIN_DISTINCT_SAMPLES = 0.1, 0.9, 50
# The largest number of equal samples in a table that was repeated, and the fraction of its distinct
# samples that have no copies at most; and the least fraction that a class without copies has.
_MAX_REPEATED, _MAX_SINGLE, _MIN_CLASS = 3, 0.5, 0.1
# In a bootstrap sample, the fraction of distinct samples, that of those which occur once, and how
# far both may be from these. (The numbers of copies have a Poisson distribution with mean 1.)
_BOOTSTRAP_DISTINCT, _BOOTSTRAP_SINGLE, _TOLERANCE = 1 - 1 / e, 1 / (e - 1), 0.03
# The distances between neighbouring values of a continuous feature vary: this quantile is less than
# this fraction of the median. (If they are exponentially distributed, 0.07.)
_SHORT_QUANTILE, _SHORT_FRACTION = 0.05, 0.25
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
    _, rows, copy_of, n_equal = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    targets = _target_hashes(samples.targets, n_rows)
    n_with_targets = len(np.unique(mix_bits(hashes) + targets))
    if not _has_copies(len(rows), n_rows) or n_with_targets > len(rows):
        return samples
    if not _are_numbers_of_copies(n_equal, targets[rows]):
        return samples
    order = np.argsort(rows)
    distinct = _take_part(X, rows[order])
    is_whole = n_equal.min() == n_equal.max()
    if not (_differ_in_one_feature(distinct, is_whole) or _differ_in_both_halves(distinct)):
        return samples
    merged = samples.with_rows(distinct, rows[order])
    weight = np.bincount(copy_of, samples.weight)[order].astype(np.float64)
    return replace(merged, weight=weight, rows=rows[order])


def _are_numbers_of_copies(n_equal, targets):
    """Return whether distinct samples may have been copied, given how often each occurs.

    `targets` are the hashes of their targets.
    """
    if len(n_equal) < _MIN_DISTINCT_SAMPLES:
        return False
    distinct, single = len(n_equal) / n_equal.sum(), np.mean(n_equal == 1)
    if n_equal.max() <= _MAX_REPEATED and single <= _MAX_SINGLE:
        return True
    deviation = max(abs(distinct - _BOOTSTRAP_DISTINCT), abs(single - _BOOTSTRAP_SINGLE))
    if deviation <= _TOLERANCE + 1 / np.sqrt(n_equal.sum()):
        return True
    classes = np.unique(targets, return_inverse=True)[1]
    sizes, with_copies = np.bincount(classes), np.bincount(classes, n_equal > 1)
    return bool(((with_copies == 0) & (sizes >= _MIN_CLASS * len(n_equal))).any())


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


def _differ_in_one_feature(X, is_whole):
    """Return whether nearly all samples differ in a single continuous feature.

    Any feature will do if the samples are those of a whole table that was repeated.
    """
    # One of distinct values may be 0. Sparse features of fewer values are not made dense.
    is_sparse = isinstance(X, SparseSource)
    part = X.counts >= _MIN_DISTINCT * len(X) - 1 if is_sparse else slice(None)
    distinct = (column for column in _columns(X, part) if _are_distinct(column))
    return any(is_whole or _is_continuous(column) for column in distinct)


def _differ_in_both_halves(X):
    """Return whether nearly all samples differ in either half of the features, by no coincidence.

    Each half has more possible values than there are pairs of samples.
    """
    half = X.shape[1] // 2
    halves = (slice(half), slice(half, None))
    return half > 0 and all(
        _are_distinct(_hashes(X, columns)) and _has_many_values(X, columns) for columns in halves
    )


def _has_many_values(X, columns):
    n_values = 1.0
    for column in _columns(X, columns):
        n_values *= len(np.unique(column))
        if n_values > len(X) ** 2:
            return True
    return False


def _columns(X, part=slice(None)):
    """Iterate over the values of each feature, of a slice of them."""
    if isinstance(X, SparseSource):
        return X.features(part).columns()
    return islice(X.columns() if isinstance(X, ArraySource) else X.T, part.start, part.stop)


def _are_distinct(values):
    return len(np.unique(values)) >= _MIN_DISTINCT * len(values)


def _is_continuous(values):
    """Return whether the distances between neighbouring values vary, unlike those of integers."""
    gaps = np.diff(np.unique(values).astype(np.float64))
    return np.quantile(gaps, _SHORT_QUANTILE) < _SHORT_FRACTION * np.median(gaps)
