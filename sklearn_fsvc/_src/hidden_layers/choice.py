"""Feature weights, kernel and width of RBF units, by the held-out error of small networks.

The networks see some of the rows and stand on some of those. What they find is taken for
the whole layer: on 24 tables, the same choice with all centres and all rows did no better.
A small network never has more units than the layer, for few units want to be wide; how many
more the layer has makes no difference.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..data.job import Job
from ..data.map_reduce import Sharded
from ..data.samples import Samples
from ..data.sources import Source
from ..data.tiling import check_fits, count_fitting
from ..data.validation import is_wide, keeps_distances
from ..engines.algebra import HOST
from ..kernels import LAPLACIAN
from ..readouts.cross_validation import SearchHistory, hold_out, search_penalty
from ..readouts.ridge import gather_coarse
from ..readouts.statistics import RidgeStatistics
from .centers import RBFRequest, fit_layer
from .feature_weights import learn
from .linear_map import learn as learn_map
from .novelty import OrderedRows
from .radius import typical_distance

# Rows and centres of a small network, at most, and centres for few rows. Up to 4000 rows of 26
# tables 450 centres choose as well as 600; 400 lost half a point of two. More rows take longer
# anyway, and more centres choose better: 450 took the wrong kernel for 60,000 images.
_ROWS, UNITS, _FEW_UNITS = 6000, 800, 450
# All rows for one centre, between the two.
_ROWS_OF_UNIT = 9
# Rows for which it is not worth to compile loops in float32, too.
_FEW = 1000
# Centres of a small network, as a part of its rows.
_PART = 0.3
# Novelty need not find them all: each pass of its search costs more than they are worth.
_FILLED = 0.75
# Another penalty would hardly lower an error by more than this factor.
_SKIP_FACTOR = 1.1
# Widths beyond those that are tried at first.
_MOST_STEPS = 8
# The penalty that is tried first, of Laplacian units.
_ALPHA = 0.1
# Layers whose statistics are gathered in one pass, at most.
_AT_A_TIME = 8


@dataclass(frozen=True)
class SearchSpace:
    """What is given, and what is to be chosen.

    Parameters
    ----------
    kernels : tuple of Kernel
        The candidates; one is no choice.
    radius : float or None
        None is to be chosen.
    learns : bool
        Whether feature weights are learned, and taken if they are better than those of the
        request.
    maps : bool
        Whether a linear map of the features is learned, in the same way.
    """

    kernels: tuple
    radius: float | None
    learns: bool
    maps: bool = False

    @property
    def are_none(self):
        """Whether all is given."""
        is_learned = self.learns or self.maps
        return len(self.kernels) == 1 and self.radius is not None and not is_learned


def choose(job, samples, request, space, random, history, shared=None):
    """Kernel, radius and feature weights, as they were wished.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets.
    request : RBFRequest
        Says how centres are selected.
    space : SearchSpace
    random : numpy.random.Generator
    trials : SearchHistory
        Takes in what is tried.
    shared : dict, optional
        Metric -> feature weights that were learned from the same samples: they are not learned
        again, and what is learned is added.

    Returns
    -------
    kernel : Kernel
    radius : float
    weights : ndarray of shape (n_features,) or None
        Or a linear map, of shape (n_features, n_features).
    """
    if space.are_none:
        return space.kernels[0], space.radius, request.weights
    probe = _Probe.of(job.named(f"{job.what}, choice"), samples, random, history, shared)
    weights = request.weights
    if space.learns or space.maps:
        seed = int(random.integers(2**31))
        weights = probe.better_weights(request, seed, space.learns, space.maps)
    best = probe.best(replace(request, weights=weights), space)
    return best.kernel, best.radius, weights


def better_weights(job, samples, random, shared=None):
    """Feature weights for units of another kind: learned, of equal spread, or None.

    Those with the least held-out error in small networks of Laplacian units.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets.
    random : numpy.random.Generator
    shared : dict, optional
        As of `choose`.

    Returns
    -------
    ndarray of shape (n_features,) or None
    """
    probe = _Probe.of(
        job.named(f"{job.what}, weights"), samples, random, SearchHistory(_ALPHA), shared
    )
    seed, other = map(int, random.integers(2**31, size=2))
    request = RBFRequest(
        "n_hidden", _FEW_UNITS, "auto", None, 1.0, "random", "manhattan", LAPLACIAN, True, other
    )
    return probe.better_weights(request, seed)


@dataclass(frozen=True, eq=False)
class _Probe:
    """The rows that small networks see.

    Parameters
    ----------
    job : Job
    samples : Samples
        All of them; in the order of presentation, those that networks are trained on.
    kept, held : ndarray of int
        The rows that networks are trained on, and others.
    trials : SearchHistory
    shared : dict
        Weights by metric, see `choose`.
    n_rows : int
        All rows that count, of which these are some.
    """

    job: Job
    samples: Samples
    kept: np.ndarray
    held: np.ndarray
    history: SearchHistory
    shared: dict
    n_rows: int

    @classmethod
    def of(cls, job, samples, random, history, shared=None):
        present = samples.present
        kept, held = hold_out(random.permutation(present)[:_ROWS], random)
        order, history.n_rows = random.permutation(kept), len(kept)
        job, X = job.single_device(), samples.X
        is_read = isinstance(X, Source) and not X.is_in_memory
        dtype = _dtype(X, len(kept) + len(held), job.memory_limit)
        if is_read or isinstance(X, Sharded) or dtype:  # rows are met dozens of times: taken once
            rows = np.sort(np.concatenate([kept, held]))
            samples = samples.taken(rows, dtype)
            check_fits("the choice of kernel and radius", samples.X.nbytes, job.memory_limit)
            job = job.reserving(samples.X.nbytes).reserve_host(samples.target_bytes)
            kept, held, order = (np.searchsorted(rows, some) for some in (kept, held, order))
        shared = {} if shared is None else shared
        return cls(job, samples.in_order(order), kept, held, history, shared, len(present))

    def better_weights(self, request, seed, learns=True, maps=False):
        """Learned weights, those of equal spread, a learned map, or what is asked for: the best.

        Laplacian units on random rows learn and compare them, whatever units the layer will
        have: of all kernels they are the least particular about their width.
        """
        if maps or request.weights is not None:
            return self._best_weights(request, seed, learns, maps)
        if request.metric not in self.shared:
            self.shared[request.metric] = self._best_weights(request, seed, learns, maps)
        return self.shared[request.metric]

    def _best_weights(self, request, seed, learns, maps):
        """`better_weights`, found anew."""
        candidates, errors = [request.weights], []
        if learns:
            candidates += learn(self.job, self.samples, request.metric, LAPLACIAN, seed, self.kept)
        if maps:
            random, split = np.random.default_rng(seed), (self.kept, self.held)
            A = learn_map(self.job, self.samples, random, split)
            candidates += [] if A is None else [A]
        if len(candidates) == 1:
            return request.weights
        # With a radius, for which nothing is looked at: it is replaced.
        at_random = replace(request, selection="random", kernel=LAPLACIAN, radius=1.0)
        centers = self._centers(at_random, max(_FEW_UNITS, request.n_units or UNITS))
        for weights in candidates:
            layer, distance = self._weighted(replace(centers, kernel=LAPLACIAN), weights)
            layer = replace(layer, radius=LAPLACIAN.natural_radius(distance))
            errors += self._errors([layer], min(errors, default=np.inf))
        return candidates[int(np.argmin(errors))]

    def best(self, request, space):
        """The layer with the least error, of each kernel at each width."""
        layer = self._centers(request, request.n_units)
        layer, distance = self._weighted(layer, request.weights)
        widths = {kernel: _radii(kernel, distance, space.radius) for kernel in space.kernels}
        layers = [replace(layer, kernel=kernel, radius=all_[0]) for kernel, all_ in widths.items()]
        if len(layers) == len(widths[layers[0].kernel]) == 1:
            return layers[0]
        errors = self._errors(layers)
        # The kernel that is best at its first width is best at all (26 of 26 tables).
        best = layers[int(np.argmin(errors))]
        if space.radius is not None:
            return best
        others = [replace(best, radius=radius) for radius in widths[best.kernel][1:]]
        layers, errors = [best, *others], [min(errors), *self._errors(others, min(errors))]
        best = int(np.argmin(errors))
        radii = sorted(each.radius for each in layers)
        return self._beyond(layers[best], errors[best], radii)

    def _beyond(self, layer, error, radii):
        """The layer, or a narrower or wider one, downhill from where the widths end.

        Few features with many bends want units far narrower than rows are apart.
        """
        ends = {radii[0]: radii[0] / radii[1], radii[-1]: radii[-1] / radii[-2]}
        step = ends.get(layer.radius)
        for _ in range(_MOST_STEPS if step else 0):
            further = replace(layer, radius=layer.radius * step)
            (found,) = self._errors([further], error)
            if not found < error:
                break
            layer, error = further, found
        return layer

    def _centers(self, request, most=None):
        """A layer on some of the kept rows, no more than `most`, as `request` selects them."""
        large = int(np.clip(self.n_rows // _ROWS_OF_UNIT, _FEW_UNITS, UNITS))
        n_units = max(1, min(large, int(_PART * len(self.kept)), most or UNITS))
        request = replace(request, n_units=n_units, selection_radius=None, filled=_FILLED)
        by_class = request.selection == "per_class"
        groups = self.samples.targets.groups if by_class else None
        return fit_layer(request, self.job, self.samples, groups)[0]

    def _weighted(self, layer, weights):
        """The layer with feature weights, and the typical distance of rows with them."""
        layer = weighted(layer, weights)
        shown = OrderedRows(
            self.job.engine, self.samples.X, self.samples.order, dtype=layer.units.dtype,
            weights=layer.weights,
        )  # fmt: skip
        return layer, typical_distance(shown, layer.metric)

    def _errors(self, layers, best=np.inf):
        """The least held-out error of each of some layers on the same units.

        Where one penalty is much worse than `best` or an earlier layer, it is the only one.
        """
        n_bytes = RidgeStatistics.nbytes(layers[0].n_units)
        together = max(
            1, count_fitting(self.job.memory_limit, 4 * n_bytes, 4 * n_bytes, at_most=_AT_A_TIME)
        )
        errors = []
        for start in range(0, len(layers), together):
            part = layers[start : start + together]
            errors += self._errors_together(part, n_bytes, min([best, *errors]))
        return errors

    def _errors_together(self, layers, n_bytes, best):
        held = gather_coarse(self.job, layers, self.samples, self.held)
        job = self.job.reserving(len(layers) * n_bytes)
        kept = gather_coarse(job, layers, self.samples, self.kept)
        errors = []
        for layer, *statistics in zip(layers, kept, held, strict=True):
            skip_above = _SKIP_FACTOR * min([best, *errors])
            start = self.history.best_alpha(layer)
            found = search_penalty([tuple(statistics)], start, skip_above)
            self.history.add(layer, found)
            errors.append(found.error)
        return errors


def _dtype(X, n_rows, limit):
    """float32 for rows in float64 that are worth it and do in float32; else None."""
    if not is_wide(X) or n_rows <= _FEW or 4 * n_rows * X.shape[1] > limit // 8:
        return None
    return np.dtype(np.float32) if keeps_distances(X) else None


def weighted(layer, weights):
    """The layer for rows times feature weights, or through a linear map, as are its units."""
    if weights is None:
        return layer
    dtype = layer.hidden_dtype
    weights, units = np.asarray(weights, dtype), layer.units.astype(dtype)
    units = HOST.multiply(units, weights) if weights.ndim == 2 else units * weights
    return replace(layer, units=units, weights=weights)


def _radii(kernel, distance, given):
    """The widths to try for a kernel where rows typically are at a distance."""
    if given is not None:
        return [given]
    natural = kernel.natural_radius(distance)
    return [float(natural * part) for part in kernel.widths]
