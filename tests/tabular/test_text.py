"""TextEncoder, and text in make_tabular_pipeline."""

import numpy as np
import pandas as pd
import pytest

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc._src.tabular.text import TextEncoder
from tabular.tables import make_frame, preprocessing

WORDS = np.array("cheap good new used large small red blue round flat heavy light".split())  # noqa: SIM905


def make_texts(n, seed=0, n_words=6):
    """Return texts of random words, and which of them contain one of two words."""
    words = np.random.default_rng(seed).choice(WORDS, size=(n, n_words))
    return [" ".join(row) for row in words], (np.isin(words, ["good", "heavy"])).any(axis=1)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_classifier_learns_from_text(library):
    texts, y = make_texts(600)
    new, new_y = make_texts(300, seed=1)
    model = make_tabular_pipeline(RBFClassifier(100, kernel="laplacian", random_state=0))
    model.fit(make_frame(library, comment=texts), y)
    names = model[:-1].get_feature_names_out()
    assert names[0] == "text__comment_0"
    assert model.score(make_frame(library, comment=new), new_y) > 0.85


def test_missing_and_new_texts():
    """A missing text is an empty one, whose components are 0."""
    texts, _ = make_texts(200)
    texts[3] = None
    encoder = TextEncoder(n_components=4)
    H = encoder.fit_transform(pd.DataFrame({"comment": texts}))
    assert H.shape == (200, 4)
    assert H.dtype == np.float32
    np.testing.assert_array_equal(H[3], 0)
    np.testing.assert_allclose(H.std(axis=0).max(), 1, rtol=1e-5)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"comment": ["zzzzz", ""]})), 0)


@pytest.mark.parametrize("value", [b"good", ["good", "new"], 5, True, 2.5])
def test_values_that_are_no_text(value):
    """In predict; the error names the column of X, not of those of text."""
    X = pd.DataFrame({"when": ["2024-01-01", "2024-01-02", "2024-01-03"] * 50})
    X["comment"] = make_texts(150)[0]
    fitted = preprocessing().fit(X)
    new = X.head(3).assign(comment=pd.Series(["good", None, value], dtype=object))
    with pytest.raises(ValueError, match=r"Column 'comment' of X holds .* in row 2.*astype\(str\)"):
        fitted.transform(new)


def test_number_of_components_is_limited_by_the_vocabulary():
    H = TextEncoder().fit_transform(pd.DataFrame({"c": ["a b", "b a", "a a"]}))
    assert H.shape == (3, 2)
    with pytest.raises(ValueError, match="n_components=0"):
        TextEncoder(0).fit(pd.DataFrame({"c": ["a b"]}))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (make_texts(300)[0], {"text"}),
        (make_texts(150)[0] * 4, {"text", "categorical"}),
        (make_texts(90)[0] * 4, {"categorical"}),
        ([f"user {i}" for i in range(300)], {"categorical"}),
    ],
    ids=["distinct", "repeated", "few", "IDs"],
)
@pytest.mark.filterwarnings("ignore:Some columns")
def test_columns_of_text(values, parts):
    fitted = preprocessing().fit(pd.DataFrame({"c": values}))
    assert {name.partition("__")[0] for name in fitted.get_feature_names_out()} == parts
    named = preprocessing(categorical_features=["c"]).fit(pd.DataFrame({"c": values}))
    assert named.get_feature_names_out()[0].startswith("categorical")
