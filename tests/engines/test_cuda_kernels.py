"""The kernels of the GPU, compiled without one: they fit into the registers."""

import importlib.util
import os
import re
import subprocess

import pytest

from benchmark import benchmark
from sklearn_fsvc._src.engines.kernels import cubins, ptx
from sklearn_fsvc._src.engines.kernels.cuda import build

for module in ("numba_cuda_mlir", "nvidia"):
    if importlib.util.find_spec(module) is None:
        pytest.skip("needs the compiler: pip install '.[cuda-kernels]'", allow_module_level=True)
if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator compiles nothing", allow_module_level=True)

# What PTX for the oldest chips is assembled for: those themselves, and newer ones.
CHIPS = OLDEST, NEWER = "sm_75", "sm_90"


def ptxas():
    """NVIDIA's assembler, which comes with the compiler."""
    return build.assembler() or pytest.skip("needs ptxas: pip install nvidia-cuda-nvcc")


def papers_kernels():
    """(kernel, types) of those that only `benchmarks/paper.py` launches, which do not travel."""
    paper_kernel = benchmark("_paper_kernel")

    for formula, dtype in (("manhattan", "|u1"), ("manhattan", "<f4"), ("tanh", "<f4")):
        types = f"{dtype}[2C]", f"{dtype}[2C]", "<f4[2C]", "<f8"
        yield paper_kernel.kernel(formula, dtype == "|u1"), types


def n_words(types):
    """What a launch hands over for arguments of these types: see `programs.launch`."""
    arrays = [int(text[-3]) for text in types if text.endswith("]")]
    return sum(3 + 2 * n_axes for n_axes in arrays) + len(types) - len(arrays)


def assert_fits(kernel, program, chip, folder):
    """Nothing is spilled."""
    (folder / "kernel.ptx").write_text(program)
    said = subprocess.run(
        [ptxas(), "-v", f"--gpu-name={chip}", "kernel.ptx", "-o", "kernel.cubin"],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stderr  # fmt: skip
    spilled = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)
    assert set(spilled) == {("0", "0")}, (kernel.name, chip, said)


def travelling(kernel):
    """(head, program) of a kernel that travels with the package."""
    return ptx.parse((ptx.folder() / ptx.file_name(kernel)).read_text())


def some_kernels():
    """One of each kind."""
    return {kernel.name.split()[0]: (kernel, types) for kernel, types in build.kernels()}.values()


@pytest.mark.parametrize("half", [0, 1])  # each in a process of its own, for it takes long
def test_what_travels_fits(half, tmp_path):
    for kernel, _ in list(build.kernels())[half::2]:
        assert_fits(kernel, travelling(kernel)[1], NEWER, tmp_path)


@pytest.mark.parametrize(
    "kernels", [some_kernels, pytest.param(build.kernels, marks=pytest.mark.exhaustive)]
)
def test_what_travels_fits_on_the_oldest_chips(kernels, tmp_path):
    for kernel, _ in kernels():
        assert_fits(kernel, travelling(kernel)[1], OLDEST, tmp_path)


def test_what_travels_is_what_it_should_be():
    for kernel, types in build.kernels():
        _, program = travelling(kernel)
        assert len(re.findall(r"\.param \S+ kernel_param_\d+[,\n]", program)) == n_words(types)
        if kernel.name.startswith("manhattan uint32"):
            assert "vabsdiff4" in program
        if kernel.name.startswith("manhattan"):
            assert "ld.shared.v" in program  # 16 bytes at a time


@pytest.mark.parametrize(
    "kernels", [some_kernels, pytest.param(build.kernels, marks=pytest.mark.exhaustive)]
)
def test_what_travels_is_what_the_compiler_gives(kernels):
    """That it is of these sources is said by its head: see `test_ptx.py`."""
    for kernel, types in kernels():
        head, carried = travelling(kernel)
        if head["compiler"] == ptx.compiler():  # another one may find other words
            assert ptx.compile_kernel(kernel, types) == carried, kernel.name


@pytest.mark.parametrize("chip", cubins.CHIPS)
def test_machine_code_is_what_the_assembler_gives(chip):
    """Of another version it may be another."""
    for kernel, types in some_kernels():
        program = ptx.carried(kernel, types)
        codes = (
            cubins.carried(program, chip, cubins.DRIVER),
            cubins.assemble(program, chip, ptxas()),
        )
        versions = [re.findall(rb"release [\d.]+, V[\d.]+", code) for code in codes]
        assert versions[0]
        assert versions[0] != versions[1] or codes[0] == codes[1], kernel.name


def test_the_kernels_of_the_paper(tmp_path):
    for kernel, types in papers_kernels():
        program = ptx.compile_kernel(kernel, types)
        for chip in CHIPS:
            assert_fits(kernel, program, chip, tmp_path)


def test_the_compiler_is_left_as_it_was():
    """Whoever compiles for this machine's GPU in the same process goes on doing so."""
    from numba_cuda_mlir import tools

    before = tools._cached_cc
    ptx.compile_kernel(*list(build.kernels())[-1])
    assert tools._cached_cc == before
