"""What was measured on this machine, in files of the user's cache folder.

A profile is one JSON file for an engine on a device. It holds what the measurement depended
on, its *identity*, and the settings that were best for each kind of layer. Engines read it
as they are entered; `tuning` writes it. A file that is corrupt or was measured under another
compiler or version is ignored with a warning.
"""

import copy
import json
import os
import re
import tempfile
import uuid
import warnings
from functools import lru_cache
from pathlib import Path

from ..utils.availability import install
from ..utils.user_warnings import warn

# Number of the layout of the file.
FORMAT = 1
# The variable that names another folder.
FOLDER = "SKLEARN_FSVC_CACHE"
# Variables on which the user's cache folder depends.
_HOMES = ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "USERPROFILE")


def folder():
    """Where profiles lie: what SKLEARN_FSVC_CACHE names, else the user's cache folder.

    None where platformdirs, which knows that folder, is not installed, and where the user has
    no home, as in a container with a number for its user.
    """
    if os.environ.get(FOLDER):
        return Path(os.environ[FOLDER]).expanduser()
    try:
        from platformdirs import user_cache_path
    except ImportError:
        return None
    return _place(user_cache_path, *map(os.environ.get, _HOMES))


@lru_cache(maxsize=1)
def _place(user_cache_path, *depends_on):
    """Looked up once: a tenth of the time in which one row is answered."""
    try:
        place = user_cache_path("sklearn_fsvc")
    except RuntimeError:  # no home
        return None
    return place if place.is_absolute() else None  # of older versions: ~ that stands for nothing


def path_of(identity):
    """Return the file of an engine with this `Engine.identity`, or None: see `folder`."""
    place = folder()
    if place is None:
        return None
    return _path_in(place, *(identity[k] for k in ("engine", "device", "cores") if k in identity))


@lru_cache(maxsize=16)
def _path_in(place, *parts):
    return place / (re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-") + ".json")


def read(identity):
    """Kind of layer -> settings, as they were measured for this identity; {} for none."""
    path = path_of(identity)
    try:
        changed = path.stat().st_mtime_ns
    except (AttributeError, OSError):  # no folder, no file
        return {}
    return copy.deepcopy(_read(path, changed, tuple(identity.items())))


@lru_cache(maxsize=16)
def _read(path, changed, identity):
    """Read a file that was last written at `changed`: parsed once, warned of once."""
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
            kind: {name: _value(value) for name, value in values.items()}
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


def _value(value):
    """JSON knows no tuples."""
    return tuple(value) if isinstance(value, list) else value


def warn_of(identity, why):
    """Warn that the profile, or a part of it, is ignored."""
    warn(
        f"{path_of(identity)} is ignored: {why}. Measure again by "
        f"`python -m sklearn_fsvc tune --device {identity['engine']}`, or delete the file.",
        RuntimeWarning,
    )


def check_writable(identity):
    """Raise RuntimeError where a profile cannot be written."""
    path = _known_path(identity)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _not_written(path, error) from error


def write(identity, settings):
    """Keep settings, beside those of other kinds of layers, and return the path of the file.

    RuntimeError if the folder is not known, or nothing can be written there.
    """
    path = _known_path(identity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was ignored is replaced now
        kept = {**read(identity), **settings}
    text = json.dumps({"format": FORMAT, "identity": identity, "settings": kept}, indent=1)
    new = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text + "\n")
        new.replace(path)  # at once: a reader sees the old file or the new one
    except OSError as error:
        if path.parent.is_dir():
            new.unlink(missing_ok=True)
        raise _not_written(path, error) from error
    _read.cache_clear()
    return path


def _known_path(identity):
    path = path_of(identity)
    if path is None:
        raise RuntimeError(
            "Profiles lie in the user's cache folder, which platformdirs knows where there is a "
            f"home: {install('tune')}, or set {FOLDER} to a folder."
        )
    return path


def _not_written(path, error):
    return RuntimeError(f"{path} cannot be written ({error}); set {FOLDER} to another folder.")
