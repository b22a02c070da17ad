"""The recipe of the documentation for `merge` runs as printed, and equals one fit."""

import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

PAGE = Path(__file__).parents[2] / "docs" / "beyond.rst"
IMAGES, DIGITS = load_digits(return_X_y=True)
PARTS = 5


def recipe(library):
    """Return code of the page: the shared function, and the calls of the library."""
    blocks = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", PAGE.read_text())
    patterns = r"def learn", rf"(from|import) {library}\b"
    chosen = [next(block for block in blocks if re.search(pattern, block)) for pattern in patterns]
    return "\n".join(map(textwrap.dedent, chosen))


def load(shard):
    """Return the samples of a shard."""
    rows = np.array_split(np.random.default_rng(0).permutation(len(IMAGES)), PARTS)[shard]
    return IMAGES[rows], DIGITS[rows]


# As if it had been defined interactively: it is pickled by value, not by the name of this module.
load.__module__ = "recipe"


@pytest.mark.exhaustive
@pytest.mark.parametrize("library", ["joblib", "ray", "pyspark"])
def test_the_documented_recipe_equals_one_fit(library, monkeypatch):
    """Ray and Spark are not in any extra; the test runs if they are installed."""
    pytest.importorskip(library)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    names = {
        "__name__": "recipe", "sample": IMAGES[:1000], "classes": range(10), "load": load,
        "shards": range(PARTS),
    }  # fmt: skip
    exec(recipe(library), names)  # code of our own documentation
    # The samples are float64: for float32 `fit` computes products in float32.
    whole, model = names["whole"].solve(), names["model"]
    expected = model.fit(IMAGES, DIGITS)
    np.testing.assert_allclose(
        whole.readout_coef_, expected.readout_coef_, atol=1e-9 * abs(expected.readout_coef_).max()
    )
    np.testing.assert_allclose(whole.readout_intercept_, expected.readout_intercept_, atol=1e-8)
    np.testing.assert_array_equal(whole.predict(IMAGES), expected.predict(IMAGES))
