"""Where a function is 0."""

from scipy.optimize import brentq


def root(function, least, most, xtol):
    """`scipy.optimize.brentq`, after which nothing holds the function, nor the arrays that it uses.

    SciPy wraps a function in another one that refers to itself: they would stay in memory until the
    garbage collector comes, which does not count how large they are.
    """
    held = [function]
    try:
        return brentq(lambda x: held[0](x), least, most, xtol=xtol)
    finally:
        held.clear()
