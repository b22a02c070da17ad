"""Measured settings of engines, in files of the user's cache folder.

A profile is a JSON file for one engine on one device. It holds the *identity*, which is what the
measurement depends on, and the fastest settings for each kind of layer. Engines read it when they
are entered; `tuning`, above the readouts, measures and writes it. A file that is corrupt, or was
measured with another compiler or version, is ignored with a warning.
"""

import copy
import json
import os
import re
import tempfile
import uuid
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..utils.availability import install_command
from ..utils.user_warnings import warn

# Version of the file format.
FORMAT = 1
# Environment variable with another folder.
FOLDER = "SKLEARN_FSVC_CACHE"
# Environment variables on which the user's cache folder depends.
_HOME_VARIABLES = ("LOCALAPPDATA", "USERPROFILE") if os.name == "nt" else ("HOME", "XDG_CACHE_HOME")

Identity = Mapping[str, str]
Settings = Mapping[str, Mapping[str, Any]]  # kind of layer -> name -> value


def folder() -> Path | None:
    """Return the folder of profiles: that of SKLEARN_FSVC_CACHE, else the user's cache folder.

    None if platformdirs, which finds that folder, is not installed, or if the user has no home,
    as in a container whose user is only a number.
    """
    if chosen := os.environ.get(FOLDER):
        return Path(chosen).expanduser()
    try:
        from platformdirs import user_cache_path
    except ImportError:
        return None
    return _user_folder(user_cache_path, *map(os.environ.get, _HOME_VARIABLES))


def path_of(identity: Identity) -> Path | None:
    """Return the file of an engine with this `Engine.identity`; None if there is no folder."""
    parent = folder()
    if parent is None:
        return None
    return _path_in(parent, *(identity[k] for k in ("engine", "device", "cores") if k in identity))


def read(identity: Identity) -> dict[str, dict[str, Any]]:
    """Return the settings for each kind of layer that were measured for this identity, or {}."""
    path = path_of(identity)
    if path is None:
        return {}
    try:
        modified = path.stat().st_mtime_ns
    except OSError:  # no file
        return {}
    return copy.deepcopy(_read(path, modified, tuple(identity.items())))


def check_writable(identity: Identity) -> None:
    """Raise RuntimeError if the profile cannot be written."""
    path = _required_path(identity)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _write_error(path, error) from error


def write(identity: Identity, settings: Settings) -> Path:
    """Save settings, in addition to those of other kinds of layers, and return the path.

    Raises RuntimeError if there is no folder, or it cannot be written.
    """
    path = _required_path(identity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file that would be ignored is replaced now
        merged = {**read(identity), **settings}
    text = json.dumps({"format": FORMAT, "identity": identity, "settings": merged}, indent=1)
    new = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text + "\n")
        new.replace(path)  # atomic: a reader gets the old file or the new one
    except OSError as error:
        if path.parent.is_dir():
            new.unlink(missing_ok=True)
        raise _write_error(path, error) from error
    _read.cache_clear()
    return path


def warn_of(identity: Identity, why: str) -> None:
    """Warn that the profile, or a part of it, is ignored."""
    warn(
        f"{path_of(identity)} is ignored: {why}. Measure again by "
        f"`python -m sklearn_fsvc tune --device {identity['engine']}`, or delete the file.",
        RuntimeWarning,
    )


@lru_cache(maxsize=1)
def _user_folder(user_cache_path, *variables):
    """Cached, because the search takes a tenth of the latency of predicting one sample."""
    try:
        path = user_cache_path("sklearn_fsvc")
    except RuntimeError:  # no home
        return None
    return path if path.is_absolute() else None  # older versions return "~" if there is no home


@lru_cache(maxsize=16)
def _path_in(parent, *parts):
    return parent / (re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-") + ".json")


@lru_cache(maxsize=16)
def _read(path, modified, identity):
    """Read a file that was modified at a time: each version is parsed, and warned of, once."""
    identity = dict(identity)
    try:
        profile = json.loads(path.read_text())
        layout = profile["format"]
        if layout != FORMAT:
            warn_of(identity, f"its layout is number {layout}, this version reads {FORMAT}")
            return {}
        measured, settings = profile["identity"], profile["settings"]
        measured = dict(measured.items())
        settings = {
            kind: {name: _from_json(value) for name, value in values.items()}
            for kind, values in settings.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        warn_of(identity, f"it is corrupt ({type(error).__name__}: {error})")
        return {}
    if measured != identity:
        keys = [k for k in {**identity, **measured} if measured.get(k) != identity.get(k)]
        was = ", ".join(f"{k} {measured.get(k)} and not {identity.get(k)}" for k in keys)
        warn_of(identity, f"it was measured with {was}")
        return {}
    return settings


def _from_json(value):
    """Turn lists back into tuples, which JSON does not have."""
    return tuple(value) if isinstance(value, list) else value


def _required_path(identity):
    path = path_of(identity)
    if path is None:
        raise RuntimeError(
            "There is no folder for profiles, because platformdirs or a home directory is missing: "
            f"{install_command('tune')}, or set {FOLDER} to a folder."
        )
    return path


def _write_error(path, error):
    return RuntimeError(f"{path} cannot be written ({error}); set {FOLDER} to another folder.")
