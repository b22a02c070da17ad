"""Save models with the current version: python tests/golden/make.py

Run it once per release; files of released versions are never changed.
"""

import pickle
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import sklearn_fsvc
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)


def models():
    """Yield (name, fitted model of few units, samples to predict)."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3].astype(np.float32), y[::3]
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    fixed = {"random_state": 0, "device": "cpu"}
    yield "rbf_classifier", RBFClassifier(6, **fixed).fit(X, words), X
    rows = (10 * X).astype(np.uint8)
    yield "rbf_classifier_of_bytes", RBFClassifier(6, **fixed).fit(rows, y), rows
    yield "rbf_regressor", RBFRegressor(6, uncertainty=True, **fixed).fit(X, X[:, 3]), X
    yield "rbf_projector", RBFProjector(6, **fixed).fit(X), X
    # Saved in the middle of a stream.
    classifier = TanhClassifier(6, **fixed).partial_fit(X, y, classes=range(3))
    yield "tanh_classifier", classifier, X
    yield "tanh_regressor", TanhRegressor(6, **fixed).fit(X, X[:, 2:]), X
    yield "tanh_projector", TanhProjector(6, **fixed).fit(X), X
    search = HiddenSizeSearchCV(TanhClassifier(**fixed), {"n_hidden": [3, 6]}, cv=2)
    yield "search", search.fit(X, y), X


def outputs(model, X):
    """Return the outputs of all prediction methods of a model, by name."""
    names = "predict", "predict_proba", "decision_function", "transform"
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


def main():
    import skops.io  # here, since loading pickles does not need it

    folder = Path(__file__).parent / sklearn_fsvc.__version__
    folder.mkdir(exist_ok=True)
    for name, model, X in models():
        np.savez_compressed(folder / f"{name}.npz", X=X, **outputs(model, X))
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(model, protocol=5))
        skops.io.dump(
            model, folder / f"{name}.skops", compression=zipfile.ZIP_DEFLATED, compresslevel=9
        )


if __name__ == "__main__":
    main()
