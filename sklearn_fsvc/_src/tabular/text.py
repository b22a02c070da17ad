"""TextEncoder: dense features of columns of text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import InvalidColumn, as_python, input_names, is_missing, iterate_columns
from ..utils.parameters import check_positive_integer

# Samples from which the vocabulary and the components are learned.
_MAX_SAMPLES = 50_000
# Words in texts, on average.
_MIN_WORDS = 2.5


class TextEncoder(TransformerMixin, BaseEstimator):
    """Latent semantic analysis of each column: TF-IDF of character n-grams, and a truncated SVD.

    n-grams of 3 and 4 characters within words match inflections, compounds and misspellings. The
    components of a column are scaled together to a variance of 1 in total for the largest one.

    Parameters
    ----------
    n_components : int, default=30
        Features per column.

    Attributes
    ----------
    vectorizers_ : list of TfidfVectorizer
    decompositions_ : list of TruncatedSVD
    scales_ : list of float
        For each column.
    """

    def __init__(self, n_components: int = 30):
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> "TextEncoder":
        check_positive_integer("n_components", self.n_components)
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        columns = list(_columns(X))
        self.vectorizers_ = [
            TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), dtype=np.float32)
            for _ in columns
        ]
        self.decompositions_, self.scales_ = [], []
        for vectorizer, texts in zip(self.vectorizers_, columns, strict=True):
            if len(texts) > _MAX_SAMPLES:
                texts = resample(texts, replace=False, n_samples=_MAX_SAMPLES, random_state=0)
            H = vectorizer.fit_transform(texts)
            n_components = min(self.n_components, H.shape[1])
            decomposition = TruncatedSVD(n_components, random_state=0)
            self.scales_.append(decomposition.fit_transform(H).std(axis=0).max() or 1.0)
            self.decompositions_.append(decomposition)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the components, of shape (n_samples, n_columns * n_components) or fewer.

        Raises InvalidColumn, a ValueError, for values that are neither strings nor missing.
        """
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        fitted = self.vectorizers_, self.decompositions_, self.scales_
        components = [
            decomposition.transform(vectorizer.transform(texts)) / scale
            for texts, vectorizer, decomposition, scale in zip(_columns(X), *fitted, strict=True)
        ]
        return np.hstack(components, dtype=np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "comment_0"."""
        pairs = zip(input_names(self, input_features), self._sizes, strict=True)
        return np.array([f"{name}_{k}" for name, size in pairs for k in range(size)], dtype=object)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each component the columns that it is computed from: a single one."""
        return [(j,) for j, size in enumerate(self._sizes) for _ in range(size)]

    @property
    def _sizes(self):
        """Return the number of components of each column."""
        return [len(decomposition.components_) for decomposition in self.decompositions_]


def has_several_words(values: Sequence[str]) -> bool:
    """Return whether strings have as many words on average as text, unlike codes."""
    return sum(len(value.split()) for value in values) >= _MIN_WORDS * len(values)


def _columns(X):
    """Yield the texts of each column, with empty ones for missing values."""
    for j, column in enumerate(iterate_columns(X)):
        yield [_as_text(j, row, value) for row, value in enumerate(column)]


def _as_text(j, row, value):
    if isinstance(value, str):
        return value
    if is_missing(value):
        return ""
    raise InvalidColumn(
        j,
        f"holds {as_python(value)!r} in row {row}, and text in fit; convert it with astype(str).",
        "text",
    )
