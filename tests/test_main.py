import gzip
import re
import struct

import numpy as np
import pytest

from sklearn_fsvc.__main__ import _what_tune_takes, main
from sklearn_fsvc._src import demo, tuning
from sklearn_fsvc._src.engines import ENGINES, profiles
from sklearn_fsvc.engines import get_engine


def test_info(capsys):
    main(["info"])
    text = capsys.readouterr().out
    for name in ENGINES:
        assert f"\n  {name}" in text
    assert "uint8 by" in text


def test_info_says_which_settings_are_used(capsys):
    main(["info"])
    assert "settings measured" not in capsys.readouterr().out
    path = profiles.write(get_engine("jit").identity(), {"tanh float32": {"M": 1024}})
    main(["info"])
    assert f"settings measured here for 1 kinds of layers, {path}" in capsys.readouterr().out


def test_without_a_command_all_are_listed(capsys):
    main([])
    said = capsys.readouterr().out
    for line in ["info +Print versions", "demo +Fit both", "tune +Measure", "export +Write"]:
        assert re.search(f"\n    {line}", said), line


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert not end.value.code
    assert re.fullmatch(r"sklearn_fsvc \d+\.\d+.*\n", capsys.readouterr().out)


def test_tune(capsys):
    kind = "tanh float32"
    main(["tune", "--device", "jit", "--kind", kind, "--features", "4", "6", "--repeats", "1"])
    said = capsys.readouterr().out
    path = profiles.path_of(get_engine("jit").identity())
    assert f"kept in {path}" in said
    assert kind in said
    assert list(profiles.read(get_engine("jit").identity())) == [kind]


def test_what_cannot_be_done_is_said_in_a_line():
    with pytest.raises(SystemExit, match="tune: kind='x' is not known"):
        main(["tune", "--device", "jit", "--kind", "x"])
    with pytest.raises(SystemExit, match="tune: device='gpu' is not known"):
        main(["tune", "--device", "gpu"])


def test_info_says_why_an_engine_does_not_work(capsys, monkeypatch):
    monkeypatch.setattr(ENGINES["mkl"], "why_unavailable", lambda self: "missing; pip install it")
    main(["info"])
    assert "mkl     no: missing; pip install it" in capsys.readouterr().out


def write_idx(path, array):
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    data = header + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def mnist_folder(tmp_path, rng):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, n, end in (("train", 60, ""), ("t10k", 20, ".gz")):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = rng.integers(0, 50, (n, 5, 4)).astype(np.uint8) + labels[:, None, None] * 20
        write_idx(folder / f"{name}-images-idx3-ubyte{end}", images.astype(np.uint8))
        write_idx(folder / f"{name}-labels-idx1-ubyte{end}", labels)
    return tmp_path


def test_idx_files(mnist_folder):
    X, _, X_test, y_test, shape = demo.load_images(mnist_folder)
    assert (X.shape, X_test.shape, shape) == ((60, 20), (20, 20), (5, 4))
    assert X.dtype == np.uint8
    np.testing.assert_array_equal(y_test, np.arange(20) % 10)
    assert (X[9] >= 180).all()
    assert (X[0] < 50).all()


def test_not_an_idx_file(tmp_path):
    (tmp_path / "x").write_bytes(b"\x89PNG....")
    with pytest.raises(ValueError, match="x is not an IDX file"):
        demo.read_idx(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="no train-images-idx3-ubyte"):
        demo.load_images(tmp_path)


def test_demo_on_files(mnist_folder, tmp_path, capsys):
    picture = tmp_path / "out.png"
    main(["demo", "--data", str(mnist_folder), "--n-hidden", "30", "--output", str(picture)])
    assert picture.stat().st_size > 5000
    assert "60 training and 20 test images of 5 x 4 pixels" in capsys.readouterr().out


def test_demo_on_bundled_digits(tmp_path, monkeypatch, capsys):
    """As the README has it."""
    monkeypatch.chdir(tmp_path)
    main(["demo"])
    said = capsys.readouterr().out
    assert (tmp_path / "digits.png").stat().st_size > 5000
    accuracies = [float(w[:-1]) for w in said.split() if w.endswith("%")]
    assert len(accuracies) == 2
    assert min(accuracies) > 98
    assert "ps" in said
    rows = [line.split() for line in said.splitlines() if "%" in line]
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
        (["--n-hidden", "5000000"], "n_hidden=5000000 is more than the 1347 .*give 1347 at most"),
        (["--n-hidden", "0"], "n_hidden=0 must be at least 1"),
        (["--device", "gpu"], "device='gpu' is not known"),
    ],
)
def test_demo_refuses_before_it_computes(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "RBFClassifier", None)
    with pytest.raises(SystemExit, match=f"^demo: {message}"):
        main(["demo", *arguments])
    assert not list(tmp_path.iterdir())


def test_demo_asks_for_memory_before_it_computes(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "RBFClassifier", None)
    monkeypatch.setattr(ENGINES["jit"], "memory", lambda self: (2**20, 2**20))
    with pytest.raises(SystemExit, match=r"n_hidden=1000 needs .*use fewer hidden units"):
        main(["demo", "--device", "jit", "--n-hidden", "1000"])


def test_demo_without_matplotlib(monkeypatch, mnist_folder, tmp_path, capsys):
    """It says so first, and does its work; a picture that was asked for is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    arguments = ["demo", "--data", str(mnist_folder), "--n-hidden", "30"]
    main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert "pip install matplotlib" in lines[1]
    assert sum("%" in line for line in lines) == 2
    assert not (tmp_path / "digits.png").exists()
    with pytest.raises(SystemExit, match=r"a\.png: a picture needs matplotlib"):
        main([*arguments, "--output", "a.png"])


def test_tune_says_how_long_it_takes_and_keeps_what_it_has(monkeypatch, capsys):
    kinds, measure = ["tanh float32", "tanh float64"], tuning.Tuner.tune

    def stopped(tuner, kind):
        if kind == kinds[1]:
            raise KeyboardInterrupt
        return measure(tuner, kind)

    monkeypatch.setattr(tuning.Tuner, "tune", stopped)
    arguments = [word for kind in kinds for word in ("--kind", kind)]
    path = profiles.path_of(get_engine("jit").identity())
    with pytest.raises(SystemExit, match=f"stopped; .* are kept in {re.escape(str(path))}"):
        main(["tune", "--device", "jit", *arguments, "--features", "4", "--repeats", "1"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("2 kinds of layers, about a minute")
    assert len(others) == 1
    assert list(profiles.read(get_engine("jit").identity())) == kinds[:1]
    assert "9 minutes" in _what_tune_takes(30, 5)


@pytest.mark.parametrize("command", ["demo", "tune", "export"])
def test_all_options_are_described(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    options = re.split(r"\n  (?=\S)", said.partition("options:")[2])[1:]
    assert len(options) > 2
    for option in options:
        assert re.search(r"(  |\n) *[a-zA-Z0-9]\w* \w+", option), option
