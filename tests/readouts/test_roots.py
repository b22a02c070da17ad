import gc
import weakref
from functools import partial

import numpy as np
import pytest

from sklearn_fsvc._src.readouts.calibration import find_root


def test_nothing_waits_for_the_garbage_collector():
    """As what `scipy.optimize.brentq` is given does."""
    function = partial(np.polyval, np.array([1.0, 0.0, -2.0]))
    gone = weakref.ref(function.args[0])
    gc.disable()
    try:
        assert find_root(function, 0.0, 2.0, 1e-12) == pytest.approx(2**0.5)
        del function
        assert gone() is None
    finally:
        gc.enable()


def test_an_error_of_the_function_is_raised():
    with pytest.raises(ZeroDivisionError):
        find_root(lambda x: 1 / 0, 0.0, 1.0, 1e-3)
