"""What earlier versions saved is loaded by this one, and answers as it did."""

import pickle
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

import sklearn_fsvc
from sklearn_fsvc.export.skops import TRUSTED

GOLDEN = Path(__file__).parent / "golden"
# The scikit-learn with which they were saved.
SAVED_BY = "1.9.1"
MAKE = runpy.run_path(str(GOLDEN / "make.py"))
FILES = sorted(path for way in ("pickle", "skops") for path in GOLDEN.glob(f"*/*.{way}"))


def load(path):
    if path.suffix == ".pickle":
        return pickle.loads(path.read_bytes())
    return pytest.importorskip("skops.io").load(path, trusted=TRUSTED)


def test_this_version_is_among_them():
    assert sklearn_fsvc.__version__ in {path.parent.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
# Of other versions, and of scikit-learn's own parts of a search.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_answers(path):
    is_older = parse_version(sklearn.__version__) < parse_version(SAVED_BY)
    if path.stem == "search" and is_older:
        pytest.skip(f"parts of a search are scikit-learn's own, here of version {SAVED_BY}")
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
