"""Files that the wheel and the source distribution contain besides modules."""

import tomllib
from pathlib import Path

import sklearn_fsvc

PACKAGE = Path(sklearn_fsvc.__file__).parent
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_package_is_marked_as_typed():
    """Type checkers read annotations of an installed package only where PEP 561's marker is."""
    assert (PACKAGE / "py.typed").read_bytes() == b""


def test_wheel_contains_every_file_of_the_package():
    """Hatch packs folders whole, so that markers and kernels need no list of their own."""
    targets = tomllib.loads(PROJECT.read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["packages"] == [PACKAGE.name]
    assert "exclude" not in targets["wheel"]
    assert PACKAGE.name in targets["sdist"]["include"]


def test_type_checker_covers_the_package():
    settings = tomllib.loads(PROJECT.read_text())["tool"]["mypy"]
    assert PACKAGE.name in settings["files"]
    overridden = [name for override in settings["overrides"] for name in override["module"]]
    for name in overridden:
        path = PACKAGE.parent / name.removesuffix(".*").replace(".", "/")
        if not name.startswith(PACKAGE.name):
            continue  # a dependency
        assert path.with_suffix(".py").is_file() or path.is_dir(), name
