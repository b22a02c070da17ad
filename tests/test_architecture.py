"""The direction of imports, and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_fsvc

ROOT = Path(sklearn_fsvc.__file__).parent
# A file imports only from files further down this list.
LAYERS = [
    "__main__",
    "demo",
    "bench.__init__",
    "bench.experiments",
    "bench.run",
    "bench.methods",
    "bench.results",
    "bench.paper_kernel",
    "bench.paper",
    "__init__",
    "search.__init__",
    "search.look_up",
    "search.shared",
    "search.networks",
    "search.groups",
    "tuning",
    "classifiers",
    "base",
    "calibration",
    "projectors",
    "centers",
    "weights.__init__",
    "weights.rows",
    "weights.fields",
    "weights.scale",
    "weights.chance",
    "arrays",
    "ridge",
    "readout",
    "linalg",
    "streaming",
    "progress",
    "tiling",
    "parameters",
    "timing",
    "engines.__init__",
    "engines.jit",
    "engines.blas",
    "engines.mkl",
    "engines.cuda",
    "engines.transfer",
    "engines.workers",
    "engines.host",
    "engines.base",
    "engines.kernels.__init__",
    "engines.kernels.cpu",
    "engines.kernels.simd",
    "engines.kernels.cuda",
    "engines.kernels.language",
    "profiles",
    "version",
    "layers",
]
FILES = sorted(ROOT.rglob("*.py"))


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path):
    """Names of the package's own modules that a file imports anywhere in it."""
    package = module_name(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = package[: len(package) - (node.level - 1)] + (node.module or "").split(".")
        base = [part for part in base if part]
        for alias in node.names:
            for name in (".".join(base + [alias.name]), ".".join(base)):
                for candidate in (name, f"{name}.__init__" if name else "__init__"):
                    if candidate in LAYERS:
                        yield candidate
                        break
                else:
                    continue
                break


def test_every_file_has_its_place():
    assert {module_name(p) for p in FILES} == set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_downwards(path):
    here = LAYERS.index(module_name(path))
    for name in imports_of(path):
        assert LAYERS.index(name) > here or (name, module_name(path)) in {
            ("__init__", "__main__")  # the version
        }, f"{module_name(path)} imports {name}"


def test_importing_compiles_and_loads_nothing():
    """No numba, no thread, no MKL, no GPU before the first call that needs it."""
    code = (
        "import sys, threading, sklearn_fsvc as f\n"
        "from sklearn.base import clone\n"
        "for e in [f.TanhProjector(device=d) for d in ('jit', 'mkl', 'cuda')]:\n"
        "    clone(e).get_params()\n"
        "assert not {'numba', 'matplotlib', 'cupy', 'numba_cuda_mlir'} & set(sys.modules)\n"
        "assert threading.active_count() == 1\n"
        "assert not any('mkl_rt' in line for line in open('/proc/self/maps'))\n"
    )
    if sys.platform != "linux":
        code = code[: code.index("assert not any")]
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names():
    assert sklearn_fsvc.__all__ == sorted(sklearn_fsvc.__all__)
    for name in sklearn_fsvc.__all__:
        assert "Examples\n    --------" in getattr(sklearn_fsvc, name).__doc__
