"""A snapshot made of the last one shows what one that is written whole does."""

import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import Connection

from connectors.warehouse.connection import duck
from connectors.warehouse.publish import publish
from connectors.warehouse.snapshot_catalogue import catalogue
from models.partition import media
from tests.warehouse.house import ANNA, BEN, POSTS, STORIES, House, Item, account, at, emptied

CARL = "cccccccc-2222-4333-8444-555555555555"
EVERYONE = (ANNA, BEN, CARL)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "analytics.duckdb"


def put(house: House, snapshot: Path, hour: float = 60, version: str = "1") -> None:
    publish(house.connection, snapshot, at=at(hour), version=version)


def shown(snapshot: Path) -> dict[str, object]:
    """Return all that a snapshot shows: rows, declarations, comments."""
    found: dict[str, object] = {}
    with duckdb.connect(snapshot, read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        names = "SELECT DISTINCT table_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        for (name,) in db.execute(names).fetchall():
            columns = "* EXCLUDE (stale_for, age_seconds, is_stale)" if name == "freshness" else "*"
            answer = db.execute(f'SELECT {columns} FROM "{name}"')
            found[name] = answer.description, sorted(map(repr, answer.fetchall()))
        views = "SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
        tables = "SELECT table_name, comment FROM duckdb_tables() ORDER BY ALL"
        comments = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        declared = [db.execute(query).fetchall() for query in (views, tables, comments)]
        return {**found, "": [*declared, *catalogue(db, snapshot.stem)]}


def written_whole(house: House, snapshot: Path, hour: float = 60) -> dict[str, object]:
    whole = snapshot.with_name("whole") / snapshot.name
    whole.unlink(missing_ok=True)
    put(house, whole, hour)
    return shown(whole)


def check_shows(snapshot: Path, due: dict[str, object]) -> None:
    ours = shown(snapshot)
    assert ours.keys() == due.keys()
    for name, rows in due.items():
        assert ours[name] == rows, name


def check_alike(house: House, snapshot: Path, hour: float = 60) -> None:
    check_shows(snapshot, written_whole(house, snapshot, hour))


class Why(logging.Handler):
    """Hears why a snapshot was written whole, one line each time."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def why(monkeypatch: pytest.MonkeyPatch) -> Why:
    found, log = Why(), logging.getLogger("connectors.warehouse.publish")
    monkeypatch.setattr(log, "level", logging.INFO)
    monkeypatch.setattr(log, "handlers", [found])
    # A configuration that other tests load disables what it does not name.
    monkeypatch.setattr(log, "disabled", False)
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    log.manager._clear_cache()  # type: ignore[attr-defined]  # noqa: SLF001 - of who is enabled
    return found


def post(number: int) -> Item:
    item: Item = {"id": f"{number:03}", "caption": f"caption {number}", "like_count": number, "url": None, "tags": [1]}
    item["timestamp"] = f"2026-01-{number % 28 + 1:02}T00:00:00Z"
    if number % 4 == 0:
        item["children"] = [{"id": f"{number}-{place}", "media_type": "IMAGE", "l": [place]} for place in range(3)]
    return item


def first_night(house: House, posts: int = 40) -> dict[str, list[Item]]:
    """Fill a warehouse: three accounts with as many posts, and a story."""
    stock = {account_id: [post(number) for number in range(posts)] for account_id in EVERYONE}
    house.catalogue("c", 0, [account(account_id, name=account_id[:4]) for account_id in EVERYONE])
    for account_id, items in stock.items():
        house.walk(media(account_id, "posts"), f"p {account_id}", 1, items)
    house.walk(STORIES, "s", 1, [{"id": "story", "timestamp": "2026-03-01T00:00:00Z"}])
    return stock


def _likes(item: Item, draw: random.Random) -> None:
    item["like_count"] = draw.choice([None, draw.randint(0, 99), "many"])


def _caption(item: Item, draw: random.Random) -> None:
    item["caption"] = f"new {draw.random()}"


def _children(item: Item, draw: random.Random) -> None:
    item["children"] = [{"id": str(place), "l": draw.choice([None, [], [None], [1]])} for place in range(2)]


def _unsaid(item: Item, draw: random.Random) -> None:
    item.pop(draw.choice(["caption", "tags", "timestamp", "children", "like_count"]), None)


def _tags(item: Item, draw: random.Random) -> None:
    item["tags"] = draw.choice([None, [], [None], [1, None], [1, 2]])


def _field(item: Item, draw: random.Random) -> None:
    item[f"field_{draw.randint(0, 3)}"] = draw.choice([1, 2.5, -0.0, "x", True])


_CHANGES: tuple[Callable[[Item, random.Random], None], ...] = (_likes, _caption, _children, _unsaid, _tags)


def night(house: House, stock: dict[str, list[Item]], hour: float, draw: random.Random) -> None:
    """Walk everything again, a little of it changed, gone, come back or new."""
    names = {account_id: account_id[: 4 + (draw.random() < 0.03)] for account_id in EVERYONE}
    status = ("active", "active", "active", "token_expired")
    house.catalogue(
        f"c{hour}", hour, [account(who, name=name, status=draw.choice(status)) for who, name in names.items()]
    )
    for account_id, items in stock.items():
        for item in draw.sample(items, draw.randint(0, 3)):
            draw.choice(_CHANGES if draw.random() < 0.95 else (_field,))(item, draw)
        items += [post(len(items) + number) for number in range(draw.randint(0, 2))]
        there = [item for item in items if draw.random() > 0.02]
        draw.shuffle(there)
        house.walk(media(account_id, "posts"), f"p{hour} {account_id}", hour + 1, there, last=draw.random() < 0.8)
    stories = [{"id": f"story {draw.randint(0, 3)}", "timestamp": "2026-03-01T00:00:00Z"}, {"caption": "no id"}]
    house.walk(STORIES, f"s{hour}", hour + 1, stories[: draw.randint(0, 2)])


@pytest.fixture(scope="module")
def due(open_house: Connection, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a snapshot shows after the first night."""
    house = emptied(open_house)
    first_night(house)
    return written_whole(house, tmp_path_factory.mktemp("due") / "analytics.duckdb")


@pytest.mark.parametrize("seed", range(4))
def test_night_after_night_it_shows_what_a_whole_one_does(house: House, snapshot: Path, why: Why, seed: int) -> None:
    draw = random.Random(seed)
    stock = first_night(house)
    put(house, snapshot)
    nights = 5
    for number in range(1, nights + 1):
        night(house, stock, 24 * number, draw)
        put(house, snapshot, hour=24 * number)
        check_alike(house, snapshot, hour=24 * number)
    # What a night adds lies astray until enough of it does; then, and for a new column, it is written whole.
    assert len(why.lines) < nights


_HANDS = {
    "another value": "UPDATE core.media SET caption = 'by hand' WHERE media_id = '003'",
    "another payload": "UPDATE core.media SET payload = '{}' WHERE media_id = '003'",
    "a mark alone": "UPDATE core.media SET digest = 1, payload_hash = 2 WHERE media_id = '003'",
    "gone": "DELETE FROM core.media WHERE media_id = '003'",
    "an empty list for none": "UPDATE core.media_children SET l = [] WHERE media_id = '004' AND position = 1",
    "a list of nothing for none": "UPDATE core.media_children SET l = [NULL] WHERE media_id = '004' AND position = 1",
    "children gone": "DELETE FROM core.media_children WHERE media_id = '004'",
    "history gone": "DELETE FROM core.media_metrics WHERE media_id = '003'",
    "history rewritten": "UPDATE core.media_metrics SET value = value + 1 WHERE media_id = '003'",
    "history of before": (
        "INSERT INTO core.media_metrics SELECT * REPLACE (observed_at - INTERVAL 1 DAY AS observed_at)"
        " FROM core.media_metrics WHERE media_id = '003'"
    ),
    "a row twice": "INSERT INTO core.media_metrics FROM core.media_metrics WHERE media_id = '003'",
    "in doubt": "INSERT INTO ops.missing SELECT account_id, surface, media_id, now(), '2026-01-01' FROM core.media",
    "all of them": "DELETE FROM core.media",
}


@pytest.mark.parametrize("what", _HANDS)
def test_what_no_fold_did_is_seen_too(house: House, snapshot: Path, what: str) -> None:
    first_night(house)
    house.do("UPDATE core.media_children SET l = NULL")
    put(house, snapshot)
    house.do(_HANDS[what])
    put(house, snapshot)
    check_alike(house, snapshot)


def test_what_nobody_touched_is_not_written_again(house: House, snapshot: Path, why: Why) -> None:
    first_night(house)
    put(house, snapshot)
    put(house, snapshot, hour=99)
    assert why.lines == []
    check_alike(house, snapshot, hour=99)


def test_a_night_that_saw_everything_again_moves_only_when_it_was_seen(house: House, snapshot: Path, why: Why) -> None:
    stock = first_night(house)
    put(house, snapshot)
    house.walk(POSTS, "again", 48, stock[ANNA])
    put(house, snapshot)
    assert why.lines == []
    check_alike(house, snapshot)


@contextmanager
def unnoticed(snapshot: Path) -> Iterator[None]:
    """Let a snapshot be altered so that its time does not show it: what is left to see it by are its rows."""
    before = snapshot.stat()
    snapshot.chmod(0o644)
    yield
    os.utime(snapshot, ns=(before.st_atime_ns, before.st_mtime_ns))


def spoil(snapshot: Path, statement: str) -> None:
    with unnoticed(snapshot), duckdb.connect(snapshot) as db:
        db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (a INTEGER)",
        "CREATE VIEW mine AS SELECT 1",
        "CREATE MACRO mine() AS 1",
        "CREATE SCHEMA mine",
        "CREATE SEQUENCE mine",
        "CREATE TYPE mine AS ENUM ('a')",
        "CREATE INDEX mine ON media (media_id)",
        "ALTER TABLE media ADD COLUMN mine INTEGER",
        "ALTER TABLE media ALTER caption SET DEFAULT 'mine'",
        "ALTER TABLE media ALTER surface DROP NOT NULL",
        "DROP VIEW freshness",
        "DROP TABLE runs",
        "DELETE FROM published",
        "INSERT INTO published SELECT * FROM published",
        "UPDATE published SET version = 'older'",
    ],
)
def test_a_snapshot_that_is_not_ours_any_more_is_written_whole(
    house: House, due: dict[str, object], snapshot: Path, why: Why, statement: str
) -> None:
    first_night(house)
    put(house, snapshot)
    spoil(snapshot, statement)
    put(house, snapshot)
    assert len(why.lines) == 1
    check_shows(snapshot, due)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE media SET caption = 'mine' WHERE media_id = '003'",
        "DELETE FROM media_metrics WHERE media_id = '003'",
        "DELETE FROM accounts",
        "INSERT INTO media_children FROM media_children WHERE media_id = '004'",
        "INSERT INTO media FROM media WHERE media_id = '003'",
        "CREATE OR REPLACE VIEW freshness AS SELECT 1 AS mine",
        "COMMENT ON COLUMN media.caption IS 'mine'",
        "COMMENT ON COLUMN freshness.surface IS 'mine'",
        "COMMENT ON TABLE media IS 'mine'",
    ],
)
def test_what_a_stranger_wrote_into_it_is_gone(
    house: House, due: dict[str, object], snapshot: Path, statement: str
) -> None:
    first_night(house)
    put(house, snapshot)
    spoil(snapshot, statement)
    put(house, snapshot)
    check_shows(snapshot, due)


def test_the_snapshot_of_another_warehouse_is_no_harm(house: House, snapshot: Path) -> None:
    first_night(house)
    put(house, snapshot)
    house.do("UPDATE core.media SET account_id = upper(account_id) || '!', caption = 'another'")
    put(house, snapshot)
    check_alike(house, snapshot)


@pytest.mark.parametrize("left", [0, 100, 20_000, 300_000])
def test_a_damaged_snapshot_is_written_whole(
    house: House, due: dict[str, object], snapshot: Path, why: Why, left: int
) -> None:
    first_night(house)
    put(house, snapshot)
    with unnoticed(snapshot):
        snapshot.write_bytes(snapshot.read_bytes()[:left])
    put(house, snapshot)
    assert len(why.lines) == 1
    check_shows(snapshot, due)


def test_flipped_bytes_do_not_get_into_the_next(house: House, due: dict[str, object], snapshot: Path) -> None:
    first_night(house)
    put(house, snapshot)
    sound, draw = snapshot.read_bytes(), random.Random(1)
    for _ in range(12):
        spoiled = bytearray(sound)
        spoiled[draw.randrange(len(sound))] ^= 1 << draw.randrange(8)
        with unnoticed(snapshot):
            snapshot.write_bytes(spoiled)
        put(house, snapshot)
        check_shows(snapshot, due)


def test_a_new_column_is_written_whole(house: House, snapshot: Path, why: Why) -> None:
    stock = first_night(house)
    put(house, snapshot)
    house.walk(POSTS, "again", 48, [{**item, "new": 1} for item in stock[ANNA][:2]], last=False)
    put(house, snapshot)
    assert len(why.lines) == 1
    check_alike(house, snapshot)


def test_many_changes_are_written_whole_and_few_small_tables_are_no_reason(
    house: House, snapshot: Path, why: Why
) -> None:
    stock = first_night(house)
    put(house, snapshot)
    house.do("UPDATE core.media_children SET media_type = 'all of them'")
    put(house, snapshot)
    assert why.lines == []
    house.walk(POSTS, "again", 48, [{**item, "like_count": 5} for item in stock[ANNA]], last=False)
    put(house, snapshot)
    assert len(why.lines) == 1
    check_alike(house, snapshot)


def test_a_kill_at_any_moment_leaves_the_old_snapshot_whole(
    house: House, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_night(house)
    put(house, snapshot)
    before = snapshot.read_bytes()
    house.do("UPDATE core.media SET caption = 'by hand' WHERE media_id = '003'")

    class Killed(BaseException):
        pass

    class Frail:
        """DuckDB's connection, in a process that ends before the statement after so many."""

        def __init__(self, left: int) -> None:
            self._db, self._left = duck(house.connection), left

        def execute(self, query: str) -> duckdb.DuckDBPyConnection:
            self._left -= 1
            if self._left == 0:
                raise Killed
            return self._db.execute(query)

        def duplicate(self) -> duckdb.DuckDBPyConnection:
            return self._db.duplicate()

    for left in range(6, 2000, 29):
        with monkeypatch.context() as patch:
            patch.setattr("connectors.warehouse.publish.duck", lambda _, left=left: Frail(left))
            try:
                put(house, snapshot)
            except Killed:
                if snapshot.read_bytes() != before:
                    # Killed while the new one, already in its place, was opened once.
                    break
            else:
                break
    else:
        pytest.fail("it never came to its end")
    check_alike(house, snapshot)


def test_room_is_used_again_night_after_night(house: House, snapshot: Path) -> None:
    stock = first_night(house)
    put(house, snapshot)
    first = snapshot.stat().st_size
    for number in range(12):
        house.walk(POSTS, f"again {number}", 24 * number + 24, stock[ANNA])
        put(house, snapshot)
    assert snapshot.stat().st_size < 2 * first
    rows = "SELECT max(rowid) < 1000 FROM accounts"
    with duckdb.connect(snapshot, read_only=True) as db:
        assert db.execute(rows).fetchall() == [(True,)]
