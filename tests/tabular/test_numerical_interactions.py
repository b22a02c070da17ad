"""NumericalInteractionEncoder: rules over two columns are found, and noise is not."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFRegressor, TanhClassifier, TanhProjector, make_tabular_pipeline
from sklearn_fsvc._src.tabular.numerical_interactions import (
    Interaction,
    NumericalInteractionEncoder,
)
from tabular.tables import make_frame

N = 4000
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(2 * N, 5))
POSITIVE = RNG.uniform(0.1, 2, size=(2 * N, 5))
INTEGERS = RNG.integers(10, size=(2 * N, 5)).astype(float)


def n_distinct(X):
    return (np.diff(np.sort(X, axis=1), axis=1) > 0).sum(axis=1) + 1


# name -> samples, classes, and the operator and columns of one interaction.
RULES = {
    "two of five are equal": (INTEGERS, n_distinct(INTEGERS) < 5, "x0==x1"),
    "two of three are equal": (INTEGERS, n_distinct(INTEGERS[:, 2:]) < 3, "x2==x4"),
    "larger": (NORMAL, NORMAL[:, 0] > NORMAL[:, 3], "x0-x3"),
    "near": (NORMAL, abs(NORMAL[:, 1] - NORMAL[:, 2]) < 1, "x1-x2"),
    "product": (POSITIVE, POSITIVE[:, 0] * POSITIVE[:, 1] > POSITIVE[:, 2], "x0*x1"),
    "signs": (NORMAL + 7, (NORMAL[:, 0] > 0) ^ (NORMAL[:, 1] > 0), "x0*x1"),
    "ratio": (POSITIVE * [1, 1000, 1, 1, 1], POSITIVE[:, 0] > POSITIVE[:, 1], "x0/x1"),
}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=pytest.mark.exhaustive) if number % 2 else rule
        for number, rule in enumerate(RULES)
    ],
)
def test_rules(rule):
    X, y, name = RULES[rule]
    network = TanhClassifier(300, alpha=0.01, random_state=0)
    model = make_tabular_pipeline(network).fit(X[: N // 4], y[: N // 4])
    names = model[:-1].get_feature_names_out().tolist()
    assert f"numerical_interactions__{name}" in names
    assert model.score(X[N:], y[N:]) > 0.97


def test_interactions_that_are_weak_each():
    """The largest of five columns: each of ten differences explains less than 3 %."""
    encoder = NumericalInteractionEncoder().fit(NORMAL[:N], NORMAL[:N].argmax(axis=1))
    differences = {f"x{i}-x{j}" for i, j in combinations(range(5), 2)}
    assert set(encoder.get_feature_names_out()) == differences


def test_all_pairs_of_six_columns():
    """At least three of six equal values: no pair can be left out."""
    X = np.random.default_rng(0).integers(6, size=(N, 6)).astype(float)
    y = (X[:, :, None] == X[:, None]).sum(axis=2).max(axis=1) >= 3
    encoder = NumericalInteractionEncoder().fit(X, y)
    equalities = {f"x{i}==x{j}" for i, j in combinations(range(6), 2)}
    assert set(encoder.get_feature_names_out()) == equalities


def test_regression_of_several_outputs():
    y = np.column_stack([NORMAL[:, 0] * NORMAL[:, 1], NORMAL[:, 3] > NORMAL[:, 4]])
    encoder = NumericalInteractionEncoder("regression").fit(NORMAL[:N], y[:N])
    assert set(encoder.get_feature_names_out()) == {"x0*x1", "x3-x4"}


def test_features_of_new_samples():
    """By hand, before they are scaled by ranks."""
    X = np.array([[1.0, 2.0, 0.0], [3.0, 3.0, -4.0]])
    for interaction, expected in [
        (Interaction("==", 0, 1), [0, 1]),
        (Interaction("-", 1, 2), [2, 7]),
        (Interaction("/", 0, 2), [0, -0.75]),
        (Interaction("*", 0, 1, 2.0, 1.0), [-1, 2]),
    ]:
        np.testing.assert_array_equal(interaction.compute(X), expected)


@pytest.mark.parametrize(
    "y",
    [
        RNG.permutation(2 * N) < N,
        NORMAL.sum(axis=1) > 0.5,
        NORMAL[:, 0] > 0,
        np.zeros(2 * N, bool),
    ],
    ids=["noise", "additive", "one column", "one class"],
)
def test_no_interactions(y):
    encoder = NumericalInteractionEncoder().fit(np.hstack([NORMAL, INTEGERS])[:N], y[:N])
    assert encoder.interactions_ == []
    assert encoder.transform(np.hstack([NORMAL, INTEGERS])[:3]).shape == (3, 0)


def test_number_of_columns():
    """Up to 64 columns, of which pairs are preselected by fewer samples; without y none."""
    y = NORMAL[:, 0] > NORMAL[:, 1]
    noise = np.random.default_rng(1).normal(size=(2 * N, 59))
    for n_columns, names in [(59, ["x0-x1"]), (60, [])]:
        X = np.hstack([NORMAL, noise, noise])[:N, : 5 + n_columns]
        encoder = NumericalInteractionEncoder().fit(X, y[:N])
        assert encoder.get_feature_names_out().tolist() == names
    assert NumericalInteractionEncoder().fit(NORMAL).interactions_ == []
    assert NumericalInteractionEncoder().fit(NORMAL[:, :1], y).interactions_ == []


def test_rows_sorted_by_class():
    X = np.random.default_rng(2).normal(size=(3000, 30))
    y = X[:, 4] * X[:, 17] > 0
    order = np.argsort(y, kind="stable")
    encoder = NumericalInteractionEncoder().fit(X[order], y[order])
    assert encoder.get_feature_names_out().tolist() == ["x4*x17"]


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_extreme_and_missing_values(library):
    """Scores are finite and bounded by those of the training samples."""
    X = POSITIVE[:N, :3].copy()
    y = X[:, 0] > X[:, 1]
    X[::50, 0] = np.nan
    new = np.array([[1e300, -1e300, 1.0], [np.nan, 0.0, 0.0], [1e-300, 1e-300, 1.0]])

    def as_table(X):
        if library == "numpy":
            return X
        return make_frame(library, **{f"x{j}": column for j, column in enumerate(X.T)})

    model = make_tabular_pipeline(TanhProjector(2))["preprocessing"]
    assert not any("interactions" in n for n in model.fit(as_table(X), y).get_feature_names_out())
    model = make_tabular_pipeline(
        RBFRegressor(20, feature_weights=None, alpha=0.1, random_state=0)
    ).fit(as_table(X), y)
    encoder = model["preprocessing"].named_transformers_["numerical_interactions"]
    assert encoder.get_feature_names_out().tolist() == ["x0-x1"]
    H = encoder.transform(as_table(new))
    assert np.isfinite(model.predict(as_table(new))).all()
    assert H[0, 0] == encoder.transform(as_table(X)).max()


def test_large_tables_are_sampled():
    """The same samples each time, so that refits are equal."""
    X, y = np.tile(NORMAL, (2, 1)), np.tile(NORMAL[:, 0] > NORMAL[:, 3], 2)
    encoder = NumericalInteractionEncoder()
    H = encoder.fit(X, y).transform(X)
    np.testing.assert_array_equal(clone(encoder).fit(X, y).transform(X), H)
    assert encoder.get_feature_names_out().tolist() == ["x0-x3"]


def test_names_of_columns():
    X = pd.DataFrame(NORMAL[:N], columns=list("abcde"))
    encoder = NumericalInteractionEncoder().fit(X, X["a"] > X["d"])
    assert encoder.get_feature_names_out().tolist() == ["a-d"]
