"""Rows in the blocks of a Dask array: work goes to where they are.

The current client of Dask computes, or Dask's threads where there is none. Nothing of Dask is
imported before an array of it is given. `dask` and `distributed` are used by their stable calls
alone: `to_delayed`, `delayed`, `compute` and `persist`.

Every task can be done again: a worker that dies costs time. Sums are added in a tree over the
numbers of the blocks, so that they do not depend on who computes, nor how many.
"""

import sys
import threading
from contextlib import contextmanager, nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial, wraps

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from ..engines import get_engine
from ..engines.threads import dask_worker
from .job import Job
from .sources import Source, open_rows
from .sources.base import as_taken, check_finite
from .validation import to_host

# What a task of Dask does with blocks: functions that go anywhere by pickle.


@dataclass(frozen=True)
class Place:
    """How work is done where a block is."""

    # As the user gave them; they hold for each task.
    device: str
    max_memory: int | str | None

    @contextmanager
    def job(self, n_synapses):
        """A `Job` for so much work in all."""
        with limited(), get_engine(self.device, n_synapses) as engine:
            yield Job(engine, self.max_memory)


def limited():
    """Context in which a task takes its share of the threads.

    Threads of Dask's own pool work side by side: one each. Tasks of a worker, and those of a
    scheduler that has no pool, take what their process may.
    """
    is_of_pool = threading.current_thread() is not threading.main_thread()
    is_alone = dask_worker() is not None or not is_of_pool
    return nullcontext() if is_alone else threadpool_limits(1, "openmp")


def task(function, *known):
    """What makes tasks of a function, some of whose arguments are known; Dask looks into none."""
    from dask import delayed

    return delayed(partial(function, *known), pure=False)


def constant(value):
    """A value that several tasks want, once in the graph."""
    from dask import delayed

    return delayed(value, pure=False, traverse=False)


def node(state):
    return state if hasattr(state, "__dask_graph__") else constant(state)


def check(dtype, shape, first, rows, block):
    """A block, or some of its rows, as clean rows."""
    block = np.asarray(to_host(block))
    if block.shape != shape:
        raise ValueError(
            f"The block of X that begins at row {first} has shape {block.shape}, and by its chunks "
            f"it has {shape}; call X.compute_chunk_sizes(), or make X anew."
        )
    if rows is not None:
        block, first = block[rows], first + np.asarray(rows)
    check_finite(block, first)
    return np.require(block, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def work_on(place, n_synapses, samples, rows, work, *blocks):
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    with place.job(n_synapses) as job:
        there, job = replace(samples, X=X).on_device(job)
        return work.to_host(work(job, there, rows))


def call(place, n_synapses, function, block, state, *shared):
    with place.job(n_synapses) as job:
        return function(job, block, state, *shared)


def add(add, some, more):
    """The sum of two results, neither of which is changed: Dask may need them again."""
    return add(deepcopy(some), more)


# Neighbouring blocks up to so many rows in all are one piece of work.
_LEAF_ROWS = 8192
# Layers travel in the graph, so that a task can be done again on any worker; clients warn of that.
_CONFIG = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}


class DaskBlocks(Source):
    """Rows in blocks of a Dask array, which are neither fetched nor kept.

    Its lengths are known, and all features are in one block. Device and memory are as the user
    gave them, names as of `Source`.
    """

    is_remote = True

    def __init__(self, array, device, max_memory, names=None):
        self._array, self._device, self._max_memory = array, device, max_memory
        self.shape, self.names = tuple(map(int, array.shape)), names
        self.dtype = as_taken(array.dtype, "X")
        self._lengths = np.array(array.chunks[0], int)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._delayed = None
        most = int(self._lengths.max(initial=1))
        self.tile_rows, self.read_bytes = most, 2 * most * self.shape[1] * self.dtype.itemsize

    def part(self, rows):
        """Return some rows, ascending, as blocks of their own."""
        return DaskBlocks(self._array[rows], self._device, self._max_memory, self.names)

    @property
    def _blocks(self):
        """One `Delayed` for each block."""
        if self._delayed is None:
            self._delayed = list(self._array.to_delayed().ravel())
        return self._delayed

    def pieces(self, rows):
        owner, _ = self.owners(np.asarray(rows))
        for i in np.unique(owner):
            yield int(self._starts[i]), self._compute([self._checked(i)])[0]

    def take(self, rows, dtype=None):
        """Rows in any order; none but these travel."""
        rows = np.asarray(rows)
        result = np.empty((len(rows), self.shape[1]), dtype or self.dtype)
        owner, there = self.owners(rows)
        at = {i: np.flatnonzero(owner == i) for i in np.unique(owner)}
        tasks = [self._checked(i, there[here]) for i, here in at.items()]
        for here, found in zip(at.values(), self._compute(tasks), strict=True):
            result[here] = found
        return result

    def _checked(self, i, rows=None):
        """A task that gives a block, or some rows of it."""
        shape = int(self._lengths[i]), self.shape[1]
        return task(check, self.dtype, shape, int(self._starts[i]), rows)(self._blocks[i])

    def map_reduce(self, samples, work, rows=None):
        """`fold.fold` where the blocks are."""
        rows = None if rows is None else np.sort(rows)
        shared, sum_of, nodes = constant(work), task(add, work.add), []
        for start, stop in self._leaves():
            first, end = (
                int(self._starts[start]),
                int(self._starts[stop - 1] + self._lengths[stop - 1]),
            )
            here = None
            if rows is not None:
                here = rows[slice(*np.searchsorted(rows, [first, end]))] - first
                if not len(here):
                    continue
            own = replace(samples.with_rows(None, slice(first, end)), order=None)
            blocks = [self._checked(i) for i in range(start, stop) if self._lengths[i]]
            leaf = task(work_on, self._place, self._n_synapses(work), own, here)
            nodes.append(leaf(shared, *blocks))
        while len(nodes) > 1:
            pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
            nodes = [sum_of(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return self._compute(nodes)[0]

    def _leaves(self):
        """(first, end) of neighbouring blocks that are one piece of work."""
        start = n_rows = 0
        for i, n in enumerate(self._lengths):
            if n_rows and n_rows + n > _LEAF_ROWS:
                yield start, i
                start, n_rows = i, 0
            n_rows += n
        if n_rows:
            yield start, len(self._lengths)

    def owners(self, rows):
        """The number of the block that each row is in, and the row's number in it."""
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        return owner, rows - self._starts[owner]

    def each(self, function, n_units, states, *shared):
        """Call ``function(job, block, state, *shared)`` of some blocks; results stay there.

        `states` are by number of the block, values or results of an earlier call; so are results.
        """
        import dask

        shared = [constant(value) for value in shared]
        work = self.shape[0] * self.shape[1] * n_units
        of_block = task(call, self._place, work, function)
        tasks = [of_block(self._checked(i), node(state), *shared) for i, state in states.items()]
        with _without_warning(), self._limits():
            return dict(zip(states, dask.persist(*tasks), strict=True))

    def fetch(self, results, pick):
        """``pick`` of each result of `each`, here."""
        found = self._compute([task(pick)(result) for result in results.values()])
        return dict(zip(results, found, strict=True))

    def _n_synapses(self, work):
        layers = getattr(work, "layers", None) or [getattr(work, "layer", None)]
        n_units = 0 if layers[0] is None else layers[0].n_units
        return self.shape[0] * self.shape[1] * n_units

    @property
    def _place(self):
        return Place(self._device, self._max_memory)

    @staticmethod
    def _limits():
        """Dask's threads work side by side: each call of a BLAS takes one."""
        return threadpool_limits(1) if _is_local() else nullcontext()

    def _compute(self, tasks):
        import dask

        with _without_warning(), self._limits():
            return dask.compute(*tasks)


def is_dask(X):
    return hasattr(X, "__dask_graph__") and not isinstance(X, type)


def open_all(X, device, max_memory, y=None, sample_weight=None):
    """`open_rows`, also of collections of Dask.

    Of these y and the weights are fetched as a whole, and the lengths of blocks are counted
    where they are not known.
    """
    if any(map(is_dask, (y, sample_weight))):
        y, sample_weight = (_fetched(value) for value in (y, sample_weight))
    if not is_dask(X):
        return open_rows(X, max_memory, y, sample_weight)
    array, names = as_array(X)
    if np.isnan(array.chunks[0]).any():
        array = array.copy()  # which notes the lengths, and the user's own stays as it is
        array.compute_chunk_sizes()
    return DaskBlocks(array, device, max_memory, names), y, sample_weight


def as_array(X):
    """A Dask array with all features in one block, and an empty table with their names or None."""
    names = None
    if hasattr(X, "to_dask_array"):
        names, X = X._meta, X.to_dask_array()
    if not hasattr(X, "chunks"):
        raise TypeError(
            f"X is a {type(X).__name__} of Dask; give a dask.array, or a dask.dataframe of numbers."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X.shape={X.shape}.")
    return X.rechunk({1: -1}), names


def _fetched(value):
    return np.asarray(value.compute()) if is_dask(value) else value


def _without_warning():
    """Context in which clients of Dask do not warn of large graphs.

    Without `distributed` there are none. Its settings are left alone until it is imported: it adds
    its defaults to what it finds, and the end of the context would take them away.
    """
    if "distributed" not in sys.modules:
        return nullcontext()
    import dask
    import distributed  # noqa: F401, waits for another thread that imports it

    return dask.config.set(_CONFIG)


def _is_local():
    """Whether tasks are threads of this process."""
    if "distributed" not in sys.modules or dask_worker() is not None:
        return True
    from distributed import default_client

    try:
        default_client()
    except ValueError:
        return True
    return False


# Answers to rows of Dask: arrays of Dask, whose blocks are answered where they are.


def lazy_on_dask(method):
    """A method that answers rows, and of collections of Dask says what answers they will have.

    The estimator says by ``_empty_output(name, dtype)`` what the method gives for no rows.
    """

    @wraps(method)
    def answer(self, X, *args, **options):
        if not is_dask(X):
            return method(self, X, *args, **options)
        if args or options.get("out") is not None:
            raise TypeError(
                f"{method.__name__} of a Dask array takes no positional arguments beside X, and "
                "no out; use dask.array.store, or to_zarr of what it returns."
            )
        options.pop("out", None)
        return _lazy(self, method.__name__, X, options)

    return answer


def _lazy(model, name, X, options):
    from dask import delayed

    check_is_fitted(model)
    array, names = as_array(X)
    validate_data(model, array if names is None else names, skip_check_array=True, reset=False)
    empty = model._empty_output(name, array.dtype, **options)
    bare = copy(model)
    vars(bare).pop("feature_names_in_", None)  # blocks have none
    node = delayed(bare, pure=False, traverse=False)
    if isinstance(empty, np.ndarray):
        return _mapped(array, node, name, options, empty)
    return type(empty)(_mapped(array, node, name, options, e, k) for k, e in enumerate(empty))


def _mapped(array, node, name, options, empty, number=None):
    columns = [(size,) for size in empty.shape[1:]]
    return array.map_blocks(
        _answer, model=node, method=name, options=options, empty=empty, number=number,
        dtype=empty.dtype, chunks=(array.chunks[0], *columns), meta=empty,
        drop_axis=[1] if empty.ndim == 1 else None,
    )  # fmt: skip


def _answer(block, model, method, options, empty, number):
    if not len(block):
        return empty
    with limited():
        found = getattr(model, method)(to_host(block), **options)
    return found if number is None else found[number]
