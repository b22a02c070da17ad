"""Peak memory of a call, as reported by tracemalloc (NumPy arrays included)."""

import gc
import tracemalloc

MIB = 2**20
# Bytes per sample of results and encoded targets, which do not count as temporary memory.
PER_ROW = 64


def peak(function, *args):
    """Return the result of the call, and the peak number of bytes allocated during it.

    Garbage collection is disabled: large arrays must be freed by their reference counts alone.
    """
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        result = function(*args)
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
