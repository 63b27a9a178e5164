from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.values import is_instant, time_of

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)

# JSON values, with the time that each of them is.
READ: list[tuple[Any, datetime]] = [
    ("2026-01-02T03:04:05Z", AT),
    ("2026-01-02t03:04:05z", AT),
    ("2026-01-02T03:04:05", AT),
    ("2026-01-02 03:04:05", AT),
    ("2026-01-02 03:04:05 UTC", AT),
    ("2026-01-02T03:04:05+0000", AT),
    ("2026-01-02 00:04:05 -0300", AT),
    ("2026-01-02T08:49:05+05:45", AT),
    ("2026-01-02T08:34:05+0530", AT),
    ("2026-01-01T22:04:05-05", AT),
    ("2026-01-03T03:03:05+23:59", AT),
    ("2026-01-02T03:04:05-00:00", AT),
    ("20260102T030405Z", AT),
    ("20260102T030405", AT),
    ("  2026-01-02T03:04:05Z\n", AT),
    ("Fri, 02 Jan 2026 03:04:05 GMT", AT),
    ("Fri, 2 Jan 2026 00:04:05 -0300", AT),
    ("02 jan 2026 03:04:05 +0000", AT),
    ("2 Jan 2026 03:04 UT", AT.replace(second=0)),
    ("2026-01-02T03:04Z", AT.replace(second=0)),
    ("20260102T0304+00", AT.replace(second=0)),
    *(
        (f"2026-01-02T03:04:05{mark}{'123456789'[:n]}Z", AT.replace(microsecond=int("123456"[:n].ljust(6, "0"))))
        for mark in ".,"
        for n in range(1, 10)
    ),
    ("2026-01-02", MIDNIGHT),
    ("20260102", MIDNIGHT),
    (20260102, MIDNIGHT),
    (20260102.0, MIDNIGHT),
    (1767323045, AT),
    ("1767323045", AT),
    (1767323045.0, AT),
    (1767323045.25, AT.replace(microsecond=250_000)),
    ("1767323045.123456789", AT.replace(microsecond=123_456)),
    (1767323045123, AT.replace(microsecond=123_000)),
    ("1767323045123", AT.replace(microsecond=123_000)),
    (1767323045123456, AT.replace(microsecond=123_456)),
    ("1767323045123456", AT.replace(microsecond=123_456)),
    ("9999-12-29T23:59:59.999999Z", datetime(9999, 12, 29, 23, 59, 59, 999_999, UTC)),
    ("0001-01-02", datetime(1, 1, 2, tzinfo=UTC)),
]

# JSON values that are not times, or not certainly one.
NOT_READ: list[Any] = [
    *("2026-01-02T03:04:05 Asia/Kathmandu", "2026-01-02T03:04:05[Europe/Berlin]", "2026-01-02T03:04:05+01:00[CET]"),
    *("2026-01-02 03:04:05 EST", "Fri, 02 Jan 2026 03:04:05 EST", "Fri, 02 Jan 2026 03:04:05"),
    *("2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+2400", "2026-01-02T03:04:05+03:60", "2026-01-02T03:04:05+3"),
    *("2026-01-02T03:04:05+05:30:15", "2016-12-31T23:59:60Z", "2026-01-02T24:00:00Z", "2026-01-02T25:00:00Z"),
    *("2026-02-30T00:00:00Z", "2026-13-01", "20260230", "2026-01-02T03:60:00Z", "2026-01-02T03Z"),
    *(
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-30T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
    ),
    *("+12026-01-02T03:04:05Z", "-2026-01-02T03:04:05Z", "44-03-15 (BC)"),
    *("2026-W01-5", "2026W015", "2026-002", "2026002", "2026-01", "202601", "2026"),
    *(
        "2026-01-02T030405Z",
        "20260102T03:04:05Z",
        "2026-0102",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.1234567890Z",
    ),
    *("2026-01-02  03:04:05", "2026 01 02", "2026/01/02", "01/02/2026", "2.1.2026", "2026-1-2", "03:04:05"),
    *(
        "Thu, 02 Jan 2026 03:04:05 GMT",
        "Fri, 32 Jan 2026 03:04:05 GMT",
        "Fri Jan  2 03:04:05 2026",
        "2 Jan 26 03:04 GMT",
    ),
    *("\u0662\u0660\u0662\u0666-01-02", "2026\u201301\u201302", "\u4ee4\u548c8\u5e741\u67082\u65e5"),
    *("", " ", "null", "now", "today", "epoch", "infinity", "-infinity", "NaN", "March 1st", "12h", "1e9"),
    *(True, False, None, [1767323045], {"at": 1767323045}, 1.5, 0, -1, 2026, 86400, "0", "-0"),
    *(float("nan"), float("inf"), float("-inf"), 1e30, 10**30, -(10**30), 2**63, "99999999999999999999", "9" * 5000),
    *(12345678901, 20260102030405, "20260102030405", 202601020304, "202601020304", 946684800, -1767323045),
    *("+1767323045", "01767323045", "1767323045,5", "1.767.323.045", "0x69571b25"),
]


@pytest.mark.parametrize(("value", "time"), READ, ids=lambda value: repr(value)[:60])
def test_documented_forms_are_times(value: Any, time: datetime) -> None:  # noqa: ANN401 - any JSON
    assert time_of(value) == time


@pytest.mark.parametrize("value", NOT_READ, ids=lambda value: repr(value)[:60])
def test_any_other_value_is_not_a_time(value: Any) -> None:  # noqa: ANN401 - any JSON
    assert time_of(value) is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02 03:04+0545", True),
        ("2026-01-02T03:04:05", False),
        ("2026-01-02T03:04:05,5Z", False),
        ("2026-01-02T03:04:05+03:60", False),
        ("0000-01-02T03:04:05Z", False),
        ("20260102", False),
        ("1767323045", False),
    ],
)
def test_only_iso_8601_with_a_zone_makes_a_field_a_column_of_times(text: str, *, is_one: bool) -> None:
    assert is_instant(text) is is_one


TEXTS = st.one_of(
    st.builds(
        lambda at, between, seconds, fraction, zone: f"{at:%m-%d}{between}{at:%H:%M}{seconds}{fraction}{zone}".join(
            (f"{at.year:04}-", "")
        ),
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001 - the text has the zone
        st.sampled_from("Tt "),
        st.sampled_from([":00", ":59", ":60", ""]),
        st.sampled_from(["", ".5", ",5", ".000", ".123456", ".1234567"]),
        st.sampled_from(["", "Z", "z", "+00:00", "+0000", "-05:30", "+1400", "+02", "+03:60", "+24:00", " -0300", "x"]),
    ),
    st.integers(-(10**17), 10**17).map(str),
    st.sampled_from([value for value, _ in READ if isinstance(value, str)]),
    st.sampled_from([value for value in NOT_READ if isinstance(value, str)]),
)


@given(TEXTS | st.integers(10**9, 10**10 - 1))
def test_frequent_forms_are_read_as_all_others(value: str | int) -> None:
    # White space rules out the quick ways.
    assert time_of(value) == time_of(f" {value}")
