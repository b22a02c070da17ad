"""Compiled integrals of products of linear functions, from which Shapley values are computed.

For factors ``c_k(t) = other_k + t (own_k - other_k)``, k = 0, ..., n - 1, the loop adds to `totals`

    (own_k - other_k) sum_q weight_q prod_{j != k} c_j(t_q)

for each k. Nothing is divided by c_k, which may be 0: the products over j < k are stored while k
ascends, and multiplied with those over j > k while k descends.

The lanes of a vector are neighbouring units, and `NODES` nodes are processed at a time, so that
factors are loaded once for all of them, and that their products, which are chains of dependent
multiplications, overlap. LLVM's own vectoriser does not vectorise the same loop in Python, which
takes ten times as long.
"""

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiling import jit, named
from .target import Target
from .vector_ops import I64, VectorOps, unpack_arguments

# Nodes that are processed at a time; their number is a multiple of it.
NODES = 4
ITEM_BYTES = 8
# Placeholder, which `shapley_loop` sets in its copies of `_add_integrals`.
ADD_INTEGRALS: Any = None


def n_lanes(target: Target) -> int:
    """Return the number of units in a vector of float64."""
    return target.width // ITEM_BYTES


@cache
def shapley_loop(target: Target) -> Any:
    """Return the compiled `_add_integrals` for a processor."""
    intrinsic = _make_add_integrals(target)
    return jit(named(_add_integrals, f"shapley_{target.tag}", ADD_INTEGRALS=intrinsic))


def _add_integrals(own, other, nodes, weights, products, totals):
    """Add the integrals, summed over `other`, to `totals` (n_samples, n_vectors, n_factors, lanes).

    `own` has this shape, and `other` that of other samples; `products` is a buffer of shape
    (n_factors, NODES, lanes).
    """
    for v in range(own.shape[1]):  # the factors `other` of a vector stay in the cache
        for i in range(own.shape[0]):
            for z in range(other.shape[0]):
                ADD_INTEGRALS(own[i, v], other[z, v], nodes, weights, products, totals[i, v])


def _make_add_integrals(target):
    """Return the intrinsic for one pair of samples and one vector of units."""

    @intrinsic
    def add_integrals(context, own, other, nodes, weights, products, totals):
        signature = types.void(own, other, nodes, weights, products, totals)

        def codegen(context, b, signature, args):
            _emit(VectorOps(b, target), *unpack_arguments(context, b, signature, args))
            return context.get_dummy_value()

        return signature, codegen

    return add_integrals


def _emit(ops, own, other, nodes, weights, products, totals):
    """Append the code of `add_integrals`."""
    b, lanes = ops.builder, n_lanes(ops.target)
    vector = ir.VectorType(ir.DoubleType(), lanes)
    n_factors, group = b.extract_value(own.shape, 0), range(NODES)
    # Stack slots, which LLVM's mem2reg pass turns into registers.
    running = [cgutils.alloca_once(b, vector) for _ in group]

    def pointer(array, row):
        address = b.gep(array.data, [b.mul(row, I64(lanes))])
        return b.bitcast(address, vector.as_pointer())

    def load(array, row):
        return b.load(pointer(array, row), align=ITEM_BYTES)

    def store(value, array, row):
        b.store(value, pointer(array, row), align=ITEM_BYTES)

    def splat(array, i):
        return ops.splat(vector, b.load(b.gep(array.data, [i])))

    def slot(k, r):
        """Return the row of `products` for factor k and node r of the group."""
        return b.add(b.mul(k, I64(NODES)), I64(r))

    def factors(k, t):
        """Return the factors at the nodes, and their slope."""
        start = load(other, k)
        slope = b.fsub(load(own, k), start)
        return [ops.multiply_add(t[r], slope, start) for r in group], slope

    with cgutils.for_range_slice(b, I64(0), b.extract_value(nodes.shape, 0), I64(NODES)) as (q, _):
        t = [splat(nodes, b.add(q, I64(r))) for r in group]
        for r in group:
            b.store(splat(weights, b.add(q, I64(r))), running[r])
        with cgutils.for_range(b, n_factors) as loop:
            c, _ = factors(loop.index, t)
            for r in group:
                product = b.load(running[r])
                store(product, products, slot(loop.index, r))
                b.store(b.fmul(product, c[r]), running[r])
        for r in group:
            b.store(ir.Constant(vector, [1.0] * lanes), running[r])
        with cgutils.for_range(b, n_factors) as loop:
            k = b.sub(b.sub(n_factors, I64(1)), loop.index)
            c, slope = factors(k, t)
            integral = ir.Constant(vector, [0.0] * lanes)
            for r in group:
                before, after = load(products, slot(k, r)), b.load(running[r])
                integral = ops.multiply_add(before, after, integral)
                b.store(b.fmul(after, c[r]), running[r])
            store(ops.multiply_add(slope, integral, load(totals, k)), totals, k)
