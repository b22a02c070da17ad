"""The engines by name, and the engine for a device.

A device is a string of the user. It is resolved at each call, so that a pickled estimator contains
no engine. A device that is requested by name is used or refused, never replaced.
"""

import math
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from ..utils.user_warnings import warn
from .base import Engine
from .device_group import DeviceGroup
from .threads import current_dask_worker, worker_index

EngineClass = TypeVar("EngineClass", bound=type[Engine])

# Name -> class, in the order of registration.
ENGINES: dict[str, Any] = {}
# "auto" is an accelerator if one works and the job is large enough to gain, else "cpu".
ALIASES = ("auto", "cpu")
# The engine for "cpu". According to benchmarks/layers.py, `jit` is the fastest for distances and
# tanh layers; for linear layers, `blas` is about as fast.
CPU = "jit"
# Samples per unit from which a fit is faster on several devices: with fewer, most of the time is
# the factorisation of the Gram matrix, by one device.
_ROWS_PER_UNIT = 10
# The group of entry points in which other packages declare their engines.
GROUP = "sklearn_fsvc.engines"


def register(engine: EngineClass) -> EngineClass:
    """Make an engine available to ``device=``, `info`, `tune` and the tests, by its name.

    Parameters
    ----------
    engine : subclass of Engine

    Returns
    -------
    engine
        So that it can be used as a decorator.

    Raises
    ------
    TypeError
        If it is not an engine, or has abstract methods.
    ValueError
        If its name cannot be a device, or is that of another engine.

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
    if name in ENGINES and not _is_redefinition(ENGINES[name], engine):
        raise ValueError(f"device={name!r} is {ENGINES[name].__name__} already; take another name.")
    ENGINES[name] = engine
    return engine


def known_engines() -> dict[str, Any]:
    """Return name -> class of all engines, including those of other packages."""
    _load_entry_points()
    return dict(ENGINES)


def get_engine(device: str, work: float | None = None, rows_per_unit: float = math.inf) -> Any:
    """Return the engine for `device`: an `Engine`, or a group of several.

    Parameters
    ----------
    device : str
        "auto", "cpu" or the name of an engine; "cuda:1" is the second GPU, "cuda:0,1" are two
        of them that share the work, and "cuda:all" are all that are visible to this process,
        or the first one if more would be no faster; "torch:mps" and "torch:cuda:1" are devices of
        PyTorch.
    work : float, optional
        Samples x units x features of the job, if known, for "auto" and "all".
    rows_per_unit : float, default=inf
        Samples per unit of a fit, which is no faster on several devices if there are few.

    Returns
    -------
    engine : Engine or group of engines
        To be used in a ``with`` statement.

    Raises
    ------
    ValueError
        If no such device exists.
    RuntimeError
        If it exists but does not work here, with the reason and the remedy.

    Examples
    --------
    >>> from sklearn_fsvc.engines import get_engine
    >>> get_engine("jit").name
    'jit'
    """
    engine = _make_engine(device, work, rows_per_unit)
    reason = engine.why_unavailable()
    if reason:
        raise RuntimeError(f"device={device!r} cannot be used: {reason}.")
    return engine


def accelerator(work: float = math.inf) -> Any:
    """Return the class of the engine that "auto" selects for so much work, None for the host.

    Engines whose packages are not installed are skipped without a further check.
    """
    for engine in known_engines().values():
        is_large = engine.auto_work is not None and work >= engine.auto_work
        if is_large and engine.is_installed() and engine().why_unavailable() is None:
            return engine
    return None


@cache
def _load_entry_points():
    for point in entry_points(group=GROUP):
        try:
            register(point.load())
        except Exception as error:  # an error of another package must not break this one
            warn(
                f"The engine {point.value} is ignored ({type(error).__name__}: {error}).",
                RuntimeWarning,
            )


def _is_redefinition(old, new):
    """Return whether two classes have the same definition, as a notebook cell that runs again."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _make_engine(device, work, rows_per_unit):
    if device == "auto":
        work = work or 0
        engine = accelerator(work) or ENGINES[CPU]
        is_large = _use_all_devices(engine, work, rows_per_unit)
        return _make_numbered(engine, "all") if is_large else engine()
    if device == "cpu":
        return ENGINES[CPU]()
    name, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    # Other packages are imported only if the name is not one of ours.
    engines = ENGINES if name in ENGINES else known_engines()
    engine = engines.get(name)
    if engine is None:
        raise ValueError(_explain_unknown(device, engines))
    if not colon:
        return engine()
    if engine.is_numbered and (numbers := _parse_numbers(device, index)):
        # A small job is faster on one device: threads and transfers would cost more than they save.
        if numbers == "all" and work is not None and engine.group_work is not None:
            numbers = numbers if _gains_by_group(engine, work, rows_per_unit) else [0]
        return _make_numbered(engine, numbers)
    if _is_device(engine, index):
        return engine(index)
    raise ValueError(_explain_unknown(device, engines))


def _explain_unknown(device, engines):
    """Return the message for a device that is not known, with all that are."""
    known = ", ".join(map(repr, (*ALIASES, *engines)))
    known += "".join(f", '{e.name}:{kind}'" for e in engines.values() for kind in e.device_types)
    numbered = (name for name, engine in engines.items() if engine.is_numbered)
    examples = "".join(
        f'; "{name}:1" is the second one, "{name}:0,1" two of them, "{name}:all" all'
        for name in numbered
    )
    return f"device={device!r} is not known; choose one of {known}{examples}."


def _is_device(engine: Any, text: str) -> bool:
    """Return whether a text names a device of the engine: "mps", or "cuda:1" with its number."""
    kind, colon, number = text.partition(":")
    return kind in engine.device_types and (not colon or number.isdecimal())


def _parse_numbers(device: str, text: str) -> Any:
    """Return the numbers after the colon: [1], [0, 1], or "all"; None if they are not numbers."""
    if text == "all":
        return text
    parts = text.split(",")
    if not all(map(str.isdecimal, parts)):
        return None
    numbers = [int(part) for part in parts]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"device={device!r} names a device twice; name each once.")
    return numbers


def _use_all_devices(engine, work, rows_per_unit):
    """Return whether all devices would be faster, and no other worker uses some of them."""
    gains = engine.is_numbered and _gains_by_group(engine, work, rows_per_unit)
    # Last, because it numbers the thread, and small jobs need no number.
    return gains and current_dask_worker() is None and worker_index() is None


def _gains_by_group(engine, work, rows_per_unit):
    group_work = math.inf if engine.group_work is None else engine.group_work
    return work >= group_work and rows_per_unit >= _ROWS_PER_UNIT


def _make_numbered(engine: Any, numbers: Sequence[int] | str) -> Any:
    """Return one engine, or a group of several."""
    if numbers == "all":
        # If none works, the first one reports the reason.
        numbers = [0] if engine().why_unavailable() else range(engine.count())
    members = [engine(number) for number in numbers]
    return members[0] if len(members) == 1 else DeviceGroup(members)
