"""Models saved with skops, which loads trusted types only."""

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    PatchProjector,
    PatchRegressor,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.kernels import KERNELS
from sklearn_fsvc.export.skops import TRUSTED

skops = pytest.importorskip("skops")
pytest.importorskip("skops.io")

X, Y = load_iris(return_X_y=True)
TABLE = pd.DataFrame({"size": X[:, 0], "kind": np.array(list("abc"))[Y]})
# The class depends on both columns together, and on neither alone.
INTERACTION = pd.DataFrame({"a": np.arange(150) % 3, "b": (Y + np.arange(150)) % 3}).astype(
    "category"
)
# The class depends on the difference of two numbers.
NUMBERS = pd.DataFrame({"a": (31.0 * np.arange(150)) % 151})
NUMBERS["b"] = NUMBERS["a"] + 30 * Y
# Many categories, dates, text and intervals.
ORDERS = pd.DataFrame(
    {
        "shop": [f"shop {i % 40}" for i in range(150)],
        "day": np.datetime64("2026-01-01") + np.arange(150) % 99,
        "comment": [f"number {i // 12} and number {i % 12}" for i in range(150)],
        "width": pd.cut(X[:, 1], 3),
    }
)
FIXED = {"random_state": 0, "device": "cpu"}
GIVEN = {"alpha": 1.0, "feature_weights": None, **FIXED}
GOLDEN = Path(__file__).parents[1] / "golden"
FROZEN = FrozenEstimator(TanhProjector(10, **FIXED).fit(X))
# name -> a function that returns a model, and its samples.
MAKERS = {
    "rbf classifier": (lambda: RBFClassifier(10, **FIXED), X),
    "tanh classifier": (lambda: TanhClassifier(10, **GIVEN), X),
    "softmax": (lambda: TanhClassifier(10, readout="softmax", alpha=1.0, **FIXED), X),
    "patch classifier": (lambda: PatchClassifier(10, alpha=1.0, **FIXED), X),
    "patch regressor": (lambda: PatchRegressor(10, uncertainty=True, alpha=1.0, **FIXED), X),
    "patch projector": (lambda: PatchProjector(10, kernel="laplacian", **FIXED), X),
    "rbf, linear map": (lambda: RBFRegressor(10, **GIVEN | {"feature_weights": X[:4]}), X),
    "rbf regressor": (lambda: RBFRegressor(10, uncertainty=True, **GIVEN), X),
    "logarithm": (lambda: RBFRegressor(10, target_transform="log", **GIVEN), X),
    "quantiles": (lambda: TanhRegressor(10, target_transform="quantiles", **GIVEN), X),
    "tanh regressor": (lambda: TanhRegressor(10, **GIVEN), X),
    "rbf projector": (lambda: RBFProjector(10, **FIXED), X),
    "tanh projector": (lambda: TanhProjector(10, **FIXED), X),
    "search": (
        lambda: HiddenSizeSearchCV(
            RBFClassifier(kernel="gaussian", **GIVEN), {"n_hidden": [4, 8]}, cv=2
        ),
        X,
    ),
    "table": (lambda: make_tabular_pipeline(TanhClassifier(10, **GIVEN)), TABLE),
    "table, regression": (lambda: make_tabular_pipeline(TanhRegressor(10, **GIVEN)), TABLE),
    "interactions": (lambda: make_tabular_pipeline(TanhClassifier(10, **GIVEN)), INTERACTION),
    "numerical interactions": (lambda: make_tabular_pipeline(TanhClassifier(10, **GIVEN)), NUMBERS),
    "orders": (lambda: make_tabular_pipeline(TanhClassifier(10, **GIVEN)), ORDERS),
    "stacked classifier": (lambda: StackedClassifier([("a", TanhClassifier(10, **GIVEN))]), X),
    "stacked regressor": (lambda: StackedRegressor([("a", TanhRegressor(10, **GIVEN))]), X),
    "pretrained": (lambda: TanhClassifier(layer=FROZEN, device="cpu"), X),
} | {
    f"kernel {kernel.name}": (functools.partial(RBFProjector, 10, kernel=kernel, **FIXED), X)
    for kernel in KERNELS.values()
}


@functools.cache
def fitted(name):
    make, rows = MAKERS[name]
    return make().fit(rows, Y), rows


def reload(model):
    """Save and load a model."""
    return skops.io.loads(skops.io.dumps(model), trusted=TRUSTED)


@pytest.mark.parametrize("name", MAKERS)
def test_predictions_are_the_same(name):
    model, rows = fitted(name)
    method = "predict" if hasattr(model, "predict") else "transform"
    np.testing.assert_array_equal(
        getattr(reload(model), method)(rows), getattr(model, method)(rows)
    )


@pytest.mark.parametrize("is_solved", [True, False])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("layer", [None, FROZEN], ids=["own layer", "pretrained layer"])
def test_partial_fit_continues(layer, form, is_solved):
    model = TanhClassifier(10, layer=layer, feature_weights=None, **FIXED)
    model.partial_fit(form(X[:100]), Y[:100], classes=range(3))
    if is_solved:
        model.solve()
    loaded = reload(model).partial_fit(form(X[100:]), Y[100:])
    model.partial_fit(form(X[100:]), Y[100:])
    coefs = loaded.solve().readout_coef_, model.solve().readout_coef_
    np.testing.assert_allclose(*coefs, rtol=1e-9, atol=1e-9)


def test_every_trusted_type_is_needed():
    """And exists: a name that no model needs may have moved."""
    learning = TanhClassifier(10, feature_weights=None, **FIXED)
    learning.partial_fit(X, Y, classes=range(3)).solve()
    given = TanhClassifier(layer=FROZEN, **FIXED)
    sparse = given.partial_fit(csr_array(X), Y, classes=range(3))
    rows = np.arange(300.0)[:, None]
    indicators = make_tabular_pipeline(TanhClassifier(10, **GIVEN)).fit(rows, rows[:, 0] > 99)
    models = [learning, sparse, indicators, *(fitted(name)[0] for name in MAKERS)]
    saved = [skops.io.dumps(model) for model in models]
    saved += [path.read_bytes() for path in GOLDEN.glob("*/*.skops")]  # with earlier names
    needed = [skops.io.get_untrusted_types(data=data) for data in saved]
    # skops trusts the name of the installed NumPy; other versions of it, and of pandas, have the
    # other one.
    moved = {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}
    moved |= {"pandas.Interval", "pandas._libs.interval.Interval"}
    assert set().union(moved, *needed) == set(TRUSTED)


def test_others_are_not_trusted():
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException, match="Other"):
        skops.io.loads(skops.io.dumps(Other()), trusted=TRUSTED)


class Other:
    def __init__(self):
        self.rows = 3
