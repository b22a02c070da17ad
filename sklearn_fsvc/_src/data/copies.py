"""Copies of samples, such as those of oversampling: they become one sample with a weight.

Random validation sets, folds and leave-one-out errors would have copies of training samples, and
favour models that interpolate. New samples do not repeat the training samples, other than in data
whose features have few values (see `row_sample`). So copies are only merged if some feature shows
that equal samples are no coincidence, and if all have the target of the first one: otherwise they
are repeated measurements.
"""

from dataclasses import replace

import numpy as np

from .samples import Samples, exact_hashes, mix_bits
from .sources import ArraySource
from .streaming import take_rows

# Fraction of the samples that have to be copies, and of distinct samples that differ in a single
# feature.
_MIN_COPIES, _MIN_DISTINCT = 0.1, 0.9
# Larger arrays are not searched, since hashing would take long, nor fewer samples.
_MAX_ELEMENTS, _MIN_ROWS = 2**25, 100
# Features by which arrays without copies are recognised, and elements that are read at a time.
_FEW_FEATURES, _BLOCK_ELEMENTS = 4, 2**15


def merge_copies(samples: Samples) -> Samples:
    """Return distinct samples with the sums of the weights of their copies, or the same samples.

    A sample of weight 2 and two samples of weight 1 define the same readout. Samples with groups or
    validation samples are the same; so are fewer than 100 samples, arrays of integers, of devices
    and of more than 2^25 elements.
    """
    X, n_rows = samples.X, len(samples)
    is_of_suitable_size = n_rows >= _MIN_ROWS and n_rows * X.shape[1] <= _MAX_ELEMENTS
    if not (_is_float_array(X) and is_of_suitable_size and samples.may_leave_one_out):
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
    merged = samples.taken(rows[order])
    if not _is_continuous(merged.X):
        return samples
    weight = np.bincount(copy_of, samples.weight)[order].astype(np.float64)
    return replace(merged, weight=weight, rows=rows[order])


def _is_float_array(X):
    is_array = isinstance(X, np.ndarray) or (isinstance(X, ArraySource) and not X.is_converted)
    return is_array and X.dtype.kind == "f"


def _hashes(X, columns=slice(None)):
    """Return the hashes of the rows, of some columns or all."""
    parts = _parts(len(X), X.shape[1])
    return np.concatenate([exact_hashes(take_rows(X, part)[:, columns]) for part in parts])


def _target_hashes(targets, n_rows):
    parts = _parts(n_rows, targets.n_outputs)
    return np.concatenate([exact_hashes(targets.matrix(part, np)) for part in parts])


def _parts(n_rows, n_columns):
    """Return slices of the rows, of so few elements that they stay in the cache."""
    step = max(1, _BLOCK_ELEMENTS // n_columns)
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _has_copies(n_distinct, n):
    return n - n_distinct >= _MIN_COPIES * n


def _is_continuous(X):
    """Return whether nearly all samples differ in a single feature."""
    return any(len(np.unique(column)) >= _MIN_DISTINCT * len(X) for column in X.T)
