"""Arrays of other libraries on the host, with and without scikit-learn's array API dispatch."""

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
    import sklearn_fsvc
    from sklearn.base import clone

    sklearn.set_config(array_api_dispatch=True)
    for name, dtype in (
        ("TanhClassifier", "float32"), ("RBFClassifier", "float64"), ("TanhRegressor", "float64"),
        ("TanhProjector", "uint8"), ("RBFProjector", "float32"),
    ):
        print(name, dtype)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 4)).astype(dtype)
        y = (X[:, 0] > 0).astype(int)
        model = getattr(sklearn_fsvc, name)(10, random_state=0)
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


def test_dispatch():
    # scikit-learn wants SCIPY_ARRAY_API to be set before SciPy is imported.
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE)],
        env=os.environ | {"SCIPY_ARRAY_API": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
