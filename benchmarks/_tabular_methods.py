"""The compared methods for tabular data, each with its preprocessing.

A factory receives the device and parameters, and returns an estimator for a DataFrame of numerical
features, with NaN, and categorical ones. Trees use categorical features natively if the library
supports them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from scipy.stats import loguniform, randint, uniform
from sklearn.base import BaseEstimator
from sklearn.compose import (
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR

from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)

# Task -> the networks of RBF and of tanh units.
NETWORKS = {
    "classification": (RBFClassifier, TanhClassifier),
    "regression": (RBFRegressor, TanhRegressor),
}
# Parameters of "RBFClassifier, best" and "RBFRegressor, best".
BEST = {"alpha": "loo"}


@dataclass(frozen=True)
class Method:
    """Factories, and the search space of tuning; without `space` there is only the default."""

    label: str
    classifier: Callable
    regressor: Callable | None  # None if there is no counterpart
    space: dict = field(default_factory=dict)
    max_rows: int | None = None  # maximal number of training samples
    ours: bool = False

    def factory(self, task):
        return self.classifier if task == "classification" else self.regressor


def _columns(numeric, categorical):
    categories = make_column_selector(dtype_include="category")
    others = make_column_selector(dtype_exclude="category")
    return make_column_transformer((numeric, others), (categorical, categories))


def _ordinal():
    """Return the preprocessing of a forest."""
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    return _columns(SimpleImputer(strategy="median"), codes)


def _scaled():
    """Return the preprocessing of methods based on distances and inner products."""
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return _columns(numeric, OneHotEncoder(handle_unknown="ignore", sparse_output=False))


def _lightgbm(kind, device, **params):
    import lightgbm

    return getattr(lightgbm, kind)(random_state=0, verbose=-1, **params)


def _xgboost(kind, device, **params):
    import xgboost

    return getattr(xgboost, kind)(random_state=0, enable_categorical=True, device=device, **params)


class _Boosted(BaseEstimator):
    """CatBoost with the categorical columns of X, converted to text."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model.fit(self._as_text(X), y, cat_features=self._categories(X))
        return self

    def predict(self, X):
        return self.model.predict(self._as_text(X)).ravel()

    def predict_proba(self, X):
        return self.model.predict_proba(self._as_text(X))

    @staticmethod
    def _categories(X):
        return list(X.select_dtypes("category"))

    def _as_text(self, X):
        return X.astype(dict.fromkeys(self._categories(X), str))


def _catboost(kind, device, **params):
    import catboost

    where = {"task_type": "GPU"} if device == "cuda" else {}
    model = getattr(catboost, kind)(
        random_seed=0, verbose=0, allow_writing_files=False, **where, **params
    )
    return _Boosted(model)


def _chimeraboost(kind, device, **params):
    import chimeraboost

    return getattr(chimeraboost, kind)(random_state=0, **params)


def _forest(kind, device, **params):
    return make_pipeline(_ordinal(), kind(n_jobs=-1, random_state=0, **params))


def _hist_boosting(kind, device, **params):
    return kind(categorical_features="from_dtype", random_state=0, **params)


def _svc(device, **params):
    return make_pipeline(_scaled(), SVC(**params))


def _svr(device, **params):
    """Return an SVR of scaled targets, since its epsilon tube has a fixed width."""
    model = make_pipeline(_scaled(), SVR(**params))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _logistic(device, penalty=1.0):
    return make_pipeline(_scaled(), LogisticRegression(C=1 / penalty, max_iter=1000))


def _ridge(device, penalty=1.0):
    return make_pipeline(_scaled(), Ridge(alpha=penalty))


def _nystroem(kind, device, gamma=None, n_components=1000, **params):
    features = Nystroem(gamma=gamma, n_components=n_components, random_state=0)
    return make_pipeline(_scaled(), features, kind(**params))


def _ours(kind, device, **params):
    return make_tabular_pipeline(kind(random_state=0, device=device, **params))


def _stacked(kind, device, n_hidden=None):
    """Return a stacked ensemble, with `n_hidden` units per network if given."""
    members = None
    if n_hidden:
        members = [(k, m.set_params(n_hidden=n_hidden)) for k, m in kind.default_estimators()]
    return make_tabular_pipeline(kind(members, random_state=0, device=device))


_BOOSTING = {
    "n_estimators": randint(50, 501),
    "learning_rate": loguniform(0.01, 0.3),
    "colsample_bytree": uniform(0.5, 0.5),
    "subsample": uniform(0.5, 0.5),
    "reg_lambda": loguniform(1e-3, 10),
}
_MORE_TREES = {"n_estimators": 500, "learning_rate": 0.05}
_NYSTROEM = {
    "alpha": loguniform(1e-3, 1e3),
    "gamma": loguniform(1e-4, 1),
    "n_components": randint(300, 1501),
}
_KERNEL_MACHINE = {"C": loguniform(0.1, 1e3), "gamma": loguniform(1e-4, 1)}


def _of_ours(label, *kinds, **params):
    return Method(label, *(partial(_ours, kind, **params) for kind in kinds), ours=True)


METHODS = {
    "lightgbm": Method(
        "LightGBM", partial(_lightgbm, "LGBMClassifier"), partial(_lightgbm, "LGBMRegressor"),
        _BOOSTING | {
            "num_leaves": randint(7, 128), "min_child_samples": randint(5, 101),
            "subsample_freq": [1],
        },
    ),
    "lightgbm-500": Method(
        "LightGBM, 500 trees", partial(_lightgbm, "LGBMClassifier", **_MORE_TREES),
        partial(_lightgbm, "LGBMRegressor", **_MORE_TREES),
    ),
    "catboost": Method(
        "CatBoost", partial(_catboost, "CatBoostClassifier"),
        partial(_catboost, "CatBoostRegressor"),
    ),
    "chimeraboost": Method(
        "ChimeraBoost", partial(_chimeraboost, "ChimeraBoostClassifier"),
        partial(_chimeraboost, "ChimeraBoostRegressor"),
    ),
    "xgboost": Method(
        "XGBoost", partial(_xgboost, "XGBClassifier"), partial(_xgboost, "XGBRegressor"),
        _BOOSTING | {"max_depth": randint(3, 11), "min_child_weight": loguniform(1, 100)},
    ),
    "forest": Method(
        "RandomForest", partial(_forest, RandomForestClassifier),
        partial(_forest, RandomForestRegressor),
        {
            "n_estimators": [300], "max_features": ["sqrt", 0.3, 0.5, 0.7, 1.0],
            "min_samples_leaf": randint(1, 11),
        },
    ),
    "histgb": Method(
        "HistGradientBoosting", partial(_hist_boosting, HistGradientBoostingClassifier),
        partial(_hist_boosting, HistGradientBoostingRegressor),
        {
            "max_iter": randint(50, 501), "learning_rate": loguniform(0.01, 0.3),
            "max_leaf_nodes": randint(7, 128), "min_samples_leaf": randint(5, 101),
            "l2_regularization": loguniform(1e-3, 10), "max_features": uniform(0.5, 0.5),
        },
    ),
    "svc": Method("SVC", _svc, _svr, _KERNEL_MACHINE, max_rows=20_000),
    "linear": Method(
        "logistic regression", _logistic, _ridge, {"penalty": loguniform(1e-3, 1e3)}
    ),
    "nystroem": Method(
        "Nystroem + ridge", partial(_nystroem, RidgeClassifier), partial(_nystroem, Ridge),
        _NYSTROEM,
    ),
    "stacked": Method(
        "StackedClassifier", partial(_stacked, StackedClassifier),
        partial(_stacked, StackedRegressor), ours=True,
    ),
    "rbf": _of_ours("RBFClassifier", RBFClassifier, RBFRegressor),
    "rbf-best": _of_ours("RBFClassifier, best", RBFClassifier, RBFRegressor, **BEST),
    "softmax": Method(
        "RBFClassifier, softmax", partial(_ours, RBFClassifier, readout="softmax"), None, ours=True
    ),
    "tanh": _of_ours("TanhClassifier", TanhClassifier, TanhRegressor),
}  # fmt: skip
