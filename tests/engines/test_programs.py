"""Kernels are known by what makes them and by their arguments, and come compiled."""

import subprocess
import sys

import numpy as np
import pytest

from sklearn_fsvc._src.engines.cuda import launch
from sklearn_fsvc._src.engines.kernels.cuda import manhattan, novelty


def test_kernels_are_told_apart_by_what_makes_them():
    tiles = manhattan.TILES[np.dtype(np.float32)]
    made = [manhattan.manhattan(np.dtype(np.float32), tile) for tile in tiles]
    made += [manhattan.pack(np.dtype(np.float32)), manhattan.pack(np.dtype(np.uint32))]
    made += [novelty.settle(np.dtype(np.float32)), novelty.settle(np.dtype(np.float64))]
    assert len({(kernel.module, kernel.name) for kernel in made}) == len(made)
    assert manhattan.manhattan(np.dtype(np.float32), tiles[0]) is made[0]
    assert not any("0x" in kernel.name for kernel in made)  # an address is another next time


def test_types_are_those_of_the_arguments():
    assert launch.typed((3, True, np.float32(1), np.int32(1)))[1] == ("<i8", "<i4", "<f4", "<i4")
    X = np.zeros((4, 6), np.float32)
    assert launch._type_of(X) == "<f4[2C]" != launch._type_of(X[:, ::2])


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


def test_no_process_needs_the_compiler(engine):
    """Not the first one either: the kernels came compiled."""
    if engine.xp is np:
        pytest.skip("kernels of a GPU")
    run = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1] == "False"
