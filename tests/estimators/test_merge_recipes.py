"""The recipe of the documentation runs as it is printed, and gives what one fit gives."""

import re
import textwrap
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

PAGE = Path(__file__).parents[2] / "docs" / "beyond.rst"
IMAGES, DIGITS = load_digits(return_X_y=True)
PARTS = 5


def recipe(*words):
    """The code of the page from the blocks that hold these words, one block for each."""
    blocks = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", PAGE.read_text())
    chosen = [next(block for block in blocks if word in block) for word in words]
    return "\n".join(map(textwrap.dedent, chosen))


def load(shard):
    """Some rows; parts differ in length by one."""
    rows = np.array_split(np.random.default_rng(0).permutation(len(IMAGES)), PARTS)[shard]
    return IMAGES[rows], DIGITS[rows]


def test_joblib():
    names = {
        "__name__": "recipe", "sample": IMAGES[:1000], "classes": range(10), "load": load,
        "shards": range(PARTS),
    }  # fmt: skip
    exec(recipe("def learn", "joblib"), names)  # the page is ours
    # The rows are float64: of shorter ones `fit` makes products in float32.
    whole, model = names["whole"], names["model"]
    once = model.fit(IMAGES, DIGITS)
    np.testing.assert_allclose(
        whole.readout_coef_, once.readout_coef_, atol=1e-9 * abs(once.readout_coef_).max()
    )
    np.testing.assert_allclose(whole.readout_intercept_, once.readout_intercept_, atol=1e-8)
    np.testing.assert_array_equal(whole.predict(IMAGES), once.predict(IMAGES))
