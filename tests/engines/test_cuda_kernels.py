"""The CUDA kernels compile, without a GPU, to programs that fit into registers."""

import importlib.util
import os
import re
import subprocess
import sys
from functools import cache

import pytest

from benchmark import benchmark
from sklearn_fsvc._src.engines.kernels.cuda import build, compiler, programs

for module in (compiler.COMPILER, "nvidia"):
    if importlib.util.find_spec(module) is None:
        pytest.skip("needs the compiler: pip install '.[cuda-kernels]'", allow_module_level=True)
if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator replaces the compiler", allow_module_level=True)

KERNELS = build.all_kernels()
# One kernel of each factory, and the most used kernel with many registers. The build of a wheel
# compiles all.
SAMPLE = list({kernel.name.split()[0]: (kernel, types) for kernel, types in KERNELS}.values())
LARGE = KERNELS[:1]
# PTX is translated for these GPUs: the oldest that are supported, and newer ones.
OLDEST, NEWER = "sm_{}{}".format(*compiler.OLDEST), "sm_90"


def paper_kernels():
    """Kernels of `benchmarks/paper.py`, which no wheel contains."""
    paper_kernel = benchmark("_paper_kernel")
    for formula, dtype in (("manhattan", "|u1"), ("manhattan", "<f4"), ("tanh", "<f4")):
        types = f"{dtype}[2C]", f"{dtype}[2C]", "<f4[2C]", "<f8"
        yield paper_kernel.kernel(formula, dtype == "|u1"), types


def n_parameters(types):
    """Parameters of a program for arguments of these types: see `launch`."""
    axes = [int(text[-3]) for text in types if text.endswith("]")]
    return sum(3 + 2 * n_axes for n_axes in axes) + len(types) - len(axes)


@cache
def ptx_of(kernel, types):
    """The PTX of the archive, if it has been built, since compiling takes seconds."""
    archive = build.default_archive()
    ptx = programs.read(archive, programs.PTX, kernel, types)
    return compiler.compile_ptx(kernel, types) if ptx is None else ptx.decode()


def assert_fits(name, ptx, architecture):
    """No register is spilled to memory, which would be slow."""
    _, report = compiler.assemble(ptx, architecture, "-v")
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", report)
    assert set(spills) == {("0", "0")}, (name, architecture, report)


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(SAMPLE, id="sample"),
        pytest.param(LARGE, id="large"),
        # In two processes.
        pytest.param(KERNELS[::2], id="half", marks=pytest.mark.exhaustive),
        pytest.param(KERNELS[1::2], id="other half", marks=pytest.mark.exhaustive),
    ],
)
def test_kernels_spill_no_registers(kernels):
    for kernel, types in kernels:
        for architecture in (OLDEST, NEWER):
            assert_fits(kernel.name, ptx_of(kernel, types), architecture)


def test_programs_are_as_intended():
    for kernel, types in SAMPLE:
        ptx = ptx_of(kernel, types)
        assert f".visible .entry {compiler.ENTRY_POINT}(" in ptx
        assert ".version 6.3\n.target sm_75\n" in ptx
        assert len(re.findall(r"\.param \S+ kernel_param_\d+[,\n]", ptx)) == n_parameters(types)
        if kernel.name.startswith("manhattan"):
            assert "vabsdiff4" in ptx  # the last one is that of bytes
            assert "ld.shared.v" in ptx  # 16 bytes at a time
            assert "st.shared.v" in ptx  # not as global memory: see the kernel


def test_compiling_is_reproducible():
    """Whatever the process has compiled before. The first of the sample takes ten seconds."""
    for kernel, types in SAMPLE[1::4]:
        assert compiler.compile_ptx(kernel, types) == ptx_of(kernel, types), kernel.name


def test_an_archive_contains_all_targets(tmp_path):
    """Written by a process that has compiled nothing before it starts others, as in a build."""
    number, path = len(KERNELS) - 1, tmp_path / "kernels.zip"
    code = (
        "import pathlib, sys\n"
        f"from {build.__name__} import write_archive\n"
        "write_archive(pathlib.Path(sys.argv[1]), [int(sys.argv[2])])\n"
    )
    subprocess.run([sys.executable, "-c", code, path, str(number)], check=True, timeout=120)
    codes = {t: programs.read(path, t, *KERNELS[number]) for t in programs.TARGETS}
    assert codes.pop(programs.PTX).decode() == ptx_of(*KERNELS[number])
    assert all(code.startswith(b"\x7fELF") for code in codes.values())
    assert len(set(codes.values())) == len(programs.ARCHITECTURES)


def test_the_kernels_of_the_paper():
    for kernel, types in paper_kernels():
        for architecture in (OLDEST, NEWER):
            assert_fits(kernel.name, compiler.compile_ptx(kernel, types), architecture)


def test_the_compiler_keeps_its_configuration():
    """Other code in the process compiles for the GPU of this machine, as before."""
    from numba_cuda_mlir import tools

    before = tools._cached_cc
    compiler.compile_ptx(*KERNELS[-1])
    assert tools._cached_cc == before
