"""Import of benchmark modules, whose folder is not on the path: names clash with test folders."""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = str(Path(__file__).parents[1] / "benchmarks")


def benchmark(name):
    """Return a module of the benchmarks, which may import others of its folder."""
    sys.path.insert(0, FOLDER)
    try:
        return import_module(name)
    finally:
        sys.path.remove(FOLDER)
