"""Crosses of categories in make_tabular_pipeline: which pairs, what values, and no leak of y."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc.inspection import FeatureWeightsDisplay

N = 600
CODES = np.random.default_rng(0).integers(4, size=(N, 3))
X = pd.DataFrame({name: list("wxyz") for name in "abc"}).apply(
    lambda c: c.to_numpy()[CODES[:, "abc".index(c.name)]]
)
# A rule over a and b that neither of them knows anything of.
RULE = (CODES[:, 0] < 2) ^ (CODES[:, 1] % 2 == 0)
NUMBERS = 3 * RULE + CODES[:, 2] + np.random.default_rng(1).normal(size=N)


def crosses(X, y, estimator=None, **options):
    """What fit_transform and transform make of X, of the columns of crosses, and their names."""
    pipeline = make_tabular_pipeline(estimator or TanhClassifier(2), **options)
    columns = pipeline["preprocessing"]
    made = columns.fit_transform(X, y)
    names = columns.get_feature_names_out()
    assert made.shape == (len(X), len(names))
    is_cross = np.array([name.startswith("crosses__") for name in names])
    again = columns.transform(X)
    np.testing.assert_array_equal(again[:, ~is_cross], made[:, ~is_cross])
    own = [name.removeprefix("crosses__") for name in names[is_cross]]
    return made[:, is_cross], again[:, is_cross], own


def test_means_of_the_cells():
    """Of all rows with these levels, and of ten more that are like the mean of all."""
    _, H, names = crosses(X, RULE)
    assert names == ["a", "b", "c", "a*b"]
    for row in (0, 1, 2):
        for column, same in [
            (1, CODES[:, 1] == CODES[row, 1]),
            (3, (CODES[:, :2] == CODES[row, :2]).all(axis=1)),
        ]:
            expected = (RULE[same].sum() + 10 * RULE.mean()) / (same.sum() + 10)
            np.testing.assert_allclose(H[row, column], expected)


def test_no_row_knows_its_own_y():
    H, H_later, _ = crosses(X, RULE)
    assert (H_later != H).any(axis=0).all()
    for row in (0, 1, 2):
        y = RULE.copy()
        y[row] = not y[row]
        other, _, _ = crosses(X, y)
        np.testing.assert_array_equal(other[row], H[row])
        assert (other != H).any()


def test_noise_is_not_learned():
    """Of cells with few rows the means would give y away, if the rows were among them."""
    rng = np.random.default_rng(0)
    codes = rng.integers(20, size=(N, 2))
    rows = pd.DataFrame(np.column_stack([CODES[:, :2], codes]), columns=list("abcd"))
    H, H_later, names = crosses(rows.astype("category"), RULE ^ (rng.random(N) < 0.05))
    assert names == ["a", "b", "c", "d", "a*b"]
    noise = [2, 3]
    assert abs(np.corrcoef(H[:, noise].T, RULE)[-1, :-1]).max() < 0.1
    assert abs(np.corrcoef(H_later[:, noise].T, RULE)[-1, :-1]).min() > 0.15


@pytest.mark.parametrize(
    ("estimator", "y", "ends"),
    [
        (TanhClassifier(2), np.where(RULE, "yes", "no"), [""]),
        (TanhClassifier(2), np.array(["p", "q", "r"])[RULE * 1 + (CODES[:, 2] == 0)], list("pqr")),
        (TanhClassifier(2), np.column_stack([RULE, CODES[:, 2] > 1]).astype(int), ["x0_1", "x1_1"]),
        (TanhClassifier(2), csr_array(np.column_stack([RULE, ~RULE]) * 1), ["x0_1", "x1_1"]),
        (TanhRegressor(2), NUMBERS, [""]),
        (TanhRegressor(2), NUMBERS.round().astype(int), [""]),
        (TanhRegressor(2), np.column_stack([NUMBERS, CODES[:, 2]]), ["0", "1"]),
        (LogisticRegression(), pd.Series(RULE), [""]),
        (GridSearchCV(TanhRegressor(2), {"alpha": [1.0]}), NUMBERS.tolist(), [""]),
    ],
    ids=[
        "two",
        "three",
        "several",
        "labels",
        "numbers",
        "integers",
        "outputs",
        "sklearn",
        "search",
    ],
)
def test_kinds_of_y(estimator, y, ends):
    """A column for each class or output, and one for two classes."""
    H, _, names = crosses(X, y, estimator)
    pairs = ["a", "b", "c", "a*b"]
    assert names == [f"{pair}_{end}" if end else pair for pair in pairs for end in ends]
    assert np.isfinite(H).all()
    make_tabular_pipeline(estimator).fit(X, y).predict(X)


def test_what_says_most_comes_first():
    y = RULE + 2.0 * ((CODES[:, 1] < 2) ^ (CODES[:, 2] % 2 == 0))
    _, _, names = crosses(X, y, TanhRegressor(2))
    assert names == ["a", "b", "c", "b*c", "a*b"]


def test_means_of_numbers_have_no_unit():
    H, _, _ = crosses(X, NUMBERS, TanhRegressor(2))
    other, _, _ = crosses(X, 1e6 * NUMBERS - 7, TanhRegressor(2))
    np.testing.assert_allclose(other, H, atol=1e-9)
    assert abs(H).max() < 2


def many(n, n_levels=2):
    codes = np.random.default_rng(2).integers(n_levels, size=(N, n))
    return pd.DataFrame(codes).astype("category")


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (X, CODES[:, 0] < 2),
        (X, (CODES.sum(axis=1) > 4) ^ (np.random.default_rng(0).random(N) < 0.1)),
        (X, np.random.default_rng(3).random(N) < 0.5),
        (many(6, 20), np.random.default_rng(3).random(N) < 0.5),
        (X, np.zeros(N, bool)),
        (many(3, 8), many(3, 8).astype(int) @ [8, 1, 0]),
        (X, None),
        (X[["a"]], RULE),
        (X[["a", "b"]].assign(b=CODES[:, 1]), RULE),
        (pd.concat([X[["a", "b"]], many(11)], axis=1), RULE),
        (X.head(3), RULE[:3]),
    ],
    ids=[
        "one", "sum", "noise", "many levels", "constant", "many classes", "no y",
        "one column", "numbers", "many columns", "few rows",
    ],
)  # fmt: skip
def test_where_there_are_none(rows, y):
    """Where no pair says much more than its levels do, and where pairs are too many to tell."""
    H, H_later, names = crosses(rows.set_axis(rows.columns.astype(str), axis=1), y)
    assert names == []
    assert H.shape == H_later.shape == (len(rows), 0)


def test_as_many_columns_as_are_looked_at():
    rows = pd.concat([X[["a", "b"]], many(10)], axis=1)
    _, _, names = crosses(rows.set_axis(rows.columns.astype(str), axis=1), RULE)
    assert names[12] == "a*b"


def test_transformers_have_none():
    columns = make_tabular_pipeline(TanhProjector(2))["preprocessing"].fit(X, RULE)
    assert columns.transform(X).shape == (N, 12)


def test_as_arrays_and_tables():
    _, expected, names = crosses(X, RULE)
    _, H, numbered = crosses(X.to_numpy(), RULE, categorical_features=[0, 1, 2])
    np.testing.assert_array_equal(H, expected)
    assert numbered == ["x0", "x1", "x2", "x0*x1"]
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({name: X[name].to_list() for name in X})
    _, H, named = crosses(table, RULE)
    np.testing.assert_array_equal(H, expected)
    assert named == names


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_and_new_levels(library):
    """What is missing is a level; what is new has the mean of all rows."""
    module = pytest.importorskip(library)
    values = {name: X[name].to_list() for name in X}
    values["a"] = [None if value == "w" else value for value in values["a"]]
    columns = make_tabular_pipeline(TanhClassifier(2))["preprocessing"]
    columns.fit(module.DataFrame(values), RULE)
    new = module.DataFrame({"a": [None, "x", "?"], "b": ["w", "w", "w"], "c": ["w", "?", None]})
    H = columns.transform(new)[:, -4:]
    _, complete, _ = crosses(X, RULE)
    same = (CODES[:, :2] == [0, 0]).all(axis=1)
    np.testing.assert_allclose(H[0, [0, 3]], complete[same][0, [0, 3]])
    np.testing.assert_allclose(H[[1, 2], 2], RULE.mean())
    np.testing.assert_allclose(H[2, [0, 3]], RULE.mean())


def test_column_without_any_level():
    table = X.assign(c=pd.Series([None] * N, dtype="category"))
    columns = make_tabular_pipeline(TanhClassifier(2))["preprocessing"].fit(table, RULE)
    H = columns.transform(X)
    assert columns.get_feature_names_out()[-1] == "crosses__a*b"
    np.testing.assert_allclose(H[:, -2], RULE.mean())


def test_rare_levels_share_a_cell():
    rng = np.random.default_rng(0)
    towns = np.where(rng.random(N) < 0.5, "big", [f"town {i % 150}" for i in range(N)])
    y = (towns == "big") ^ (CODES[:, 0] < 2)
    table = pd.DataFrame({"town": towns, "a": X["a"]})
    columns = make_tabular_pipeline(TanhClassifier(2))["preprocessing"]
    with pytest.warns(UserWarning, match="max_categories=100"):
        columns.fit(table, y)
    assert columns.get_feature_names_out()[-1] == "crosses__town*a"
    assert len(columns.named_transformers_["crosses"][-1].means_[0]) <= 102


def test_a_rule_is_learned():
    """By what could not learn it from levels alone."""
    rows, rest = slice(0, 400), slice(400, None)
    model = make_tabular_pipeline(LogisticRegression()).fit(X[rows], RULE[rows])
    assert model.score(X[rest], RULE[rest]) == 1
    model.set_params(preprocessing__crosses="drop").fit(X[rows], RULE[rows])
    assert model.score(X[rest], RULE[rest]) < 0.7
    assert model[:-1].transform(X).shape == (N, 12)


def test_clone_and_pickle():
    model = make_tabular_pipeline(RBFClassifier(20, random_state=0)).fit(X, RULE)
    expected = model.decision_function(X)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    np.testing.assert_array_equal(clone(loaded).fit(X, RULE).decision_function(X), expected)


def test_fit_again():
    """A pipeline that is fitted again forgets the crosses that it had."""
    columns = make_tabular_pipeline(TanhClassifier(2))["preprocessing"].fit(X, RULE)
    assert columns.transform(X).shape == (N, 16)
    assert columns.fit(X, CODES[:, 0] < 2).transform(X).shape == (N, 12)


def test_set_output():
    columns = make_tabular_pipeline(TanhClassifier(2))["preprocessing"]
    H = columns.set_output(transform="pandas").fit_transform(X, RULE)
    assert list(H.columns[-4:]) == ["crosses__a", "crosses__b", "crosses__c", "crosses__a*b"]
    assert columns.fit(X).transform(X).shape == (N, 12)


def test_weights_of_rows():
    model = make_tabular_pipeline(RBFClassifier(20, random_state=0))
    model.fit(X, RULE, rbfclassifier__sample_weight=np.ones(N))
    assert model.score(X, RULE) > 0.95


def test_searches_agree():
    """Crosses are learned from the training rows of each split."""
    grid = {"tanhclassifier__alpha": [0.1, 10.0]}
    pipeline = make_tabular_pipeline(TanhClassifier(5, random_state=0))
    ours = HiddenSizeSearchCV(pipeline, grid, cv=3).fit(X, RULE)
    theirs = GridSearchCV(pipeline, grid, cv=3).fit(X, RULE)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_feature_weights_are_drawn():
    pytest.importorskip("matplotlib").use("agg")
    weights = np.arange(1.0, 17)
    model = make_tabular_pipeline(RBFClassifier(20, feature_weights=weights)).fit(X, RULE)
    display = FeatureWeightsDisplay.from_estimator(model)
    assert display.ax_.get_yticklabels()[-1].get_text() == "a*b"


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (RBFClassifier(), RULE[:-1], "inconsistent numbers of samples"),
        (RBFRegressor(), NUMBERS[:-1], "inconsistent numbers of samples"),
        (RBFClassifier(), NUMBERS, "Unknown label type: continuous"),
        (RBFRegressor(), np.where(RULE, np.nan, 1.0), "y contains NaN"),
        (RBFRegressor(), np.where(RULE, "a", "b"), "could not convert string"),
    ],
)
def test_bad_y(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        make_tabular_pipeline(estimator).fit(X, y)
