"""Proxy networks: small RBF networks that evaluate hyperparameters by their validation error.

A ridge readout is trained on a subset of the samples, with a subset of these as centres, and each
network is evaluated with its best penalty on samples that are held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.rows import ShardedRows
from ..data.samples import Samples
from ..data.sources import Source, SparseSource, is_in_memory
from ..data.validation import is_float32_resolved, is_float64_array
from ..engines import get_engine
from ..engines.algebra import HOST
from ..engines.host import HostEngine
from ..kernels import GAUSSIAN
from ..layers import RBFLayer
from ..readouts.cross_validation import draw_split
from ..readouts.gather_statistics import gather, gather_coarse
from ..readouts.penalty_search import SearchHistory, search_penalty
from ..readouts.statistics import RidgeStatistics
from .centers import RBFParameters, fit_rbf_layer
from .ordered_samples import OrderedSamples
from .radius import typical_distance, widest_square

# Maximum numbers of samples and units of a proxy network, and its units if there are few samples.
# On 26 datasets of up to 4000 samples, 450 units selected as well as 600; 400 units lost half a
# point on two of them. More samples take longer anyway, and more units select better: 450 units
# selected the wrong kernel for 60,000 images.
MAX_SEARCH_SAMPLES, MAX_UNITS, FEW_UNITS = 6000, 800, 450
# Between these two numbers of units, all samples per unit.
_SAMPLES_PER_UNIT = 9
# Maximum number of units as a fraction of the training samples of a proxy network.
_UNIT_FRACTION = 0.3
# Up to this number of training samples all of them are centres, as in the layer. Fewer cannot
# represent a linear function of more features than samples.
_FEW_CENTERS = 200
# Up to this number of samples, compiling the float32 kernels takes longer than it saves.
_FEW_SAMPLES = 1000
# The search for a selection radius may end with this fraction of the units: each further pass
# costs more than the missing units are worth.
_MIN_FRACTION = 0.75
# The search for the best penalty of a network is skipped if its error at the first penalty exceeds
# the lowest error so far by this factor: no penalty would make up for it.
SKIP_FACTOR = 1.1
# Maximum number of units of a larger network, and as a fraction of its training samples.
MAX_LARGE_UNITS, _LARGE_FRACTION = 1000, 0.5
# With fewer training samples per feature, learned feature weights may hide informative features.
_FEW_SAMPLES_PER_FEATURE = 20
# A network whose error is below that of the mean by less than this fraction predicts nothing.
MIN_PREDICTED = 0.01
# Rows of targets that are summed at a time.
_BLOCK_ROWS = 1024
# The samples of all splits together, about, of a network and of each network of an ensemble, and
# the maximum number of splits. On 26 datasets, networks of 60 to 500 samples are more accurate with
# several splits, and those of 1000 and 2000 about as accurate with one. Networks of an ensemble
# have different splits, so that it depends less on each: with 500 samples it gains nothing.
_SPLIT_SAMPLES, _MEMBER_SPLIT_SAMPLES, _MAX_SPLITS = 1500, 500, 5
# Maximum number of layers whose statistics are computed in one pass over the samples.
_MAX_LAYERS = 8


@dataclass(frozen=True, eq=False)
class ProxyNetworks:
    """Small RBF networks that are trained and validated on two subsets of the samples.

    Parameters
    ----------
    job : Job
    samples : Samples
        All of them; the order of presentation is one of the training set.
    training, validation : ndarray of int
        Rows of the two sets.
    history : SearchHistory
    shared : dict
        As of `select_units`.
    n_samples : int
        The number of all samples with a weight above 0, of which the two sets are a subset.
    """

    job: Job
    samples: Samples
    training: np.ndarray
    validation: np.ndarray
    history: SearchHistory
    shared: dict[Any, Any]
    n_samples: int

    @classmethod
    def of_splits(cls, job, samples, random, history, shared=None):
        """Return the networks, and a generator, of each of several splits.

        The fewer the samples, the more splits, but fewer with `shared`, as of networks of an
        ensemble, which has a dict for each. If there are several, each has a history of its own.
        """
        n_splits = _count_splits(job, samples, is_member=shared is not None)
        shared = {} if shared is None else shared
        if n_splits == 1:
            return [(cls.of(job, samples, random, history, shared.setdefault(0, {})), random)]
        samples, job = _on_host(job.single_device(), samples)
        # Copy the samples once for all splits, if necessary.
        samples, job = _read(job, samples, samples.rows_with_weight)
        splits = []
        # What is drawn for one split may depend on memory; others must not depend on that.
        for number, seed in enumerate(random.integers(2**31, size=n_splits)):
            generator, own = np.random.default_rng(seed), replace(history, rows=[])
            networks = cls.of(job, samples, generator, own, shared.setdefault(number, {}))
            splits.append((networks, generator))
        history.n_rows, history.n_samples = own.n_rows, own.n_samples
        return splits

    @classmethod
    def of(cls, job, samples, random, history, shared=None):
        """Return the networks of a random split into training and validation samples."""
        job, n_samples = job.single_device(), len(samples.rows_with_weight)
        job, samples, training, validation = draw_split(job, samples, MAX_SEARCH_SAMPLES, random)
        order = random.permutation(training)
        history.n_rows, history.n_samples = len(training), n_samples
        rows = np.sort(np.concatenate([training, validation]))
        taken, job = _read(job, samples, rows)
        if taken is not samples:
            training, validation, order = (
                np.searchsorted(rows, subset) for subset in (training, validation, order)
            )
        samples = taken
        return cls(
            job, samples.in_order(order), training, validation, history,
            {} if shared is None else shared, n_samples,
        )  # fmt: skip

    @property
    def has_few_samples(self) -> bool:
        """Whether there are few training samples per feature.

        Weights that help units with a sharp peak may harm smooth ones then.
        """
        return len(self.training) < _FEW_SAMPLES_PER_FEATURE * self.samples.X.shape[1]

    def predicts_nothing(self, error):
        """Return whether the error of a network is about that of the mean of the targets.

        Differences between the errors of such networks are noise.
        """
        return error > (1 - MIN_PREDICTED) * self.mean_error

    @cached_property
    def mean_error(self):
        """The validation error of the mean of the training targets."""
        targets, weight_of = self.samples.targets, self.samples.weight_or_ones
        # In blocks: the one-hot targets of many classes would take much memory.
        blocks = [self.training[block] for block in gen_batches(len(self.training), _BLOCK_ROWS)]
        sums: Any = sum(weight_of(block) @ targets.matrix(block) for block in blocks)
        deviations = targets.matrix(self.validation) - sums / weight_of(self.training).sum()
        squares = np.square(deviations).sum(axis=1)
        return float(np.average(squares, weights=weight_of(self.validation)))

    def center_layer(self, parameters, weights, max_units):
        """Return a layer of `max_units` units or fewer, centred at unweighted training samples.

        The centres are selected among the samples multiplied by `weights`.
        """
        # Enough units for the number of samples, but no more than can be trained with them.
        suitable = int(np.clip(self.n_samples // _SAMPLES_PER_UNIT, FEW_UNITS, MAX_UNITS))
        n_training = len(self.training)
        trainable = max(int(_UNIT_FRACTION * n_training), min(n_training, _FEW_CENTERS))
        n_units = max(1, min(suitable, trainable, max_units or MAX_UNITS))
        # A given selection radius is that of all samples; search one for the subset.
        parameters = replace(parameters, n_units=n_units, selection_radius=None)
        layer, *_ = fit_rbf_layer(
            parameters, self.job, self.samples, weights, min_fraction=_MIN_FRACTION
        )
        return layer

    def weighted(self, layer, weights):
        """Return the layer with feature weights, and the median distance of weighted samples."""
        layer = apply_weights(layer, weights)
        return layer, typical_distance(self._in_order(layer), layer.metric)

    def scaled_weights(self, layer, weights):
        """Return weights times a number with which squares of distances are finite and above 0.

        The number is 1 if they are anyway, so that None remains None.
        """
        ordered = self._in_order(apply_weights(layer, weights))
        if widest_square(ordered) is None:
            return weights
        given = np.ones(layer.n_features) if weights is None else weights
        return given / typical_distance(ordered, "manhattan")

    def _in_order(self, layer):
        """Return the samples in order of presentation, with the weights of the layer."""
        return OrderedSamples(
            self.job.engine, self.samples.X, self.samples.order, dtype=layer.units.dtype,
            weights=layer.weights,
        )  # fmt: skip

    def errors(
        self, layers: Sequence[Any], lowest: float = np.inf, with_small_penalties: bool = True
    ) -> list[float]:
        """Return the validation error of each of several layers with the same units.

        It is the lowest error over the penalties, unless the search for the penalty was skipped:
        see `SKIP_FACTOR`. `lowest` is the lowest error of other layers. If
        `with_small_penalties` is False, no layer has one below the usual ones.
        """
        n_bytes = RidgeStatistics.nbytes(layers[0].n_units)
        # Training and validation statistics of each layer, and a factor, must fit in memory.
        n_fitting = self.job.memory_limit // (4 * n_bytes) - 1
        n_together = int(np.clip(n_fitting, 1, _MAX_LAYERS))
        errors: list[float] = []
        for start in range(0, len(layers), n_together):
            part = layers[start : start + n_together]
            with_small = with_small_penalties and all(map(self._needs_small_penalties, part))
            errors += self._errors_in_one_pass(part, n_bytes, min([lowest, *errors]), with_small)
        return errors

    def _errors_in_one_pass(self, layers, n_bytes, lowest, with_small_penalties):
        # Sums of H'H and H'Y for both sets suffice to train and validate at any penalty.
        sum_products = gather if with_small_penalties else gather_coarse
        validation = sum_products(self.job, layers, self.samples, self.validation)
        job = self.job.reserve(len(layers) * n_bytes)
        training = sum_products(job, layers, self.samples, self.training)
        errors: list[float] = []
        for layer, trained, validated in zip(layers, training, validation, strict=True):
            skip_above = SKIP_FACTOR * min([lowest, *errors])
            # Start at the best penalty of a similar layer.
            start = self.history.start_for_proxy(layer)
            result = search_penalty(
                [(trained, validated)], start, skip_above, with_small_penalties=with_small_penalties
            )
            self.history.add(layer, result)
            errors.append(result.error)
        return errors

    def _needs_small_penalties(self, layer):
        """Return whether to try penalties that only sums in float64 allow.

        Gaussian units that are much wider than the distances between samples approximate
        polynomials, such as linear functions of spectra, with large coefficients of either sign (T.
        A. Driscoll and B. Fornberg, Computers and Mathematics with Applications 43, 2002).
        """
        is_smooth = layer.kernel is GAUSSIAN and layer.hidden_dtype == np.float64
        return is_smooth and self.has_few_samples

    def errors_of_large(self, pairs, max_units):
        """Return the error of each (layer, weights), with more centres than those of the layers.

        `max_units` is the maximum number of centres, or None.
        """
        n_units = max(1, int(_LARGE_FRACTION * len(self.training)))
        n_units = min(n_units, MAX_LARGE_UNITS, max_units or MAX_LARGE_UNITS)
        while 4 * RidgeStatistics.nbytes(n_units) > self.job.memory_limit:
            n_units //= 2
        parameters = RBFParameters(n_units=n_units, selection="random", radius=1.0)
        large, *_ = fit_rbf_layer(parameters, self.job, self.samples)
        layers = [
            apply_weights(replace(layer, units=large.units, weights=None), weights)
            for layer, weights in pairs
        ]
        return [self.errors([layer])[0] for layer in layers]  # of different units


def _count_splits(job, samples, is_member):
    """Return the number of splits; given validation samples are the only ones.

    Each has centres of its own, so there are fewer of wide samples if memory is scarce.
    """
    n_samples = len(samples.rows_with_weight)
    if samples.validation is not None:
        return 1
    total = _MEMBER_SPLIT_SAMPLES if is_member else _SPLIT_SAMPLES
    n_fitting = job.memory_limit // max(1, 4 * 8 * n_samples * samples.X.shape[1])
    return int(np.clip(min(total // max(1, n_samples), n_fitting), 1, _MAX_SPLITS))


def _on_host(job, samples):
    """Return samples on the host, and a job that computes there.

    On a GPU, each of the many operations on few samples takes as long as one on thousands: the
    selection from 60 samples takes nine times as long as on the host.
    """
    if isinstance(job.engine, HostEngine):
        return samples, job
    X = samples.X
    if isinstance(X, ShardedRows):
        X = X.take(slice(None))
    if not isinstance(X, Source):
        X = job.engine.to_host(X)
    return replace(samples, X=X), job.on_host(get_engine("cpu", 1))


def _read(job, samples, rows):
    """Return samples in the host's or the device's memory, and the remaining job.

    They are read dozens of times. So some rows are copied once if the samples are not in memory, if
    they are sparse, since distances need dense rows, if they are distributed over several devices,
    or if they are rounded to float32.
    """
    X = samples.X
    is_read = isinstance(X, SparseSource) or not is_in_memory(X)
    dtype = _reduced_dtype(X, len(rows), job.memory_limit)
    if not (is_read or isinstance(X, ShardedRows) or dtype):
        return samples, job
    samples = samples.taken(rows, dtype)
    if not is_in_memory(X):  # the values are known only now
        dtype = _reduced_dtype(samples.X, len(rows), job.memory_limit)
        samples = samples if dtype is None else replace(samples, X=samples.X.astype(dtype))
    what, remedy = "selecting kernel and radius", "set kernel, radius and feature_weights"
    check_fits(what, samples.X.nbytes, job.memory_limit, remedy)
    job = job.reserve(samples.X.nbytes).reserve_host(samples.target_bytes)
    return samples, job


def _reduced_dtype(X, n_rows, limit):
    """Return float32 if rounding float64 samples to it is safe and saves time; else None."""
    if not is_float64_array(X) or n_rows <= _FEW_SAMPLES or 4 * n_rows * X.shape[1] > limit // 8:
        return None
    return np.dtype(np.float32) if is_float32_resolved(X) else None


def apply_weights(layer: RBFLayer, weights: npt.NDArray | None) -> RBFLayer:
    """Return the layer for samples that are multiplied by feature weights or a linear map.

    The units of the layer are samples without the weights; those of the result are multiplied.
    """
    if weights is None:
        return layer
    dtype = layer.hidden_dtype
    weights, units = np.asarray(weights, dtype), layer.units.astype(dtype)
    units = HOST.multiply(units, weights) if weights.ndim == 2 else units * weights
    return replace(layer, units=units, weights=weights)
