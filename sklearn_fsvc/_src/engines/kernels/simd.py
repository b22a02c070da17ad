"""The inner loop of the CPU kernels, emitted as LLVM IR: a register block of samples x units.

One block holds the sums of `n_rows` samples with `n_vectors` vectors of units in registers,
one accumulator register for each pair::

                    units of panel p, item k:
                    vector 0      vector 1     ...
    x[i, k]     ->  acc[0, 0]     acc[0, 1]            acc[r, u][l] += term(x[i + r, k],
    x[i + 1, k] ->  acc[1, 0]     acc[1, 1]                                 panel[k, u * lanes + l])
      ...                                                            k = 0, 1, 2, ...

Each step loads `n_vectors` vectors of units, broadcasts one item of each sample, and combines all
pairs, so that a loaded value is used several times (register blocking, as in a matrix product).
The terms are the methods of `vector_ops.VectorOps`.

- A *panel* is ``n_vectors * lanes`` units, transposed: their items k are contiguous, so that the
  vectors are loaded without gathers. Panels are zero-padded (`engines.panels`).
- The lanes of a vector are neighbouring units. Thus the sum over the features runs in the order
  of the features, in each lane by itself, and H does not depend on the tiling by one bit.
- An *item* is a float; for uint8 a group of 4 or 8 features, as many as the integer instruction
  sums for one lane.
- Many features are processed in several calls, so that a part of the panel stays in the cache;
  between two calls the accumulators are saved in `totals`.

LLVM's own vectoriser makes slower code of the same loop in Python, and does not find the integer
instructions at all.

A block is an intrinsic that numba's loops call with these arguments, where `lanes` are those of all
vectors of a panel:

========  ==============================  =========================================================
X         (rows, items)                   samples
i, valid  int                             first row of the block, and number of rows from there
panels    (n_panels, items, lanes)        units
p         int                             number of the panel
rows      tuple of arrays (rows,)         a value for each sample, such as its sum
units     tuple of (n_panels, lanes)      the same for each unit
epilogue  one, scale, offset (n_panels,   ``h = max(floor, scale * sum + offset)``; then for an
          lanes), floor, exponent         exponent of 1 exp(h), of 0 h, else exp(-(-h)^exponent);
                                          one is 1: see `VectorOps.minimum`
out       (rows, units)                   H
first,    int                             the items to sum; `first` is a multiple of CHUNK
last
totals    (slots, rows of a block,        accumulators of unfinished blocks
          lanes)
slot      int                             that of this block
========  ==============================  =========================================================
"""

from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, reduce
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .target import CHUNK, Target
from .vector_ops import I8, I32, I64, VectorOps, unpack_arguments

# numba's type of an item -> LLVM's.
_ITEM_TYPES = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.uint32: I32,
    types.uint64: I64,
}


@cache
def block(name: str, shape: tuple[int, int], target: Target) -> Any:
    """Return the intrinsic of a block.

    Parameters
    ----------
    name : str
        The sum: "manhattan", "sqeuclidean", "product", or for uint8 "bytes_min" or "bytes_sad".
    shape : tuple of int
        Rows, and vectors of units: one of `Target.block_shapes`.
    target : Target
    """
    emit = _EMITTERS[name]

    @intrinsic
    def block(
        context, X, i, valid, panels, p, rows, units, epilogue, out, first, last, totals, slot
    ):
        signature = types.void(
            X, i, valid, panels, p, rows, units, epilogue, out, first, last, totals, slot
        )

        def codegen(context, b, signature, args):
            values = unpack_arguments(context, b, signature, args)
            emit(_BlockEmitter(VectorOps(b, target), _ITEM_TYPES[X.dtype], shape, *values))
            return context.get_dummy_value()

        return signature, codegen

    return block


class _BlockEmitter:
    """Appends the code of one block to the builder; arrays are numba's, scalars LLVM values.

    Indices (r, u) of accumulators are a row of the block and a vector of units: both are known
    when the code is emitted, so that loops over them are unrolled.
    """

    def __init__(
        self, ops, item, shape, X, i, valid, panels, p, rows, units, epilogue, out,
        first, last, totals, slot,
    ):  # fmt: skip
        self.ops, self.b = ops, ops.builder
        self.X, self.i, self.valid, self.panels, self.p = X, i, valid, panels, p
        self.rows, self.units, self.out = rows, units, out
        self.one, self.scale, self.offset, self.floor, self.exponent = epilogue
        self.first, self.last, self.totals, self.slot = first, last, totals, slot
        self.n_rows, self.n_vectors = shape
        self.grid = tuple(product(range(self.n_rows), range(self.n_vectors)))
        self.is_float = item not in (I32, I64)
        bits = item.width if not self.is_float else 32 if item == ir.FloatType() else 64
        self.item_bytes = bits // 8
        self.vector = ir.VectorType(item, ops.target.width // self.item_bytes)
        self.zero = ir.Constant(self.vector, None)
        self.lanes = self.vector.count
        result = item if self.is_float else ir.FloatType()
        self.result = ir.VectorType(result, self.lanes)

    # Sums.

    @contextmanager
    def complete_sums(self, term: Callable) -> Any:
        """Sum the items from `first` to `last`, and emit the body of ``with`` for complete sums.

        Yields {(r, u): vector}. If more items follow, the accumulators are saved instead.
        """
        b = self.b
        total = {g: cgutils.alloca_once_value(b, self.zero) for g in self.grid}
        with b.if_then(b.icmp_signed(">", self.first, I64(0)), likely=False):
            for g in self.grid:
                b.store(b.load(self._saved_total(*g), align=self.item_bytes), total[g])
        self._prefetch_output()
        self._add_items(term, self.first, self.last, total)
        is_last = b.icmp_signed("==", self.last, self._n_items())
        with b.if_else(is_last, likely=True) as (then, otherwise):
            with otherwise:
                for g in self.grid:
                    b.store(b.load(total[g]), self._saved_total(*g), align=self.item_bytes)
            with then:
                yield {g: b.load(total[g]) for g in self.grid}

    def sums(self, term: Callable) -> dict:
        """Return {(r, u): vector}, the sums over all items."""
        total = {g: cgutils.alloca_once_value(self.b, self.zero) for g in self.grid}
        self._add_items(term, I64(0), self._n_items(), total)
        return {g: self.b.load(total[g]) for g in self.grid}

    def _add_items(self, term, first, last, total):
        """Add the items in chunks, each of which is summed by itself: see `CHUNK`."""
        b, add = self.b, self.b.fadd if self.is_float else self.b.add
        # Accumulators are stack slots; LLVM's mem2reg pass turns them into registers.
        part = {g: cgutils.alloca_once_value(b, self.zero) for g in self.grid}
        ones = self.ops.splat(self.vector, self.one) if self.is_float else None
        with cgutils.for_range_slice(b, first, last, I64(CHUNK)) as (start, _):
            for g in self.grid:
                b.store(self.zero, part[g])
            end = b.add(start, I64(CHUNK))
            end = b.select(b.icmp_signed("<", end, last), end, last)
            with cgutils.for_range(b, end, start=start) as loop:
                self._add_item(term, loop.index, part, ones)
            for g in self.grid:
                b.store(add(b.load(total[g]), b.load(part[g])), total[g])

    def _add_item(self, term, k, part, ones):
        """Add the terms of item k: one step of the figure at the top of this file."""
        b, vectors = self.b, range(self.n_vectors)
        c = [b.load(self._panel_vector(k, u), align=self.item_bytes) for u in vectors]
        for r in range(self.n_rows):
            item = b.load(b.gep(self._row(r), [k]), align=1)
            x = self.ops.splat(self.vector, item)
            for u in vectors:
                b.store(term(self.ops, b.load(part[r, u]), x, c[u], ones), part[r, u])

    # Addresses.

    def _n_items(self):
        return self.b.extract_value(self.X.shape, 1)

    def _row_index(self, r):
        """Index of row r of the block in X; beyond the last row, that of the last one.

        An incomplete block computes its last row several times, which costs less than branches;
        `_store_if_valid` drops the copies.
        """
        r, last = _int64(r), self.b.sub(self.valid, I64(1))
        row = self.b.select(self.b.icmp_signed("<", r, last), r, last)
        return self.b.add(self.i, row)

    def _row(self, r):
        return self.b.gep(self.X.data, [self.b.mul(self._row_index(r), self._n_items())])

    def _first_unit(self, u):
        """Index of the first unit of vector u among all units."""
        return self.b.add(self._panel_start(self.p), self.b.mul(_int64(u), I64(self.lanes)))

    def _panel_start(self, n):
        return self.b.mul(n, I64(self.n_vectors * self.lanes))

    def _panel_vector(self, k, u):
        """Pointer to vector u of item k of the panel."""
        b = self.b
        step = b.add(b.mul(self.p, b.extract_value(self.panels.shape, 1)), k)
        first = b.add(self._panel_start(step), I64(u * self.lanes))
        return b.bitcast(b.gep(self.panels.data, [first]), self.vector.as_pointer())

    def _saved_total(self, r, u):
        """Pointer to the saved accumulator (r, u) of this block."""
        row = self.b.add(self.b.mul(self.slot, I64(self.n_rows)), I64(r))
        first = self.b.add(self._panel_start(row), I64(u * self.lanes))
        return self.b.bitcast(self.b.gep(self.totals.data, [first]), self.vector.as_pointer())

    def _output(self, r, u):
        """Pointer to vector u of row r in H."""
        row = self.b.mul(self._row_index(r), self.b.extract_value(self.out.shape, 1))
        return self.b.gep(self.out.data, [self.b.add(row, self._first_unit(u))])

    def _prefetch_output(self):
        """Fetch the cache lines of H for writing while the sums are computed."""
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        prefetch = cgutils.get_or_insert_function(self.b.module, kind, "llvm.prefetch.p0i8")
        for r, u in self.grid:
            pointer = self.b.bitcast(self._output(r, u), I8.as_pointer())
            # rw = 1: write, locality = 3: keep in all caches, cache type = 1: data
            self.b.call(prefetch, [pointer, I32(1), I32(3), I32(1)])

    def row_value(self, array: Any, r: int, vector: Any) -> Any:
        """Return the value of row r in an array (rows,), in every lane."""
        value = self.b.load(self.b.gep(array.data, [self._row_index(r)]))
        return self.ops.splat(vector, value)

    def unit_values(self, array: Any, u: int, vector: Any) -> Any:
        """Return the values of the units of vector u in an array (n_panels, lanes)."""
        b = self.b
        pointer = b.bitcast(b.gep(array.data, [self._first_unit(u)]), vector.as_pointer())
        return b.load(pointer, align=4)

    # The epilogue: from sums to activations.

    def store(self, sums: dict, may_be_exp: bool = True) -> None:
        """Write the activations of all sums to `out`, for the rows and units that exist."""
        if not may_be_exp:
            self._for_each_affine(sums, self._store_if_valid)
            return
        with self.b.if_else(self._exponent_is_not(0.0), likely=False) as (then, otherwise):
            with then:
                self._store_exp(sums)
            with otherwise:
                self._for_each_affine(sums, self._store_if_valid)

    def _exponent_is_not(self, value):
        return self.b.fcmp_ordered("!=", self.exponent, ir.Constant(self.result.element, value))

    def _for_each_affine(self, sums, store):
        """Call ``store(h, r, u)`` for the vectors ``h = max(floor, scale * sum + offset)``."""
        b = self.b
        scale, floor = (self.ops.splat(self.result, v) for v in (self.scale, self.floor))
        for u in range(self.n_vectors):
            offset = self.unit_values(self.offset, u, self.result)
            for r in range(self.n_rows):
                h = self.ops.multiply_add(scale, self._as_result(sums[r, u]), offset)
                store(b.select(b.fcmp_ordered(">", floor, h), floor, h), r, u)

    def _store_if_valid(self, h, r, u):
        """Write a vector of H, unless row r is a copy of the last one."""
        with self.b.if_then(self.b.icmp_signed("<", _int64(r), self.valid)):
            self._store_vector(h, r, u)

    def _store_exp(self, sums):
        """Write exp(h), or exp(-(-h)^exponent), in a loop over pairs of vectors.

        The only loop that is not unrolled: compiling an exponential for each accumulator would
        take most of the time of the whole kernel. Two vectors at a time hide the latency of the
        polynomial.
        """
        b = self.b
        buffer = cgutils.alloca_once(b, ir.ArrayType(self.result, len(self.grid)))

        def pointer(r, u):
            i = b.add(b.mul(_int64(r), I64(self.n_vectors)), _int64(u))
            return b.gep(buffer, [I64(0), i])

        self._for_each_affine(sums, lambda h, r, u: b.store(h, pointer(r, u)))
        with b.if_then(self._exponent_is_not(1.0), likely=False):
            exponent = self.ops.splat(self.result, self.exponent)
            with cgutils.for_range(b, I64(len(self.grid))) as loop:
                h = b.gep(buffer, [I64(0), loop.index])
                b.store(self.ops.negative_power(b.load(h), exponent), h)
        n_pairs = I64(self.n_vectors // 2)
        with cgutils.for_range(b, self.valid) as rows, cgutils.for_range(b, n_pairs) as pairs:
            r, first = rows.index, b.mul(pairs.index, I64(2))
            pair = [(r, b.add(first, I64(i))) for i in range(2)]
            outputs = [self.ops.exp(b.load(pointer(*g))) for g in pair]
            for h, g in zip(outputs, pair, strict=True):
                self._store_vector(h, *g)

    def _as_result(self, sums):
        """Convert sums to the floats of H."""
        if self.is_float:
            return sums
        # Sums of bytes stay far below 2^31, and 32-bit integers convert in one instruction.
        integers = ir.VectorType(I32, self.lanes)
        narrow = sums if self.vector == integers else self.b.trunc(sums, integers)
        return self.b.sitofp(narrow, self.result)

    def _store_vector(self, h, r, u):
        """Write a vector of H; that of the last units lane by lane, as H has no padding."""
        b, pointer = self.b, self._output(r, u)
        n_left = b.sub(b.extract_value(self.out.shape, 1), self._first_unit(u))
        with b.if_else(b.icmp_signed(">=", n_left, I64(self.lanes))) as (whole, partial):
            with whole:
                b.store(h, b.bitcast(pointer, self.result.as_pointer()), align=4)
            with partial:
                lanes = cgutils.alloca_once_value(b, h)
                lane = b.bitcast(lanes, self.result.element.as_pointer())
                with cgutils.for_range(b, n_left) as loop:
                    b.store(b.load(b.gep(lane, [loop.index])), b.gep(pointer, [loop.index]))


def _int64(number):
    """Return an LLVM value for an index that is one already, or is known at emission."""
    return number if isinstance(number, ir.Value) else I64(number)


# One emitter for each kind of sum, a function of a `_BlockEmitter`.


def _plain(term, may_be_exp=True):
    """Return the emitter of sums that need no correction."""

    def emit(block):
        with block.complete_sums(term) as sums:
            block.store(sums, may_be_exp)

    return emit


def _manhattan_from_byte_minima(block):
    """Emit ``sum |x - c| = sum x + sum c - 2 sum min(x, c)`` in integers, where it is exact."""
    b, vector = block.b, block.vector
    (row_sums,), (unit_sums,) = block.rows, block.units
    with block.complete_sums(VectorOps.bytes_min) as sums:
        for r, u in block.grid:
            row_sum = block.row_value(row_sums, r, vector)
            both = b.add(row_sum, block.unit_values(unit_sums, u, vector))
            twice = b.shl(sums[r, u], ir.Constant(vector, [1] * block.lanes))
            sums[r, u] = b.sub(both, twice)
        block.store(sums)


def _manhattan_from_minima(block):
    """Emit ``sum |x - c|`` as sum x + sum c - 2 sum min(x, c): one instruction less for an item.

    Where the result has cancelled, that is, where it is smaller than the limits of the row and the
    unit, the differences themselves are summed in a second pass over the items. That is rare.
    """
    b, vector = block.b, block.vector
    (row_sums, row_limits), (unit_sums, unit_limits) = block.rows, block.units
    with block.complete_sums(VectorOps.minimum) as sums:
        distance, is_cancelled = {}, {}
        minus_two = ir.Constant(vector, [-2.0] * block.lanes)
        for r, u in block.grid:
            row_sum = block.row_value(row_sums, r, vector)
            both = b.fadd(row_sum, block.unit_values(unit_sums, u, vector))
            distance[r, u] = block.ops.multiply_add(sums[r, u], minus_two, both)
            row_limit = block.row_value(row_limits, r, vector)
            limit = b.fadd(row_limit, block.unit_values(unit_limits, u, vector))
            # "unordered or less", so that NaN, from sums that overflow, counts as cancelled.
            is_cancelled[r, u] = b.fcmp_unordered("<", distance[r, u], limit)
        lanes = ir.IntType(block.lanes)
        mask = b.bitcast(reduce(b.or_, is_cancelled.values()), lanes)
        corrected = {g: cgutils.alloca_once_value(b, d) for g, d in distance.items()}
        with b.if_then(b.icmp_unsigned("!=", mask, lanes(0)), likely=False):
            exact = block.sums(VectorOps.difference)
            for g in block.grid:
                b.store(b.select(is_cancelled[g], exact[g], distance[g]), corrected[g])
        block.store({g: b.load(corrected[g]) for g in block.grid})


_EMITTERS = {
    "manhattan": _manhattan_from_minima,
    "sqeuclidean": _plain(VectorOps.square),
    "product": _plain(VectorOps.product, may_be_exp=False),  # no layer of products has exp
    "bytes_min": _manhattan_from_byte_minima,
    "bytes_sad": _plain(VectorOps.bytes_sad),
}
