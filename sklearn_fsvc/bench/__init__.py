"""The tables and figures of the ISEEE 2017 paper, measured anew: see `experiments`."""

import math
import time
from importlib.util import find_spec
from pathlib import Path

from ..engines import get_engine
from . import experiments  # noqa: F401  (fills EXPERIMENTS)
from .run import EXPERIMENTS, Run


def bench(names, device="auto", quick=False, output="bench", draw=None):
    """Run experiments: print their tables, write them as CSV and draw them.

    Parameters
    ----------
    names : sequence of str
        Out of `EXPERIMENTS`, or "all".
    device : str
        As estimators take it; "auto" is a GPU if one works.
    quick : bool
        Smaller layers and fewer measurements.
    output : str or Path
        Folder for the files.
    draw : bool, optional
        Whether to draw pictures; by default if matplotlib is installed.

    Returns
    -------
    list of Results

    Raises
    ------
    ValueError, RuntimeError
        If an experiment or the device is not known, or the device does not work here.

    Examples
    --------
    >>> EXPERIMENTS["table5"].options["title"]
    'Table V: platforms'
    """
    names = list(EXPERIMENTS) if "all" in names else list(names)
    for name in names:
        if name not in EXPERIMENTS:
            known = ", ".join((*EXPERIMENTS, "all"))
            raise ValueError(f"name={name!r} is no experiment; choose from {known}.")
    draw = find_spec("matplotlib") is not None if draw is None else draw
    output, done = Path(output), []
    with get_engine(device, math.inf) as engine:
        output.mkdir(parents=True, exist_ok=True)
        run = Run(engine, quick)
        for name in names:
            start = time.perf_counter()
            command = f"python -m sklearn_fsvc bench {name} --device {engine.name}"
            results = EXPERIMENTS[name](run, command + (" --quick" if quick else ""))
            path = results.write_csv(output)
            print(results.text())
            if draw:
                path = results.draw(path.with_suffix(".png")) or path
            print(f"{time.perf_counter() - start:.1f} s, {path}\n", flush=True)
            done.append(results)
    return done
