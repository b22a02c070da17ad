"""The compiled kernels that travel with the package are those of its sources."""

import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from sklearn_fsvc._src.engines.cuda import launch
from sklearn_fsvc._src.engines.kernels import ptx
from sklearn_fsvc._src.engines.kernels.cuda import build, manhattan
from sklearn_fsvc._src.engines.kernels.deferred import Kernel
from sklearn_fsvc._src.utils.availability import install

KERNELS = list(build.kernels())
REMEDY = "python -m sklearn_fsvc._src.engines.kernels.cuda.build writes it"


@pytest.fixture
def no_compiler(monkeypatch):
    def version(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(ptx, "version", version)
    monkeypatch.setitem(sys.modules, "numba_cuda_mlir", None)


@pytest.mark.parametrize(("kernel", "types"), KERNELS, ids=[kernel.name for kernel, _ in KERNELS])
def test_it_is_of_the_sources(kernel, types):
    program = ptx.carried(kernel, types)
    assert program is not None, f"{ptx.file_name(kernel)} is not of these sources; {REMEDY}"
    assert f".visible .entry {ptx.ENTRY}(" in program
    assert ".version 6.3\n.target sm_75\n" in program


def test_each_has_a_file_and_no_file_is_left_over():
    names = [ptx.file_name(kernel) for kernel, _ in KERNELS]
    assert len(set(names)) == len(names)
    assert {path.name for path in ptx.folder().iterdir()} == set(names)
    assert max(map(len, names)) < 50  # paths of Windows are short


def test_it_is_used_without_a_compiler(no_compiler):
    for kernel, types in KERNELS:
        assert launch.program_of(kernel, types) == ptx.carried(kernel, types)


def other_text(monkeypatch):
    digest = ptx._digest
    monkeypatch.setattr(ptx, "_digest", lambda module: digest(module)[::-1])


def test_changed_sources_are_compiled(monkeypatch):
    """In a checkout, whoever changes a kernel runs it."""
    kernel, types = KERNELS[0]
    other_text(monkeypatch)
    monkeypatch.setattr(ptx, "compiler", lambda: "some compiler")
    monkeypatch.setattr(ptx, "compile_kernel", lambda *made_from: made_from)
    assert launch.program_of(kernel, types) == (kernel, types)


def test_changed_sources_without_a_compiler_are_refused(monkeypatch, no_compiler):
    kernel, types = KERNELS[0]
    other_text(monkeypatch)
    with pytest.raises(
        ptx.NoCompiler, match=r"manhattan float32 .* or its source was changed"
    ) as e:
        launch.program_of(kernel, types)
    assert install("cuda-kernels") in str(e.value)


def test_a_kernel_of_somebody_else_without_a_compiler_is_refused(no_compiler):
    def twice(dtype):
        raise AssertionError

    kernel = Kernel(twice, (np.dtype(np.float32),))
    twice.__module__ = manhattan.__name__
    with pytest.raises(ptx.NoCompiler, match="'twice float32' for <f4"):
        launch.program_of(kernel, ("<f4",))


def test_other_types_are_another_program(no_compiler):
    kernel, types = KERNELS[0]
    strided = (types[0].replace("C", "A"), *types[1:])
    with pytest.raises(ptx.NoCompiler, match=r"<f4\[2A\]"):
        launch.program_of(kernel, strided)


def test_without_source_text_it_is_trusted(monkeypatch, no_compiler):
    """A frozen application has the compiled modules alone."""
    monkeypatch.setattr(ptx, "_digest", lambda module: None)
    kernel, types = KERNELS[0]
    assert launch.program_of(kernel, types)


def test_a_line_before_a_program_is_a_comment():
    text = ptx.render({"a": 1}, ".version 6.3\n")
    assert text.startswith("// ")
    assert ptx.parse(text) == ({"a": 1}, ".version 6.3\n")
