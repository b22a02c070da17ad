"""Models saved by MLflow, whose format for scikit-learn is that of skops. Where it is installed."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_fsvc import RBFClassifier, TanhRegressor, make_tabular_pipeline
from sklearn_fsvc.export.skops import TRUSTED

mlflow = pytest.importorskip("mlflow.sklearn", reason="needs mlflow-skinny 3.17 or newer")
X, Y = load_iris(return_X_y=True)
FIXED = {"random_state": 0, "device": "cpu"}


@pytest.mark.filterwarnings("ignore")  # MLflow's own, of its dependencies
@pytest.mark.parametrize(
    "model",
    [
        RBFClassifier(10, **FIXED),
        TanhRegressor(10, **FIXED),
        make_tabular_pipeline(RBFClassifier(10, **FIXED)),
    ],
    ids=["classifier", "regressor", "table"],
)
def test_a_model(model, tmp_path):
    model.fit(X, Y)
    options = {"pip_requirements": ["sklearn-fsvc"], "skops_trusted_types": list(TRUSTED)}
    mlflow.save_model(model, tmp_path / "model", serialization_format="skops", **options)
    assert [path.suffix for path in (tmp_path / "model").glob("model.*")] == [".skops"]
    loaded = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    served = mlflow.mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(served.predict(X), model.predict(X))
