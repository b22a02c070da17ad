"""DatetimeEncoder, and dates in make_tabular_pipeline."""

from datetime import date, datetime, time, timedelta

import dateutil.tz
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, RBFRegressor, make_tabular_pipeline
from sklearn_fsvc._src.tabular.dates import DatetimeEncoder
from tabular.tables import make_frame, preprocessing

DATES = ["2024-01-01", "2024-07-01", "2023-12-31", "1969-03-01"]
# Monday, Monday, Sunday, Saturday.
WEEKDAYS = [0, 0, 6, 5]
DAYS_OF_MONTH = [int(text[-2:]) for text in DATES]
DAYS = [19723, 19905, 19722, -306]


def encode(X):
    """Return name -> feature."""
    encoder = DatetimeEncoder()
    H = encoder.fit_transform(X)
    return dict(zip(encoder.get_feature_names_out(), H.T, strict=True))


def check(features, name="when"):
    np.testing.assert_array_equal(features[f"{name}_days"], DAYS)
    np.testing.assert_array_equal(features[f"{name}_weekday"], WEEKDAYS)
    angle = 2 * np.pi * np.array([0, 182, 364, 59]) / 365.25
    np.testing.assert_allclose(features[f"{name}_year_sin"], np.sin(angle))
    np.testing.assert_allclose(features[f"{name}_year_cos"], np.cos(angle))
    np.testing.assert_array_equal(features[f"{name}_day_of_month"], DAYS_OF_MONTH)
    assert len(features) == 5


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_dates_of_data_frames(library, unit):
    if library == "polars" and unit == "s":
        pytest.skip("polars has no such unit")
    check(encode(make_frame(library, when=np.array(DATES, f"M8[{unit}]"))))


def test_dates_of_other_types():
    check(encode(np.array(DATES, "M8[D]")[:, None]), "x0")
    days = [date.fromisoformat(text) for text in DATES]
    check(encode(pd.DataFrame({"when": pd.Series(days, dtype=object)})))
    check(encode(pd.DataFrame({"when": DATES})))
    check(encode(pd.DataFrame({"when": [text.replace("-", "/") for text in DATES]})))
    pyarrow = pytest.importorskip("pyarrow")
    column = pd.Series(pd.to_datetime(DATES)).astype(pd.ArrowDtype(pyarrow.timestamp("us")))
    check(encode(pd.DataFrame({"when": column})))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_of_day_are_local(library):
    stamps = pd.date_range("2024-05-01", periods=4, freq="6h", tz="America/New_York")
    frame = pd.DataFrame({"t": stamps})
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    features = encode(frame)
    np.testing.assert_array_equal(features["t_hour"], [0, 6, 12, 18])
    np.testing.assert_allclose(features["t_day_sin"], [0, 1, 0, -1], atol=1e-9)
    np.testing.assert_allclose(features["t_day_cos"], [1, 0, -1, 0], atol=1e-9)
    np.testing.assert_array_equal(features["t_weekday"], 2)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_durations_are_days(library):
    waits = np.array([0, 36, 60, 24], "m8[h]").astype("m8[us]")
    features = encode(make_frame(library, wait=waits))
    np.testing.assert_array_equal(features["wait_days"], [0, 1.5, 2.5, 1])
    assert len(features) == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_dates(library):
    """They are imputed, and have an indicator if there were some in fit."""
    days = np.array(["2024-01-01", "NaT", "2024-01-03", "2024-01-05"], "M8[us]")
    fitted = preprocessing().fit(make_frame(library, when=days))
    names = fitted.get_feature_names_out().tolist()
    assert names[-1] == "datetime__when_missing"
    H = fitted.transform(make_frame(library, when=days))
    assert np.isfinite(H).all()
    assert H[1, 0] == fitted.transform(make_frame(library, when=days[2:3]))[0, 0]
    assert len(set(H[[0, 2, 3], -1])) == 1
    assert H[1, -1] > H[0, -1]


def test_times_of_day_in_a_text():
    features = encode(pd.DataFrame({"when": ["2024-01-01", None, "2024-01-02 12:30"]}))
    np.testing.assert_array_equal(features["when_missing"], [0, 1, 0])
    np.testing.assert_array_equal(features["when_hour"][[0, 2]], [0, 12.5])


INVALID = [
    (["2024-01-01", "07/31/2024", None], "'07/31/2024' in row 1, and dates such as .*errors='coe"),
    (["soon"] * 3, "'soon' in row 0, .* convert it with pandas.to_datetime"),
    (["2024-13-01"] * 3, "'2024-13-01' in row 0"),
    ([None, "", ""], "'' in row 1"),
    (np.arange(3) * 10**18, "0 in row 0, and dates"),
    ([np.nan, 1.5, 2.0], "1.5 in row 1"),
    ([True, False, True], "True in row 0"),
    (pd.Series([None, 7, timedelta(1)], dtype=object), "7 in row 1"),
    (np.array([1, 2, 3], "m8[s]"), "durations, and dates in fit"),
    ([time(1), time(2), time(3)], "times of day, and dates in fit"),
    ([time(1), date(2024, 1, 1), None], "dates and times of day"),
]


@pytest.mark.parametrize("dates", [DATES, pd.to_datetime(DATES)], ids=["text", "datetime64"])
@pytest.mark.parametrize(("values", "message"), INVALID)
def test_values_that_are_no_dates(dates, values, message):
    """In predict; the error names the column."""
    fitted = preprocessing().fit(pd.DataFrame({"a": range(4), "when": dates}))
    with pytest.raises(ValueError, match=f"Column 'when' of X holds {message}"):
        fitted.transform(pd.DataFrame({"a": range(3), "when": values}))


def test_values_that_are_no_dates_among_those_not_inspected():
    dates = pd.date_range("2000-01-01", periods=3000).astype(str).tolist()
    dates[2999] = "31/01/2024"
    X = pd.DataFrame({"a": range(3000), "when": dates})
    with pytest.raises(ValueError, match="Column 'when' of X holds '31/01/2024' in row 2999"):
        preprocessing().fit(X)
    with pytest.raises(ValueError, match="Column 1 of X holds '31/01/2024' in row 2999"):
        preprocessing().fit(X.to_numpy())


@pytest.mark.parametrize("marker", ["", "unknown"])
@pytest.mark.parametrize("row", [0, 1, 1999])
def test_texts_in_place_of_missing_dates(marker, row):
    """An error, whether they are among the values by which dates are recognised or not."""
    dates = pd.date_range("2000-01-01", periods=2000).astype(str).tolist()
    dates[row] = marker
    message = f"Column 'when' of X holds '{marker}' in row {row}, .*errors='coerce'"
    with pytest.raises(ValueError, match=message):
        preprocessing().fit(pd.DataFrame({"a": range(2000), "when": dates}))


@pytest.mark.parametrize("values", [[None] * 2, [np.nan] * 2, pd.to_datetime([None] * 2)])
@pytest.mark.parametrize("fitted", [DATES, pd.timedelta_range("1h", periods=4)])
def test_columns_without_values_are_missing(fitted, values):
    encoder = DatetimeEncoder().fit(pd.DataFrame({"when": fitted}))
    assert np.isnan(encoder.transform(pd.DataFrame({"when": values}))).all()


@pytest.mark.parametrize(
    ("fitted", "values", "message"),
    [
        (
            pd.timedelta_range("1h", periods=3),
            pd.to_datetime(DATES[:3]),
            "'c' of X holds dates, an",
        ),
        (pd.timedelta_range("1h", periods=3), range(3), "'c' of X holds 0 .*pandas.to_timedelta"),
        ([time(1), time(2), time(3)], pd.to_datetime(DATES[:3]), "'c' of X holds dates, and times"),
        ([1.0, 2.0, 3.0], pd.to_datetime(DATES[:3]), r"'c' of X \(datetime64.* convert it to the"),
        ([1.0, 2.0, 3.0], pd.timedelta_range("1h", periods=3), r"'c' of X \(timedelta64"),
        ([True, False, True], pd.to_datetime(DATES[:3]), r"'c' of X \(datetime64"),
    ],
)
def test_dates_and_durations_instead_of_others(fitted, values, message):
    transformer = preprocessing().fit(pd.DataFrame({"a": range(3), "c": fitted}))
    with pytest.raises(ValueError, match=f"Column {message}"):
        transformer.transform(pd.DataFrame({"a": range(3), "c": values}))


def test_arrays_of_dates_instead_of_numbers():
    fitted = preprocessing().fit(np.eye(3))
    with pytest.raises(ValueError, match=r"Column 0 of X \(datetime64.*holds dates"):
        fitted.transform(np.zeros((3, 3), "M8[s]"))


def make_times(zone, kind="pandas"):
    """Return the same instants in any time zone, as a table with a column "t"."""
    times = pd.date_range("2024-03-30", periods=40, freq="5h", tz="UTC").tz_convert(zone)
    X = pd.DataFrame({"t": times})
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(X)
    if kind == "pyarrow":
        dtype = pytest.importorskip("pyarrow").timestamp("us", tz=zone)
        return X.astype(pd.ArrowDtype(dtype))
    if kind == "text":
        return pd.DataFrame({"t": [time.isoformat() for time in times]})
    return X.astype(object) if kind == "object" else X


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "+05:30"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "text", "object"])
def test_other_time_zones_are_converted_to_that_of_fit(zone, kind):
    """The same instants have the same features, also in summer."""
    if zone == "+05:30" and kind == "polars":
        pytest.skip("polars has no such time zones")
    if zone == "Europe/Berlin" and kind == "text":
        pytest.skip("two UTC offsets")
    encoder = DatetimeEncoder()
    H = encoder.fit_transform(make_times(zone, kind))
    hours = H[:, encoder.features_[0].index("hour")]
    local = make_times(zone)["t"].dt
    np.testing.assert_array_equal(hours, local.hour + local.minute / 60)
    # Only UTC is converted to an offset.
    first = "Etc/UTC" if zone == "+05:30" else "America/Los_Angeles"
    for other in (first, "UTC", "+05:30"):
        for other_kind in ("pandas", "polars", "pyarrow", "text", "object"):
            if other != "+05:30" or other_kind != "polars":
                np.testing.assert_array_equal(encoder.transform(make_times(other, other_kind)), H)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "+01:00"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "text", "object"])
def test_offsets_of_fit_are_no_time_zone(zone, kind):
    """The offset of a place changes in winter: each time is in its own local time."""
    if zone == "+01:00" and kind == "polars":
        pytest.skip("polars has no such time zones")
    X = make_times(zone, kind)
    local = make_times(zone)["t"].dt.hour
    for fitted in ("pandas", "pyarrow", "text", "object"):
        encoder = DatetimeEncoder().fit(make_times("+02:00", fitted))
        hours = encoder.transform(X)[:, encoder.features_[0].index("hour")]
        np.testing.assert_array_equal(hours, local)


def test_texts_with_several_offsets_are_in_local_time():
    X = make_times("Europe/Berlin", "text")
    encoder = DatetimeEncoder().fit(X)
    hours = encoder.transform(X)[:, encoder.features_[0].index("hour")]
    np.testing.assert_array_equal(hours, make_times("Europe/Berlin")["t"].dt.hour)


@pytest.mark.parametrize("kind", ["pandas", "polars", "text"])
def test_times_with_and_without_a_time_zone(kind):
    aware = make_times("UTC", kind)
    naive = pd.DataFrame({"t": make_times("UTC")["t"].dt.tz_localize(None)})
    with pytest.raises(ValueError, match=r"Column 't' of X has no time zone, .*tz_localize\('UTC'"):
        preprocessing().fit(aware).transform(naive)
    with pytest.raises(ValueError, match="Column 't' of X has the time zone UTC, and had none in"):
        preprocessing().fit(naive).transform(aware)


def test_texts_with_and_without_a_time_zone():
    X = pd.DataFrame({"t": ["2024-01-01T06:00Z", "2024-01-02T06:00", "2024-01-03T06:00Z"]})
    with pytest.raises(
        ValueError, match="Column 't' of X holds times with a time zone and without"
    ):
        preprocessing().fit(X)


@pytest.mark.parametrize("zone", [dateutil.tz.tzutc(), dateutil.tz.tzoffset(None, 3600)])
def test_time_zones_of_dateutil(zone):
    X = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=40, tz=zone)})
    with pytest.raises(ValueError, match=r"Column 't' of X has the time zone tz.*tz_convert"):
        preprocessing().fit(X)


def test_time_zone_in_a_text():
    X = pd.DataFrame({"when": ["2024-01-01T06:00:00Z", "2024-01-01T12:00:00+05:00"]})
    np.testing.assert_array_equal(encode(X)["when_hour"], [6, 12])


def test_pipeline_learns_from_dates():
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01", "D")
    day = rng.integers(3 * 365, size=600)
    when = (start + day).astype(str)
    y = np.sin(2 * np.pi * day / 365.25) + (day % 7 == 3) + 0.1 * rng.normal(size=600)
    X = pd.DataFrame({"noise": rng.normal(size=600), "when": when})
    network = RBFRegressor(200, kernel="laplacian", alpha=0.1, random_state=0)
    model = make_tabular_pipeline(network).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.85
    for dates in (pd.to_datetime(when), [datetime.fromisoformat(text) for text in when]):
        other = X.assign(when=dates)
        H = clone(model[:-1]).fit(other[:400], y[:400]).transform(other)
        np.testing.assert_array_equal(H, model[:-1].transform(X))


def test_dates_next_to_named_categories():
    """Also without inspection of dtypes; a column of dates that is named is categorical."""
    X = pd.DataFrame({"c": list("abab"), "when": pd.to_datetime(DATES)})
    names = preprocessing(categorical_features=["c"]).fit(X).get_feature_names_out()
    assert names[2] == "datetime__when_days"
    names = preprocessing(categorical_features=["c", "when"]).fit(X).get_feature_names_out()
    assert len(names) == 6


WAITS = [timedelta(hours=h) for h in (-5, 3, 3, 40)]
PERIODS = pd.period_range("2024-01", periods=4, freq="M")
OBJECTS = [
    (pd.to_timedelta(WAITS), WAITS),
    (pd.to_timedelta(WAITS), [*pd.to_timedelta(WAITS[:3]), np.timedelta64(40, "h")]),
    (PERIODS, list(PERIODS)),
    (PERIODS[:1].repeat(4), list(PERIODS[:1]) * 4),
    (pd.to_datetime(DATES[:2] * 2), [date.fromisoformat(text) for text in DATES[:2] * 2]),
]


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize(("values", "objects"), OBJECTS)
def test_objects_of_dates_and_durations(values, objects, is_missing):
    """They are those of their dtype, in fit and in transform, however few are distinct."""
    X = pd.DataFrame({"a": range(4), "when": values})
    others = X.assign(when=pd.Series(objects, dtype=object))
    if is_missing:
        X.loc[1, "when"], others.loc[1, "when"] = pd.NaT, None
    fitted = preprocessing().fit(X)
    expected = fitted.transform(X)
    np.testing.assert_array_equal(fitted.transform(others), expected)
    np.testing.assert_array_equal(preprocessing().fit_transform(others), expected)


@pytest.mark.parametrize("values", [np.array(DATES, "M8[D]"), np.array([1, 2, 3, 5], "m8[h]")])
def test_arrays_of_scalars_of_numpy(values):
    X = np.empty((4, 1), dtype=object)
    X[:, 0] = list(values)
    expected = preprocessing().fit_transform(
        pd.DataFrame({"x": values.astype(f"{values.dtype.kind}8[us]")})
    )
    np.testing.assert_array_equal(preprocessing().fit_transform(X), expected)


def test_periods_of_other_frequencies_and_early_dates():
    """Dates before 1677 do not fit in nanoseconds."""
    days = [date(1500, 1, 1 + k) for k in range(4)]
    X = pd.DataFrame({"when": np.array(days, "M8[s]")})
    expected = preprocessing().fit_transform(X)
    for others in (days, list(pd.PeriodIndex(list(map(str, days)), freq="D"))):
        frame = pd.DataFrame({"when": pd.Series(others, dtype=object)})
        np.testing.assert_array_equal(preprocessing().fit_transform(frame), expected)


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 1, 2**60], "M8[s]"),
        np.array([0, 1, -(2**60)], "m8[s]"),
        np.array([timedelta(1), timedelta(2), timedelta.max], dtype=object),
    ],
    ids=["dates", "durations", "objects"],
)
def test_dates_beyond_the_range_of_microseconds(values):
    for X in (values[:, None], pd.DataFrame({0: values})):
        with pytest.raises(ValueError, match=r"Column 0 of X holds dates or .* overflow"):
            preprocessing().fit(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_of_day(library):
    """Without a date; a column with missing values has an indicator."""
    times = [time(6), time(12, 30), None, time(18, 0, 36)]
    fitted = preprocessing().fit(make_frame(library, at=times))
    kinds = ["hour", "day_sin", "day_cos", "missing"]
    assert fitted.get_feature_names_out().tolist() == [f"datetime__at_{kind}" for kind in kinds]
    features = encode(make_frame(library, at=times))
    np.testing.assert_array_equal(features["at_hour"], [6, 12.5, np.nan, 18.01])
    np.testing.assert_allclose(features["at_day_sin"][0], 1)


TIMES = {
    "%H:%M": [time(6), time(12, 30), time(23, 59), None],
    "%H:%M:%S": [time(6), time(12, 30, 15), time(0), None],
    "%H:%M:%S.%f": [time(6), time(12, 30, 15, 250_000), time(0), None],
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("form", TIMES)
def test_texts_of_times_of_day(library, form):
    """They have the features of objects; new ones may be of either type."""
    times = TIMES[form]
    texts = [value and value.strftime(form) for value in times]
    fitted = preprocessing().fit(make_frame(library, at=texts))
    names = fitted.get_feature_names_out()
    assert names.tolist()[:3] == [
        "datetime__at_hour",
        "datetime__at_day_sin",
        "datetime__at_day_cos",
    ]
    expected = preprocessing().fit_transform(make_frame(library, at=times))
    for values in (texts, times):
        np.testing.assert_array_equal(fitted.transform(make_frame(library, at=values)), expected)
    with pytest.raises(ValueError, match="'at' of X holds '25:70' in row 0, and times of day"):
        fitted.transform(make_frame(library, at=["25:70"]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_texts_of_months_are_their_first_days(library):
    months = ["2023-07", None, "2024-12", "2023-08", "2025-01"]
    days = [value and f"{value}-01" for value in months]
    fitted = preprocessing().fit(make_frame(library, month=months))
    expected = preprocessing().fit_transform(make_frame(library, month=days))
    np.testing.assert_array_equal(fitted.transform(make_frame(library, month=months)), expected)
    assert fitted.get_feature_names_out()[0] == "datetime__month_days"


@pytest.mark.parametrize(
    "values",
    [
        ["14:30", "25:70", "12:00"],
        ["14:30", "16:45", "14:30"],
        ["3:45", "4:02", "2:50"],
        ["14:30", "16:45", "open"],
        ["2023-07", "2023-13", "2023-08"],
        ["1234-56", "1234-05", "1235-07"],
        ["4711-01", "4711-02", "4711-03"],
    ],
    ids=["no time", "two", "minutes", "other text", "no month", "codes", "codes like months"],
)
def test_texts_that_are_neither_times_nor_months(values):
    fitted = preprocessing().fit(pd.DataFrame({"c": values}))
    assert fitted.get_feature_names_out()[0].startswith("categorical__")


def test_pipeline_learns_from_texts_of_times_and_months():
    """Of the hour, and of later months."""
    rng = np.random.default_rng(0)
    minute, month = rng.integers(24 * 60, size=1000), np.sort(rng.integers(12 * 10, size=1000))
    X = pd.DataFrame(
        {
            "at": [f"{each // 60:02}:{each % 60:02}" for each in minute],
            "month": (np.datetime64("2014-01") + month).astype(str),
        }
    )
    for y in (minute > 14 * 60 + 30, month % 12 < 6):
        network = RBFClassifier(200, kernel="laplacian", alpha=0.1, random_state=0)
        model = make_tabular_pipeline(network).fit(X[:600], y[:600])
        assert model.score(X[600:], y[600:]) > 0.95


def test_periods_are_their_first_days():
    months = pd.period_range("2024-01", periods=4, freq="M")
    X = pd.DataFrame({"month": months})
    expected = preprocessing().fit_transform(pd.DataFrame({"month": months.to_timestamp()}))
    fitted = preprocessing().fit(X)
    np.testing.assert_array_equal(fitted.transform(X), expected)
    assert fitted.get_feature_names_out()[0] == "datetime__month_days"
    missing = pd.DataFrame({"month": pd.PeriodIndex(["NaT", "2024-02"], freq="M")})
    assert np.isfinite(fitted.transform(missing)).all()
    with pytest.raises(ValueError, match=r"Column 'month' of X \(period.*holds dates"):
        RBFRegressor().fit(X, np.arange(4.0))


FORMATS = ["%d/%m/%Y", "%m/%d/%y", "%Y%m%d", "%d %B %Y", "%b %d, %Y", "%c", "%I:%M %p"]


@pytest.mark.parametrize("form", FORMATS)
def test_other_formats_cause_a_warning(form):
    """They are categories, not text or codes."""
    days = pd.date_range("2020-01-01", periods=300, freq="1501min")
    dates = [f"{day:%a, %d %b %Y %H:%M}" if form == "%c" else day.strftime(form) for day in days]
    with pytest.warns(UserWarning, match=r"'when': dates as text; parse them with pandas\.to_date"):
        preprocessing().fit(pd.DataFrame({"when": dates}))
    dates[7] = "unknown"
    with pytest.warns(UserWarning, match=r"'when': dates as text, and a text.*errors=\"coerce\""):
        preprocessing().fit(pd.DataFrame({"when": dates}))
