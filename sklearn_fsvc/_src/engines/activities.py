"""Outputs in steps in which they may be summed in any order.

Novelty selection compares sums of outputs with a threshold. Its centres do not depend on who
sums, and in what parts, because outputs are first rounded to multiples of 2^-40: float64 holds
sums of those exactly as long as they are below 2^13. Of float32 outputs only those under 2^-17
have digits to round. A sum that goes further has passed every threshold under 2^13, rounded or
not; to a larger one the sums are right to rounding, and blocks may decide what is as near.
"""

import numpy as np

# Added to an output, it leaves no room for digits under 2^-40. It is made for outputs up to
# 2048; larger ones come out as coarser multiples.
_SHIFT = 1.5 * 2.0**12


def in_steps(H, xp):
    """Outputs to the nearest multiple of 2^-40: a new array in float64."""
    H = xp.add(H, _SHIFT, dtype=np.float64)
    H -= _SHIFT
    return H


def novel_in_each(engine, layers, threshold):
    """`Engine.novel` for each of some layers: the rows are the units, and no activity is yet."""
    xp = engine.xp
    return [
        engine.novel(layer, layer.units, xp.zeros(layer.n_units), threshold) for layer in layers
    ]


def by_unit(engine, layer, X):
    """What each unit answers to the rows X: a row for each unit, rounded as `in_steps` does."""
    H = engine.hidden(engine.prepare(layer), X)
    return in_steps(engine.xp.ascontiguousarray(H.T), engine.xp)
