"""Profiles: reading, writing, corrupt files, and the folder."""

import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sklearn_fsvc._src.engines import profiles
from sklearn_fsvc._src.utils.availability import install_command

IDENTITY = {
    "engine": "jit", "device": "Some(R) CPU @ 2.0 GHz", "cores": "4", "compiler": "numba 1",
    "package": "0.1",
}  # fmt: skip

KIND = "manhattan triangular float32"
SETTINGS = {KIND: {"M": 1024, "block": (4, 4)}, "tanh float64": {"statistics": "float32"}}
FILE = {"format": profiles.FORMAT, "identity": IDENTITY, "settings": SETTINGS}


def write_file(content, identity=IDENTITY):
    """Write a dictionary as JSON, else text or bytes, where a profile is read; return the path."""
    path = profiles.path_of(identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def warning_of(identity=IDENTITY):
    """Return the text of the only warning, which names the file and the remedy."""
    with pytest.warns(RuntimeWarning) as caught:
        assert profiles.read(identity) == {}
    (warning,) = caught
    text = str(warning.message)
    assert str(profiles.path_of(identity)) in text
    assert f"python -m sklearn_fsvc tune --device {identity['engine']}`" in text
    return text


def test_read_returns_what_was_written():
    path = profiles.write(IDENTITY, SETTINGS)
    assert path == profiles.path_of(IDENTITY)
    assert path.exists()
    assert profiles.read(IDENTITY) == SETTINGS


def test_other_kinds_are_added_and_the_same_kind_is_replaced():
    profiles.write(IDENTITY, SETTINGS)
    profiles.write(IDENTITY, {KIND: {"M": 4096}, "tanh float32": {"M": 512}})
    expected = {**SETTINGS, KIND: {"M": 4096}, "tanh float32": {"M": 512}}
    assert profiles.read(IDENTITY) == expected


def test_two_writes_with_the_same_time_of_modification():
    path = profiles.write(IDENTITY, {"a": {"M": 1}})
    written = path.stat().st_mtime_ns
    profiles.write(IDENTITY, {"b": {"M": 2}})
    os.utime(path, ns=(written, written))
    assert profiles.read(IDENTITY) == {"a": {"M": 1}, "b": {"M": 2}}


def test_without_a_file_there_are_no_settings():
    assert profiles.read(IDENTITY) == {}


def test_a_file_is_replaced_atomically(monkeypatch):
    path, replace, seen = profiles.write(IDENTITY, {"a": {"M": 1}}), Path.replace, []

    def recorded(new, target):
        seen.extend(json.loads(p.read_text())["settings"] for p in (new, target))
        return replace(new, target)

    monkeypatch.setattr(Path, "replace", recorded)
    profiles.write(IDENTITY, {"b": {"M": 2}})
    assert seen == [{"a": {"M": 1}, "b": {"M": 2}}, {"a": {"M": 1}}]
    assert list(path.parent.iterdir()) == [path]


def write_half(path, text, *args, real=Path.write_text, **options):
    real(path, text[: len(text) // 2], *args, **options)
    raise OSError("the disk is full")


def fail_to_replace(path, target):
    raise OSError("the disk is gone")


BROKEN = [("write_text", write_half), ("replace", fail_to_replace)]


@pytest.fixture(params=BROKEN, ids=lambda method: method[0])
def broken_write(request, monkeypatch):
    """The path of a profile, and the error of writing a second version."""
    path = profiles.write(IDENTITY, SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(Path, *request.param)
        with pytest.raises(RuntimeError, match="the disk is") as error:
            profiles.write(IDENTITY, {KIND: {"M": 1}})
    return path, str(error.value)


def test_a_failed_write_leaves_the_old_profile(broken_write):
    path, message = broken_write
    assert f"{path} cannot be written" in message
    assert profiles.FOLDER in message
    assert profiles.read(IDENTITY) == SETTINGS


def test_a_failed_write_leaves_no_other_file(broken_write):
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
    write_file(content)
    warning_of()


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_replaced(content):
    write_file(content)
    profiles.write(IDENTITY, SETTINGS)
    assert profiles.read(IDENTITY) == SETTINGS


def test_the_remedy_names_the_engine():
    identity = {**IDENTITY, "engine": "cuda"}
    write_file("", identity)
    assert "--device cuda" in warning_of(identity)


def test_a_folder_in_place_of_the_file_is_ignored():
    profiles.path_of(IDENTITY).mkdir(parents=True)
    warning_of()
    with pytest.raises(RuntimeError, match="cannot be written"):
        profiles.write(IDENTITY, SETTINGS)


@pytest.mark.parametrize(("key", "now"), [("compiler", "numba 2"), ("package", "0.2")])
def test_a_profile_of_another_version_is_ignored(key, now):
    profiles.write(IDENTITY, SETTINGS)
    text = warning_of({**IDENTITY, key: now})
    assert f"{key} {IDENTITY[key]} and not {now}" in text
    assert all(f"{other} " not in text for other in {"compiler", "package"} - {key})


def test_unknown_keys_of_the_identity_are_named():
    write_file({**FILE, "identity": {**IDENTITY, "firmware": "7"}})
    assert "firmware 7" in warning_of()


@pytest.mark.parametrize("layout", [0, profiles.FORMAT + 1, None, "1"])
def test_another_layout_is_ignored(layout):
    write_file({**FILE, "format": layout})
    assert f"layout is number {layout}" in warning_of()


@pytest.mark.parametrize(
    ("key", "value"), [("engine", "blas"), ("device", "Another CPU"), ("cores", "8")]
)
def test_another_device_has_its_own_file(key, value):
    other = {**IDENTITY, key: value}
    profiles.write(IDENTITY, SETTINGS)
    assert profiles.read(other) == {}
    profiles.write(other, {})
    assert profiles.read(IDENTITY) == SETTINGS


def test_file_names_are_valid_on_every_system():
    device = 'AMD/ATI: "Zen" <5>\\*?| '
    assert profiles.path_of({**IDENTITY, "device": device}).name == "jit-amd-ati-zen-5-4.json"


def test_each_version_of_a_file_is_warned_of_once():
    for second, content in enumerate(["", "{", {**FILE, "format": -1}, {**FILE, "settings": 1}]):
        os.utime(write_file(content), (second, second))
        warning_of()
        assert profiles.read(IDENTITY) == {}
    os.utime(write_file(FILE), (10, 10))
    assert profiles.read(IDENTITY) == SETTINGS


def test_changes_of_the_returned_settings_do_not_affect_the_cache():
    profiles.write(IDENTITY, SETTINGS)
    read = profiles.read(IDENTITY)
    read[KIND]["M"] = 7
    read["tanh float32"] = {}
    assert profiles.read(IDENTITY) == SETTINGS


def test_the_folder_of_the_user(monkeypatch, tmp_path):
    platformdirs = SimpleNamespace(user_cache_path=lambda name: tmp_path / "caches" / name)
    monkeypatch.setitem(sys.modules, "platformdirs", platformdirs)
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.write(IDENTITY, SETTINGS).parent == tmp_path / "caches" / "sklearn_fsvc"
    assert profiles.read(IDENTITY) == SETTINGS


def test_the_folder_is_that_of_platformdirs(monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.folder() == Path(platformdirs.user_cache_dir("sklearn_fsvc"))


def test_without_a_folder_nothing_is_read_and_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.read(IDENTITY) == {}
    with pytest.raises(RuntimeError, match=re.escape(install_command("tune"))):
        profiles.write(IDENTITY, SETTINGS)


@pytest.mark.parametrize("version", ["new", "old"])
def test_a_user_without_a_home(monkeypatch, version):
    """New versions of platformdirs raise an error; old ones return "~"."""

    def user_cache_path(name):
        if version == "new":
            raise RuntimeError("could not determine the home directory")
        return Path("~/.cache") / name

    monkeypatch.setitem(
        sys.modules, "platformdirs", SimpleNamespace(user_cache_path=user_cache_path)
    )
    monkeypatch.delenv(profiles.FOLDER)
    assert profiles.read(IDENTITY) == {}
    with pytest.raises(RuntimeError, match=f"a home directory is missing.*set {profiles.FOLDER}"):
        profiles.write(IDENTITY, SETTINGS)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(profiles.FOLDER, str(file / "folder"))
    assert profiles.read(IDENTITY) == {}
    with pytest.raises(RuntimeError, match=f"cannot be written.*{profiles.FOLDER}") as error:
        profiles.write(IDENTITY, SETTINGS)
    assert str(file / "folder") in str(error.value)
