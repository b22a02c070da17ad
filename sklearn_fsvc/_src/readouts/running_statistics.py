"""Rows that come and go: their sums, and the rows that wait to be summed.

A product of a few rows with themselves reads and writes all of H'H. So rows wait until there are
as many as suit it.
"""

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ..data.samples import Samples
from ..data.sources import joined
from .cross_validation import ROUNDING, CVStatistics, n_parts
from .sample import Sample
from .statistics import RidgeStatistics


class ImpossibleSums(ValueError):
    """What would be left are sums of no rows; of `output`, if of one there is less than nothing."""

    def __init__(self, what, output=None):
        super().__init__(what)
        self.output = output


@dataclass(frozen=True, eq=False)
class _Values:
    """Targets that are numbers already, (n_rows, n_outputs) in float64."""

    values: np.ndarray
    are_whole = False

    @property
    def n_outputs(self):
        return self.values.shape[1]

    def taken(self, rows):
        return _Values(self.values[rows])

    def matrix(self, rows=slice(None), xp=np):
        return xp.asarray(self.values[rows])


@dataclass(frozen=True, eq=False)
class BufferedRows:
    """Rows that wait."""

    samples: Samples  # on the host
    # (n_rows,): logarithm of the memory as each row came; None where nothing had faded by then.
    faded: np.ndarray | None = None

    @property
    def kind(self):
        """Rows of one kind can be joined."""
        return type(self.samples.X), self.samples.X.dtype

    def kept(self):
        """Return the same rows in arrays of their own."""
        samples = self.samples
        weight = None if samples.weight is None else samples.weight.copy()
        values = _Values(samples.targets.matrix())
        return BufferedRows(Samples(samples.X.copy(), values, weight), self.faded)

    def left(self, memory):
        """The logarithm of what is left of each row, where that of the memory is now `memory`."""
        return memory - (np.zeros(len(self.samples)) if self.faded is None else self.faded)


def _joined(waiting):
    """Return rows of one kind that wait as one."""
    if len(waiting) == 1:
        return waiting[0]
    samples, weight, faded = [each.samples for each in waiting], None, None
    if any(each.weight is not None for each in samples):
        weights = (np.ones(len(s)) if s.weight is None else s.weight for s in samples)
        weight = np.concatenate(list(weights))
    if any(each.faded is not None for each in waiting):
        faded = np.concatenate([-each.left(0.0) for each in waiting])
    targets = np.concatenate([each.targets.matrix() for each in samples])
    return BufferedRows(
        Samples(joined([each.X for each in samples]), _Values(targets), weight), faded
    )


@dataclass(frozen=True, eq=False)
class RunningStatistics:
    """Sums of rows that came and did not go. Never changed: what changes it gives another one.

    Where `evaluate` is asked for, it is called with `Samples` and how many parts of the rows
    are held out, and gives their `CVStatistics` on the host.
    """

    # Of rows that wait.
    most_rows: int
    most_bytes: int
    total: RidgeStatistics | None = None  # on the host; None where there are no rows
    waiting: tuple[BufferedRows, ...] = ()
    n_rows: int = 0
    n_bytes: int = 0
    # Logarithm of what is left by now of a row that came first, and of what was as the total was
    # made: later ones divided by earlier ones are the weights of rows.
    memory: float = 0.0
    memory_of_total: float = 0.0
    # How many parts of the rows are held out in their turn; 0 where a penalty is given.
    n_parts: int = 0
    held: tuple = ()  # as of `CVStatistics`
    sample: Sample | None = None  # of the rows that do not wait, where one is wanted
    # Rows that were learnt and forgotten, whatever their weight.
    n_added: int = 0
    n_removed: int = 0

    @property
    def is_empty(self):
        return self.total is None and not self.waiting

    @property
    def sums(self):
        """`CVStatistics` of the rows that do not wait, None where there are none."""
        return None if self.total is None else CVStatistics(self.total, self.held)

    def learn(self, samples, factor, evaluate):
        """Return it with more rows, `Samples` of the host. They wait, as copies, or are evaluated.

        A row's weight is multiplied by `factor` with every row that comes after it.
        """
        memory, faded = self.memory, None
        if factor < 1 or memory < 0:
            faded = memory + np.log(factor) * np.arange(1, len(samples) + 1)
            memory = float(faded[-1])
        more = BufferedRows(samples, faded)
        n_bytes = samples.X.nbytes + 8 * len(samples) * (samples.targets.n_outputs + 2)
        here = self._counting(len(samples))
        if self._is_full(len(samples), n_bytes):  # alone: nothing is gained by waiting
            return replace(here.flush(evaluate), memory=memory)._with_rows(more, evaluate)
        n_rows, n_bytes = self.n_rows + len(samples), self.n_bytes + n_bytes
        waiting = (*self.waiting, more.kept())
        later = replace(here, n_rows=n_rows, n_bytes=n_bytes, memory=memory, waiting=waiting)
        return later.flush(evaluate) if self._is_full(n_rows, n_bytes) else later

    def _counting(self, n_added):
        """Return it with so many more rows, of which fewer parts may be needed."""
        n_added += self.n_added
        parts = min(self.n_parts, n_parts(0, n_added))
        return replace(self, n_added=n_added, n_parts=parts, held=self.held[:parts])

    def _is_full(self, n_rows, n_bytes):
        return n_rows >= self.most_rows or n_bytes >= self.most_bytes

    def flush(self, evaluate):
        """Return it with no row that waits."""
        result = replace(self, waiting=(), n_rows=0, n_bytes=0)
        for _, alike in groupby(self.waiting, lambda each: each.kind):
            result = result._with_rows(_joined(list(alike)), evaluate)
        return result

    def _with_rows(self, more, evaluate):
        """Return it with rows that waited, or need not."""
        samples, left = more.samples, None if self.memory == 0 else more.left(self.memory)
        here = self._remembered()
        sample = here.sample and here.sample.learn(samples, left)
        if left is not None:
            fade = np.exp(left)
            weight = fade if samples.weight is None else fade * samples.weight
            samples = replace(samples, weight=weight)
        return here._add(evaluate(samples, self.n_parts), sample)

    def _add(self, more, sample):
        return self._with(more if self.total is None else self.sums + more, sample)

    def _with(self, sums, sample):
        held = sums.held[: self.n_parts]
        return replace(self, total=sums.total, held=held, sample=sample)

    def _remembered(self):
        """Return it with as much of the sums and of the sample as is not forgotten by now."""
        fade, here = self.memory - self.memory_of_total, self
        if fade and self.total is not None:
            sums = self.sums.scaled(np.exp(fade))
            here = self._with(sums, self.sample and self.sample.decayed(fade))
        return replace(here, memory_of_total=self.memory)

    def forget(self, samples, evaluate):
        """Return it without rows that came before; ImpossibleSums where there were none such."""
        before = replace(
            self.flush(evaluate), n_removed=self.n_removed + len(samples)
        )._remembered()
        sums, gone = before.sums, evaluate(samples, self.n_parts)
        if sums is None:
            raise ImpossibleSums("there are no rows left to be forgotten")
        left, sample = sums - gone, before.sample
        if _is_nothing(sums.total, left.total):
            return replace(before, total=None, held=(), sample=sample and Sample(sample.capacity))
        _check_possible(sums.total, left.total)
        return before._with(left, sample and sample.forget(samples))

    def merge(self, other, evaluate):
        """Return it with the rows of another stream, each as far as it is remembered there."""
        here, more = (each.flush(evaluate)._remembered() for each in (self, other))
        parts, n_removed = min(self.n_parts, other.n_parts), self.n_removed + other.n_removed
        here = replace(here, n_parts=parts, n_removed=n_removed)._counting(other.n_added)
        sample = here.sample and more.sample and here.sample.merge(more.sample)
        here = replace(here, sample=sample)
        return here if more.total is None else here._add(more.sums, sample)


def _squares(statistics):
    """Sums of squares of y and of the units, side by side."""
    return np.concatenate([statistics.yy, statistics.gram.diagonal()])


def _is_nothing(before, left):
    """Whether all sums are zero, but for rounding."""
    is_zero = abs(left.n) <= ROUNDING * before.n
    return is_zero and (np.abs(_squares(left)) <= ROUNDING * _squares(before).max()).all()


def _check_possible(before, left):
    """Raise if the sums that are left are those of no rows."""
    short = np.flatnonzero(left.yy < -ROUNDING * before.yy.max())
    if len(short):
        raise ImpossibleSums("they hold more of it than was learnt", int(short[0]))
    if left.n <= ROUNDING * before.n:
        raise ImpossibleSums(
            f"their weights add up to {before.n - left.n:g}, and those of the rows that were "
            f"learnt to {before.n:g}"
        )
    means = np.concatenate([left.y, left.h]) / left.n
    least = _squares(before)
    least = -ROUNDING * (least + ROUNDING * least.max())
    if (_squares(left) - left.n * means**2 < least).any():
        raise ImpossibleSums("without them, a sum of squares about the mean would be negative")
