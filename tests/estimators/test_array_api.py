"""Arrays of other libraries on the host, with and without scikit-learn's dispatch."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("array_api_strict")

CODE = """
    import warnings
    warnings.simplefilter("error")
    import array_api_strict as xp
    import numpy as np
    import sklearn
    from sklearn.base import clone
    from sklearn_fsvc import {name}

    sklearn.set_config(array_api_dispatch=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)).astype({dtype!r})
    y = (X[:, 0] > 0).astype(int)
    model = {name}(10, random_state=0)
    ours = clone(model).fit(xp.asarray(X), xp.asarray(y))
    plain = model.fit(X, y)
    how = "transform" if hasattr(model, "transform") else "predict"
    answers = getattr(ours, how)(xp.asarray(X))
    assert type(answers) is np.ndarray
    np.testing.assert_array_equal(answers, getattr(plain, how)(X))
    if how == "predict":
        weight = rng.random(100)
        clone(model).fit(xp.asarray(X), xp.asarray(y), xp.asarray(weight))
        known = dict(classes=[0, 1]) if hasattr(model, "classes_") else dict()
        summed = clone(model).partial_fit(xp.asarray(X), xp.asarray(y), **known)
        summed.forget(xp.asarray(X[:5]), xp.asarray(y[:5]))
        there = xp.asarray(X), xp.asarray(y), xp.asarray(weight)
        assert ours.score(*there) == plain.score(X, y, weight)
"""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("TanhClassifier", "float32"), ("RBFClassifier", "float64"), ("TanhRegressor", "float64"),
        ("TanhProjector", "uint8"), ("RBFProjector", "float32"),
    ],
)  # fmt: skip
def test_dispatch(name, dtype):
    # scikit-learn wants SCIPY_ARRAY_API to be set before SciPy is imported.
    code = textwrap.dedent(CODE).format(name=name, dtype=dtype)
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"}
    )
