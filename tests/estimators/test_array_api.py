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
        dispatched = clone(model).fit(xp.asarray(X), xp.asarray(y))
        expected = model.fit(X, y)
        method = "transform" if hasattr(model, "transform") else "predict"
        outputs = getattr(dispatched, method)(xp.asarray(X))
        assert type(outputs) is np.ndarray
        np.testing.assert_array_equal(outputs, getattr(expected, method)(X))
        if method == "predict":
            weight = rng.random(100)
            clone(model).fit(xp.asarray(X), xp.asarray(y), xp.asarray(weight))
            classes = dict(classes=[0, 1]) if hasattr(model, "classes_") else dict()
            incremental = clone(model).partial_fit(xp.asarray(X), xp.asarray(y), **classes)
            incremental.forget(xp.asarray(X[:5]), xp.asarray(y[:5]))
            arguments = xp.asarray(X), xp.asarray(y), xp.asarray(weight)
            assert dispatched.score(*arguments) == expected.score(X, y, weight)
"""


@pytest.mark.exhaustive
def test_array_api_dispatch_gives_the_results_of_numpy():
    # scikit-learn requires SCIPY_ARRAY_API to be set before SciPy is imported.
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE)],
        env=os.environ | {"SCIPY_ARRAY_API": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
