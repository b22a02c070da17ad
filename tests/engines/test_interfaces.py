"""Whether engines have what callers use, by their source: most machines lack their packages."""

import ast
from pathlib import Path

import pytest

import sklearn_fsvc

PACKAGE = Path(sklearn_fsvc.__file__).parent / "_src"
ENGINES = PACKAGE / "engines"
# Where arrays may be those of any engine.
CALLERS = sorted(
    path
    for name in ("data", "hidden_layers", "readouts")
    for path in (PACKAGE / name).rglob("*.py")
)


def methods_of(path, name):
    """Return {method: arguments without self} of a class in a file."""
    tree = ast.parse(path.read_text())
    (definition,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {
        node.name: [a.arg for a in (*node.args.args, *node.args.kwonlyargs) if a.arg != "self"]
        for node in definition.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def calls_of(owner):
    """Yield (file, line, method, names of keyword arguments) of calls of ``owner.method(...)``."""
    for path in CALLERS:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = node.func.value
            if getattr(of, "attr", getattr(of, "id", None)) == owner:
                keywords = {keyword.arg for keyword in node.keywords} - {None}
                yield path.name, node.lineno, node.func.attr, keywords


def test_namespace_of_torch_has_the_arguments_that_are_given():
    methods = methods_of(ENGINES / "torch" / "namespace.py", "Namespace")
    calls = [call for call in calls_of("xp") if call[2] in methods]
    assert len(calls) > 100
    assert [call for call in calls if not call[3] <= set(methods[call[2]])] == []


@pytest.mark.parametrize(
    ("path", "name"), [("cuda/algebra.py", "CuPyAlgebra"), ("torch/algebra.py", "TorchAlgebra")]
)
def test_methods_of_algebras_have_the_same_arguments(path, name):
    common = methods_of(ENGINES / "algebra.py", "Algebra")
    host = common | methods_of(ENGINES / "algebra.py", "HostAlgebra")
    other = common | methods_of(ENGINES / path, name)
    called = {method for _, _, method, _ in calls_of("algebra")}
    assert len(called & host.keys()) > 20
    assert called & host.keys() <= other.keys()
    shared = called & host.keys()
    assert {m: host[m] for m in shared} == {m: other[m] for m in shared}
