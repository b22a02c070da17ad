"""The compiled loops of the jit engine, for this processor and others."""

import platform
import shutil
from dataclasses import replace

import numpy as np
import pytest

import contract
import naive
from in_turn import run_in_turn
from sklearn_fsvc._src.engines import jit
from sklearn_fsvc._src.engines.kernels import cpu
from sklearn_fsvc._src.engines.kernels.target import Target, host_target
from sklearn_fsvc._src.layers import RBFLayer

X86 = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("triple", "features", "expected"),
    [
        (X86, "+avx512f,+avx512bw,+avx512vnni,+fma,+avx2", (64, True, "vnni")),
        (X86, "+avx512f,+avx512bw,-avx512vnni,+fma,+avx2", (64, True, "sad")),
        (X86, "+avx2,+fma,+avxvnni", (32, True, "vnni")),
        (X86, "+avx2,+fma,-avx512f", (32, True, "sad")),
        (X86, "+sse2", (16, False, "sad")),
        (X86, "", (16, False, "sad")),
        ("riscv64-unknown-linux-gnu", "+v", (16, True, "portable")),
    ],
)
def test_target(triple, features, expected):
    assert Target.from_llvm(triple, "generic", features) == Target(*expected)


# The features that LLVM lists for the host: on Linux not all, on macOS none.
@pytest.mark.parametrize(
    ("triple", "name", "features", "uint8"),
    [
        ("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", "udot"),
        ("aarch64-unknown-linux-gnu", "cortex-a72", "+neon", "portable"),
        ("aarch64-unknown-linux-gnu", "generic", "+neon,+dotprod", "udot"),
        ("aarch64-unknown-linux-gnu", "generic", "+neon,+sve2", "portable"),
        ("arm64-apple-darwin23.1.0", "apple-m1", "", "udot"),
        ("aarch64-pc-windows-msvc", "generic", "", "portable"),
    ],
)
def test_target_of_arm(llvm_of_arm, triple, name, features, uint8):
    actual = Target.from_llvm(triple, name, features)
    assert actual == Target(16, True, uint8, is_arm=True, processor=name)


WIDE, TALL = (2, 8), (4, 4)  # of processors with 32 vector registers


@pytest.mark.parametrize(
    ("processor", "width", "has_short_terms", "n_features", "first"),
    [
        ("znver4", 64, False, 784, WIDE),
        ("znver5", 64, False, 784, TALL),
        ("emeraldrapids", 64, False, 784, TALL),
        ("emeraldrapids", 64, False, 16, WIDE),
        ("emeraldrapids", 64, True, 16, TALL),
        ("znver4", 64, True, 784, TALL),
        ("haswell", 32, False, 784, (2, 4)),
        ("haswell", 32, True, 784, (4, 2)),
    ],
)
def test_the_default_block_of_a_processor(processor, width, has_short_terms, n_features, first):
    target = Target(width, True, "sad", processor=processor)
    shapes = target.block_shapes(has_short_terms, n_features)
    assert shapes[0] == first
    assert len(set(shapes)) == len(shapes)
    # Accumulators, a vector of units and a broadcast fit into the registers.
    assert all(rows * vectors < target.n_registers for rows, vectors in shapes)


def _runs_here(instruction):
    own = host_target().byte_instruction
    return instruction in (own, "portable") or (own, instruction) == ("vnni", "sad")


@pytest.mark.parametrize("instruction", ["vnni", "udot", "sad", "portable"])
@pytest.mark.parametrize("n_features", [1, 4, 7, 64, 515])
def test_distances_of_bytes_are_exact_by_each_instruction(rng, instruction, n_features):
    if not _runs_here(instruction):
        pytest.skip(f"this processor has no {instruction}")
    X = rng.integers(0, 256, (33, n_features)).astype(np.uint8)
    C = rng.integers(0, 256, (70, n_features)).astype(np.uint8)
    engine = jit.JitEngine(replace(host_target(), byte_instruction=instruction))
    prepared = engine.prepare(RBFLayer(C, kernel="distance"))
    items = {"vnni": 4, "udot": 4, "sad": 8, "portable": 1}
    assert prepared.panels.dtype.itemsize == items[instruction]
    np.testing.assert_array_equal(engine.hidden(prepared, X), naive.distances(X, C, "manhattan"))


USE = """
import numpy as np, contract, naive
from sklearn_fsvc._src.engines import jit
engine = jit.JitEngine()
blocks = engine.tunables(next(contract.layers((9, 5, 4), np.float32))[1])["block"]
for reduction, dtype, block in {kernels}:
    for X, layer in contract.layers((9, 5, 4), np.dtype(dtype)):
        if layer.reduction == reduction:
            engine.tuned = {{layer.profile_key: {{"block": blocks[block]}}}}
            H = engine.hidden(engine.prepare(layer), X)
            np.testing.assert_allclose(H, naive.hidden(layer, X), atol=1e-5, rtol=1e-5)
"""
# Each differs from the first in one property, which is part of its name.
ONE = [("manhattan", "f4", 0)]
OTHERS = [("manhattan", "f4", 1), ("manhattan", "f8", 0), ("sqeuclidean", "f4", 0)]


@pytest.mark.exhaustive
def test_kernels_compiled_by_different_processes_are_loaded_correctly(tmp_path):
    """Two processes compile some each; a third one loads all of them from the cache."""
    programs = [USE.format(kernels=kernels) for kernels in (ONE, OTHERS, OTHERS + ONE)]
    run_in_turn(*programs, NUMBA_CACHE_DIR=str(tmp_path))


def evaluate():
    layer = RBFLayer(np.ones((2, 3)), metric="sqeuclidean", kernel="distance")
    return jit.JitEngine().hidden(jit.JitEngine().prepare(layer), layer.units)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with the cache of one kernel."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("numba.config.CACHE_DIR", str(folder))
        cpu.kernel.cache_clear()
        evaluate()
    return folder


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("content", [b"garbage\n", b""])
def test_a_corrupt_cache_is_named(tmp_path, set_numba_cache, cache, pattern, content):
    folder = shutil.copytree(cache, tmp_path / "copy")
    files = list(folder.rglob(pattern))
    assert files
    for file in files:
        file.write_bytes(content)
    set_numba_cache(folder)  # and load kernels as a new process would
    try:
        result = "wrong" if evaluate().any() else "right"
    except RuntimeError as error:
        result = str(error)
    is_named = f"If the cache is corrupt, delete {folder}" in result
    # For numba an empty index is none, so that it may compile again.
    assert is_named or (result == "right" and not content), result


def test_each_kernel_has_one_signature():
    """Processes that compile two signatures at the same time can mix them up in the cache."""
    compiled = {}
    for dtype in (np.float32, np.float64, np.uint8):
        for X, layer in contract.layers((5, 6, 7), dtype):
            prepared = jit.JitEngine().prepare(layer)
            jit.JitEngine().hidden(prepared, X)
            X.flags.writeable = False
            jit.JitEngine().hidden(prepared, X)
            compiled[prepared.kernel.py_func.__qualname__] = len(prepared.kernel.signatures)
    for dtype in (np.float32, np.float64):
        contract.check_gradients(jit.JitEngine(), (5, 6, 200), dtype)
    for function in (
        cpu.byte_sums, cpu.sums_float32, cpu.sums_float64,
        cpu.square_gradients_float32, cpu.square_gradients_float64,
    ):  # fmt: skip
        compiled[function.py_func.__qualname__] = len(function.signatures)
    assert len(compiled) == 12
    assert set(compiled.values()) <= {0, 1}, compiled


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (70, 64), (200, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_few_features_by_numpy_are_those_of_the_loop(monkeypatch, rng, shape, dtype):
    X = (rng.normal(size=shape) * 10 ** rng.uniform(-3, 3, shape)).astype(dtype)
    sums, sizes = np.empty((2, len(X)), dtype)
    name = f"sums_{np.dtype(dtype)}"
    getattr(cpu, name)(jit._read_only(X), sums, sizes)
    monkeypatch.delattr(cpu, name)  # so that NumPy sums
    by_numpy, limits = jit._sums_and_limits(X)
    np.testing.assert_array_equal(by_numpy, sums)
    np.testing.assert_allclose(limits, jit.SUM_CANCELLATION * sizes, rtol=1e-5)


def test_bytes_need_not_be_aligned(rng):
    """Rows of an IDX file begin at byte 16, those of other files at odd bytes."""
    raw = rng.integers(0, 256, 3 + 20 * 8).astype(np.uint8)
    X = raw[3:].reshape(20, 8)
    engine = jit.JitEngine()
    H = engine.hidden(engine.prepare(RBFLayer(X.copy(), kernel="distance")), X)
    np.testing.assert_array_equal(H, naive.distances(X, X, "manhattan"))


CHECK = """
import os
os.environ.update({env})  # before numba is imported
import numpy as np, contract
from sklearn_fsvc._src.engines import jit
from sklearn_fsvc._src.engines.kernels.target import host_target
assert host_target().width == {width}, host_target()
engine = jit.JitEngine()
"""
# The default block of each sum; and with the third dtype the other blocks. For this processor, all
# blocks of each sum are in test_engines.py.
FIRST_BLOCKS = """
for dtype in (np.float32, np.uint8):
    for shape in contract.SHAPES:
        contract.check_values(engine, shape, dtype)
    contract.check_rows_are_independent(engine, dtype)
    contract.check_zero_distance(engine, dtype)
"""
OTHER_BLOCKS = """
contract.check_values(engine, (67, 131, 9), np.float64)
contract.check_rows_are_independent(engine, np.float64)
contract.check_parts_of_the_units(engine, np.float64)
contract.check_far_from_zero(engine, np.float64)
contract.check_settings(engine, np.float64, one_block=True)
contract.check_settings(engine, np.uint8)
"""


# Name, features, and bytes of a vector.
OLDER = [("haswell", "+avx2,+fma,+avx,+sse4.2", 32), ("x86-64", "+sse2", 16)]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="targets of x86-64")
@pytest.mark.exhaustive
def test_the_contract_holds_on_older_processors(tmp_path):
    """The gate runs code for older processors in readouts/test_exact_solution.py."""
    programs = []
    for name, features, width in OLDER:
        env = {
            "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features,
            "NUMBA_CACHE_DIR": str(tmp_path / name),
        }  # fmt: skip
        if host_target().width >= width:
            programs.append(CHECK.format(env=env, width=width) + FIRST_BLOCKS + OTHER_BLOCKS)
    run_in_turn(*programs)


FOR_ARM = """
import numpy as np, contract
from sklearn_fsvc._src.engines import jit
from sklearn_fsvc._src.engines.kernels.target import Target
engine = jit.JitEngine(Target(16, True, "portable", is_arm=True))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif("fma" not in jit.JitEngine().describe().lower(), reason="without FMA")
def test_the_contract_holds_with_the_loops_for_arm(tmp_path):
    """Except for bytes, whose instruction other processors do not have."""
    run_in_turn(FOR_ARM + FIRST_BLOCKS + OTHER_BLOCKS, NUMBA_CACHE_DIR=str(tmp_path))
