"""The demo, on the bundled digits and on files of MNIST's format."""

import gzip
import os
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sklearn_fsvc
from sklearn_fsvc._src import demo
from sklearn_fsvc._src.cli import main
from sklearn_fsvc._src.engines import ENGINES

# A user without name and home. Permissions apply to it even if root runs the tests.
OTHER_USER = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]


def write_idx(path, array):
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    data = header + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def mnist_folder(tmp_path, rng):
    """60 training and 20 test images, with a brightness that depends on the class."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, n, end in (("train", 60, ""), ("t10k", 20, ".gz")):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = rng.integers(0, 50, (n, 5, 4)).astype(np.uint8) + labels[:, None, None] * 20
        write_idx(folder / f"{name}-images-idx3-ubyte{end}", images.astype(np.uint8))
        write_idx(folder / f"{name}-labels-idx1-ubyte{end}", labels)
    return tmp_path


def test_images_are_read_from_idx_files(mnist_folder):
    X, _, X_test, y_test, shape = demo.load_images(mnist_folder)
    assert (X.shape, X_test.shape, shape) == ((60, 20), (20, 20), (5, 4))
    assert X.dtype == np.uint8
    np.testing.assert_array_equal(y_test, np.arange(20) % 10)
    assert (X[9] >= 180).all()
    assert (X[0] < 50).all()


def test_errors_of_idx_files(tmp_path):
    (tmp_path / "x").write_bytes(b"\x89PNG....")
    with pytest.raises(ValueError, match="x is not an IDX file"):
        demo.read_idx(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="no train-images-idx3-ubyte"):
        demo.load_images(tmp_path)


def test_demo_on_files(mnist_folder, tmp_path, capsys):
    figure = tmp_path / "out.png"
    main(["demo", "--data", str(mnist_folder), "--n-hidden", "30", "--output", str(figure)])
    assert figure.stat().st_size > 5000
    assert "60 training and 20 test images of 5 x 4 pixels" in capsys.readouterr().out


@pytest.mark.exhaustive  # the first stage of .ci/run is this command
def test_demo_on_bundled_digits(tmp_path, monkeypatch, capsys):
    """As in the README."""
    monkeypatch.chdir(tmp_path)
    main(["demo"])
    output = capsys.readouterr().out
    assert (tmp_path / "digits.png").stat().st_size > 5000
    accuracies = [float(word[:-1]) for word in output.split() if word.endswith("%")]
    assert len(accuracies) == 2
    assert min(accuracies) > 98
    assert "ps" in output
    rows = [line.split() for line in output.splitlines() if "%" in line]
    for _, units, _, _, seconds, rate, t_syn, _ in rows:
        rate = float(rate.replace(",", ""))
        assert 450 / rate == pytest.approx(float(seconds[:-1]), abs=6e-4)  # of three digits
        assert float(t_syn) == pytest.approx(1e12 / (rate * int(units) * 64), rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "no/a.png"], r"--output no.a\.png: there is no folder no\."),
        (["--output", "a.xyz"], r"--output a\.xyz: its name must end in one of .*png"),
        (["--data", "no"], r"there is no folder no\."),
        (["--data", "."], "no train-images-idx3-ubyte"),
        (["--n-hidden", "5000000"], "n_hidden=5000000 is more than the 1347 .*pass 1347 at most"),
        (["--n-hidden", "0"], "n_hidden=0 must be at least 1"),
        (["--device", "gpu"], "device='gpu' is not known"),
    ],
)
def test_invalid_arguments_fail_before_anything_is_computed(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"^demo: {message}"):
        main(["demo", *arguments])
    assert not capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_too_little_memory_fails_before_anything_is_computed(monkeypatch, tmp_path, capsys):
    class SmallEngine(ENGINES["jit"]):
        def memory(self):
            return 2**20, 2**20

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENGINES, "jit", SmallEngine)
    with pytest.raises(SystemExit, match=r"n_hidden=1000 needs .*use fewer hidden units"):
        main(["demo", "--device", "jit", "--n-hidden", "1000"])
    assert not capsys.readouterr().out


def test_demo_without_matplotlib(monkeypatch, mnist_folder, tmp_path, capsys):
    """It prints a notice and the results; it fails only if a figure was requested."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["demo", "--data", str(mnist_folder), "--n-hidden", "30"]
    main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert "pip install matplotlib" in lines[1]
    assert sum("%" in line for line in lines) == 2
    assert not (tmp_path / "digits.png").exists()
    with pytest.raises(SystemExit, match=r"a\.png: a figure needs matplotlib"):
        main([*arguments, "--output", "a.png"])


@pytest.fixture
def read_only_site(tmp_path):
    """A folder with a copy of the package, without write permissions."""
    site = tmp_path / "site"
    package = Path(sklearn_fsvc.__file__).parent
    shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [site, *site.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    yield site
    for path in paths:  # or pytest could not delete them
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def run_as_other_user(site, *arguments):
    """Run Python as another user, without the environment of the user of the tests."""
    return subprocess.run(
        [*OTHER_USER, sys.executable, *arguments], cwd=site, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)},
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, of util-linux")
def test_demo_in_a_container(read_only_site):
    """As a user without a home, with a package that it may not write."""
    probe = "import os; print(os.path.expanduser('~')); open('new', 'w')"
    probed = run_as_other_user(read_only_site, "-c", probe)
    if not probed.stdout:
        pytest.skip(f"cannot change the user here: {probed.stderr}")
    assert probed.stdout == "~\n"
    assert "PermissionError" in probed.stderr
    figure = read_only_site.parent / "digits.png"
    process = run_as_other_user(read_only_site, "-m", "sklearn_fsvc", "demo", "--output", figure)
    assert process.returncode == 0, process.stderr
    assert figure.stat().st_size > 5000
    assert process.stderr.count("cannot be kept on disk") == 1, process.stderr
    assert "Set NUMBA_CACHE_DIR" in process.stderr
