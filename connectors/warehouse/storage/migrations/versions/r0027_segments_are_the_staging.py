"""From 0.2.0: pages are merged from segments, and two scans confirm a removal.

There is no staging table, and one checkpoint for each partition and run kind. Parts of the raw store have checksums.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from alembic import op

from connectors.warehouse.storage.durable import open_without_symlinks, replace_file, sync
from connectors.warehouse.storage.errors import WarehouseUnusable

revision = "0027"
down_revision = "0021"

# A segment of 0.2.0: a line with the session, then frames. A frame has a checksum of everything after it; then the
# landing number, and the lengths of page, body, checkpoint, outcomes and cooldowns, each JSON except for the body.
_OLD_LINE = b"gramhouse segment 2 %s\n"
_OLD_HEAD = struct.Struct("<Q5I")

# A segment as of this revision: a frame has a checksum, the lengths of its two parts, the page commit in MessagePack,
# and the body.
_LINE = b"gramhouse segment 3 %s\n"
_SUM = struct.Struct("<I")
_LENGTHS = struct.Struct("<II")

# The raw store counts too: its rows have the numbers of landings whose pages and checkpoints are deleted.
_LAST_SEQ = """
SELECT coalesce(max(seq), 0) FROM (
    SELECT seq FROM ops.checkpoints UNION ALL SELECT last_landed >> 26 FROM ops.raw_parts WHERE last_landed > 0
)
"""

# Until the next publish the view `runs` still names the column of runs. An empty catalogue misses no accounts any more.
_COLUMNS = (
    "ALTER TABLE core.runs DROP COLUMN full_requests",
    "ALTER TABLE ops.raw_parts ADD COLUMN checksum VARCHAR",
    "ALTER TABLE ops.checkpoints ADD COLUMN rejected BIGINT",
    "ALTER TABLE ops.missing DROP COLUMN needs_full",
    "ALTER TABLE ops.missing RENAME COLUMN since TO missing_since",
    "DELETE FROM ops.missing_accounts WHERE missed_from IS NULL",
    "ALTER TABLE ops.missing_accounts DROP COLUMN missed_from",
    "ALTER TABLE ops.missing_accounts RENAME COLUMN since TO missing_since",
)

_WAREHOUSE = """
CREATE TABLE ops.warehouse (
    warehouse_id VARCHAR NOT NULL, raw_parts BIGINT NOT NULL, session VARCHAR, merged_seq BIGINT NOT NULL,
    merged_ahead BIGINT[] NOT NULL
)
"""

# The number of the segment of the new format; those of 0.2.0 begin at 1.
_NEW = 0

Row = dict[str, Any]


def upgrade() -> None:
    """Alter columns, write all that is not merged to a segment of the new format, and drop the tables that held it.

    That segment replaces the old ones. It is durable before these are deleted, and contains the staged pages too, so
    that nothing is lost if the process is killed before or after the transaction is committed.
    """
    for statement in _COLUMNS:
        op.execute(statement)
    [(path,)] = _rows("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
    warehouse = Path(path).resolve()
    [(session,)] = _rows("SELECT coalesce(any_value(session), 'none') FROM ops.segments")
    [(last,)] = _rows(_LAST_SEQ)
    segments = _segments(warehouse)
    data = {number: _read(segment, session) for number, segment in segments.items()}
    # An earlier attempt, whose transaction was not committed, may have written it.
    if _NEW not in data and (frames := {**_staged(), **_landed(segments, data)}):
        data[_NEW] = b"".join((_LINE % session.encode(), *(frames[seq] for seq in sorted(frames))))
        replace_file(warehouse.with_name(f"{warehouse.name}.segment-{_NEW:06}"), data[_NEW])
    if _NEW in data:
        last = _first_seq(data[_NEW]) - 1
    for number, segment in segments.items():
        if number != _NEW:
            segment.unlink(missing_ok=True)
    sync(warehouse.parent)
    _tables(session, last)


def _rows(query: str) -> list[Any]:
    return list(op.get_bind().exec_driver_sql(query).fetchall())


def _mappings(query: str) -> list[Row]:
    found = op.get_bind().exec_driver_sql(query)
    names = list(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _staged() -> dict[int, bytes]:
    """Return frames of the staged pages and of all checkpoints that landed with them or later."""
    pages = {row["seq"]: row for row in _mappings("FROM ops.staging")}
    checkpoints = _mappings("FROM ops.checkpoints WHERE seq >= (SELECT min(seq) FROM ops.staging)")
    by_seq = {row["seq"]: row for row in checkpoints}
    return {
        seq: _frame(seq, pages.get(seq), str(pages.get(seq, {}).pop("body", "")).encode(), by_seq.get(seq))
        for seq in pages.keys() | by_seq.keys()
    }


def _frame(
    seq: int,
    page: Row | None,
    body: bytes,
    checkpoint: Row | None,
    outcomes: Sequence[Row] = (),
    cooldown: Row | None = None,
) -> bytes:
    if page is not None:
        lists = {name: json.loads(page[name] or "[]") for name in ("rejected", "unknown_fields")}
        page = {**_partitioned(page), "body": "", **lists}
    if checkpoint is not None:
        checkpoint = {name: value for name, value in _partitioned(checkpoint).items() if value is not None}
    ended = [{**_partitioned(outcome), "kind": outcome["outcome"]} for outcome in outcomes]
    commit = {"page": page, "checkpoint": checkpoint, "outcomes": ended, "cooldown": cooldown}
    text = msgspec.msgpack.encode((seq, commit))
    rest = b"".join((_LENGTHS.pack(len(text), len(body)), text, body))
    return _SUM.pack(zlib.crc32(rest)) + rest


def _partitioned(row: Row) -> Row:
    return {**row, "partition": {name: row[name] for name in ("resource", "account_id", "surface")}}


def _segments(warehouse: Path) -> dict[int, Path]:
    begin = f"{warehouse.name}.segment-"
    numbers = [path.name.removeprefix(begin) for path in warehouse.parent.iterdir() if path.name.startswith(begin)]
    found = {int(text): warehouse.with_name(f"{begin}{text}") for text in numbers if text.isdecimal()}
    return dict(sorted(found.items()))


def _read(segment: Path, session: str) -> bytes:
    with open(segment, "rb", opener=open_without_symlinks) as file:
        data = file.read()
    end = data.find(b"\n") + 1
    if end and data[:end] not in (_OLD_LINE % session.encode(), _LINE % session.encode()):
        raise WarehouseUnusable(
            f"{segment} contains pages of another warehouse, or of a later state of this one, or is damaged."
            " Fix: if you restored a backup, created a new warehouse or replaced the disk, move that file away: its"
            " pages will be fetched again."
        )
    return data


def _landed(segments: Mapping[int, Path], data: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the frames of the segments that are not staged, in the new format."""
    staged = {number for (number,) in _rows("SELECT number FROM ops.segments WHERE number > 0")}
    frames: dict[int, bytes] = {}
    for number in segments.keys() - staged:
        end = data[number].find(b"\n") + 1
        for seq, frame, after in _old_frames(data[number], end or len(data[number])):
            frames[seq], end = frame, after
        if end < len(data[number]) and number != max(segments):
            raise WarehouseUnusable(
                f"{segments[number]} is damaged after {end:,} bytes. Fix: check the disk, then move this file and those"
                " with higher numbers away: their pages will be fetched again."
            )
    return frames


def _old_frames(data: bytes, begin: int) -> Iterator[tuple[int, bytes, int]]:
    while (offset := begin + _SUM.size + _OLD_HEAD.size) <= len(data):
        (checksum,) = _SUM.unpack_from(data, begin)
        seq, *lengths = _OLD_HEAD.unpack_from(data, begin + _SUM.size)
        end = offset + sum(lengths)
        if end > len(data) or zlib.crc32(data[begin + _SUM.size : end]) != checksum:
            return
        parts = []
        for length in lengths:
            parts.append(data[offset : offset + length])
            offset += length
        page, checkpoint, outcomes, cooldowns = (json.loads(b"[" + part + b"]") for part in (parts[0], *parts[2:]))
        frame = _frame(seq, next(iter(page), None), parts[1], next(iter(checkpoint), None), outcomes, *cooldowns[:1])
        yield seq, frame, end
        begin = end


def _first_seq(data: bytes) -> int:
    begin = data.find(b"\n") + 1 + _SUM.size
    commit, _ = _LENGTHS.unpack_from(data, begin)
    begin += _LENGTHS.size
    return int(msgspec.msgpack.decode(data[begin : begin + commit])[0])


def _tables(session: str, merged: int) -> None:
    quoted = session.replace("'", "''")
    # Checkpoints of pages that are not merged are in the segment; the merge had deleted all others but the last.
    for statement in (
        "DROP TABLE ops.batch_logs",
        "DROP TABLE ops.staging",
        "DROP TABLE ops.segments",
        # In DuckDB a column that is NOT NULL cannot be added.
        "CREATE TABLE ops.warehouse_before AS FROM ops.warehouse",
        "DROP TABLE ops.warehouse",
        _WAREHOUSE,
        f"INSERT INTO ops.warehouse SELECT *, '{quoted}', {merged}, [] FROM ops.warehouse_before",  # noqa: S608
        "DROP TABLE ops.warehouse_before",
        f"DELETE FROM ops.checkpoints WHERE seq > {merged}",  # noqa: S608
    ):
        op.execute(statement)
