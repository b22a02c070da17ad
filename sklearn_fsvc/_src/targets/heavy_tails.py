"""Heavy-tailed targets: a few samples dominate a readout that minimises squared errors."""

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata
from sklearn.utils import gen_batches

from ..utils.user_warnings import warn
from .encoding import StandardisedTargets
from .transforms import ShiftedLog

# Excess kurtosis above which targets are checked: an exponential distribution has 6, a log-normal
# one (standard deviation 1 of the logarithm) 111.
_MAX_EXCESS_KURTOSIS = 30.0
# A tail is heavy if the kurtosis after some transform is below this fraction of that before.
_MAX_KURTOSIS_RATIO = 0.25
# Values whose powers are in memory at a time.
_BLOCK_VALUES = 2**15


def find_heavy_tails(targets: StandardisedTargets, weight: npt.NDArray | None = None) -> list[int]:
    """Return the columns of y with a heavy tail that a transform of y would remove."""
    # The values have mean 0 and variance 1, so their fourth moment is the kurtosis. Most targets
    # pass this test and cost no more.
    excess = _fourth_moments(targets.values, weight) - 3
    present = slice(None) if weight is None else weight > 0
    suspects = map(int, np.flatnonzero(excess > _MAX_EXCESS_KURTOSIS))
    return [k for k in suspects if _has_remedy(targets.column(k)[present])]


def warn_heavy_tail(owner: str, k: int, n_outputs: int) -> None:
    """Warn of a heavy tail of a column of y."""
    which = "y" if n_outputs == 1 else f"Column {k} of y"
    warn(
        f"{which} has a heavy tail: a few large values dominate the squared error, at the expense "
        f'of most samples. Set target_transform="auto" of {owner}, which transforms y if that '
        "reduces the validation error."
    )


def _fourth_moments(values, weight):
    """Return the weighted mean of the fourth powers of each column, computed in blocks."""
    step, total = max(1, _BLOCK_VALUES // values.shape[1]), 0.0
    weight = np.ones(len(values)) if weight is None else weight
    for block in gen_batches(len(values), step):
        # Squaring twice is far faster than a power of 4.
        total = total + weight[block] @ np.square(np.square(values[block]))
    return total / weight.sum()


def _has_remedy(y):
    """Return whether y has no heavy tail after its logarithm, or as normal scores of its ranks."""
    limit = _MAX_KURTOSIS_RATIO * kurtosis(y)
    if y.min() >= 0 and kurtosis(ShiftedLog().fit_transform(y[:, None])[:, 0]) < limit:
        return True
    # Normal scores of the ranks have no heavy tail, unless many samples share one value: tied ranks
    # stay together.
    return kurtosis(ndtri((rankdata(y) - 0.5) / len(y))) < limit
