"""The samples of a final estimator: scores of the ensemble are appended to their features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.rows import take_rows
from ..data.samples import Samples
from ..data.validation import to_host
from ..parts.target import TargetSpec
from ..readouts.draw_sample import sample_by_hash
from ..readouts.row_sample import RowSample
from .base_estimators import BaseEstimators
from .weights import EnsembleWeighting, decision_scores


@dataclass(frozen=True, eq=False)
class ExtendedSamples:
    """The rows of a `RowSample` with further features, and a `RowSample` of these."""

    samples: Samples
    rows: npt.NDArray  # (n_rows,): their numbers before
    sample: RowSample
    places: npt.NDArray  # (n_rows,): the index of each row of `sample` in the sample before

    @classmethod
    def of(
        cls,
        base: BaseEstimators,
        weighting: EnsembleWeighting,
        target: TargetSpec,
        samples: Samples,
        sample: RowSample,
        scores: Any,
    ) -> "ExtendedSamples":
        """Return the rows of a sample with their scores, (n_rows, n_outputs), as features."""
        order = np.argsort(sample.numbers)
        rows = sample.numbers[order]
        X = np.asarray(to_host(take_rows(samples.X, rows)))
        X = weighting.append_scores(target, X, decision_scores(target, scores)[order])
        extended = samples.with_rows(X, rows)
        with base.open_job(X) as job:
            extended_sample = sample_by_hash(job, extended, len(rows))
        return cls(extended, rows, extended_sample, order[extended_sample.numbers])
