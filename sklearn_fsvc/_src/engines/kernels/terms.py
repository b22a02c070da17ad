"""One step of a sum, as LLVM vector code.

minimum     sum min(x, c), from which |x - c| = x + c - 2 min(x, c)
difference  sum |x - c|
square      sum (x - c)^2
product     sum x c
bytes_min   sum min(x, c) over 4 bytes a lane (AVX-512 VNNI, AVX-VNNI, or Arm's dot products)
bytes_sad   sum |x - c| over 8 bytes a lane (psadbw: SSE2, AVX2, AVX-512)

Each gives `acc` with the next item added; `one` is a vector of ones, or None for bytes.
"""

from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba.core import cgutils

from .target import TARGET

I8, I32 = ir.IntType(8), ir.IntType(32)


def _call(b, name, result, *args):
    signature = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), args)


def _suffix(vector):
    return f"v{vector.count}f{TARGET.width * 8 // vector.count}"


def _fma(b, x, y, z):
    return _call(b, f"llvm.fma.{_suffix(z.type)}", z.type, x, y, z)


def multiply_add(b, x, y, z):
    return _fma(b, x, y, z) if TARGET.fma else b.fadd(z, b.fmul(x, y))


def minimum(b, acc, x, c, one):
    # min runs where add runs; the multiply-adder next to it is idle and adds as well,
    # with the same rounding. `one` is an argument so that LLVM cannot fold it away.
    if TARGET.is_arm:  # one instruction, where to compare and select would be two
        least = _call(b, f"llvm.minimum.{_suffix(acc.type)}", acc.type, x, c)
    else:
        least = b.select(b.fcmp_ordered("<", x, c), x, c)
    return _fma(b, least, one, acc) if TARGET.fma else b.fadd(acc, least)


def difference(b, acc, x, c, one):
    d = _fma(b, x, one, b.fneg(c)) if TARGET.fma else b.fsub(x, c)
    return b.fadd(acc, _call(b, f"llvm.fabs.{_suffix(acc.type)}", acc.type, d))


def square(b, acc, x, c, one):
    d = b.fsub(x, c)
    return product(b, acc, d, d, one)


def product(b, acc, x, c, one):
    return multiply_add(b, x, c, acc)


def _as_bytes(b, *vectors):
    return [b.bitcast(v, ir.VectorType(I8, TARGET.width)) for v in vectors]


def bytes_min(b, acc, x, c, one):
    x, c = _as_bytes(b, x, c)
    least = b.select(b.icmp_unsigned("<", x, c), x, c)
    return bytes_product(b, acc, least, ir.Constant(x.type, [1] * TARGET.width))


def bytes_product(b, acc, x, c):
    """Add the products of 4 bytes a lane: those of x have no sign, those of c have one on x86."""
    if TARGET.uint8 == "udot":
        name = "llvm.aarch64.neon.udot.v4i32.v16i8"
        return _call(b, name, acc.type, acc, *_as_bytes(b, c, x))  # x may be a lane of a vector
    kind = acc.type if llvm_version_info[0] < 22 else ir.VectorType(I8, TARGET.width)
    x, c = b.bitcast(x, kind), b.bitcast(c, kind)  # bytes were declared as 32-bit integers before
    return _call(b, f"llvm.x86.avx512.vpdpbusd.{TARGET.width * 8}", acc.type, acc, x, c)


def pairs_product(b, acc, x, c):
    """Add the products of 2 integers of 16 bits a lane, with their signs (x86)."""
    name = {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"}
    pairs = ir.VectorType(ir.IntType(16), TARGET.width // 2)
    x, c = b.bitcast(x, pairs), b.bitcast(c, pairs)
    return b.add(acc, _call(b, f"llvm.x86.{name[TARGET.width]}", acc.type, x, c))


def bytes_sad(b, acc, x, c, one):
    name = {64: "avx512.psad.bw.512", 32: "avx2.psad.bw", 16: "sse2.psad.bw"}
    name = f"llvm.x86.{name[TARGET.width]}"
    return b.add(acc, _call(b, name, acc.type, *_as_bytes(b, x, c)))


def splat(b, vector, item):
    undefined = ir.Constant(vector, ir.Undefined)
    lane = b.insert_element(undefined, item, I32(0))
    return b.shuffle_vector(lane, undefined, ir.Constant(ir.VectorType(I32, vector.count), None))
