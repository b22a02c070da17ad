"""What a search is to do, for each of its passes."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from ..callbacks import FitTask
from ..rows.sources import some_rows


@dataclass(frozen=True)
class Task:
    """What a search is to do: the arguments of its fit, and the splits."""

    X: object
    y: object
    fit_params: dict
    splits: list[tuple[np.ndarray, np.ndarray]]  # training and test rows
    return_train_score: bool
    verbose: int
    passes: FitTask  # of which each pass is a part
    part: range  # the candidates that are scored at once
    kept_bytes: int  # that decision values take which wait
    n_jobs: int = 1  # passes that run at the same time
    wants_probabilities: bool = False  # whether networks may be asked for them

    def job(self, network, engine):
        """What one of the passes that run at the same time has."""
        job = network._job(engine, "fit")
        limit = (job.memory_limit - self.kept_bytes) // self.n_jobs
        return replace(job, max_memory=max(1, limit))

    def training_set(self, split):
        """X, y and fit parameters of the training rows of a split."""
        train = self.splits[split][0]
        return (
            some_rows(self.X, train),
            _safe_indexing(self.y, train),
            _check_method_params(self.X, params=self.fit_params, indices=train),
        )

    def scored_rows(self, split):
        """The sets of rows whose scores are wanted, the test set first."""
        train, test = self.splits[split]
        return [test, train] if self.return_train_score else [test]

    def name(self, split):
        """Of a split, for people to read."""
        return f"split {split + 1} of {len(self.splits)}"
