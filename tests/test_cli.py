"""The command line: ``python -m sklearn_fsvc``. The demo is in test_demo."""

import re
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_fsvc import RBFClassifier, TanhProjector
from sklearn_fsvc._src import cli, tuning
from sklearn_fsvc._src.cli import main
from sklearn_fsvc._src.engines import ENGINES, profiles
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.tuning import example
from sklearn_fsvc._src.utils.availability import install_command
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.export.c import to_c
from sklearn_fsvc.kernels import Laplacian

X, Y = load_iris(return_X_y=True)


def test_info_lists_every_engine(capsys):
    main(["info"])
    output = capsys.readouterr().out
    for name in ENGINES:
        assert f"\n  {name}" in output
    assert "uint8 by" in output


def test_info_describes_the_settings_of_an_engine(capsys):
    main(["info"])
    assert "settings measured" not in capsys.readouterr().out
    path = profiles.write(get_engine("jit").identity(), {"tanh float32": {"M": 1024}})
    main(["info"])
    assert f"settings measured here for 1 kind of layers, {path}" in capsys.readouterr().out


def test_info_gives_the_reason_for_an_unavailable_engine(capsys, monkeypatch):
    class Unavailable(ENGINES["mkl"]):
        def why_unavailable(self):
            return "missing; pip install it"

    monkeypatch.setitem(ENGINES, "mkl", Unavailable)
    main(["info"])
    assert "mkl     no: missing; pip install it" in capsys.readouterr().out


def test_no_command_prints_the_help(capsys):
    main([])
    output = capsys.readouterr().out
    for line in ["info +Print versions", "demo +Fit an RBF", "tune +Measure", "export +Write"]:
        assert re.search(f"\n    {line}", output), line


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert not end.value.code
    assert re.fullmatch(r"sklearn_fsvc \d+\.\d+.*\n", capsys.readouterr().out)


@pytest.mark.parametrize("command", ["demo", "tune", "export"])
def test_every_option_has_a_help(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    output = capsys.readouterr().out
    options = re.split(r"\n  (?=\S)", output.partition("options:")[2])[1:]
    assert len(options) > 2
    for option in options:
        assert re.search(r"(  |\n) *[a-zA-Z0-9]\w* \w+", option), option


@pytest.mark.usefixtures("idle_machine")
def test_tune_stores_the_settings(capsys):
    kind = "tanh float32"
    main(["tune", "--device", "blas", "--kind", kind, "--features", "4", "6", "--repeats", "1"])
    output = capsys.readouterr().out
    path = profiles.path_of(get_engine("blas").identity())
    assert output.startswith("1 kind of layers, ")
    assert f"stored in {path}" in output
    assert kind in output
    with get_engine("blas") as engine:
        stored, choices = profiles.read(engine.identity()), engine.tunables(example(kind, 1, 1)[1])
    assert list(stored) == [kind]
    assert list(stored[kind]) == list(choices)
    assert all(stored[kind][name] in choices[name] for name in choices)


def test_errors_of_commands_are_one_line():
    with pytest.raises(SystemExit, match="tune: kind='x' is not known"):
        main(["tune", "--device", "jit", "--kind", "x"])
    with pytest.raises(SystemExit, match="tune: device='gpu' is not known"):
        main(["tune", "--device", "gpu"])


@pytest.mark.exhaustive
@pytest.mark.usefixtures("idle_machine")
def test_interrupted_tune_keeps_the_settings_so_far(monkeypatch, capsys):
    kinds, measure = ["tanh float32", "tanh float64"], tuning.Tuner.tune

    def interrupted(tuner, kind, *options):
        if kind == kinds[1]:
            raise KeyboardInterrupt
        return measure(tuner, kind, *options)

    monkeypatch.setattr(tuning.Tuner, "tune", interrupted)
    arguments = [word for kind in kinds for word in ("--kind", kind)]
    path = profiles.path_of(get_engine("jit").identity())
    with pytest.raises(SystemExit, match=f"stopped; .* are stored in {re.escape(str(path))}"):
        main(["tune", "--device", "jit", *arguments, "--features", "4", "--repeats", "1"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("2 kinds of layers, at most 180 seconds")
    assert len(others) == 1
    assert list(profiles.read(get_engine("jit").identity())) == kinds[:1]


def test_devices_share_the_time_of_tune(monkeypatch, capsys):
    given = {}

    def measure(device, kinds, *, max_seconds, **options):
        given[device] = max_seconds
        return {kinds[0]: tuning.Tuned({}, 1.0, 1.0, load=0.5 * (device == "jit"))}

    monkeypatch.setattr(tuning, "tune", measure)
    monkeypatch.setattr(cli, "accelerator", lambda: JitEngine)
    main(["tune", "--max-seconds", "60"])
    assert given == {"cpu": 30, "jit": 30}
    output = capsys.readouterr().out
    assert output.count("kinds of layers, at most 30 seconds") == 2
    assert output.count("stored in") == 1  # not where the machine was busy


class UntrustedKernel(Laplacian):
    """A kernel from outside the package."""


def save(folder, model):
    """Return the path of a skops file of the model."""
    io = pytest.importorskip("skops.io")
    io.dump(model, folder / "model.skops")
    return str(folder / "model.skops")


@pytest.fixture(scope="module")
def model():
    model = RBFClassifier(
        10, kernel="triangular", feature_weights=[1.0, 0.5, 2.0, 1.0], alpha=1.0, random_state=0,
        device="cpu",
    )  # fmt: skip
    return model.fit(X.astype(np.float32), Y)


def test_export_of_a_saved_model(tmp_path, capsys, model):
    header = tmp_path / "iris-10.h"
    main(["export", save(tmp_path, model), "--c", str(header)])
    assert header.read_text() == to_c(model, "iris_10")
    # Units, coefficients, intercepts, classes, feature weights; and of a triangle the classes of
    # the centres and the scores of the classes.
    size = 10 * 4 * 4 + 10 * 3 * 4 + 3 * 4 + 3 * 4 + 4 * 4 + 10 + 3 * 3 * 4
    assert capsys.readouterr().out == f"{header}: {size} bytes of constants; call iris_10_predict\n"


def test_export_with_a_name(tmp_path, capsys, model):
    header = tmp_path / "10.h"
    with pytest.raises(SystemExit, match="export: name='10' is not a C identifier"):
        main(["export", save(tmp_path, model), "--c", str(header)])
    main(["export", save(tmp_path, model), "--c", str(header), "--name", "iris"])
    assert header.read_text() == to_c(model, "iris")


def assert_export_fails(message, path, header):
    with pytest.raises(SystemExit, match=message):
        main(["export", path, "--c", str(header)])


def test_export_of_unusable_files(tmp_path, model):
    header = tmp_path / "m.h"
    assert_export_fails("export: there is no file .*no.skops", str(tmp_path / "no.skops"), header)
    path = save(tmp_path, model)
    assert_export_fails("No such file or directory", path, tmp_path / "no" / "m.h")
    (tmp_path / "text").write_text("text")
    message = "text is not a skops file .*skops.io.dump"
    assert_export_fails(message, str(tmp_path / "text"), header)


def test_export_of_unsupported_models(tmp_path):
    header = tmp_path / "m.h"
    projector = save(tmp_path, TanhProjector(5).fit(X))
    assert_export_fails("TanhProjector.* cannot be exported", projector, header)
    untrusted = RBFClassifier(
        10, kernel=UntrustedKernel(), radius=1.0, feature_weights=None, alpha=1.0
    )
    untrusted.fit(X, Y)
    message = "contains types from outside this package: .*UntrustedKernel.*to_c"
    assert_export_fails(message, save(tmp_path, untrusted), header)


def test_export_without_skops(tmp_path, monkeypatch, model):
    path, header = save(tmp_path, model), tmp_path / "m.h"
    monkeypatch.setitem(sys.modules, "skops", None)
    assert_export_fails(re.escape(install_command("skops")), path, header)
    assert_export_fails("export: there is no file .*no.skops", str(tmp_path / "no.skops"), header)
