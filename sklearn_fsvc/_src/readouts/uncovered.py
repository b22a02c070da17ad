"""Samples that no unit covers: their activations are 0, or too small for engines to agree on.

A readout gives them its intercept. Those of classifiers may take the nearest unit instead.
"""

import numpy as np

from ..rows.streaming import Consumer, stream

# Engines flush activations to 0 at different distances; all of them compute those whose sum is
# more than this many times the smallest normal number.
_MARGIN = 64


def least_activity(dtype):
    """Return the sum of activations of a dtype up to which a sample is not covered."""
    return _MARGIN * float(np.finfo(dtype).tiny)


def shrink_to_intercept(targets, intercept, alpha):
    """Return the scores of uncovered samples, by the targets of the nearest unit's own sample.

    By the factor that a ridge of this penalty has for a sample that alone activates its unit.
    """
    return intercept + (targets - intercept) / (1 + alpha)


def find_nearest_units(job, layer, X, rows, take, row_bytes=0):
    """Call ``take(rows, units)`` with the nearest unit of each of some rows of X."""

    def nearest(part, D):
        take(rows[part], job.engine.to_host(D.argmin(axis=1)))

    if len(rows):
        stream(job, layer.distances, X, Consumer(nearest, row_bytes=24 + row_bytes), rows)


def score_uncovered(job, layer, X, rows, nearest_scores, consume):
    """Call ``consume(rows, scores)`` for uncovered rows, with the scores of their nearest unit.

    `nearest_scores` has shape (n_units, n_scores); None where the intercept stays.
    """
    if nearest_scores is None:
        return

    def take(rows, units):
        consume(rows, nearest_scores[units])

    find_nearest_units(job, layer, X, rows, take, 24 * nearest_scores.shape[1])
