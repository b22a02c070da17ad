"""The networks of a group from their statistics, and their scores, all at once."""

from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
from sklearn.base import clone

from ..data.streaming import Consumer, cast_layer, stream_all
from ..engines import Engine
from ..estimators.incremental import Online
from ..estimators.readouts import nearest_outputs
from ..kernels import kernel_of
from ..parts import Parts, TargetSpec, parts_of
from ..readouts.cross_validation import (
    PenaltySearchResult,
    SearchHistory,
    folds_for,
    folds_of,
    n_validation_units,
    search_penalty,
)
from ..readouts.linear import LinearReadout, score_uncovered
from ..utils.parameters import is_word
from .wrappers import last_step, prefix_of, with_last_step

# Which candidates of a search share their work.
#
# The statistics of a network contain those of every smaller one as a leading block, and
# serve every penalty, one that is to be found too; the distances behind RBF units serve every
# kernel and radius that are given. So candidates that differ in nothing else are one group, as
# long as smaller networks are prefixes of larger, on the same centres.


@dataclass
class Group:
    """Candidates that differ in the size of the hidden layer, the penalty, kernel or radius."""

    # Not fitted, with the parameters that all have, and the largest of the sizes.
    estimator: object
    # Number of the candidate -> its parameters n_hidden, alpha, and kernel and radius if it has
    # them.
    members: dict = field(default_factory=dict)

    def add(self, candidate, estimator):
        """Take a candidate in, with its own estimator."""
        network, widest = last_step(estimator), last_step(self.estimator)
        if (network.n_hidden or 0) > (widest.n_hidden or 0):
            widest.set_params(n_hidden=network.n_hidden)
        names = {"n_hidden", "alpha", "kernel", "radius"} & set(network.get_params(deep=False))
        self.members[candidate] = {name: getattr(network, name) for name in names}

    @property
    def shapes(self):
        """(kernel, radius) that occur, each once; (None, None) for units that have none."""
        return list(dict.fromkeys(map(_shape, self.members.values())))

    @property
    def has_auto(self):
        """Whether there are penalties to be found by held-out error."""
        return any(is_word(p["alpha"], "auto") for p in self.members.values())

    @property
    def smallest_alpha(self):
        """Return the smallest penalty that is given; infinity where none is."""
        given = (p["alpha"] for p in self.members.values() if not is_word(p["alpha"], "auto"))
        return min(map(float, given), default=float("inf"))

    def of_shape(self, shape, layer):
        """(columns of the layer, alpha, candidate) of the members with a shape."""
        return [
            (layer.width_of(p["n_hidden"]), p["alpha"], candidate)
            for candidate, p in self.members.items()
            if _shape(p) == shape
        ]


def _shape(parameters):
    return parameters.get("kernel"), parameters.get("radius")


def group_candidates(base, candidates):
    """Return the `Group` of candidates that share something.

    Those in none of them have a network whose readout is not one ridge, or that cannot be fitted
    at all.
    """
    prefix, groups = prefix_of(base), {}
    for number, parameters in enumerate(candidates):
        estimator = clone(base).set_params(**clone(parameters, safe=False))
        network = last_step(estimator)
        if not _has_one_ridge(network):
            continue
        sharing = parts_of(network).units.sharing
        shared = frozenset(prefix + name for name in sharing.parameters)
        fixed = (name for name in sorted(parameters) if name not in shared)
        values = ((name, _identity(parameters[name])) for name in fixed)
        key = shared, sharing.key, *values
        if key not in groups:
            groups[key] = Group(clone(estimator))
        groups[key].add(number, estimator)
    return list(groups.values())


def is_network(estimator):
    """Whether it is a classifier or regressor that is put together from parts."""
    return isinstance(estimator, Online)


def _has_one_ridge(network):
    """Whether to fit the network is to solve one ridge problem of one layer."""
    if is_changed(type(network)):
        return False  # what it does is its own
    parts = parts_of(network)
    try:
        parts.check()
    except (TypeError, ValueError):
        return False  # its own fit will say so
    if parts.units.given is not None:
        return False  # its size is not that of the parameters
    return parts.readout.is_ridge and not parts.readout.leaves_one_out(parts.task)


def is_changed(kind):
    """Whether a class does anything in another way than the one that names its parts."""
    own = next((c for c in kind.__mro__ if "_parts" in vars(c)), object)
    above = kind.__mro__[: kind.__mro__.index(own)]
    # scikit-learn gives each class set_..._request of its own.
    names = (n for c in above for n in vars(c) if not n.startswith(("__", "_abc_", "set_")))
    return not issubclass(own, Online) or any(hasattr(own, name) for name in names)


def _identity(value):
    """Numbers and strings are equal by value, other objects if they are the same one."""
    simple = value is None or isinstance(value, (str, bytes, bool, int, float))
    return (type(value).__name__, value) if simple else ("object", id(value))


@dataclass(frozen=True)
class Fitted:
    """The networks of a group that were trained on one split."""

    # What is fitted and stands around the network.
    pipeline: object = None
    # Candidate -> the network that its own fit would have given.
    networks: dict = field(default_factory=dict)
    problems: dict = field(default_factory=dict)  # candidate -> what was wrong with its equations
    # (candidate, key of the rows) -> decision values (rows, outputs).
    scores: dict = field(default_factory=dict)
    # Seconds, in equal shares for each candidate.
    fit_time: float = 0.0
    score_time: float = 0.0
    work: object = None  # what they came from, to make other decision values
    split: int = 0  # the number of the split

    def estimator(self, candidate):
        """What `fit` of the candidate would have left."""
        network = self.networks[candidate]
        return network if self.pipeline is None else with_last_step(self.pipeline, network)


def key_of(rows):
    """What tells sets of rows apart."""
    return blake2b(np.ascontiguousarray(rows), digest_size=16).digest()


def layers_of(group, layer):
    """The layer in each shape of the group, in the order of ``group.shapes``."""
    shapes = group.shapes
    if len(shapes) == 1:  # tanh units have no more, nor has what is "auto"
        return [layer]
    return [replace(layer, kernel=kernel_of(k), radius=float(radius)) for k, radius in shapes]


@dataclass(frozen=True, eq=False)
class Common:
    """What the networks of a group have in common."""

    network: object  # not fitted
    parts: Parts  # with the units of the largest, and the task that the sums are of
    task: TargetSpec  # what each network knows of y
    engine: Engine
    history: SearchHistory  # what was tried for the layer

    def with_readout(self, layer, solution, found, parameters, loo=None, scores=None):
        """The network with the first units of a layer and a readout; None if that is not finite.

        Parameters
        ----------
        found : float or Found
            The penalty, or how it was found.
        parameters : dict
            Those of the candidate.
        loo, scores : SampledLOO and LOOScores, optional
            Leave-one-out scores that calibrate it, if probabilities are needed.
        """
        units, task = self.parts.units.leading(solution.W.shape[1]), self.parts.task
        units = units.shaped(layer)
        history = SearchHistory(self.history.start, list(self.history.rows))
        if isinstance(found, PenaltySearchResult):
            history.add(units.layer, found)
            found = found.alpha
        readout, dtype, more = self.parts.readout, layer.hidden_dtype, {"alpha_": found}
        if loo is not None:
            b = self.engine.to_host(solution.b)
            nearest = nearest_outputs(units, task, b, found)
            more |= task.calibrated(loo.fill_uncovered(scores, nearest), loo.sample)
        try:
            readout = readout.solved(self.engine, solution, task, dtype, **more)
        except ValueError:
            return None
        model = copy(self.network)
        vars(model).update(parameters)
        parts = Parts(units, self.task, readout)
        model._set_fitted(parts, self.engine.name, history.table)
        return model


def solve(common, group, layers, sums, loo_of=None):
    """The networks that the `Sums` of each layer give, and their problems.

    Parameters
    ----------
    common : Common
    sums : iterable of Sums
    loo_of : callable, optional
        ``loo_of(layer=, statistics=)`` is an `SampledLOO`, where there are to be probabilities.

    Returns
    -------
    networks, problems : dict
        As of `Fitted`.
    """
    networks, problems = {}, {}
    for shape, layer, of_layer in zip(group.shapes, layers, sums, strict=True):
        members, start = group.of_shape(shape, layer), common.history.first_alpha(layer)
        loo = loo_of and loo_of(layer=layer, statistics=of_layer.total)
        for candidate, solution, found, scores in _solutions(of_layer, members, start, loo):
            parameters = group.members[candidate]
            model = common.with_readout(layer, solution, found, parameters, loo, scores)
            if model is None:
                continue  # its own fit will say why
            networks[candidate] = model
            if solution.problem:
                problems[candidate] = solution.problem
    return networks, problems


def _solutions(sums, members, start, loo):
    """(candidate, solution, penalty or what was found, leave-one-out scores if any) of each.

    One factorisation for each penalty that is given; those to be found begin at `start`.
    """
    for alpha in dict.fromkeys(alpha for _, alpha, _ in members):
        here = [(size, candidate) for size, a, candidate in members if a == alpha]
        sizes = sorted({size for size, _ in here})
        if is_word(alpha, "auto"):
            pairs = [_found(sums, size, start, loo) for size in sizes]
        else:
            pairs = [
                (solution, float(alpha), scores)
                for solution, scores in _solve_leading(sums, float(alpha), sizes, loo)
            ]
        by_size = dict(zip(sizes, pairs, strict=True))
        yield from ((candidate, *by_size[size]) for size, candidate in here)


def _solve_leading(sums, alpha, sizes, loo):
    """(solution, leave-one-out scores if any) of the leading units of each size."""
    if loo is not None:
        return loo.solve_leading(alpha, sizes)
    return [(solution, None) for solution in sums.total.solve_leading(alpha, sizes)]


def _found(sums, size, start, loo):
    """The readout of the first units with the penalty that is found for them, how, and scores."""
    held = folds_for(sums.held, size)
    found = search_penalty(folds_of(sums.total, held, n_validation_units(size)), start)
    if loo is None:
        return sums.total.leading(size).solve(found.alpha), found, None
    solution, scores = loo.solve(found.alpha, n_units=size)
    return solution, found, scores


def score(job, group, layers, X, networks):
    """Return by candidate its decision values for clean rows X, in one pass for all `networks`.

    Networks of one size meet H together, as one readout.
    """
    pairs = [
        (shape, layer)
        for shape, layer in zip(group.shapes, layers, strict=True)
        if any(candidate in networks for *_, candidate in group.of_shape(shape, layer))
    ]
    shapes, layers = zip(*pairs, strict=True)
    layers = [cast_layer(layer, X) for layer in layers]
    readouts = [
        _readouts(job.engine, group.of_shape(shape, layer), layer, networks, len(X))
        for shape, layer in zip(shapes, layers, strict=True)
    ]

    def take(i, part, H):
        for readout in readouts[i]:
            readout.take(part, H)

    row_bytes = max(r.row_bytes for each in readouts for r in each)
    stream_all(job, layers, X, Consumer(take, row_bytes=row_bytes))
    found = {}
    for layer, each in zip(layers, readouts, strict=True):
        for readout in each:
            readout.score_uncovered(job, layer, X)
            found.update(readout.by_candidate())
    return found


def _readouts(engine, members, layer, networks, n_rows):
    """A `_Readout` for each size."""
    by_size = {}
    for size, _, candidate in members:
        if candidate in networks:
            by_size.setdefault(size, {})[candidate] = networks[candidate]
    return [_Readout(engine, by_size[size], layer.hidden_dtype, n_rows) for size in sorted(by_size)]


class _Readout:
    """The readouts of the networks of one size, by candidate, side by side."""

    def __init__(self, engine, networks, dtype, n_rows):
        models = list(networks.values())
        W = np.concatenate([model.readout_coef_ for model in models])
        b = np.concatenate([model.readout_intercept_ for model in models])
        self._size, self._networks = W.shape[1], networks
        nearest = [parts_of(model).nearest_scores for model in models]
        self._nearest = None if nearest[0] is None else np.concatenate(nearest, axis=1)
        self._readout = LinearReadout(engine, W, b, dtype, self._nearest is not None)
        self._scores = np.empty((n_rows, len(b)), max(b.dtype, dtype))

    @property
    def row_bytes(self):
        return self._readout.row_bytes

    def take(self, part, H):
        """The rows `part` of H, of all units of the layer."""
        self._scores[part] = self._readout.scores(part, H[:, : self._size])

    def score_uncovered(self, job, layer, X):
        """Score the rows that no unit covers by the nearest of the units that there are."""

        def take(rows, scores):
            self._scores[rows] = scores

        first, rows = layer.part(slice(self._size)), self._readout.uncovered
        score_uncovered(job, first, X, rows, self._nearest, take)

    def by_candidate(self):
        """(candidate, scores) of each network."""
        parts = np.split(self._scores, len(self._networks), axis=1)
        return zip(self._networks, parts, strict=True)
