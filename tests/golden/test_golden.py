"""What earlier versions saved is loaded by this one, and answers as it did."""

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
# The scikit-learn with which they were saved.
SAVED_BY = "1.9.1"
# It does not know where NumPy 2, which pickled them, has its functions.
NUMPY_1 = parse_version(np.__version__) < parse_version("2")
MAKE = runpy.run_path(str(GOLDEN / "make.py"))
FILES = sorted(path for way in ("pickle", "skops") for path in GOLDEN.glob(f"*/*.{way}"))


def load(path):
    """What is saved there; skips only where a package is older than what saved it, and says so."""
    try:
        if path.suffix == ".pickle":
            return pickle.loads(path.read_bytes())
        return pytest.importorskip("skops.io").load(path, trusted=TRUSTED)
    except (ImportError, AttributeError, TypeError) as error:
        for package, is_older in OLDER.items():
            if is_older(path) and re.search(package, str(error)):
                pytest.skip(f"saved by a newer package: {error}")
        raise


def _has_parts_of_scikit_learn(path):
    return path.stem == "search" and parse_version(sklearn.__version__) < parse_version(SAVED_BY)


# What an error of an older package speaks of, and the files that it may not know.
OLDER = {
    r"numpy\._core": lambda path: path.suffix == ".pickle" and NUMPY_1,
    r"sklearn\.": _has_parts_of_scikit_learn,
}


def test_this_version_is_among_them():
    assert sklearn_fsvc.__version__ in {path.parent.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
# Of other versions, and of scikit-learn's own parts of a search.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_answers(path):
    model = load(path)
    with np.load(path.with_suffix(".npz")) as kept:
        given = MAKE["answers"](model, kept["X"])
        assert given.keys() == set(kept) - {"X"}
        for name, answer in given.items():
            if answer.dtype.kind == "f":
                np.testing.assert_allclose(answer, kept[name], rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(answer, kept[name])


def test_sums_go_on():
    (path,) = (GOLDEN / sklearn_fsvc.__version__).glob("tanh_classifier.pickle")
    with np.load(path.with_suffix(".npz")) as kept, warnings.catch_warnings():
        X, y = kept["X"], kept["predict"]
        warnings.simplefilter("ignore")
        before = load(path)
        after = load(path).partial_fit(X[:9], y[:9]).forget(X[:9], y[:9])
    np.testing.assert_allclose(
        after.solve().readout_coef_, before.readout_coef_, rtol=1e-4, atol=1e-5
    )
