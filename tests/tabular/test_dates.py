"""DatetimeEncoder, and dates in make_tabular_pipeline."""

from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd
import pytest

from sklearn_fsvc import RBFRegressor, make_tabular_pipeline
from sklearn_fsvc._src.tabular.dates import DatetimeEncoder
from tabular.tables import make_frame, preprocessing

DATES = ["2024-01-01", "2024-07-01", "2023-12-31", "1969-03-01"]
# Monday, Monday, Sunday, Saturday.
WEEKDAYS = [0, 0, 6, 5]
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
    assert len(features) == 4


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


def test_texts_that_are_no_dates_are_missing():
    X = pd.DataFrame({"when": ["2024-01-01", "2024-13-01", "soon", None, "2024-01-02 12:30"]})
    features = encode(X)
    np.testing.assert_array_equal(features["when_missing"], [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(features["when_hour"][[0, 4]], [0, 12.5])


def test_time_zone_in_a_text():
    X = pd.DataFrame({"when": ["2024-01-01T06:00:00Z", "2024-01-01T12:00:00+05:00"]})
    np.testing.assert_array_equal(encode(X)["when_hour"], [6, 12])


def test_pipeline_learns_from_dates():
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01", "D")
    day = rng.integers(3 * 365, size=600)
    when = (start + day).astype(str)
    y = np.sin(2 * np.pi * day / 365.25) + (day % 7 == 3) + 0.1 * rng.normal(size=600)
    for dates in (when, pd.to_datetime(when), [datetime.fromisoformat(text) for text in when]):
        X = pd.DataFrame({"noise": rng.normal(size=600), "when": dates})
        model = make_tabular_pipeline(RBFRegressor(random_state=0)).fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:]) > 0.85


def test_dates_next_to_named_categories():
    """Also without inspection of dtypes; a column of dates that is named is categorical."""
    X = pd.DataFrame({"c": list("abab"), "when": pd.to_datetime(DATES)})
    names = preprocessing(categorical_features=["c"]).fit(X).get_feature_names_out()
    assert names[2] == "datetime__when_days"
    names = preprocessing(categorical_features=["c", "when"]).fit(X).get_feature_names_out()
    assert len(names) == 6


def test_objects_of_durations_are_no_dates():
    X = pd.DataFrame({"wait": pd.Series([timedelta(hours=h) for h in range(9)], dtype=object)})
    assert preprocessing().fit(X).get_feature_names_out()[0].startswith("categorical__")


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


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%y", "%Y%m%d", "%d %B %Y", "%b %d, %Y", "%c"])
def test_other_formats_cause_a_warning(form):
    """They are categories, not text or codes."""
    days = pd.date_range("2020-01-01", periods=300)
    dates = [f"{day:%a, %d %b %Y %H:%M}" if form == "%c" else day.strftime(form) for day in days]
    with pytest.warns(UserWarning, match=r"'when': dates as text; parse them with pandas\.to_date"):
        preprocessing().fit(pd.DataFrame({"when": dates}))
