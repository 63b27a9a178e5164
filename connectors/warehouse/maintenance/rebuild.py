"""Reads items and their versions again from the raw store, and the quarantine, with a mapping.

Columns, versions and current counts are what the mapping says. Sightings, events, times, ids and past counts stay.
Rejected accounts are not read again, because every sync lists all accounts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection
from xxhash import xxh3_64_intdigest

from connectors.warehouse.maintenance.compact_parts import find_places
from connectors.warehouse.merge.columns import (
    Column,
    alter_columns,
    fields_of,
    item_columns,
    list_changed_counts,
    table_of,
)
from connectors.warehouse.merge.items import read_registry, write_fields
from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.identity import drop_inferred, read_warehouse
from connectors.warehouse.storage.sql import quoted, statements
from models.checkpoint import Landing
from models.feeds import media
from models.files import WarehouseUnusable
from models.item import CONTENT_RULE, Items, read_items
from models.mapping import BUILT_IN, MediaMapping, Registry, register, to_keys
from models.runs import several
from models.views import MEDIA, own_columns

_SQL = statements(__name__)

# Counts items beside those with a value at a path.
_OTHER_ID = ""

# The records that are read at once: about 3 MB of them.
_AT_ONCE = 5_000


def rebuild(
    db: DuckDBPyConnection,
    raw: Path,
    mapping: MediaMapping,
    *,
    land: Callable[[Sequence[Landing]], object],
    force: bool,
) -> dict[str, Any]:
    """Read everything again with this mapping, in the open transaction. All that landed must be merged before.

    Returns what `count_paths` does, and how many records of the quarantine can be read now, so that `land` makes them
    durable again for the next merge, which deletes them there (`imported`), were deleted because their item was seen
    later (`outdated`), and remain (`quarantined`). Raises WarehouseUnusable if a part of the raw store is damaged or
    lacks an item, if an item has no id now, or, unless `force`, if one has another id, or a mapped column would become
    empty. Then the caller rolls back.
    """
    before = read_warehouse(db).mapping or mapping
    counts = read_again(db, raw, mapping, force=force)
    if order_of(before) != order_of(mapping):
        db.execute(_SQL["order"])
    released = _release_quarantined(db, mapping, land)
    [(left,)] = db.execute("SELECT count(*) FROM core.quarantine").fetchall()
    return {**counts, **released, "quarantined": left - released["imported"]}


def count_paths(db: DuckDBPyConnection, raw: Path, mapping: MediaMapping) -> dict[str, Any]:
    """Return the number of `items`, and how many have a value at each of the mapping's `paths`; an object is none.

    `emptied` are the mapped columns that have values and would have none. `dropped` are columns that would go, because
    they are mapped no more, or their paths are mapped now. So many items would have `other_ids`: syncs would take them
    for new ones. Changes nothing. Raises as `rebuild` does.
    """
    found = Counter[str]()
    for _ in _read_stored(db, raw, mapping, found):
        pass
    return _counts(db, mapping, found)


def _counts(db: DuckDBPyConnection, mapping: MediaMapping, found: Counter[str]) -> dict[str, Any]:
    before = {one.column for one in (read_warehouse(db).mapping or mapping).columns}
    lost = [one.column for one in mapping.columns if one.column in before and not found[one.column]]
    paths = [path for column in mapping.columns for path in column.paths]
    dropped = {one.column_name for one in read_registry(db).values() if one.resource == MEDIA and one.path in paths}
    kept = {None, *(one.column for one in mapping.columns)}
    numbers = ", ".join(["count(*)", *(f"count({quoted(column)})" for column in lost)])
    [(items, *values)] = db.execute(f"SELECT {numbers} FROM core.media").fetchall()  # noqa: S608 - quoted
    return {
        "items": items,
        "paths": {path: found[path] for path in paths},
        "dropped": sorted((dropped | before) - kept),
        "emptied": [column for column, number in zip(lost, values, strict=True) if number],
        "other_ids": found[_OTHER_ID],
    }


def explain_paths(mapping: MediaMapping, counts: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each path of a person, for each path that any item has, and for what a rebuild would refuse."""
    built_in = {path for column in BUILT_IN.columns for path in column.paths}
    items, paths = f"{counts['items']:,} item{'' if counts['items'] == 1 else 's'}", counts["paths"]
    lines = [
        f"{column.column}: {paths[path]:,} of {items} have {'.'.join(('$', *to_keys(path)))}"
        for column in mapping.columns
        for path in column.paths
        if paths[path] or path not in built_in
    ]
    lines += [f"{column}: the column goes; its values will be in others" for column in counts["dropped"]]
    lines += [f"{column} would become empty, which needs `gramhouse rebuild --force`" for column in counts["emptied"]]
    return lines + ([_explain_ids(counts)] if counts["other_ids"] else [])


def _explain_ids(counts: Mapping[str, Any]) -> str:
    what = (
        f"{counts['other_ids']:,} of {counts['items']:,} items would have another id, and a sync would add them again"
    )
    return f'{what}. Fix: write the path of their id first, such as media_id = ["$.id", "$.uuid"]'


def order_of(mapping: MediaMapping) -> tuple[object, ...]:
    """Return what of a mapping decides in which order posts are found: their ids and times."""
    return mapping.media_id, *(column for column in mapping.columns if column.column == "published_at")


def _read_stored(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, found: Counter[str]
) -> Iterator[tuple[pa.Table, Items]]:
    """Yield rows of the raw store with `is_item` and `is_version`, some at a time in order, and the items they are now.

    Adds to how many items, without their versions, were `found` with a value at each path and in each column. Raises
    WarehouseUnusable if a part of the raw store is damaged or lacks a row, or if one cannot be read.
    """
    missing = find_places(db)
    # Not all that items have: their keys may be data.
    asked = {name for column in mapping.columns for name in (column.column, *column.paths)}
    for part in read_parts(raw, merged_seq=read_warehouse(db).merged_seq):
        db.register("part", part)
        needed = db.execute(_SQL["found"]).to_arrow_table()
        missing -= needed.num_rows
        for begin in range(0, needed.num_rows, _AT_ONCE):
            rows = needed.slice(begin, _AT_ONCE)
            payloads = rows["payload"].to_pylist()
            items = read_items(enumerate(payloads), mapping)
            if items.rejected:
                first, reason = min(items.rejected.items())
                raise WarehouseUnusable(
                    f"With this mapping {len(items.rejected):,} of {rows.num_rows:,} stored items cannot be read, such"
                    f" as {payloads[first][:80].decode(errors='replace')}: {reason} Nothing was changed."
                    " Fix: correct [mapping] in gramhouse.toml."
                )
            ids = rows["media_id"].to_pylist()
            for number in pc.indices_nonzero(rows["is_item"]).to_pylist():
                item = items.read[number]
                found[_OTHER_ID] += item.media_id != ids[number]
                for names in (item.taken, item.values, item.counts):
                    found.update(asked.intersection(names))
            yield rows, items
    if missing:
        raise WarehouseUnusable(
            f"The raw store {raw} lacks {missing:,} payloads that the warehouse refers to. Fix: restore it from the"
            " same backup as the warehouse. Nothing was changed."
        )


def read_again(db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, *, force: bool) -> dict[str, Any]:
    """Write columns, versions, hashes and current counts as the mapping reads them, in the open transaction.

    Returns what `count_paths` does. Raises WarehouseUnusable as `rebuild` does.
    """
    before, known = read_warehouse(db).mapping or mapping, read_registry(db)
    own = own_columns(MEDIA) | {column.column for column in mapping.columns}
    mapped = {path for column in mapping.columns for path in column.paths}
    # A field keeps its column, unless its path or its column is mapped now. What lists have is found again, and counts.
    registry: Registry = {
        key: replace(one, is_count=False)
        for key, one in known.items()
        if not one.kinds or (one.resource == MEDIA and one.path not in mapped and one.column_name not in own)
    }
    found = Counter[str]()
    # All rows are written in one transaction: of hundreds of columns, that needs more memory than a merge.
    db.execute("SET memory_limit = '2GB'")
    db.execute(_SQL["items"])
    for rows, items in _read_stored(db, raw, mapping, found):
        registry = register(registry, fields_of(items, rows["seen_at"].to_pylist().__getitem__, registry, mapping), own)
        _stage(db, rows, items, item_columns(mapping, registry))
    columns = item_columns(mapping, registry)
    _add_columns(db, "temp.items", columns)
    counts = _counts(db, mapping, found)
    if counts["other_ids"] and not force:
        raise WarehouseUnusable(f"With this mapping {_explain_ids(counts)}, or `gramhouse rebuild --force`.")
    if counts["emptied"] and not force:
        emptied = tuple(f"{column}: " for column in counts["emptied"])
        have = [line for line in explain_paths(mapping, counts) if line.startswith(emptied)]
        raise WarehouseUnusable(
            f"With this mapping {several(counts['emptied'])} would become empty{''.join(f'; {line}' for line in have)}."
            " Nothing was changed."
            " Fix: correct [mapping] in gramhouse.toml, or `gramhouse rebuild --force`."
        )
    changed_counts = list_changed_counts(columns, item_columns(before, known))
    db.execute(_SQL["recounted"].format(changed_counts=changed_counts))
    # All columns are there before the first row is written: DuckDB can replay only that after a kill.
    drop_inferred(db)
    _add_columns(db, "core.media", columns)
    [(last,)] = db.execute("SELECT coalesce(max(rowid), -1) FROM core.media").fetchall()
    db.execute(_SQL["counts"])
    db.execute(_SQL["new_items"])
    # Rows that a transaction inserts have higher numbers than all others.
    db.execute("DELETE FROM core.media WHERE rowid <= ?", [last])
    db.execute("DELETE FROM core.fields")
    write_fields(db, {}, registry)
    db.execute(_SQL["versions"])
    db.execute(_SQL["in_force"], [mapping.to_json(), CONTENT_RULE])
    return counts


def _stage(db: DuckDBPyConnection, rows: pa.Table, items: Items, columns: Sequence[Column]) -> None:
    """Write items and versions to temp.items."""
    _add_columns(db, "temp.items", columns)
    is_version = rows["is_version"].to_pylist()
    contents = [item.content.decode() if is_version[n] else None for n, item in items.read.items()]
    hashes = map(xxh3_64_intdigest, rows["payload"].to_pylist())
    batch = (
        table_of(items, columns)
        .append_column("landed", rows["landed"])
        .append_column("position", rows["position"])
        .append_column("payload_hash", pa.array(hashes, pa.uint64()))
        .append_column("content", pa.array(contents, pa.string()))
    )
    db.register("batch", batch)
    db.execute("INSERT INTO temp.items BY NAME SELECT * EXCLUDE (n, media_id) FROM batch")


def _add_columns(db: DuckDBPyConnection, table: str, columns: Sequence[Column]) -> None:
    """Give a table of items the columns and types that it lacks."""
    present = {name: kind for name, kind, *_ in db.execute(f"DESCRIBE {table}").fetchall()}
    for statement in alter_columns(columns, present, table):
        db.execute(statement)


def _release_quarantined(
    db: DuckDBPyConnection, mapping: MediaMapping, land: Callable[[Sequence[Landing]], object]
) -> dict[str, int]:
    """Land the records of the quarantine that can be read now, as if received now, in their order; return how many.

    An item whose record was received again later was last seen then. The merge that reads a record deletes it from
    quarantine: after a kill it is in both until the inbox is merged, whether the new mapping is in force or not.
    """
    rows = db.execute(_SQL["quarantined"]).fetchall()
    items = read_items(((n, payload) for n, (_, payload) in enumerate(rows)), mapping)
    if not items.read:
        return {"imported": 0, "outdated": 0}
    readable = [{"row": rows[n][0], "media_id": item.media_id} for n, item in items.read.items()]
    db.register("readable", pa.Table.from_pylist(readable))
    [(outdated,)] = db.execute(_SQL["outdated"]).fetchall()
    # Pages with only one record, which no scan asked for.
    land(
        [
            Landing(media(account_id, surface), run_id, "", *page)
            for account_id, surface, run_id, *page in db.execute(_SQL["released"]).fetchall()
        ]
    )
    return {"imported": len(readable) - outdated, "outdated": outdated}
