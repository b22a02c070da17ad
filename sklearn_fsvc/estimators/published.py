"""The readouts of FSVC beside the ridge: LMS, and none that is trained."""

import numpy as np

from ..parameters import check_choice, check_count, check_positive_or_auto, is_word
from ..readouts.lms import LmsTrainer, untrained
from ..readouts.solution import Solution
from ..rows.sources import Source
from .solved import Solved

READOUTS = ("ridge", "lms", "none")


class PublishedReadouts:
    """A mixin: a classifier on centres, whose readout may be trained row by row, or not at all."""

    n_iter_ = Solved()

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("readout", self.readout, READOUTS)
        if self.probability and self.readout != "ridge":
            raise ValueError(
                f"probability=True needs leave-one-out, and readout={self.readout!r} has none; "
                'use readout="ridge", or probability=False.'
            )
        if self.readout != "ridge" and is_word(self.feature_weights, "learned"):
            raise ValueError(
                f'feature_weights="learned" is judged by the ridge readout; with '
                f"readout={self.readout!r} use None or an array."
            )
        if self.readout != "ridge" and self.layer is not None:
            raise ValueError(
                f'readout={self.readout!r} needs labels of the centres; with layer use "ridge".'
            )
        check_count("max_iter", self.max_iter)
        check_positive_or_auto("learning_rate", self.learning_rate)

    @property
    def _is_tried(self):
        return self.readout == "ridge"

    def _why_no_stream(self):
        why = f'readout={self.readout!r} keeps no sums; with partial_fit use "ridge".'
        return super()._why_no_stream() if self.readout == "ridge" else why

    def _present(self, samples):
        is_file = isinstance(samples.X, Source) and not samples.X.is_in_memory
        if self.readout == "lms" and self.shuffle and is_file:
            raise ValueError(
                'readout="lms" with shuffle=True meets rows in random order, and X is read in '
                'its own; use readout="ridge", shuffle=False, or a numpy.memmap.'
            )
        return super()._present(samples)

    def _keep_readout(self, W, b, dtype):
        super()._keep_readout(W, b, dtype)
        self.n_iter_ = self.max_iter if self.readout == "lms" else 1

    def _train(self, job, layer, samples, trials):
        if self.readout == "ridge":
            return self._train_ridge(job, layer, samples, trials)
        W = untrained(samples.targets, self.support_)
        weights = self._class_weights(samples.targets.all_codes)
        if weights is not None:
            W *= weights[self.support_] / weights.max()
        if self.readout == "lms":
            W = job.engine.to_device(W)
            trainer = LmsTrainer(job, layer, samples)
            trainer.train(W, self.learning_rate, self.max_iter)
        return Solution(W, np.zeros(len(W)))

    def _diverged(self):
        if self.readout == "lms":
            return (
                f"learning_rate={self.learning_rate!r} makes the LMS readout diverge; lower it, "
                'or use learning_rate="auto".'
            )
        return super()._diverged()
