"""The direction of imports, their declaration, and their cost."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

import sklearn_fsvc

PACKAGE = Path(sklearn_fsvc.__file__).parent / "_src"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
FILES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
# Layers of the package, the highest first: a file or folder imports only from those below it.
# Other modules, such as the version number, may be imported everywhere.
LAYERS = (
    "cli", "demo", "export", "inspection", "search", "tuning", "tabular", "stacking", "estimators",
    "hidden_layers", "targets", "parts", "readouts", "data", "engines", "layers", "kernels",
    "formulas", "images", "utils",
)  # fmt: skip


@cache
def nodes_of(path):
    """Return all nodes of the syntax tree of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of(path):
    """Return the absolute names that a file imports, also inside of functions."""
    return list(find_imports(path))


def find_imports(path):
    package = ["sklearn_fsvc", "_src", *path.relative_to(PACKAGE).parent.parts]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = [*start, *(node.module or "").split(".")]
            for alias in node.names:
                yield ".".join(part for part in [*base, alias.name] if part)


def package_imports(path):
    """Yield the modules of the package that a file imports."""
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] != "sklearn_fsvc":
            continue
        assert parts[1] == "_src", f"{path} imports {name}, which is public"
        inner = [".".join(parts[2:end]) for end in range(len(parts), 1, -1)]
        candidates = [name for i in inner for name in (i, f"{i}.__init__".lstrip("."))]
        yield next(name for name in candidates if name in FILES)


def layer_of(name):
    return name.split(".")[0]


def test_imports_have_no_cycle():
    graph = {name: set(package_imports(path)) - {name} for name, path in FILES.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_imports_point_downwards():
    edges = [(name, other) for name, path in FILES.items() for other in package_imports(path)]
    for name, other in edges:
        if {layer_of(name), layer_of(other)} <= set(LAYERS):
            importing, imported = LAYERS.index(layer_of(name)), LAYERS.index(layer_of(other))
            assert imported >= importing, f"{name} imports {other}"


def test_every_module_belongs_to_a_layer():
    """Only modules that import nothing of the package may be missing in LAYERS."""
    assert set(LAYERS) <= {layer_of(name) for name in FILES}
    for name, path in FILES.items():
        if layer_of(name) not in (*LAYERS, "__init__"):
            assert not set(package_imports(path)), f"add {name} to LAYERS"


@pytest.mark.parametrize("folder", ["estimators", "hidden_layers", "readouts", "targets"])
def test_docstrings_of_large_folders_name_all_modules(folder):
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text()))
    modules = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
    assert modules <= set(re.findall(r"`(\w+)`", text))


def test_imported_packages_are_declared():
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = _names(project["dependencies"])
    extras = _names(r for extra in project["optional-dependencies"].values() for r in extra)
    owners = packages_distributions()
    for name, path in FILES.items():
        roots = {full.split(".")[0] for full in imports_of(path)} - {"sklearn_fsvc"}
        for root in roots - sys.stdlib_module_names:
            packages = {_plain(owner) for owner in owners.get(root, [root])}
            plain = {"cupyx": "cupy"}.get(root, _plain(root))
            is_declared = packages & needed or any(extra.startswith(plain) for extra in extras)
            assert is_declared, f"{name} imports {root}, which pyproject.toml does not name"


def _plain(name):
    return name.lower().replace("_", "-")


def _names(requirements):
    return {_plain(re.match(r"[\w-]+", requirement)[0]) for requirement in requirements}


def test_importing_compiles_and_loads_nothing():
    """Numba, threads, MKL and GPUs are used by calls that need them only, and Dask not in a fit."""
    code = (
        "import sys, threading, sklearn_fsvc as f, sklearn_fsvc.inspection\n"
        "from sklearn.base import clone\n"
        "for e in [f.TanhProjector(device=d) for d in ('jit', 'mkl', 'cuda')]:\n"
        "    clone(e).get_params()\n"
        "assert not {'numba', 'matplotlib', 'onnx', 'cupy', 'numba_cuda_mlir'} & set(sys.modules)\n"
        "assert threading.active_count() == 1\n"
        "if sys.platform == 'linux':\n"
        "    assert not any('mkl_rt' in line for line in open('/proc/self/maps'))\n"
        "X = [[float(i % 7), float(i % 3)] for i in range(50)]; y = [i % 2 for i in range(50)]\n"
        "model = f.TanhClassifier(5, feature_weights=None, scale=1, alpha=1, device='blas')\n"
        "model.fit(X, y).predict(X)\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def public_modules():
    """Yield the names of modules without an underscore in their name."""
    for path in sorted(PACKAGE.parent.rglob("*.py")):
        name = path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
        if not any(part.startswith("_") for part in name.removesuffix("__init__").split(".")):
            yield f"sklearn_fsvc.{name}".removesuffix(".__init__")


def test_public_names():
    assert sklearn_fsvc.__all__ == sorted(sklearn_fsvc.__all__)
    for name in sklearn_fsvc.__all__:
        assert "Examples\n    --------" in getattr(sklearn_fsvc, name).__doc__


@pytest.mark.parametrize("name", list(public_modules()))
def test_public_names_are_documented(name):
    """Names without an underscore are in `__all__` and in the API reference."""
    module = import_module(name)
    api = (PROJECT.parent / "docs" / "api.rst").read_text()
    prefix = name.removeprefix("sklearn_fsvc").lstrip(".")
    names = {name for name, value in vars(module).items() if not isinstance(value, ModuleType)}
    assert {name for name in names if name[0] != "_"} == set(getattr(module, "__all__", ()))
    for name in getattr(module, "__all__", ()):
        assert re.search(rf"^   ~?{'.'.join(filter(None, (prefix, name)))}$", api, re.MULTILINE)


def defined_by_torch():
    """Return the names that `engines/torch/namespace.py` defines, without importing PyTorch."""
    tree = ast.parse(FILES["engines.torch.namespace"].read_text())
    namespace = next(n for n in tree.body if getattr(n, "name", None) == "Namespace")
    names = {node.name for node in namespace.body if isinstance(node, ast.FunctionDef)}
    for node in namespace.body:
        if isinstance(node, ast.Assign):
            names |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    for node in ast.walk(namespace):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_UNARY":
            names |= set(ast.literal_eval(node.value))
    return names


def used_of_namespaces():
    """Yield (name, place) of what the code for every engine uses of an array namespace `xp`."""
    for module, path in FILES.items():
        if module.startswith(("engines.cuda", "engines.kernels", "engines.torch")):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute):
                owner = getattr(node.value, "id", getattr(node.value, "attr", None))
                if owner == "xp":
                    yield node.attr, f"{module}:{node.lineno}"


def test_every_array_namespace_has_the_functions_that_are_used():
    """NumPy and CuPy have nearly all; that of PyTorch is ours, and seldom tested."""
    used, defined = dict(used_of_namespaces()), defined_by_torch()
    assert {"tril", "sqrt", "ndarray", "linalg"} <= defined & set(used)
    assert {name: place for name, place in used.items() if name not in defined} == {}
