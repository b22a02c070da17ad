"""The contracts of parts, and that fitted attributes are those of the last fit only."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.estimators.network import Network, with_center_targets
from sklearn_fsvc._src.parts.composition import layer_of, parts_of
from sklearn_fsvc._src.readouts.penalty_search import SearchHistory
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.parts import Readout, ReadoutTraining, TargetSpec, Units

X, Y = load_iris(return_X_y=True)
FITTED = FrozenEstimator(
    RBFClassifier(9, feature_weights=None, alpha=1.0, random_state=0).fit(X, Y)
)
# Each of them sets attributes that others do not set.
RBF_PARAMS = [
    {"alpha": "loo", "feature_weights": None},
    {"readout": "lms", "max_iter": 2, "kernel": "laplacian", "feature_weights": None},
    {"readout": "none", "selection": "random", "feature_weights": None},
    {"alpha": 1.0, "radius": 2.0, "kernel": "laplacian", "feature_weights": None},
    {"layer": FITTED},
    {},
]


def test_an_estimator_without_parts_is_abstract():
    class Empty(Network):
        pass

    with pytest.raises(TypeError, match=r"abstract.*_parts"):
        Empty()


@pytest.mark.parametrize(
    ("contract", "missing"), [(Units, "fit"), (TargetSpec, "format_output"), (Readout, "train")]
)
def test_incomplete_parts_are_abstract(contract, missing):
    class Empty(contract):
        pass

    with pytest.raises(TypeError, match=rf"abstract.*{missing}"):
        Empty.from_estimator(TanhClassifier())


def test_a_fit_deletes_attributes_of_the_previous_one():
    used = RBFClassifier(9, random_state=0).partial_fit(X, Y, classes=range(3))
    models = [
        clone(RBFClassifier(9, random_state=0).set_params(**params)).fit(X, Y)
        for params in RBF_PARAMS
    ]
    pairs = list(zip(RBF_PARAMS, models, strict=True))
    # The default fit, which takes longest, is last, and would otherwise be repeated.
    for params, fresh in [*pairs, *reversed(pairs[:-1])]:
        used.set_params(**RBFClassifier(9, random_state=0).get_params()).set_params(**params).fit(
            X, Y
        )
        assert vars(used).keys() == vars(fresh).keys()
        np.testing.assert_array_equal(used.readout_coef_, fresh.readout_coef_)


def test_partial_fit_after_fit_keeps_the_layer():
    model = RBFRegressor(9, uncertainty=True, random_state=0).fit(X, X[:, 0])
    before = dict(vars(model))
    with pytest.warns(UserWarning, match="was trained by fit"):
        model.set_params(uncertainty=False).partial_fit(X[:50], X[:50, 0])
    deleted = {
        "readout_coef_",
        "readout_intercept_",
        "alpha_",
        "alphas_",
        "loo_errors_",
        "posterior_",
    }
    deleted |= {"search_results_", "residual_distribution_"}
    assert before.keys() - vars(model).keys() == deleted
    for name in ("centers_", "support_", "radius_", "center_targets_", "target_mean_"):
        assert getattr(model, name) is before[name]


@pytest.mark.parametrize(
    "model", [RBFClassifier(9, random_state=0), TanhClassifier(9, random_state=0)], ids=str
)
def test_fitting_a_part_returns_a_new_one(model):
    """The original part and the estimator are unchanged."""
    parts = parts_of(model)
    with get_engine("jit") as engine:
        job, history = Job(engine), SearchHistory(parts.units.start_alpha)
        target, samples = parts.target.fit_encode(X, Y, None)
        samples = parts.units.order_samples(samples)
        units = parts.units.fit(job, samples, history)
        units_with_targets = with_center_targets(units, target, samples)
        readout = parts.readout.train(
            ReadoutTraining(job, samples, units_with_targets, target, history)
        )
    assert (parts.target.fitted, parts.units.fitted, parts.readout.fitted) == ({}, {}, {})
    assert not any(name.endswith("_") for name in vars(model))
    fitted = model.fit(X, Y)
    np.testing.assert_array_equal(units.layer.units, layer_of(fitted).units)
    np.testing.assert_array_equal(readout.readout_coef_, fitted.readout_coef_)
    np.testing.assert_array_equal(target.labels.classes, fitted.classes_)


def test_a_transformer_has_units_only():
    parts = parts_of(TanhProjector(5))
    assert parts.target is None
    assert parts.readout is None
    assert parts_of(FrozenEstimator(TanhProjector(5))) is None


def test_an_undeclared_fitted_attribute_raises():
    units = parts_of(TanhProjector(5)).units
    with pytest.raises(TypeError, match="centres_"):
        units.with_fitted(centres_=X)


def test_with_fitted_unsets_all_other_attributes():
    units = parts_of(TanhProjector(5)).units.with_fitted(components_=X, precision_=None)
    assert units.fitted == {"components_": X, "precision_": None}
    assert units.update_fitted(precision_=8).fitted == {"components_": X, "precision_": 8}
    assert units.with_fitted().fitted == {}
