"""Writes parts of the raw store again: small ones combined, without rows after their retention time, or changed.

A combined part has the name of the first that it replaces, and the others stay beside it for a day, because a query of
a snapshot may be reading them. Readers skip these, as their rows are in the part before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.parts import SCHEMA, find_parts, list_parts, read_part, write_part
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.sql import statements

_SQL = statements(__name__)

# Bytes. Parts smaller than SMALL are combined with adjacent parts into parts of at most LARGE.
SMALL = 16 * 1024 * 1024
LARGE = 32 * 1024 * 1024

GRACE = timedelta(days=1)


def compact_parts(
    db: DuckDBPyConnection, raw: Path, *, now: datetime, before: datetime | None, small: int = SMALL, large: int = LARGE
) -> dict[str, int]:
    """Combine small parts, without superseded rows that were received `before` that time, outside of a transaction.

    The rows of items, the last ones of their versions, and the last one of a new part are kept. After a kill at any
    time, every row is in the store once or, in parts that readers skip, twice. Returns numbers and bytes of the parts
    before and after, and the number of deleted rows. Raises WarehouseUnusable if a part is damaged, and OSError.
    """
    merged_seq = read_warehouse(db).merged_seq
    delete_superseded_parts(raw, merged_seq=merged_seq, until=(now - GRACE).timestamp())
    find_places(db)

    def keep(rows: pa.Table) -> pa.Table:
        db.register("part", rows)
        return db.execute(_SQL["kept"], [before]).to_arrow_table()

    sizes = _sizes(raw, merged_seq)
    # Large ones may have superseded rows, too.
    groups = group_parts(sizes, small=small if before is None else inf, large=large)
    deleted = rewrite_parts(raw, keep, groups)
    after = _sizes(raw, merged_seq)
    return {
        "parts_before": len(sizes),
        "parts_after": len(after),
        "bytes_before": sum(sizes.values()),
        "bytes_after": sum(after.values()),
        "rows_deleted": deleted,
    }


def find_places(db: DuckDBPyConnection) -> int:
    """Write the places of items and versions in the raw store to temp.places; return how many. Raises duckdb.Error."""
    [(places,)] = db.execute(_SQL["places"]).fetchall()
    return int(places)


def _sizes(raw: Path, merged_seq: int) -> Mapping[int, int]:
    return {number: part.stat().st_size for number, part in find_parts(raw, merged_seq=merged_seq).items()}


def group_parts(sizes: Mapping[int, int], *, small: float, large: int) -> Iterator[Sequence[int]]:
    """Yield the numbers of adjacent parts that become one part; parts that are large enough are left out."""
    group, total = list[int](), 0
    for number, size in sizes.items():
        if group and (size >= small or total + size > large):
            yield group
            group, total = [], 0
        if size < small:
            group.append(number)
            total += size
    if group:
        yield group


def delete_superseded_parts(raw: Path, *, merged_seq: int, until: float = inf) -> None:
    """Delete the parts that a compaction replaced until a time, in seconds. Raises WarehouseUnusable and OSError."""
    live, replaced_at = find_parts(raw, merged_seq=merged_seq), inf
    for number, part in list_parts(raw).items():
        if number in live:
            replaced_at = part.stat().st_mtime
        elif number <= merged_seq and replaced_at <= until:
            part.unlink()


def rewrite_parts(
    raw: Path, change: Callable[[pa.Table], pa.Table], groups: Iterable[Sequence[int]] | None = None
) -> int:
    """Write the changed rows of each group of parts, or of each part, as its first part; return how many rows are gone.

    A part that stays as it is is not written. After a kill, some are changed. Raises WarehouseUnusable if a part is
    damaged, and OSError.
    """
    gone, parts = 0, list_parts(raw)
    for numbers in ([number] for number in parts) if groups is None else groups:
        rows = pa.concat_tables([read_part(parts[number]) for number in numbers])
        changed = change(rows).cast(SCHEMA)
        if len(numbers) > 1 or not changed.equals(rows):
            write_part(raw, numbers[0], changed)
            gone += rows.num_rows - changed.num_rows
    return gone
