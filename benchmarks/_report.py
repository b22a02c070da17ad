"""Common parts of the benchmarks: arguments, and printing and storing of results."""

import argparse
import json
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sklearn_fsvc._src.engines.host import HostStopwatch, processor_name


class CpuStopwatch(HostStopwatch):
    """Measures the CPU time of all threads."""

    def __init__(self):
        super().__init__()
        self._last = time.process_time()

    def time_stage(self, stage):
        now = time.process_time()
        self._totals[stage] += now - self._last
        self._last = now


def timed(fit, *args, clock=time.perf_counter, **options):
    """Return (the result of ``fit(*args, **options)``, its seconds)."""
    start = clock()
    fitted = fit(*args, **options)
    return fitted, clock() - start


CLOCKS = {"wall": HostStopwatch, "cpu": CpuStopwatch}


def arguments(**extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    for name, options in extra.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def available(methods, names=None):
    """Return the names of methods, all or those in "name; name", whose packages are installed.

    `methods` is {name: (packages, function)}.
    """
    names = names.split("; ") if names else list(methods)
    return [name for name in names if all(map(find_spec, methods[name][0]))]


def report_datasets(args, title, measured, results):
    """Report {method: {dataset: values}}, and the means over the datasets, a title per method.

    `measured` has a name for each of the values.
    """
    for method, of_datasets in results.items():
        means = np.mean(list(of_datasets.values()), axis=0)
        rows = [
            (f"{dataset}: {what}", float(value))
            for dataset, values in [*of_datasets.items(), ("mean", means)]
            for what, value in zip(measured, values, strict=True)
        ]
        report(args, f"{title}: {method}", rows)


def report(args, title, rows, **machine):
    """Print rows (name, value), and store them with the machine if `--json` is given."""
    print(f"\n{title}\n{'-' * len(title)}")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value:.4g}")
    if args.json:
        old = json.loads(args.json.read_text()) if args.json.exists() else {}
        values = {name: float(value) for name, value in rows}
        old[title] = values | {"machine": processor_name()} | machine
        args.json.write_text(json.dumps(old, indent=1) + "\n")
