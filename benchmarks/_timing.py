"""Side by side in one process: each function in turn, again and again, and medians."""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path


def medians(functions, repeats=7, seconds=60):
    """{name: median seconds}. One call each to warm up; then in turn, so that a machine
    that slows down slows all of them. Stops early when `seconds` are used up."""
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    start = time.perf_counter()
    for _ in range(repeats):
        for name, function in functions.items():
            before = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - before)
        if time.perf_counter() - start > seconds:
            break
    return {name: statistics.median(t) for name, t in times.items()}


def arguments(**extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    for name, options in extra.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def report(args, title, rows, **machine):
    """Print rows (name, value) and keep them, with the machine, if asked to."""
    print(f"\n{title}\n{'-' * len(title)}")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value:.4g}")
    if args.json:
        old = json.loads(args.json.read_text()) if args.json.exists() else {}
        old[title] = dict(rows) | {"machine": processor()} | machine
        args.json.write_text(json.dumps(old, indent=1) + "\n")


def processor():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
