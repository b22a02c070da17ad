"""Kernels are identified by their factory and its arguments, programs also by types."""

import subprocess
import sys

import numpy as np
import pytest

from sklearn_fsvc._src.engines.cuda import CudaEngine, launch
from sklearn_fsvc._src.engines.kernels.cuda import manhattan, packing, selection

SINGLE, DOUBLE, WORD = map(np.dtype, (np.float32, np.float64, np.uint32))


def test_kernels_have_distinct_stable_names():
    tiles = manhattan.TILES[SINGLE]
    kernels = [manhattan.manhattan(SINGLE, tile) for tile in tiles]
    kernels += [packing.pack_features(item, 32, 8) for item in (SINGLE, WORD)]
    kernels += [selection.select_novel(dtype, 1024) for dtype in (SINGLE, DOUBLE)]
    assert len({(kernel.module, kernel.name) for kernel in kernels}) == len(kernels)
    assert manhattan.manhattan(SINGLE, tiles[0]) is kernels[0]
    assert not any("0x" in kernel.name for kernel in kernels)  # an address differs per process


def test_types_of_arguments():
    scalars = 3, True, np.float32(1), np.int32(1)
    assert launch.typed(scalars)[1] == ("<i8", "<i4", "<f4", "<i4")
    X = np.zeros((4, 6), np.float32)
    assert launch.typed((X, X[:, ::2]))[1] == ("<f4[2C]", "<f4[2A]")


def test_large_grids_have_fewer_blocks_than_rows():
    assert launch.grid_over_rows(100, 9, 256) == (1, 3)
    assert launch.grid_over_rows(257, 10**6, 256, rows_per_block=1) == (2, launch.MAX_BLOCKS)


FIT = """
import sys
import numpy as np
from sklearn_fsvc import RBFClassifier
X = np.random.default_rng(0).random((300, 5))
y = np.arange(300) % 3
for kernel in ("triangular", "gaussian", "laplacian"):
    for metric in ("manhattan", "euclidean"):
        model = RBFClassifier(40, kernel=kernel, metric=metric, device="cuda", random_state=0)
        model.fit(X, y)
print(model.decision_function(X).sum(), "numba_cuda_mlir" in sys.modules)
"""


def test_no_process_imports_the_compiler(engine, archive):
    """Where the kernels are built, not even the first process on a machine."""
    if not isinstance(engine, CudaEngine):
        pytest.skip("kernels of a GPU")
    run = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1] == "False"
