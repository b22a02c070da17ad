"""Novelty selection: which samples become centres.

The rule (Dogaru & Dogaru, ISEEE 2017) is one pass over the samples in the order of presentation,
without labels: a sample is novel, and becomes a centre, if its *activity*, the sum of its
activations over the centres selected so far, is less than the overlap threshold.

The rule is sequential, but it has an exact form in rounds (`select_in_rounds`), at the speed of a
layer evaluation:

1. Activations are non-negative, so the activity of a sample only grows as centres are added. A
   sample whose activity has reached the threshold is covered: it never becomes a centre and need
   not be compared with later centres. All others are candidates.
2. A round takes the first n candidates in the order of presentation. The engine applies the
   sequential rule to these alone, with their own n x n kernel matrix (`Engine.select_novel`).
3. The remaining candidates add the activations over the new centres, and those that are covered
   are dropped.

Every sample before the last of the n is decided then: it was one of the n, or covered before.
Activations are rounded to a grid (`engines.base.round_activations`) on which sums are exact, so
that neither the number of rounds nor that of devices changes a decision.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from ..data.rows import ShardedRows
from ..data.sources import Source
from ..engines.base import Engine
from .active_candidates import (
    ActiveCandidates,
    Candidates,
    RemoteCandidates,
    ShardedCandidates,
    candidate_bytes,
)
from .ordered_samples import NoveltyRule, OrderedSamples

# A round takes at most this fraction of a block of rows, but no fewer rows than the second number.
_ROUND_FRACTION, _MIN_ROUND_ROWS = 1 / 4, 64
# Number of elements of X from which a group of devices shares a selection. For fewer, to
# synchronise them in each round takes longer than the computation.
_MIN_SHARED_ELEMENTS = 2**32


def novel_rows(
    ordered: OrderedSamples, rule: NoveltyRule, limit: int | None = None
) -> tuple[npt.NDArray, int]:
    """Return the samples that are novel within their group.

    Parameters
    ----------
    limit : int, optional
        Stop as soon as there is one more than this. Groups that were not processed until then are
        left out.

    Returns
    -------
    positions : ndarray of int
        Ascending positions in the order; ``ordered.order[positions]`` are the rows.
    n_seen : int
        The number of rows that were needed to find them: all, unless the limit was exceeded.
    """
    found, count, n_seen = [], 0, 0
    # Groups are processed one after another, and share the limit.
    for positions, select in _selections(ordered, rule):
        selected, n_seen_in_group = select(None if limit is None else limit - count)
        found.append(positions[selected])
        count, n_seen = count + len(selected), n_seen + n_seen_in_group
        if limit is not None and count > limit:
            break
    return np.sort(np.concatenate(found)), n_seen


def first_novel_rows(ordered: OrderedSamples, rule: NoveltyRule, n: int) -> npt.NDArray:
    """Return the positions of the first `n` novel samples, in the order of presentation.

    A smaller `n` returns a prefix of them. Each group contributes up to `n`, so that none is cut
    short by the others.
    """
    found = [positions[select(n)[0]] for positions, select in _selections(ordered, rule)]
    return np.sort(np.concatenate(found))[:n]


def min_centers(ordered: OrderedSamples, overlap: float) -> int:
    """Return the number of samples that are novel at any radius: the first ones of each group.

    The activation of distinct samples is less than 1 at any radius, so the activity over
    floor(overlap) centres is less than the threshold.
    """
    return (int(overlap) + 1) * ordered.n_groups


def selection_bytes(engine: Engine, block_rows: int, n_features: int, itemsize: int) -> int:
    """Return the number of bytes that `novel_rows` needs, without the centres themselves.

    The rule is applied to a round while no other rows are compared with centres, and needs less.
    """
    n_rows = block_rows + min(block_rows, _round_rows(engine, block_rows))
    return candidate_bytes(engine, n_rows, n_features, itemsize)


def select_in_rounds(
    engine: Engine, candidates: Candidates, rule: NoveltyRule, n: int
) -> Iterator[npt.NDArray]:
    """Yield the ranks of novel samples, round by round and ascending.

    See the module's docstring for the algorithm.

    Parameters
    ----------
    engine : Engine
        Applies the sequential rule.
    candidates : Candidates
    n : int
        Number of candidates of a round.

    Yields
    ------
    ndarray of int
    """
    while True:
        ranks, rows, activity = candidates.next_candidates(n)
        if not len(ranks):
            return
        novel = engine.select_novel(rule.layer(rows), rows, activity, rule.overlap)
        ranks = engine.to_host(ranks)
        yield ranks[novel]
        # Between the ranks of this round there are no other candidates: all are decided.
        candidates.add_centers(rows[novel], ranks[-1] + 1)


def _round_rows(engine, block_rows):
    """Return the number of candidates of a round."""
    return min(engine.round_rows, max(_MIN_ROUND_ROWS, int(_ROUND_FRACTION * block_rows)))


def _open_candidates(ordered: OrderedSamples, rule: NoveltyRule, block_rows: int) -> Candidates:
    """Return the candidates: in memory, distributed over devices, or in remote blocks."""
    if isinstance(ordered.X, Source) and ordered.X.is_remote:
        return RemoteCandidates(ordered, rule)
    n_elements = len(ordered) * ordered.X.shape[1]
    if isinstance(ordered.X, ShardedRows) and n_elements >= _MIN_SHARED_ELEMENTS:
        return ShardedCandidates(ordered, rule, block_rows)
    return ActiveCandidates(ordered, rule, np.arange(len(ordered)), block_rows)


def _select_in_group(ordered, rule, limit):
    """Do as `novel_rows` does, for the rows of one group."""
    engine, block_rows = ordered.engine, ordered.block_rows or ordered.engine.block_rows
    candidates = _open_candidates(ordered, rule, block_rows)
    # Rounds are lazy: if the limit is exceeded, no further samples are read.
    found, count = [], 0
    for ranks in select_in_rounds(engine, candidates, rule, _round_rows(engine, block_rows)):
        found.append(ranks)
        count += len(ranks)
        if limit is not None and count > limit:
            break
    return _truncate(np.concatenate(found), len(ordered), limit)


def _truncate(found, n_rows, limit):
    """Return at most ``limit + 1`` positions, and the number of rows needed to find them."""
    if limit is None or len(found) <= limit:
        return found, n_rows
    # The count does not depend on where the last round ended, only on the samples.
    return found[: limit + 1], int(found[limit]) + 1


def _selections(
    ordered: OrderedSamples, rule: NoveltyRule
) -> Iterator[tuple[npt.NDArray, Callable[[int | None], tuple[npt.NDArray, int]]]]:
    """Yield for each group its positions, and a function of the limit that selects among them."""
    if ordered.group_blocks is None:
        for positions, group in ordered.by_group():
            yield positions, partial(_select_in_group, group, rule)
        return
    # Small groups: one call of the engine selects in all of them, without rounds.
    layers = [rule.layer(rows) for _, rows in ordered.group_blocks]
    found = ordered.engine.select_novel_by_group(layers, rule.overlap)
    for (positions, _), novel in zip(ordered.group_blocks, found, strict=True):
        yield positions, partial(_truncate, novel, len(positions))
