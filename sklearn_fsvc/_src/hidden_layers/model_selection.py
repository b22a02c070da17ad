"""Selection of feature weights, kernel and width of RBF units by validation error.

The candidates are evaluated on small proxy networks: RBF networks with a ridge readout, on a
subset of the samples and with a subset of these as centres. What is best for them is used for the
whole layer; on 24 datasets, a selection with all centres and all samples was no better. A proxy
network never has more units than the layer, because the fewer the units, the wider they should
be. If the layer has many more units than the proxy, that makes no difference.

The search is greedy, one group of parameters after another:

1. Feature weights: the candidates (none, equal standard deviations, learned weights, a learned
   linear map) are compared with Laplacian units at their natural radius. Weights that minimise a
   leave-one-out error (see `relevance`) replace them if they are much better.
2. Kernels: each candidate is evaluated at the first of its widths.
3. Widths: the best kernel is evaluated at its other widths; if the narrowest or the widest one is
   best, the search continues in that direction as long as the error falls.

Each network is evaluated with its best ridge penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.map_reduce import ShardedRows
from ..data.memory_plan import check_fits
from ..data.samples import Samples
from ..data.sources import Source
from ..data.validation import is_float32_resolved, is_float64_array
from ..engines.algebra import HOST
from ..kernels import GAUSSIAN, LAPLACIAN, Kernel
from ..layers import RBFLayer
from ..readouts.cross_validation import draw_split
from ..readouts.penalty_search import SearchHistory, search_penalty
from ..readouts.ridge import gather_coarse
from ..readouts.statistics import RidgeStatistics
from .centers import FIRST_ALPHA, RBFParameters, fit_rbf_layer
from .feature_weights import invert_weights, learn_weights
from .importances import importances_of
from .linear_map import learn_map
from .ordered_rows import OrderedSamples
from .radius import typical_distance
from .relevance import is_suitable, minimise_error, sizes_for

# Maximum numbers of samples and units of a proxy network, and its units if there are few samples.
# On 26 datasets of up to 4000 samples, 450 units selected as well as 600; 400 units lost half a
# point on two of them. More samples take longer anyway, and more units select better: 450 units
# selected the wrong kernel for 60,000 images.
MAX_SEARCH_SAMPLES, MAX_UNITS, _FEW_UNITS = 6000, 800, 450
# Between these two numbers of units, all samples per unit.
_SAMPLES_PER_UNIT = 9
# Maximum number of units as a fraction of the training samples of a proxy network.
_UNIT_FRACTION = 0.3
# Up to this number of samples, compiling the float32 kernels takes longer than it saves.
_FEW_SAMPLES = 1000
# The search for a selection radius may end with this fraction of the units: each further pass
# costs more than the missing units are worth.
_MIN_FRACTION = 0.75
# The search for the best penalty of a network is skipped if its error at the first penalty exceeds
# the lowest error so far by this factor: no penalty would make up for it.
_SKIP_FACTOR = 1.1
# Weights of the least leave-one-out error must reduce the validation error to less than this part.
# Of classes, they must reduce it by this part, or by that part of the variance of the classes: they
# make small proxy networks more accurate also where they harm a layer of thousands of units.
_MIN_GAIN, _MIN_CLASS_GAIN, _MIN_CLASS_VARIANCE = 0.03, 0.2, 0.05
# The part by which they must reduce the error of smooth units to be used with other than RBF units.
_MIN_SMOOTH_GAIN = 0.1
# The part by which those of a small network must reduce it to be worth a larger network.
_MIN_QUICK_GAIN, _MIN_QUICK_CLASS_GAIN = 0.02, 0.1
# The part by which learned weights must reduce the error of equal ones to be those from which the
# descent starts.
_MIN_START_GAIN = 0.03
# The part of the variance of the targets above which an error says that little is predicted.
_HARDLY_PREDICTED = 0.9
# Maximum number of widths beyond those that are tried first.
_MAX_STEPS = 8
# Maximum number of layers whose statistics are computed in one pass over the samples.
_MAX_LAYERS = 8


@dataclass(frozen=True)
class SearchSpace:
    """The candidates.

    Parameters
    ----------
    kernels : tuple of Kernel
        A single one is given.
    radius : float or None
        None if it has to be selected.
    learns_weights : bool
        Whether feature weights are learned, as candidates in addition to the given ones.
    learns_map : bool, default=False
        Whether a linear map of the features is learned, as another candidate.
    refines_weights : bool, default=False
        Whether to select weights that minimise a leave-one-out error, whatever their validation
        error.
    skip_factor : float, optional
        See `_SKIP_FACTOR`.
    """

    kernels: tuple[Kernel, ...]
    radius: float | None
    learns_weights: bool
    learns_map: bool = False
    refines_weights: bool = False
    skip_factor: float = _SKIP_FACTOR

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to select."""
        is_learned = self.learns_weights or self.learns_map
        return len(self.kernels) == 1 and self.radius is not None and not is_learned


def select_kernel(
    job: Job,
    samples: Samples,
    parameters: RBFParameters,
    weights: npt.NDArray | None,
    space: SearchSpace,
    random: np.random.Generator,
    history: SearchHistory,
    shared: dict[Any, Any] | None = None,
) -> tuple[Kernel, Any, npt.NDArray | None, npt.NDArray | None]:
    """Return the kernel, the radius and the feature weights with the lowest validation error.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets.
    parameters : RBFParameters
        Specify how centres are selected.
    weights : ndarray of shape (n_features,) or (n_features, n_inputs), or None
        The feature weights, or the linear map, that are given.
    space : SearchSpace
    random : numpy.random.Generator
    history : SearchHistory
        Each trial is added to it.
    shared : dict, optional
        (metric, refines_weights) -> `SelectedWeights` that were found for the same samples before.
        They are used instead of learning them again; new ones are added.

    Returns
    -------
    kernel : Kernel
    radius : float
    weights : ndarray of shape (n_features,) or None
        Or a linear map, of shape (n_features, n_features).
    importances : ndarray of shape (n_features,) or None
        Those of the learned weights or the learned map, whether selected or not; None if nothing
        was learned.
    """
    importances = None
    if space.is_empty:
        return space.kernels[0], space.radius, weights, importances
    job = job.named(f"{job.description}, choice")
    proxy = _ProxySearch.of(job, samples, random, history, shared, space.skip_factor)
    if space.learns_weights or space.learns_map:
        seed = int(random.integers(2**31))
        selected = proxy.select_weights(
            parameters, weights, seed, space.learns_weights, space.learns_map,
            space.refines_weights,
        )  # fmt: skip
        weights, importances = (selected.refined or selected)[:2]
        if selected.refined and LAPLACIAN in space.kernels:
            # The weights minimise the error of Laplacian units.
            space = replace(space, kernels=(LAPLACIAN,))
    layer = proxy.select_layer(parameters, weights, space)
    return layer.kernel, layer.radius, weights, importances


def select_feature_weights(
    job: Job,
    samples: Samples,
    random: np.random.Generator,
    shared: dict[Any, Any] | None = None,
    refines_weights: bool = False,
) -> tuple[npt.NDArray | None, npt.NDArray]:
    """Return feature weights for units other than RBF units, and the importances of the learned.

    Weights are learned, equalising, or None: the candidate with the lowest validation error of
    Laplacian units; or refined ones, if smooth units are better, too, or if `refines_weights`.
    Parameters are as in `select_kernel`.
    """
    job = job.named(f"{job.description}, weights")
    proxy = _ProxySearch.of(job, samples, random, SearchHistory(FIRST_ALPHA), shared)
    seed, centers_seed = map(int, random.integers(2**31, size=2))
    parameters = RBFParameters(
        n_units=_FEW_UNITS, selection="random", kernel=LAPLACIAN, random_state=centers_seed
    )
    selected = proxy.select_weights(parameters, None, seed, refines_weights=refines_weights)
    refined = selected.refined
    if refined and (
        refines_weights
        or proxy.improves_smooth_units(parameters, selected.weights, refined.weights)
    ):
        return refined.weights, refined.importances
    return selected.weights, selected.importances


class SelectedWeights(NamedTuple):
    """Feature weights, or a linear map, that were selected.

    Parameters
    ----------
    weights : ndarray or None
    importances : ndarray
        Of what was learned, whether or not it was selected.
    refined : SelectedWeights or None
        Weights that minimise a leave-one-out error of Laplacian units, if they are better.
    """

    weights: npt.NDArray | None
    importances: npt.NDArray
    refined: "SelectedWeights | None" = None


@dataclass(frozen=True, eq=False)
class _ProxySearch:
    """Proxy networks on a training and a validation set.

    Parameters
    ----------
    job : Job
    samples : Samples
        All of them; the order of presentation is one of the training set.
    training, validation : ndarray of int
        Rows of the two sets.
    history : SearchHistory
    shared : dict
        As of `select_kernel`.
    n_samples : int
        The number of all samples with a weight above 0, of which the two sets are a subset.
    skip_factor : float
        See `_SKIP_FACTOR`.
    """

    job: Job
    samples: Samples
    training: np.ndarray
    validation: np.ndarray
    history: SearchHistory
    shared: dict[Any, Any]
    n_samples: int
    skip_factor: float

    @classmethod
    def of(cls, job, samples, random, history, shared=None, skip_factor=_SKIP_FACTOR):
        job, n_samples = job.single_device(), len(samples.rows_with_weight)
        job, samples, training, validation = draw_split(job, samples, MAX_SEARCH_SAMPLES, random)
        order = random.permutation(training)
        history.n_rows, history.n_samples = len(training), n_samples
        X = samples.X
        # The samples are read dozens of times. Copy them once if they are not in memory, if they
        # are distributed over several devices, or if float32 does for them.
        is_read = isinstance(X, Source) and not X.is_in_memory
        dtype = _reduced_dtype(X, len(training) + len(validation), job.memory_limit)
        if is_read or isinstance(X, ShardedRows) or dtype:
            rows = np.sort(np.concatenate([training, validation]))
            samples = samples.taken(rows, dtype)
            check_fits("the choice of kernel and radius", samples.X.nbytes, job.memory_limit)
            job = job.reserve(samples.X.nbytes).reserve_host(samples.target_bytes)
            training, validation, order = (
                np.searchsorted(rows, subset) for subset in (training, validation, order)
            )
        return cls(
            job, samples.in_order(order), training, validation, history,
            {} if shared is None else shared, n_samples, skip_factor,
        )  # fmt: skip

    def select_weights(
        self, parameters, given, seed, learns_weights=True, learns_map=False, refines_weights=False
    ):
        """Return the best of the given, the equalising and the learned weights, and the map.

        Candidates are learned and compared with Laplacian units at random centres, whatever units
        the layer has: of all kernels, these depend least on their width.
        """
        arguments = parameters, given, seed, learns_weights, learns_map, refines_weights
        # Weights depend on the metric and the samples only, so an ensemble learns them once.
        if learns_map or given is not None:  # estimators that share weights have neither
            return self._select_weights(*arguments)
        key = parameters.metric, refines_weights
        if key not in self.shared:
            self.shared[key] = self._select_weights(*arguments)
        return self.shared[key]

    def _select_weights(self, parameters, given, seed, learns_weights, learns_map, refines_weights):
        candidates: list[Any] = [given]
        errors: list[float] = []
        if learns_weights:
            equalising, learned = learn_weights(
                self.job, self.samples, parameters.metric, LAPLACIAN, seed, self.training
            )
            candidates += [equalising, learned]
        if learns_map:
            random, split = np.random.default_rng(seed), (self.training, self.validation)
            A, importances = learn_map(self.job, self.samples, random, split)
            candidates += [] if A is None else [A]
        if len(candidates) == 1:  # no map was learned, so there is nothing to compare
            return SelectedWeights(given, importances)
        # The radius is replaced below; a number avoids that it is estimated.
        at_random = replace(parameters, selection="random", kernel=LAPLACIAN, radius=1.0)
        centers = self._centers(at_random, given, max(_FEW_UNITS, parameters.n_units or MAX_UNITS))

        def error_of(weights, lowest):
            layer, distance = self._weight(replace(centers, kernel=LAPLACIAN), weights)
            # Weights change the distances, and the natural radius with them.
            layer = replace(layer, radius=LAPLACIAN.natural_radius(distance))
            (error,) = self._errors([layer], lowest)
            return error

        for weights in candidates:
            errors.append(error_of(weights, min(errors, default=np.inf)))
        best, refined = candidates[int(np.argmin(errors))], None
        if learns_weights:
            # Learned weights that are hardly better than equal ones may lead to a worse minimum.
            is_better = errors[2] < (1 - _MIN_START_GAIN) * errors[1]
            start = learned if is_better else equalising
            refined = self._refine(error_of, start, equalising, seed, min(errors), refines_weights)
            importances = importances_of(learned, invert_weights(equalising))
        return SelectedWeights(best, importances, refined)

    def _refine(self, error_of, start, equalising, seed, lowest, is_required):
        """Return weights that minimise a leave-one-out error, or None if they are not much better.

        The descents begin at `start`. `lowest` is the lowest validation error of other weights. If
        `is_required`, weights are returned whenever there are enough samples to find them.
        """
        n_outputs = self.samples.targets.n_outputs
        if not is_suitable(len(self.training), len(start), n_outputs):
            return None
        variance = self._target_variance()
        sizes, refined, best = sizes_for(len(self.training)), None, np.inf
        # If nothing is predicted, a small network would not find anything, either.
        if is_required or lowest > _HARDLY_PREDICTED * variance:
            sizes = sizes[-1:]
        maxima = self._maximum_errors(lowest, variance)[-len(sizes) :]  # the last network decides
        for size, maximum in zip(sizes, maxima, strict=True):
            if size.needed_bytes(len(start)) > self.job.memory_limit:
                break
            weights = minimise_error(
                self.job, self.samples, self.training, seed, start, equalising, size
            )
            if weights is None:
                return None
            error = error_of(weights, lowest)
            # Both must be better: one alone may be by chance.
            if not (is_required or error < maximum):
                return None
            if error < best:
                importances = importances_of(weights, invert_weights(equalising))
                refined, best = SelectedWeights(weights, importances), error
        return refined

    def improves_smooth_units(
        self, parameters: RBFParameters, weights: npt.NDArray | None, refined: npt.NDArray
    ) -> bool:
        """Return whether refined weights are better with Gaussian units, whose peak is smooth.

        What suits the sharp peak of a Laplacian unit may be too rough for tanh units.
        """
        centers, errors = self._centers(replace(parameters, radius=1.0), None), []
        for candidate in (weights, refined):
            given = np.ones(self.samples.X.shape[1]) if candidate is None else candidate
            # So that squares of huge or tiny samples are finite.
            scaled = given / self._weight(centers, given)[1]
            smooth = replace(centers, metric="euclidean", kernel=GAUSSIAN)
            layer, distance = self._weight(smooth, scaled)
            errors += self._errors([replace(layer, radius=GAUSSIAN.natural_radius(distance))])
        return errors[1] < (1 - _MIN_SMOOTH_GAIN) * errors[0]

    def _target_variance(self):
        """Return the variance of the validation targets, summed over outputs."""
        return float(self.samples.targets.matrix(self.validation).var(axis=0).sum())

    def _maximum_errors(self, lowest, variance):
        """Return the maximum errors of refined weights of a small and a large network."""
        if not self.samples.targets.is_binary:
            return (1 - _MIN_QUICK_GAIN) * lowest, (1 - _MIN_GAIN) * lowest
        gain = min(_MIN_CLASS_GAIN * lowest, _MIN_CLASS_VARIANCE * variance)
        return (1 - _MIN_QUICK_CLASS_GAIN) * lowest, lowest - gain

    def select_layer(self, parameters, weights, space):
        """Return the proxy layer with the lowest error over kernels and widths."""
        # All candidates share the centres, so that one pass over the samples evaluates them all.
        layer = self._centers(parameters, weights, parameters.n_units)
        layer, distance = self._weight(layer, weights)
        widths = {kernel: _widths(kernel, distance, space.radius) for kernel in space.kernels}
        layers = [
            replace(layer, kernel=kernel, radius=radii[0]) for kernel, radii in widths.items()
        ]
        if len(layers) == len(widths[layers[0].kernel]) == 1:
            return layers[0]
        errors = self._errors(layers)
        # The kernel that is best at its first width is best at all widths (26 of 26 datasets).
        best = layers[int(np.argmin(errors))]
        if space.radius is not None:
            return best
        # The first width of the best kernel is evaluated already.
        others = [replace(best, radius=radius) for radius in widths[best.kernel][1:]]
        layers, errors = [best, *others], [min(errors), *self._errors(others, min(errors))]
        best = int(np.argmin(errors))
        radii = sorted(layer.radius for layer in layers)
        return self._extend_widths(layers[best], errors[best], radii)

    def _extend_widths(self, layer, error, radii):
        """Continue from the narrowest or the widest unit as long as the error falls.

        A target that oscillates in few features needs units far narrower than the distances
        between samples.
        """
        # The last step of the grid at either end is repeated; inner widths have no factor.
        factors = {radii[0]: radii[0] / radii[1], radii[-1]: radii[-1] / radii[-2]}
        factor = factors.get(layer.radius)
        for _ in range(_MAX_STEPS if factor else 0):
            candidate = replace(layer, radius=layer.radius * factor)
            (candidate_error,) = self._errors([candidate], error)
            if not candidate_error < error:
                break
            layer, error = candidate, candidate_error
        return layer

    def _centers(self, parameters, weights, max_units=None):
        """Return a layer on training samples, of `max_units` units or fewer."""
        # Enough units for the number of samples, but no more than can be trained with them.
        suitable = int(np.clip(self.n_samples // _SAMPLES_PER_UNIT, _FEW_UNITS, MAX_UNITS))
        most = int(_UNIT_FRACTION * len(self.training))
        n_units = max(1, min(suitable, most, max_units or MAX_UNITS))
        # A given selection radius is that of all samples; search one for the subset.
        parameters = replace(parameters, n_units=n_units, selection_radius=None)
        is_by_class = parameters.selection == "per_class"
        groups = self.samples.targets.groups if is_by_class else None
        layer, *_ = fit_rbf_layer(
            parameters, self.job, self.samples, groups, weights, min_fraction=_MIN_FRACTION
        )
        return layer

    def _weight(self, layer, weights):
        """Return the layer with feature weights, and the median distance of weighted samples."""
        layer, order = apply_weights(layer, weights), self.samples.order
        ordered = OrderedSamples(
            self.job.engine, self.samples.X, order, dtype=layer.units.dtype,
            weights=layer.weights,
        )  # fmt: skip
        return layer, typical_distance(ordered, layer.metric)

    def _errors(self, layers: Sequence[Any], lowest: float = np.inf) -> list[float]:
        """Return the validation error of each of several layers with the same units.

        It is the lowest error over the penalties, unless the search for the penalty was skipped:
        see `_SKIP_FACTOR`. `lowest` is the lowest error of other layers.
        """
        n_bytes = RidgeStatistics.nbytes(layers[0].n_units)
        # Training and validation statistics of each layer, and a factor, must fit in memory.
        n_fitting = self.job.memory_limit // (4 * n_bytes) - 1
        n_together = int(np.clip(n_fitting, 1, _MAX_LAYERS))
        errors: list[float] = []
        for start in range(0, len(layers), n_together):
            part = layers[start : start + n_together]
            errors += self._errors_in_one_pass(part, n_bytes, min([lowest, *errors]))
        return errors

    def _errors_in_one_pass(self, layers, n_bytes, lowest):
        # Sums of H'H and H'Y for both sets suffice to train and validate at any penalty.
        validation = gather_coarse(self.job, layers, self.samples, self.validation)
        job = self.job.reserve(len(layers) * n_bytes)
        training = gather_coarse(job, layers, self.samples, self.training)
        errors: list[float] = []
        for layer, trained, validated in zip(layers, training, validation, strict=True):
            skip_above = self.skip_factor * min([lowest, *errors])
            # Start at the best penalty of a similar layer.
            start = self.history.start_alpha(layer)
            result = search_penalty([(trained, validated)], start, skip_above)
            self.history.add(layer, result)
            errors.append(result.error)
        return errors


def _reduced_dtype(X, n_rows, limit):
    """Return float32 if float64 samples can be rounded to it at a profit; otherwise None."""
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


def _widths(kernel, distance, radius):
    """Return the radii to try for a kernel, given the median distance; a given radius alone."""
    if radius is not None:
        return [radius]
    natural = kernel.natural_radius(distance)
    return [float(natural * multiple) for multiple in kernel.widths]
