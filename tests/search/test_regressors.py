"""Searches of regressors: results of GridSearchCV, from shared passes."""

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
    bootstrap_splits,
    compare,
    compare_networks,
    load_regression,
    mask_splits,
    weighted_score,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFRegressor, TanhRegressor

TANH = TanhRegressor(feature_weights=None, scale=0.5, alpha=1.0, random_state=0)
TANH_OF_SPLITS = clone(TANH).set_params(scale="auto")
TANH_AUTO = TanhRegressor(random_state=0)
ALL_AUTO = RBFRegressor(selection="random", random_state=0)
RBF = clone(ALL_AUTO).set_params(kernel="laplacian", radius=5.0, feature_weights=None, alpha=1.0)
SIZES = {"n_hidden": [40, 10], "alpha": [1.0]}
SIZES_AND_PENALTIES = {"n_hidden": [40, 10], "alpha": [0.1, 10.0]}
PENALTIES = {"n_hidden": [10, 30], "alpha": [0.2, "auto"]}
SCORERS = {
    "r2": "r2", "squares": "neg_mean_squared_error", "absolute": "neg_mean_absolute_error",
}  # fmt: skip
ALL_SCORES = {"scoring": make_scorer(weighted_score), "return_train_score": True, "cv": 2}
NETWORKS = {
    "tanh, one pass": (TANH, SIZES_AND_PENALTIES),
    "tanh, one pass, orthogonal": (clone(TANH).set_params(weights="orthogonal"), SIZES),
    "tanh, a pass for each split": (TANH_OF_SPLITS, SIZES_AND_PENALTIES),
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
    ("name", "n_outputs"),
    [
        *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in product(NETWORKS, [3])),
        *product(OF_ONE_OUTPUT, [0]),
    ],
)
def test_results_are_those_of_grid_search(name, n_outputs):
    """Also the mean and the scale of y, which are those of each training set."""
    compare_networks(*NETWORKS[name], load_regression(n_outputs))


@pytest.mark.parametrize(
    "scoring", [None, "neg_mean_squared_error", "neg_median_absolute_error", weighted_score]
)
@pytest.mark.parametrize("network", [TANH, RBF])
def test_scorers(network, scoring):
    if scoring is weighted_score:

        def scoring(estimator, X, y):
            return weighted_score(y, estimator.predict(X))

    compare(network, SIZES, load_regression(), scoring=scoring, return_train_score=True)


def test_a_scorer_of_each_output():
    scoring = make_scorer(r2_score, multioutput=[0.9, 0.1])
    compare(TANH, SIZES, load_regression(2), scoring=scoring)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_one_output_in_a_column(network):
    X, y = load_regression()
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
def test_containers_of_y(network, form):
    X, y = load_regression()
    compare_networks(network, {"n_hidden": [40, 10]}, (X, form(y)))
    compare(network, {"n_hidden": [10]}, (X, form(y)))


@pytest.mark.parametrize("network", [TANH, RBF])
def test_splits_are_not_stratified(network):
    """Also if y looks like classes."""
    X, y = load_regression()
    y = (y > np.median(y)) + (X[:, 2] > 1).astype(int)
    order = np.argsort(y, kind="stable")
    actual = compare(network, {"n_hidden": [40, 10]}, (X[order], y[order]), cv=4)
    by_folds = clone(actual).set_params(cv=KFold(4)).fit(X[order], y[order])
    np.testing.assert_array_equal(
        actual.cv_results_["mean_test_score"], by_folds.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("network", [clone(TANH).set_params(scale=0.05), RBF])
def test_float32_and_uint8_samples(network, dtype):
    """H in float32 is multiplied in float64 here; y has a large mean."""
    X, y = load_regression(2)
    X, y = (10 * (X - X.min())).astype(dtype), y + 1e4
    expected, actual = (
        search(network, {**SIZES, "alpha": [0.2, "auto"]}, cv=2).fit(X, y).cv_results_
        for search in (GridSearchCV, HiddenSizeSearchCV)
    )
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=2e-4)


SPLITTERS = {
    "default": None,
    "shuffled": KFold(3, shuffle=True, random_state=0),
    "overlapping": ShuffleSplit(3, test_size=0.2, random_state=0),
    "some rows never": PredefinedSplit(np.arange(150) % 5 - 1),
    "most left out": ShuffleSplit(3, train_size=0.3, test_size=0.1, random_state=0),
    "masks": mask_splits(150),
    "repeated rows": bootstrap_splits(150, np.random.default_rng(0)),
}


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("cv", SPLITTERS)
def test_splitters(cv, network):
    compare_networks(network, {"n_hidden": [30, 10]}, load_regression(2), cv=SPLITTERS[cv])


def test_splitters_of_groups():
    groups = np.random.default_rng(0).integers(0, 7, 150)
    options = {**ALL_SCORES, "cv": GroupKFold(3), "fit_params": {"groups": groups}}
    compare(TANH, SIZES, load_regression(), **options)


# Uncovered samples, and y that differs between splits


def test_uncovered_samples():
    """They are predicted by the intercept."""
    network = clone(RBF).set_params(kernel="triangular")
    grid = {"n_hidden": [10, 40], "radius": [0.8, 1.6]}
    for n_outputs in (0, 2):
        X, y = load_regression(n_outputs)
        compare(network, grid, (X, y), **ALL_SCORES)
    network.set_params(n_hidden=10, radius=1.6).fit(X, y)
    is_uncovered = (network.predict(X) == network.readout_intercept_).all(axis=1)
    assert 10 < is_uncovered.sum() < len(X)


@pytest.mark.parametrize("unit", [1e-100, 1e12, 1e100])
def test_y_in_any_unit(unit):
    X, y = load_regression()
    compare_networks(TANH, SIZES, (X, unit * y + unit))


def test_y_with_a_large_mean():
    X, y = load_regression()
    compare_networks(TANH, SIZES, (X, y + 1e6))


@pytest.mark.filterwarnings("ignore:y has a heavy tail")
@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
def test_an_outlier(work, size):
    """Subtraction from the total would cancel: each split has a separate pass."""
    X, y = load_regression()
    y[7] = size
    compare(TANH, SIZES, (X, y), **{**ALL_SCORES, "cv": KFold(5)})
    assert work.rows == 4 * 150


@pytest.mark.filterwarnings("ignore:y has a heavy tail")
def test_an_outlier_of_small_weight(work):
    """Together with a larger outlier, without which y hardly varies."""
    X, y = load_regression()
    y[[7, 100]] = 1e9
    weight = np.where(np.arange(150) == 100, 1e-30, 1.0)
    compare(TANH, SIZES, (X, y), fit_params={"sample_weight": weight}, cv=KFold(5))
    assert work.rows == 4 * 150


@pytest.mark.parametrize("n_outputs", [0, 2])
def test_constant_y_in_a_training_set(n_outputs):
    """There the scale is 1."""
    X, y = load_regression(n_outputs)
    y[:75] = 0.3
    scoring = {name: SCORERS[name] for name in ("squares", "absolute")}
    fitted = compare_networks(TANH, SIZES, (X, y), cv=KFold(2), scoring=scoring)
    assert {float(np.max(each.target_scale_)) == 1.0 for each in fitted} == {True, False}


def test_a_constant_output():
    X, y = load_regression(2)
    y[:, 1] = 0.1
    compare_networks(TANH, SIZES, (X, y), scoring={"squares": SCORERS["squares"]})


# Sample weights


def weight_of(n=150):
    rng = np.random.default_rng(1)
    return rng.random(n) * (rng.random(n) > 0.33)


@pytest.mark.parametrize(
    ("network", "grid"),
    [(TANH, SIZES), (TANH, PENALTIES), (TANH_AUTO, {"n_hidden": [30]}), (RBF, PENALTIES),
     (ALL_AUTO, {"n_hidden": [30]})],
)  # fmt: skip
@pytest.mark.parametrize("n_outputs", [0, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_sample_weights(network, grid, n_outputs):
    """In the fit, and in the mean and the scale of y."""
    fit_params = {"sample_weight": weight_of()}
    compare_networks(
        network, grid, load_regression(n_outputs), scoring=SCORERS, fit_params=fit_params
    )


@pytest.mark.parametrize("network", [TANH, TANH_OF_SPLITS, RBF])
@pytest.mark.parametrize("n_outputs", [0, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_sample_weights_reach_the_score(network, n_outputs):
    data, fit_params = load_regression(n_outputs), {"sample_weight": weight_of()}
    compare(network, {"n_hidden": [40, 10]}, data, fit_params=fit_params, return_train_score=True)


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_a_training_set_of_weight_0(network):
    rows = np.arange(150)
    options = {"cv": [(rows[:75], rows[75:]), (rows[50:], rows[:90])],
           "fit_params": {"sample_weight": np.where(rows < 75, 0.0, 1.0)}}  # fmt: skip
    with pytest.warns(FitFailedWarning, match="is zero for all samples"):
        actual = compare(network, SIZES, load_regression(), n_separate=2, **options)
    assert np.isnan(actual.cv_results_["split0_test_score"]).all()
    assert np.isfinite(actual.cv_results_["split1_test_score"]).all()


def test_sample_weights_are_routed():
    fit_params = {"sample_weight": weight_of()}
    with sklearn.config_context(enable_metadata_routing=True):
        network = clone(TANH).set_fit_request(sample_weight=True)
        network.set_score_request(sample_weight=False)
        compare(network, SIZES, load_regression(), fit_params=fit_params, return_train_score=True)


# Pipelines


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("n_outputs", [0, 2])
def test_steps_before_the_network(network, n_outputs):
    estimator = Pipeline([("scale", StandardScaler()), ("net", network)])
    fit_params = {"net__sample_weight": weight_of()}
    grid = {"net__n_hidden": [30], "net__alpha": [0.2, "auto"]}
    compare_networks(estimator, grid, load_regression(n_outputs), fit_params=fit_params)
    compare(estimator, {"net__n_hidden": [30, 10]}, load_regression(n_outputs), **ALL_SCORES)


def test_the_network_itself_is_a_parameter():
    estimator = make_pipeline(StandardScaler(), TanhRegressor(feature_weights=None))
    name = "tanhregressor"
    grids = [
        {name: [TANH, RBF], f"{name}__n_hidden": [10, 20], f"{name}__alpha": [1.0]},
        {name: [Ridge()], f"{name}__alpha": [0.1]},
    ]
    compare(estimator, grids, load_regression(), refit=True)


# Shared passes


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_all_splits_share_one_pass(work, n_outputs):
    """The largest network is evaluated once for the statistics, and once for the scores."""
    data = load_regression(n_outputs)
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, cv=3, scoring=SCORERS, refit=False).fit(*data)
    assert (work.rows, work.entries) == (150, 2 * 150 * 40)


@pytest.mark.parametrize(
    ("network", "grid", "is_held_out"),
    [
        (TANH_OF_SPLITS, SIZES_AND_PENALTIES, False),
        (
            RBF,
            {**SIZES_AND_PENALTIES, "radius": [3.0, 6.0], "kernel": ["laplacian", "gaussian"]},
            False,
        ),
        (TANH, PENALTIES, True),
        (RBF, {**PENALTIES, "radius": [3.0, 6.0]}, False),  # samples are left out instead
    ],
)
def test_each_split_needs_a_pass(work, network, grid, is_held_out):
    """And all samples once more, in six held-out parts."""
    HiddenSizeSearchCV(network, grid, cv=3, refit=False).fit(*load_regression(2))
    passes, times = (7, 2) if is_held_out else (1, 1)
    assert (work.passes, work.rows) == (3 * passes, times * 2 * 150)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_networks_with_leave_one_out_are_fitted_separately(network):
    grids = [
        {"uncertainty": [True], "n_hidden": [10, 20], "alpha": [1.0]},
        {"alpha": ["loo", [0.1, 1.0]], "n_hidden": [10]},
        {"n_hidden": [40, 15]},
    ]

    def certainty(estimator, X, y):
        if not estimator.uncertainty:
            return estimator.score(X, y)
        return estimator.predict(X, return_std=True)[1].mean()

    compare(network, grids, load_regression(2), n_separate=4 * 2)
    compare(network, grids[::2], load_regression(2), n_separate=2 * 2, scoring=certainty)


@pytest.mark.parametrize("network", [TANH, RBF], ids=["tanh", "rbf"])
def test_every_device(device, network):
    grid = {**SIZES, "alpha": [0.2, "auto"]}
    compare(clone(network).set_params(device=device), grid, load_regression(2), **ALL_SCORES)


# Invalid input


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.where(np.arange(150) == 7, np.nan, 1.0), "NaN"),
        (np.array(["a", "b"] * 75), "could not convert|dtype"),
        (np.zeros(149), "inconsistent"),
    ],
    ids=["NaN", "words", "too short"],
)
def test_invalid_y_is_refused(y, match):
    """The error of GridSearchCV; the search is unchanged."""
    X = load_regression()[0]
    all_rows = [(np.arange(149), np.arange(149))]
    for kind in (GridSearchCV, HiddenSizeSearchCV):
        search = kind(clone(TANH), {"n_hidden": [3]}, cv=all_rows)
        before = dict(vars(search))
        with pytest.raises(ValueError, match=match):
            search.fit(X, y)
        if kind is HiddenSizeSearchCV:
            assert vars(search) == before


def log_regressor(network, **options):
    return TransformedTargetRegressor(network, func=np.log1p, inverse_func=np.expm1, **options)


TRANSFORMED = {
    "alone": (log_regressor(TANH), "regressor__"),
    "before a pipeline": (
        log_regressor(make_pipeline(StandardScaler(), RBF)), "regressor__rbfregressor__"
    ),
    "in a pipeline": (
        make_pipeline(StandardScaler(), log_regressor(RBF)),
        "transformedtargetregressor__regressor__",
    ),
    "quantiles": (
        TransformedTargetRegressor(RBF, transformer=QuantileTransformer(n_quantiles=50)),
        "regressor__",
    ),
}  # fmt: skip


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_targets(name, scoring):
    """They share passes, and predict in the unit of y."""
    estimator, prefix = TRANSFORMED[name]
    X, y = load_regression()
    grid = {prefix + parameter: values for parameter, values in SIZES.items()}
    options = {"scoring": scoring, "return_train_score": True, "refit": True}
    search = compare(estimator, grid, (X, y**4), **options)
    assert search.best_params_.keys() == grid.keys()


@pytest.mark.filterwarnings("ignore:Column 1 of y has a heavy tail")
def test_transformed_targets_of_several_outputs_with_weights():
    X, y = load_regression(3)
    weight = np.random.default_rng(0).random(len(y))
    estimator = log_regressor(RBF)
    grid = {"regressor__n_hidden": [10, 20], "func": [np.log1p, np.cbrt], "check_inverse": [False]}
    sklearn_way = {"fit_params": {"sample_weight": weight}, "scoring": "neg_mean_absolute_error"}
    compare(estimator, grid, (X, np.abs(y)), **sklearn_way)


def test_targets_without_a_logarithm():
    """The error of scikit-learn names the values."""
    X, y = load_regression()
    search = HiddenSizeSearchCV(log_regressor(RBF), {"regressor__n_hidden": [10]}, cv=2)
    with pytest.raises(ValueError, match=r"NaN|infinity"), np.errstate(invalid="ignore"):
        search.fit(X, y - 100)


@pytest.mark.parametrize("alpha", [1e-3, 2e-2])
def test_small_penalties_of_float32_samples(rng, alpha):
    """Sums in float32 would leave out most directions of so many smooth units."""
    X = rng.uniform(-1, 1, size=(1500, 2)).astype(np.float32)
    y = np.sin(6 * X[:, 0]) + X[:, 1]
    network = TanhRegressor(scale=6.0, alpha=alpha, feature_weights=None, random_state=0)
    grid = {"n_hidden": [200, 400]}
    shared, separate = (
        search(network.set_params(device="jit"), grid, cv=3).fit(X, y)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    scores = shared.cv_results_["mean_test_score"]
    assert scores.min() > 0.99
    np.testing.assert_allclose(scores, separate.cv_results_["mean_test_score"], rtol=1e-4)
