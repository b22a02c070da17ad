"""Modules of the benchmarks, whose folder is on no path here: some have names of folders."""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = str(Path(__file__).parents[1] / "benchmarks")


def benchmark(name):
    """Return a module of the folder, with all that it imports from there."""
    sys.path.insert(0, FOLDER)
    try:
        return import_module(name)
    finally:
        sys.path.remove(FOLDER)
