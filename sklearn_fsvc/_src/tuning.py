"""Measurement of the fastest settings of an engine, which are saved as a profile.

Dogaru & Dogaru (2017) optimise "basic layers": for a device and a kind of layer they search the
size M and the asymmetry As with the least synaptic time ``t_syn = t / (N m n)``, where N = M As
samples are evaluated by m = M / As units with n features. `tune` does so for every setting of an
engine, one after the other (coordinate descent). The profile, which engines read when they are
entered, is in `engines.profiles`; this module is above the readouts, whose statistics it measures.

A default is replaced only by what is clearly faster. Two things would deceive the comparison:
noise, which the quartiles of repeated measurements show, and other processes, which make few
threads look fast in all of them. So what was measured while they computed is not stored.
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from .engines import Engine, get_engine, profiles
from .engines.base import Stopwatch
from .engines.host import HostStopwatch
from .engines.threads import n_threads
from .kernels import DISTANCE, KERNELS, METRICS, get_kernel
from .layers import RBFLayer, TanhLayer, quantize_layer
from .readouts.statistics import RidgeStatistics
from .utils.parameters import check_positive, check_positive_integer
from .utils.user_warnings import warn

# A value replaces the one before if the upper quartile of the ratios of their times is below this.
# A smaller gain, or one that is not repeated, is noise.
GAIN = 0.97
# The part of the time that is planned: rounds that have begun are completed.
_PLANNED = 0.85
# The least number of rounds of a comparison, unless `repeats` is smaller.
_MIN_ROUNDS = 3
# The share of the cores up to which other processes do not change what is fastest, and the seconds
# in which it is measured.
_MAX_LOAD, _LOAD_SECONDS = 0.1, 0.1
# float32 statistics are less accurate, so they must at least halve the time.
GAIN_STATISTICS = 0.5

KINDS = tuple(
    f"{metric} {kernel} {dtype}"
    for metric in METRICS
    for kernel in (*KERNELS, DISTANCE.name)
    for dtype in (["uint8"] if metric == "manhattan" else []) + ["float32", "float64"]
) + ("tanh float32", "tanh float64")

# Kinds with rounded activations, whose last step is a table or a rounding.
ROUNDED = tuple(
    f"{kind} {bits} bits" for kind in KINDS if DISTANCE.name not in kind for bits in (8, 15)
)

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Tuned:
    """The fastest settings of one kind of layer.

    Attributes
    ----------
    settings : dict
        Name -> the best value.
    default, best : float
        Seconds per sample, unit and feature with the default settings and with these, measured
        alternately: the geometric mean over the numbers of features.
    load : float
        The share of the cores that other processes used. If it is more than a tenth, the settings
        are the defaults, and they are not saved; NaN times were not measured.
    """

    settings: dict
    default: float
    best: float
    load: float = 0.0


def tune(
    device: str = "auto", kinds: str | Sequence[str] = KINDS, *, n_features: Any = (128, 784),
    repeats: int = 5, max_seconds: float = 180, save: bool = True, verbose: int = 0,
) -> dict[str, Tuned]:  # fmt: skip
    """Measure which settings of an engine are fastest on this machine, and save them.

    Kinds that differ only in their kernel are measured once: nearly all of the time is that of the
    distances. A default is replaced only if another value is faster by 3 % in three quarters of the
    measurements, and by more than their interquartile range.

    Parameters
    ----------
    device : str, default="auto"
        As for estimators; "auto" is a GPU if one works.
    kinds : str or sequence of str, optional
        Kinds of layers: metric, kernel and dtype, or "tanh" and dtype. For fits with 8 or 15 bits,
        followed by ``"8 bits"`` or ``"15 bits"``. All without bits by default.
    n_features : int or sequence of int, default=(128, 784)
        The settings minimise the geometric mean of the times over all of these.
    repeats : int, default=5
        Measurements of each value, unless the time limit is reached.
    max_seconds : float, default=180
        Time for all kinds together. Settings that are not measured in time keep their defaults.
    save : bool, default=True
        Whether to write the profile of this machine.
    verbose : int, default=0
        Above 0, print a line for each kind.

    Returns
    -------
    found : dict of str to Tuned
        Kind -> the fastest settings, for each of `kinds`.

    Raises
    ------
    ValueError, RuntimeError
        If the device or a kind is not known, or does not work here; if the profile cannot
        be written.

    Warns
    -----
    RuntimeWarning
        If other processes used more than a tenth of the cores: nothing is saved for the kinds that
        were measured meanwhile.

    Examples
    --------
    >>> found = tune("jit", ["tanh float32"], n_features=8, repeats=1, save=False)
    >>> sorted(found["tanh float32"].settings)
    ['M', 'asymmetry', 'block', 'step', 'threads', 'tile_rows', 'tile_units']
    """
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        if kind not in KINDS + ROUNDED:
            raise ValueError(
                f"kind={kind!r} is not known; choose from {', '.join(KINDS)}, or one of these "
                'followed by " 8 bits" or " 15 bits", except for distances.'
            )
    numbers = [n_features] if isinstance(n_features, Integral) else n_features
    n_features = [check_positive_integer("n_features", n) for n in numbers]
    repeats = check_positive_integer("repeats", repeats)
    max_seconds = check_positive("max_seconds", max_seconds)
    with _without_profile_warnings(), get_engine(device, math.inf) as engine:
        return tune_engine(
            engine, kinds, n_features, repeats, save=save, verbose=verbose, max_seconds=max_seconds
        )


def tune_engine(
    engine: Any, kinds: Sequence[str], n_features: Sequence[int], repeats: int, *,
    save: bool = True, verbose: int = 0, max_seconds: float = 180,
    measure: Callable[..., Mapping] | None = None, load: Callable[[], float] | None = None,
) -> dict[str, Tuned]:  # fmt: skip
    """`tune` for an engine that is entered.

    `measure` takes the times, as `rounds` does, and `load` returns the share of the cores that
    others take, as `other_load` does.
    """
    tuner = Tuner(engine, n_features, repeats, measure or rounds)
    found: dict[str, Tuned] = {}
    if load is None:  # that of a GPU is not known
        load = other_load if engine.xp is np else float
    identity = engine.identity()
    if save:
        profiles.check_writable(identity)  # fail now, rather than after minutes
    end, groups = time.perf_counter() + _PLANNED * max_seconds, group_kinds(kinds)
    for n_done, members in enumerate(groups):
        now = time.perf_counter()
        tuned = tuner.tune(members[0], now + (end - now) / (len(groups) - n_done), load)
        found |= dict.fromkeys(members, tuned)
        if verbose:
            for kind in members:
                print(_format_line(engine, kind, tuned), flush=True)
        if save and is_reliable(tuned):
            profiles.write(identity, dict.fromkeys(members, tuned.settings))
    if save:
        _warn_of_load(found)
    return found


def is_reliable(tuned: Tuned) -> bool:
    """Return whether few other processes computed during the measurement."""
    return tuned.load <= _MAX_LOAD


def group_kinds(kinds: Sequence[str]) -> list[list[str]]:
    """Return the kinds in groups that differ in their kernel alone."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for kind in kinds:
        formula, *others = kind.split()
        key = (formula, *(others if formula == "tanh" else others[1:]))
        groups.setdefault(key, []).append(kind)
    return list(groups.values())


def other_load() -> float:
    """Return the share of the cores that other processes take: 0 on an idle machine.

    As many threads as engines use compute for a moment. What a thread lacks of the processor time
    that has passed was taken by others.
    """

    def compute(values: np.ndarray) -> tuple[float, float]:
        start, own = time.perf_counter(), time.thread_time()
        while time.perf_counter() - start < _LOAD_SECONDS:
            np.sqrt(values, out=values)
        return time.thread_time() - own, time.perf_counter() - start

    arrays = [np.ones(2**18) for _ in range(n_threads())]
    with ThreadPoolExecutor(len(arrays)) as pool:
        own, passed = np.sum(list(pool.map(compute, arrays)), axis=0)
    return float(max(0.0, 1 - own / passed))


def _warn_of_load(found: Mapping[str, Tuned]) -> None:
    busy = [tuned.load for tuned in found.values() if not is_reliable(tuned)]
    if busy:
        warn(
            f"Other processes took up to {max(busy):.0%} of the cores: for {len(busy)} of "
            f"{len(found)} kinds of layers the defaults are kept, and nothing is saved. Tune again "
            "when the machine is idle.",
            RuntimeWarning,
        )


@dataclass
class LayerRun:
    """Evaluates a layer on the samples of a basic layer, with some settings."""

    engine: Engine
    settings: Settings
    prepared: Any
    X: Any
    H: Any

    def __call__(self) -> None:
        self.engine.hidden(self.prepared, self.X, self.H)


@dataclass
class StatisticsRun:
    """Adds a square tile of H to the statistics of a readout, with some settings."""

    settings: Settings
    statistics: RidgeStatistics
    H: Any
    Y: Any

    def __call__(self) -> None:
        self.statistics.update(self.H, self.Y)


@dataclass(frozen=True)
class Tuner:
    """Searches the settings of an engine for kinds of layers."""

    engine: Any
    n_features: Sequence[int]
    repeats: int
    measure: Callable[..., Mapping]

    def tune(self, kind: str, end: float, load: Callable[[], float]) -> Tuned:
        """Return the fastest settings that are found until `end`, a time of `perf_counter`."""
        engine = self.engine
        engine.tuned, layer = {}, example(kind, 1, 1, max(self.n_features))[1]
        default = engine.settings(layer)
        if (before := load()) > _MAX_LOAD:
            return Tuned(default, math.nan, math.nan, before)
        tuned = self._search(kind, layer, default, end)
        if (after := load()) > _MAX_LOAD:
            return Tuned(default, tuned.default, tuned.default, after)
        return replace(tuned, load=max(before, after))

    def _search(self, kind, layer, default, end):
        """Return the fastest settings: each by itself, unless all together are not faster."""
        settings = self._search_each(kind, layer, default, end)
        # Measure all of them together, with more rounds.
        seconds = max(0.0, end - time.perf_counter())
        both = [default] if settings == default else [default, settings]
        before, *others = self._synaptic_times(kind, both, self.repeats + 2, seconds)
        after = others[0] if others else before
        self.engine.tuned = {}
        if not self._is_faster(after, before, GAIN):
            precision = {k: v for k, v in settings.items() if k == "statistics"}
            settings, after = {**default, **precision}, before
        return Tuned(settings, float(np.median(before)), float(np.median(after)))

    def _search_each(self, kind, layer, default, end):
        """Return the settings with each replaced by the fastest value, one after the other."""
        settings = dict(default)
        tunables = {
            name: values
            for name, values in self.engine.tunables(layer).items()
            # Sums of integers are exact.
            if len(values) > 1 and not (name == "statistics" and layer.quantizer)
        }
        for n_done, (name, values) in enumerate(tunables.items()):
            # All together are measured at the end, which takes a share, too.
            seconds = (end - time.perf_counter()) / (len(tunables) - n_done + 1)
            if seconds <= 0:
                break
            is_statistics = name == "statistics"
            time_all = self._statistics_times if is_statistics else self._synaptic_times
            candidates = [{**settings, name: value} for value in values]
            measured = time_all(kind, candidates, self.repeats, seconds)
            times = dict(zip(values, measured, strict=True))
            best = min(times, key=lambda value: np.median(times[value]))
            gain = GAIN_STATISTICS if is_statistics else GAIN
            if self._is_faster(times[best], times[settings[name]], gain):
                settings[name] = best
        return settings

    def _is_faster(self, times, others, gain):
        has_enough = len(times) >= min(_MIN_ROUNDS, self.repeats)
        return has_enough and is_faster(times, others, gain)

    def _synaptic_times(self, kind, candidates, repeats, seconds):
        """Return t_syn of each candidate, (candidates, rounds): the geometric mean over n."""
        seconds /= len(self.n_features)
        logs = [np.log(self._times(kind, n, candidates, repeats, seconds)) for n in self.n_features]
        n_rounds = min(times.shape[1] for times in logs)
        return np.exp(np.mean([times[:, :n_rounds] for times in logs], axis=0))

    def _times(self, kind, n_features, candidates, repeats, seconds):
        """Return t_syn of each candidate for layers of `n_features`, (candidates, rounds)."""
        engine, runs, arrays = self.engine, {}, {}
        for i, settings in enumerate(candidates):
            shape = settings["M"] * settings["asymmetry"], settings["M"] // settings["asymmetry"]
            if shape not in arrays:
                X, layer = example(kind, *shape, n_features)
                H = engine.xp.empty(shape, layer.hidden_dtype)
                arrays[shape] = engine.to_device(X), layer, H
            X, layer, H = arrays[shape]
            engine.tuned = {kind: settings}
            runs[i] = LayerRun(engine, settings, engine.prepare(layer), X, H)
        # On a GPU several calls are queued, so that the overhead of a launch is hidden.
        calls = 4 if engine.xp is not np else 1
        times = self.measure(runs, repeats, seconds, stopwatch=engine.stopwatch, calls=calls)
        return np.array([np.divide(times[i], run.H.size * n_features) for i, run in runs.items()])

    def _statistics_times(self, kind, candidates, repeats, seconds):
        """Return the seconds of a `StatisticsRun` with each candidate, for each round."""
        xp, runs = self.engine.xp, {}
        for i, settings in enumerate(candidates):
            m = settings["M"]
            statistics = RidgeStatistics.zeros(m, 1, self.engine.algebra, settings["statistics"])
            runs[i] = StatisticsRun(
                settings, statistics, xp.ones((m, m), np.float32), xp.ones((m, 1))
            )
        stopwatch = self.engine.stopwatch
        return list(self.measure(runs, repeats, seconds, stopwatch=stopwatch).values())


def is_faster(times: Sequence[float], others: Sequence[float], gain: float) -> bool:
    """Return whether times are clearly below those of others, which were measured alternately.

    The upper quartile of the ratios of pairs must be below `gain`, and the median must gain more
    than their interquartile range.
    """
    low, median, high = np.quantile(np.divide(times, others), (0.25, 0.5, 0.75))
    return bool(high < gain and 1 - median > high - low)


def medians(
    functions: Mapping[Any, Callable[[], object]], repeats: int = 7, seconds: float = 60,
    stopwatch: Callable[[], Stopwatch] = HostStopwatch, calls: int = 1,
) -> dict[Any, float]:  # fmt: skip
    """Return the median seconds of a call of each of the functions, by name: see `rounds`."""
    times = rounds(functions, repeats, seconds, stopwatch, calls)
    return {name: statistics.median(t) for name, t in times.items()}


def rounds(
    functions: Mapping[Any, Callable[[], object]], repeats: int = 7, seconds: float = 60,
    stopwatch: Callable[[], Stopwatch] = HostStopwatch, calls: int = 1,
) -> dict[Any, list[float]]:  # fmt: skip
    """Return the seconds of a call of each of the functions, for each round.

    All are called once to warm up, which counts as time but not as a round; then alternately, so
    that a change of the speed of the machine affects all of them.

    Parameters
    ----------
    functions : dict of str to callable
    repeats : int
        Measurements of each; fewer, but one at least, if `seconds` have passed before.
    stopwatch : callable
        Returns an ``engines.base.Stopwatch``; that of an engine includes asynchronous work.
    calls : int
        Calls that are measured as one.

    Returns
    -------
    dict of str to list of float
    """
    start = time.perf_counter()
    for function in functions.values():
        function()
    times: dict[Any, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            watch = stopwatch()
            for _ in range(calls):
                function()
            watch.time_stage(name)
            times[name].append(watch.totals()[name] / calls)
        if time.perf_counter() - start > seconds:
            break
    return times


def example(
    kind: str, n_rows: int, n_units: int, n_features: int = 1, seed: int = 0
) -> tuple[np.ndarray, Any]:
    """Return random samples, and a layer of a kind with typical activations for them.

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
            # Integers from 0 to 255 have a mean square of 21717 and a variance of 5461; with
            # weights of this size the products are spread over the nonlinear range of tanh.
            centred = units.astype(np.float64) - 127.5
            units = (centred / (10923 * n_features**0.5)).astype(dtype)
        return X, quantize_layer(TanhLayer(units, np.zeros(n_units, dtype)), bits)
    metric, kernel = formula
    # The expected distances of integers from 0 to 255: |x - c| is 85 and its square 10923 each.
    typical = {"manhattan": 85 * n_features, "sqeuclidean": 10923 * n_features}
    typical["euclidean"] = typical["sqeuclidean"] ** 0.5
    radius = get_kernel(kernel).natural_radius(typical[metric])
    return X, quantize_layer(RBFLayer(units, radius, metric, kernel), bits)


@contextmanager
def _without_profile_warnings():
    """Ignore warnings of a profile that will be measured again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is ignored: ", RuntimeWarning)
        yield


def _format_line(engine, kind, tuned):
    changed = {
        name: value
        for name, value in tuned.settings.items()
        if value != engine.tunables(example(kind, 1, 1)[1])[name][0]
    }
    what = ", ".join(f"{name} {value}" for name, value in changed.items()) or "the defaults"
    if not is_reliable(tuned):
        others = f"other processes took {tuned.load:.0%} of the cores"
        return f"{engine.name:7} {kind:39} not saved: {others}"
    gain = tuned.default / tuned.best
    return f"{engine.name:7} {kind:39} {tuned.best * 1e12:8.4g} ps  {gain:5.2f} x default  {what}"
