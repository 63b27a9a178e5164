"""The raw store keeps rows byte for byte; a part is listed exactly if its transaction was committed."""

import errno
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from connectors.warehouse.raw import store
from connectors.warehouse.raw.compaction import compact_parts, groups
from connectors.warehouse.raw.parts import Part, confirm_part, live_parts, mark_unlisted, store_of, write_part
from connectors.warehouse.raw.reading import stored_payloads
from connectors.warehouse.raw.recovery import check_store, recover_parts
from connectors.warehouse.raw.store import COLUMNS, parquet
from connectors.warehouse.storage.connection import Connection, connect, write_token
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.quoting import literal
from tests.warehouse.rig import POSTS, T0, Rig, Scan, at, refusal

BYTES = (
    '{"id":"1"}',
    '{ "caption" : "\\u00e9 é 😀 \\ud83d\\ude00",\t"id":1.50, "b":1,"a":[ ]}',
    '{"id":"\'; DROP TABLE x --","n":1e3,"n":1000}',
    "{}",
)


class Lost(Exception):  # noqa: N818
    """The process was killed."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with connect(tmp_path / "w.duckdb", new_id=lambda: "an-id") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "raw" / "an-id" / "media"


def rows(*payloads: str, first: int = 1, seen_at: datetime = T0) -> str:
    """Return a query of raw rows, one for each payload."""
    listed = ", ".join(f"({landed}, {literal(payload)})" for landed, payload in enumerate(payloads, first))
    return (
        f"SELECT 'a' AS account_id, 'posts' AS surface, landed::VARCHAR AS media_id, TIMESTAMPTZ '{seen_at}'"
        f" AS seen_at, 'run' AS run_id, NULL::VARCHAR AS correlation_id, landed::BIGINT AS landed, payload"
        f" FROM (VALUES {listed}) AS v(landed, payload)"
    )


def write(connection: Connection, query: str) -> None:
    with connection.begin():
        write_part(connection, query)
    confirm_part(connection)


def write_and_die(connection: Connection, query: str) -> None:
    def work() -> None:
        with connection.begin():
            write_part(connection, query)
            raise Lost

    with pytest.raises(Lost):
        work()


def kept(connection: Connection) -> list[tuple[int, str]]:
    with connection.begin():
        source = parquet(store_of(connection).path(part.number) for part in live_parts(connection))
        return connection.db.execute(f"SELECT landed, payload FROM {source} ORDER BY landed").fetchall()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(connection: Connection) -> str:
    message = refusal(lambda: recover_parts(connection, now=T0))
    assert "Fix: " in message
    return message


def test_rows_are_kept_byte_for_byte(connection: Connection, folder: Path) -> None:
    write(connection, rows(*BYTES))
    assert kept(connection) == list(enumerate(BYTES, 1))
    with duckdb.connect() as db:
        described = db.execute(f"DESCRIBE FROM '{folder}/part-0000001.parquet'").fetchall()
    zoned = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
    assert [row[:2] for row in described] == [(name, zoned.get(kind, kind)) for name, (kind, _) in COLUMNS.items()]


def test_a_merge_that_is_rolled_back_leaves_a_draft_that_the_next_one_replaces(
    connection: Connection, folder: Path
) -> None:
    write_and_die(connection, rows("{}", "{}"))
    assert names(folder) == [".part-0000001.parquet."]
    write(connection, rows("[]"))
    assert names(folder) == ["part-0000001.parquet"]
    assert kept(connection) == [(1, "[]")]


def killed(*_: object) -> None:
    raise Lost


@contextmanager
def process(path: Path, session: str) -> Iterator[Connection]:
    """A process that has the warehouse open for writing, and is killed at the end of the block."""
    with connect(path, new_id=lambda: "an-id") as opened:
        recover_parts(opened, now=T0)
        with opened.begin():
            write_token(opened, session, before=None)
        yield opened


@pytest.mark.parametrize("step", ["put", "commit", "confirm"])
def test_a_kill_at_any_step_keeps_committed_rows(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "w.duckdb"
    with process(path, "one") as connection:
        write(connection, rows("{}"))
        with monkeypatch.context() as patched:
            if step == "put":
                patched.setattr(store, "sync", killed)
                # A killed process does not clean up.
                patched.setattr(Path, "unlink", lambda *_, **__: None)
            if step == "confirm":
                with connection.begin():
                    write_part(connection, rows("[]", first=2))
            else:
                write_and_die(connection, rows("[]", first=2))
    assert names(folder) == [".part-0000002.parquet.one", "part-0000001.parquet"]
    with connect(path) as connection, connection.begin():
        for check in check_store(connection):
            check()
    with process(path, "two") as connection:
        if step == "confirm":
            assert kept(connection) == [(1, "{}"), (2, "[]")]
        else:
            assert names(folder) == ["part-0000001.parquet"]
            write(connection, rows("[]", first=2))
        assert kept(connection) == [(1, "{}"), (2, "[]")]
    assert names(folder) == ["part-0000001.parquet", "part-0000002.parquet"]


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


def test_a_draft_of_another_copy_is_not_deleted(tmp_path: Path) -> None:
    newest = tmp_path / "w.duckdb"
    with process(newest, "one") as connection:
        write(connection, rows("{}"))
    older = copied(newest, "older.duckdb")
    with process(newest, "two") as connection, connection.begin():
        # Committed, and killed before it has its final name.
        write_part(connection, rows("[]", first=2))
    with process(older, "three") as connection:
        pass
    with process(newest, "four") as connection:
        assert kept(connection) == [(1, "{}"), (2, "[]")]


def test_a_part_that_appears_meanwhile_is_not_replaced(connection: Connection, folder: Path) -> None:
    strange = folder / "part-0000001.parquet"
    folder.mkdir(parents=True)
    strange.write_bytes(b"the only copy")
    with pytest.raises(WarehouseUnusable, match=r"part-0000001.parquet: File exists"):
        write(connection, rows("{}"))
    assert strange.read_bytes() == b"the only copy"


@pytest.mark.parametrize("number", [2, 3])
def test_an_unlisted_part_is_refused(connection: Connection, folder: Path, number: int) -> None:
    write(connection, rows("{}"))
    strange = folder / f"part-000000{number}.parquet"
    strange.write_bytes(b"the only copy")
    assert str(strange) in refused(connection)
    assert strange.read_bytes() == b"the only copy"
    strange.unlink()
    recover_parts(connection, now=T0)


def test_a_part_that_is_missing_or_of_another_size_is_refused(connection: Connection, folder: Path) -> None:
    write(connection, rows("{}"))
    part = folder / "part-0000001.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    assert str(part) in refused(connection)
    part.unlink()
    assert "lacks part-0000001.parquet" in refused(connection)
    folder.rmdir()
    assert "GRAMHOUSE_RAW" in refused(connection)
    folder.mkdir()
    part.write_bytes(whole)
    recover_parts(connection, now=T0)


def media(connection: Connection, *landed: int) -> None:
    """Add rows of media that refer to raw rows."""
    with connection.begin():
        for number in landed:
            connection.db.execute(
                "INSERT INTO core.media BY NAME SELECT 'a' AS account_id, 'posts' AS surface,"
                f" '{number}' AS media_id, {number} AS raw_landed, now() AS first_seen_at,"
                " now() AS written_at, now() AS changed_at, now() AS content_changed_at"
            )


def test_small_parts_become_one_and_are_deleted_a_day_after_the_next_publish(
    connection: Connection, folder: Path
) -> None:
    for landed, payload in enumerate(BYTES, 1):
        write(connection, rows(payload, first=landed))
    before = kept(connection)
    done = compact_parts(connection, now=at(0))
    assert (done.parts_before, done.parts_after, done.rows_deleted) == (4, 1, 0)
    assert kept(connection) == before
    recover_parts(connection, now=at(100))
    assert len(names(folder)) == 5
    with connection.begin():
        mark_unlisted(connection, at=at(100))
    recover_parts(connection, now=at(123))
    assert len(names(folder)) == 5
    recover_parts(connection, now=at(124))
    assert names(folder) == ["part-0000005.parquet"]
    assert kept(connection) == before
    write(connection, rows("{}", first=9))
    assert names(folder)[-1] == "part-0000006.parquet"
    assert compact_parts(connection, now=at(0)).parts_after == 1


def test_a_part_that_could_not_be_renamed_gets_its_name_before_the_next_one(
    connection: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, scan = Rig(connection), Scan(POSTS, "p", T0)
    # The last one widens a column, which is then filled from the raw store.
    items = [{"id": "1", "n": 1}, {"id": "2", "n": 1}, {"id": "3", "n": "x"}]
    rig.record(scan.page(items[:1], at(1)))
    for item in items[1:]:
        rig.land(scan.page([item], at(2)))
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", Mock(side_effect=OSError(errno.EDQUOT, "Disk quota exceeded")))
            assert "part-0000002.parquet: Disk quota exceeded" in refusal(rig.merge)
    rig.merge()
    assert names(folder) == [f"part-000000{number}.parquet" for number in (1, 2, 3)]
    recover_parts(connection, now=T0)
    assert [json.loads(payload) for _, payload in kept(connection)] == items
    assert rig.rows("SELECT n FROM core.media ORDER BY media_id") == [("1",), ("1",), ("x",)]


def test_an_interrupted_deletion_of_retired_parts_is_continued(connection: Connection, folder: Path) -> None:
    write(connection, rows("{}"))
    write(connection, rows("[]", first=2))
    compact_parts(connection, now=T0)
    with connection.begin():
        mark_unlisted(connection, at=T0)
    (folder / "part-0000001.parquet").unlink()
    second = (folder / "part-0000002.parquet").read_bytes()
    (folder / "part-0000002.parquet").write_bytes(b"of another warehouse")
    assert "part-0000002.parquet" in refused(connection)
    (folder / "part-0000002.parquet").write_bytes(second)
    recover_parts(connection, now=at(48))
    assert names(folder) == ["part-0000003.parquet"]


def test_retention_keeps_referenced_and_recent_rows(connection: Connection) -> None:
    write(connection, rows("1", "2", "3"))
    write(connection, rows("4", "5", first=4, seen_at=at(48)))
    media(connection, 3, 5)
    with connection.begin():
        connection.db.execute(
            "INSERT INTO core.media_superseded BY NAME SELECT 'a' AS account_id, 'posts' AS surface,"
            " '2' AS media_id, 2 AS raw_landed, now() AS valid_from, now() AS valid_to"
        )
    done = compact_parts(connection, now=at(60), before=at(24))
    assert done.rows_deleted == 1
    assert kept(connection) == [(2, "2"), (3, "3"), (4, "4"), (5, "5")]
    assert compact_parts(connection, now=at(60), before=at(24)).rows_deleted == 0
    assert compact_parts(connection, now=at(60), before=at(72)).rows_deleted == 1
    assert kept(connection) == [(2, "2"), (3, "3"), (5, "5")]


def part(number: int, size: int) -> Part:
    return Part(number, 1, size, number, number, T0, "")


@pytest.mark.parametrize(
    ("sizes", "outdated", "wanted"),
    [
        ([5], {1: 1}, [(1,)]),
        ([5, 5, 5], {}, [(1, 2, 3)]),
        ([5, 50, 5], {2: 3}, [(1, 2, 3)]),
        ([9, 9, 9, 9, 9], {}, [(1, 2), (3, 4)]),
        ([50, 5, 5, 50, 5], {5: 1}, [(2, 3), (5,)]),
    ],
)
def test_which_parts_are_written_together(
    sizes: Sequence[int], outdated: dict[int, int], wanted: list[tuple[int, ...]]
) -> None:
    parts = [part(number, size) for number, size in enumerate(sizes, 1)]
    made = groups(parts, outdated, small=10, large=60 if 50 in sizes else 20)
    assert [tuple(each.number for each in group) for group in made] == wanted


def test_stored_rows_are_given_their_bytes(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.warehouse.raw.reading._LASTS", "SELECT unnest([2, 3, 9])")
    write(connection, rows(*BYTES))
    write(connection, rows("[]", first=9))
    media(connection, 9, 4, 1, 3)
    found: dict[int, str] = {}
    with connection.begin():
        for batch in stored_payloads(connection, "core.media", "changed_at"):
            found |= dict(zip(batch["order_key"].to_pylist(), batch["payload"].to_pylist(), strict=True))
    assert found == {0: "[]", 1: BYTES[3], 2: BYTES[0], 3: BYTES[2]}
