"""Selection of feature weights, kernel, width and metric of RBF units on one split of the samples.

The candidates are evaluated on small proxy networks: RBF networks with a ridge readout, on a
subset of the samples and with a subset of these as centres. What is best for them is used for the
whole layer; on 24 datasets, a selection with all centres and all samples was no better. A proxy
network never has more units than the layer, because the fewer the units, the wider they should
be. If the layer has many more units than the proxy, that makes no difference.

The search is greedy, one group of parameters after another:

1. Feature weights: the candidates (none, equal standard deviations, learned weights) are compared
   with Laplacian units at their natural radius. Weights that minimise a leave-one-out error (see
   `relevance`) replace them if they are much better, and so does a linear map that is requested.
2. Kernels: each candidate is evaluated at the first of its widths.
3. Widths: the best kernel is evaluated at its other widths; if the narrowest or the widest one is
   best, the search continues in that direction as long as the error falls. If no network predicts
   anything, the first candidate is selected: the Laplacian kernel at its natural radius.
4. Metrics: Gaussian units of Euclidean distances, with and without learned weights, are compared
   with the best units of Manhattan distances. They suit smooth targets: linear ones, or functions
   of the distance from a point. Small networks prefer them too often, so the best ones must also
   be better in a larger network.
5. Linear maps, if they are optional: rounds of the whole matrix continue the weights. If the first
   reduces the error of small networks, Gaussian units of mapped samples are compared with the best
   units so far, in larger networks. They suit functions of a few linear combinations of features,
   and are worse for others, so they must be clearly better.

Each network is evaluated with its best ridge penalty.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.memory_plan import check_fits
from ..kernels import GAUSSIAN, LAPLACIAN
from ..layers import RBFLayer
from .centers import RBFParameters
from .feature_weights import invert_weights, learn_weights, required_factor
from .linear_map import MAX_FACTOR, learn_map, map_bytes
from .parameters import MAX_MAP_FEATURES, importances_of
from .proxy_networks import FEW_UNITS, MAX_UNITS, ProxyNetworks
from .relevance import minimise_error, sizes_for, suits_refinement

# Minimum relative decrease of the validation error for refined weights to be selected. In
# classification it is the second number, or the third as a fraction of the error of the mean of
# the targets: refined weights help small proxy networks even where they harm a layer of thousands
# of units.
_MIN_GAIN, _MIN_CLASS_GAIN, _MIN_CLASS_VARIANCE = 0.03, 0.2, 0.05
# Minimum relative decrease in the small network before the large one is trained.
_MIN_QUICK_GAIN, _MIN_QUICK_CLASS_GAIN = 0.02, 0.1
# The descent starts at learned weights if they reduce the error of the equalising ones by this
# fraction.
_MIN_START_GAIN = 0.03
# An error above this fraction of that of the mean of the targets means that little is predicted.
_HARDLY_PREDICTED = 0.9
# Widths of Gaussian units, as multiples of their natural radius: the first suits most datasets,
# the second linear targets. Others are tried if the error is less than this multiple of that of
# units of Manhattan distances.
_GAUSSIAN_WIDTHS, _PROMISING = (1.5, 6.0), 1.25
# Widths of the smooth units that stand for tanh units, as multiples of their natural radius.
_SMOOTH_WIDTHS = 1.0, 6.0
# Minimum relative decrease of the error of a larger network: small networks select Gaussian units
# too often.
_MIN_GAUSSIAN_GAIN = 0.07
# Minimum relative decreases of the errors for a linear map: of the first round in small networks,
# and of the units that are selected, for numeric targets and for classes. Maps with a smaller
# decrease make as many datasets worse as better. With few samples per feature, errors are noisy,
# and a map has many coefficients.
_MIN_ROUND_GAIN = {False: 0.05, True: 0.2}
_MIN_MAP_GAIN, _MIN_MAP_GAIN_OF_FEW = {False: 0.08, True: 0.3}, {False: 0.3, True: 0.5}
# Minimum numbers of training samples, in total and per feature, for a linear map.
_MIN_MAP_SAMPLES, _MIN_SAMPLES_PER_FEATURE = 200, 5
# Maximum number of widths beyond those that are tried first.
_MAX_STEPS = 8


class FeatureWeights(NamedTuple):
    """Feature weights, or a linear map.

    Parameters
    ----------
    weights : ndarray of shape (n_features,) or (n_features, n_inputs), or None
    importances : ndarray of shape (n_features,) or None
        Those of learned weights, also with others; None if nothing was learned.
    """

    weights: npt.NDArray | None
    importances: npt.NDArray | None


@dataclass(frozen=True)
class SelectedWeights:
    """Feature weights of several kinds, and the best ones.

    Parameters
    ----------
    by_kind : dict of str to FeatureWeights
        "given"; "equalising", of equal standard deviations; "learned" by gradients; and "refined",
        which minimise a leave-one-out error of Laplacian units, if they are better.
    best : str
        The kind with the lowest validation error, refined ones aside.
    unlearned : {"given", "equalising"}
        The better one of these.
    """

    by_kind: dict[str, FeatureWeights]
    best: str = "given"
    unlearned: str = "given"

    @classmethod
    def only(cls, given: npt.NDArray | None) -> "SelectedWeights":
        """Return given weights without any other."""
        return cls({"given": FeatureWeights(given, None)})

    @property
    def has_refined(self) -> bool:
        return "refined" in self.by_kind

    @property
    def best_or_refined(self) -> str:
        """Return the best kind for Laplacian units."""
        return "refined" if self.has_refined else self.best

    @property
    def unlearned_kinds(self) -> list[str]:
        return [kind for kind in ("given", "equalising") if kind in self.by_kind]

    def of(self, kind: str) -> FeatureWeights:
        """Return weights of a kind; learned instead of refined ones if these are not better."""
        return self.by_kind.get(kind) or self.by_kind["learned"]


class Candidate(NamedTuple):
    """Units that are compared with others in a larger network.

    Parameters
    ----------
    layer : RBFLayer
        Its units are multiplied by the weights.
    weights : ndarray or None
    kind : str
        Of the weights, as of `SelectedWeights`, or "map".
    factor : float
        By which the error must be less than that of the best units so far.
    """

    layer: RBFLayer
    weights: npt.NDArray | None
    kind: str
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class ProxySearch(ProxyNetworks):
    """The search for hyperparameters whose proxy networks have the least error."""

    @property
    def required_factor(self) -> float:
        """The factor by which learned weights must lower the error to be selected."""
        return required_factor(len(self.training), self.samples.X.shape[1])

    def select_weights(self, parameters, given, seed, is_refined):
        """Return the `SelectedWeights`; with refined ones in any case if `is_refined`.

        Candidates are learned and compared with Laplacian units at random centres, whatever units
        the layer has: of all kernels, these depend least on their width.
        """
        if given is not None:  # estimators that share weights are given none
            return self._select_weights(parameters, given, seed, is_refined)
        # Weights depend on the metric and the samples only, so an ensemble learns them once.
        key = parameters.selection_metric, is_refined
        if key not in self.shared:
            self.shared[key] = self._select_weights(parameters, given, seed, is_refined)
        return self.shared[key]

    def _select_weights(self, parameters, given, seed, is_refined):
        """Return the given, the equalising, the learned and the refined weights, and the best."""
        equalising, learned = learn_weights(
            self.job, self.samples, parameters.selection_metric, LAPLACIAN, seed, self.training
        )
        error_of = self.error_by_weights(parameters, given)
        given_error = error_of(given)
        equalising_error = error_of(equalising, given_error)
        unlearned, lowest = "given", given_error
        if equalising_error < given_error:
            unlearned, lowest = "equalising", equalising_error
        learned_error = error_of(learned, lowest)
        best = unlearned
        if learned_error < self.required_factor * lowest and not self.predicts_nothing(
            learned_error
        ):
            best, lowest = "learned", learned_error
        # Learned weights that are hardly better than equal ones may lead to a worse minimum.
        is_better = learned_error < (1 - _MIN_START_GAIN) * equalising_error
        start = learned if is_better else equalising
        importances = importances_of(learned, invert_weights(equalising))
        kinds = {"given": given, "equalising": equalising, "learned": learned}
        by_kind = {kind: FeatureWeights(weights, importances) for kind, weights in kinds.items()}
        refined = self._refine(error_of, start, equalising, seed, lowest, is_refined)
        if refined is not None:
            by_kind["refined"] = refined
        return SelectedWeights(by_kind, best, unlearned)

    def error_by_weights(self, parameters, given):
        """Return a function of weights, and of the lowest error so far, that returns an error."""
        # The radius is replaced below; a number avoids that it is estimated.
        at_random = replace(parameters, selection="random", kernel=LAPLACIAN, radius=1.0)
        max_units = max(FEW_UNITS, parameters.n_units or MAX_UNITS)
        unweighted = replace(self.center_layer(at_random, given, max_units), kernel=LAPLACIAN)

        def error_of(weights, lowest=np.inf):
            layer, distance = self.weighted(unweighted, weights)
            # Weights change the distances, and the natural radius with them.
            layer = replace(layer, radius=LAPLACIAN.natural_radius(distance))
            (error,) = self.errors([layer], lowest)
            return error

        return error_of

    def _refine(self, error_of, start, equalising, seed, lowest, is_required):
        """Return weights that minimise a leave-one-out error, or None if they are not much better.

        The descents begin at `start`. `lowest` is the lowest validation error of other weights. If
        `is_required`, weights are returned whenever there are enough samples to find them.
        """
        n_outputs = self.samples.targets.n_outputs
        if not suits_refinement(len(self.training), len(start), n_outputs):
            return None
        sizes, refined, best = self._fitting_sizes(len(start), is_required), None, np.inf
        # If nothing is predicted, a small network would not find anything, either.
        if is_required or lowest > _HARDLY_PREDICTED * self.mean_error:
            sizes = sizes[-1:]
        maxima = self._maximum_errors(lowest)
        maxima = maxima[len(maxima) - len(sizes) :]  # the last network decides
        for size, maximum in zip(sizes, maxima, strict=True):
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
                refined, best = FeatureWeights(weights, importances), error
        return refined

    def _fitting_sizes(self, n_features, is_required):
        """Return the sizes of the networks of `_refine` that fit in memory.

        If none does and weights are required, raise.
        """
        n_samples, n_outputs = len(self.training), self.samples.targets.n_outputs
        sizes, limit = sizes_for(n_samples), self.job.memory_limit
        needed = [size.needed_bytes(n_samples, n_features, n_outputs) for size in sizes]
        if is_required:
            remedy = 'set feature_weights="learned"'
            check_fits("refining feature weights", needed[0], limit, remedy)
        return [size for size, n_bytes in zip(sizes, needed, strict=True) if n_bytes <= limit]

    def smooth_error(self, parameters: RBFParameters, weights: npt.NDArray | None) -> float:
        """Return the error of Gaussian units, whose peak is smooth as tanh is.

        Weights that suit the sharp peak of a Laplacian unit may be too rough for tanh units.
        """
        unweighted = self.center_layer(replace(parameters, radius=1.0), None, parameters.n_units)
        unweighted = replace(unweighted, metric="euclidean", kernel=GAUSSIAN)
        layer, distance = self.weighted(unweighted, self.scaled_weights(unweighted, weights))
        layers = _gaussian_layers(layer, distance, _SMOOTH_WIDTHS)
        return min(self.errors(layers, with_small_penalties=False))

    def _maximum_errors(self, lowest):
        """Return the maximum errors of refined weights of a small and a large network."""
        if not self.samples.targets.is_binary:
            return (1 - _MIN_QUICK_GAIN) * lowest, (1 - _MIN_GAIN) * lowest
        gain = min(_MIN_CLASS_GAIN * lowest, _MIN_CLASS_VARIANCE * self.mean_error)
        return (1 - _MIN_QUICK_CLASS_GAIN) * lowest, lowest - gain

    def select_layer(self, unweighted, weights, space):
        """Return the proxy layer with the lowest error over kernels and widths, and the error.

        The error is infinite if there is one candidate only.
        """
        # All candidates share the centres, so that one pass over the samples evaluates them all.
        layer, distance = self.weighted(unweighted, weights)
        widths = {kernel: _widths(kernel, distance, space.radius) for kernel in space.kernels}
        layers = [
            replace(layer, kernel=kernel, radius=radii[0]) for kernel, radii in widths.items()
        ]
        if len(layers) == len(widths[layers[0].kernel]) == 1:
            return layers[0], np.inf
        errors = self.errors(layers)
        # The kernel that is best at its first width is best at all widths (26 of 26 datasets).
        best, error = layers[int(np.argmin(errors))], min(errors)
        if space.radius is None:
            best, error = self._select_width(best, error, widths[best.kernel][1:])
        # A final network of all samples may still predict something with the natural width, but
        # not with one that is narrower or wider by orders of magnitude.
        return (layers[0], errors[0]) if self.predicts_nothing(error) else (best, error)

    def gaussian_candidates(self, unweighted, weights_by_kind, incumbent_error):
        """Return the best Gaussian units of Euclidean distances, if small networks prefer them.

        A list of one candidate or none.

        Parameters
        ----------
        unweighted : RBFLayer
            Its units are samples without weights.
        weights_by_kind : dict of str to (ndarray or None)
        incumbent_error : float
            Of the best units so far, of another kernel or metric.
        """
        layer, weights, error, kind = min(
            (
                (*self._best_gaussian(unweighted, weights, incumbent_error), kind)
                for kind, weights in weights_by_kind.items()
            ),
            key=lambda found: found[2],
        )
        if not error < incumbent_error:
            return []
        return [Candidate(layer, weights, kind, 1 - _MIN_GAUSSIAN_GAIN)]

    def map_candidate(self, unweighted, A):
        """Return the best Gaussian units after a linear map."""
        layer, A, _ = self._best_gaussian(unweighted, A, np.inf)
        return Candidate(layer, A, "map", self.map_factor)

    def best_of_large(self, candidates, max_units):
        """Return the best candidate in a larger network of `max_units` or fewer.

        Each must be better than those before it by its factor.
        """
        if len(candidates) == 1:
            return candidates[0]
        pairs = [(candidate.layer, candidate.weights) for candidate in candidates]
        errors = self.errors_of_large(pairs, max_units)
        best, lowest = candidates[0], errors[0]
        for candidate, error in zip(candidates[1:], errors[1:], strict=True):
            if error < candidate.factor * lowest:
                best, lowest = candidate, error
        return best

    def learn_map(self, weights, random, is_required=False):
        """Return a linear map that continues the weights, and importances, if it is promising.

        None if it is not. If the map is not required, it must lower the error by more, and there
        must be enough samples for its coefficients, and enough memory.
        """
        n_training, n_features = len(self.training), self.samples.X.shape[1]
        needed = map_bytes(n_training + len(self.validation), n_features)
        if is_required:
            remedy = 'set feature_weights="learned"'
            check_fits("learning a linear map", needed, self.job.memory_limit, remedy)
            factor = min(MAX_FACTOR, self.required_factor)
        else:
            min_samples = max(_MIN_MAP_SAMPLES, _MIN_SAMPLES_PER_FEATURE * n_features)
            has_samples = n_training >= min_samples and 1 < n_features <= MAX_MAP_FEATURES
            if np.ndim(weights) == 2 or not has_samples or needed > self.job.memory_limit:
                return None
            factor = 1 - _MIN_ROUND_GAIN[self.samples.targets.is_binary]
        split = self.training, self.validation
        learned = learn_map(self.job, self.samples, weights, random, split, factor)
        return FeatureWeights(*learned) if learned else None

    def better_map(self, parameters, weights, random):
        """Return the map of `learn_map` if Laplacian units are better with it; else None."""
        mapped = self.learn_map(weights, random, is_required=True)
        if mapped is None:
            return None
        error_of = self.error_by_weights(parameters, None)
        error = error_of(weights)
        return mapped if error_of(mapped.weights, error) < error else None

    @property
    def map_factor(self):
        """Return the factor by which a linear map must reduce the error."""
        gains = _MIN_MAP_GAIN_OF_FEW if self.has_few_samples else _MIN_MAP_GAIN
        return 1 - gains[self.samples.targets.is_binary]

    def _best_gaussian(self, unweighted, unscaled, incumbent_error):
        """Return the Gaussian layer of the best width, the weights after scaling, and the error."""
        unweighted = replace(unweighted, metric="euclidean", kernel=GAUSSIAN)
        weights = self.scaled_weights(unweighted, unscaled)
        layer, distance = self.weighted(unweighted, weights)
        layers = _gaussian_layers(layer, distance, _GAUSSIAN_WIDTHS)
        errors = self.errors(layers)
        error, layer = min(errors), layers[int(np.argmin(errors))]
        if error > _PROMISING * incumbent_error:
            return layer, weights, error
        layer, error = self._select_width(layer, error, [layer.radius / 2, layer.radius * 2])
        return layer, weights, error

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
