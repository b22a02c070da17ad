"""Regressors: the search answers what GridSearchCV answers, with the same shared work."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from search.comparing import (
    compare,
    load_numbers,
    of_masks,
    of_repeated_rows,
    same_fits,
    weighed,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFRegressor, TanhRegressor

TANH = TanhRegressor(feature_weights=None, scale=0.5, alpha=1.0, random_state=0)
TANH_OF_SPLITS = clone(TANH).set_params(scale="auto")
TANH_AUTO = TanhRegressor(random_state=0)
ALL_AUTO = RBFRegressor(selection="random", random_state=0)
RBF = clone(ALL_AUTO).set_params(kernel="laplacian", radius=5.0, feature_weights=None, alpha=1.0)
SIZES = {"n_hidden": [40, 10], "alpha": [0.1, 10.0]}
PENALTIES = {"n_hidden": [10, 30], "alpha": [0.2, "auto"]}
SCORERS = {
    "r2": "r2", "squares": "neg_mean_squared_error", "absolute": "neg_mean_absolute_error",
}  # fmt: skip
IN_FULL = {"scoring": make_scorer(weighed), "return_train_score": True, "cv": 2}
NETWORKS = {
    "tanh, one pass": (TANH, SIZES),
    "tanh, one pass, orthogonal": (clone(TANH).set_params(weights="orthogonal"), SIZES),
    "tanh, a pass for each split": (TANH_OF_SPLITS, SIZES),
    "tanh, all that is automatic": (TANH_AUTO, {"n_hidden": [10, 30]}),
    "tanh, penalties": (TANH, PENALTIES),
    "rbf": (RBF, {**SIZES, "radius": [3.0, 6.0], "kernel": ["triangular", "gaussian"]}),
    "rbf, penalties": (RBF, {**PENALTIES, "radius": [3.0, 6.0]}),
    "rbf, prefixes": (RBFRegressor(selection_radius=3.0, random_state=0), PENALTIES),
    "rbf, a search for each size": (
        RBFRegressor(feature_weights=None, random_state=0), PENALTIES
    ),
    "rbf, all that is automatic": (
        ALL_AUTO,
        {"n_hidden": [20], "kernel": ["auto", "gaussian"], "radius": ["auto", 4.0]},
    ),
    "rbf, weights of features": (
        RBF, {"n_hidden": [20], "feature_weights": ["learned", np.linspace(0, 1, 10)]}
    ),
}  # fmt: skip
OF_ONE_OUTPUT = ["tanh, one pass", "tanh, penalties", "rbf", "rbf, all that is automatic"]


@pytest.mark.parametrize(
    ("name", "n_outputs"), [*product(NETWORKS, [3]), *product(OF_ONE_OUTPUT, [0])]
)
def test_networks(name, n_outputs):
    """Also mean and scale of y, which are of the training rows of each split."""
    same_fits(*NETWORKS[name], load_numbers(n_outputs))


@pytest.mark.parametrize(
    "scoring", [None, "neg_mean_squared_error", "neg_median_absolute_error", weighed]
)
@pytest.mark.parametrize("network", [TANH, RBF])
def test_scorers(network, scoring):
    if scoring is weighed:

        def scoring(estimator, X, y):
            return weighed(y, estimator.predict(X))

    compare(network, SIZES, load_numbers(), scoring=scoring, return_train_score=True)


def test_a_scorer_of_each_output():
    scoring = make_scorer(r2_score, multioutput=[0.9, 0.1])
    compare(TANH, SIZES, load_numbers(2), scoring=scoring)


@pytest.mark.parametrize("network", [TANH, ALL_AUTO])
def test_one_output_in_a_column(network):
    X, y = load_numbers()
    scoring = "neg_mean_squared_error"
    grid = {"n_hidden": [30], "alpha": [0.2, "auto"]}
    compare(network, grid, (X, y[:, None]), scoring=scoring, return_train_score=True)


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize(
    "form",
    [list, pd.Series, lambda y: y.astype(np.float32), lambda y: np.rint(100 * y).astype(int),
     lambda y: pd.DataFrame({"a": y, "b": y**2}), lambda y: [[each, -each] for each in y]],
    ids=["list", "series", "float32", "int", "frame", "list of lists"],
)  # fmt: skip
def test_y_may_have_many_forms(network, form):
    X, y = load_numbers()
    same_fits(network, {"n_hidden": [40, 10]}, (X, form(y)))
    compare(network, {"n_hidden": [10]}, (X, form(y)))


@pytest.mark.parametrize("network", [TANH, RBF])
def test_numbers_are_not_stratified(network):
    """Also where they look like classes."""
    X, y = load_numbers()
    y = (y > np.median(y)) + (X[:, 2] > 1).astype(int)
    order = np.argsort(y, kind="stable")
    ours = compare(network, {"n_hidden": [40, 10]}, (X[order], y[order]), cv=4)
    by_folds = clone(ours).set_params(cv=KFold(4)).fit(X[order], y[order])
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], by_folds.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("network", [clone(TANH).set_params(scale=0.05), RBF])
def test_narrow_rows(network, dtype):
    """H is in float32, here multiplied with itself in float64; the origin of y is far off."""
    X, y = load_numbers(2)
    X, y = (10 * (X - X.min())).astype(dtype), y + 1e4
    theirs, ours = (
        search(network, {**SIZES, "alpha": [0.2, "auto"]}, cv=2).fit(X, y).cv_results_
        for search in (GridSearchCV, HiddenSizeSearchCV)
    )
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=2e-4)


SPLITTERS = {
    "default": None,
    "shuffled": KFold(3, shuffle=True, random_state=0),
    "overlapping": ShuffleSplit(3, test_size=0.2, random_state=0),
    "some rows never": PredefinedSplit(np.arange(150) % 5 - 1),
    "most left out": ShuffleSplit(3, train_size=0.3, test_size=0.1, random_state=0),
    "masks": of_masks(150),
    "repeated rows": of_repeated_rows(150, np.random.default_rng(0)),
}


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("cv", SPLITTERS)
def test_splitters(cv, network):
    same_fits(network, {"n_hidden": [30, 10]}, load_numbers(2), cv=SPLITTERS[cv])


def test_splitters_of_groups():
    groups = np.random.default_rng(0).integers(0, 7, 150)
    how = {**IN_FULL, "cv": GroupKFold(3), "fit_params": {"groups": groups}}
    compare(TANH, SIZES, load_numbers(), **how)


# Rows that no unit covers, and y that differs much from split to split


def test_rows_that_no_unit_covers():
    """They are given the intercept."""
    network = clone(RBF).set_params(kernel="triangular")
    grid = {"n_hidden": [10, 40], "radius": [0.8, 1.6]}
    for n_outputs in (0, 2):
        X, y = load_numbers(n_outputs)
        compare(network, grid, (X, y), **IN_FULL)
    network.set_params(n_hidden=10, radius=1.6).fit(X, y)
    is_uncovered = (network.predict(X) == network.readout_intercept_).all(axis=1)
    assert 10 < is_uncovered.sum() < len(X)


@pytest.mark.parametrize("unit", [1e-100, 1e12, 1e100])
def test_y_of_any_size(unit):
    X, y = load_numbers()
    same_fits(TANH, SIZES, (X, unit * y + unit))


def test_y_far_from_its_origin():
    X, y = load_numbers()
    same_fits(TANH, SIZES, (X, y + 1e6))


@pytest.mark.filterwarnings("ignore:y has a heavy tail")
@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
def test_one_row_that_is_far_from_all(work, size):
    """What is left of sums without it would be rounded: each split has a pass of its own."""
    X, y = load_numbers()
    y[7] = size
    compare(TANH, SIZES, (X, y), **{**IN_FULL, "cv": KFold(5)})
    assert work.rows == 4 * 150


@pytest.mark.filterwarnings("ignore:y has a heavy tail")
def test_a_row_that_is_far_from_all_and_has_hardly_a_weight(work):
    """Beside another one: without that, the rows vary little for all their size."""
    X, y = load_numbers()
    y[[7, 100]] = 1e9
    weight = np.where(np.arange(150) == 100, 1e-30, 1.0)
    compare(TANH, SIZES, (X, y), fit_params={"sample_weight": weight}, cv=KFold(5))
    assert work.rows == 4 * 150


@pytest.mark.parametrize("n_outputs", [0, 2])
def test_y_that_is_constant_in_one_training_set(n_outputs):
    """There its scale is 1."""
    X, y = load_numbers(n_outputs)
    y[:75] = 0.3
    scoring = {name: SCORERS[name] for name in ("squares", "absolute")}
    fitted = same_fits(TANH, SIZES, (X, y), cv=KFold(2), scoring=scoring)
    assert {float(np.max(each.target_scale_)) == 1.0 for each in fitted} == {True, False}


def test_an_output_that_is_constant():
    X, y = load_numbers(2)
    y[:, 1] = 0.1
    same_fits(TANH, SIZES, (X, y), scoring={"squares": SCORERS["squares"]})


# Weights of rows


def weight_of(n=150):
    rng = np.random.default_rng(1)
    return rng.random(n) * (rng.random(n) > 0.33)


@pytest.mark.parametrize(
    ("network", "grid"),
    [(TANH, SIZES), (TANH, PENALTIES), (TANH_AUTO, {"n_hidden": [30]}), (RBF, PENALTIES),
     (ALL_AUTO, {"n_hidden": [30]})],
)  # fmt: skip
@pytest.mark.parametrize("n_outputs", [0, 2])
def test_weights_of_rows(network, grid, n_outputs):
    """In fit, and in mean and scale of y."""
    fit_params = {"sample_weight": weight_of()}
    same_fits(network, grid, load_numbers(n_outputs), scoring=SCORERS, fit_params=fit_params)


@pytest.mark.parametrize("network", [TANH, TANH_OF_SPLITS, RBF])
@pytest.mark.parametrize("n_outputs", [0, 2])
def test_weights_of_rows_reach_the_score(network, n_outputs):
    data, fit_params = load_numbers(n_outputs), {"sample_weight": weight_of()}
    compare(network, {"n_hidden": [40, 10]}, data, fit_params=fit_params, return_train_score=True)


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_no_weight_in_one_training_set(network):
    rows = np.arange(150)
    how = {"cv": [(rows[:75], rows[75:]), (rows[50:], rows[:90])],
           "fit_params": {"sample_weight": np.where(rows < 75, 0.0, 1.0)}}  # fmt: skip
    with pytest.warns(FitFailedWarning, match="is 0 for all samples|non-zero"):
        ours = compare(network, SIZES, load_numbers(), alone=4, **how)
    assert np.isnan(ours.cv_results_["split0_test_score"]).all()
    assert np.isfinite(ours.cv_results_["split1_test_score"]).all()


def test_weights_are_routed():
    fit_params = {"sample_weight": weight_of()}
    with sklearn.config_context(enable_metadata_routing=True):
        network = clone(TANH).set_fit_request(sample_weight=True)
        network.set_score_request(sample_weight=False)
        compare(network, SIZES, load_numbers(), fit_params=fit_params, return_train_score=True)


# Pipelines


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("n_outputs", [0, 2])
def test_steps_before_the_network(network, n_outputs):
    estimator = Pipeline([("scale", StandardScaler()), ("net", network)])
    fit_params = {"net__sample_weight": weight_of()}
    grid = {"net__n_hidden": [30], "net__alpha": [0.2, "auto"]}
    same_fits(estimator, grid, load_numbers(n_outputs), fit_params=fit_params)
    compare(estimator, {"net__n_hidden": [30, 10]}, load_numbers(n_outputs), **IN_FULL)


def test_the_last_step_is_searched():
    estimator = make_pipeline(StandardScaler(), TanhRegressor(feature_weights=None))
    name = "tanhregressor"
    grids = [
        {name: [TANH, RBF], f"{name}__n_hidden": [10, 20], f"{name}__alpha": [0.1, 1.0]},
        {name: [Ridge()], f"{name}__alpha": [0.1, 1.0]},
    ]
    compare(estimator, grids, load_numbers())


# The work


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_one_pass_serves_all_splits(work, n_outputs):
    """Each row is met once by the largest network, and once more to be scored."""
    data = load_numbers(n_outputs)
    HiddenSizeSearchCV(TANH, SIZES, cv=3, scoring=SCORERS, refit=False).fit(*data)
    assert (work.rows, work.entries) == (150, 2 * 150 * 40)


@pytest.mark.parametrize(
    ("network", "grid", "is_held_out"),
    [
        (TANH_OF_SPLITS, SIZES, False),
        (RBF, {**SIZES, "radius": [3.0, 6.0], "kernel": ["laplacian", "gaussian"]}, False),
        (TANH, PENALTIES, True),
        (RBF, {**PENALTIES, "radius": [3.0, 6.0]}, True),
    ],
)
def test_a_pass_for_each_split(work, network, grid, is_held_out):
    """And all rows once more, in six parts, where each of them is held out."""
    HiddenSizeSearchCV(network, grid, cv=3, refit=False).fit(*load_numbers(2))
    passes, times = (7, 2) if is_held_out else (1, 1)
    assert (work.passes, work.rows) == (3 * passes, times * 2 * 150)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_what_needs_leave_one_out_is_fitted_one_by_one(network):
    grids = [
        {"uncertainty": [True], "n_hidden": [10, 20], "alpha": [1.0]},
        {"alpha": ["loo", [0.1, 1.0]], "n_hidden": [10]},
        {"n_hidden": [40, 15]},
    ]

    def certainty(estimator, X, y):
        if not estimator.uncertainty:
            return estimator.score(X, y)
        return estimator.predict(X, return_std=True)[1].mean()

    compare(network, grids, load_numbers(2), alone=4 * 2)
    compare(network, grids, load_numbers(2), alone=4 * 2, scoring=certainty)


@pytest.mark.parametrize("network", [TANH, RBF], ids=["tanh", "rbf"])
def test_every_device(device, network):
    grid = {**SIZES, "alpha": [0.2, "auto"]}
    compare(clone(network).set_params(device=device), grid, load_numbers(2), **IN_FULL)


# Input that cannot be searched


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.where(np.arange(150) == 7, np.nan, 1.0), "NaN"),
        (np.array(["a", "b"] * 75), "could not convert|dtype"),
        (np.zeros(149), "inconsistent"),
    ],
    ids=["NaN", "words", "too short"],
)
def test_bad_y(y, match):
    """The same error as of GridSearchCV, and nothing is changed by it."""
    X = load_numbers()[0]
    all_rows = [(np.arange(149), np.arange(149))]
    for kind in (GridSearchCV, HiddenSizeSearchCV):
        search = kind(clone(TANH), {"n_hidden": [3]}, cv=all_rows)
        before = dict(vars(search))
        with pytest.raises(ValueError, match=match):
            search.fit(X, y)
        if kind is HiddenSizeSearchCV:
            assert vars(search) == before


def of_logarithms(network, **how):
    return TransformedTargetRegressor(network, func=np.log1p, inverse_func=np.expm1, **how)


AROUND = {
    "alone": (of_logarithms(TANH), "regressor__"),
    "before a pipeline": (
        of_logarithms(make_pipeline(StandardScaler(), RBF)), "regressor__rbfregressor__"
    ),
    "in a pipeline": (
        make_pipeline(StandardScaler(), of_logarithms(RBF)),
        "transformedtargetregressor__regressor__",
    ),
    "quantiles": (
        TransformedTargetRegressor(RBF, transformer=QuantileTransformer(n_quantiles=50)),
        "regressor__",
    ),
}  # fmt: skip


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize("name", AROUND)
def test_transformed_targets(name, scoring):
    """They share passes, and answer in the unit of y."""
    estimator, prefix = AROUND[name]
    X, y = load_numbers()
    grid = {prefix + parameter: values for parameter, values in SIZES.items()}
    search = compare(estimator, grid, (X, y**4), scoring=scoring, return_train_score=True)
    assert search.best_params_.keys() == grid.keys()


@pytest.mark.filterwarnings("ignore:Column 1 of y has a heavy tail")
def test_transformed_targets_of_several_outputs_with_weights():
    X, y = load_numbers(3)
    weight = np.random.default_rng(0).random(len(y))
    estimator = of_logarithms(RBF)
    grid = {"regressor__n_hidden": [10, 20], "func": [np.log1p, np.cbrt], "check_inverse": [False]}
    sklearn_way = {"fit_params": {"sample_weight": weight}, "scoring": "neg_mean_absolute_error"}
    compare(estimator, grid, (X, np.abs(y)), **sklearn_way)


def test_targets_that_have_no_logarithm():
    """The search says what scikit-learn's says: which values are wrong."""
    X, y = load_numbers()
    search = HiddenSizeSearchCV(of_logarithms(RBF), {"regressor__n_hidden": [10]}, cv=2)
    with pytest.raises(ValueError, match=r"NaN|infinity"), np.errstate(invalid="ignore"):
        search.fit(X, y - 100)
