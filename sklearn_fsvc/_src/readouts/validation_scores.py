"""Scores of given validation samples, in the place of leave-one-out scores."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.streaming import Consumer, cast_layer, stream
from .leave_one_out import HeldOutScores
from .linear import LinearPredictor, Solution
from .uncovered import score_uncovered, shrink_to_intercept


def score_validation(
    job: Job,
    layer: Any,
    sample: Any,
    solution: Solution,
    alpha: float,
    center_outputs: npt.NDArray | None = None,
    oof_scores: npt.NDArray | None = None,
) -> HeldOutScores:
    """Return the scores of validation samples by a readout, which was not trained on them.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or another layer
    sample : RowSample
        Of the validation samples.
    solution : Solution
        The readout.
    alpha : float
        Its penalty.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        As of `LeaveOneOut`.
    oof_scores : ndarray, optional
        `HeldOutScores.oof_scores` of training samples.
    """
    X, to_host = sample.rows.X, job.engine.to_host
    layer, job = cast_layer(layer, X), job.silent()
    W, b = to_host(solution.W), to_host(solution.b)
    nearest = None
    if center_outputs is not None and layer.has_compact_support:
        nearest = shrink_to_intercept(center_outputs, b, alpha)
    predictor = LinearPredictor(job.engine, W, b, layer.hidden_dtype, nearest is not None)
    scores = np.empty((len(X), len(b)))

    def take(part, H):
        scores[part] = predictor.scores(part, H)

    def replace_rows(rows, outputs):
        scores[rows] = outputs

    stream(job, layer, X, Consumer(take, row_bytes=predictor.row_bytes))
    score_uncovered(job, layer, X, predictor.uncovered, nearest, replace_rows)
    return HeldOutScores(layer.n_units, scores, np.ones(len(X), bool), oof_scores)
