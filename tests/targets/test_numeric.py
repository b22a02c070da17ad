"""Heavy-tailed targets raise a warning whose remedy works."""

import re
import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import QuantileTransformer

from sklearn_fsvc import HiddenSizeSearchCV, RBFRegressor, TanhRegressor

NAMES = {"np": np, "QuantileTransformer": QuantileTransformer}
NETWORK = RBFRegressor(100, random_state=0)


def make_data(n=600):
    """Return X and a normally distributed target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(scale=0.3, size=n)


TAILS = {
    "positive": (lambda z: np.exp(2 * z), "func=np.log, inverse_func=np.exp"),
    "tiny": (lambda z: 1e-9 * np.exp(2 * z), "func=np.log, inverse_func=np.exp"),
    "with 0": (lambda z: np.maximum(np.exp(2 * z) - 1, 0), "func=np.log1p, inverse_func=np.expm1"),
    "both signs": (
        lambda z: np.sinh(3 * z),
        'transformer=QuantileTransformer(output_distribution="normal")',
    ),
}


@pytest.mark.parametrize("cls", [RBFRegressor, TanhRegressor])
@pytest.mark.parametrize("name", TAILS)
def test_the_recommended_transform_halves_the_median_error(cls, name):
    X, z = make_data()
    transform, remedy = TAILS[name]
    y = transform(z)
    model, part = cls(100, random_state=0), slice(400)
    with pytest.warns(UserWarning, match=re.escape(remedy)) as caught:
        plain = model.fit(X[part], y[part])
    (message,) = (str(warning.message) for warning in caught)
    assert message.startswith("y has a heavy tail")
    recommended = eval(f"dict({remedy})", NAMES)
    assert f"TransformedTargetRegressor({cls.__name__}(...), " in message
    better = TransformedTargetRegressor(model, **recommended)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "n_quantiles")
        better.fit(X[part], y[part])
    errors = [np.median(abs(m.predict(X[400:]) - y[400:])) for m in (plain, better)]
    assert errors[1] < errors[0] / 2


def test_the_heavy_tailed_output_is_named():
    X, z = make_data()
    with pytest.warns(UserWarning, match=r"^Column 1 of y has a heavy tail.*np\.log,"):
        NETWORK.fit(X, np.column_stack([z, np.exp(2 * z), z**2]))


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(0).normal(size=600),
        np.random.default_rng(0).exponential(size=600),
        np.arange(600) == 7,  # still heavy-tailed after each transform
        np.where(np.arange(600) < 5, 1.0, -1.0),
        np.ones(600),
    ],
    ids=["normal", "exponential", "one", "rare", "constant"],
)
def test_no_warning_of_other_targets(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NETWORK.fit(make_data()[0], y)


def test_samples_of_weight_0_are_ignored():
    X, z = make_data()
    weight = np.arange(len(z)) != 7
    z[7] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NETWORK.fit(X, z, sample_weight=weight)
    with pytest.warns(UserWarning, match="heavy tail"):
        NETWORK.fit(X, z)


def test_searches_warn_and_accept_the_transform():
    X, z = make_data()
    y, sizes = np.exp(2 * z), [20, 60]
    how = {"cv": 2, "scoring": "neg_median_absolute_error"}
    with pytest.warns(UserWarning, match="heavy tail"):
        plain = HiddenSizeSearchCV(NETWORK, {"n_hidden": sizes}, **how).fit(X, y)
    model = TransformedTargetRegressor(NETWORK, func=np.log, inverse_func=np.exp)
    better = HiddenSizeSearchCV(model, {"regressor__n_hidden": sizes}, **how).fit(X, y)
    assert better.best_score_ > plain.best_score_ / 2


def test_intervals_of_a_transformed_target():
    """As documented: those of the inner regressor, with their ends transformed back."""
    X, z = make_data()
    network = RBFRegressor(100, uncertainty=True, random_state=0)
    model = TransformedTargetRegressor(network, func=np.log, inverse_func=np.exp)
    model.fit(X[:400], np.exp(2 * z[:400]))
    with pytest.raises(AttributeError, match=r"regressor_\.predict\(X, return_std=True\)"):
        model.predict(X, return_std=True)
    mean, std = model.regressor_.predict(X[400:], return_std=True)
    low, high = np.exp(mean - 1.645 * std), np.exp(mean + 1.645 * std)
    y = np.exp(2 * z[400:])
    assert 0.8 < ((low < y) & (y < high)).mean() < 0.97
