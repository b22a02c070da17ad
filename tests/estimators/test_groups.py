"""Groups of samples that are held out together when parameters are chosen."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from modified_parts import with_parts
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)

TANH = {"feature_weights": None, "scale": 0.5, "random_state": 0}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def make_data(n=600, n_groups=40):
    """Return X, y and groups: each group has its own centre and an unpredictable offset."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, n_groups, n)
    X = 3 * rng.normal(size=(n_groups, 3))[groups] + 0.3 * rng.normal(size=(n, 3))
    y = rng.normal(size=n_groups)[groups] + X[:, 0] / 6 + 0.1 * rng.normal(size=n)
    return X, y, groups


@pytest.mark.parametrize(
    "network",
    [
        TanhRegressor(200, **TANH),
        TanhRegressor(900, **TANH),  # solved in the dual
        RBFRegressor(200, kernel="laplacian", radius=2.0, feature_weights=None, random_state=0),
    ],
)
def test_the_penalty_is_larger_for_groups(network):
    """Samples of the same group reveal its offset; samples of other groups do not."""
    X, y, groups = make_data()
    plain, grouped = clone(network).fit(X, y), clone(network).fit(X, y, groups=groups)
    assert grouped.alpha_ > 3 * plain.alpha_
    X_new, y_new, _ = make_data(n=3000, n_groups=900)
    assert grouped.score(X_new, y_new) > plain.score(X_new, y_new)


@pytest.mark.parametrize("readout", ["ridge", "softmax"])
def test_penalties_of_classifiers_are_larger_for_groups(readout):
    X, y, groups = make_data()
    model = TanhClassifier(200, readout=readout, **TANH)
    plain, grouped = clone(model).fit(X, y > 0), clone(model).fit(X, y > 0, groups=groups)
    assert grouped.alpha_ > plain.alpha_


def test_feature_weights_are_validated_by_groups():
    """A feature that is the same within a group, and noise, predicts other samples of the group."""
    X, y, groups = make_data()
    X[:, 2] = groups + 0.01 * X[:, 1]
    model = RBFRegressor(100, kernel="laplacian", random_state=0)
    plain, grouped = clone(model).fit(X, y), clone(model).fit(X, y, groups=groups)
    errors = []
    for fitted in (plain, grouped):
        # The mean over splits is the last row before those of the network of all samples.
        results = fitted.search_results_
        last = np.flatnonzero(results["n_units"] != len(fitted.centers_))[-1]
        errors.append(results["error"][last])
    assert errors[0] < 0.2
    assert errors[1] > 0.5


def test_labels_of_any_type_and_one_group():
    X, y, groups = make_data()
    model = TanhRegressor(50, **TANH)
    expected = clone(model).fit(X, y, groups=groups).predict(X)
    names = np.array([f"patient {group:02}" for group in groups])
    np.testing.assert_array_equal(clone(model).fit(X, y, groups=names).predict(X), expected)
    one = clone(model).fit(X, y, groups=np.ones(len(y))).predict(X)
    np.testing.assert_array_equal(one, clone(model).fit(X, y).predict(X))
    assert not np.array_equal(one, expected)


def test_groups_in_a_column_of_nullable_integers_are_not_merged():
    pd = pytest.importorskip("pandas")
    X, y, groups = make_data(n_groups=2)
    column = pd.DataFrame({"group": pd.array(2**53 + groups, dtype="Int64")})
    model = TanhRegressor(50, **TANH)
    expected = clone(model).fit(X, y, groups=groups).predict(X)
    np.testing.assert_array_equal(clone(model).fit(X, y, groups=column).predict(X), expected)


@pytest.mark.parametrize("alpha", ["loo", [0.1, 1.0]])
def test_leave_one_out_and_groups(alpha):
    X, y, groups = make_data()
    model = TanhRegressor(20, alpha=alpha, **TANH)
    with pytest.raises(ValueError, match=r'leave out the groups.*or "auto"'):
        model.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TanhRegressor(20, **TANH).fit(X, y, groups=groups[1:])


@pytest.mark.parametrize(
    ("max_samples", "with_final"),
    [
        (2**13, False), (300, True),
        pytest.param(2**13, True, marks=pytest.mark.exhaustive),
        pytest.param(300, False, marks=pytest.mark.exhaustive),
    ],
)  # fmt: skip
def test_stacked_ensembles(with_final, max_samples):
    """loo_error_ estimates the error on new groups; without groups it is far too small."""
    X, y, groups = make_data(1200, 120)
    final = TanhRegressor(100, **TANH) if with_final else None
    model = StackedRegressor(
        [
            ("a", TanhRegressor(300, **TANH)),
            ("b", RBFRegressor(200, kernel="laplacian", random_state=0)),
        ],
        final_estimator=final, random_state=0,
    )  # fmt: skip
    limits = dict.fromkeys(("max_weight_samples", "max_final_samples"), max_samples)
    model = with_parts(model, weighting=limits)
    plain, grouped = clone(model).fit(X, y), clone(model).fit(X, y, groups=groups)
    X_new, y_new, _ = make_data(3000, 900)
    test_error = np.square(grouped.predict(X_new) - y_new).mean() / y.var()
    assert plain.loo_error_ < test_error / 2
    assert 0.5 < grouped.loo_error_ / test_error < 2
    assert grouped.score(X_new, y_new) > plain.score(X_new, y_new)
    single = TanhRegressor(300, **TANH).fit(X, y, groups=groups)
    assert grouped.named_estimators_["a"].alpha_ == single.alpha_


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_by_default():
    X, y, groups = make_data()
    network = TanhRegressor(50, **TANH)
    expected = clone(network).fit(StandardScaler().fit_transform(X), y, groups=groups)
    pipeline = make_pipeline(StandardScaler(), network).fit(X, y, groups=groups)
    assert pipeline[-1].alpha_ == expected.alpha_
    scores = cross_val_score(network, X, y, cv=GroupKFold(3), params={"groups": groups})
    for score, (train, test) in zip(scores, GroupKFold(3).split(X, y, groups), strict=True):
        fitted = clone(network).fit(X[train], y[train], groups=groups[train])
        assert score == pytest.approx(fitted.score(X[test], y[test]))
    for ensemble in (StackedClassifier(), StackedRegressor(), RBFClassifier()):
        assert ensemble.get_metadata_routing().fit.requests["groups"] is True


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    "network", [TanhRegressor(**TANH), RBFRegressor(feature_weights=None, random_state=0)]
)
def test_searches_equal_grid_search(network):
    """Also with alpha="auto", for which candidates share passes over the data."""
    X, y, groups = make_data()
    grid = {"n_hidden": [20, 60]}
    scores = [
        search(network, grid, cv=GroupKFold(3)).fit(X, y, groups=groups).cv_results_
        for search in (HiddenSizeSearchCV, GridSearchCV)
    ]
    np.testing.assert_allclose(*(each["mean_test_score"] for each in scores), atol=0.02)


@pytest.mark.usefixtures("routing")
def test_mean_targets_of_categories_are_cross_fitted_by_group():
    """Each shop is in one group, so mean targets of shops do not predict other groups."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 1200)
    y = rng.normal(size=60)[groups] + 0.1 * rng.normal(size=1200)
    X = pd.DataFrame({"shop": [f"shop {group}" for group in groups]})
    pipeline = make_tabular_pipeline(TanhRegressor(20, **TANH))
    table = clone(pipeline["preprocessing"]).fit_transform(X, y, groups=groups)
    assert pipeline.fit(X, y, groups=groups)[-1].alpha_ > 0
    names = pipeline["preprocessing"].get_feature_names_out().tolist()
    means = table[:, names.index("categorical__mean(shop)")]
    assert abs(np.corrcoef(means, y)[0, 1]) < 0.3
    leaking = clone(pipeline["preprocessing"]).fit_transform(X, y)
    assert np.corrcoef(leaking[:, names.index("categorical__mean(shop)")], y)[0, 1] > 0.9
