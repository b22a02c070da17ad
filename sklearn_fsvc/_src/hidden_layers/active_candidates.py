"""Candidates for centres: samples that are not covered by the centres selected so far.

`novelty` describes the algorithm. Here, samples are identified by their *rank* in the order of
presentation; each candidate has its activity over the centres that it was compared with. There are
three implementations of one protocol: in memory, distributed over several devices, and in remote
blocks, as those of Dask.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..data.rows import split_into_shares
from ..engines.base import Engine
from .ordered_samples import NoveltyRule, OrderedSamples


class Candidates(Protocol):
    """Samples that may still become centres."""

    def next_candidates(self, n: int) -> tuple[Any, Any, Any]:
        """Return the ranks, samples and activities of the first candidates, at most `n`.

        There are none only if no candidates are left.
        """
        ...

    def add_centers(self, centers: Any, first_undecided: int) -> None:
        """Add new centres. All samples of lower rank than `first_undecided` are decided."""
        ...


def first_by_rank(parts: Sequence[tuple[Any, Any, Any]], n: int, xp: Any) -> tuple[Any, ...]:
    """Return the first `n` candidates of several parts, as `Candidates.next_candidates`.

    The parts share no samples, so the first of all are among the first of each.
    """
    ranks, rows, activity = (xp.concatenate(arrays) for arrays in zip(*parts, strict=True))
    first = xp.argsort(ranks)[:n]
    return ranks[first], rows[first], activity[first]


class _PreparedCenters:
    """The centres selected so far, in chunks, so that full ones are prepared only once."""

    def __init__(self, engine: Engine, rule: NoveltyRule):
        self._engine, self._rule = engine, rule
        self._full_chunks: list[Any] = []
        self._incomplete: Any = None  # centres of the last chunk, not prepared

    def add(self, centers: Any) -> None:
        if self._incomplete is not None:
            centers = self._engine.xp.concatenate([self._incomplete, centers])
        size = self._engine.chunk_units
        while len(centers) >= size:
            self._full_chunks.append(self.prepare(centers[:size]))
            centers = centers[size:]
        self._incomplete = centers

    def chunks(self) -> Iterator[Any]:
        yield from self._full_chunks
        if self._incomplete is not None and len(self._incomplete):
            yield self.prepare(self._incomplete)

    def prepare(self, centers: Any) -> Any:
        layer = self._rule.layer(self._engine.xp.ascontiguousarray(centers))
        return self._engine.prepare(layer)


class ActiveCandidates:
    """Candidates among the samples of these ascending ranks, in the memory of one device.

    A window holds the first candidates: their ranks, the samples, and activities over all centres
    so far. Samples beyond the window are read only when they are needed, `block_rows` at a time;
    they are then compared with all centres so far, and those that are covered are dropped.
    """

    def __init__(
        self, ordered: OrderedSamples, rule: NoveltyRule, ranks: npt.NDArray, block_rows: int
    ):
        self._ordered, self._rule, self._block_rows = ordered, rule, block_rows
        self._unread = ranks
        self._engine, self._xp = ordered.engine, ordered.engine.xp
        self._centers = _PreparedCenters(self._engine, rule)
        self._window = self._read_block()

    def next_candidates(self, n: int) -> tuple[Any, Any, Any]:
        # Read more blocks until there are n candidates, or no more samples.
        while len(self._window[0]) < n and len(self._unread):
            pairs = zip(self._window, self._read_block(), strict=True)
            self._window = tuple(self._xp.concatenate(pair) for pair in pairs)
        ranks, rows, activity = self._window
        return ranks[:n], rows[:n], activity[:n]

    def add_centers(self, centers: Any, first_undecided: int) -> None:
        self._centers.add(centers)
        # Candidates of this round that did not become centres are decided, too: drop them.
        ranks = self._window[0]  # ascending
        n_decided = int(self._xp.searchsorted(ranks, self._xp.asarray([first_undecided]))[0])
        undecided = tuple(array[n_decided:] for array in self._window)
        new = self._centers.prepare(centers)
        self._window = drop_covered(self._engine, self._rule, undecided, [new])

    def _read_block(self):
        """Read the next block, and return its candidates."""
        n = self._block_rows
        ranks, self._unread = self._unread[:n], self._unread[n:]
        activity = self._xp.zeros(len(ranks))
        window = self._engine.to_device(ranks), self._ordered.block(ranks), activity
        return drop_covered(self._engine, self._rule, window, self._centers.chunks())


class ShardedCandidates:
    """Candidates that are distributed over a group of devices, each with its share of X."""

    def __init__(self, ordered: OrderedSamples, rule: NoveltyRule, block_rows: int):
        device_group: Any = ordered.engine.device_group
        self._device_group, self._algebra = device_group, ordered.engine.algebra

        def open_shard(device, share, stop):
            X, order = ordered.X.part(share), ordered.order
            # The order as indices into the share; only ranks of its own rows are used.
            shard = replace(ordered, engine=device, X=X, order=order - share.start)
            ranks = np.flatnonzero((order >= share.start) & (order < share.stop))
            return ActiveCandidates(shard, rule, ranks, block_rows)

        self._shards = device_group.map(open_shard, split_into_shares(device_group, len(ordered.X)))

    def next_candidates(self, n: int) -> tuple[Any, Any, Any]:
        """Return the first candidates of all devices, on the first device."""
        parts = self._device_group.map(
            lambda _, shard, stop: shard.next_candidates(n), self._shards
        )
        on_first = [tuple(map(self._algebra.to_device, part)) for part in parts]
        return first_by_rank(on_first, n, self._algebra.xp)

    def add_centers(self, centers: Any, first_undecided: int) -> None:
        def add(device, shard, stop):
            shard.add_centers(device.algebra.to_device(centers), first_undecided)

        self._device_group.map(add, self._shards)


def drop_covered(
    engine: Engine, rule: NoveltyRule, window: tuple[Any, ...], chunks: Iterable[Any]
) -> Any:
    """Compare candidates with chunks of centres, and return those that are still not covered.

    Parameters
    ----------
    window : tuple of arrays
        Anything that belongs to the candidates; last the samples and their activities, to which the
        activations are added in place.
    chunks : iterable
        Centres, as the engine prepares them. Candidates that are covered by one chunk are not
        compared with the next.
    """
    for chunk in chunks:
        *_, rows, activity = window
        if not len(rows):
            break
        # Sums over chunks are exact in any order: see `engines.base.round_activations`.
        activity += engine.sum_activations(chunk, rows)
        uncovered = engine.xp.flatnonzero(activity < rule.overlap)
        if len(uncovered) < len(rows):
            window = tuple(array[uncovered] for array in window)
    return window


def candidate_bytes(engine: Engine, n_rows: int, n_features: int, itemsize: int) -> int:
    """Return the bytes of `n_rows` of a window while they are read and compared with a chunk."""
    return n_rows * (4 * n_features * itemsize + (2 * engine.chunk_units + 6) * 8)


# Remote blocks. A round trip is slow, so each one reads ahead and returns more candidates than the
# next round needs. Ranks up to `_FIRST_READ` times the size of a round are read first, then
# `_READ_GROWTH` times as many whenever too few candidates are known.
_FIRST_READ, _READ_GROWTH = 8, 4
# As multiples of the size of a round: the number of candidates that should be known, and that are
# returned.
_KNOWN_ROUNDS, _RETURNED_ROUNDS = 2, 2


@dataclass(frozen=True, eq=False)
class _BlockState:
    """The candidates and unread samples of a block; it stays where the block is."""

    # Of the candidates, then of the unread samples: ascending ranks, and row indices in the block.
    ranks: np.ndarray
    rows: np.ndarray
    # (n_candidates,), float64: activities of the candidates.
    activity: np.ndarray = field(default_factory=lambda: np.empty(0))
    # What is sent to the host: the numbers of candidates and of unread samples, and the ranks, rows
    # and activities of the first candidates.
    summary: tuple = ()


@dataclass(frozen=True)
class _BlockStep:
    """A step that is executed for all blocks."""

    n_new: int  # number of the last centres, with which candidates were not compared yet
    first_undecided: int  # samples of lower rank are decided
    read_until: int  # read the samples of lower rank
    return_until: int  # return the candidates of lower rank
    max_candidates: int  # that are returned per block


class RemoteCandidates:
    """Candidates among the samples of a source whose blocks are in other processes.

    A step is sent to all blocks that may have candidates to return. There, samples are read and
    compared with the centres, and the first candidates by rank are returned.
    """

    def __init__(self, ordered: OrderedSamples, rule: NoveltyRule):
        self._ordered, self._rule, self._engine = ordered, rule, ordered.engine
        self._X: Any = ordered.X
        self._states: dict[int, Any] = {}
        self._counts: dict[int, tuple[int, int]] = {}  # candidates and unread samples of each block
        owner, rows = self._X.locate_rows(ordered.order)
        index_dtype = np.int32 if len(owner) < 2**31 else np.int64
        for i in map(int, np.unique(owner)):
            ranks = np.flatnonzero(owner == i)
            self._states[i] = _BlockState(
                ranks.astype(index_dtype), rows[ranks].astype(index_dtype)
            )
            self._counts[i] = 0, len(ranks)
        self._centers: list[npt.NDArray] = []
        self._n_new = 0  # centres of the last call of `add_centers`
        self._n_read = self._first_undecided = self._n_candidates = 0

    def next_candidates(self, n: int) -> tuple[Any, Any, Any]:
        n_rows, candidates = len(self._ordered), None
        while candidates is None:
            read_until = self._n_read
            if self._n_candidates < _KNOWN_ROUNDS * n:
                read_until = min(n_rows, max(_FIRST_READ * n, _READ_GROWTH * read_until))
            candidates = self._step(n, read_until)
            if candidates is None and self._n_candidates:
                # The estimate of the ranks to return was too low: return all that were read.
                candidates = self._step(n, read_until, return_until=read_until)
            elif candidates is None and read_until == n_rows:  # no candidates are left
                shape = 0, self._X.shape[1]
                candidates = np.empty(0, int), np.empty(shape, self._X.dtype), np.empty(0)
        self._n_candidates -= len(candidates[0])
        ranks, rows, activity = map(self._engine.to_device, candidates)
        return ranks, rows, activity

    def add_centers(self, centers: Any, first_undecided: int) -> None:
        if len(centers):
            self._centers.append(self._engine.to_host(centers))
        self._n_new, self._first_undecided = len(centers), first_undecided

    def _step(self, n, read_until, return_until=None):
        """Execute a step; return the first `n` of the returned candidates, or None if none was."""
        if return_until is None:
            # Extrapolate from the fraction of undecided samples that are candidates.
            fraction = self._n_candidates / max(1, self._n_read - self._first_undecided)
            n_ranks = int(_RETURNED_ROUNDS * n / (fraction or 1))
            return_until = self._first_undecided + n_ranks + 1
        step = _BlockStep(self._n_new, self._first_undecided, read_until, return_until, n)
        returned = self._execute(step, reads=read_until > self._n_read)
        self._n_read, self._n_new = read_until, 0
        self._n_candidates = sum(n_candidates for n_candidates, _ in self._counts.values())
        returned = [candidates for candidates in returned if len(candidates[0])]
        if not returned:
            return None
        return first_by_rank(returned, n, np)

    def _execute(self, step, reads):
        """Execute a step for the blocks that it concerns; return the candidates of each."""
        states = {
            i: self._states[i]
            for i, (n_candidates, n_unread) in self._counts.items()
            if n_candidates or (n_unread and reads)
        }
        # Unread samples need all centres, and candidates the new ones.
        centers = self._centers if reads else self._centers[-1:] if step.n_new else []
        units = np.concatenate(centers) if centers else None
        ordered = replace(self._ordered, engine=None, X=None, order=None)  # to be sent
        n_centers = sum(map(len, self._centers))
        updated = self._X.map_blocks(
            _execute_step, n_centers, states, ordered, self._rule, units, step
        )
        self._states |= updated
        summaries = self._X.gather_results(updated, attrgetter("summary"))
        self._counts |= {i: counts for i, (counts, _) in summaries.items()}
        return [candidates for _, candidates in summaries.values()]


def _execute_step(job, block, state, ordered, rule, units, step):
    """Execute a `_BlockStep` for one block, where the block is; return the updated state."""
    ordered = replace(ordered, engine=job.engine, X=block)
    n_known = len(state.activity)
    # Candidates that are undecided, compared with the new centres.
    known = np.flatnonzero(state.ranks[:n_known] >= step.first_undecided)
    activity = state.activity[known]
    if step.n_new:
        known, activity = _compare(ordered, rule, state, known, activity, units[-step.n_new :])
    # Samples that are read now, compared with all centres.
    stop = max(n_known, int(np.searchsorted(state.ranks, step.read_until)))
    new = np.arange(n_known, stop)
    new, new_activity = _compare(ordered, rule, state, new, np.zeros(len(new)), units)
    unread = np.arange(stop, len(state.ranks))

    candidates = np.concatenate([known, new])
    activity = np.concatenate([activity, new_activity])
    remaining = np.concatenate([candidates, unread])
    ranks, rows = state.ranks[remaining], state.rows[remaining]
    n_returnable = int(np.searchsorted(ranks[: len(candidates)], step.return_until))
    first = slice(min(step.max_candidates, n_returnable))
    returned = ranks[first], _load_rows(ordered, rows[first]), activity[first]
    counts = len(candidates), len(unread)
    return _BlockState(ranks, rows, activity, (counts, returned))


def _load_rows(ordered, rows):
    """Return rows of the block on the host, in the dtype and with the weights of the comparison."""
    return ordered.engine.to_host(replace(ordered, order=rows).block(slice(None)))


def _compare(ordered, rule, state, positions, activity, units):
    """Compare samples with centres; return the positions and activities of the candidates."""
    if units is None or not len(positions):
        return positions, activity
    engine, ordered = ordered.engine, replace(ordered, order=state.rows[positions])
    size, n = engine.chunk_units, engine.block_rows
    chunks = [
        engine.prepare(rule.layer(engine.to_device(units[i : i + size])))
        for i in range(0, len(units), size)
    ]
    parts = []
    for start in range(0, len(positions), n):
        part = slice(start, start + n)
        window = (
            engine.to_device(positions[part]), ordered.block(part),
            engine.to_device(activity[part]),
        )  # fmt: skip
        uncovered, _, uncovered_activity = drop_covered(engine, rule, window, chunks)
        parts.append((engine.to_host(uncovered), engine.to_host(uncovered_activity)))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))
