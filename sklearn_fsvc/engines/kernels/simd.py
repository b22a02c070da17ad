"""The inner loop of every CPU kernel, emitted as LLVM vector code.

One block of some rows against some vectors of units is held in registers; each step
broadcasts one item of each row and combines it with the next item of all units:

    sums[r, l] += term(x[r, k], panel[k, l])        k = 0, 1, 2 ...   (see `terms`)

The lanes of a vector are neighbouring units, so the sum over the features runs in the
order of the features whatever the shape of the tile: H cannot depend on the tiling.
LLVM's own vectoriser does worse with the same loop written in Python, and does not find
the integer instructions at all.

An item is a float, or for uint8 rows a group of 4 or 8 features: as many as the integer
instruction adds up for one lane.

A block is an intrinsic that numba's loops call with

    X        (rows, items)             i, valid   first row, rows that exist from there
    panels   (n_panels, items, lanes)  p          the panel of units
    rows     per-row arrays            units      per-unit arrays, (n_panels, lanes) each
    epilogue one, scale, offset (n_panels, lanes), floor, exponent
    out      (rows, units)             receives h = max(floor, scale * sum + offset), or exp(h) for
                                       an exponent of 1, exp(-(-h)^exponent) for others but 0
    first, last                        the items to sum, `first` a multiple of CHUNK
    totals   (slots, rows of a block, lanes)  slot   where the sums wait between two calls
"""

from contextlib import contextmanager
from functools import reduce
from itertools import product

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from . import terms
from .functions import exp, powered
from .target import CHUNK, TARGET
from .terms import I8, I32

I64 = ir.IntType(64)
ITEMS = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.uint32: I32,
    types.uint64: I64,
}


class _Block:
    """One block while its code is emitted; the arrays are numba's, the rest LLVM values."""

    def __init__(
        self, b, item, shape, X, i, valid, panels, p, rows, units, epilogue, out,
        first, last, totals, slot,
    ):  # fmt: skip
        self.b, self.X, self.i, self.valid, self.panels, self.p = b, X, i, valid, panels, p
        self.rows, self.units, self.out = rows, units, out
        self.one, self.scale, self.offset, self.floor, self.exponent = epilogue
        self.first, self.last, self.totals, self.slot = first, last, totals, slot
        self.n_rows, self.n_vectors = shape
        self.grid = tuple(product(range(self.n_rows), range(self.n_vectors)))
        self.is_float = item not in (I32, I64)
        bits = item.width if not self.is_float else 32 if item == ir.FloatType() else 64
        self.size = bits // 8
        self.vector = ir.VectorType(item, TARGET.width // self.size)
        self.zero = ir.Constant(self.vector, None)
        self.lanes = self.vector.count
        result = item if self.is_float else ir.FloatType()
        self.result = ir.VectorType(result, self.lanes)

    @property
    def n_items(self):
        return self.b.extract_value(self.X.shape, 1)

    @contextmanager
    def finished(self, term):
        """Sum the items from `first` to `last`; emits what is done with all sums.

        Gives {(r, u): vector}. Where more items follow, the sums are put by instead.
        """
        b = self.b
        total = {g: cgutils.alloca_once_value(b, self.zero) for g in self.grid}
        with b.if_then(b.icmp_signed(">", self.first, I64(0)), likely=False):
            for g in self.grid:
                b.store(b.load(self._waiting(*g), align=self.size), total[g])
        self._fetch_output()
        self._add_items(term, self.first, self.last, total)
        is_last = b.icmp_signed("==", self.last, self.n_items)
        with b.if_else(is_last, likely=True) as (then, otherwise):
            with otherwise:
                for g in self.grid:
                    b.store(b.load(total[g]), self._waiting(*g), align=self.size)
            with then:
                yield {g: b.load(total[g]) for g in self.grid}

    def _fetch_output(self):
        """Have the lines of H on their way into the cache while the sums are made."""
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        prefetch = cgutils.get_or_insert_function(self.b.module, kind, "llvm.prefetch.p0i8")
        for r, u in self.grid:
            target = self.b.bitcast(self._output(r, u), I8.as_pointer())
            self.b.call(prefetch, [target, I32(1), I32(3), I32(1)])

    def _output(self, r, u):
        """Pointer to where a vector of H belongs."""
        row = self.b.mul(self._row_index(r), self.b.extract_value(self.out.shape, 1))
        return self.b.gep(self.out.data, [self.b.add(row, self._lane(u))])

    def sums(self, term):
        """{(r, u): vector}: the sums over all items."""
        total = {g: cgutils.alloca_once_value(self.b, self.zero) for g in self.grid}
        self._add_items(term, I64(0), self.n_items, total)
        return {g: self.b.load(total[g]) for g in self.grid}

    def _add_items(self, term, first, last, total):
        """Add up the items chunk by chunk."""
        b, add = self.b, self.b.fadd if self.is_float else self.b.add
        part = {g: cgutils.alloca_once_value(b, self.zero) for g in self.grid}
        ones = terms.splat(b, self.vector, self.one) if self.is_float else None
        with cgutils.for_range_slice(b, first, last, I64(CHUNK)) as (start, _):
            for g in self.grid:
                b.store(self.zero, part[g])
            end = b.add(start, I64(CHUNK))
            end = b.select(b.icmp_signed("<", end, last), end, last)
            with cgutils.for_range(b, end, start=start) as loop:
                self._step(term, loop.index, part, ones)
            for g in self.grid:
                b.store(add(b.load(total[g]), b.load(part[g])), total[g])

    def _step(self, term, k, part, ones):
        b, vectors = self.b, range(self.n_vectors)
        c = [b.load(self._units(self.panels.data, k, u), align=self.size) for u in vectors]
        for r in range(self.n_rows):
            item = b.load(b.gep(self._row(r), [k]), align=1)
            x = terms.splat(b, self.vector, item)
            for u in vectors:
                b.store(term(b, b.load(part[r, u]), x, c[u], ones), part[r, u])

    def _row_index(self, r):
        """Row r of the block; past the last row, the last row again."""
        r, last = _int64(r), self.b.sub(self.valid, I64(1))
        row = self.b.select(self.b.icmp_signed("<", r, last), r, last)
        return self.b.add(self.i, row)

    def _row(self, r):
        return self.b.gep(self.X.data, [self.b.mul(self._row_index(r), self.n_items)])

    def _lane(self, u):
        """Number of the first unit of vector u among all units."""
        return self.b.add(self._of_panels(self.p), self.b.mul(_int64(u), I64(self.lanes)))

    def _of_panels(self, n):
        return self.b.mul(n, I64(self.n_vectors * self.lanes))

    def _waiting(self, r, u):
        """Pointer to where the sums of a vector wait."""
        row = self.b.add(self.b.mul(self.slot, I64(self.n_rows)), I64(r))
        first = self.b.add(self._of_panels(row), I64(u * self.lanes))
        return self.b.bitcast(self.b.gep(self.totals.data, [first]), self.vector.as_pointer())

    def _units(self, data, k, u):
        """Pointer to vector u of step k of the panel."""
        b = self.b
        step = b.add(b.mul(self.p, b.extract_value(self.panels.shape, 1)), k)
        first = b.add(self._of_panels(step), I64(u * self.lanes))
        return b.bitcast(b.gep(data, [first]), self.vector.as_pointer())

    def of_row(self, array, r, vector):
        """The row's own number in every lane."""
        return terms.splat(
            self.b, vector, self.b.load(self.b.gep(array.data, [self._row_index(r)]))
        )

    def of_units(self, array, u, vector):
        """The numbers of the units of vector u."""
        b = self.b
        return b.load(b.bitcast(b.gep(array.data, [self._lane(u)]), vector.as_pointer()), align=4)

    def store(self, sums, may_be_exp=True):
        """out = h or the exponential of it, as `epilogue` says, where rows and units exist."""
        b = self.b
        if not may_be_exp:
            return self._store_all(sums, self._store_at)
        with b.if_else(self._has_exponent_but(0.0), likely=False) as (then, otherwise):
            with then:
                self._store_exp(sums)
            with otherwise:
                self._store_all(sums, self._store_at)

    def _has_exponent_but(self, value):
        value = ir.Constant(self.result.element, value)
        return self.b.fcmp_ordered("!=", self.exponent, value)

    def _store_all(self, sums, store):
        """``store(h, r, u)`` for the vectors of ``h = max(floor, scale * sum + offset)``."""
        b = self.b
        scale, floor = (terms.splat(b, self.result, v) for v in (self.scale, self.floor))
        for u in range(self.n_vectors):
            offset = self.of_units(self.offset, u, self.result)
            for r in range(self.n_rows):
                h = terms.multiply_add(b, scale, self._as_result(sums[r, u]), offset)
                store(b.select(b.fcmp_ordered(">", floor, h), floor, h), r, u)

    def _store_at(self, h, r, u):
        """A vector of H, if there is such a row."""
        with self.b.if_then(self.b.icmp_signed("<", _int64(r), self.valid)):
            self._store_vector(h, r, u)

    def _store_exp(self, sums):
        """The exponential of what waits, in a loop over vectors, two of a row at a time.

        All in a line, it would take most of the time in which the kernel is compiled.
        """
        b, waiting = self.b, cgutils.alloca_once(self.b, ir.ArrayType(self.result, len(self.grid)))

        def place(r, u):
            i = b.add(b.mul(_int64(r), I64(self.n_vectors)), _int64(u))
            return b.gep(waiting, [I64(0), i])

        self._store_all(sums, lambda h, r, u: b.store(h, place(r, u)))
        with b.if_then(self._has_exponent_but(1.0), likely=False):
            exponent = terms.splat(b, self.result, self.exponent)
            with cgutils.for_range(b, I64(len(self.grid))) as loop:
                h = b.gep(waiting, [I64(0), loop.index])
                b.store(powered(b, b.load(h), exponent), h)
        pairs = I64(self.n_vectors // 2)
        with cgutils.for_range(b, self.valid) as of_rows, cgutils.for_range(b, pairs) as of_pairs:
            r, u = of_rows.index, b.mul(of_pairs.index, I64(2))
            pair = [(r, b.add(u, I64(i))) for i in range(2)]
            outputs = [exp(b, b.load(place(*each))) for each in pair]
            for h, each in zip(outputs, pair, strict=True):
                self._store_vector(h, *each)

    def _as_result(self, sums):
        if self.is_float:
            return sums
        # Sums of bytes stay far below 2^31, and 32-bit integers convert in one step.
        integers = ir.VectorType(I32, self.lanes)
        narrow = sums if self.vector == integers else self.b.trunc(sums, integers)
        return self.b.sitofp(narrow, self.result)

    def _store_vector(self, h, r, u):
        b, target = self.b, self._output(r, u)
        left = b.sub(b.extract_value(self.out.shape, 1), self._lane(u))
        with b.if_else(b.icmp_signed(">=", left, I64(self.lanes))) as (whole, ragged):
            with whole:
                b.store(h, b.bitcast(target, self.result.as_pointer()), align=4)
            with ragged:
                lanes = cgutils.alloca_once_value(b, h)
                lane = b.bitcast(lanes, self.result.element.as_pointer())
                with cgutils.for_range(b, left) as loop:
                    b.store(b.load(b.gep(lane, [loop.index])), b.gep(target, [loop.index]))


def _int64(number):
    """A number that is known as the code is emitted, or one that is not."""
    return number if isinstance(number, ir.Value) else I64(number)


def _plain(term, may_be_exp=True):
    """The sums are what is wanted."""

    def emit(block):
        with block.finished(term) as sums:
            block.store(sums, may_be_exp)

    return emit


def _from_byte_minima(block):
    b, vector = block.b, block.vector
    (row_sums,), (unit_sums,) = block.rows, block.units
    with block.finished(terms.bytes_min) as sums:
        for r, u in block.grid:
            both = b.add(block.of_row(row_sums, r, vector), block.of_units(unit_sums, u, vector))
            twice = b.shl(sums[r, u], ir.Constant(vector, [1] * block.lanes))
            sums[r, u] = b.sub(both, twice)
        block.store(sums)


def _from_minima(block):
    """sum x + sum c - 2 sum min(x, c); where that has cancelled, sum |x - c| after all."""
    b, vector = block.b, block.vector
    (row_sums, row_limits), (unit_sums, unit_limits) = block.rows, block.units
    with block.finished(terms.minimum) as sums:
        distance, lost = {}, {}
        minus_two = ir.Constant(vector, [-2.0] * block.lanes)
        for r, u in block.grid:
            both = b.fadd(block.of_row(row_sums, r, vector), block.of_units(unit_sums, u, vector))
            distance[r, u] = terms.multiply_add(b, sums[r, u], minus_two, both)
            row_limit = block.of_row(row_limits, r, vector)
            limit = b.fadd(row_limit, block.of_units(unit_limits, u, vector))
            # "not >=" rather than "<": NaN, from sums that overflow, counts as lost.
            lost[r, u] = b.fcmp_unordered("<", distance[r, u], limit)
        lanes = ir.IntType(block.lanes)
        any_lost = b.icmp_unsigned("!=", b.bitcast(reduce(b.or_, lost.values()), lanes), lanes(0))
        mended = {g: cgutils.alloca_once_value(b, d) for g, d in distance.items()}
        with b.if_then(any_lost, likely=False):
            exact = block.sums(terms.difference)
            for g in block.grid:
                b.store(b.select(lost[g], exact[g], distance[g]), mended[g])
        block.store({g: b.load(mended[g]) for g in block.grid})


def _intrinsic(emit, shape):
    @intrinsic
    def block(
        context, X, i, valid, panels, p, rows, units, epilogue, out, first, last, totals, slot
    ):
        signature = types.void(
            X, i, valid, panels, p, rows, units, epilogue, out, first, last, totals, slot
        )

        def codegen(context, b, signature, args):
            def unpack(kind, value):
                if isinstance(kind, types.BaseTuple):
                    return list(map(unpack, kind, cgutils.unpack_tuple(b, value)))
                is_array = isinstance(kind, types.Array)
                return make_array(kind)(context, b, value) if is_array else value

            values = map(unpack, signature.args, args)
            emit(_Block(b, ITEMS[X.dtype], shape, *values))
            return context.get_dummy_value()

        return signature, codegen

    return block


_EMITTERS = {
    "manhattan": _from_minima,
    "sqeuclidean": _plain(terms.square),
    "product": _plain(terms.product, may_be_exp=False),  # no layer of products has it
    "bytes_min": _from_byte_minima,
    "bytes_sad": _plain(terms.bytes_sad),
}


def block(name, shape):
    """The intrinsic of one of the five sums for blocks of one of the shapes of `target`."""
    return _intrinsic(_EMITTERS[name], shape)
