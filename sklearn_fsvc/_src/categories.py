"""LevelEncoder: a column for each common level of a category, and a word on what is none."""

import re
from datetime import date

from sklearn.preprocessing import OneHotEncoder

from .columns import is_nested
from .user_warnings import warn

# Levels of a category that get a column each, of those the rarest share the last.
MOST_LEVELS = 100
# Fewer different values than this may all be different and be levels yet.
_FEWEST_UNIQUE = 20
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")
# Reason -> what is said of the columns that have it.
_CAUTIONS = {
    "dates": (
        "dates as text or objects; make dates of them with pandas.to_datetime, and of those "
        "numbers, such as the year, the day of the year and the weekday"
    ),
    "numbers": "numbers as text or objects; make numbers of them with pandas.to_numeric",
    "unique": (
        "a value of its own in most rows, as IDs and text have; drop IDs, and make numbers of "
        "text with sklearn's TfidfVectorizer and TruncatedSVD"
    ),
    "many": (
        "more than max_categories={most} levels, of which the rarest share a column; make numbers "
        "of them with sklearn's TargetEncoder, or raise the limit with "
        "set_params(preprocessing__categories__one_hot__max_categories=...)"
    ),
}


class LevelEncoder(OneHotEncoder):
    """OneHotEncoder that warns of columns which hardly hold categories, and says what to do."""

    def fit(self, X, y=None):
        most = self.max_categories
        try:
            # To count the rows of each level takes most of the time, and few columns need it.
            self.max_categories = None
            super().fit(X, y)
            if most is not None and any(len(levels) > most for levels in self.categories_):
                self.max_categories = most
                super().fit(X, y)
            for levels in self.categories_:
                if any(map(is_nested, levels)):  # such as tuples, where all are alike
                    raise TypeError("A category holds lists or the like.")
        finally:
            self.max_categories = most
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        self._caution(list(names), len(X))
        return self

    def _caution(self, names, n_rows):
        found = {}
        for name, levels in zip(names, self.categories_, strict=True):
            reason = _reason(levels, n_rows, self.max_categories)
            found.setdefault(reason, []).append(repr(name))
        said = [
            f"\n  {', '.join(found[reason])}: {what.format(most=self.max_categories)}."
            for reason, what in _CAUTIONS.items()
            if reason in found
        ]
        if said:
            warn(
                f"Some columns of X, taken for categories, may need something else:{''.join(said)}"
            )


def _reason(levels, n_rows, most):
    """Which of the cautions a column with these levels deserves, if any."""
    known = [level for level in levels if level is not None and level == level]  # NaN is not
    if len(known) > 2 and all(map(_is_date, known)):
        return "dates"
    is_unique = len(known) > max(_FEWEST_UNIQUE, n_rows / 2)
    is_many = most is not None and len(levels) > most
    if (is_unique or is_many) and levels.dtype.kind in "OUT" and all(map(_is_number, known)):
        return "numbers"
    return "unique" if is_unique else "many" if is_many else None


def _is_date(level):
    return isinstance(level, date) or (isinstance(level, str) and bool(_DATE.match(level)))


def _is_number(level):
    try:
        float(level)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
