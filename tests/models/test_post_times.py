import json
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.warehouse.ingest.columns import READINGS
from models.incremental import Post
from models.page_items import post_reader, time_of
from models.schema.mapping import ColumnMapping, Mapping, Reading
from models.schema.mapping_built_in import BUILT_IN

NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def page(*items: object) -> str:
    return json.dumps({"items": items, "next_cursor": None})


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("2025-03-01T12:00:00Z", NOON),
        ("2025-03-01T12:00:00+0000", NOON),
        ("2025-03-01 14:00:00+02:00", NOON),
        ("2025-03-01T12:00:00", NOON),
        ("2025-03-01T12:00:00.25Z", NOON.replace(microsecond=250_000)),
        (1740830400, NOON),
        ("1740830400", NOON),
        (1740830400123, NOON.replace(microsecond=123_000)),
        ("2025-03-01", None),
        ("March 1st", None),
        ("", None),
        (1.5, None),
        (True, None),
        (None, None),
        (["x"], None),
        (12345678901, None),
    ],
)
def test_times_are_read_or_unknown(message: object, read: datetime | None) -> None:
    assert time_of(message) == read


_INSTANTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001 - the text has the zone
_TEXTS = st.one_of(
    st.builds(
        lambda at, fraction, between, zone: f"{at:%m-%dT%H:%M:%S}".join((f"{at.year:04}-", fraction + zone)).replace(
            "T", between
        ),
        _INSTANTS,
        st.sampled_from(["", ".5", ".25", ".000001", ".123456", ".1234567"]),
        st.sampled_from("T "),
        st.sampled_from(["", "Z", "+00:00", "+0000", "-05:30", "+1400", "+02", "x"]),
    ),
    st.integers(-(10**15), 10**15).map(str),
    st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{4})?", fullmatch=True),
)


@pytest.fixture(scope="module")
def raw_connection() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    return db


@given(message=_TEXTS)
@example("8937493817255")
def test_times_are_read_as_the_merge_reads_them(raw_connection: duckdb.DuckDBPyConnection, message: str) -> None:
    found = time_of(message)
    if found is not None:
        [(merged,)] = raw_connection.execute(
            f"SELECT {READINGS[Reading.TIMESTAMP].format('x')} FROM (SELECT ? AS x)", [message]
        ).fetchall()
        assert merged == found


def test_ids_and_times_are_found_by_the_mapping() -> None:
    read = post_reader(BUILT_IN)
    assert read(page({"id": "1", "timestamp": "2025-03-01T12:00:00Z"}, {"pk": 2, "takenAt": 1740830400}, 3, {})) == [
        Post("1", NOON),
        Post("2", NOON),
        Post(None, None),
        Post(None, None),
    ]


def test_posts_are_read_alike_whatever_else_is_on_their_page() -> None:
    read = post_reader(BUILT_IN)
    posts: list[dict[str, Any]] = [
        {"id": "1", "timestamp": "2025-03-01T12:00:00+0000"},
        {"id": "2", "timestamp": "2025-03-01 12:00:00.000000Z"},
        {"id": "3", "timestamp": "in March"},
        {"id": "4", "timestamp": "1740830400"},
        {"id": "5", "timestamp": "\u0662025-03-01T12:00:00Z"},
    ]
    times = [NOON, NOON, None, NOON, None]
    expected = [Post(str(number), at) for number, at in enumerate(times, 1)]
    assert read(page(*posts)) == expected
    # An item without a text as its time is read in another way, and so are the others on its page.
    assert read(page(*posts, {"id": "6", "timestamp": 1740830400})) == [*expected, Post("6", NOON)]


def test_a_number_beyond_a_double_does_not_reject_its_page() -> None:
    text = '{"items":[{"id":"1","n":1e999,"timestamp":"2025-03-01T12:00:00Z"}],"next_cursor":null}'
    assert post_reader(BUILT_IN)(text) == [Post("1", NOON)]


def test_another_mapping_finds_them_elsewhere() -> None:
    columns = (ColumnMapping("published_at", Reading.TIMESTAMP, ("/when/made", "/when/seen")),)
    mapping = Mapping(("/key",), columns, (), (), (), ("x",))
    item: dict[str, Any] = {"key": 7, "id": "no", "timestamp": "2020-01-01T00:00:00Z", "when": {"seen": 1740830400}}
    assert post_reader(mapping)(page(item)) == [Post("7", NOON)]
    # The merge would go on to the next candidate; here it is left in doubt.
    item["when"]["made"] = "unknown"
    assert post_reader(mapping)(page(item)) == [Post("7", None)]
