"""Peak memory of a call, as reported by tracemalloc (NumPy arrays included)."""

import gc
import tracemalloc

MIB = 2**20
# Bytes per sample of results and encoded targets, which are not temporary memory.
PER_ROW = 64


def peak(function, *args):
    """Return (result, peak of the bytes that are allocated during the call).

    Garbage collection is disabled: its time is random, and no large array may depend on it.
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
