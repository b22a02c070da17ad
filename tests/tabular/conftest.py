"""Fixtures of the tests of tabular data."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def mixed(rng):
    """60 samples whose class depends on size and color; return X and y."""
    size = rng.lognormal(sigma=2, size=60)
    color = rng.choice(["red", "green", "blue"], size=60)
    y = (size > 1) ^ (color == "red")
    size[::10] = np.nan
    return pd.DataFrame({"size": size, "color": color, "new": rng.random(60) < 0.5}), y
