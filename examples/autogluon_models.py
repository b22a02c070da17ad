"""
Models for AutoGluon and TabArena
=================================

`RBFNetworkModel` and `StackedNetworksModel` are models for AutoGluon's ``TabularPredictor``: the
two presets of :func:`~sklearn_fsvc.make_tabular_pipeline`. They can be bagged, stacked, tuned and
refitted, as AutoGluon's own models can::

    from autogluon.tabular import TabularPredictor
    from autogluon_models import RBFNetworkModel, StackedNetworksModel

    models = {RBFNetworkModel: {}, StackedNetworksModel: {}, "GBM": {}, "CAT": {}}
    predictor = TabularPredictor("target").fit(table, hyperparameters=models)
    predictor.leaderboard(test_table)

They need AutoGluon 1.6 or later (``pip install autogluon.tabular``) and scikit-learn 1.9 or later.
For TabArena, copy this file into a folder of its models: `warmup` is called before the time is
measured.
"""

from time import monotonic
from typing import ClassVar

import numpy as np
import pandas as pd
from autogluon.common.features.types import R_BOOL, R_CATEGORY, R_FLOAT, R_INT
from autogluon.common.utils.pandas_utils import get_approximate_df_mem_usage
from autogluon.core.constants import QUANTILE, REGRESSION
from autogluon.core.models import AbstractModel
from autogluon.core.utils.exceptions import TimeLimitExceeded
from threadpoolctl import threadpool_limits

from sklearn_fsvc import make_tabular_pipeline

MIN_HIDDEN, MAX_HIDDEN = 100, 4000
# Share of the time limit for a fit: predictions and saving need some, too.
USABLE_TIME = 0.95


class _Deadline:
    """A callback of scikit-learn that ends a fit when its time is over."""

    max_propagation_depth = None

    def __init__(self, end):
        self.end = end

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        if monotonic() > self.end:
            raise TimeLimitExceeded

    def on_fit_task_end(self, estimator, context, **kwargs):
        return False


class _PresetModel(AbstractModel):
    """Base class: a preset of `make_tabular_pipeline`.

    Hyperparameters are those of the network or ensemble. Categories, missing values and quantile
    regression are supported. The validation set, if there is one, selects the hyperparameters of
    the network; without one, as after ``refit_full``, it holds out samples itself.
    """

    seed_name = "random_state"
    default_resources_physical_cores_only = True
    _supported_problem_types: ClassVar = ["binary", "multiclass", REGRESSION, QUANTILE]
    _default_auxiliary_params_extra: ClassVar = {
        "valid_raw_types": [R_BOOL, R_INT, R_FLOAT, R_CATEGORY]
    }

    @classmethod
    def warmup(cls, *, problem_type=None, num_cpus=None, **kwargs):
        """Compile the loops, which takes time on a new machine, by a fit to random samples."""
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.random((300, 3)), columns=["a", "b", "c"])
        X["d"] = pd.Categorical(rng.integers(3, size=len(X)))
        y = X["a"] if problem_type in (REGRESSION, QUANTILE) else (X["a"] > 0.5).astype(int)
        with threadpool_limits(num_cpus):
            cls._make_pipeline(problem_type, random_state=0, device="cpu").fit(X, y).predict(X)

    @classmethod
    def _make_pipeline(cls, problem_type, **options):
        task = "regressor" if problem_type in (REGRESSION, QUANTILE) else "classifier"
        return make_tabular_pipeline(task, preset=cls.preset, **options)

    def _fit(
        self, X, y, X_val=None, y_val=None, time_limit=None, sample_weight=None,
        sample_weight_val=None, num_cpus=None, num_gpus=0, **kwargs,
    ):  # fmt: skip
        start = monotonic()
        X = self.preprocess(X, y=y)
        device = "auto" if num_gpus else "cpu"
        pipeline = self._make_pipeline(self.problem_type, device=device)
        encoder, network = pipeline[:-1], pipeline[-1].set_params(**self._get_model_params())
        validation = {}
        with threadpool_limits(num_cpus or None):
            Z = encoder.fit_transform(X, y)
            if X_val is not None:
                Z_val = encoder.transform(self.preprocess(X_val))
                validation = {"X_val": Z_val, "y_val": y_val}
                if sample_weight_val is not None:
                    validation["sample_weight_val"] = sample_weight_val
            if time_limit is not None:
                end = start + USABLE_TIME * time_limit
                if not num_gpus:
                    self._limit_units(network, Z.shape, num_cpus or 1, end - monotonic())
                network.set_callbacks(_Deadline(end))
            network.fit(Z, y, sample_weight=sample_weight, **validation)
        self.model = pipeline

    def _limit_units(self, network, shape, n_cpus, seconds):
        """Reduce the number of units to what can be fitted in time; raise if that is too few."""
        default = min(MAX_HIDDEN, 3 * shape[0] // 4)
        affordable = _count_units(shape, self.speed * n_cpus * (seconds - self.overhead))
        if affordable < (getattr(network, "n_hidden", None) or default):
            self._reduce(network, affordable)

    def _predict_proba(self, X, num_cpus=None, **kwargs):
        with threadpool_limits(num_cpus or None):
            if self.problem_type != QUANTILE:
                return super()._predict_proba(X, **kwargs)
            Z = self.model[:-1].transform(self.preprocess(X, **kwargs))
            return self.model[-1].predict_quantiles(Z, self.quantile_levels)

    @classmethod
    def _estimate_memory_usage_static(cls, *, X, hyperparameters=None, num_classes=1, **kwargs):
        """Return the bytes of the samples and their copies, and of the Gram matrices."""
        n_hidden = (hyperparameters or {}).get("n_hidden") or min(MAX_HIDDEN, len(X))
        return int(3e8 + 8 * get_approximate_df_mem_usage(X).sum() + 32 * n_hidden**2)

    def _more_tags(self):
        return {"can_refit_full": True}


class RBFNetworkModel(_PresetModel):
    """An RBF network, which has fewer units if the time is short."""

    ag_key, ag_name, ag_priority = "FSVC_RBF", "RBFNetwork", 65
    preset = "fast"
    # Multiply-adds per second and CPU, and seconds that do not depend on the number of units: half
    # the speed that was measured, since `_Deadline` would discard a fit that takes too long.
    speed, overhead = 2e10, 1.0

    def _reduce(self, network, n_units):
        if n_units < MIN_HIDDEN:
            raise TimeLimitExceeded
        network.set_params(n_hidden=n_units)
        self.params_trained["n_hidden"] = n_units  # `refit_full` has no time limit


class StackedNetworksModel(_PresetModel):
    """A stacked ensemble of networks, which is not fitted if the time is short."""

    ag_key, ag_name, ag_priority = "FSVC_STACK", "StackedNetworks", 60
    preset = "best"
    speed, overhead = 5e9, 4.0

    def _reduce(self, network, n_units):
        raise TimeLimitExceeded


def _count_units(shape, n_operations):
    """Return the largest m with n m (d + m) operations, for n samples of d features."""
    n_samples, n_features = shape
    return int(np.sqrt(max(n_operations / n_samples, 0) + n_features**2 / 4) - n_features / 2)
