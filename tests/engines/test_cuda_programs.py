"""Compiled programs: which one a GPU loads from an archive, and what happens without one."""

import sys
from zipfile import ZipFile

import numpy as np
import pytest

from sklearn_fsvc._src.engines.cuda import CudaEngine
from sklearn_fsvc._src.engines.kernels.cuda import build, compiler, manhattan, programs
from sklearn_fsvc._src.engines.kernels.cuda.kernel import CudaKernel
from sklearn_fsvc._src.utils.availability import install_command

KERNEL, TYPES = build.all_kernels()[0]
HOPPER, DRIVER = (9, 0), programs.OLDEST_DRIVER


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, compiler.COMPILER, None)


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    """A file where the cache folder should be."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKLEARN_FSVC_CACHE", str(tmp_path / "file"))


@pytest.fixture
def small_archive(tmp_path):
    """An archive of one kernel, whose programs are the names of their targets."""
    content = {programs.entry_name(name, KERNEL, TYPES): name.encode() for name in programs.TARGETS}
    programs.write(tmp_path / "kernels.zip", content)
    return tmp_path / "kernels.zip"


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((8, 0), "sm_80"), ((8, 6), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90"),
        ((10, 3), "sm_100"), ((12, 1), "sm_120"), ((7, 5), "ptx"), ((11, 0), "ptx"),
        ((13, 0), "ptx"),
    ],
)  # fmt: skip
def test_machine_code_for_a_generation_else_ptx(small_archive, capability, target):
    program = programs.load(KERNEL, TYPES, capability, DRIVER, small_archive)
    assert program == target.encode()


def test_older_drivers_load_ptx(small_archive):
    assert programs.load(KERNEL, TYPES, HOPPER, DRIVER - 10, small_archive) == b"ptx"


def test_other_types_need_another_program(small_archive, no_compiler):
    strided = (TYPES[0].replace("C", "A"), *TYPES[1:])
    with pytest.raises(compiler.CompilerMissing):
        programs.load(KERNEL, strided, HOPPER, DRIVER, small_archive)


def test_an_archive_of_other_sources_is_ignored(small_archive, no_compiler):
    with ZipFile(small_archive, "a") as content:
        content.comment = b"another digest"
    with pytest.raises(compiler.CompilerMissing):
        programs.load(KERNEL, TYPES, HOPPER, DRIVER, small_archive)


def test_an_archive_is_used_where_only_bytecode_is_installed(small_archive, monkeypatch):
    monkeypatch.setattr(programs, "source_digest", lambda: None)
    assert programs.load(KERNEL, TYPES, HOPPER, DRIVER, small_archive) == b"sm_90"


def test_archives_are_reproducible(tmp_path):
    content = {"a": b"1" * 99, "b": b"2"}
    for name, items in (("first", content.items()), ("second", reversed(content.items()))):
        programs.write(tmp_path / name, dict(items))
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_error_without_archive_and_compiler_names_both_remedies(tmp_path, no_compiler):
    with pytest.raises(compiler.CompilerMissing, match="is not compiled: install") as e:
        programs.load(KERNEL, TYPES, HOPPER, DRIVER, tmp_path / "kernels.zip")
    assert install_command("cuda-kernels") in str(e.value)
    assert "SKLEARN_FSVC_BUILD_KERNELS=1" in str(e.value)


def counting(calls):
    return lambda kernel, types: calls.append(kernel.name) or f"ptx of {kernel.name} {types[0]}"


def test_compiled_kernels_are_kept_for_the_next_process():
    calls, strided = [], (TYPES[0].replace("C", "A"), *TYPES[1:])
    results = [
        programs.compile_cached(KERNEL, types, counting(calls))
        for types in (TYPES, TYPES, strided, strided)
    ]
    assert len(calls) == 2
    assert results[0] == results[1] != results[2] == results[3]


def test_kernels_are_compiled_where_nothing_can_be_written(no_cache):
    calls = []
    for _ in range(2):
        program = programs.compile_cached(KERNEL, TYPES, counting(calls))
        assert program.decode() == f"ptx of {KERNEL.name} {TYPES[0]}"
    assert len(calls) == 2


def test_kernels_of_other_packages_are_not_kept():
    """Their sources may change without ours."""

    def twice(dtype):
        raise AssertionError

    kernel, calls = CudaKernel(twice, (np.dtype(np.float32),)), []
    for _ in range(2):
        programs.compile_cached(kernel, ("<f4",), counting(calls))
    assert calls == ["twice float32"] * 2


def test_every_kernel_has_an_entry_of_its_own():
    names = [programs.entry_name(programs.PTX, *each) for each in build.all_kernels()]
    assert len(set(names)) == len(names)
    items = {kernel.arguments[0] for kernel, _ in build.all_kernels() if "manhattan" in kernel.name}
    assert items == set(manhattan.TILES)


def test_this_gpu_loads_all_programs_of_the_archive(engine, archive):
    if not isinstance(engine, CudaEngine):
        pytest.skip("kernels of a GPU")
    from cupy.cuda import Device, function, runtime

    capability = divmod(int(Device().compute_capability), 10)
    for kernel, types in build.all_kernels():
        for driver in (runtime.driverGetVersion(), 0):  # machine code if suitable, and PTX
            module = function.Module()
            module.load(programs.load(kernel, types, capability, driver))
            assert module.get_function(compiler.ENTRY_POINT)
