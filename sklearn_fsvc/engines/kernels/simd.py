"""The inner loop of every CPU kernel, emitted as LLVM vector code.

One block of ROWS rows against VECTORS vectors of units is held in registers; each
step broadcasts one item of each row and combines it with the next item of all units:

    sums[r, l] += term(x[r, k], panel[k, l])        k = 0, 1, 2 ...

The lanes of a vector are neighbouring units, so the sum over the features runs in the
order of the features whatever the shape of the tile: H cannot depend on the tiling.
LLVM's own vectoriser does worse with the same loop written in Python, and does not find
the integer instructions at all.

An item is a float, or for uint8 rows a group of 4 or 8 features: as many as the integer
instruction adds up for one lane.

Terms
-----
minimum     sum min(x, c), from which |x - c| = x + c - 2 min(x, c)
difference  sum |x - c|
square      sum (x - c)^2
product     sum x c
bytes_min   sum min(x, c) over 4 bytes a lane (AVX-512 VNNI or AVX-VNNI)
bytes_sad   sum |x - c| over 8 bytes a lane (psadbw: SSE2, AVX2, AVX-512)

A block is an intrinsic that numba's loops call with

    X        (rows, items)             i, valid   first row, rows that exist from there
    panels   (n_panels, items, lanes)  p          the panel of units
    rows     per-row arrays            units      per-unit arrays, (n_panels, lanes) each
    epilogue one, scale, offset (n_panels, lanes), floor
    out      (rows, units)             receives max(floor, scale * sum + offset)
"""

from dataclasses import dataclass
from functools import reduce
from itertools import product

from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
ITEMS = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.uint32: I32,
    types.uint64: I64,
}


@dataclass(frozen=True)
class Target:
    """What the processor that numba compiles for can do.

    `width` is the vector width in bytes; `fma` whether a fused multiply-add exists;
    `uint8` the way absolute differences of bytes are summed.
    """

    width: int
    fma: bool
    uint8: str

    @classmethod
    def from_features(cls, triple, features):
        """Read an LLVM feature string such as "+avx2,-avx512f"."""
        has = {f[1:] for f in features.split(",") if f.startswith("+")}
        x86 = triple.startswith(("x86_64", "i686"))
        width = 64 if {"avx512f", "avx512bw"} <= has else 32 if "avx2" in has else 16
        vnni = {64: "avx512vnni", 32: "avxvnni"}.get(width) in has
        uint8 = "portable" if not x86 else "vnni" if vnni else "sad"
        return cls(width=width, fma="fma" in has or not x86, uint8=uint8)


def _host():
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return Target.from_features(triple, features)


TARGET = _host()
# Units wide and rows few: a broadcast costs more than a vector load. 16 accumulators of
# the 32 registers of AVX-512, 8 of the 16 of older processors.
ROWS, VECTORS = (2, 8) if TARGET.width == 64 else (2, 4)
GRID = tuple(product(range(ROWS), range(VECTORS)))
# Items summed before the partial sum is added to the total: bounds the rounding error of
# float32 on long rows.
CHUNK = 512


def _call(b, name, result, *args):
    signature = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), args)


def _suffix(vector):
    return f"v{vector.count}f{TARGET.width * 8 // vector.count}"


def _fma(b, x, y, z):
    return _call(b, f"llvm.fma.{_suffix(z.type)}", z.type, x, y, z)


def _minimum(b, acc, x, c, one):
    # min runs where add runs; the multiply-adder next to it is idle and adds as well,
    # with the same rounding. `one` is an argument so that LLVM cannot fold it away.
    least = b.select(b.fcmp_ordered("<", x, c), x, c)
    return _fma(b, least, one, acc) if TARGET.fma else b.fadd(acc, least)


def _difference(b, acc, x, c, one):
    d = _fma(b, x, one, b.fneg(c)) if TARGET.fma else b.fsub(x, c)
    return b.fadd(acc, _call(b, f"llvm.fabs.{_suffix(acc.type)}", acc.type, d))


def _square(b, acc, x, c, one):
    d = b.fsub(x, c)
    return _product(b, acc, d, d, one)


def _product(b, acc, x, c, one):
    return _fma(b, x, c, acc) if TARGET.fma else b.fadd(acc, b.fmul(x, c))


def _as_bytes(b, *vectors):
    return [b.bitcast(v, ir.VectorType(I8, TARGET.width)) for v in vectors]


def _bytes_min(b, acc, x, c, one):
    x, c = _as_bytes(b, x, c)
    least = b.select(b.icmp_unsigned("<", x, c), x, c)
    ones = ir.Constant(x.type, [1] * TARGET.width)
    if llvm_version_info[0] < 22:  # its bytes were still declared as 32-bit integers
        least, ones = b.bitcast(least, acc.type), b.bitcast(ones, acc.type)
    name = f"llvm.x86.avx512.vpdpbusd.{TARGET.width * 8}"
    return _call(b, name, acc.type, acc, least, ones)


def _bytes_sad(b, acc, x, c, one):
    name = {64: "avx512.psad.bw.512", 32: "avx2.psad.bw", 16: "sse2.psad.bw"}
    name = f"llvm.x86.{name[TARGET.width]}"
    return b.add(acc, _call(b, name, acc.type, *_as_bytes(b, x, c)))


def _splat(b, vector, item):
    undefined = ir.Constant(vector, ir.Undefined)
    lane = b.insert_element(undefined, item, I32(0))
    return b.shuffle_vector(lane, undefined, ir.Constant(ir.VectorType(I32, vector.count), None))


class _Block:
    """One block while its code is emitted; the arrays are numba's, the rest LLVM values."""

    def __init__(self, b, item, X, i, valid, panels, p, rows, units, epilogue, out):
        self.b, self.X, self.i, self.valid, self.panels, self.p = b, X, i, valid, panels, p
        self.rows, self.units, self.out = rows, units, out
        self.one, self.scale, self.offset, self.floor = epilogue
        self.is_float = item not in (I32, I64)
        bits = item.width if not self.is_float else 32 if item == ir.FloatType() else 64
        self.size = bits // 8
        self.vector = ir.VectorType(item, TARGET.width // self.size)
        self.lanes = self.vector.count
        result = item if self.is_float else ir.FloatType()
        self.result = ir.VectorType(result, self.lanes)

    def sums(self, term):
        """{(r, u): vector}: the sums over all items, added up chunk by chunk."""
        b, zero = self.b, ir.Constant(self.vector, None)
        total = {g: cgutils.alloca_once_value(b, zero) for g in GRID}
        part = {g: cgutils.alloca_once_value(b, zero) for g in GRID}
        ones = _splat(b, self.vector, self.one) if self.is_float else None
        n_items = b.extract_value(self.X.shape, 1)
        add = b.fadd if self.is_float else b.add
        with cgutils.for_range_slice(b, I64(0), n_items, I64(CHUNK)) as (start, _):
            for g in GRID:
                b.store(zero, part[g])
            end = b.add(start, I64(CHUNK))
            end = b.select(b.icmp_signed("<", end, n_items), end, n_items)
            with cgutils.for_range(b, end, start=start) as loop:
                self._step(term, loop.index, part, ones)
            for g in GRID:
                b.store(add(b.load(total[g]), b.load(part[g])), total[g])
        return {g: b.load(total[g]) for g in GRID}

    def _step(self, term, k, part, ones):
        b = self.b
        c = [b.load(self._units(self.panels.data, k, u), align=self.size) for u in range(VECTORS)]
        for r in range(ROWS):
            item = b.load(b.gep(self._row(r), [k]), align=1)
            x = _splat(b, self.vector, item)
            for u in range(VECTORS):
                b.store(term(b, b.load(part[r, u]), x, c[u], ones), part[r, u])

    def _row_index(self, r):
        """Row r of the block; past the last row, the last row again."""
        last = self.b.sub(self.valid, I64(1))
        row = self.b.select(self.b.icmp_signed("<", I64(r), last), I64(r), last)
        return self.b.add(self.i, row)

    def _row(self, r):
        n_items = self.b.extract_value(self.X.shape, 1)
        return self.b.gep(self.X.data, [self.b.mul(self._row_index(r), n_items)])

    def _units(self, data, k, u):
        """Pointer to vector u of step k of the panel."""
        b = self.b
        n_items = b.extract_value(self.panels.shape, 1)
        step = b.add(b.mul(self.p, n_items), k)
        first = b.add(b.mul(step, I64(VECTORS * self.lanes)), I64(u * self.lanes))
        return b.bitcast(b.gep(data, [first]), self.vector.as_pointer())

    def of_row(self, array, r, vector):
        """The row's own number in every lane."""
        return _splat(self.b, vector, self.b.load(self.b.gep(array.data, [self._row_index(r)])))

    def of_units(self, array, u, vector):
        """The numbers of the units of vector u."""
        b = self.b
        first = b.add(b.mul(self.p, I64(VECTORS * self.lanes)), I64(u * self.lanes))
        return b.load(b.bitcast(b.gep(array.data, [first]), vector.as_pointer()), align=4)

    def store(self, sums):
        """out = max(floor, scale * sum + offset) where rows and units exist."""
        b = self.b
        scale, floor = (_splat(b, self.result, v) for v in (self.scale, self.floor))
        for u in range(VECTORS):
            offset = self.of_units(self.offset, u, self.result)
            for r in range(ROWS):
                h = b.fadd(b.fmul(scale, self._as_result(sums[r, u])), offset)
                h = b.select(b.fcmp_ordered(">", floor, h), floor, h)
                with b.if_then(b.icmp_signed("<", I64(r), self.valid)):
                    self._store_vector(h, r, u)

    def _as_result(self, sums):
        if self.is_float:
            return sums
        # Sums of bytes stay far below 2^31, and 32-bit integers convert in one step.
        integers = ir.VectorType(I32, self.lanes)
        narrow = sums if self.vector == integers else self.b.trunc(sums, integers)
        return self.b.sitofp(narrow, self.result)

    def _store_vector(self, h, r, u):
        b = self.b
        n_units = b.extract_value(self.out.shape, 1)
        first = b.add(b.mul(self.p, I64(VECTORS * self.lanes)), I64(u * self.lanes))
        index = b.add(b.mul(b.add(self.i, I64(r)), n_units), first)
        target = b.gep(self.out.data, [index])
        left = b.sub(n_units, first)
        with b.if_else(b.icmp_signed(">=", left, I64(self.lanes))) as (whole, ragged):
            with whole:
                b.store(h, b.bitcast(target, self.result.as_pointer()), align=4)
            with ragged:
                lanes = cgutils.alloca_once_value(b, h)
                lane = b.bitcast(lanes, self.result.element.as_pointer())
                with cgutils.for_range(b, left) as loop:
                    b.store(b.load(b.gep(lane, [loop.index])), b.gep(target, [loop.index]))


def _plain(term):
    """The sums are what is wanted."""

    def emit(block):
        block.store(block.sums(term))

    return emit


def _from_byte_minima(block):
    b, vector = block.b, block.vector
    (row_sums,), (unit_sums,) = block.rows, block.units
    sums = block.sums(_bytes_min)
    for r, u in GRID:
        both = b.add(block.of_row(row_sums, r, vector), block.of_units(unit_sums, u, vector))
        sums[r, u] = b.sub(both, b.shl(sums[r, u], ir.Constant(vector, [1] * block.lanes)))
    block.store(sums)


def _from_minima(block):
    """sum x + sum c - 2 sum min(x, c); where that has cancelled, sum |x - c| after all."""
    b, vector = block.b, block.vector
    (row_sums, row_limits), (unit_sums, unit_limits) = block.rows, block.units
    sums = block.sums(_minimum)
    distance, lost = {}, {}
    for r, u in GRID:
        both = b.fadd(block.of_row(row_sums, r, vector), block.of_units(unit_sums, u, vector))
        distance[r, u] = b.fsub(both, b.fadd(sums[r, u], sums[r, u]))
        limit = b.fadd(block.of_row(row_limits, r, vector), block.of_units(unit_limits, u, vector))
        # "not >=" rather than "<": NaN, from sums that overflow, counts as lost.
        lost[r, u] = b.fcmp_unordered("<", distance[r, u], limit)
    lanes = ir.IntType(block.lanes)
    any_lost = b.icmp_unsigned("!=", b.bitcast(reduce(b.or_, lost.values()), lanes), lanes(0))
    mended = {g: cgutils.alloca_once_value(b, d) for g, d in distance.items()}
    with b.if_then(any_lost, likely=False):
        exact = block.sums(_difference)
        for g in GRID:
            b.store(b.select(lost[g], exact[g], distance[g]), mended[g])
    block.store({g: b.load(mended[g]) for g in GRID})


def _is_array(kind):
    return isinstance(kind, types.Array)


def _intrinsic(emit):
    @intrinsic
    def block(context, X, i, valid, panels, p, rows, units, epilogue, out):
        signature = types.void(X, i, valid, panels, p, rows, units, epilogue, out)

        def codegen(context, b, signature, args):
            def unpack(kind, value):
                if isinstance(kind, types.BaseTuple):
                    return list(map(unpack, kind, cgutils.unpack_tuple(b, value)))
                return make_array(kind)(context, b, value) if _is_array(kind) else value

            values = map(unpack, signature.args, args)
            emit(_Block(b, ITEMS[X.dtype], *values))
            return context.get_dummy_value()

        return signature, codegen

    return block


manhattan_block = _intrinsic(_from_minima)
sqeuclidean_block = _intrinsic(_plain(_square))
product_block = _intrinsic(_plain(_product))
bytes_min_block = _intrinsic(_from_byte_minima)
bytes_sad_block = _intrinsic(_plain(_bytes_sad))
