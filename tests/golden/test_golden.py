"""Models saved by earlier versions load, and predict as they did."""

import pickle
import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

import sklearn_fsvc
from sklearn_fsvc.export.skops import TRUSTED

GOLDEN = Path(__file__).parent
# The version of scikit-learn that saved them.
SAVED_BY = "1.9.1"
# It does not have the modules of NumPy 2, which pickled them.
NUMPY_1 = parse_version(np.__version__) < parse_version("2")
MAKE = runpy.run_path(str(GOLDEN / "make.py"))
FILES = sorted(path for way in ("pickle", "skops") for path in GOLDEN.glob(f"*/*.{way}"))


def load(path):
    """Load a model; skip the test only if a package is older than the one that saved it."""
    try:
        if path.suffix == ".pickle":
            return pickle.loads(path.read_bytes())
        return pytest.importorskip("skops.io").load(path, trusted=TRUSTED)
    except (ImportError, AttributeError, TypeError) as error:
        for package, is_older in OLDER.items():
            if is_older(path) and re.search(package, str(error)):
                pytest.skip(f"saved by a newer package: {error}")
        raise


def _contains_scikit_learn(path):
    return path.stem == "search" and parse_version(sklearn.__version__) < parse_version(SAVED_BY)


# Pattern of an error message of an older package -> whether it may fail to load a file.
OLDER = {
    r"numpy\._core": lambda path: path.suffix == ".pickle" and NUMPY_1,
    r"sklearn\.": _contains_scikit_learn,
}


def test_current_version_is_included():
    assert sklearn_fsvc.__version__ in {path.parent.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
# From other versions, and from scikit-learn's objects in a search.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_predictions_are_the_same(path):
    model = load(path)
    with np.load(path.with_suffix(".npz")) as saved:
        outputs = MAKE["outputs"](model, saved["X"])
        assert outputs.keys() == set(saved) - {"X"}
        for name, output in outputs.items():
            if output.dtype.kind == "f":
                np.testing.assert_allclose(output, saved[name], rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(output, saved[name])


def test_partial_fit_continues():
    (path,) = (GOLDEN / sklearn_fsvc.__version__).glob("tanh_classifier.pickle")
    with np.load(path.with_suffix(".npz")) as saved, warnings.catch_warnings():
        X, y = saved["X"], saved["predict"]
        warnings.simplefilter("ignore")
        before = load(path)
        after = load(path).partial_fit(X[:9], y[:9]).forget(X[:9], y[:9])
    np.testing.assert_allclose(
        after.solve().readout_coef_, before.readout_coef_, rtol=1e-4, atol=1e-5
    )
