"""DatetimeEncoder: numerical features of dates, times and durations."""

import re
from datetime import date, datetime, time
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import input_names, iterate_columns

# Dates as text are recognised if the year is first: 01/02/2024 may be January or February.
_ISO_DATE = re.compile(r"\s*\d{4}([-/.])\d{1,2}\1\d{1,2}(?!\d)")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_OF_MONTH = r"\d{1,2}[a-z]{0,2}"  # 31 or 31st
# Dates in other formats: 31/01/2024, 20240131, 31 January 2024, January 31, 2024.
_DATE = re.compile(
    rf"""\s*(
        \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}\b
        | \d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}\b
        | \d{{1,2}}/\d{{1,2}}/\d{{2}}\b
        | (19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\D|$)
        | ([a-z]+,?\s+)?{_DAY_OF_MONTH}\.?[\s-]+{_MONTH},?[\s-]+\d{{4}}\b
        | ([a-z]+,?\s+)?{_MONTH}\s+{_DAY_OF_MONTH},?\s+\d{{4}}\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_DAY, _YEAR = 24 * 3600.0, 365.25
# The features of times of day.
_OF_TIMES = ("hour", "day_sin", "day_cos")


class DatetimeEncoder(TransformerMixin, BaseEstimator):
    """Numerical features of dates, times of day and durations.

    Of a date: days since 1970, the position in the year as sine and cosine, so that December is
    next to January, and the weekday from Monday, 0, to Sunday, 6; if there are times of day, the
    hour, and the position in the day as sine and cosine. Of a time of day: these three. Of a
    period, such as a month: those of its first day. Of a duration: days. Of columns with missing
    values in `fit`, an indicator of missing values. Times with a time zone are local times.

    Attributes
    ----------
    features_ : list of list of str
        Names of the features of each column.
    """

    def fit(self, X: Any, y: Any = None) -> "DatetimeEncoder":
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        self.features_ = [_feature_names(column) for column in _columns(X)]
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the features, with NaN for missing values."""
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        columns = zip(_columns(X), self.features_, strict=True)
        features = [_features(column)[name] for column, names in columns for name in names]
        return np.stack(features, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "sold_weekday"."""
        pairs = zip(input_names(self, input_features), self.features_, strict=True)
        return np.array([f"{name}_{kind}" for name, kinds in pairs for kind in kinds], dtype=object)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the columns that it is computed from: a single one."""
        return [(j,) for j, kinds in enumerate(self.features_) for _ in kinds]


def is_date(value: Any) -> bool:
    """Return whether a value is a date or a time of day, or a text that begins with an ISO date."""
    if isinstance(value, str):
        return bool(_ISO_DATE.match(value)) and not np.isnat(_parse(value))
    return isinstance(value, (date, time, np.datetime64))


def resembles_date(value: Any) -> bool:
    """Return whether a value is a text that begins with a date in any common format."""
    return isinstance(value, str) and bool(_DATE.match(value))


def _columns(X: Any) -> list[npt.NDArray]:
    """Return the columns of a table as datetime64 or timedelta64 of microseconds."""
    return [_to_numpy(column) for column in iterate_columns(X)]


def _to_numpy(column):
    zone = getattr(column.dtype, "tz", None) or getattr(column.dtype, "time_zone", None)
    if zone is not None:
        is_pandas = hasattr(column, "iloc")
        column = column.dt.tz_localize(None) if is_pandas else column.dt.replace_time_zone(None)
    if hasattr(column.dtype, "freq"):
        column = column.dt.to_timestamp()
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if values.dtype.kind in "Mm":
        return values.astype(f"{values.dtype.kind}8[us]")
    return np.array([_parse(value) for value in values], dtype="M8[us]")


def _parse(value):
    """Return a text or an object as local time, NaT if it is not a date.

    A time of day is on the first of January 1970.
    """
    try:
        if isinstance(value, time):
            value = datetime.combine(date(1970, 1, 1), value)
        if isinstance(value, str):
            text = _ISO_DATE.sub(_as_iso, value.strip(), count=1)
            value = datetime.fromisoformat(text)
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None)
        return np.datetime64(value, "us")
    except (TypeError, ValueError):
        return np.datetime64("NaT", "us")


def _as_iso(match):
    year, month, day = re.findall(r"\d+", match.group())
    return f"{year}-{month:0>2}-{day:0>2}"


def _features(column: npt.NDArray) -> dict[str, npt.NDArray[np.float64]]:
    """Return name -> feature, of all that a column of dates or durations can have."""
    is_missing = np.isnat(column)
    days = np.where(is_missing, np.nan, column.astype(np.int64) / (1e6 * _DAY))
    missing = {"missing": is_missing.astype(np.float64)}
    if column.dtype.kind == "m":
        return {"days": days} | missing
    midnight = column.astype("M8[D]")
    hours = np.where(is_missing, np.nan, (column - midnight).astype(np.int64) / 3.6e9)
    new_year = column.astype("M8[Y]").astype("M8[D]").astype(np.int64)
    in_year = 2 * np.pi * (days - np.where(is_missing, np.nan, new_year)) / _YEAR
    in_day = 2 * np.pi * hours / 24
    return {
        "days": days,
        "year_sin": np.sin(in_year),
        "year_cos": np.cos(in_year),
        "weekday": (np.floor(days) + 3) % 7,  # January 1st, 1970 was a Thursday
        "hour": hours,
        "day_sin": np.sin(in_day),
        "day_cos": np.cos(in_day),
    } | missing


def _feature_names(column):
    """Return the names of those features that vary with the values of a column."""
    is_missing = np.isnat(column)
    names = [name for name in _features(column) if name != "missing"]
    if column.dtype.kind == "M":
        dates = column[~is_missing].astype("M8[D]")
        has_times = (column[~is_missing] > dates).any()
        if not has_times:
            names = [name for name in names if name not in _OF_TIMES]
        elif not dates.astype(np.int64).any():
            names = list(_OF_TIMES)
    return names + ["missing"] * bool(is_missing.any())
