"""Whether the build of a wheel compiles the CUDA kernels, and what it needs then."""

from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest

from sklearn_fsvc._src.engines.kernels.cuda import build

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[1]
SPEC = util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
hook = util.module_from_spec(SPEC)
SPEC.loader.exec_module(hook)

COMPILER, RUNTIME = "numba-cuda-mlir[cu13]>=0.6", "numpy>=1.26"


@pytest.fixture
def make_hook(monkeypatch):
    """Return a function that makes the hook for a value of the variable, and a driver or none."""

    def make(choice, has_driver=False):
        if choice is None:
            monkeypatch.delenv(hook.VARIABLE, raising=False)
        else:
            monkeypatch.setenv(hook.VARIABLE, choice)
        monkeypatch.setattr(hook, "has_driver", lambda: has_driver)
        core = SimpleNamespace(
            dependencies=[RUNTIME], optional_dependencies={"cuda-kernels": [COMPILER]}
        )
        metadata = SimpleNamespace(core=core)
        return hook.KernelHook(str(ROOT), {}, None, metadata, "", "wheel")

    return make


@pytest.mark.parametrize(
    ("choice", "has_driver", "is_compiled"),
    [
        (None, False, False), (None, True, True), ("", False, False), ("", True, True),
        ("0", True, False), ("1", False, True),
    ],
)  # fmt: skip
def test_kernels_are_compiled_with_a_driver_or_on_request(
    make_hook, choice, has_driver, is_compiled
):
    requirements = make_hook(choice, has_driver).dependencies()
    assert requirements == ([COMPILER, RUNTIME] if is_compiled else [])


def test_other_values_are_an_error(make_hook):
    with pytest.raises(ValueError, match="BUILD_KERNELS is 'yes'; it may be 0, 1 or not set"):
        make_hook("yes").dependencies()


def test_a_wheel_without_kernels_runs_no_compiler(make_hook):
    build_data = {"artifacts": []}
    make_hook("0", has_driver=True).initialize("standard", build_data)
    assert build_data == {"artifacts": []}


def test_the_hook_adds_what_the_build_writes():
    assert build.__name__ == hook.BUILD
    assert build.default_archive().as_posix().endswith(hook.ARCHIVE)
