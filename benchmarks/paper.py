"""Reproduce the tables and figures of the ISEEE 2017 paper: see `_paper_experiments`.

python benchmarks/paper.py EXPERIMENT [--device cuda] [--quick] [--output FOLDER]
`--help` lists the experiments; "all" runs all of them.
"""

import argparse
import math
import time
from importlib.util import find_spec
from pathlib import Path

import _paper_experiments  # noqa: F401  (fills EXPERIMENTS)
from _paper_run import EXPERIMENTS, Run
from sklearn_fsvc._src.engines import get_engine


def measure(names, device="auto", quick=False, output="paper-results", draw=None, run_type=Run):
    """Run experiments: print their tables, write them as CSV and draw them.

    Parameters
    ----------
    names : sequence of str
        Out of `EXPERIMENTS`, or "all".
    device : str
        As of estimators; "auto" is a GPU if one works.
    quick : bool
        Smaller layers and fewer measurements.
    output : str or Path
        Folder for the files.
    draw : bool, optional
        Whether to draw figures; by default if matplotlib is installed.
    run_type : type
        `Run`, or a subclass with other sizes.

    Returns
    -------
    list of Results

    Raises
    ------
    ValueError, RuntimeError
        If an experiment or the device is not known, or the device does not work here.
    """
    names = list(EXPERIMENTS) if "all" in names else list(names)
    for name in names:
        if name not in EXPERIMENTS:
            known = ", ".join((*EXPERIMENTS, "all"))
            raise ValueError(f"name={name!r} is not an experiment; choose from {known}.")
    draw = find_spec("matplotlib") is not None if draw is None else draw
    output, done = Path(output), []
    with get_engine(device, math.inf) as engine:
        output.mkdir(parents=True, exist_ok=True)
        run = run_type(engine, quick)
        for name in names:
            start = time.perf_counter()
            command = f"python benchmarks/paper.py {name} --device {engine.name}"
            results = EXPERIMENTS[name](run, command + (" --quick" if quick else ""))
            path = results.write_csv(output)
            print(results.text())
            if draw:
                path = results.draw(path.with_suffix(".png")) or path
            print(f"{time.perf_counter() - start:.1f} s, {path}\n", flush=True)
            done.append(results)
    return done


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{n:10} {e.options['title']}" for n, e in EXPERIMENTS.items()),
    )
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all"], metavar="EXPERIMENT")
    parser.add_argument("--device", default="auto", help="as estimators take it (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="all of them in two minutes")
    parser.add_argument("--output", default="paper-results", help="folder (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    args = arguments()
    measure([args.experiment], args.device, args.quick, args.output)
