"""The networks of a group from their statistics, and their scores, all at once."""

from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.pipeline import Pipeline

from ..layers import RBFLayer
from ..readouts.linear import LinearReadout
from ..rows.streaming import Consumer, compute_dtype, stream_all


@dataclass(frozen=True)
class Fitted:
    """The networks of a group that were trained on one split.

    Attributes
    ----------
    pipeline : Pipeline or None
        Its fitted steps come before the network.
    networks : dict
        Candidate -> the classifier that its own fit would have given.
    problems : dict
        Candidate -> what was wrong with its equations.
    scores : dict
        (candidate, key of the rows) -> decision values (rows, outputs).
    fit_time, score_time : float
        Seconds, in equal shares for each candidate.
    """

    pipeline: Pipeline | None = None
    networks: dict = field(default_factory=dict)
    problems: dict = field(default_factory=dict)
    scores: dict = field(default_factory=dict)
    fit_time: float = 0.0
    score_time: float = 0.0

    def estimator(self, candidate):
        """What `fit` of the candidate would have left."""
        network = self.networks[candidate]
        return network if self.pipeline is None else with_last_step(self.pipeline, network)


def key_of(rows):
    """What tells sets of rows apart."""
    return rows.tobytes()


def with_last_step(pipeline, last):
    """The pipeline with another last step."""
    other = copy(pipeline)
    other.steps = [*pipeline.steps[:-1], (pipeline.steps[-1][0], last)]
    return other


def layers_of(group, network, layer):
    """The layer at each radius of the group, in the order of ``group.radii``."""
    if not isinstance(layer, RBFLayer):
        return [layer]
    numbers = (network.radius_ if isinstance(r, str) else float(r) for r in group.radii)
    return [replace(layer, radius=radius) for radius in numbers]


def solve(engine, group, network, layers, statistics):
    """The networks that the statistics of each layer give, and their problems.

    Returns
    -------
    networks, problems : dict
        As of `Fitted`.
    """
    networks, problems = {}, {}
    for radius, layer, of_layer in zip(group.radii, layers, statistics, strict=True):
        members = group.at_radius(radius, layer.n_units)
        for candidate, alpha, solution in _solutions(of_layer, members):
            model = _network(engine, network, layer, solution)
            if model is None:
                continue  # its own fit will say why
            vars(model).update(group.members[candidate], alpha_=alpha)
            networks[candidate] = model
            if solution.problem:
                problems[candidate] = solution.problem
    return networks, problems


def _solutions(statistics, members):
    """(candidate, alpha, solution) of each, by one factorisation for each penalty."""
    for alpha in dict.fromkeys(alpha for _, alpha, _ in members):
        here = [(size, candidate) for size, a, candidate in members if a == alpha]
        sizes = sorted({size for size, _ in here})
        found = dict(zip(sizes, statistics.solve_leading(alpha, sizes), strict=True))
        yield from ((candidate, alpha, found[size]) for size, candidate in here)


def _network(engine, network, layer, solution):
    """The classifier with the first units of the layer and that readout; None if not finite."""
    model = network._leading(solution.W.shape[1])
    if isinstance(layer, RBFLayer):
        model.radius_ = layer.radius
    try:
        model._set_readout(engine, solution, layer.hidden_dtype)
    except ValueError:
        return None
    return model


def score(job, group, layers, X, networks):
    """Candidate -> its decision values for rows X, in one pass for all of them.

    Networks of one size meet H together, as one readout.

    Parameters
    ----------
    job : Job
    X : array-like
        Clean rows.
    networks : dict
        As of `Fitted`.
    """
    dtype = compute_dtype(layers[0].units.dtype, X.dtype)
    layers = [layer.astype(dtype) for layer in layers]
    readouts = [
        _readouts(job.engine, group.at_radius(radius, layer.n_units), layer, networks, len(X))
        for radius, layer in zip(group.radii, layers, strict=True)
    ]

    def take(i, part, H):
        for readout in readouts[i]:
            readout.take(part, H)

    row_bytes = max((r.row_bytes for each in readouts for r in each), default=0)
    stream_all(job, layers, X, Consumer(take, row_bytes=row_bytes))
    found = {}
    for layer, each in zip(layers, readouts, strict=True):
        for readout in each:
            readout.answer_outside(job, layer, X)
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
    """The readouts of the networks of one size, side by side.

    Parameters
    ----------
    networks : dict
        Candidate -> classifier.
    """

    def __init__(self, engine, networks, dtype, n_rows):
        models = list(networks.values())
        W = np.concatenate([model.readout_coef_ for model in models])
        b = np.concatenate([model.readout_intercept_ for model in models])
        self._size, self._networks = W.shape[1], networks
        self._readout = LinearReadout(engine, W, b, dtype, models[0]._rows_may_be_outside)
        self._scores = np.empty((n_rows, len(b)), dtype)

    @property
    def row_bytes(self):
        return self._readout.row_bytes

    def take(self, part, H):
        """The rows `part` of H, of all units of the layer."""
        self._scores[part] = self._readout.scores(part, H[:, : self._size])

    def answer_outside(self, job, layer, X):
        """Rows that no unit answers are answered by the nearest, at every penalty."""
        network = next(iter(self._networks.values()))

        def answer(rows, targets):
            self._scores[rows] = np.tile(targets, len(self._networks))

        first = layer.part(slice(self._size))
        network._answer_outside(job, first, X, self._readout.outside, answer)

    def by_candidate(self):
        """(candidate, scores) of each network."""
        parts = np.split(self._scores, len(self._networks), axis=1)
        return zip(self._networks, parts, strict=True)
