"""Sums of products of rounded activations are exact, whatever multiplies."""

import os
import platform
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import binding, ir
from llvmlite.binding import get_host_cpu_features

from sklearn_fsvc._src.engines import algebra, integers, kernels
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.engines.kernels import target, terms
from sklearn_fsvc._src.formulas import Steps
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric

ALL_STEPS = [Steps(bits, is_signed) for bits in (8, 15) for is_signed in (False, True)]
each_kind = pytest.mark.parametrize("steps", ALL_STEPS, ids=str)


def rounded(steps, n_rows, n_units, dtype=np.float32, seed=0):
    """(activations, the integers that they are), the extremes among them."""
    least = -steps.most if steps.is_signed else 0
    q = np.random.default_rng(seed).integers(least, steps.most, (n_rows, n_units), endpoint=True)
    q[:, 0], q[:, -1] = steps.most, least
    return (q / steps.scale).astype(dtype), q


@each_kind
def test_activations_become_the_nearest_steps(steps):
    H, q = rounded(steps, 9, 7)
    random = np.random.default_rng(1)
    near = (H + random.uniform(-0.49, 0.49, H.shape) / steps.scale).astype(np.float32)
    np.testing.assert_array_equal(steps.apply(near, np) * steps.scale, q)
    ends = np.array([1.0, -1.0, 2.0, np.nan], np.float32)
    np.testing.assert_array_equal(
        steps.apply(ends.copy(), np) * steps.scale,
        [steps.most, -steps.most if steps.is_signed else -steps.scale, steps.most, np.nan],
    )


@pytest.fixture(params=["integers", "floats"])
def way(request, monkeypatch):
    monkeypatch.setattr(algebra, "_MANY_BYTES", 0 if request.param == "integers" else np.inf)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (1003, 33), (2500, 130)], ids=str)
@each_kind
def test_products_are_those_of_integers(steps, shape, dtype, way, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.readouts.packed_symmetric.WIDTH", 64)
    H, q = rounded(steps, *shape, dtype)
    gram = PackedSymmetric(shape[1], HOST)
    for _ in range(2):
        gram.add_gram(H, steps)
    expected = np.tril(2 * (q.T @ q)) / steps.scale**2
    np.testing.assert_array_equal(np.tril(gram.full()), expected)


@each_kind
def test_the_largest_sums_fit(steps, way):
    """All rows at the end of the range, more than are added up at a time."""
    H = np.full((integers.MOST_ROWS + 5, 3), steps.most / steps.scale, np.float32)
    H[:, 1] *= -1 if steps.is_signed else 1
    gram = PackedSymmetric(3, HOST)
    gram.add_gram(H, steps)
    q = np.round(H.astype(np.float64) * steps.scale)
    np.testing.assert_array_equal(np.tril(gram.full()), np.tril(q.T @ q) / steps.scale**2)


@pytest.mark.parametrize(
    ("instruction", "platform", "fast", "taken"),
    [
        ("vnni", "linux", (8,), [8, 15]),
        ("udot", "linux", (8,), [8, 15]),
        ("udot", "darwin", (), [8, 15]),
        ("sad", "linux", (), [8]),
        ("portable", "linux", (), []),
        (None, "linux", (), []),
    ],
)
def test_what_each_processor_takes(monkeypatch, instruction, platform, fast, taken):
    """What "auto" may choose, and of what integers products are made."""
    monkeypatch.setattr(integers, "_instruction", lambda: instruction)
    monkeypatch.setattr("sys.platform", platform)
    assert HOST.fast_bits() == fast
    assert [bits for bits in (8, 15) if integers.has_integers(Steps(bits, False))] == taken


# What other processors have: its name for LLVM, its features, what is found, and the bits by it.
AVX2 = "+sse4.2,+avx,+avx2,+fma"
PROCESSORS = {
    "SSE2": ("x86-64", "+sse2", "16 sad", [8]),
    "AVX2": ("haswell", AVX2, "32 sad", [8]),
    "AVX-VNNI": ("alderlake", f"{AVX2},+avxvnni", "32 vnni", [8, 15]),
    "AVX-512": ("skylake-avx512", f"{AVX2},+avx512f,+avx512bw", "64 sad", [8]),
}
ON_ANOTHER = """
import sys, numpy as np
from sklearn_fsvc._src.engines.integers import MOST_ROWS, add_gram, has_integers
from sklearn_fsvc._src.engines.kernels.target import TARGET
from sklearn_fsvc._src.formulas import Steps
for bits in map(int, sys.argv[1:]):
    for is_signed in (False, True):
        steps = Steps(bits, is_signed)
        assert has_integers(steps)
        for shape in ((1, 1), (1003, 70), (MOST_ROWS + 5, 3)):
            q = np.random.default_rng(0).integers(-steps.most, steps.most, shape, endpoint=True)
            q = q if is_signed else abs(q)
            q[:, 0] = steps.most
            gram = np.zeros((shape[1], shape[1]), order="F")
            add_gram([(0, gram)], (q / steps.scale).astype(np.float32), steps)
            np.testing.assert_array_equal(np.tril(gram) * steps.scale**2, np.tril(q.T @ q))
print(TARGET.width, TARGET.uint8, has_integers(Steps(15, False)))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="of x86")
@pytest.mark.parametrize(
    "name",
    ["AVX2", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in PROCESSORS if n != "AVX2")],
)
def test_the_loops_of_other_processors(name, tmp_path):
    processor, features, expected, bits = PROCESSORS[name]
    here = get_host_cpu_features()
    missing = [f for f in features.split(",") if not here.get(f[1:], False)]
    if missing:
        pytest.skip(f"this processor has no {missing}")
    env = {
        "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", ON_ANOTHER, *map(str, bits)],
        env=os.environ | env, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[0] == f"{expected} {15 in bits}"


@pytest.fixture
def loops_of_arm(monkeypatch, tmp_path):
    """The loops as a processor of Arm with dot products has them, in the place of ours."""
    from sklearn_fsvc._src.engines.kernels import integers as ours

    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    for module in (target, terms):
        monkeypatch.setattr(module, "TARGET", target.Target(16, True, "udot", is_arm=True))
    spec = spec_from_file_location(f"{kernels.__name__}.integers_of_arm", ours.__file__)
    loops = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, loops)
    spec.loader.exec_module(loops)
    monkeypatch.setattr(kernels, "integers", loops)
    return loops


@pytest.mark.skipif(not hasattr(binding, "create_pass_builder"), reason="of a newer llvmlite")
@pytest.mark.parametrize("processor", ["neoverse-n1", "apple-m1"])
def test_the_loop_of_arm_is_dot_products_in_registers(llvm_of_arm, loops_of_arm, processor):
    module = ir.Module()
    word, n = terms.I32.as_pointer(), loops_of_arm.I64
    kind = ir.FunctionType(ir.VoidType(), [word, n, n, n, n, word])
    function = ir.Function(module, kind, "products")
    b = ir.IRBuilder(function.append_basic_block())
    words, n_words, group, other, first, out = function.args
    shape = b.insert_value(ir.Constant(ir.ArrayType(n, 3), ir.Undefined), n_words, 1)
    words = SimpleNamespace(data=words, shape=shape)
    products = loops_of_arm.Products(b, words, group, words, other, first)
    products.into(SimpleNamespace(data=out))
    b.ret_void()
    code = binding.parse_assembly(str(module))
    code.verify()
    machine = llvm_of_arm.create_target_machine(processor, opt=3)
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(code, passes)
    assembly = machine.emit_assembly(code).split("\n")
    assert sum("udot" in line and ".4b[" in line for line in assembly) == 16
    assert not any("sp" in line for line in assembly), "spills"


def dot_product(b, acc, x, c):
    """What `udot` does, of instructions that each processor has."""
    many = ir.VectorType(terms.I32, 16)
    x, c = (b.zext(b.bitcast(v, ir.VectorType(terms.I8, 16)), many) for v in (x, c))
    products = b.mul(x, c)
    for r in range(4):
        each = ir.Constant(acc.type, list(range(r, 16, 4)))
        acc = b.add(acc, b.shuffle_vector(products, products, each))
    return acc


@pytest.mark.parametrize("bits", [8, pytest.param(15, marks=pytest.mark.exhaustive)])
def test_sums_by_the_loops_of_arm(loops_of_arm, monkeypatch, bits):
    monkeypatch.setattr(terms, "bytes_product", dot_product)
    for is_signed in (False, True):
        steps = Steps(bits, is_signed)
        for shape in ((1, 1), (1003, 70), (integers.MOST_ROWS + 5, 3)):
            H, q = rounded(steps, *shape)
            gram = np.zeros((shape[1], shape[1]), order="F")
            integers.add_gram([(0, gram)], H, steps)
            np.testing.assert_array_equal(np.tril(gram) * steps.scale**2, np.tril(q.T @ q))
