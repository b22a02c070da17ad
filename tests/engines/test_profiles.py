import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits

from sklearn_fsvc import RBFClassifier, RBFProjector, TanhClassifier, TanhProjector
from sklearn_fsvc.engines import get_engine, profiles
from sklearn_fsvc.engines.host import allowed_threads
from sklearn_fsvc.engines.jit import JitEngine
from sklearn_fsvc.tuning import KINDS, example

IDENTITY = {
    "engine": "jit", "device": "Some(R) CPU @ 2.0 GHz", "cores": "4", "compiler": "numba 1",
    "package": "0.1",
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("few_cores")

KIND = "manhattan triangular float32"
SETTINGS = {KIND: {"M": 1024, "block": (4, 4)}, "tanh float64": {"statistics": "float32"}}
FILE = {"format": profiles.FORMAT, "identity": IDENTITY, "settings": SETTINGS}


def put(content, identity=IDENTITY):
    """A file as it may be found: an object as JSON, else text or bytes."""
    path = profiles.path_of(identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def why_ignored(identity=IDENTITY):
    """What the only warning says, which names the file and the remedy."""
    with pytest.warns(RuntimeWarning) as caught:
        assert profiles.read(identity) == {}
    (warning,) = caught
    text = str(warning.message)
    assert str(profiles.path_of(identity)) in text
    assert f"python -m sklearn_fsvc tune --device {identity['engine']}`" in text
    return text


def test_what_was_written_is_read():
    path = profiles.write(IDENTITY, SETTINGS)
    assert path == profiles.path_of(IDENTITY)
    assert path.exists()
    assert profiles.read(IDENTITY) == SETTINGS


def test_another_kind_is_added_and_the_same_is_replaced():
    profiles.write(IDENTITY, SETTINGS)
    profiles.write(IDENTITY, {KIND: {"M": 4096}, "tanh float32": {"M": 512}})
    expected = {**SETTINGS, KIND: {"M": 4096}, "tanh float32": {"M": 512}}
    assert profiles.read(IDENTITY) == expected


def test_two_writes_in_one_tick_of_the_file_system():
    path = profiles.write(IDENTITY, {"a": {"M": 1}})
    written = path.stat().st_mtime_ns
    profiles.write(IDENTITY, {"b": {"M": 2}})
    os.utime(path, ns=(written, written))
    assert profiles.read(IDENTITY) == {"a": {"M": 1}, "b": {"M": 2}}


def test_no_file_is_no_settings():
    assert profiles.read(IDENTITY) == {}


def test_a_file_is_replaced_by_a_whole_one(monkeypatch):
    path, replace, seen = profiles.write(IDENTITY, {"a": {"M": 1}}), Path.replace, []

    def look(new, target):
        seen.extend(json.loads(p.read_text())["settings"] for p in (new, target))
        return replace(new, target)

    monkeypatch.setattr(Path, "replace", look)
    profiles.write(IDENTITY, {"b": {"M": 2}})
    assert seen == [{"a": {"M": 1}, "b": {"M": 2}}, {"a": {"M": 1}}]
    assert list(path.parent.iterdir()) == [path]


def half_a_text(path, text, *args, real=Path.write_text, **options):
    real(path, text[: len(text) // 2], *args, **options)
    raise OSError("the disk is full")


def no_replacement(path, target):
    raise OSError("the disk is gone")


BROKEN = [("write_text", half_a_text), ("replace", no_replacement)]


@pytest.fixture(params=BROKEN, ids=lambda method: method[0])
def broken_write(request, monkeypatch):
    """A profile of which no second version could be written."""
    path = profiles.write(IDENTITY, SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(Path, *request.param)
        with pytest.raises(RuntimeError, match="the disk is") as error:
            profiles.write(IDENTITY, {KIND: {"M": 1}})
    return path, str(error.value)


def test_a_write_that_fails_leaves_the_old_profile(broken_write):
    path, message = broken_write
    assert f"{path} cannot be written" in message
    assert profiles.FOLDER in message
    assert profiles.read(IDENTITY) == SETTINGS


def test_a_write_that_fails_leaves_no_other_file(broken_write):
    path, _ = broken_write
    assert list(path.parent.iterdir()) == [path]


CORRUPT = {
    "empty": "",
    "truncated": json.dumps(FILE)[:-20],
    "list": "[]",
    "number": "3",
    "text": '"format"',
    "null": "null",
    "bytes": b"\xff\xfe\x00\x80{}",
    "zeros": bytes(100),
    "deep": "[" * 100_000,
    "nothing in it": {},
    "no identity": {k: v for k, v in FILE.items() if k != "identity"},
    "no settings": {k: v for k, v in FILE.items() if k != "settings"},
    "identity is a list": {**FILE, "identity": [1]},
    "identity is null": {**FILE, "identity": None},
    "settings is a list": {**FILE, "settings": []},
    "settings is null": {**FILE, "settings": None},
    "a kind is a list": {**FILE, "settings": {KIND: [1]}},
    "a kind is a number": {**FILE, "settings": {KIND: 7}},
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_ignored(content):
    put(content)
    why_ignored()


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_replaced(content):
    put(content)
    profiles.write(IDENTITY, SETTINGS)
    assert profiles.read(IDENTITY) == SETTINGS


def test_the_remedy_is_for_the_engine():
    identity = {**IDENTITY, "engine": "cuda"}
    put("", identity)
    assert "--device cuda" in why_ignored(identity)


def test_a_folder_in_place_of_the_file_is_ignored():
    profiles.path_of(IDENTITY).mkdir(parents=True)
    why_ignored()
    with pytest.raises(RuntimeError, match="cannot be written"):
        profiles.write(IDENTITY, SETTINGS)


@pytest.mark.parametrize(("key", "now"), [("compiler", "numba 2"), ("package", "0.2")])
def test_another_version_is_another_measurement(key, now):
    profiles.write(IDENTITY, SETTINGS)
    text = why_ignored({**IDENTITY, key: now})
    assert f"{key} {IDENTITY[key]} and not {now}" in text
    assert all(f"{other} " not in text for other in {"compiler", "package"} - {key})


def test_what_is_not_known_of_this_machine_is_named():
    put({**FILE, "identity": {**IDENTITY, "firmware": "7"}})
    assert "firmware 7" in why_ignored()


@pytest.mark.parametrize("layout", [0, profiles.FORMAT + 1, None, "1"])
def test_another_layout_is_not_read(layout):
    put({**FILE, "format": layout})
    assert f"layout is number {layout}" in why_ignored()


@pytest.mark.parametrize(
    ("key", "value"), [("engine", "blas"), ("device", "Another CPU"), ("cores", "8")]
)
def test_another_place_has_its_own_file(key, value):
    other = {**IDENTITY, key: value}
    profiles.write(IDENTITY, SETTINGS)
    assert profiles.read(other) == {}
    profiles.write(other, {})
    assert profiles.read(IDENTITY) == SETTINGS


def test_a_file_has_a_name_that_every_system_takes():
    device = 'AMD/ATI: "Zen" <5>\\*?| '
    assert profiles.path_of({**IDENTITY, "device": device}).name == "jit-amd-ati-zen-5-4.json"


def test_each_state_of_a_file_is_warned_of_once():
    for second, content in enumerate(["", "{", {**FILE, "format": -1}, {**FILE, "settings": 1}]):
        os.utime(put(content), (second, second))
        why_ignored()
        assert profiles.read(IDENTITY) == {}
    os.utime(put(FILE), (10, 10))
    assert profiles.read(IDENTITY) == SETTINGS


def test_a_caller_may_change_what_it_has_read():
    profiles.write(IDENTITY, SETTINGS)
    read = profiles.read(IDENTITY)
    read[KIND]["M"] = 7
    read["tanh float32"] = {}
    assert profiles.read(IDENTITY) == SETTINGS


def test_the_users_own_folder(monkeypatch, tmp_path):
    platformdirs = SimpleNamespace(user_cache_path=lambda name: tmp_path / "caches" / name)
    monkeypatch.setitem(sys.modules, "platformdirs", platformdirs)
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.write(IDENTITY, SETTINGS).parent == tmp_path / "caches" / "sklearn_fsvc"
    assert profiles.read(IDENTITY) == SETTINGS


def test_platformdirs_knows_the_folder(monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.folder() == Path(platformdirs.user_cache_dir("sklearn_fsvc"))


def test_without_a_folder_nothing_is_read_and_writing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.read(IDENTITY) == {}
    with pytest.raises(RuntimeError, match=r"pip install 'sklearn-fsvc\[tune\]'"):
        profiles.write(IDENTITY, SETTINGS)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(profiles.FOLDER, str(file / "folder"))
    assert profiles.read(IDENTITY) == {}
    with pytest.raises(RuntimeError, match=f"cannot be written.*{profiles.FOLDER}") as error:
        profiles.write(IDENTITY, SETTINGS)
    assert str(file / "folder") in str(error.value)


def layer_of(kind):
    return example(kind, 1, 1)[1]


def settings_of(kind=KIND):
    """What an engine uses once it is entered."""
    with get_engine("jit") as engine:
        return engine.settings(layer_of(kind))


def tune_by_hand(kinds=(KIND,), **values):
    """A profile of the jit engine with these values, and a block that is not the default."""
    engine = get_engine("jit")
    blocks = {kind: engine.knobs(layer_of(kind))["block"] for kind in kinds}
    settings = {kind: {"block": blocks[kind][-1], **values} for kind in kinds}
    profiles.write(engine.identity(), settings)
    return settings


def test_an_engine_that_is_entered_uses_the_profile():
    engine = get_engine("jit")
    default = engine.settings(layer_of(KIND))
    settings = tune_by_hand(M=1024, tile_rows=32)[KIND]
    assert settings_of() == {**default, **settings} != default
    assert engine.settings(layer_of(KIND)) == default


def test_a_profile_is_for_its_kinds():
    default = settings_of("manhattan triangular float64")
    tune_by_hand(M=1024)
    assert settings_of("manhattan triangular float64") == default


def test_a_knob_that_is_gone_is_no_setting():
    default = settings_of()
    profiles.write(get_engine("jit").identity(), {KIND: {"gone": 7}})
    assert settings_of() == default


NO_CHOICES = [
    ("M", 3000), ("M", "2048"), ("M", None), ("block", (9, 9)), ("block", [[2], 8]),
    ("tile_rows", {"a": 1}), ("threads", 10**9),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), NO_CHOICES)
def test_a_value_that_is_no_choice_is_ignored(name, value):
    default = settings_of()[name]
    tune_by_hand(**{"step": 2048, name: value})
    with pytest.warns(RuntimeWarning, match=f"{KIND}.* {name}=.* is none of"):
        settings = settings_of()
    assert settings[name] == default
    assert settings["step"] == 2048


EQUAL = [("M", 2048.0), ("asymmetry", True), ("tile_rows", 128.0), ("block", [4.0, 4.0])]


@pytest.mark.parametrize(("name", "value"), EQUAL)
@pytest.mark.filterwarnings("ignore:.* is ignored")
def test_a_value_of_another_type_reaches_no_kernel(name, value):
    tune_by_hand(**{name: value})
    choices = get_engine("jit").knobs(layer_of(KIND))[name]
    assert repr(settings_of()[name]) in map(repr, choices)


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


def outputs(estimator, X, y):
    estimator.fit(X, y)
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


ESTIMATORS = [
    RBFClassifier(300, selection="random", device="jit", random_state=0),
    TanhClassifier(300, device="jit", random_state=0),
    RBFProjector(300, selection="random", device="jit", random_state=0),
    TanhProjector(300, device="jit", random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_profile_changes_no_output(estimator, digits, monkeypatch):
    expected, hidden, parts = outputs(estimator, *digits), JitEngine.hidden, []

    def spy(engine, prepared, X, out=None, units=None):
        parts.append(units)
        return hidden(engine, prepared, X, out, units)

    tune_by_hand(KINDS, M=1024, asymmetry=4)
    monkeypatch.setattr(JitEngine, "hidden", spy)
    np.testing.assert_array_equal(outputs(estimator, *digits), expected)
    assert slice(256, 300) in parts


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_estimator_works_beside_a_corrupt_profile(estimator, digits):
    expected = outputs(estimator, *digits)
    put("{", get_engine("jit").identity())
    with pytest.warns(RuntimeWarning, match="is ignored: it is corrupt") as caught:
        np.testing.assert_array_equal(outputs(estimator, *digits), expected)
    assert len(caught) == 1


@pytest.fixture
def eight_cores(monkeypatch):
    """8 cores with two threads each."""

    def cpu_count(only_physical_cores=False):
        return 8 if only_physical_cores else 16

    monkeypatch.setattr(joblib, "cpu_count", cpu_count)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


SHARES = [(None, 16, 16), ("1", 16, 1), ("3", 16, 3), ("3", 2, 2), ("8", 16, 8), ("16", 16, 16)]


@pytest.mark.parametrize(("share", "measured", "used"), SHARES)
def test_a_worker_takes_no_more_threads_than_its_share(
    eight_cores, monkeypatch, share, measured, used
):
    if share:
        monkeypatch.setenv("OMP_NUM_THREADS", share)
    assert allowed_threads(measured) == used


@pytest.mark.parametrize(("share", "used"), [("", 16), ("1", 1)])
def test_threads_of_a_profile_are_those_of_a_worker(eight_cores, monkeypatch, share, used):
    monkeypatch.setenv("OMP_NUM_THREADS", share)
    tune_by_hand(threads=16)
    with get_engine("jit") as engine:
        assert engine.prepare(layer_of(KIND)).threads == used
