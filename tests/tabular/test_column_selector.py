"""ColumnSelector: the kinds of columns of strings."""

import numpy as np
import pandas as pd
import pytest

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc._src.tabular.column_selector import column_kinds
from tabular.tables import make_frame

WORDS = np.array("cheap good new used large small red blue round flat heavy light".split())  # noqa: SIM905
TEXTS = [" ".join(words) for words in np.random.default_rng(0).choice(WORDS, size=(600, 5))]
DATES = pd.date_range("2020-01-01", periods=600).astype(str).tolist()


def make_column(container, values):
    """Return a table with a column of strings."""
    if container == "numpy":
        return np.array(values, dtype=object)[:, None]
    if container == "polars":
        return make_frame("polars", c=values)
    if container == "pyarrow":
        container = pd.ArrowDtype(pytest.importorskip("pyarrow").string())
    return pd.DataFrame({"c": pd.Series(values, dtype=container)})


@pytest.mark.parametrize("container", ["str", "object", "category", "pyarrow", "polars"])
@pytest.mark.parametrize("common", [None, "no comment given"])
def test_text_in_any_order(container, common):
    """Before or after missing values and equal ones, or between them."""
    for values in orders(common, TEXTS):
        assert "text" in column_kinds(make_column(container, values), "from_dtype")[0]


@pytest.mark.parametrize("container", ["str", "object", "category", "pyarrow", "polars", "numpy"])
def test_dates_in_any_order(container):
    for values in orders(None, DATES):
        assert column_kinds(make_column(container, values), "from_dtype") == [{"datetime"}]


def orders(common, values):
    """Return columns in which the values are last, first, and between common ones."""
    common = [common] * 3000
    interleaved = [value for pair in zip(common, values * 5, strict=True) for value in pair]
    return common + values * 5, values * 5 + common, interleaved


@pytest.mark.parametrize("container", ["str", "object", "polars"])
def test_rare_text_is_found(container):
    """In 500 rows of a million."""
    values = np.full(10**6, None, dtype=object)
    values[::2000] = TEXTS[:500]
    assert column_kinds(make_column(container, values), "from_dtype") == [{"text"}]


def test_classifier_learns_from_text_after_missing_values():
    rng = np.random.default_rng(0)
    values = [None] * 2400 + [" ".join(words) for words in rng.choice(WORDS, size=(400, 5))]
    y = np.array(["good" in (value or "good") for value in values])
    X = pd.DataFrame({"comment": values})
    network = RBFClassifier(
        100, kernel="laplacian", feature_weights=None, alpha=0.1, random_state=0
    )
    model = make_tabular_pipeline(network).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95
