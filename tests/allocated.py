"""What a call allocates, as NumPy reports it."""

import gc
import tracemalloc

MIB = 2**20
# Of the answer and of y: what the user asked for, and codes, not tiles.
PER_ROW = 64


def peak(function, *args):
    """(result, the most bytes held at one time during the call).

    No garbage is collected meanwhile: when that happens is chance, and no large array may wait
    for it.
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
