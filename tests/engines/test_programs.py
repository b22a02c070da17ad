"""Compiled kernels on disk: found again, refused where they are not what was written."""

import subprocess
import sys

import numpy as np
import pytest

from sklearn_fsvc._src.engines import profiles
from sklearn_fsvc._src.engines.cuda import programs
from sklearn_fsvc._src.engines.kernels.cuda import manhattan, novelty

IDENTITY = {"device": "some GPU", "kernel": "settle()", "package": "1.0"}
PROGRAM = ".version 6.3\n and \n more\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(profiles.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path():
    path = programs._path_of(IDENTITY)
    programs._write(path, IDENTITY, PROGRAM)
    return path


def test_a_program_is_found_again(path, folder):
    assert path.parent == folder / "sklearn_fsvc_kernels"
    assert programs._read(path, IDENTITY) == PROGRAM
    assert list(path.parent.iterdir()) == [path]  # and nothing that was begun


def test_nothing_is_there(folder):
    assert programs._read(folder / "sklearn_fsvc_kernels" / "none.ptx", IDENTITY) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole[:-1],
        lambda whole: whole[:20],
        lambda whole: b"",
        lambda whole: b"\xff\xfe\n" + whole,
        lambda whole: b"// []\n" + PROGRAM.encode(),
        lambda whole: whole.replace(b'"format": 2', b'"format": 3'),
        lambda whole: whole.replace(b"some GPU", b"other GPU"),
        lambda whole: whole.replace(b"more", b"less"),
    ],
)
def test_what_was_not_written_is_ignored_and_said(path, change):
    path.write_bytes(change(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=rf"{path.name} is ignored"):
        assert programs._read(path, IDENTITY) is None


def test_what_it_depends_on_has_a_file_each():
    others = [IDENTITY | {name: "other"} for name in IDENTITY]
    assert len({programs._path_of(identity) for identity in [IDENTITY, *others]}) == 4


def test_a_folder_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file")
    programs._write(programs._path_of(IDENTITY), IDENTITY, PROGRAM)
    assert programs._read(programs._path_of(IDENTITY), IDENTITY) is None


def test_the_folder_is_that_of_cupy_where_no_other_is_known(monkeypatch, tmp_path):
    monkeypatch.delenv(profiles.FOLDER)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    assert programs.folder() == tmp_path / "sklearn_fsvc_kernels"
    monkeypatch.delenv("CUPY_CACHE_DIR")
    assert ".cupy" in programs.folder().parts


def test_kernels_are_told_apart_by_what_makes_them():
    tiles = manhattan.TILES[np.dtype(np.float32)]
    made = [manhattan.manhattan(np.dtype(np.float32), tile) for tile in tiles]
    made += [manhattan.pack(np.dtype(np.float32)), manhattan.pack(np.dtype(np.uint32))]
    made += [novelty.settle()]
    assert len({(kernel.module, kernel.name) for kernel in made}) == len(made)
    assert manhattan.manhattan(np.dtype(np.float32), tiles[0]) is made[0]
    assert not any("0x" in kernel.name for kernel in made)  # an address is another next time


def test_types_are_those_of_the_arguments():
    assert programs.typed((3, True, np.float32(1), np.int32(1)))[1] == ("<i8", "<i4", "<f4", "<i4")
    X = np.zeros((4, 6), np.float32)
    assert programs._type_of(X) == "<f4[2C]" != programs._type_of(X[:, ::2])


FIT = """
import sys
import numpy as np
from sklearn_fsvc import RBFClassifier
X = np.random.default_rng(0).random((300, 5))
y = np.arange(300) % 3
for kernel in ("triangular", "gaussian", "laplacian"):
    for metric in ("manhattan", "euclidean"):
        model = RBFClassifier(40, kernel=kernel, metric=metric, device="cuda", random_state=0)
        model.fit(X, y)
print(model.decision_function(X).sum(), "numba_cuda_mlir" in sys.modules)
"""


def test_no_process_needs_the_compiler(engine, folder):
    """Not the first one either: the kernels came compiled, and nothing of ours is kept."""
    if engine.xp is np:
        pytest.skip("kernels of a GPU")
    run = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1] == "False"
    assert not (folder / "sklearn_fsvc_kernels").exists()
