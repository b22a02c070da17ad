"""Gram matrices of rounded activations are exact, by integers and by floats."""

import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import binding, ir
from llvmlite.binding import get_host_cpu_features

from sklearn_fsvc._src.engines import integers
from sklearn_fsvc._src.engines.algebra import Blocking, HostAlgebra
from sklearn_fsvc._src.engines.kernels import target
from sklearn_fsvc._src.engines.kernels.integers import (
    ProductEmitter,
    WordLayout,
    integer_loops,
)
from sklearn_fsvc._src.engines.kernels.vector_ops import I8, I32, I64, VectorOps
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric

QUANTIZERS = [Quantizer(bits, is_signed) for bits in (8, 15) for is_signed in (False, True)]
each_kind = pytest.mark.parametrize("quantizer", QUANTIZERS, ids=str)


def rounded(quantizer, n_rows, n_units, dtype=np.float32, seed=0):
    """Return (activations, their integers), which include the smallest and the largest."""
    least = -quantizer.max_code if quantizer.is_signed else 0
    q = np.random.default_rng(seed).integers(
        least, quantizer.max_code, (n_rows, n_units), endpoint=True
    )
    q[:, 0], q[:, -1] = quantizer.max_code, least
    return (q / quantizer.scale).astype(dtype), q


@each_kind
def test_activations_are_rounded_to_the_nearest_step(quantizer):
    H, q = rounded(quantizer, 9, 7)
    random = np.random.default_rng(1)
    near = (H + random.uniform(-0.49, 0.49, H.shape) / quantizer.scale).astype(np.float32)
    np.testing.assert_array_equal(quantizer.apply(near, np) * quantizer.scale, q)
    ends = np.array([1.0, -1.0, 2.0, np.nan], np.float32)
    np.testing.assert_array_equal(
        quantizer.apply(ends.copy(), np) * quantizer.scale,
        [
            quantizer.max_code,
            -quantizer.max_code if quantizer.is_signed else -quantizer.scale,
            quantizer.max_code,
            np.nan,
        ],
    )


@pytest.fixture(params=["integers", "floats"])
def algebra(request):
    """The algebra of the host, which multiplies integers or floats."""

    class Algebra(HostAlgebra):
        blocking = Blocking(byte_work=0 if request.param == "integers" else np.inf)

    return Algebra()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (1003, 33), (2500, 130)], ids=str)
@each_kind
def test_gram_matrices_are_those_of_integers(quantizer, shape, dtype, algebra, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.readouts.packed_symmetric.WIDTH", 64)
    H, q = rounded(quantizer, *shape, dtype)
    gram = PackedSymmetric(shape[1], algebra)
    for _ in range(2):
        gram.add_gram(H, quantizer)
    expected = np.tril(2 * (q.T @ q)) / quantizer.scale**2
    np.testing.assert_array_equal(np.tril(gram.full()), expected)


@each_kind
def test_the_largest_sums_fit(quantizer, algebra):
    """All activations at the end of the range, and more samples than are summed at a time."""
    H = np.full((integers.MAX_ROWS + 5, 3), quantizer.max_code / quantizer.scale, np.float32)
    H[:, 1] *= -1 if quantizer.is_signed else 1
    gram = PackedSymmetric(3, algebra)
    gram.add_gram(H, quantizer)
    q = np.round(H.astype(np.float64) * quantizer.scale)
    np.testing.assert_array_equal(np.tril(gram.full()), np.tril(q.T @ q) / quantizer.scale**2)


@pytest.mark.parametrize(
    ("instruction", "platform", "fast", "with_loop"),
    [
        ("vnni", "linux", (8,), [8, 15]),
        ("udot", "linux", (8,), [8, 15]),
        ("udot", "darwin", (), [8, 15]),
        ("sad", "linux", (), [8]),
        ("portable", "linux", (), []),
        (None, "linux", (), []),
    ],
)
def test_bits_that_processors_multiply_fast(instruction, platform, fast, with_loop):
    """`fast` are chosen automatically; for the others there may be a loop, too."""
    processor = None if instruction is None else target.Target(16, True, instruction)
    assert integers.fast_bits(processor, platform) == fast
    actual = [
        bits for bits in (8, 15) if integers.has_integer_loop(Quantizer(bits, False), processor)
    ]
    assert actual == with_loop


# Other processors: LLVM's name and features, width and instruction, and the bits of loops.
AVX2 = "+sse4.2,+avx,+avx2,+fma"
PROCESSORS = {
    "SSE2": ("x86-64", "+sse2", "16 sad", [8]),
    "AVX2": ("haswell", AVX2, "32 sad", [8]),
    "AVX-VNNI": ("alderlake", f"{AVX2},+avxvnni", "32 vnni", [8, 15]),
    "AVX-512": ("skylake-avx512", f"{AVX2},+avx512f,+avx512bw", "64 sad", [8]),
}
PROGRAM = """
import sys, numpy as np
from sklearn_fsvc._src.engines.integers import MAX_ROWS, add_gram, has_integer_loop
from sklearn_fsvc._src.engines.kernels.target import host_target
from sklearn_fsvc._src.formulas import Quantizer
for bits in map(int, sys.argv[1:]):
    for is_signed in (False, True):
        quantizer = Quantizer(bits, is_signed)
        assert has_integer_loop(quantizer, host_target())
        for shape in ((1, 1), (1003, 70), (MAX_ROWS + 5, 3)):
            most = quantizer.max_code
            q = np.random.default_rng(0).integers(-most, most, shape, endpoint=True)
            q = q if is_signed else abs(q)
            q[:, 0] = quantizer.max_code
            gram = np.zeros((shape[1], shape[1]), order="F")
            add_gram([(0, gram)], (q / quantizer.scale).astype(np.float32), quantizer)
            np.testing.assert_array_equal(np.tril(gram) * quantizer.scale**2, np.tril(q.T @ q))
target = host_target()
print(target.width, target.byte_instruction, has_integer_loop(Quantizer(15, False), target))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of x86-64")
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_loops_for_other_processors(name, tmp_path):
    processor, features, expected, bits = PROCESSORS[name]
    host = get_host_cpu_features()
    missing = [f for f in features.split(",") if not host.get(f[1:], False)]
    if missing:
        pytest.skip(f"this processor has no {missing}")
    env = {
        "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, bits)],
        env=os.environ | env, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[0] == f"{expected} {15 in bits}"


ARM = target.Target(16, True, "udot", is_arm=True)


@pytest.mark.skipif(not hasattr(binding, "create_pass_builder"), reason="needs a newer llvmlite")
@pytest.mark.parametrize("processor", ["neoverse-n1", "apple-m1"])
def test_the_loop_for_arm_is_dot_products_in_registers(llvm_of_arm, processor):
    layout = WordLayout(ARM)
    module = ir.Module()
    word, n = I32.as_pointer(), I64
    kind = ir.FunctionType(ir.VoidType(), [word, n, n, n, n, word])
    function = ir.Function(module, kind, "products")
    b = ir.IRBuilder(function.append_basic_block())
    words, n_words, group, other, first, out = function.args
    shape = b.insert_value(ir.Constant(ir.ArrayType(n, 3), ir.Undefined), n_words, 1)
    words = SimpleNamespace(data=words, shape=shape)
    emitter = ProductEmitter(VectorOps(b, ARM), layout, words, group, words, other, first)
    emitter.store(SimpleNamespace(data=out))
    b.ret_void()
    code = binding.parse_assembly(str(module))
    code.verify()
    machine = llvm_of_arm.create_target_machine(processor, opt=3)
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(code, passes)
    assembly = machine.emit_assembly(code).split("\n")
    assert sum("udot" in line and ".4b[" in line for line in assembly) == 16
    assert not any("sp" in line for line in assembly), "spills"


class EmulatedDotProducts(VectorOps):
    """Operations of Arm, with `udot` in terms of instructions that each processor has."""

    def bytes_product(self, acc, x, c):
        b, wide = self.builder, ir.VectorType(I32, 16)
        x, c = (b.zext(b.bitcast(v, ir.VectorType(I8, 16)), wide) for v in (x, c))
        products = b.mul(x, c)
        for r in range(4):
            mask = ir.Constant(acc.type, list(range(r, 16, 4)))
            acc = b.add(acc, b.shuffle_vector(products, products, mask))
        return acc


@pytest.mark.parametrize("bits", [8, pytest.param(15, marks=pytest.mark.exhaustive)])
def test_gram_matrices_by_the_loops_for_arm(set_numba_cache, tmp_path, bits):
    set_numba_cache(tmp_path)
    loops = integer_loops(ARM, EmulatedDotProducts)
    for is_signed in (False, True):
        quantizer = Quantizer(bits, is_signed)
        for shape in ((1, 1), (1003, 70), (integers.MAX_ROWS + 5, 3)):
            H, q = rounded(quantizer, *shape)
            gram = np.zeros((shape[1], shape[1]), order="F")
            integers.add_gram([(0, gram)], H, quantizer, loops)
            np.testing.assert_array_equal(np.tril(gram) * quantizer.scale**2, np.tril(q.T @ q))
