"""The machine code that travels with the package is that of its PTX, for the GPUs it names."""

import struct
from zipfile import ZipFile

import numpy as np
import pytest

from sklearn_fsvc._src.engines.kernels import cubins, ptx
from sklearn_fsvc._src.engines.kernels.cuda import build

REMEDY = "python -m sklearn_fsvc._src.engines.kernels.cuda.build writes it"
# What an ELF file says of the machine that it is for, and where: of NVIDIA's GPUs this number.
_MACHINE, _FLAGS, _GPU = 18, 48, 190


@pytest.fixture(scope="module")
def programs():
    return [ptx.carried(*each) for each in build.kernels()]


def entries(chip):
    with (
        (cubins.folder() / cubins.archive_name(chip)).open("rb") as file,
        ZipFile(file) as archive,
    ):
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("chip", cubins.CHIPS)
def test_each_program_is_there_and_nothing_is_left_over(programs, chip):
    missing = {cubins.digest(program) for program in programs} ^ entries(chip).keys()
    assert not missing, f"{cubins.archive_name(chip)} is of other programs; {REMEDY}"


@pytest.mark.parametrize("chip", cubins.CHIPS)
def test_it_is_for_the_chip(chip):
    for code in entries(chip).values():
        assert code.startswith(b"\x7fELF")
        assert struct.unpack_from("<H", code, _MACHINE) == (_GPU,)
        (flags,) = struct.unpack_from("<I", code, _FLAGS)
        assert divmod(flags >> 8 & 0xFF, 10) == chip
        assert f".text.{ptx.ENTRY}".encode() in code


@pytest.mark.parametrize(
    ("capability", "chip"),
    [
        ((8, 0), (8, 0)), ((8, 6), (8, 0)), ((8, 9), (8, 0)), ((9, 0), (9, 0)),
        ((10, 3), (10, 0)), ((12, 1), (12, 0)), ((7, 5), None), ((11, 0), None), ((13, 0), None),
    ],
)  # fmt: skip
def test_it_runs_on_later_gpus_of_its_generation(programs, capability, chip):
    code = cubins.carried(programs[0], capability, cubins.DRIVER)
    assert code == (chip and entries(chip)[cubins.digest(programs[0])])


def test_older_drivers_have_ptx(programs):
    assert cubins.carried(programs[0], (9, 0), 12_090) is None


def test_a_program_that_was_changed_has_none(programs):
    assert cubins.carried(programs[0] + " ", (9, 0), cubins.DRIVER) is None


def test_a_package_without_archives_has_none(programs, monkeypatch, tmp_path):
    monkeypatch.setattr(cubins, "folder", lambda: tmp_path)
    assert cubins.carried(programs[0], (9, 0), cubins.DRIVER) is None


def test_only_what_is_new_is_assembled(monkeypatch, tmp_path):
    monkeypatch.setattr(cubins, "folder", lambda: tmp_path)
    assembled = []

    def assemble(program, chip, assembler):
        assembled.append(program)
        return program.upper().encode()

    monkeypatch.setattr(cubins, "assemble", assemble)
    for programs in (["a", "b"], ["b", "c"], ["c", "b"]):
        cubins.write(programs, (9, 0), "ptxas")
    assert sorted(assembled) == ["a", "b", "c"]
    assert cubins.carried("b", (9, 0), cubins.DRIVER) == b"B"
    assert cubins.carried("a", (9, 0), cubins.DRIVER) is None


def test_an_archive_is_the_same_whenever_it_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(cubins, "folder", lambda: tmp_path)
    monkeypatch.setattr(cubins, "assemble", lambda program, chip, assembler: b"code" * 99)
    path, written = tmp_path / cubins.archive_name((9, 0)), []
    for programs in (["a", "b"], ["b", "a"]):
        path.unlink(missing_ok=True)
        cubins.write(programs, (9, 0), "ptxas")
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_this_gpu_loads_it(engine, programs):
    if engine.xp is np:
        pytest.skip("kernels of a GPU")
    from cupy.cuda import Device, function, runtime

    capability = tuple(divmod(int(Device().compute_capability), 10))
    driver = runtime.driverGetVersion()
    is_for = driver >= cubins.DRIVER and capability[0] in {major for major, _ in cubins.CHIPS}
    for program in programs:
        code = cubins.carried(program, capability, driver)
        assert (code is not None) == is_for
        if is_for:
            module = function.Module()
            module.load(code)
            assert module.get_function(ptx.ENTRY)
