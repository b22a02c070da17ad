"""Common parts of the benchmarks: arguments, and printing and storing of results."""

import argparse
import json
import time
from pathlib import Path

from sklearn_fsvc._src.engines.host import HostStopwatch, processor_name


class CpuStopwatch(HostStopwatch):
    """Measures the CPU time of all threads."""

    def __init__(self):
        super().__init__()
        self._last = time.process_time()

    def lap(self, stage):
        now = time.process_time()
        self._totals[stage] += now - self._last
        self._last = now


CLOCKS = {"wall": HostStopwatch, "cpu": CpuStopwatch}


def arguments(**extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    for name, options in extra.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


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
