"""DatetimeEncoder: numerical features of dates, times and durations."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import InvalidColumn, as_python, input_names, is_missing, iterate_columns

# Dates as text are recognised if the year is first: 01/02/2024 may be January or February.
_ISO_DATE = re.compile(r"\s*\d{4}([-/.])\d{1,2}\1\d{1,2}(?!\d)")
# Of years that are unlikely as parts of codes, such as 4711-03.
_ISO_MONTH = re.compile(r"\s*(1[5-9]|2[01])\d\d-(0[1-9]|1[0-2])\s*$")
# With two digits of the hour: 3:45 may be minutes and seconds.
_ISO_TIME = re.compile(r"\s*\d\d:\d\d(:\d\d(\.\d+)?)?\s*$")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_OF_MONTH = r"\d{1,2}[a-z]{0,2}"  # 31 or 31st
# In other formats: 31/01/2024, 20240131, 31 January 2024, January 31, 2024, and 2:30 PM.
_DATE = re.compile(
    rf"""\s*(
        \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}\b
        | \d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}\b
        | \d{{1,2}}/\d{{1,2}}/\d{{2}}\b
        | (19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\D|$)
        | ([a-z]+,?\s+)?{_DAY_OF_MONTH}\.?[\s-]+{_MONTH},?[\s-]+\d{{4}}\b
        | ([a-z]+,?\s+)?{_MONTH}\s+{_DAY_OF_MONTH},?\s+\d{{4}}\b
        | \d{{1,2}}:\d\d(:\d\d)?\s*[ap]\.?m\.?\s*$
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# Up to this many distinct texts beside dates or numbers may stand for missing values, such as "?".
MAX_MARKERS = 2
# The first characters of UTC offsets such as "+05:00", unlike those of named zones.
_SIGNS = ("+", "-")
_NAMES_OF_UTC = ("UTC", "Etc/UTC")
# Kind of a column -> what converts others to it.
_CONVERSIONS = {
    "dates": "pandas.to_datetime",
    "times of day": "pandas.to_datetime(...).dt.time",
    "durations": "pandas.to_timedelta",
}
_MOMENTS = (date, time, timedelta, np.datetime64, np.timedelta64)
_EPOCH = np.datetime64(0, "us")
_OVERFLOW = (
    "holds dates or durations of more than 290,000 years, which overflow; make those that stand "
    "for missing values missing (pandas.NaT)."
)
_DAY, _YEAR = 24 * 3600.0, 365.25
# The features of times of day.
_TIME_FEATURES = ("hour", "day_sin", "day_cos")


class DatetimeEncoder(TransformerMixin, BaseEstimator):
    """Numerical features of dates, times of day and durations.

    Of a date: days since 1970, the position in the year as sine and cosine, so that December is
    next to January, the weekday from Monday, 0, to Sunday, 6, and the day of the month from 1; if
    there are times of day, the hour, and the position in the day as sine and cosine. Of a time of
    day: these three. Of a period or a month: those of its first day. Of a duration: days. Of
    columns with missing values in `fit`, an indicator of missing values.

    Times with a time zone are local times. `transform` converts them to the zone of `fit`. A UTC
    offset, such as +02:00, is no zone, since it changes in winter: if a column had one in `fit`,
    only times in UTC are converted to it, and if it had several, none. Then each value is in its
    own local time.

    Attributes
    ----------
    features_ : list of list of str
        Names of the features of each column.
    kinds_ : list of {"dates", "times of day", "durations"}
        For each column.
    zones_ : list of list of str
        Names of the time zones of each column, none for times without a zone.
    """

    def fit(self, X: Any, y: Any = None) -> "DatetimeEncoder":
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        columns = [_read_column(j, column) for j, column in enumerate(iterate_columns(X))]
        self.features_ = [_feature_names(column.values) for column in columns]
        self.kinds_ = [column.kind for column in columns]
        self.zones_ = [column.zones for column in columns]
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the features, with NaN for missing values.

        Raises InvalidColumn, a ValueError, for values that are not dates, and for a column of
        another kind than in `fit`, or with a time zone in only one of both.
        """
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        columns = [self._read_as_in_fit(j, column) for j, column in enumerate(iterate_columns(X))]
        pairs = zip(map(_date_features, columns), self.features_, strict=True)
        return np.stack([features[name] for features, names in pairs for name in names], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "sold_weekday"."""
        pairs = zip(input_names(self, input_features), self.features_, strict=True)
        return np.array([f"{name}_{kind}" for name, kinds in pairs for kind in kinds], dtype=object)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the columns that it is computed from: a single one."""
        return [(j,) for j, kinds in enumerate(self.features_) for _ in kinds]

    def _read_as_in_fit(self, j, column):
        """Return the values of a column j that is of the kind that it was of in `fit`."""
        kind, zones = self.kinds_[j], self.zones_[j]
        values, new_kind, new_zones = _read_column(j, column, kind, zones)
        if np.isnat(values).all():
            return np.full(len(values), "NaT", "m8[us]" if kind == "durations" else "M8[us]")
        if new_kind != kind:
            raise InvalidColumn(j, f"holds {new_kind}, and {kind} in fit; convert it to {kind}.")
        if new_zones and not zones:
            raise InvalidColumn(
                j,
                f"has the time zone {new_zones[0]}, and had none in fit; convert it to the zone of "
                "the times in fit and remove it: .dt.tz_convert(...).dt.tz_localize(None).",
            )
        if zones and not new_zones:
            raise InvalidColumn(
                j,
                f"has no time zone, and had {zones[0]} in fit; add it: "
                f".dt.tz_localize({zones[0]!r}), with the zone of these times.",
            )
        return values


def is_date(value: Any) -> bool:
    """Return whether a value is a date, a time of day or a duration, or an ISO text of a date."""
    formats = (_ISO_DATE, _ISO_MONTH, _ISO_TIME)
    is_other_text = isinstance(value, str) and not any(each.match(value) for each in formats)
    return not is_other_text and _parse_date(value) is not None


def resembles_date(value: Any) -> bool:
    """Return whether a text begins with a date in any common format, or is a time with AM or PM."""
    return isinstance(value, str) and bool(_DATE.match(value))


def are_dates(values: Sequence[Any], is_date: Callable[[Any], bool] = is_date) -> bool:
    """Return whether values are dates, except for texts that may stand for missing ones."""
    others = [value for value in values if not is_date(value)]
    if not others or not all(isinstance(value, str) for value in others):
        return not others
    n_others = len(set(others))
    return are_markers(n_others, len(set(values)) - n_others)


def are_markers(n_others: int, n_values: int) -> bool:
    """Return whether so many distinct texts may stand for missing values of a column of others."""
    return n_others <= min(MAX_MARKERS, n_values // 10)


class _Column(NamedTuple):
    """A column as datetime64 or timedelta64 in microseconds, its kind, and its time zones.

    A time of day is on the first of January 1970.
    """

    values: npt.NDArray
    kind: str
    zones: list[str]


def _read_column(j: int, column: Any, kind: str = "dates", zones: Sequence[str] = ()) -> _Column:
    """Return column j in local times: those of the zone of `fit`, if there was one, else its own.

    `kind` and `zones` are those of `fit`.
    """
    own_zone = _zone_of_dtype(column.dtype)
    zone = _target_zone(own_zone, zones)
    if own_zone is not None and hasattr(column, "iloc"):  # pandas
        # By a dtype of pandas: `tz_localize` of pandas 2 returns UTC for pyarrow's.
        column = column.astype("datetime64[us, UTC]")
        column = _convert_to_zone(j, column, zone or own_zone).dt.tz_localize(None)
    elif own_zone is not None and zone in (None, own_zone):
        column = column.dt.replace_time_zone(None)
    elif own_zone is not None:  # polars cannot convert to UTC offsets
        return _read_objects(j, column.to_list(), kind, zones)
    elif hasattr(column.dtype, "freq"):
        column = column.dt.to_timestamp()
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if values.dtype.kind == "m":
        return _Column(_to_microseconds(j, values), "durations", [])
    if values.dtype.kind == "M":
        zones = [] if own_zone is None else [own_zone]
        return _Column(_to_microseconds(j, values), "dates", zones)
    return _read_objects(j, values, kind, zones)


def _convert_to_zone(j, column, zone):
    """Return a column of pandas in a zone; raise if pandas does not find the zone by its name.

    It does not find those of dateutil.
    """
    try:
        return column.dt.tz_convert(zone)
    except (KeyError, ValueError, OSError):
        raise InvalidColumn(
            j,
            f"has the time zone {zone}, which has no name in the IANA database; convert it to one "
            'that has: .dt.tz_convert("Europe/Berlin").',
        ) from None


def _to_microseconds(j, values):
    """Return datetime64 or timedelta64 in microseconds; raise if some overflow."""
    kind, is_nat = values.dtype.kind, np.isnat(values)
    try:
        result = values.astype(f"{kind}8[us]")
    except OverflowError:
        raise InvalidColumn(j, _OVERFLOW) from None
    # Before NumPy 2.4, numbers that overflow are wrapped without an error.
    days, given_days = result.astype(f"{kind}8[D]"), values.astype(f"{kind}8[D]")
    if not np.array_equal(days[~is_nat], given_days[~is_nat]):
        raise InvalidColumn(j, _OVERFLOW)
    return result


def _target_zone(zone: str | None, zones: Sequence[str]) -> str | None:
    """Return the zone of `fit` that times of another zone are converted to, None to keep theirs.

    A time with a UTC offset is the local time of a place, whose offset may change. One in UTC is
    not, and takes the offset of `fit`.
    """
    if zone is None or len(zones) != 1:
        return None
    is_offset = zones[0].startswith(_SIGNS)
    return None if is_offset and zone not in _NAMES_OF_UTC else zones[0]


def _zone_of_dtype(dtype):
    """Return the name of the time zone of a dtype of pandas, pyarrow or polars, None if naive."""
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    return None if zone is None else _short_name(str(zone))


def _read_objects(j, values, kind, zones):
    """Return texts, or objects such as datetime, as `_read_column` does."""
    result = np.full(len(values), "NaT", "M8[us]")
    kinds, own_zones = set(), set()
    for row, value in enumerate(values):
        if is_missing(value):
            continue
        moment = _parse_date(value)
        if moment is None:
            raise InvalidColumn(j, _describe_invalid(value, row, kind))
        kinds.add(_kind_of(moment))
        zone = _zone_of_value(moment)
        own_zones.add(zone)
        try:
            result[row] = _as_local(moment, _target_zone(zone, zones))
        except OverflowError:
            raise InvalidColumn(j, _OVERFLOW) from None
    if len(kinds) > 1:
        raise InvalidColumn(j, f"holds {' and '.join(sorted(kinds))}; split it into columns.")
    if None in own_zones and len(own_zones) > 1:
        raise InvalidColumn(
            j, "holds times with a time zone and without; convert it with pandas.to_datetime."
        )
    if kinds == {"durations"}:
        result = result - _EPOCH
    return _Column(result, next(iter(kinds), kind), sorted(own_zones - {None}))


def _describe_invalid(value, row, kind):
    """Return what is wrong with a value that is no date."""
    example = " such as 2026-01-31" if kind == "dates" else ""
    missing = ", with errors='coerce' if such values are missing" if isinstance(value, str) else ""
    return (
        f"holds {as_python(value)!r} in row {row}, and {kind}{example} in fit; convert it with "
        f"{_CONVERSIONS[kind]}{missing}."
    )


def _as_local(moment, zone):
    """Return a date or a time of day as datetime64: in a zone, or in its own if that is None.

    A duration is added to the first of January 1970.
    """
    if isinstance(moment, timedelta):
        return np.datetime64(moment // timedelta(microseconds=1), "us")  # NumPy would wrap
    if isinstance(moment, np.timedelta64):
        return _EPOCH + moment.astype("m8[us]")
    if isinstance(moment, time):
        moment = datetime.combine(date(1970, 1, 1), moment)
    if isinstance(moment, datetime):
        moment = moment if zone is None else moment.astimezone(_zone_of_name(zone))
        moment = moment.replace(tzinfo=None)
    return np.datetime64(moment, "us")


def _kind_of(moment):
    if isinstance(moment, (timedelta, np.timedelta64)):
        return "durations"
    return "times of day" if isinstance(moment, time) else "dates"


def _zone_of_value(moment):
    """Return the name of the time zone of a date, None for none and for times of day."""
    zone = getattr(moment, "tzinfo", None)
    if zone is None or isinstance(moment, time):
        return None
    return getattr(zone, "key", None) or _short_name(str(timezone(moment.utcoffset())))


def _short_name(name):
    """Return the name of a time zone, of UTC+05:00 as +05:00, which pyarrow has, too."""
    return name.removeprefix("UTC") or name


@cache
def _zone_of_name(name: str) -> tzinfo | None:
    """Return a time zone such as "Europe/Berlin", "UTC" and "+05:00"."""
    if name.startswith(_SIGNS):
        return datetime.strptime(name, "%z").tzinfo
    return UTC if name == "UTC" else ZoneInfo(name)


def _parse_date(value: Any) -> date | time | timedelta | np.datetime64 | np.timedelta64 | None:
    """Return a text or an object as a date, with its time and zone if any, or as a duration.

    None if it is neither.
    """
    if isinstance(value, str):
        text = value.strip()
        with suppress(ValueError):
            if _ISO_TIME.match(text):
                return time.fromisoformat(text)
            if _ISO_MONTH.match(text):
                text += "-01"
            return datetime.fromisoformat(_ISO_DATE.sub(_as_iso, text, count=1))
    if hasattr(value, "freq") and hasattr(value, "asfreq"):  # a period of pandas
        # Its `to_timestamp` would be limited to nanoseconds, before pandas 3.
        return np.datetime64(value.asfreq("us", how="start").ordinal, "us")
    return value if isinstance(value, _MOMENTS) else None


def _as_iso(match):
    year, month, day = re.findall(r"\d+", match.group())
    return f"{year}-{month:0>2}-{day:0>2}"


def _date_features(column: npt.NDArray) -> dict[str, npt.NDArray[np.float64]]:
    """Return name -> feature, of all that a column of dates or durations can have."""
    is_nat = np.isnat(column)
    days = np.where(is_nat, np.nan, column.astype(np.int64) / (1e6 * _DAY))
    missing = {"missing": is_nat.astype(np.float64)}
    if column.dtype.kind == "m":
        return {"days": days} | missing
    midnight = column.astype("M8[D]")
    hours = np.where(is_nat, np.nan, (column - midnight).astype(np.int64) / 3.6e9)
    new_month = column.astype("M8[M]").astype("M8[D]")
    new_year = column.astype("M8[Y]").astype("M8[D]").astype(np.int64)
    in_year = 2 * np.pi * (days - np.where(is_nat, np.nan, new_year)) / _YEAR
    in_day = 2 * np.pi * hours / 24
    return {
        "days": days,
        "year_sin": np.sin(in_year),
        "year_cos": np.cos(in_year),
        "weekday": (np.floor(days) + 3) % 7,  # January 1st, 1970 was a Thursday
        "day_of_month": np.where(is_nat, np.nan, (midnight - new_month).astype(np.int64) + 1),
        "hour": hours,
        "day_sin": np.sin(in_day),
        "day_cos": np.cos(in_day),
    } | missing


def _feature_names(column):
    """Return the names of those features that vary with the values of a column."""
    is_nat = np.isnat(column)
    names = [name for name in _date_features(column) if name != "missing"]
    if column.dtype.kind == "M":
        dates = column[~is_nat].astype("M8[D]")
        has_times = (column[~is_nat] > dates).any()
        if not has_times:
            names = [name for name in names if name not in _TIME_FEATURES]
        elif not dates.astype(np.int64).any():
            names = list(_TIME_FEATURES)
    return names + ["missing"] * bool(is_nat.any())
