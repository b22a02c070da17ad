"""Groups of candidates that share a hidden layer, and their networks and scores.

The statistics of a ridge readout contain those of every smaller network as a leading block, and
serve every penalty, including one that is searched. The distances to the centres of RBF units serve
every kernel and radius. So candidates that differ only in these parameters form one
`CandidateGroup`, as long as smaller networks are prefixes of larger ones, with the same centres.
`solve_group` makes the networks of a group from the statistics, and `score_group` computes their
decision values in one pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from ..data.job import Job
from ..data.streaming import Consumer, cast_layer, stream_layers
from ..engines import Engine
from ..estimators.partial_fit import IncrementalNetwork
from ..kernels import get_kernel
from ..parts.composition import Parts, parts_of
from ..parts.target import TargetSpec
from ..readouts.cross_validation import CVStatistics, make_folds, n_validation_units, select_folds
from ..readouts.linear import LinearPredictor
from ..readouts.penalty_search import PenaltySearchResult, SearchHistory, search_penalty
from ..readouts.uncovered import score_uncovered
from ..utils.parameters import is_option
from .wrappers import last_step, parameter_prefix, with_last_step

# Methods whose results a search computes from shared statistics.
_SHARED_METHODS = (
    "fit", "decision_function", "predict", "predict_proba", "predict_log_proba", "score",
)  # fmt: skip
_PACKAGE = __name__.partition(".")[0]

KernelRadius = tuple[Any, Any]  # (None, None) for units without a kernel


@dataclass
class CandidateGroup:
    """Candidates that differ in the size of the hidden layer, the penalty, kernel or radius."""

    # Not fitted, with the parameters that all have, and the largest of the sizes.
    estimator: Any
    # Candidate number -> its n_hidden and alpha, and its kernel and radius if it has them.
    members: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, candidate: int, estimator: Any) -> None:
        """Add a candidate, with its own estimator."""
        network, widest = last_step(estimator), last_step(self.estimator)
        if (network.n_hidden or 0) > (widest.n_hidden or 0):
            widest.set_params(n_hidden=network.n_hidden)
        names = {"n_hidden", "alpha", "kernel", "radius"} & set(network.get_params(deep=False))
        self.members[candidate] = {name: getattr(network, name) for name in names}

    @property
    def kernels(self) -> list[KernelRadius]:
        """Return the distinct pairs (kernel, radius) of the candidates."""
        return list(dict.fromkeys(map(_kernel_and_radius, self.members.values())))

    @property
    def has_auto(self) -> bool:
        """Return whether some penalties are searched, by the error of held-out samples."""
        return any(is_option(p["alpha"], "auto") for p in self.members.values())

    @property
    def smallest_alpha(self) -> float:
        """Return the smallest penalty that is not searched; infinity without one."""
        alphas = (p["alpha"] for p in self.members.values() if not is_option(p["alpha"], "auto"))
        return min(map(float, alphas), default=float("inf"))

    def layers(self, layer: Any) -> list[Any]:
        """Return the layer with each kernel and radius of the group, in the order of `kernels`."""
        kernels = self.kernels
        if len(kernels) == 1:  # tanh units, or a kernel and a radius that were searched
            return [layer]
        return [replace(layer, kernel=get_kernel(k), radius=float(radius)) for k, radius in kernels]

    def members_with(
        self, kernel: KernelRadius, layer: Any, alpha_scale: float = 1.0
    ) -> list[tuple[int, Any, int]]:
        """Return (units of the layer, penalty, candidate) of the members with this kernel.

        Penalties are divided by `alpha_scale`.
        """

        def penalty(alpha):
            return alpha if is_option(alpha, "auto") else alpha / alpha_scale

        return [
            (layer.width_of(p["n_hidden"]), penalty(p["alpha"]), candidate)
            for candidate, p in self.members.items()
            if _kernel_and_radius(p) == kernel
        ]


def _kernel_and_radius(parameters: dict[str, Any]) -> KernelRadius:
    return parameters.get("kernel"), parameters.get("radius")


def group_candidates(base: Any, candidates: Sequence[dict[str, Any]]) -> list[CandidateGroup]:
    """Return the `CandidateGroup` of each set of candidates that can share passes.

    Candidates are in no group if their network is not one ridge problem of one layer, or if their
    parameters are invalid.
    """
    prefix, groups = parameter_prefix(base), {}
    for number, parameters in enumerate(candidates):
        estimator = clone(base).set_params(**clone(parameters, safe=False))
        network = last_step(estimator)
        if not _is_one_ridge(network):
            continue
        sharing = parts_of(network).units.sharing
        shared = frozenset(prefix + name for name in sharing.parameters)
        fixed = (name for name in sorted(parameters) if name not in shared)
        values = ((name, _identity(parameters[name])) for name in fixed)
        key = shared, sharing.cache_key, *values
        if key not in groups:
            groups[key] = CandidateGroup(clone(estimator))
        groups[key].add(number, estimator)
    return list(groups.values())


def is_network(estimator: Any) -> bool:
    """Return whether it is a classifier or regressor of this package, or a subclass of one."""
    return isinstance(estimator, IncrementalNetwork)


def overrides_methods(estimator: Any) -> bool:
    """Return whether a subclass from outside the package overrides a method that is shared.

    What it fits or predicts is unknown, so that it is fitted like any other estimator. A subclass
    that only has other parameters or additional methods shares its fits.
    """
    methods = (getattr(type(estimator), name, None) for name in _SHARED_METHODS)
    modules = (method.__module__ for method in methods if method is not None)
    return any(module.partition(".")[0] not in (_PACKAGE, "sklearn") for module in modules)


def _is_one_ridge(network: Any) -> bool:
    """Return whether the fit of the network solves one ridge problem of one searchable layer."""
    if not is_network(network) or overrides_methods(network):
        return False
    parts = parts_of(network)
    try:
        parts.check()
    except (TypeError, ValueError):
        return False  # its own fit raises the error
    if parts.units.given_layer is not None:
        return False  # a `layer`, whose size does not depend on the parameters
    if parts.target.target_transform is not None:
        return False  # it is fitted to the y of each training set
    return parts.readout.is_ridge and not parts.readout.leaves_one_out(parts.target)


def _identity(value: Any) -> tuple[str, Any]:
    """Return a hashable key: numbers and strings compare by value, other objects by identity."""
    is_simple = value is None or isinstance(value, (str, bytes, bool, int, float))
    return (type(value).__name__, value) if is_simple else ("object", id(value))


@dataclass(frozen=True)
class GroupFit:
    """The networks of a group that were fitted to the training samples of one split."""

    pipeline: Any = None  # the fitted steps around the network
    networks: dict[int, Any] = field(default_factory=dict)  # by candidate, as its own fit leaves it
    problems: dict[int, str] = field(default_factory=dict)  # by candidate, if ill-conditioned
    # (candidate, hash of the rows) -> decision values (rows, outputs).
    scores: dict[tuple[int, bytes], npt.NDArray[Any]] = field(default_factory=dict)
    # Seconds, in equal shares for each candidate.
    fit_time: float = 0.0
    score_time: float = 0.0
    shared_pass: Any = None  # the pass of these networks, which can score other candidates
    split: int = 0  # the number of the split

    def estimator(self, candidate: int) -> Any:
        """Return the estimator as `fit` of the candidate would have left it."""
        network = self.networks[candidate]
        return network if self.pipeline is None else with_last_step(self.pipeline, network)


def hash_rows(rows: npt.NDArray[np.intp]) -> bytes:
    """Return a hash that identifies an array of row numbers."""
    return blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class NetworkBuilder:
    """Builds the networks of a group, on one layer, from the solutions of their readouts."""

    network: Any  # not fitted
    parts: Parts  # with the units of the largest network, and the targets of the statistics
    target: TargetSpec  # the targets of each network
    engine: Engine
    history: SearchHistory  # of the layer
    mean_weight: float  # of the samples of each network

    def build(
        self,
        layer: Any,
        solution: Any,
        alpha: Any,
        parameters: dict[str, Any],
        loo: Any = None,
        scores: Any = None,
    ) -> Any:
        """Return the network of the leading units of a layer; None if the readout is not finite.

        Parameters
        ----------
        layer : RBFLayer or another layer
        solution : Solution
            The readout; its number of units is the size of the network.
        alpha : float or PenaltySearchResult
            The penalty, or the search that found it.
        parameters : dict
            Those of the candidate.
        loo, scores : SampledLOO and HeldOutScores, optional
            Leave-one-out scores, which calibrate the probabilities.
        """
        n_units = solution.W.shape[1]
        units = self.parts.units.leading(n_units).with_shape_of(layer)
        history = replace(self.history, rows=list(self.history.rows))
        if isinstance(alpha, PenaltySearchResult):
            history.add(units.layer, alpha)
            alpha = alpha.alpha
            alpha_ = alpha * history.alpha_scale
        else:
            alpha_ = float(parameters["alpha"])  # not rounded by the division
        fitted = {"alpha_": alpha_}
        if history.alpha_scale != 1:
            fitted["mean_weight_"] = self.mean_weight
        if loo is not None:
            fitted |= self.parts.target.calibrate(scores, loo.sample, loo.job, loo.layer)
        try:
            readout = self.parts.readout.solved(
                self.engine, solution, self.parts.target, layer.hidden_dtype, **fitted
            )
        except ValueError:
            return None
        network = copy(self.network).set_params(**parameters)
        parts = Parts(units, self.target, readout)
        network._set_fitted(parts, self.engine.name, history.table)
        return network


def solve_group(
    builder: NetworkBuilder,
    group: CandidateGroup,
    layers: Sequence[Any],
    statistics: Iterable[CVStatistics],
    loo_of: Callable[..., Any] | None = None,
    search_of: Callable[..., PenaltySearchResult] | None = None,
) -> tuple[dict[int, Any], dict[int, str]]:
    """Return the networks of a group, and the problems of ill-conditioned ones.

    Parameters
    ----------
    builder : NetworkBuilder
    group : CandidateGroup
    layers : list of layers
        One for each kernel of the group.
    statistics : iterable of CVStatistics
        Of each layer; one at a time is in memory.
    loo_of : callable, optional
        ``loo_of(layer=, statistics=)`` returns a `SampledLOO`, which calibrates the networks, and
        maps the scores of masked classes.
    search_of : callable, optional
        ``search_of(layer, statistics, start, size)`` searches the penalty of the leading units; by
        default by held-out samples.

    Returns
    -------
    networks, problems : dict
        By candidate, as of `GroupFit`.
    """
    networks, problems = {}, {}
    for kernel, layer, of_layer in zip(group.kernels, layers, statistics, strict=True):
        members = group.members_with(kernel, layer, builder.history.alpha_scale)
        start = builder.history.start_for(layer)
        loo = loo_of and loo_of(layer=layer, statistics=of_layer.total)
        search = partial(search_of or _search_held_out, layer, of_layer, start)
        for candidate, solution, alpha, scores in _solve_members(of_layer, members, loo, search):
            parameters = group.members[candidate]
            network = builder.build(layer, solution, alpha, parameters, loo, scores)
            if network is None:
                continue  # its own fit raises the error
            networks[candidate] = network
            if solution.problem:
                problems[candidate] = solution.problem
    return networks, problems


def _solve_members(
    statistics: CVStatistics,
    members: Sequence[tuple[int, Any, int]],
    loo: Any,
    search: Callable[[int], PenaltySearchResult],
) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield (candidate, solution, penalty or its `PenaltySearchResult`, leave-one-out scores).

    One factorisation serves all sizes with the same given penalty. ``search(size)`` searches the
    penalty of the leading units.
    """
    for alpha in dict.fromkeys(alpha for _, alpha, _ in members):
        same_alpha = [(size, candidate) for size, a, candidate in members if a == alpha]
        sizes = sorted({size for size, _ in same_alpha})
        solved: list[tuple[Any, Any, Any]]
        if is_option(alpha, "auto"):
            solved = [_search_and_solve(statistics, size, loo, search) for size in sizes]
        else:
            solved = [
                (solution, float(alpha), scores)
                for solution, scores in _solve_leading(statistics, float(alpha), sizes, loo)
            ]
        by_size = dict(zip(sizes, solved, strict=True))
        yield from ((candidate, *by_size[size]) for size, candidate in same_alpha)


def _solve_leading(
    statistics: CVStatistics, alpha: float, sizes: Sequence[int], loo: Any
) -> Iterable[tuple[Any, Any]]:
    """Return (solution, leave-one-out scores or None) of the leading units of each size."""
    if loo is not None:
        return loo.solve_leading(alpha, sizes)
    return [(solution, None) for solution in statistics.total.solve_leading(alpha, sizes)]


def _search_and_solve(
    statistics: CVStatistics,
    size: int,
    loo: Any,
    search: Callable[[int], PenaltySearchResult],
) -> tuple[Any, PenaltySearchResult, Any]:
    """Return the readout of the leading units, the search of its penalty, and scores or None."""
    result = search(size)
    if loo is None:
        return statistics.total.leading(size).solve(result.alpha), result, None
    solution, scores = loo.solve(result.alpha, n_units=size)
    return solution, result, scores


def _search_held_out(layer, statistics, start, size):
    """Return the search of the penalty of the leading units, by held-out samples."""
    held_out = select_folds(statistics.validation, size)
    folds = make_folds(
        statistics.total, held_out, n_validation_units(size), fold_units=statistics.fold_units
    )
    return search_penalty(folds, start)


def score_group(
    job: Job, group: CandidateGroup, layers: Sequence[Any], X: Any, networks: dict[int, Any]
) -> dict[int, npt.NDArray[Any]]:
    """Return by candidate the decision values of validated samples X, in one pass.

    The readouts of all networks of one size are concatenated to one.
    """
    kernels_and_layers = [
        (kernel, layer)
        for kernel, layer in zip(group.kernels, layers, strict=True)
        if any(candidate in networks for *_, candidate in group.members_with(kernel, layer))
    ]
    kernels, layers = zip(*kernels_and_layers, strict=True)
    layers = [cast_layer(layer, X) for layer in layers]
    readouts = [
        _join_readouts(job.engine, group.members_with(kernel, layer), layer, networks, len(X))
        for kernel, layer in zip(kernels, layers, strict=True)
    ]

    def take(i: int, part: slice, H: Any) -> None:
        for readout in readouts[i]:
            readout.take(part, H)

    row_bytes = max(readout.row_bytes for of_layer in readouts for readout in of_layer)
    stream_layers(job, layers, X, Consumer(take, row_bytes=row_bytes))
    scores: dict[int, npt.NDArray[Any]] = {}
    for layer, of_layer in zip(layers, readouts, strict=True):
        for readout in of_layer:
            readout.score_uncovered(job, layer, X)
            scores.update(readout.by_candidate())
    return scores


def _join_readouts(
    engine: Engine,
    members: Sequence[tuple[int, Any, int]],
    layer: Any,
    networks: dict[int, Any],
    n_rows: int,
) -> list["_JoinedReadout"]:
    """Return a `_JoinedReadout` for each size."""
    by_size: dict[int, dict[int, Any]] = {}
    for size, _, candidate in members:
        if candidate in networks:
            by_size.setdefault(size, {})[candidate] = networks[candidate]
    return [
        _JoinedReadout(engine, by_size[size], layer.hidden_dtype, n_rows)
        for size in sorted(by_size)
    ]


class _JoinedReadout:
    """The readouts of networks of one size, concatenated, and their scores of all samples."""

    def __init__(
        self, engine: Engine, networks: dict[int, Any], dtype: np.dtype, n_rows: int
    ) -> None:
        models = list(networks.values())
        W = np.concatenate([model.readout_coef_ for model in models])
        b = np.concatenate([model.readout_intercept_ for model in models])
        self._size, self._networks = W.shape[1], networks
        nearest = [parts_of(model).nearest_scores for model in models]
        self._nearest = None if nearest[0] is None else np.concatenate(nearest, axis=1)
        self._predictor = LinearPredictor(engine, W, b, dtype, self._nearest is not None)
        self._scores = np.empty((n_rows, len(b)), max(b.dtype, dtype))

    @property
    def row_bytes(self) -> int:
        return self._predictor.row_bytes

    def take(self, part: slice, H: Any) -> None:
        """Score the samples `part`; H has the activations of all units of the layer."""
        self._scores[part] = self._predictor.scores(part, H[:, : self._size])

    def score_uncovered(self, job: Job, layer: Any, X: Any) -> None:
        """Score the samples that no unit of these networks covers by the nearest unit."""

        def take(rows: Any, scores: npt.NDArray[Any]) -> None:
            self._scores[rows] = scores

        leading, rows = layer.part(slice(self._size)), self._predictor.uncovered
        score_uncovered(job, leading, X, rows, self._nearest, take)

    def by_candidate(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Return (candidate, scores) of each network."""
        parts = np.split(self._scores, len(self._networks), axis=1)
        return zip(self._networks, parts, strict=True)
