"""Measurement of engine settings."""

import math
import statistics
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral

import numpy as np

from .engines import get_engine, profiles
from .engines.host import HostStopwatch
from .kernels import DISTANCE, KERNELS, METRICS, kernel_of
from .layers import RBFLayer, TanhLayer, rounded
from .readouts.statistics import RidgeStatistics
from .utils.parameters import check_count

# Side by side in one process: each function in turn, again and again, and medians.


def medians(functions, repeats=7, seconds=60, stopwatch=HostStopwatch, calls=1):
    """Median seconds, by name, that a call of each of the functions takes: see `rounds`."""
    times = rounds(functions, repeats, seconds, stopwatch, calls)
    return {name: statistics.median(t) for name, t in times.items()}


def rounds(functions, repeats=7, seconds=60, stopwatch=HostStopwatch, calls=1):
    """Seconds that a call of each of the functions takes, round by round.

    All are called once to warm up; then in turn, so that a machine that slows down slows
    all of them.

    Parameters
    ----------
    functions : dict of str to callable
    repeats : int
        Measurements of each, fewer where `seconds` are used up before.
    stopwatch : callable
        Makes an ``engines.base.Stopwatch``; that of an engine knows when its work is done.
    calls : int
        Calls that are measured as one. On a GPU one is launched while another runs.

    Returns
    -------
    dict of str to list of float
    """
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    start = time.perf_counter()
    for _ in range(repeats):
        for name, function in functions.items():
            watch = stopwatch()
            for _ in range(calls):
                function()
            watch.lap(name)
            times[name].append(watch.totals()[name] / calls)
        if time.perf_counter() - start > seconds:
            break
    return times


# The optimiser of basic layers: what is fastest here is measured, kept and used.
#
# For a device and a kind of layer, Dogaru & Dogaru (2017) look for the size M, the asymmetry
# As and the block with the least synaptic time, t_syn = t / (N m n), where N = M As rows meet
# m = M / As units of n features. `tune` does so for every knob of an engine, one after the
# other, and writes the profile that engines read as they are entered.

# A value must be better than the one before by this factor, in this part of the rounds: what
# is less, or wins now and then, is the machine's noise.
GAIN, WON_ROUNDS = 0.97, 0.75
# float32 statistics lose digits; they must at least halve the time.
GAIN_STATISTICS = 0.5

KINDS = tuple(
    f"{metric} {kernel} {dtype}"
    for metric in METRICS
    for kernel in (*KERNELS, DISTANCE.name)
    for dtype in (["uint8"] if metric == "manhattan" else []) + ["float32", "float64"]
) + ("tanh float32", "tanh float64")


# Of outputs that are rounded: their finish is a table or one step more.
ROUNDED = tuple(
    f"{kind} {bits} bits" for kind in KINDS if DISTANCE.name not in kind for bits in (8, 15)
)


@dataclass(frozen=True)
class Tuned:
    """What was found for one kind of layer.

    Attributes
    ----------
    settings : dict
        Knob -> the best value.
    default, best : float
        t_syn in seconds by the default settings and by these, measured side by side: the
        geometric mean over the numbers of features.
    """

    settings: dict
    default: float
    best: float


def tune(device="auto", kinds=KINDS, *, n_features=(128, 784), repeats=5, save=True, verbose=0):
    """Measure which settings of an engine are fastest here, and keep them.

    Parameters
    ----------
    device : str
        As estimators take it; "auto" is a GPU if one works.
    kinds : sequence of str
        Kinds of layers, out of `KINDS`: formula and dtype. Or of `ROUNDED`, as fits with 8 or 15
        bits have them: formula, dtype, and ``"8 bits"`` or ``"15 bits"``.
    n_features : int or sequence of int
        What is best for all of these together is looked for: the geometric mean of t_syn.
    repeats : int
        Measurements of each value.
    save : bool
        Whether to write the profile of this machine.
    verbose : int
        Above 0, a line for each kind as it is found.

    Returns
    -------
    dict of str to Tuned

    Raises
    ------
    ValueError, RuntimeError
        If the device or a kind is not known, or does not work here; if the profile cannot
        be written.

    Examples
    --------
    >>> found = tune("jit", ["tanh float32"], n_features=8, repeats=1, save=False)
    >>> sorted(found["tanh float32"].settings)
    ['M', 'asymmetry', 'block', 'step', 'threads', 'tile_rows', 'tile_units']
    """
    kinds, found = tuple(kinds), {}
    for kind in kinds:
        if kind not in KINDS + ROUNDED:
            raise ValueError(
                f"kind={kind!r} is not known; choose from {', '.join(KINDS)}, or one of these with "
                '" 8 bits" or " 15 bits" behind it, but for distances.'
            )
    several = [n_features] if isinstance(n_features, Integral) else n_features
    n_features = [check_count("n_features", n) for n in several]
    with _old_profile_ignored(), get_engine(device, math.inf) as engine:
        identity = engine.identity()
        if save:
            profiles.check_writable(identity)  # rather now than after minutes
        for kind in kinds:
            found[kind] = _tune_kind(engine, kind, n_features, repeats)
            if verbose:
                print(_line(engine, kind, found[kind]), flush=True)
            if save:
                profiles.write(identity, {kind: found[kind].settings})
    return found


@contextmanager
def _old_profile_ignored():
    """No warning of a profile that is to be measured again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is ignored: ", RuntimeWarning)
        yield


def _tune_kind(engine, kind, n_features, repeats):
    engine.tuned, layer = {}, example(kind, 1, 1, max(n_features))[1]
    default = engine.settings(layer)
    settings = dict(default)
    for name, values in engine.tunables(layer).items():
        is_statistics = name == "statistics"
        if is_statistics and layer.steps:
            continue  # sums of integers are exact
        time = _statistics_time if is_statistics else _synaptic_time
        found = time(engine, kind, n_features, repeats, [{**settings, name: v} for v in values])
        found = dict(zip(values, found, strict=True))
        best = min(found, key=lambda value: np.median(found[value]))
        if _wins(found[best], found[settings[name]], GAIN_STATISTICS if is_statistics else GAIN):
            settings[name] = best
    before, after = _synaptic_time(engine, kind, n_features, repeats + 2, [default, settings])
    engine.tuned = {}
    if not _wins(after, before, GAIN):  # each won by itself, all together they do not
        statistics = {k: v for k, v in settings.items() if k == "statistics"}
        settings, after = {**default, **statistics}, before
    return Tuned(settings, float(np.median(before)), float(np.median(after)))


def _wins(times, others, gain):
    """Whether it is faster by more than the measurements spread: in most rounds."""
    return np.quantile(np.divide(times, others), WON_ROUNDS) < gain


def _synaptic_time(engine, kind, n_features, repeats, candidates):
    """t_syn of each of the candidate settings, round by round: geometric means over n."""
    logs = [np.log(_synaptic_times(engine, kind, n, repeats, candidates)) for n in n_features]
    n_rounds = min(times.shape[1] for times in logs)
    return np.exp(np.mean([times[:, :n_rounds] for times in logs], axis=0))


def _synaptic_times(engine, kind, n_features, repeats, candidates):
    functions, synapses, arrays = {}, {}, {}
    for i, settings in enumerate(candidates):
        shape = settings["M"] * settings["asymmetry"], settings["M"] // settings["asymmetry"]
        if shape not in arrays:
            X, layer = example(kind, *shape, n_features)
            H = engine.xp.empty(shape, layer.hidden_dtype)
            arrays[shape] = engine.to_device(X), layer, H
        X, layer, H = arrays[shape]
        engine.tuned = {kind: settings}
        functions[i] = partial(engine.hidden, engine.prepare(layer), X, H)
        synapses[i] = H.size * n_features
    calls = 4 if engine.xp is not np else 1
    times = rounds(functions, repeats, stopwatch=engine.stopwatch, calls=calls)
    return np.array([np.divide(times[i], synapses[i]) for i in functions])


def _statistics_time(engine, kind, n_features, repeats, candidates):
    """Seconds to add a square tile of H to the statistics of a readout."""
    functions = {}
    for i, settings in enumerate(candidates):
        dtype = settings["statistics"]
        statistics = RidgeStatistics.zeros(settings["M"], 1, engine.algebra, dtype)
        H = engine.xp.ones((settings["M"], settings["M"]), np.float32)
        functions[i] = partial(statistics.update, H, engine.xp.ones((settings["M"], 1)))
    return list(rounds(functions, repeats, stopwatch=engine.stopwatch).values())


def example(kind, n_rows, n_units, n_features=1, seed=0):
    """Random rows, and a layer of that kind for them.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    layer : RBFLayer or TanhLayer
    """
    rng = np.random.default_rng(seed)
    *formula, dtype = kind.removesuffix(" bits").split()
    bits = None
    if dtype.isdigit():
        bits, dtype = int(dtype), formula.pop()
    X, units = (
        rng.integers(0, 256, (n, n_features), np.uint8).astype(dtype) for n in (n_rows, n_units)
    )
    if formula == ["tanh"]:
        if np.issubdtype(dtype, np.floating):
            # Products with weights of this size spread over the bend of tanh.
            centred = units.astype(np.float64) - 127.5
            units = (centred / (10923 * n_features**0.5)).astype(dtype)
        return X, rounded(TanhLayer(units, np.zeros(n_units, dtype)), bits)
    metric, kernel = formula
    typical = {"manhattan": 85 * n_features, "sqeuclidean": 10923 * n_features}
    typical["euclidean"] = typical["sqeuclidean"] ** 0.5
    radius = kernel_of(kernel).natural_radius(typical[metric])
    return X, rounded(RBFLayer(units, radius, metric, kernel), bits)


def _line(engine, kind, tuned):
    changed = {
        name: value
        for name, value in tuned.settings.items()
        if value != engine.tunables(example(kind, 1, 1)[1])[name][0]
    }
    what = ", ".join(f"{name} {value}" for name, value in changed.items()) or "the defaults"
    gain = tuned.default / tuned.best
    return f"{engine.name:7} {kind:39} {tuned.best * 1e12:8.4g} ps  {gain:5.2f} x default  {what}"
