"""Selection of feature weights, kernel, width and metric of RBF units by validation error.

With many samples, one split into training and validation samples selects them: see `proxy_search`.
With few, the error on the validation samples of one split depends on chance. Each of several splits
selects, all of them evaluate what was selected, and the lowest mean error decides. Weights are the
mean of those that were learned on each split, and radii are multiples of the natural radius.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..engines.threads import limit_blas_threads
from ..kernels import LAPLACIAN, Kernel
from ..readouts.penalty_search import SearchHistory
from .centers import START_ALPHA, RBFParameters
from .proxy_networks import FEW_UNITS, MIN_PREDICTED
from .proxy_search import Candidate, FeatureWeights, ProxySearch, SelectedWeights

# Feature weights other than the best are selected for tanh units only if the error of smooth units
# is less than this multiple of that of the best.
_SMOOTH_FACTOR = 0.9


@dataclass(frozen=True)
class SearchSpace:
    """The candidates.

    Parameters
    ----------
    kernels : tuple of Kernel
        A single one is given.
    radius : float or None
        None if it has to be selected.
    weights_method : {"learned", "refined", "map"} or None
        How feature weights, or a linear map, are learned: candidates in addition to the given ones.
        "refined" selects weights that minimise a leave-one-out error, whatever their validation
        error.
    tries_gaussian : bool, default=False
        Whether Gaussian units of Euclidean distances are a candidate, whatever the metric of the
        others.
    tries_map : bool, default=False
        Whether Gaussian units after a linear map are one, too.
    """

    kernels: tuple[Kernel, ...]
    radius: float | None
    weights_method: str | None = None
    tries_gaussian: bool = False
    tries_map: bool = False

    @property
    def has_given_layer(self) -> bool:
        """Whether nothing but weights is left to select."""
        return len(self.kernels) == 1 and self.radius is not None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to select."""
        return self.has_given_layer and not self.weights_method


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


@limit_blas_threads(1)  # once, and not in each of thousands of calls
def select_units(
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
        For each split, (metric, is_refined) -> `SelectedWeights` that were found for the same
        samples before. They are used instead of learning them again; new ones are added.
    """
    if space.is_empty:
        radius: Any = space.radius
        return SelectedUnits(parameters.selection_metric, space.kernels[0], radius, weights)
    job = job.named(f"{job.description}, choice")
    splits = [
        _UnitSplit(proxy, parameters, weights, space, generator)
        for proxy, generator in ProxySearch.of_splits(job, samples, random, history, shared)
    ]
    if len(splits) == 1:
        return splits[0].selected_units
    choice, errors = _best_over_splits(splits)
    found = _mean_weights([split.weights_of(choice.kind) for split in splits])
    layer, scaled = splits[0].layer_of(choice, found.weights)
    trained = [(split.layer_of_choice(choice), split.proxy.history) for split in splits]
    for _, of_split in trained:
        history.rows += of_split.rows
    if not space.has_given_layer:  # else Laplacian units were evaluated in its place
        history.add_mean(layer, trained, errors)
    return SelectedUnits(layer.metric, layer.kernel, layer.radius, scaled, found.importances)


@limit_blas_threads(1)  # see `select_units`
def select_feature_weights(
    job: Job,
    samples: Samples,
    random: np.random.Generator,
    shared: dict[Any, Any] | None,
    method: str,
    tries_map: bool,
) -> FeatureWeights:
    """Return feature weights, or a linear map, for units other than RBF units.

    Weights are learned, equalising, or None: the candidate with the lowest validation error of
    Laplacian units, but not those learned from few samples if smooth units are clearly better
    without; or refined ones, if smooth units are better, too. Weights of the method "refined" are
    refined in any case. A linear map continues them: with the method "map", or with `tries_map` if
    smooth units are clearly better. Other parameters are as in `select_units`.
    """
    job = job.named(f"{job.description}, weights")
    history = SearchHistory(START_ALPHA)
    splits = [
        _WeightSplit(proxy, generator, method, tries_map)
        for proxy, generator in ProxySearch.of_splits(job, samples, random, history, shared)
    ]
    kind = splits[0].choice if len(splits) == 1 else _best_over_splits(splits)[0]
    return _mean_weights([split.weights_of(kind) for split in splits])


class _Choice(NamedTuple):
    """Hyperparameters that one split selects, and others evaluate.

    Parameters
    ----------
    kind : str
        Of the weights: as of `Candidate`.
    metric : str
    kernel : Kernel
    width : float
        Multiple of the natural radius.
    """

    kind: str
    metric: str
    kernel: Kernel
    width: float


class _Split:
    """The feature weights that are found on one split of the samples, by kind."""

    proxy: ProxySearch
    weights: SelectedWeights
    map: FeatureWeights | None = None

    def weights_of(self, kind):
        """Return the weights of a kind that were found, or the most similar ones."""
        if kind != "map":
            return self.weights.of(kind)
        if self.map:
            return self.map
        weights, importances = self.weights.of("refined")
        assert weights is not None  # they are learned
        return FeatureWeights(np.diag(weights), importances)

    def penalised_error_of(self, choice, error):
        """Return an error relative to that of the mean; that of learned weights must be lower."""
        kind = getattr(choice, "kind", choice)
        is_learned = kind not in self.weights.unlearned_kinds
        factor = self.proxy.required_factor if is_learned else 1.0
        return error / (self.proxy.mean_error or 1.0) / factor


class _UnitSplit(_Split):
    """The selection of RBF units on one split, and the errors of what other splits select."""

    def __init__(self, proxy, parameters, given, space, random):
        self.proxy, self.parameters, self.space = proxy, parameters, space
        self.weights, self.kind = SelectedWeights.only(given), "given"
        if space.weights_method is not None:
            self._select_weights(given, random)
        weights = self.weights_of(self.kind).weights
        self.unweighted = proxy.center_layer(parameters, weights, parameters.n_units)
        self.best = self._select_units(weights, random)

    def _select_weights(self, given, random):
        proxy, parameters, method = self.proxy, self.parameters, self.space.weights_method
        seed = int(random.integers(2**31))
        self.weights = proxy.select_weights(parameters, given, seed, method == "refined")
        self.kind = self.weights.best_or_refined
        if method == "map":
            self.map = proxy.better_map(parameters, self.weights_of(self.kind).weights, random)
            self.kind = "map" if self.map else self.kind

    def _select_units(self, weights, random):
        """Return the best candidate; `weights` are those of Manhattan distances."""
        proxy, space, by_kind = self.proxy, self.space, {self.kind: weights}
        if self.kind == "refined" and LAPLACIAN in space.kernels:
            # The weights minimise the error of Laplacian units.
            space = replace(space, kernels=(LAPLACIAN,))
        layer, error = proxy.select_layer(self.unweighted, weights, space)
        candidates = [Candidate(layer, weights, self.kind)]
        if space.tries_gaussian:
            if proxy.has_few_samples and space.weights_method is not None:
                unlearned = self.weights.unlearned
                by_kind[unlearned] = self.weights_of(unlearned).weights
            candidates += proxy.gaussian_candidates(self.unweighted, by_kind, error)
        if space.tries_map:
            self.map = proxy.learn_map(weights, random)
            if self.map:
                candidates.append(proxy.map_candidate(self.unweighted, self.map.weights))
        return proxy.best_of_large(candidates, self.parameters.n_units)

    @property
    def selected_units(self):
        layer, kind = self.best.layer, self.best.kind
        # Of what was learned, even if other weights were selected.
        importances = self.weights_of(kind if kind == "map" else self.kind).importances
        return SelectedUnits(
            layer.metric, layer.kernel, layer.radius, self.best.weights, importances
        )

    @property
    def choice(self):
        layer, kind = self.best.layer, self.best.kind
        natural, _ = self._natural_layer(layer.metric, layer.kernel, self.weights_of(kind).weights)
        # Rounded, so that equal widths of several splits are the same choice.
        width = float(f"{layer.radius / natural.radius:.6g}")
        return _Choice(kind, layer.metric, layer.kernel, width)

    @property
    def first_choices(self):
        """Return the candidates if nothing is predicted: the first kernel and width."""
        metric, kernel = self.parameters.selection_metric, self.space.kernels[0]
        kinds = (
            [self.kind] if self.space.weights_method == "refined" else self.weights.unlearned_kinds
        )
        return [_Choice(kind, metric, kernel, kernel.widths[0]) for kind in kinds]

    def error_of(self, choice):
        """Return the validation error."""
        if self.space.has_given_layer:
            # Networks of the size that compared the weights: it does not depend on `n_units`.
            return self._error_by_weights(self.weights_of(choice.kind).weights)
        (error,) = self.proxy.errors([self.layer_of_choice(choice)])
        return error

    def layer_of_choice(self, choice):
        """Return the proxy layer of a choice with the weights of this split."""
        layer, _ = self.layer_of(choice, self.weights_of(choice.kind).weights)
        return layer

    def layer_of(self, choice, weights):
        """Return the proxy layer of a choice with some weights, and the weights after scaling."""
        layer, weights = self._natural_layer(choice.metric, choice.kernel, weights)
        given = self.space.radius
        radius = choice.width * layer.radius if given is None else given
        return replace(layer, radius=float(radius)), weights

    @cached_property
    def _error_by_weights(self):
        return self.proxy.error_by_weights(self.parameters, self.weights.of("given").weights)

    def _natural_layer(self, metric, kernel, weights):
        """Return the layer with its natural radius, and the weights after scaling."""
        unweighted = replace(self.unweighted, metric=metric, kernel=kernel)
        if metric != self.parameters.selection_metric:  # Gaussian units
            weights = self.proxy.scaled_weights(unweighted, weights)
        layer, distance = self.proxy.weighted(unweighted, weights)
        return replace(layer, radius=kernel.natural_radius(distance)), weights


class _WeightSplit(_Split):
    """The selection of weights for tanh units on one split, and the errors of other kinds."""

    def __init__(self, proxy, random, method, tries_map):
        seed, centers_seed = map(int, random.integers(2**31, size=2))
        self.proxy = proxy
        self.parameters = RBFParameters(
            n_units=FEW_UNITS, selection="random", kernel=LAPLACIAN, random_state=centers_seed
        )
        self.weights = proxy.select_weights(self.parameters, None, seed, method == "refined")
        if method == "refined" and self.weights.has_refined:
            self.choice, self.first_choices = "refined", ["refined"]
            return
        self.choice, self.first_choices = self._select_kind(), self.weights.unlearned_kinds
        if method == "map" or tries_map:
            selected = self.weights_of(self.choice).weights
            self.map = proxy.learn_map(selected, random, is_required=method == "map")
            if self.map and (method == "map" or self._is_map_better()):
                self.choice = "map"

    def _select_kind(self):
        """Return the best kind of weights, without a map."""
        weights = self.weights
        others = ["refined"] if weights.has_refined else []
        if weights.best != weights.unlearned and self.proxy.has_few_samples:
            others.append(weights.unlearned)
        error = self.error_of(weights.best) if others else 0.0
        for kind in others:
            if self.error_of(kind) < _SMOOTH_FACTOR * error:
                return kind
        return weights.best

    def _is_map_better(self):
        without, with_map = (self.error_of(kind) for kind in (self.choice, "map"))
        return with_map < self.proxy.map_factor * without

    def error_of(self, kind):
        """Return the validation error of smooth units."""
        return self.proxy.smooth_error(self.parameters, self.weights_of(kind).weights)


def _best_over_splits(splits):
    """Return the choice with the lowest mean error over the splits, and its errors.

    The validation samples of one split are few, and what they select depends on chance.
    """
    choices = [split.choice for split in splits]
    best, errors, is_predictive = _best_of(choices, splits)
    if not is_predictive:  # differences between errors are noise
        best, errors, _ = _best_of(splits[0].first_choices, splits)
    return best, errors


def _best_of(choices, splits):
    """Return the best choice, its error on each split, and whether it predicts anything."""
    distinct = [choice for i, choice in enumerate(choices) if choice not in choices[:i]]
    errors = [[split.error_of(choice) for split in splits] for choice in distinct]
    # Relative to the mean of the targets: splits with outliers would decide alone.
    relative = [
        np.mean([
            split.penalised_error_of(choice, error)
            for split, error in zip(splits, row, strict=True)
        ])
        for choice, row in zip(distinct, errors, strict=True)
    ]  # fmt: skip
    best = int(np.argmin(relative))
    return distinct[best], errors[best], relative[best] < 1 - MIN_PREDICTED


def _mean_weights(found):
    """Return the mean of the weights that several splits found, and of their importances.

    Each has a maximum of 1, and so has the result. Linear maps are symmetric positive semidefinite
    in features of equal standard deviations, and the mean of such square roots is one, too (root
    Euclidean mean; I. L. Dryden, A. Koloydenko and D. Zhou, Annals of Applied Statistics 3, 2009).
    """
    if len(found) == 1:
        return found[0]
    weights, importances = found[0]
    if weights is not None:
        weights = _scaled(np.mean([_scaled(each.weights) for each in found], axis=0))
    if importances is not None:
        importances = np.mean([each.importances for each in found], axis=0)
    return FeatureWeights(weights, importances)


def _scaled(weights):
    return weights / np.abs(weights).max()
