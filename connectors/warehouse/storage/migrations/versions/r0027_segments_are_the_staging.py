"""Pages are merged from segments: there is no staging table, and one checkpoint for each partition and run kind."""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from alembic import op

from connectors.warehouse.storage.durable import open_without_symlinks, sync, write
from connectors.warehouse.storage.errors import WarehouseUnusable

revision = "0027"
down_revision = "0026"

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

Row = dict[str, Any]


def upgrade() -> None:
    """Write everything that is not merged to a segment of the new format, and drop the tables that held it.

    That segment replaces the old ones. It is durable before these are deleted, and contains the staged pages too, so
    that nothing is lost if the process is killed before or after the transaction is committed.
    """
    [(path,)] = _rows("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
    warehouse = Path(path).resolve()
    [(session,)] = _rows("SELECT coalesce(any_value(session), 'none') FROM ops.segments")
    [(first_staged,)] = _rows("SELECT min(seq) FROM ops.staging")
    frames = _staged(first_staged)
    old = _segments(warehouse)
    taken = {number for (number,) in _rows("SELECT number FROM ops.segments WHERE number > 0")}
    for number, segment in old.items():
        frames |= _frames_of(segment, session, is_last=number == max(old), is_taken=number in taken)
    [(last,)] = _rows(_LAST_SEQ)
    if frames:
        last = min(frames) - 1
        _write(warehouse, session, [frames[seq] for seq in sorted(frames)])
    for number, segment in old.items():
        if number:
            segment.unlink(missing_ok=True)
    sync(warehouse.parent)
    _tables(session, last)


def _rows(query: str) -> list[Any]:
    return list(op.get_bind().exec_driver_sql(query).fetchall())


def _mappings(query: str) -> list[Row]:
    found = op.get_bind().exec_driver_sql(query)
    names = list(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _staged(first: int | None) -> dict[int, bytes]:
    """Return frames of the staged pages and of all checkpoints that landed with them or later."""
    if first is None:
        return {}
    pages = {row["seq"]: row for row in _mappings("FROM ops.staging")}
    checkpoints = {row["seq"]: row for row in _mappings(f"FROM ops.checkpoints WHERE seq >= {first}")}
    return {
        seq: _frame(seq, pages.get(seq), str(pages.get(seq, {}).pop("body", "")).encode(), checkpoints.get(seq))
        for seq in pages.keys() | checkpoints.keys()
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


def _frames_of(segment: Path, session: str, *, is_last: bool, is_taken: bool) -> dict[int, bytes]:
    """Return the frames of a segment, in the new format. The first segment may be one that an earlier attempt wrote."""
    with open(segment, "rb", opener=open_without_symlinks) as file:
        data = file.read()
    line, new = _OLD_LINE % session.encode(), _LINE % session.encode()
    end = data.find(b"\n") + 1
    if end and data[:end] not in (line, new):
        message = (
            f"{segment} contains pages of another warehouse, or of a later state of this one, or is damaged."
            " Fix: if you restored a backup, created a new warehouse or replaced the disk, move that file away: its"
            " pages will be fetched again."
        )
        raise WarehouseUnusable(message)
    if is_taken:
        return {}
    frames: dict[int, bytes] = {}
    for seq, frame, after in _new_frames(data, end) if data[:end] == new else _old_frames(data, end or len(data)):
        frames[seq], end = frame, after
    if end < len(data) and not is_last:
        message = (
            f"{segment} is damaged after {end:,} bytes. Fix: check the disk, then move this file and those with"
            " higher numbers away: their pages will be fetched again."
        )
        raise WarehouseUnusable(message)
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


def _new_frames(data: bytes, begin: int) -> Iterator[tuple[int, bytes, int]]:
    # It was renamed when it was complete.
    while begin < len(data):
        commit, body = _LENGTHS.unpack_from(data, begin + _SUM.size)
        offset = begin + _SUM.size + _LENGTHS.size
        end = offset + commit + body
        yield msgspec.msgpack.decode(data[offset : offset + commit])[0], data[begin:end], end
        begin = end


def _write(warehouse: Path, session: str, frames: list[bytes]) -> None:
    segment = warehouse.with_name(f"{warehouse.name}.segment-000000")
    draft = warehouse.with_name(f".{warehouse.name}.segment-draft")
    handle = open_without_symlinks(str(draft), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write(handle, b"".join((_LINE % session.encode(), *frames)))
        os.fsync(handle)
    finally:
        os.close(handle)
    draft.replace(segment)
    sync(warehouse.parent)


def _tables(session: str, merged: int) -> None:
    op.execute("DROP TABLE ops.staging")
    op.execute("DROP TABLE ops.segments")
    # In DuckDB a column that is NOT NULL cannot be added.
    op.execute("CREATE TABLE ops.warehouse_before AS FROM ops.warehouse")
    op.execute("DROP TABLE ops.warehouse")
    op.execute(
        "CREATE TABLE ops.warehouse (warehouse_id VARCHAR NOT NULL, raw_parts BIGINT NOT NULL, session VARCHAR,"
        " merged_seq BIGINT NOT NULL, merged_ahead BIGINT[] NOT NULL)"
    )
    quoted = session.replace("'", "''")
    op.execute(f"INSERT INTO ops.warehouse SELECT *, '{quoted}', {merged}, [] FROM ops.warehouse_before")  # noqa: S608
    op.execute("DROP TABLE ops.warehouse_before")
    # Those of pages that are not merged are in the segment; the merge had deleted all others but the last.
    op.execute(f"DELETE FROM ops.checkpoints WHERE seq > {merged}")  # noqa: S608
