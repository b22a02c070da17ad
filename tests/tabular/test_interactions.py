"""InteractionEncoder: pairs of categorical features, without target leakage."""

import pickle
from itertools import combinations

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
from sklearn_fsvc._src.tabular.interactions import InteractionEncoder
from sklearn_fsvc.inspection import FeatureWeightsDisplay

GIVEN = {"feature_weights": None, "alpha": 1.0}
N = 600
CODES = np.random.default_rng(0).integers(4, size=(N, 3))
X = pd.DataFrame({name: list("wxyz") for name in "abc"}).apply(
    lambda c: c.to_numpy()[CODES[:, "abc".index(c.name)]]
)
# It depends on a and b together, and on neither of them alone.
RULE = (CODES[:, 0] < 2) ^ (CODES[:, 1] % 2 == 0)
VALUES = 3 * RULE + CODES[:, 2] + np.random.default_rng(1).normal(size=N)


def interactions(X, y, estimator=None, **options):
    """Return the interaction features by fit_transform and by transform, and their names."""
    pipeline = make_tabular_pipeline(estimator or TanhClassifier(2, **GIVEN), **options)
    encoder = pipeline["preprocessing"]
    H = encoder.fit_transform(X, y)
    names = encoder.get_feature_names_out()
    assert H.shape == (len(X), len(names))
    is_interaction = np.array([name.startswith("interactions__") for name in names])
    H_later = encoder.transform(X)
    np.testing.assert_array_equal(H_later[:, ~is_interaction], H[:, ~is_interaction])
    encoded = [name.removeprefix("interactions__") for name in names[is_interaction]]
    return H[:, is_interaction], H_later[:, is_interaction], encoded


def test_smoothed_means_of_cells():
    """With the overall mean as ten more samples."""
    _, H, names = interactions(X, RULE)
    assert names == ["a", "b", "c", "a*b"]
    for row in (0, 1, 2):
        for column, same in [
            (1, CODES[:, 1] == CODES[row, 1]),
            (3, (CODES[:, :2] == CODES[row, :2]).all(axis=1)),
        ]:
            expected = (RULE[same].sum() + 10 * RULE.mean()) / (same.sum() + 10)
            np.testing.assert_allclose(H[row, column], expected)


def test_training_samples_are_encoded_without_their_target():
    H, H_later, _ = interactions(X, RULE)
    assert (H_later != H).any(axis=0).all()
    for row in (0, 1, 2):
        y = RULE.copy()
        y[row] = not y[row]
        other, _, _ = interactions(X, y)
        np.testing.assert_array_equal(other[row], H[row])
        assert (other != H).any()


def test_noise_is_not_encoded():
    """Means of small cells would leak the target without cross-fitting."""
    rng = np.random.default_rng(0)
    codes = rng.integers(20, size=(N, 2))
    rows = pd.DataFrame(np.column_stack([CODES[:, :2], codes]), columns=list("abcd"))
    H, H_later, names = interactions(rows.astype("category"), RULE ^ (rng.random(N) < 0.05))
    assert names == ["a", "b", "c", "d", "a*b"]
    noise = [2, 3]
    assert abs(np.corrcoef(H[:, noise].T, RULE)[-1, :-1]).max() < 0.1
    assert abs(np.corrcoef(H_later[:, noise].T, RULE)[-1, :-1]).min() > 0.15


@pytest.mark.parametrize(
    ("estimator", "y", "ends"),
    [
        (TanhClassifier(2, **GIVEN), np.where(RULE, "yes", "no"), [""]),
        (
            TanhClassifier(2, **GIVEN),
            np.array(["p", "q", "r"])[RULE * 1 + (CODES[:, 2] == 0)],
            list("pqr"),
        ),
        (
            TanhClassifier(2, **GIVEN),
            np.column_stack([RULE, CODES[:, 2] > 1]).astype(int),
            ["x0_1", "x1_1"],
        ),
        (
            TanhClassifier(2, **GIVEN),
            csr_array(np.column_stack([RULE, ~RULE]) * 1),
            ["x0_1", "x1_1"],
        ),
        (TanhRegressor(2, **GIVEN), VALUES, [""]),
        (TanhRegressor(2, **GIVEN), VALUES.round().astype(int), [""]),
        (TanhRegressor(2, **GIVEN), np.column_stack([VALUES, CODES[:, 2]]), ["0", "1"]),
        (LogisticRegression(), pd.Series(RULE), [""]),
        (GridSearchCV(TanhRegressor(2, **GIVEN), {"alpha": [1.0]}), VALUES.tolist(), [""]),
    ],
    ids=[
        "binary",
        "multiclass",
        "multi-output",
        "multilabel",
        "float",
        "integers",
        "several outputs",
        "sklearn",
        "search",
    ],
)
def test_types_of_targets(estimator, y, ends):
    """One feature per class or output, and one for two classes."""
    H, _, names = interactions(X, y, estimator)
    pairs = ["a", "b", "c", "a*b"]
    assert names == [f"{pair}_{end}" if end else pair for pair in pairs for end in ends]
    assert np.isfinite(H).all()
    make_tabular_pipeline(estimator).fit(X, y).predict(X)


def test_strongest_interaction_is_first():
    y = RULE + 2.0 * ((CODES[:, 1] < 2) ^ (CODES[:, 2] % 2 == 0))
    _, _, names = interactions(X, y, TanhRegressor(2, **GIVEN))
    assert names == ["a", "b", "c", "b*c", "a*b"]


def test_encodings_do_not_depend_on_the_unit_of_y():
    H, _, _ = interactions(X, VALUES, TanhRegressor(2, **GIVEN))
    other, _, _ = interactions(X, 1e6 * VALUES - 7, TanhRegressor(2, **GIVEN))
    np.testing.assert_allclose(other, H, atol=1e-9)
    assert abs(H).max() < 2


def random_categories(n, n_categories=2):
    codes = np.random.default_rng(2).integers(n_categories, size=(N, n))
    return pd.DataFrame(codes).astype("category")


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (X, CODES[:, 0] < 2),
        (X, (CODES.sum(axis=1) > 4) ^ (np.random.default_rng(0).random(N) < 0.1)),
        (X, np.random.default_rng(3).random(N) < 0.5),
        (random_categories(6, 20), np.random.default_rng(3).random(N) < 0.5),
        (X, np.zeros(N, bool)),
        (random_categories(3, 8), random_categories(3, 8).astype(int) @ [8, 1, 0]),
        (X, None),
        (X[["a"]], RULE),
        (X[["a", "b"]].assign(b=CODES[:, 1]), RULE),
        (pd.concat([X[["a", "b"]], random_categories(11)], axis=1), RULE),
        (X.head(3), RULE[:3]),
    ],
    ids=[
        "one feature", "additive", "noise", "many categories", "constant", "many classes", "no y",
        "one column", "numerical", "many columns", "few samples",
    ],
)  # fmt: skip
def test_no_interactions(rows, y):
    """If no pair explains more than its features do separately, or there are too many pairs."""
    H, H_later, names = interactions(rows.set_axis(rows.columns.astype(str), axis=1), y)
    assert names == []
    assert H.shape == H_later.shape == (len(rows), 0)


@pytest.mark.parametrize(
    ("task", "draw"),
    [
        ("classification", lambda rng: rng.random(1000) < 0.01),
        ("classification", lambda rng: rng.choice(3, size=1000, p=[0.96, 0.02, 0.02])),
        ("regression", lambda rng: rng.lognormal(sigma=2, size=1000)),
        ("classification", lambda rng: rng.random(1000) < 0.5),
    ],
    ids=["rare class", "rare classes", "heavy tails", "equal classes"],
)
def test_noise_has_no_interactions(task, draw):
    """Rare classes and targets with heavy tails have large means in small cells by chance."""
    n_accepted = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        codes = rng.zipf(1.5, size=(1000, 6)) % 30
        n_accepted += len(InteractionEncoder(task).fit(codes, draw(rng)).pairs_) > 0
    assert n_accepted <= 1


def test_interactions_of_a_rare_class_are_found():
    codes = np.random.default_rng(0).zipf(1.5, size=(1000, 6)) % 30
    y = (codes[:, 1] % 5 == 2) & (codes[:, 4] % 5 == 3)
    assert 0.01 < y.mean() < 0.04
    assert (1, 4) in InteractionEncoder().fit(codes, y).pairs_


def test_up_to_twelve_categorical_features():
    rows = pd.concat([X[["a", "b"]], random_categories(10)], axis=1)
    _, _, names = interactions(rows.set_axis(rows.columns.astype(str), axis=1), RULE)
    assert names[12] == "a*b"


def test_no_interactions_for_transformers():
    encoder = make_tabular_pipeline(TanhProjector(2))["preprocessing"].fit(X, RULE)
    assert encoder.transform(X).shape == (N, 12)


def test_interactions_of_arrays_and_data_frames():
    _, expected, names = interactions(X, RULE)
    _, H, numbered = interactions(X.to_numpy(), RULE, categorical_features=[0, 1, 2])
    np.testing.assert_array_equal(H, expected)
    assert numbered == ["x0", "x1", "x2", "x0*x1"]
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({name: X[name].to_list() for name in X})
    _, H, named = interactions(table, RULE)
    np.testing.assert_array_equal(H, expected)
    assert named == names


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_and_unknown_categories(library):
    """A missing value is a category; an unknown one gets the overall mean."""
    module = pytest.importorskip(library)
    values = {name: X[name].to_list() for name in X}
    values["a"] = [None if value == "w" else value for value in values["a"]]
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN))["preprocessing"]
    encoder.fit(module.DataFrame(values), RULE)
    new = module.DataFrame({"a": [None, "x", "?"], "b": ["w", "w", "w"], "c": ["w", "?", None]})
    H = encoder.transform(new)[:, -4:]
    _, complete, _ = interactions(X, RULE)
    same = (CODES[:, :2] == [0, 0]).all(axis=1)
    np.testing.assert_allclose(H[0, [0, 3]], complete[same][0, [0, 3]])
    np.testing.assert_allclose(H[[1, 2], 2], RULE.mean())
    np.testing.assert_allclose(H[2, [0, 3]], RULE.mean())


def test_empty_column():
    table = X.assign(c=pd.Series([None] * N, dtype="category"))
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN))["preprocessing"].fit(table, RULE)
    H = encoder.transform(X)
    assert encoder.get_feature_names_out()[-1] == "interactions__a*b"
    np.testing.assert_allclose(H[:, -2], RULE.mean())


def test_infrequent_categories_share_a_cell():
    rng = np.random.default_rng(0)
    towns = np.where(rng.random(N) < 0.5, "big", [f"town {i % 150}" for i in range(N)])
    y = (towns == "big") ^ (CODES[:, 0] < 2)
    table = pd.DataFrame({"town": towns, "a": X["a"]})
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN))["preprocessing"]
    encoder.fit(table, y)
    assert encoder.get_feature_names_out()[-1] == "interactions__town*a"
    assert len(encoder.named_transformers_["interactions"].means_[0]) <= 102


def test_additive_model_learns_an_interaction():
    """Which it cannot learn from one-hot features."""
    train, test = slice(0, 400), slice(400, None)
    model = make_tabular_pipeline(LogisticRegression()).fit(X[train], RULE[train])
    assert model.score(X[test], RULE[test]) == 1
    model.set_params(preprocessing__interactions="drop").fit(X[train], RULE[train])
    assert model.score(X[test], RULE[test]) < 0.7
    assert model[:-1].transform(X).shape == (N, 12)


@pytest.mark.parametrize("y", [RULE, X["a"] == X["b"]], ids=["cells", "equality"])
def test_clone_and_pickle(y):
    network = RBFClassifier(20, kernel="laplacian", feature_weights=None, alpha=1.0, random_state=0)
    model = make_tabular_pipeline(network).fit(X, y)
    expected = model.decision_function(X)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    np.testing.assert_array_equal(clone(loaded).fit(X, y).decision_function(X), expected)


def test_refit():
    """A second fit replaces the interactions of the first."""
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN))["preprocessing"].fit(X, RULE)
    assert encoder.transform(X).shape == (N, 16)
    assert encoder.fit(X, CODES[:, 0] < 2).transform(X).shape == (N, 12)


def test_set_output():
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN))["preprocessing"]
    H = encoder.set_output(transform="pandas").fit_transform(X, RULE)
    assert list(H.columns[-4:]) == [
        "interactions__a",
        "interactions__b",
        "interactions__c",
        "interactions__a*b",
    ]
    assert encoder.fit(X).transform(X).shape == (N, 12)


def test_sample_weights():
    model = make_tabular_pipeline(RBFClassifier(20, random_state=0))
    model.fit(X, RULE, rbfclassifier__sample_weight=np.ones(N))
    assert model.score(X, RULE) > 0.95


def test_search_fits_interactions_in_each_split():
    """As GridSearchCV does, from training samples only."""
    grid = {"tanhclassifier__alpha": [0.1, 10.0]}
    network = TanhClassifier(5, scale=0.5, feature_weights=None, random_state=0)
    pipeline = make_tabular_pipeline(network)
    actual = HiddenSizeSearchCV(pipeline, grid, cv=2, refit=False).fit(X, RULE)
    reference = GridSearchCV(pipeline, grid, cv=2, refit=False).fit(X, RULE)
    np.testing.assert_allclose(
        actual.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"]
    )


def test_display_of_feature_weights():
    pytest.importorskip("matplotlib").use("agg")
    weights = np.arange(1.0, 17)
    model = make_tabular_pipeline(RBFClassifier(20, feature_weights=weights, alpha=1.0)).fit(
        X, RULE
    )
    display = FeatureWeightsDisplay.from_estimator(model)
    assert display.ax_.get_yticklabels()[-1].get_text() == "a*b"


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (RBFClassifier(), RULE[:-1], "inconsistent numbers of samples"),
        (RBFRegressor(), VALUES[:-1], "inconsistent numbers of samples"),
        (RBFClassifier(), VALUES, "Unknown label type: continuous"),
        (RBFRegressor(), np.where(RULE, np.nan, 1.0), "y contains NaN or None in"),
        (RBFRegressor(), np.where(RULE, "a", "b"), "y has dtype <U1, which is not numeric"),
    ],
)
def test_invalid_targets(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        make_tabular_pipeline(estimator).fit(X, y)


# Two columns of up to 300 values, which are equal in half of the samples.
PAIR = np.random.default_rng(4).integers(300, size=(N, 2))
PAIR[::2, 1] = PAIR[::2, 0]
EQUAL = PAIR[:, 0] == PAIR[:, 1]


def as_texts(codes):
    return pd.DataFrame(codes, columns=["a", "b"]).map("city {}".format)


@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("numpy", lambda codes: codes),
        ("numpy", lambda codes: as_texts(codes).to_numpy(object)),
        ("pandas", as_texts),
        ("pandas", lambda codes: as_texts(codes).astype({"a": object, "b": "string"})),
        ("pandas", lambda codes: as_texts(codes).astype("category")),
        ("pandas", lambda codes: pd.DataFrame(codes, columns=["a", "b"]).astype({"b": "Float64"})),
        ("polars", lambda codes: as_texts(codes).to_dict("list")),
        ("pyarrow", lambda codes: as_texts(codes).to_dict("list")),
    ],
    ids=["integers", "array", "str", "object and string", "category", "numbers", "polars", "arrow"],
)
def test_equal_values(library, make):
    """Infrequent and unknown values are equal to themselves only."""
    module = pytest.importorskip(library)
    convert = {"polars": "DataFrame", "pyarrow": "table"}.get(library)
    tables = [make(codes) for codes in (PAIR, np.array([[300, 300], [300, 301], PAIR[0]]))]
    table, new = (getattr(module, convert)(each) if convert else each for each in tables)
    encoder = make_tabular_pipeline(TanhClassifier(2, **GIVEN), categorical_features=[0, 1])[0]
    H = encoder.fit_transform(table, EQUAL)[:, -1]
    assert encoder.get_feature_names_out()[-1] in ("interactions__a==b", "interactions__x0==x1")
    np.testing.assert_array_equal(H > 0.5, EQUAL)
    np.testing.assert_array_equal(encoder.transform(table)[:, -1] > 0.5, EQUAL)
    np.testing.assert_array_equal(encoder.transform(new)[:, -1] > 0.5, [True, False, True])


def test_equalities_that_are_weak_each():
    """Two of five values are equal: each of ten pairs explains about 5 %."""
    X = pd.DataFrame(np.random.default_rng(0).integers(9, size=(4000, 5)), columns=list("abcde"))
    encoder = InteractionEncoder().fit(X.astype(str), X.nunique(axis=1) < 5)
    pairs = list(combinations(range(5), 2))
    assert sorted(encoder.equalities_) == pairs
    assert sorted(encoder.pairs_) == sorted([(i, i) for i in range(5)] + pairs)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_values_are_not_equal(library):
    module = pytest.importorskip(library)
    values = as_texts(PAIR).mask(PAIR % 7 == 0).astype(object)
    table = module.DataFrame(values.where(values.notna(), None).to_dict("list"))
    encoder = InteractionEncoder().fit(table, EQUAL & (PAIR[:, 0] % 7 > 0))
    assert encoder.get_feature_names_out()[-1] == "a==b"
    np.testing.assert_array_equal(
        encoder.transform(table)[:, -1] > 0.5, EQUAL & (PAIR[:, 0] % 7 > 0)
    )


@pytest.mark.parametrize(
    ("rows", "y", "expected"),
    [
        (X, X["a"] == X["b"], ["a==b"]),
        (X, (X["a"] == X["b"]) & (X["a"] < "y"), ["a*b"]),
        (X, (X["a"] == X["b"]) + 2 * (X["b"] == X["c"]), ["b==c", "a==b"]),
        (X < "y", (X["a"] < "y") ^ (X["b"] < "y"), ["a*b"]),
        (as_texts(PAIR).assign(b=X["a"]), X["a"] < "y", []),
        (as_texts(PAIR).assign(b=lambda table: table["a"]), EQUAL, []),
        (as_texts(PAIR).assign(b="city 1"), EQUAL, []),
        (as_texts(PAIR).assign(b=pd.Series([None] * N, dtype=object)), EQUAL, []),
        (as_texts(PAIR % [300, 9]), (PAIR % [300, 9]) @ [1, -1] == 0, ["a==b"]),
        (as_texts(PAIR), np.random.default_rng(3).random(N) < 0.5, []),
    ],
    ids=[
        "few categories", "cells", "two pairs", "bools", "other values", "duplicates", "constant",
        "empty", "subset", "noise",
    ],
)  # fmt: skip
def test_kinds_of_cells(rows, y, expected):
    """Equality if it explains nearly all that the combinations explain."""
    encoder = InteractionEncoder("regression").fit(rows, np.asarray(y) * 1)
    names = encoder.get_feature_names_out().tolist()
    assert names[rows.shape[1] :] == expected
    if expected:
        columns = [rows.columns.get_loc(expected[-1][k]) for k in (0, -1)]
        assert encoder.feature_origins()[-1] == tuple(columns)


def test_equality_is_encoded_without_targets_of_the_group():
    groups, encoder = PAIR[:, 0] % 20, InteractionEncoder()
    H, other = (
        encoder.fit_transform(as_texts(PAIR), y, groups)[:, -1]
        for y in (EQUAL, EQUAL ^ (groups == 0))
    )
    assert encoder.equalities_ == [(0, 1)]
    np.testing.assert_array_equal(other[groups == 0], H[groups == 0])
    assert (other != H).any()


def test_cells_of_one_group_get_the_overall_mean():
    """All samples of a cell are in one group, hence in one fold: no other fold has the cell."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, size=(900, 2))
    y = rng.normal(size=(6, 6))[tuple(codes.T)]
    X, groups = pd.DataFrame(codes.astype(str)), codes @ [6, 1]
    encoder = InteractionEncoder("regression")
    leaking, grouped = (
        encoder.fit_transform(X, y)[:, -1],
        encoder.fit_transform(X, y, groups)[:, -1],
    )
    assert len(np.unique(grouped)) <= 5
    assert len(np.unique(leaking)) > 30
