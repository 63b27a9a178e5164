"""Tidies the raw store: combines small parts, and drops rows after their retention time.

A new part has the name of the first that it replaces, and the others stay beside it for a day, because a query of a
snapshot may be reading them. Readers skip these, as their rows are in the part before.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.stored import find_places
from connectors.warehouse.raw.parts import find_parts, number_of, part_numbers, part_path, read_part, write_part
from connectors.warehouse.storage.connection import transaction
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements

_SQL = statements(__name__)

# Bytes. Parts smaller than SMALL are combined with adjacent parts into parts of at most LARGE.
SMALL = 16 * 1024 * 1024
LARGE = 32 * 1024 * 1024

GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CompactedParts:
    """Numbers and bytes of the parts before and after a compaction, and the number of deleted rows."""

    parts_before: int
    parts_after: int
    bytes_before: int
    bytes_after: int
    rows_deleted: int


def compact_parts(
    db: DuckDBPyConnection, raw: Path, *, now: datetime, before: datetime | None, small: int = SMALL, large: int = LARGE
) -> CompactedParts:
    """Combine small parts, without superseded rows that were received `before` that time, outside of a transaction.

    The rows of items, the last ones of their versions, and the last one of a new part are kept. After a kill at any
    time, every row is in the store once or, in parts that readers skip, twice. Raises WarehouseUnusable if a part is
    damaged, and OSError.
    """
    merged_seq = read_warehouse(db).merged_seq
    delete_superseded_parts(raw, merged_seq=merged_seq, until=(now - GRACE).timestamp())
    find_places(db)
    parts = find_parts(raw, merged_seq=merged_seq)
    sizes = [part.stat().st_size for part in parts]
    deleted = 0
    # Large ones may have superseded rows, too.
    for group in groups(sizes, small=small if before is None else inf, large=large):
        rows = kept = pa.concat_tables([read_part(parts[n]) for n in group])
        if before is not None:
            db.register("part", rows)
            kept = db.execute(_SQL["kept"], [before]).to_arrow_table()
        if len(group) > 1 or kept.num_rows < rows.num_rows:
            write_part(raw, number_of(parts[group[0]]), kept)
            os.utime(parts[group[0]], (now.timestamp(), now.timestamp()))
            deleted += rows.num_rows - kept.num_rows
    after = find_parts(raw, merged_seq=merged_seq)
    with transaction(db):
        last = max((number_of(part) for part in after), default=0)
        db.execute("UPDATE core.warehouse SET raw_seq = ?", [last])
    return CompactedParts(len(parts), len(after), sum(sizes), sum(part.stat().st_size for part in after), deleted)


def groups(sizes: Sequence[int], *, small: float, large: int) -> Iterator[Sequence[int]]:
    """Yield the numbers of adjacent parts that become one part; parts that are large enough are left out."""
    group: list[int] = []
    for number, size in enumerate(sizes):
        if group and (size >= small or sum(sizes[one] for one in group) + size > large):
            yield group
            group = []
        if size < small:
            group.append(number)
    if group:
        yield group


def delete_superseded_parts(raw: Path, *, merged_seq: int, until: float = inf) -> None:
    """Delete the parts that a compaction replaced until a time, in seconds. Raises WarehouseUnusable and OSError."""
    live = {number_of(part) for part in find_parts(raw, merged_seq=merged_seq)}
    for before, number in pairwise(part_numbers(raw)):
        if number not in live and number <= merged_seq:
            covering = max(one for one in live if one <= before)
            if part_path(raw, covering).stat().st_mtime <= until:
                part_path(raw, number).unlink()


def rewrite_parts(raw: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write the parts again whose rows a function changes. After a kill, some are changed.

    Raises WarehouseUnusable if a part is damaged, and OSError.
    """
    for number in part_numbers(raw):
        rows = read_part(part_path(raw, number))
        if not (changed := change(rows)).equals(rows):
            write_part(raw, number, changed)
