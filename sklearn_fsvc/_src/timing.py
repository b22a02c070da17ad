"""Side by side in one process: each function in turn, again and again, and medians."""

import statistics
import time

from .engines.host import HostStopwatch


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
