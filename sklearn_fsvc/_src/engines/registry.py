"""Which engines there are, and which one a device means.

A device is a string that the user wrote; it is resolved at each call, so that a pickled
estimator carries no engine. A device that was asked for by name is used or refused.
"""

import math
from functools import cache
from importlib.metadata import entry_points

from ..utils.user_warnings import warn
from .base import Engine
from .device_group import Team
from .threads import dask_worker, worker_number

# Name -> class, in the order in which they were registered.
ENGINES = {}
# "auto" is an accelerator, if there is one that works and the job is large enough to gain,
# else "cpu", which is the engine that is fastest on the host.
ALIASES = ("auto", "cpu")
# benchmarks/layers.py: `jit` leads for differences, and whole tanh transforms; for bare
# products beside other work of the BLAS the two are close.
CPU = "jit"
# Packages that bring an engine name its class in this group of entry points.
GROUP = "sklearn_fsvc.engines"


def register(engine):
    """Make an engine known to ``device=``, `info`, `tune` and the tests, by its name.

    Parameters
    ----------
    engine : subclass of Engine

    Returns
    -------
    engine
        So that it serves as a decorator.

    Raises
    ------
    TypeError
        If it is no engine, or has a method that is still abstract.
    ValueError
        If its name cannot be a device, or is another engine's.

    Examples
    --------
    >>> from sklearn_fsvc.engines import get_engine, register
    >>> JitEngine = type(get_engine("jit"))
    >>> register(JitEngine).name
    'jit'
    """
    if not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise TypeError(f"engine={engine!r} must be a subclass of sklearn_fsvc.engines.Engine.")
    missing = ", ".join(sorted(engine.__abstractmethods__))
    if missing:
        raise TypeError(f"engine={engine.__name__} does not define {missing}.")
    name = engine.name
    if not isinstance(name, str) or not name.isidentifier() or name in ALIASES:
        raise ValueError(f"name={name!r} of {engine.__name__} cannot be the name of a device.")
    if name in ENGINES and not _is_same(ENGINES[name], engine):
        raise ValueError(f"device={name!r} is {ENGINES[name].__name__} already; take another name.")
    ENGINES[name] = engine
    return engine


def _is_same(old, new):
    """Whether it is one class, perhaps defined anew, as a cell of a notebook does."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def known_engines():
    """Name -> class of all engines, those of other packages too."""
    _load_entry_points()
    return dict(ENGINES)


@cache
def _load_entry_points():
    for point in entry_points(group=GROUP):
        try:
            register(point.load())
        except Exception as error:  # another package's mistake must not stop this one
            warn(
                f"The engine {point.value} is ignored ({type(error).__name__}: {error}).",
                RuntimeWarning,
            )


def get_engine(device, work=0):
    """The engine for `device`.

    Parameters
    ----------
    device : str
        "auto", "cpu" or the name of an engine; "cuda:1" is the second GPU, "cuda:0,1" are two
        of them that share the work, and "cuda:all" are all that this process sees.
    work : int
        rows x units x features of the job, for "auto".

    Raises
    ------
    ValueError
        If no such device exists.
    RuntimeError
        If it exists and does not work here, with the reason and the remedy.
    """
    engine = _make(device, work)
    reason = engine.why_unavailable()
    if reason:
        raise RuntimeError(f"device={device!r} cannot be used: {reason}.")
    return engine


def accelerator(work=math.inf):
    """The engine that "auto" takes for so much work, None where it stays on the host.

    What is not installed is not looked for further.
    """
    for engine in known_engines().values():
        large_enough = engine.auto_work is not None and work >= engine.auto_work
        if large_enough and engine.is_installed() and engine().why_unavailable() is None:
            return engine
    return None


def _numbers(device, text):
    """The devices that are named after the colon: [1], [0, 1], or "all"."""
    if text == "all":
        return text
    numbers = text.split(",")
    if not all(map(str.isdecimal, numbers)):
        return None
    numbers = [int(number) for number in numbers]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"device={device!r} names a device twice; name each once.")
    return numbers


def _is_for_all(engine, work):
    """Whether so much work gains by all devices of its kind, and nobody else is to have some."""
    gains = engine.is_numbered and engine.team_work is not None and work >= engine.team_work
    return gains and dask_worker() is None and worker_number() is None


def _of_numbers(engine, numbers):
    """One engine, or a team of several."""
    if numbers == "all":
        # Where none works, the first one says why.
        numbers = [0] if engine().why_unavailable() else range(engine.count())
    members = [engine(number) for number in numbers]
    return members[0] if len(members) == 1 else Team(members)


def _make(device, work):
    if device == "auto":
        engine = accelerator(work) or ENGINES[CPU]
        return _of_numbers(engine, "all") if _is_for_all(engine, work) else engine()
    if device == "cpu":
        return ENGINES[CPU]()
    name, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    # Other packages are imported only where the name may be one of theirs.
    engines = ENGINES if name in ENGINES else known_engines()
    if name in engines and not colon:
        return engines[name]()
    if name in engines and engines[name].is_numbered and (numbers := _numbers(device, index)):
        return _of_numbers(engines[name], numbers)
    known = ", ".join(map(repr, (*ALIASES, *engines)))
    numbered = (name for name, engine in engines.items() if engine.is_numbered)
    second = "".join(
        f'; "{name}:1" is the second one, "{name}:0,1" two of them, "{name}:all" all'
        for name in numbered
    )
    raise ValueError(f"device={device!r} is not known; choose one of {known}{second}.")
