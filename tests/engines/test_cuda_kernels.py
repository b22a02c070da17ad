"""The kernels of the GPU, compiled without one: they fit into the registers."""

import importlib.util
import os
import re
import subprocess
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sklearn_fsvc.layers import AS_THEY_ARE, BELOW_MEAN, TWO_SIDED

for module in ("numba_cuda_mlir", "nvidia"):
    if importlib.util.find_spec(module) is None:
        pytest.skip(
            "needs the compiler: pip install 'sklearn-fsvc[cuda13]'", allow_module_level=True
        )
if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator compiles nothing", allow_module_level=True)

# Compute capability of the oldest chips that are supported, and what its code is assembled for.
OLDEST, CHIPS = (7, 5), ("sm_75", "sm_90")


def ptxas():
    """NVIDIA's assembler, which comes with the compiler."""
    folders = importlib.util.find_spec("nvidia").submodule_search_locations
    found = [path for folder in folders for path in Path(folder).glob("*/bin/ptxas")]
    if not found:
        pytest.skip("needs ptxas: pip install nvidia-cuda-nvcc")
    return found[0]


def cases():
    """name -> (kernel, types of its arguments)"""
    from numba_cuda_mlir.numba_cuda import types as t

    from sklearn_fsvc.bench import paper_kernel
    from sklearn_fsvc.engines.kernels.cuda import elementwise, manhattan, novelty, patches

    def array(dtype, ndim=2):
        return t.Array(dtype, ndim, "C")

    f4, f8, u4, u1 = t.float32, t.float64, t.uint32, t.uint8
    for name, item, hidden in (("f4", f4, f4), ("f8", f8, f8), ("u4", u4, f4)):
        arrays = array(item), array(item), array(hidden)
        for tile in manhattan.TILES[np.dtype(name)]:
            signature = (*arrays, *[t.int64] * 3, *[hidden] * 3, t.int32)
            yield f"manhattan {name} {tile}", manhattan.manhattan(np.dtype(name), tile), signature
        rows = array(u1 if item is u4 else item)
        yield f"pack {name}", manhattan.pack(name), (rows, array(item))
    for name, is_squared, dtype, width in (
        ("tanh", False, f4, 4), ("exp", True, f8, 2), ("exp", False, f4, 1),
        ("identity", True, f4, 4),
    ):  # fmt: skip
        kernel = elementwise.map_rows(name, is_squared, "f8" if dtype is f8 else "f4", width)
        signature = array(dtype), array(dtype), t.int64, t.int64, dtype, dtype
        yield f"{name} {dtype} {width}", kernel, signature
    for dtype in (f4, f8):
        lines, vectors, numbers = [array(dtype)] * 3, [array(dtype, 1)] * 2, [dtype] * 4
        kernel = elementwise.expand("f8" if dtype is f8 else "f4")
        yield (
            f"expand {dtype}",
            kernel,
            (*lines, *vectors, t.int64, t.int64, *numbers, t.int32, t.int32),
        )
    for formula, dtype in (("manhattan", u1), ("manhattan", f4), ("tanh", f4)):
        kernel = paper_kernel.kernel(formula, dtype is u1)
        yield f"paper's {formula} {dtype}", kernel, (array(dtype), array(dtype), array(f4), f8)
    for dtype, response in ((f4, TWO_SIDED), (f8, BELOW_MEAN), (f4, AS_THEY_ARE)):
        kind, line, images = "f8" if dtype is f8 else "f4", array(dtype, 1), array(dtype, 3)
        sides = [t.int64] * 4
        numbers = (*sides, t.int64, t.int64, dtype, line, line)
        yield f"moments {dtype}", patches.moments(kind), (images, *numbers)
        numbers = (*sides, t.int64, line, line, array(dtype))
        yield f"unfold {dtype}", patches.unfold(kind, True), (images, *numbers)
        numbers = (*sides, dtype, array(dtype, 4))
        kernel = patches.average(kind, response)
        yield f"average {dtype} {response}", kernel, (array(dtype), line, *numbers)
    numbers = array(t.int32, 1)
    yield "settle", novelty.settle(), (array(f8), array(f8, 1), f8, numbers, numbers)


def n_words(signature):
    """What a launch hands over for arguments of these types: see `programs.launch`."""
    from numba_cuda_mlir.numba_cuda import types as t

    return sum(3 + 2 * arg.ndim if isinstance(arg, t.Array) else 1 for arg in signature)


@pytest.mark.parametrize("half", [0, 1])
def test_nothing_is_spilled(monkeypatch, tmp_path, half):
    """What is compiled for the oldest chip is assembled for a newer one, too."""
    from numba_cuda_mlir import cuda, tools

    # The compiler asks for the GPU of this machine, even where it is told another.
    monkeypatch.setattr(tools, "_cached_cc", OLDEST)
    for name, kernel, signature in islice(cases(), half, None, 2):
        code = kernel.code
        bounds = code.targetoptions.get("launch_bounds")
        ptx, _ = cuda.compile_ptx(code.py_func, signature, cc=OLDEST, launch_bounds=bounds)
        assert len(re.findall(r"\.param \S+ \S*_param_\d+[,\n]", ptx)) == n_words(signature), name
        (tmp_path / "kernel.ptx").write_text(ptx)
        for chip in CHIPS:
            said = subprocess.run(
                [ptxas(), "-v", f"--gpu-name={chip}", "kernel.ptx", "-o", "kernel.cubin"],
                cwd=tmp_path, check=True, capture_output=True, text=True,
            ).stderr  # fmt: skip
            spilled = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)
            assert set(spilled) == {("0", "0")}, (name, chip, said)
        if name.startswith("manhattan u4"):
            assert "vabsdiff4" in ptx
        if name.startswith("manhattan"):
            assert "ld.shared.v" in ptx  # 16 bytes at a time
