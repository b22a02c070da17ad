"""The precision of activations where it is "auto": quantised if that is faster, and changes little.

Quantisation by steps of s adds noise of variance s^2 / 12, which acts as a penalty of
``n s^2 / 12`` for n samples (Widrow's model of quantisation noise; noise on inputs of least squares
is a ridge penalty: C. M. Bishop 1995). A penalty that is chosen for quantised activations is at
least of that size, even if smooth functions need a smaller one.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..parts.readout import ReadoutTraining
from ..readouts.penalty_search import estimate_penalty
from ..utils.parameters import make_generator

# Multiplications of H'H from which 8-bit products save more time than it takes to try them.
MIN_QUANTISED_WORK = 2**36
# A penalty that was chosen for floats, by small networks or by the user, has to be this many times
# that of the noise. On two of eight smooth regression datasets the penalty was 6 times the noise,
# and the score lost 0.5 points.
_LARGE = 10
# One that was chosen for quantised activations of all samples has to be this many times as large.
_SUFFICIENT = 3
# Or the error is flat: the larger penalty, `_SUFFICIENT` times the noise, increases the squared
# error by this fraction at most. A smaller one than the noise then gains even less.
_FLAT = 0.005


def train_quantised(
    training: ReadoutTraining,
    penalty: Any,
    random_state: Any,
    solve: Callable[[ReadoutTraining], Any],
) -> Any:
    """Return a readout of quantised activations; None if they are not faster, or change too much.

    Parameters
    ----------
    training : ReadoutTraining
    penalty : float, tuple of float, or str
        As of `parse_penalty`.
    random_state : int, RandomState or None
        Of the estimator.
    solve : callable
        ``solve(training)`` returns the readout.
    """
    for bits in _faster_precisions(training):
        attempt = _Attempt(training, bits)
        if attempt.is_promising(penalty, random_state):
            readout = attempt.train(solve)
            if readout is not None:
                return readout
    return None


def _faster_precisions(training):
    """Return the numbers of bits of an activation that make a fit faster: 8 for large fits."""
    layer, job, n_rows = training.layer, training.job, len(training.samples)
    is_worthwhile = (
        training.units.pretrained is None  # a pretrained layer is not changed
        and n_rows * layer.n_units**2 >= MIN_QUANTISED_WORK
        and training.samples.weight is None
    )
    return job.engine.algebra.fast_bits() if is_worthwhile else ()


class _Attempt:
    """A readout of activations that are quantised to `bits`."""

    def __init__(self, training, bits):
        self._training, self._bits = training, bits
        self._rounded = training.rounded(bits)
        self._noise = noise_penalty(self._rounded.layer, len(training.samples))
        # The noise of many random units adds up to a penalty, whatever its size: all of them are
        # active for each sample. Units that are centred at samples are 0 or small for most others,
        # where a step is a large part of an activation.
        self._has_random_units = training.units.support is None
        if self._has_random_units:
            # The search begins at a penalty that shows whether the error is flat.
            history = self._rounded.history
            history.start = max(history.start, 2 * _SUFFICIENT * self._noise)

    def is_promising(self, penalty, random_state):
        """Return whether the given penalty, or one that is chosen, may be large enough."""
        if isinstance(penalty, float):
            return penalty >= _LARGE * self._noise
        # Small networks have not chosen a penalty for random units, nor is the estimate of one much
        # faster than the attempt.
        if self._has_random_units:
            return True
        alpha = self._training.history.best_alpha(self._training.layer)
        if alpha >= _LARGE * self._noise:
            return True
        # All samples may need a larger penalty than the few that small networks were trained on.
        n_rows, X = self._rounded.history.n_rows, self._rounded.samples.X
        if n_rows is None or alpha < _LARGE * noise_penalty(self._rounded.layer, n_rows):
            return False
        if self._bits > 8:
            return True  # this noise is so small that an estimate would cost more than it saves
        # Activations of other than 8-bit features seem to need one, too, but lost 0.1 points.
        return X.dtype == np.uint8 and self._is_promising_by_quarter(random_state)

    def _is_promising_by_quarter(self, random_state):
        """Return whether a quarter of the units needs a penalty that is large enough for all."""
        rounded = self._rounded
        alpha = estimate_penalty(
            rounded.job, rounded.layer, rounded.samples, make_generator(random_state),
            rounded.history.start_for(rounded.layer), rounded.units.support,
        )  # fmt: skip
        return alpha >= _SUFFICIENT * self._noise

    def train(self, solve):
        """Return the readout, or None if floats would give another one."""
        history = self._rounded.history
        n_before = len(history.rows)
        readout = solve(self._rounded)
        errors = {row["alpha"]: row["error"] for row in history.rows[n_before:]}
        if not self._is_tolerated(readout.alpha_, errors):
            return None
        self._training.history.rows, self._training.history.is_loo = history.rows, history.is_loo
        return readout.update_fitted(precision_=self._bits)

    def _is_tolerated(self, alpha: float, errors: Mapping[float, float]) -> bool:
        """Return whether the noise changes little, given errors of quantised activations."""
        sufficient = _SUFFICIENT * self._noise
        if alpha >= sufficient:
            return True
        larger = [tried for tried in errors if tried >= sufficient]
        if not (self._has_random_units and larger):
            return False
        return errors[min(larger)] <= (1 + _FLAT) * errors[alpha]


def noise_penalty(layer: Any, n_rows: int) -> float:
    """Return the penalty as which the quantisation noise of the activations of a layer acts."""
    return n_rows / (12 * layer.quantizer.scale**2)
