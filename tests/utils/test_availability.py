"""Installation commands in messages work with pip, and methods depend on parameters."""

import re
from pathlib import Path

import pytest

import sklearn_fsvc
from sklearn_fsvc._src.utils.availability import available_if, install_command, requirements_of

PACKAGE = Path(sklearn_fsvc.__file__).parent


def test_requirements_of_an_extra():
    """In the formats of build backends, with either kind of quotation marks."""
    requirements = [
        "numpy>=1.26",
        "cupy-cuda13x[ctk]>=14; extra == 'cuda13'",
        'numba-cuda-mlir[cu13]>=0.6 ; extra == "cuda13"',
        "cupy-cuda12x; extra == 'cuda12'",
        "mkl>=2024; sys_platform != 'darwin' and extra == 'mkl'",
    ]
    expected = ["cupy-cuda13x[ctk]>=14", "numba-cuda-mlir[cu13]>=0.6"]
    assert requirements_of("cuda13", requirements) == expected
    assert requirements_of("mkl", requirements) == ["mkl>=2024"]


def test_command_of_an_installed_distribution():
    """pytest, since this package may be imported from a folder; its extra is `dev`."""
    command = install_command("dev", "pytest")
    assert command.startswith("pip install '")
    assert "hypothesis" in command


def test_command_without_an_installed_distribution():
    assert install_command("mkl", "no-such-distribution") == "pip install '.[mkl]'"


def test_no_message_refers_to_an_index():
    """`pip install sklearn-fsvc` finds nothing, or what somebody else has put there."""
    wrong = re.compile(r"pip install (--\S+ )*['\"]?sklearn.fsvc")
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 100
    assert not [path for path in paths if wrong.search(path.read_text())]


class Estimator:
    def __init__(self, is_available):
        self.is_available = is_available

    def _check(self):
        if not self.is_available:
            raise AttributeError("reason and remedy")

    @available_if(_check)
    def predict(self, X):
        """Docstring."""
        return X


@pytest.mark.parametrize("call", [lambda m: m.predict(3), lambda m: type(m).predict(m, 3)])
def test_conditional_methods(call):
    assert call(Estimator(True)) == 3
    assert not hasattr(Estimator(False), "predict")
    with pytest.raises(AttributeError, match="reason and remedy"):
        call(Estimator(False))
    assert Estimator.predict.__doc__ == "Docstring."
