"""Selection of feature weights, kernel, width and metric of RBF units by validation error.

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
4. Metrics: Gaussian units of Euclidean distances, with and without learned weights, are compared
   with the best units of Manhattan distances. They suit smooth targets: linear ones, or functions
   of the distance from a point. Small networks prefer them too often, so the best ones must also
   be better in a larger network.

Each network is evaluated with its best ridge penalty.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..kernels import GAUSSIAN, LAPLACIAN, Kernel
from ..readouts.penalty_search import SearchHistory
from .centers import FIRST_ALPHA, RBFParameters
from .feature_weights import invert_weights, learn_weights
from .importances import importances_of
from .linear_map import learn_map
from .proxy_networks import FEW_UNITS, MAX_UNITS, SKIP_FACTOR, ProxyNetworks
from .relevance import is_suitable, minimise_error, sizes_for

# Weights of the least leave-one-out error must reduce the validation error to less than this part.
# Of classes, they must reduce it by this part, or by that part of the variance of the classes: they
# make small proxy networks more accurate also where they harm a layer of thousands of units.
_MIN_GAIN, _MIN_CLASS_GAIN, _MIN_CLASS_VARIANCE = 0.03, 0.2, 0.05
# Weights are used with other than RBF units only if the error of smooth units, divided by that with
# other weights, is less than this.
_SMOOTH_FACTOR = 0.9
# The part by which those of a small network must reduce it to be worth a larger network.
_MIN_QUICK_GAIN, _MIN_QUICK_CLASS_GAIN = 0.02, 0.1
# The part by which learned weights must reduce the error of equal ones to be those from which the
# descent starts.
_MIN_START_GAIN = 0.03
# The part of the variance of the targets above which an error says that little is predicted.
_HARDLY_PREDICTED = 0.9
# Gaussian units are tried at these multiples of their natural radius, for most datasets and for
# linear targets; then at others, if the error is less than this multiple of that of other units.
_GAUSSIAN_WIDTHS, _PROMISING = (1.5, 6.0), 1.25
# Multiples at which they stand for smooth units of other kinds.
_SMOOTH_WIDTHS = 1.0, 6.0
# The part by which they must reduce the error of a larger network: small ones prefer Gaussian units
# also on some datasets where large ones are much worse with them.
_MIN_GAUSSIAN_GAIN = 0.07
# Maximum number of widths beyond those that are tried first.
_MAX_STEPS = 8


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
    tries_gaussian : bool, default=False
        Whether Gaussian units of Euclidean distances are a candidate, whatever the metric of the
        others.
    skip_factor : float, optional
        See `SKIP_FACTOR`.
    """

    kernels: tuple[Kernel, ...]
    radius: float | None
    learns_weights: bool
    learns_map: bool = False
    refines_weights: bool = False
    tries_gaussian: bool = False
    skip_factor: float = SKIP_FACTOR

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to select."""
        is_learned = self.learns_weights or self.learns_map
        return len(self.kernels) == 1 and self.radius is not None and not is_learned


class SelectedUnits(NamedTuple):
    """Hyperparameters of RBF units that were selected.

    Parameters
    ----------
    metric : str
    kernel : Kernel
    radius : float
    weights : ndarray of shape (n_features,) or None
        Or a linear map, of shape (n_features, n_features).
    importances : ndarray of shape (n_features,) or None
        Those of the learned weights or the learned map, whether selected or not; None if nothing
        was learned.
    """

    metric: str
    kernel: Kernel
    radius: float
    weights: npt.NDArray | None
    importances: npt.NDArray | None = None


def select_kernel(
    job: Job,
    samples: Samples,
    parameters: RBFParameters,
    weights: npt.NDArray | None,
    space: SearchSpace,
    random: np.random.Generator,
    history: SearchHistory,
    shared: dict[Any, Any] | None = None,
) -> SelectedUnits:
    """Return the metric, kernel, radius and feature weights with the lowest validation error.

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
    """
    importances, unlearned = None, []
    if space.is_empty:
        radius: Any = space.radius
        return SelectedUnits(parameters.selection_metric, space.kernels[0], radius, weights)
    job = job.named(f"{job.description}, choice")
    proxy = _ProxySearch.of(job, samples, random, history, shared, space.skip_factor)
    if space.learns_weights or space.learns_map:
        seed = int(random.integers(2**31))
        selected = proxy.select_weights(
            parameters, weights, seed, space.learns_weights, space.learns_map,
            space.refines_weights,
        )  # fmt: skip
        weights, importances = (selected.refined or selected)[:2]
        if weights is not selected.unlearned and proxy.has_few_samples:
            unlearned = [selected.unlearned]
        if selected.refined and LAPLACIAN in space.kernels:
            # The weights minimise the error of Laplacian units.
            space = replace(space, kernels=(LAPLACIAN,))
    centers = proxy.centers(parameters, weights, parameters.n_units)
    layer, error = proxy.select_layer(centers, weights, space)
    if space.tries_gaussian:
        layer, weights = proxy.select_gaussian(
            centers, layer, error, weights, unlearned, parameters.n_units
        )
    return SelectedUnits(layer.metric, layer.kernel, layer.radius, weights, importances)


def select_feature_weights(
    job: Job,
    samples: Samples,
    random: np.random.Generator,
    shared: dict[Any, Any] | None = None,
    refines_weights: bool = False,
) -> tuple[npt.NDArray | None, npt.NDArray]:
    """Return feature weights for units other than RBF units, and the importances of the learned.

    Weights are learned, equalising, or None: the candidate with the lowest validation error of
    Laplacian units, but not those learned from few samples if smooth units are clearly better
    without; or refined ones, if smooth units are better, too, or if `refines_weights`.
    Parameters are as in `select_kernel`.
    """
    job = job.named(f"{job.description}, weights")
    proxy = _ProxySearch.of(job, samples, random, SearchHistory(FIRST_ALPHA), shared)
    seed, centers_seed = map(int, random.integers(2**31, size=2))
    parameters = RBFParameters(
        n_units=FEW_UNITS, selection="random", kernel=LAPLACIAN, random_state=centers_seed
    )
    selected = proxy.select_weights(parameters, None, seed, refines_weights=refines_weights)
    weights, importances, refined, unlearned = selected
    if refines_weights and refined:
        return refined[:2]
    others = [refined] if refined else []
    if weights is not unlearned and proxy.has_few_samples:
        others.append(SelectedWeights(unlearned, importances))
    error = proxy.smooth_error(parameters, weights) if others else 0.0
    for other in others:
        if proxy.smooth_error(parameters, other.weights) < _SMOOTH_FACTOR * error:
            return other[:2]
    return weights, importances


class SelectedWeights(NamedTuple):
    """Feature weights, or a linear map, that were selected.

    Parameters
    ----------
    weights : ndarray or None
    importances : ndarray
        Of what was learned, whether or not it was selected.
    refined : SelectedWeights or None
        Weights that minimise a leave-one-out error of Laplacian units, if they are better.
    unlearned : ndarray or None
        The best ones that are not learned: those given, or weights of equal standard deviations.
    """

    weights: npt.NDArray | None
    importances: npt.NDArray
    refined: "SelectedWeights | None" = None
    unlearned: npt.NDArray | None = None


class _ProxySearch(ProxyNetworks):
    """The search for hyperparameters whose proxy networks have the least error."""

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
        key = parameters.selection_metric, refines_weights
        if key not in self.shared:
            self.shared[key] = self._select_weights(*arguments)
        return self.shared[key]

    def _select_weights(self, parameters, given, seed, learns_weights, learns_map, refines_weights):
        candidates: list[Any] = [given]
        errors: list[float] = []
        if learns_weights:
            equalising, learned = learn_weights(
                self.job, self.samples, parameters.selection_metric, LAPLACIAN, seed, self.training
            )
            candidates += [equalising, learned]
        if learns_map:
            random, split = np.random.default_rng(seed), (self.training, self.validation)
            A, importances = learn_map(self.job, self.samples, random, split)
            candidates += [] if A is None else [A]
        if len(candidates) == 1:  # no map was learned, so there is nothing to compare
            return SelectedWeights(given, importances, unlearned=given)
        # The radius is replaced below; a number avoids that it is estimated.
        at_random = replace(parameters, selection="random", kernel=LAPLACIAN, radius=1.0)
        centers = self.centers(at_random, given, max(FEW_UNITS, parameters.n_units or MAX_UNITS))

        def error_of(weights, lowest):
            layer, distance = self.weighted(replace(centers, kernel=LAPLACIAN), weights)
            # Weights change the distances, and the natural radius with them.
            layer = replace(layer, radius=LAPLACIAN.natural_radius(distance))
            (error,) = self.errors([layer], lowest)
            return error

        for weights in candidates:
            errors.append(error_of(weights, min(errors, default=np.inf)))
        best, refined, unlearned = candidates[int(np.argmin(errors))], None, given
        if learns_weights:
            # Learned weights that are hardly better than equal ones may lead to a worse minimum.
            is_better = errors[2] < (1 - _MIN_START_GAIN) * errors[1]
            start = learned if is_better else equalising
            refined = self._refine(error_of, start, equalising, seed, min(errors), refines_weights)
            importances = importances_of(learned, invert_weights(equalising))
            unlearned = given if errors[0] <= errors[1] else equalising
        return SelectedWeights(best, importances, refined, unlearned)

    def _refine(self, error_of, start, equalising, seed, lowest, is_required):
        """Return weights that minimise a leave-one-out error, or None if they are not much better.

        The descents begin at `start`. `lowest` is the lowest validation error of other weights. If
        `is_required`, weights are returned whenever there are enough samples to find them.
        """
        n_outputs = self.samples.targets.n_outputs
        if not is_suitable(len(self.training), len(start), n_outputs):
            return None
        variance = self.target_variance()
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

    def smooth_error(self, parameters: RBFParameters, weights: npt.NDArray | None) -> float:
        """Return the error of Gaussian units, whose peak is smooth as tanh is.

        Weights that suit the sharp peak of a Laplacian unit may be too rough for tanh units.
        """
        centers = self.centers(replace(parameters, radius=1.0), None, parameters.n_units)
        centers = replace(centers, metric="euclidean", kernel=GAUSSIAN)
        layer, distance = self.weighted(centers, self.scaled_weights(centers, weights))
        return min(self.errors(_gaussian_layers(layer, distance, _SMOOTH_WIDTHS)))

    def _maximum_errors(self, lowest, variance):
        """Return the maximum errors of refined weights of a small and a large network."""
        if not self.samples.targets.is_binary:
            return (1 - _MIN_QUICK_GAIN) * lowest, (1 - _MIN_GAIN) * lowest
        gain = min(_MIN_CLASS_GAIN * lowest, _MIN_CLASS_VARIANCE * variance)
        return (1 - _MIN_QUICK_CLASS_GAIN) * lowest, lowest - gain

    def select_layer(self, centers, weights, space):
        """Return the proxy layer with the lowest error over kernels and widths, and the error.

        The error is infinite if there is one candidate only.
        """
        # All candidates share the centres, so that one pass over the samples evaluates them all.
        layer, distance = self.weighted(centers, weights)
        widths = {kernel: _widths(kernel, distance, space.radius) for kernel in space.kernels}
        layers = [
            replace(layer, kernel=kernel, radius=radii[0]) for kernel, radii in widths.items()
        ]
        if len(layers) == len(widths[layers[0].kernel]) == 1:
            return layers[0], np.inf
        errors = self.errors(layers)
        # The kernel that is best at its first width is best at all widths (26 of 26 datasets).
        best, error = layers[int(np.argmin(errors))], min(errors)
        if space.radius is not None:
            return best, error
        return self._select_width(best, error, widths[best.kernel][1:])

    def select_gaussian(
        self, centers, other, other_error, other_weights, further_weights, max_units
    ):
        """Return Gaussian units of Euclidean distances and weights, or the other ones.

        Parameters
        ----------
        centers : RBFLayer
            Its units are samples without weights.
        other : RBFLayer
            Units at these centres, with weights.
        other_error : float
        other_weights : ndarray or None
        further_weights : list of (ndarray or None)
            Candidates for the Gaussian units beside these weights.
        max_units : int or None
            Of the larger network.

        Returns
        -------
        layer : RBFLayer
        weights : ndarray or None
        """
        centers, best = replace(centers, metric="euclidean", kernel=GAUSSIAN), None
        error = other_error  # the least one, of small networks
        for unscaled in [other_weights, *further_weights]:
            weights = self.scaled_weights(centers, unscaled)
            candidate, candidate_error = self._best_gaussian(centers, weights, other_error)
            if candidate_error < error:
                best, error = (candidate, weights), candidate_error
        if best is not None:
            pairs = [(other, other_weights), best]
            errors = self.errors_of_large(centers, pairs, max_units)
            if errors[1] < (1 - _MIN_GAUSSIAN_GAIN) * errors[0]:
                return best
        return other, other_weights

    def _best_gaussian(self, centers, weights, other_error):
        """Return the layer of the best width, and its error."""
        layer, distance = self.weighted(centers, weights)
        layers = _gaussian_layers(layer, distance, _GAUSSIAN_WIDTHS)
        errors = self.errors(layers)
        error, layer = min(errors), layers[int(np.argmin(errors))]
        if error > _PROMISING * other_error:
            return layer, error
        return self._select_width(layer, error, [layer.radius / 2, layer.radius * 2])

    def _select_width(self, layer, error, radii):
        """Return the layer with the radius of the least error, its own or one of these."""
        others = [replace(layer, radius=radius) for radius in radii]
        layers, errors = [layer, *others], [error, *self.errors(others, error)]
        best = int(np.argmin(errors))
        radii = sorted(layer.radius for layer in layers)
        return self._extend_widths(layers[best], errors[best], radii)

    def _extend_widths(self, layer, error, radii):
        """Continue from the narrowest or the widest unit as long as the error falls; return both.

        A target that oscillates in few features needs units far narrower than the distances
        between samples.
        """
        # The last step of the grid at either end is repeated; inner widths have no factor.
        factors = {radii[0]: radii[0] / radii[1], radii[-1]: radii[-1] / radii[-2]}
        factor = factors.get(layer.radius)
        for _ in range(_MAX_STEPS if factor else 0):
            candidate = replace(layer, radius=layer.radius * factor)
            (candidate_error,) = self.errors([candidate], error)
            if not candidate_error < error:
                break
            layer, error = candidate, candidate_error
        return layer, error


def _gaussian_layers(layer, distance, widths):
    """Return Gaussian layers of several widths, given the median distance of the samples."""
    natural = GAUSSIAN.natural_radius(distance)
    return [replace(layer, radius=natural * multiple) for multiple in widths]


def _widths(kernel, distance, radius):
    """Return the radii to try for a kernel, given the median distance; a given radius alone."""
    if radius is not None:
        return [radius]
    natural = kernel.natural_radius(distance)
    return [float(natural * multiple) for multiple in kernel.widths]
