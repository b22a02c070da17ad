"""A symmetric matrix as column panels of its lower triangle: half the memory of a square.

All calls of BLAS are on panels, so that they stay in the range of 32 bits, and below the order
at which OpenBLAS crashes as it factorises (14,336 with version 0.3.30 and two threads).
"""

from threading import Event

import numpy as np

from ..engines.device_group import Stopped
from ..engines.integers import exact_products

# Columns of a panel.
WIDTH = 2048
# Columns of a panel that are summed at a time, at least, where memory is short; and the part of it
# that their sums may take.
_LEAST_STRIP, _OF_MEMORY = 256, 16
# Steps of the inverse iteration that estimates an eigenvalue.
_STEPS = 3


def _shapes(order):
    return [(order - first, min(WIDTH, order - first)) for first in range(0, order, WIDTH)]


class PackedSymmetric:
    """The lower triangle of a symmetric matrix in float64, all 0 at first.

    Parameters
    ----------
    algebra : HostAlgebra or its like
    blocks : list of arrays, optional
        Each with the rows from its first diagonal element on, and contiguous columns. Above
        the diagonal there may be anything. None where another matrix has the panel.
    team : Team, optional
        Where panel j is on the device of member j modulo their number.
    """

    has_room = False  # whether `add_gram` may take memory to be faster
    strip = WIDTH  # columns of a panel that `add_gram` sums at a time

    def __init__(self, order, algebra, blocks=None, team=None):
        self.order, self.algebra, self.blocks, self.team = order, algebra, blocks, team
        if blocks is None:
            self.blocks = [algebra.xp.zeros(shape, order="F") for shape in _shapes(order)]

    @classmethod
    def some(cls, order, algebra, number, n):
        """Every `n`-th panel from a number on; None for the others."""
        shapes = enumerate(_shapes(order))
        blocks = [algebra.xp.zeros(s, order="F") if i % n == number else None for i, s in shapes]
        return cls(order, algebra, blocks)

    @staticmethod
    def nbytes(order, n=1):
        """Bytes of a matrix of that order: 4 order^2, and a little more; of every `n`-th panel."""
        return sum(8 * rows * columns for rows, columns in _shapes(order)[::n])

    def __iter__(self):
        """(number of its first column, panel) of each."""
        return ((self.order - len(block), block) for block in self.blocks if block is not None)

    def __getstate__(self):
        return vars(self) | {"team": None}

    def _each(self):
        """Iterate as `__iter__`, in a thread that computes where the panel is."""
        for first, block in self:
            with self.algebra.at(block):
                yield first, block
            self._wait_for(block)

    def _wait_for(self, block):
        """Others may look at what was written."""
        if self.team is not None:
            with self.algebra.at(block):
                self.algebra.finish()

    @property
    def dtype(self):
        return next(iter(self))[1].dtype

    def copy(self):
        blocks = [block.copy("F") for _, block in self._each()]
        return PackedSymmetric(self.order, self.algebra, blocks, self.team)

    def plus_outer(self, factor, v, dtype=np.float64):
        """Return ``A + factor v v'``, summed in float64 and then rounded to the dtype.

        Rounding A first would lose what is left where the two terms cancel.
        """

        def panel(first, block):
            rows, result = self.algebra.here(v)[first:, None], block
            if dtype != np.float64:
                result = self.algebra.xp.empty(block.shape, dtype, order="F")
            width = WIDTH if dtype == np.float64 else _LEAST_STRIP
            for start in range(0, block.shape[1], width):
                columns = slice(start, start + width)
                total = block[:, columns].copy("F")
                self.algebra.gemm(total, rows, rows[columns].T, factor)
                if dtype == np.float64:
                    return total
                result[:, columns] = total
            return result

        blocks = [panel(first, block) for first, block in self._each()]
        return PackedSymmetric(self.order, self.algebra, blocks, self.team)

    def on(self, algebra):
        """Return the same matrix where another algebra has its arrays."""
        there = [algebra.xp.asarray(self.algebra.to_host(b), order="F") for b in self.blocks]
        return PackedSymmetric(self.order, algebra, there)

    def leading(self, order):
        """The leading part, as views."""
        blocks = [block[: order - first, : order - first] for first, block in self if first < order]
        return PackedSymmetric(order, self.algebra, blocks, self.team)

    def diagonal(self):
        """Of the host."""
        return np.concatenate([self.algebra.to_host(block.diagonal()) for _, block in self._each()])

    def add_to_diagonal(self, number):
        for _, block in self._each():
            self.algebra.add_to_diagonal(block, number)

    def add(self, other, sign=1):
        """Add the other matrix, or subtract it, in place."""
        for (_, block), more in zip(self._each(), other.blocks, strict=True):
            self.algebra.add(block, self.algebra.here(more), sign)

    def add_outer(self, factor, v):
        """Add ``factor v v'``, in place."""
        for first, block in self._each():
            rows = self.algebra.here(v)[first:, None].astype(block.dtype, copy=False)
            self.algebra.gemm(block, rows, rows[: block.shape[1]].T, factor)

    def add_gram(self, H, steps=None):
        """Add H'H, in place; by products in the dtype of H. H has contiguous rows.

        Where there is no memory for it, nothing has been added. Exactly where H is rounded to
        `steps`: in bytes, or by products of so few rows that they do not round.
        """
        if steps is not None and self.algebra.add_gram_of_bytes(list(self), H, steps):
            return
        n_rows = len(H)
        if steps is not None:
            dtype, n_rows = exact_products(steps, H.dtype)
            H = H.astype(dtype, copy=False)
        if H.dtype == np.float64:
            for first, block in self:
                self._multiply(H[:, first:], block, keep=1.0)
            return
        width = min(self.strip, WIDTH)
        spare = self.algebra.xp.zeros(self._rows * min(width, self.order), H.dtype)
        for first, block in self:
            for start in range(0, block.shape[1], width):
                part = block[start:, start : start + width]
                sums = spare[: part.size].reshape(part.shape, order="F")
                for row in range(0, len(H), n_rows):
                    self._multiply(H[row : row + n_rows, first + start :], sums, keep=0.0)
                    self.algebra.add_lower(part, sums)

    def _multiply(self, H, sums, keep):
        """The leading columns of H'H, below the diagonal, in `sums`, of which a part is kept."""
        n, rows = sums.shape[1], H.T
        self.algebra.syrk(sums[:n], rows[:n], keep=keep, has_room=self.has_room)
        self.algebra.gemm(sums[n:], rows[n:], H[:, :n], keep=keep)

    @property
    def _rows(self):
        return max(len(block) for _, block in self)

    @staticmethod
    def strip_for(order, dtype, limit):
        """Columns whose sums, in the dtype, take little of so many bytes."""
        few = limit // (_OF_MEMORY * order * np.dtype(dtype).itemsize)
        return min(max(few, _LEAST_STRIP), WIDTH)

    @staticmethod
    def gram_bytes(order, dtype, strip=WIDTH):
        """Bytes that `add_gram` takes beside its arguments."""
        return order * min(strip, order) * (np.dtype(dtype).itemsize % 8)

    @staticmethod
    def room_bytes(order, dtype, algebra):
        """Bytes that it takes beside them where it `has_room`."""
        return algebra.syrk_bytes(min(WIDTH, order), dtype)

    def multiply(self, B):
        """A B, a new array."""
        algebra, product = self.algebra, self.algebra.xp.zeros(B.shape)
        for first, block in self:
            n = block.shape[1]
            here, after = slice(first, first + n), slice(first + n, None)
            algebra.add(product[here], algebra.symmetric_product(block[:n], B[here]))
            if n < len(block):
                product[here] += algebra.cross(block[n:], B[after])
                product[after] += algebra.multiply(block[n:], B[here])
        return product

    def quadratic(self, W):
        """The sum of ``w A w'`` over the rows w of W."""
        return sum(self._quadratic(W, first, block) for first, block in self._each())

    def _quadratic(self, W, first, block):
        """What a panel adds to it."""
        W, n = self.algebra.here(W), block.shape[1]
        part, rest = W[:, first : first + n], W[:, first + n :]
        algebra = self.algebra
        total = algebra.inner(algebra.symmetric_product(block[:n], part.T), part.T)
        if rest.size:
            total += 2 * algebra.inner(algebra.multiply(rest, block[n:]), part)
        return total

    def full(self):
        """A square with the lower triangle, and zeros above."""
        xp = self.algebra.xp
        square = xp.zeros((self.order, self.order), order="F")
        for first, block in self:
            block, n = self.algebra.here(block), block.shape[1]
            square[first:, first : first + n] = block
            square[first : first + n, first : first + n] = xp.tril(block[:n])
        return square

    def factorise(self):
        """The lower factor of A = L L', in place; False where there is none.

        Right-looking: as soon as a panel is done, those after it are rid of its part.
        """
        if self.team is not None:
            return Factorisation(self).run()
        blocks = list(self)
        for i, (first, block) in enumerate(blocks):
            if not self.factorise_panel(block):
                return False
            for later, other in blocks[i + 1 :]:
                self.subtract(other, block[later - first :])
        return True

    def factorise_panel(self, block):
        """The part of the factor in a panel that is rid of the parts of all before it."""
        n = block.shape[1]
        if not self.algebra.factorise(block[:n]):
            return False
        if n < len(block):
            self.algebra.solve_lower(block[:n], block[n:].T)
        return True

    def subtract(self, block, rows):
        """Rid a panel of the part of one before it, of which these are the rows."""
        m = block.shape[1]
        self.algebra.syrk(block[:m], rows[:m], -1.0)
        self.algebra.gemm(block[m:], rows[m:], rows[:m].T, -1.0)

    def solve_lower(self, right, transposed=False):
        """``L x = right``, or ``L' x = right``, for the factor L: in place of `right`.

        `right` (order, columns) has contiguous columns, and a dtype, in which it is solved.
        """
        algebra, strips = self.algebra, self._strips(right.dtype)
        for first, block in reversed(strips) if transposed else strips:
            block, n = algebra.here(block).astype(right.dtype, copy=False), block.shape[1]
            here, below = right[first : first + n], right[first + n :]
            if transposed:
                algebra.gemm(here, block[n:].T, below, -1.0)
            algebra.solve_lower(block[:n], here, transposed)
            if not transposed:
                algebra.gemm(below, block[n:], here, -1.0)
        return right

    def _strips(self, dtype):
        """Panels, or narrower ones, of which each takes little memory in another dtype."""
        width = WIDTH if dtype == self.dtype else _LEAST_STRIP
        return [
            (first + start, block[start:, start : start + width])
            for first, block in self
            for start in range(0, block.shape[1], width)
        ]

    @staticmethod
    def strip_bytes(order):
        """Bytes that `solve_lower` takes in float32 with a factor in float64."""
        return 4 * _LEAST_STRIP * order

    def inverse_factor(self):
        """The inverse of the factor L, a square with zeros above the diagonal."""
        inverse = self.algebra.xp.eye(self.order, order="F")
        for first, block in self:
            block, n = self.algebra.here(block), block.shape[1]
            known = inverse[:, : first + n]  # columns after these are still those of the unit
            here = known[first : first + n]
            self.algebra.solve_lower(block[:n], here)
            self.algebra.gemm(known[first + n :], block[n:], here, -1.0)
        return inverse

    def smallest_eigenvalue(self):
        """Estimate that of L L' for the factor L from above, by inverse iteration; NaN for none."""
        xp = self.algebra.xp
        start = np.random.RandomState(0).standard_normal((self.order, 1))
        v = xp.asarray(start, self.dtype, order="F")
        for _ in range(_STEPS):
            v /= xp.linalg.norm(v)
            v = self.solve_lower(self.solve_lower(v), transposed=True)
        return 1 / float(xp.linalg.norm(v))


# Panels of a matrix that several devices have, factorised where they are.

# Seconds after which a thread that waits for a panel looks whether others have failed.
_LOOK = 0.1


class Factorisation:
    """`PackedSymmetric.factorise` of panels on several devices: panel j is on device j modulo n.

    Each device rids its own panels of the parts of those before. Who has the next panel does
    that one first and factorises it, so that nobody waits long for it.
    """

    def __init__(self, panels):
        self._panels, self._blocks = panels, list(panels)
        self._n = len(panels.team.members)
        self._done, self._is_possible = [Event() for _ in self._blocks], True

    def run(self):
        """Whether there is a factor."""
        self._panels.team.each(self._work, list(range(self._n)))
        return self._is_possible

    def _work(self, member, number, stop):
        if number == 0:
            self._factorise(0)
        for i, (first, block) in enumerate(self._blocks):
            own = [j for j in range(i + 1, len(self._blocks)) if j % self._n == number]
            self._wait_for(i, stop)
            if not self._is_possible:
                return
            if not own:
                continue
            start = self._blocks[own[0]][0] - first
            below = (block if i % self._n == number else self._panels.algebra.here(block))[start:]
            for j in own:
                later, other = self._blocks[j]
                self._panels.subtract(other, below[later - first - start :])
                if j == i + 1:
                    self._factorise(j)

    def _factorise(self, i):
        if not self._panels.factorise_panel(self._blocks[i][1]):
            self._is_possible = False
        self._panels.algebra.finish()
        self._done[i].set()

    def _wait_for(self, i, stop):
        while self._is_possible and not self._done[i].wait(_LOOK):
            if stop.is_set():
                raise Stopped
