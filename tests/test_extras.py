"""What a message tells the user to type is what pip knows."""

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from sklearn_fsvc._src.utils import availability

PACKAGE = Path(availability.__file__).parents[1]


def test_packages_of_one_extra_are_named(monkeypatch):
    """As build backends write them, with either kind of quotation marks."""
    listed = [
        "numpy>=1.26",
        "cupy-cuda13x[ctk]>=14; extra == 'cuda13'",
        'numba-cuda-mlir[cu13]>=0.6 ; extra == "cuda13"',
        "cupy-cuda12x; extra == 'cuda12'",
        "mkl>=2024; sys_platform != 'darwin' and extra == 'mkl'",
    ]
    monkeypatch.setattr(availability, "requires", lambda name: listed)
    expected = "pip install 'cupy-cuda13x[ctk]>=14' 'numba-cuda-mlir[cu13]>=0.6'"
    assert availability.install("cuda13") == expected
    assert availability.install("mkl") == "pip install 'mkl>=2024'"


def test_a_package_that_is_not_installed_is_a_folder(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(availability, "requires", missing)
    assert availability.install("mkl") == "pip install '.[mkl]'"


def test_nobody_is_sent_to_an_index():
    """`pip install sklearn-fsvc` finds nothing, or what somebody else has put there."""
    wrong = re.compile(r"pip install (--\S+ )*['\"]?sklearn.fsvc")
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 100
    assert not [path for path in paths if wrong.search(path.read_text())]
