"""A symmetric matrix as column panels of its lower triangle: half the memory of a square.

All calls of BLAS are on panels, so that indices fit in 32 bits, and orders stay below that at which
OpenBLAS crashes in a Cholesky factorisation (14,336 with version 0.3.30 and two threads).
"""

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.device_group import WorkCancelled
from ..engines.integers import exact_product_dtype

# Columns of a panel.
WIDTH = 2048
# If memory is short, products are summed for strips of columns: at least this many, and as many as
# take one part in `_MEMORY_SHARE` of the memory.
_MIN_STRIP, _MEMORY_SHARE = 256, 16
# Steps of the inverse iteration that estimates the smallest eigenvalue.
_INVERSE_ITERATIONS = 3
# Panels above which copies of a block of a panel take a small part of the memory of a matrix.
_MANY_PANELS = 4
# Seconds between checks for failed threads, while waiting for a panel.
_POLL_INTERVAL = 0.1


def _shapes(order):
    """Return the shapes of the panels: from the first diagonal element of each down."""
    return [(order - first, min(WIDTH, order - first)) for first in range(0, order, WIDTH)]


class PackedSymmetric:
    """The lower triangle of a symmetric float64 matrix, initially 0; or its Cholesky factor.

    Parameters
    ----------
    order : int
    algebra : Algebra
    blocks : list of arrays, optional
        Panels with the rows from the first diagonal element on, and contiguous columns. Elements
        above the diagonal are undefined. None for panels that another matrix holds.
    device_group : DeviceGroup, optional
        Devices that hold the panels: panel j is on device j modulo their number.
    """

    allow_workspace = False  # whether `add_gram` may take more memory to be faster
    strip = WIDTH  # columns of a panel that `add_gram` sums at a time
    cast_strip = _MIN_STRIP  # columns that `solve_lower` casts at a time

    def __init__(
        self, order: int, algebra: Any, blocks: list | None = None, device_group: Any = None
    ):
        self.order, self.algebra, self.device_group = order, algebra, device_group
        if blocks is None:
            blocks = [algebra.xp.zeros(shape, order="F") for shape in _shapes(order)]
        self.blocks = blocks
        self._inverses: list | None = None  # of the diagonal blocks: see `prepare_solves`

    @classmethod
    def every_nth(cls, order: int, algebra: Any, first: int, n: int) -> "PackedSymmetric":
        """Return the panels first, first + n, first + 2n, ...; None in the place of others."""
        blocks = [
            algebra.xp.zeros(shape, order="F") if i % n == first else None
            for i, shape in enumerate(_shapes(order))
        ]
        return cls(order, algebra, blocks)

    @staticmethod
    def nbytes(order: int, n: int = 1) -> int:
        """Return the bytes of every `n`-th panel: 4 order^2 and a little more for all."""
        return sum(8 * rows * columns for rows, columns in _shapes(order)[::n])

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Iterate over (index of the first column, panel)."""
        return ((self.order - len(block), block) for block in self.blocks if block is not None)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"device_group": None}

    def _panels_in_place(self):
        """Iterate as `__iter__`, with the device of the panel as the current one."""
        for first, block in self:
            with self.algebra.device_of(block):
                yield first, block
            self._synchronise(block)

    def _synchronise(self, block):
        """Wait until the device of a panel is done, before other devices read the panel."""
        if self.device_group is not None:
            with self.algebra.device_of(block):
                self.algebra.synchronize()

    @property
    def dtype(self) -> np.dtype:
        return next(iter(self))[1].dtype

    def copy(self) -> "PackedSymmetric":
        blocks = [block.copy("F") for _, block in self._panels_in_place()]
        return PackedSymmetric(self.order, self.algebra, blocks, self.device_group)

    def plus_outer(self, factor: float, v: Any, dtype: npt.DTypeLike) -> "PackedSymmetric":
        """Return ``A + factor v v'``, summed in float64 and then rounded to the dtype.

        Rounding A first would lose the digits that are left if the two terms cancel.
        """

        def panel(first, block):
            rows = self.algebra.to_device(v)[first:, None]
            if dtype == np.float64:
                return add_outer(block, rows, slice(None))
            # By strips, since the float64 sum of a whole panel would take twice the result.
            result = self.algebra.xp.empty(block.shape, dtype, order="F")
            for start in range(0, block.shape[1], _MIN_STRIP):
                columns = slice(start, start + _MIN_STRIP)
                result[:, columns] = add_outer(block, rows, columns)
            return result

        def add_outer(block, rows, columns):
            total = block[:, columns].copy("F")
            self.algebra.gemm(total, rows, rows[: block.shape[1]][columns].T, factor)
            return total

        blocks = [panel(first, block) for first, block in self._panels_in_place()]
        return PackedSymmetric(self.order, self.algebra, blocks, self.device_group)

    def on(self, algebra: Any) -> "PackedSymmetric":
        """Return the same matrix in arrays of another algebra."""
        blocks = [algebra.xp.asarray(self.algebra.to_host(b), order="F") for b in self.blocks]
        return PackedSymmetric(self.order, algebra, blocks)

    def leading(self, order: int) -> "PackedSymmetric":
        """Return the leading block, as views."""
        blocks = [block[: order - first, : order - first] for first, block in self if first < order]
        return PackedSymmetric(order, self.algebra, blocks, self.device_group)

    def diagonal(self) -> npt.NDArray:
        """Return the diagonal, on the host."""
        to_host = self.algebra.to_host
        return np.concatenate([to_host(block.diagonal()) for _, block in self._panels_in_place()])

    def add_to_diagonal(self, number: float) -> None:
        for _, block in self._panels_in_place():
            self.algebra.add_to_diagonal(block, number)

    def clear(self, indices: npt.NDArray[np.intp]) -> None:
        """Set rows and columns to 0, in place."""
        for first, block in self._panels_in_place():
            rows = indices[indices >= first] - first
            columns = rows[rows < block.shape[1]]
            block[self.algebra.to_device(rows)] = 0
            block[:, self.algebra.to_device(columns)] = 0

    def add(self, other: "PackedSymmetric", sign: int = 1) -> None:
        """Add the other matrix, or subtract it, in place."""
        for (_, block), increment in zip(self._panels_in_place(), other.blocks, strict=True):
            self.algebra.add(block, self.algebra.to_device(increment), sign)

    def add_outer(self, factor: float, v: Any) -> None:
        """Add ``factor v v'``, in place."""
        for first, block in self._panels_in_place():
            rows = self.algebra.to_device(v)[first:, None].astype(block.dtype, copy=False)
            self.algebra.gemm(block, rows, rows[: block.shape[1]].T, factor)

    def add_gram(self, H: Any, quantizer: Any = None) -> None:
        """Add H'H, in place, by products in the dtype of H, whose rows are contiguous.

        A MemoryError leaves the matrix as it was. The sum is exact if `quantizer` has rounded H: by
        products of 8-bit integers, or of so few rows that no product is rounded.
        """
        if quantizer is not None and self.algebra.add_integer_gram(list(self), H, quantizer):
            return
        n_rows = len(H)
        if quantizer is not None:
            dtype, n_rows = exact_product_dtype(quantizer, H.dtype)
            H = H.astype(dtype, copy=False)
        if H.dtype == np.float64:
            for first, block in self:
                self._multiply(H[:, first:], block, beta=1.0)
            return
        # Products in float32 are computed in a buffer, and then added in float64.
        width = min(self.strip, WIDTH)
        buffer_rows = max(len(block) for _, block in self)
        buffer = self.algebra.xp.zeros(buffer_rows * min(width, self.order), H.dtype)
        for first, block in self:
            for start in range(0, block.shape[1], width):
                part = block[start:, start : start + width]
                product = buffer[: part.size].reshape(part.shape, order="F")
                for row in range(0, len(H), n_rows):
                    self._multiply(H[row : row + n_rows, first + start :], product, beta=0.0)
                    self.algebra.add_lower(part, product)

    def _multiply(self, H, product, beta):
        """Write the leading columns of H'H below the diagonal, plus `beta` times `product`."""
        n, rows = product.shape[1], H.T
        self.algebra.syrk(product[:n], rows[:n], beta=beta, allow_workspace=self.allow_workspace)
        self.algebra.gemm(product[n:], rows[n:], H[:, :n], beta=beta)

    @staticmethod
    def strip_for(order: int, dtype: npt.DTypeLike, limit: int) -> int:
        """Return columns whose products, in the dtype, take a small part of `limit` bytes."""
        n_columns = limit // (_MEMORY_SHARE * order * np.dtype(dtype).itemsize)
        return min(max(n_columns, _MIN_STRIP), WIDTH)

    @staticmethod
    def gram_bytes(order: int, dtype: npt.DTypeLike, strip: int) -> int:
        """Return the bytes that `add_gram` allocates: none for float64."""
        return order * min(strip, order) * (np.dtype(dtype).itemsize % 8)

    @staticmethod
    def workspace_bytes_of(order: int, dtype: npt.DTypeLike, algebra: Any) -> int:
        """Return the additional bytes that `add_gram` allocates if `allow_workspace` is True."""
        return algebra.syrk_workspace_bytes(min(WIDTH, order), dtype)

    def multiply(self, B: Any, transform: Callable[[Any], Any] | None = None) -> Any:
        """Return A B, a new array; with ``transform(block)`` for each panel of A, if given."""
        algebra, product = self.algebra, self.algebra.xp.zeros(B.shape)
        for first, block in self:
            block = block if transform is None else transform(block)
            n = block.shape[1]
            here, after = slice(first, first + n), slice(first + n, None)
            algebra.add(product[here], algebra.symm(block[:n], B[here]))
            if n < len(block):
                product[here] += algebra.multiply_transposed(block[n:], B[after])
                product[after] += algebra.multiply(block[n:], B[here])
        return product

    def quadratic(self, W: Any) -> Any:
        """Return the sum of ``w A w'`` over the rows w of W."""
        return sum(self._quadratic(W, first, block) for first, block in self._panels_in_place())

    def _quadratic(self, W, first, block):
        """Return the term of a panel: its diagonal block once, and what is below twice."""
        W, n = self.algebra.to_device(W), block.shape[1]
        here, below = W[:, first : first + n], W[:, first + n :]
        algebra = self.algebra
        total = algebra.inner(algebra.symm(block[:n], here.T), here.T)
        if below.size:
            total += 2 * algebra.inner(algebra.multiply(below, block[n:]), here)
        return total

    def full(self) -> Any:
        """Return a square array with the lower triangle, and zeros above."""
        xp = self.algebra.xp
        square = xp.zeros((self.order, self.order), order="F")
        for first, block in self:
            block, n = self.algebra.to_device(block), block.shape[1]
            square[first:, first : first + n] = block
            square[first : first + n, first : first + n] = xp.tril(block[:n])
        return square

    def factorise(self) -> bool:
        """Replace A by its Cholesky factor, A = L L', in place; return whether there is one.

        Right-looking block Cholesky (G. H. Golub and C. F. Van Loan, "Matrix Computations", section
        4.2): as soon as a panel is factored, its outer product is subtracted from those after it.
        """
        if self.device_group is not None:
            return _DistributedCholesky(self).run()
        blocks = list(self)
        for i, (first, block) in enumerate(blocks):
            if not self.factorise_panel(block):
                return False
            for later, other in blocks[i + 1 :]:
                self.subtract_product(other, block[later - first :])
        return True

    def factorise_panel(self, block: Any) -> bool:
        """Factorise a panel from which the products of all earlier ones have been subtracted."""
        n = block.shape[1]
        if not self.algebra.factorise(block[:n]):
            return False
        if n < len(block) and self.algebra.prefers_inverse and len(self.blocks) > _MANY_PANELS:
            inverse = self._inverse_of(block).T
            for start in range(n, len(block), WIDTH):
                rows = block[start : start + WIDTH]
                rows[...] = self.algebra.multiply(rows, inverse)
        elif n < len(block):
            self.algebra.solve_lower(block[:n], block[n:].T)
        return True

    def subtract_product(self, block: Any, rows: Any) -> None:
        """Subtract the product of an earlier panel from a panel, of which `rows` are the rows."""
        m = block.shape[1]
        self.algebra.syrk(block[:m], rows[:m], -1.0)
        self.algebra.gemm(block[m:], rows[m:], rows[:m].T, -1.0)

    def prepare_solves(self) -> None:
        """Invert the diagonal blocks of a factor, for many solves of few columns.

        On some devices, products with these take less time than triangular solves. Of few panels,
        the inverses would take much of the memory of the factor.
        """
        if self.algebra.prefers_inverse and len(self.blocks) > 2:
            self._inverses = [self._inverse_of(block) for _, block in self._panels_in_place()]

    def _inverse_of(self, block):
        """Return the inverse of the diagonal block of a panel of a factor."""
        n = block.shape[1]
        inverse = self.algebra.xp.eye(n, dtype=block.dtype, order="F")
        self.algebra.solve_lower(block[:n], inverse)
        return inverse

    def solve_lower(self, right: Any, transposed: bool = False) -> Any:
        """Solve ``L x = right``, or ``L' x = right``, for a factor L; overwrite and return `right`.

        `right` (order, n_columns) has contiguous columns; its dtype is that of the computation.
        """
        algebra, strips = self.algebra, self._strips(right.dtype)
        inverses = self._inverses if right.dtype == self.dtype else None
        inverses = inverses or [None] * len(strips)
        pairs = list(zip(strips, inverses, strict=True))
        for (first, block), inverse in reversed(pairs) if transposed else pairs:
            block, n = algebra.to_device(block).astype(right.dtype, copy=False), block.shape[1]
            here, below = right[first : first + n], right[first + n :]
            if transposed:
                algebra.gemm(here, block[n:].T, below, -1.0)
            if inverse is None:
                algebra.solve_lower(block[:n], here, transposed)
            else:
                here[...] = algebra.multiply(inverse.T if transposed else inverse, here)
            if not transposed:
                algebra.gemm(below, block[n:], here, -1.0)
        return right

    def solve_unit_vectors(self, units: npt.NDArray, dtype: npt.DTypeLike) -> Any:
        """Solve ``L x = e_j`` for each of `units` j, which ascend; -1 stands for a column of zeros.

        The first j elements of a solution are 0, and are skipped.
        """
        algebra, n_without = self.algebra, int(np.searchsorted(units, 0))
        right = np.zeros((self.order, len(units)), dtype, order="F")
        right[units[n_without:], np.arange(n_without, len(units))] = 1
        right = algebra.to_device(right)
        for first, block in self._strips(right.dtype):
            n = block.shape[1]
            columns = slice(n_without, int(np.searchsorted(units, first + n)))
            if columns.stop > columns.start:
                block = algebra.to_device(block).astype(right.dtype, copy=False)
                here, below = right[first : first + n, columns], right[first + n :, columns]
                algebra.solve_lower(block[:n], here)
                algebra.gemm(below, block[n:], here, -1.0)
        return right

    def _strips(self, dtype):
        """Return the panels, or narrow strips of them if they have to be cast to the dtype."""
        width = WIDTH if dtype == self.dtype else self.cast_strip
        return [
            (first + start, block[start:, start : start + width])
            for first, block in self
            for start in range(0, block.shape[1], width)
        ]

    @staticmethod
    def strip_bytes(order: int) -> int:
        """Return the bytes that `solve_lower` allocates in float32 with a float64 factor."""
        return 4 * _MIN_STRIP * order

    def inverse_factor(self, dtype: npt.DTypeLike = np.float64) -> Any:
        """Return the inverse of the factor L, a square array with zeros above the diagonal."""
        inverse = self.algebra.xp.eye(self.order, dtype=dtype, order="F")
        for first, block in self:
            block, n = self.algebra.to_device(block).astype(dtype, copy=False), block.shape[1]
            # Columns after these still are those of the identity.
            computed = inverse[:, : first + n]
            here = computed[first : first + n]
            self.algebra.solve_lower(block[:n], here)
            self.algebra.gemm(computed[first + n :], block[n:], here, -1.0)
        return inverse

    def smallest_eigenvalue(self) -> float:
        """Return an upper estimate of that of L L' for a factor L; NaN if L has NaN.

        By inverse iteration from a fixed random vector: the norm of (L L')^-1 v for a unit vector v
        is at most the inverse of the smallest eigenvalue.
        """
        xp = self.algebra.xp
        start = np.random.RandomState(0).standard_normal((self.order, 1))
        v = xp.asarray(start, self.dtype, order="F")
        for _ in range(_INVERSE_ITERATIONS):
            v /= xp.linalg.norm(v)
            v = self.solve_lower(self.solve_lower(v), transposed=True)
        return 1 / float(xp.linalg.norm(v))


class _DistributedCholesky:
    """`PackedSymmetric.factorise` with one thread for each of several devices.

    Panel j is on device j modulo n. For each panel i, each device waits until it is factored,
    copies it, and subtracts its product from the later panels of its own. The owner of panel i + 1
    updates that one first and factors it at once, while all others still work on panel i: this
    look-ahead keeps the devices busy.
    """

    def __init__(self, matrix: PackedSymmetric):
        self._matrix, self._blocks = matrix, list(matrix)
        self._n_devices = len(matrix.device_group.members)
        self._factored = [Event() for _ in self._blocks]  # for each panel
        self._is_possible = True  # False as soon as a panel is not positive definite

    def run(self) -> bool:
        """Return whether there is a factor."""
        self._matrix.device_group.map(self._work, list(range(self._n_devices)))
        return self._is_possible

    def _work(self, _engine, device, stop):
        """Do the part of a device, in a thread with that device as the current one."""
        if device == 0:
            self._factorise(0)
        for i in range(len(self._blocks)):
            if not self._wait_for(i, stop):
                return
            later = range(i + 1, len(self._blocks))
            own = [j for j in later if j % self._n_devices == device]
            if own:
                self._update(i, own, is_local=i % self._n_devices == device)

    def _update(self, i, own, is_local):
        """Subtract the product of panel i from panels `own`, which ascend."""
        first, block = self._blocks[i]
        start = self._blocks[own[0]][0] - first
        # The whole panel is copied to this device, before the rows above `own` are cut off.
        below = (block if is_local else self._matrix.algebra.to_device(block))[start:]
        for j in own:
            later, other = self._blocks[j]
            self._matrix.subtract_product(other, below[later - first - start :])
            if j == i + 1:
                self._factorise(j)

    def _factorise(self, i):
        if not self._matrix.factorise_panel(self._blocks[i][1]):
            self._is_possible = False
        self._matrix.algebra.synchronize()
        self._factored[i].set()

    def _wait_for(self, i, stop):
        """Wait until a panel is factored; return False if there is no factor."""
        is_factored: Callable[[float], bool] = self._factored[i].wait
        while self._is_possible and not is_factored(_POLL_INTERVAL):
            if stop.is_set():
                raise WorkCancelled
        return self._is_possible
