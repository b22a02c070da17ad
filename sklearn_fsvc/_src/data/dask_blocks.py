"""Dask collections: blocks of samples are processed where they are, and never gathered.

`open_input` makes a `DaskBlocks` source of a Dask array that a model is fitted to. Predictions of
Dask arrays are in `estimators/prediction.py`.

The current Dask client computes, or Dask's threads without one. Dask is not imported before an
array of it is given, and only its stable functions are used: `to_delayed`, `delayed`, `compute`
and `persist`.

Every task is idempotent, so that Dask can repeat those of a worker that was lost. Statistics are
added in a binary tree over the block numbers: the result does not depend on the workers or on
their number.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits

from ..engines import get_engine
from ..engines.threads import current_dask_worker
from .columns import check_no_name, check_unmasked
from .job import Job
from .sources import Source, open_source
from .sources.base import check_finite, supported_dtype
from .validation import to_host

# Neighbouring blocks of up to this many rows in all are one task.
_LEAF_ROWS = 8192
# Layers are part of the graph, so that a task can be repeated on any worker. Clients warn of
# large graphs.
_CONFIG = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}


def is_dask_collection(X: Any) -> bool:
    """Return whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__") and not isinstance(X, type)


def compute_if_dask(value: Any) -> Any:
    """Return the array or table of a Dask collection, with masks and names; others as they are."""
    return value.compute() if is_dask_collection(value) else value


def open_input(
    X: Any, device: str, max_memory: int | str | None, y: Any = None, sample_weight: Any = None
) -> tuple[Any, Any, Any]:
    """Return what `open_source` does, also for Dask collections.

    y and the weights are fetched in full. Lengths of blocks that are unknown are computed.
    """
    y, sample_weight = compute_if_dask(y), compute_if_dask(sample_weight)
    check_unmasked(X=X, y=y, sample_weight=sample_weight)
    if not is_dask_collection(X):
        return open_source(X, max_memory, y, sample_weight)
    check_no_name(X, y=y, sample_weight=sample_weight)
    array, names = as_dask_array(X)
    if np.isnan(array.chunks[0]).any():
        array = array.copy()  # `compute_chunk_sizes` modifies it, and X belongs to the user
        array.compute_chunk_sizes()
    return DaskBlocks(array, device, max_memory, names), y, sample_weight


def as_dask_array(X: Any) -> tuple[Any, Any]:
    """Return (a Dask array whose blocks have all features, an empty table with names or None)."""
    names = None
    if not hasattr(X, "_meta"):  # a `Delayed` has all other attributes
        raise TypeError(
            f"X is a {type(X).__name__} of Dask; pass a dask.array, or a dask.dataframe of numbers."
        )
    if hasattr(X, "to_dask_array"):
        names, X = X._meta, _with_one_dtype(X).to_dask_array()
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X.shape={X.shape}.")
    return X.rechunk({1: -1}), names


def _with_one_dtype(table: Any) -> Any:
    """Return a DataFrame in float64 if it would become an array of objects, or of uint8.

    Objects are columns of several dtypes, such as numbers and bools, and extension types of pandas.
    For uint8 see `supported_dtype`.
    """
    empty = table._meta
    if empty.to_numpy().dtype not in (object, np.uint8) or not hasattr(empty, "columns"):
        return table
    for name, dtype in zip(empty.columns, empty.dtypes, strict=True):
        if dtype.kind not in "biuf":
            raise ValueError(
                f"Column {name!r} of X ({dtype}) does not hold numbers. Convert it, or leave it "
                "out; if the table fits in memory, make_tabular_pipeline takes X.compute()."
            )
    return table.astype(np.float64)


class DaskBlocks(Source):
    """The blocks of a Dask array as a source; its `map_reduce` computes where they are.

    Parameters
    ----------
    array : dask.array.Array
        Of known block lengths, with all features in one block.
    device, max_memory
        As the user gave them: each task resolves them on its worker.
    names : object
        See `Source`.
    """

    is_remote = True

    def __init__(
        self, array: Any, device: str, max_memory: int | str | None, names: Any = None
    ) -> None:
        self._array, self._device, self._max_memory = array, device, max_memory
        self.shape, self.names = tuple(map(int, array.shape)), names
        self.dtype = supported_dtype(array.dtype, "X")
        self._lengths = np.array(array.chunks[0], int)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._delayed: list[Any] | None = None
        self.tile_rows = int(self._lengths.max(initial=1))
        self.read_bytes = 2 * self.tile_rows * self.shape[1] * self.dtype.itemsize

    def part(self, rows: Any) -> "DaskBlocks":
        """Return a subset of the rows, ascending, as blocks of a new Dask array."""
        return DaskBlocks(self._array[rows], self._device, self._max_memory, self.names)

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        block_numbers, _ = self.locate_rows(np.asarray(rows))
        for i in np.unique(block_numbers):
            yield int(self._starts[i]), self._compute([self._checked(i)])[0]

    def take(self, rows: Any, dtype: Any = None) -> npt.NDArray[Any]:
        """Return rows in any order; no others are transferred."""
        rows = np.asarray(rows)
        result = np.empty((len(rows), self.shape[1]), dtype or self.dtype)
        block_numbers, rows_in_block = self.locate_rows(rows)
        positions = {i: np.flatnonzero(block_numbers == i) for i in np.unique(block_numbers)}
        tasks = [self._checked(i, rows_in_block[where]) for i, where in positions.items()]
        for where, taken in zip(positions.values(), self._compute(tasks), strict=True):
            result[where] = taken
        return result

    def locate_rows(
        self, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return (the number of the block, the row number in the block) of each row."""
        block_numbers = np.searchsorted(self._starts, rows, side="right") - 1
        return block_numbers, rows - self._starts[block_numbers]

    def map_reduce(self, samples: Any, work: Any, rows: npt.NDArray[np.intp] | None = None) -> Any:
        """Return the result of a `MapReduce` for all samples, or for the row numbers `rows`."""
        rows = None if rows is None else np.sort(rows)
        layer, *_ = getattr(work, "layers", None) or [getattr(work, "layer", None)]
        settings = self._worker_settings(0 if layer is None else layer.n_units)
        shared_work = shared_node(work)
        nodes, ends = [], self._starts + self._lengths
        for start, stop in self._leaves():
            first, end = int(self._starts[start]), int(ends[stop - 1])
            rows_in_leaf = None
            if rows is not None:
                rows_in_leaf = rows[slice(*np.searchsorted(rows, [first, end]))] - first
                if not len(rows_in_leaf):
                    continue
            subset = replace(samples.with_rows(None, slice(first, end)), order=None)
            blocks = [self._checked(i) for i in range(start, stop) if self._lengths[i]]
            leaf = delay(reduce_blocks, settings, subset, rows_in_leaf)
            nodes.append(leaf(shared_work, *blocks))
        add_pair = delay(add_results, work.add)
        while len(nodes) > 1:  # one level of the binary tree
            pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
            nodes = [add_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return self._compute(nodes)[0]

    def map_blocks(
        self, function: Callable[..., Any], n_units: int, states: dict[int, Any], *shared: Any
    ) -> dict[int, Any]:
        """Call ``function(job, block, state, *shared)`` of some blocks; results stay there.

        `states` are by block number: values, or results of an earlier call. So are the results.
        """
        import dask

        shared_nodes = [shared_node(value) for value in shared]
        on_block = delay(call_on_block, self._worker_settings(n_units), function)
        tasks = [
            on_block(self._checked(i), as_node(state), *shared_nodes) for i, state in states.items()
        ]
        with _without_graph_warning(), self._limit_threads():
            return dict(zip(states, dask.persist(*tasks), strict=True))

    def gather_results(self, results: dict[int, Any], pick: Callable[[Any], Any]) -> dict[int, Any]:
        """Return ``pick`` of each result of `map_blocks`, transferred to this process."""
        picked = self._compute([delay(pick)(result) for result in results.values()])
        return dict(zip(results, picked, strict=True))

    @property
    def _blocks(self) -> list[Any]:
        """Return one `Delayed` for each block."""
        if self._delayed is None:
            self._delayed = list(self._array.to_delayed().ravel())
        return self._delayed

    def _checked(self, i: int, rows: npt.NDArray[np.intp] | None = None) -> Any:
        """Return a task that validates a block, and selects rows of it."""
        shape = int(self._lengths[i]), self.shape[1]
        return delay(validate_block, self.dtype, shape, int(self._starts[i]), rows)(self._blocks[i])

    def _leaves(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of neighbouring blocks that are one task."""
        start = n_rows = 0
        for i, n in enumerate(self._lengths):
            if n_rows and n_rows + n > _LEAF_ROWS:
                yield start, i
                start, n_rows = i, 0
            n_rows += n
        if n_rows:
            yield start, len(self._lengths)

    def _worker_settings(self, n_units: int) -> "WorkerSettings":
        n_operations = self.shape[0] * self.shape[1] * n_units
        return WorkerSettings(self._device, self._max_memory, n_operations)

    @staticmethod
    def _limit_threads() -> AbstractContextManager[Any]:
        """Return a context that limits BLAS to one thread if Dask's own threads compute."""
        return threadpool_limits(1) if _is_local() else nullcontext()

    def _compute(self, tasks: list[Any]) -> tuple[Any, ...]:
        import dask

        with _without_graph_warning(), self._limit_threads():
            return dask.compute(*tasks)


# Tasks: functions of blocks, which are pickled.


@dataclass(frozen=True)
class WorkerSettings:
    """Device and memory limit of each task, as the user gave them, and the work of all tasks."""

    device: str
    max_memory: int | str | None
    n_operations: int

    @contextmanager
    def job(self) -> Iterator[Job]:
        """Enter the engine of the tasks, and yield a `Job` on it."""
        with limit_task_threads(), get_engine(self.device, self.n_operations) as engine:
            yield Job(engine, self.max_memory)


def limit_task_threads() -> AbstractContextManager[Any]:
    """Return a context in which a task uses its share of the threads.

    Threads of Dask's local pool run concurrently, and use one thread each. Tasks of a worker, and
    those of a scheduler without a pool, may use all threads of their process.
    """
    is_pool_thread = threading.current_thread() is not threading.main_thread()
    has_all_threads = current_dask_worker() is not None or not is_pool_thread
    return nullcontext() if has_all_threads else threadpool_limits(1, "openmp")


def delay(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a `delayed` function with its first arguments bound, which Dask does not traverse."""
    from dask import delayed

    return delayed(partial(function, *arguments), pure=False)


def shared_node(value: Any) -> Any:
    """Return a value as a node of the graph that several tasks share."""
    from dask import delayed

    return delayed(value, pure=False, traverse=False)


def as_node(state: Any) -> Any:
    """Return a node of the graph for a value, or the node that it is."""
    return state if hasattr(state, "__dask_graph__") else shared_node(state)


def validate_block(
    dtype: np.dtype,
    shape: tuple[int, int],
    first: int,
    rows: npt.NDArray[np.intp] | None,
    block: Any,
) -> npt.NDArray[Any]:
    """Return a block, or some rows of it, as a finite C-ordered array of `dtype`."""
    check_unmasked(X=block)
    block = np.asarray(to_host(check_dense(block)))
    if block.shape != shape:
        raise ValueError(
            f"The block of X that begins at row {first} has shape {block.shape}, and by its chunks "
            f"it has {shape}; call X.compute_chunk_sizes(), or rebuild X."
        )
    numbers: Any = first
    if rows is not None:
        block, numbers = block[rows], first + np.asarray(rows)
    check_finite(block, numbers)
    return np.require(block, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def check_dense(block: Any) -> Any:
    """Return a block; raise TypeError, with the remedy, for a sparse matrix."""
    if issparse(block):
        raise TypeError(
            f"The blocks of X are sparse ({type(block).__name__}), and blocks of Dask arrays must "
            "be dense; pass X.map_blocks(lambda block: block.toarray(), dtype=X.dtype), or a "
            "sparse matrix in memory."
        )
    return block


def reduce_blocks(
    settings: WorkerSettings,
    samples: Any,
    rows: npt.NDArray[np.intp] | None,
    work: Any,
    *blocks: npt.NDArray[Any],
) -> Any:
    """Return the result of a `MapReduce` for the samples of some blocks."""
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    with settings.job() as job:
        samples, job = replace(samples, X=X).on_device(job)
        return work.to_host(work(job, samples, rows))


def call_on_block(
    settings: WorkerSettings,
    function: Callable[..., Any],
    block: Any,
    state: Any,
    *shared: Any,
) -> Any:
    """Return ``function(job, block, state, *shared)``."""
    with settings.job() as job:
        return function(job, block, state, *shared)


def add_results(add: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Return the sum of two results. Neither is modified: Dask may repeat the task."""
    return add(deepcopy(first), second)


def _without_graph_warning() -> AbstractContextManager[Any]:
    """Return a context without the warning of Dask's clients about large graphs.

    Only if `distributed` is imported already, which alone has clients: its import would add
    its defaults to the configuration, and leaving the context would remove them.
    """
    if "distributed" not in sys.modules:
        return nullcontext()
    import dask
    import distributed  # noqa: F401, blocks while another thread imports it

    return dask.config.set(_CONFIG)


def _is_local() -> bool:
    """Return whether tasks run in threads of this process."""
    if "distributed" not in sys.modules or current_dask_worker() is not None:
        return True
    from distributed import default_client

    try:
        default_client()
    except ValueError:
        return True
    return False
