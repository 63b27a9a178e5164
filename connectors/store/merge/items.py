"""The items of a batch: which are stored, which are read, and what of them is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from connectors.store.merge.columns import Column, item_columns, observations, sql_lists, table_of
from connectors.store.merge.reading import Records, Rejected, read_items
from connectors.store.merge.registry import Field, Observation, Registry, alterations, register
from connectors.store.merge.statements import run
from connectors.store.merge.versions import Version, superseded_versions
from connectors.store.raw.parts import write_part
from models.fields import FieldType
from models.item import Item
from models.mapping import Mapping as MediaMapping
from models.views import own_columns

Numbers = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]

# The columns of 10_known.sql and 21_flags.sql for no items.
_NO_KNOWN: Columns = {"n": np.empty(0, np.int64), "row": np.empty(0, np.int64)}


@dataclass(slots=True)
class ReadItems:
    """The items of a batch once they are compared with the stored ones.

    `known` are those whose bytes are stored, by number `n` and stored `row`. The others were read: `media_ids` by
    number, and `flags`, which say what became of them. `lists` fill the braces of statements.
    """

    known: Columns
    flags: Columns
    media_ids: dict[int, str] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    columns: Sequence[Column] = ()
    registry: Registry = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)

    def numbers(self, flag: str) -> Numbers:
        """Return the numbers of the items with this flag."""
        return self.flags["n"][self.flags[flag]]

    @property
    def replaced(self) -> Numbers:
        """Return the stored rows of items that changed."""
        return np.unique(self.flags["row"][self.flags["is_changed"] & (self.flags["row"] >= 0)])


def _columns(table: pa.Table) -> Columns:
    return {name: table[name].to_numpy() for name in table.column_names}


def compare_items(db: DuckDBPyConnection, records: Records, arrived: pa.Table, mapping: MediaMapping) -> ReadItems:
    """Find the items that are stored, read the others, and compare these with what is stored.

    Alters core.media for new fields and types, before anything is written. Raises duckdb.Error.
    """
    no_flags = {name: np.empty(0, bool) for name in _FLAGS} | {"n": np.empty(0, np.int64), "row": np.empty(0, np.int64)}
    if not records.raws and not records.unknown_fields:
        return ReadItems({**_NO_KNOWN, "is_missed": np.empty(0, bool), "is_removed": np.empty(0, bool)}, no_flags)
    db.register("arrived", arrived)
    read = ReadItems(_columns(run(db, "10_known").to_arrow_table()), no_flags)
    unknown = np.setdiff1d(np.arange(len(records.raws)), read.known["n"])
    if not len(unknown) and not records.unknown_fields:
        return read
    items, read.rejected = read_items(records, unknown.tolist(), mapping)
    _extend_table(db, records, items, read, mapping)
    while items:
        db.register("batch", table_of(items, read.columns, read.registry))
        run(db, "20_listed", lists=read.lists)
        read.flags = _columns(run(db, "21_flags").to_arrow_table())
        # If an item was also listed with the stored bytes, the order of all of its listings counts.
        is_mixed = np.isin(read.known["row"], read.flags["row"])
        if not is_mixed.any():
            break
        more, _ = read_items(records, read.known["n"][is_mixed].tolist(), mapping)
        items |= more
        read.known = {name: values[~is_mixed] for name, values in read.known.items()}
    read.media_ids = {number: one.media_id for number, one in items.items()}
    return read


_FLAGS = ("is_new", "is_content", "is_changed", "is_last", "is_same_id", "is_missed", "is_removed")


def read_registry(db: DuckDBPyConnection) -> Registry:
    """Return the registry of fields, in the order in which they were found. Raises duckdb.Error."""
    fields = [
        Field(resource, path, name, frozenset(map(FieldType, kinds)), *rest)
        for resource, path, name, kinds, *rest in run(db, "11_fields").fetchall()
    ]
    return {(one.resource, one.path): one for one in fields}


def _extend_table(
    db: DuckDBPyConnection, records: Records, items: Mapping[int, Item], read: ReadItems, mapping: MediaMapping
) -> None:
    """Register the fields of the items that were read, and give core.media their columns."""
    known = read_registry(db)
    present = [name for (name,) in run(db, "12_columns").fetchall()]
    found = [
        *observations(records, items, known, mapping),
        *(
            Observation(seen.resource, seen.path, None, is_count=False, at=seen.page.received_at)
            for seen in records.unknown_fields
        ),
    ]
    read.registry = register(known, found, {*own_columns("media"), *present})
    for text in alterations(known, read.registry, mapping, present):
        db.execute(text)
    if changed := [one for key, one in read.registry.items() if one != known.get(key)]:
        db.register("registered", _table_of_fields(changed))
        run(db, "13_registered")
    read.columns = item_columns(mapping, read.registry)
    read.lists = sql_lists(read.columns)


def _table_of_fields(fields: Sequence[Field]) -> pa.Table:
    times = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "resource": [one.resource for one in fields],
            "path": [one.path for one in fields],
            "column_name": pa.array([one.column_name for one in fields], pa.string()),
            "column_type": pa.array([one.type if one.column_name else None for one in fields], pa.string()),
            "kinds": pa.array([sorted(one.kinds) for one in fields], pa.list_(pa.string())),
            "is_count": [one.is_count for one in fields],
            "ordinal": [one.ordinal for one in fields],
            "first_seen_at": pa.array([one.first_seen_at for one in fields], times),
            "last_type_change_at": pa.array([one.last_type_change_at for one in fields], times),
        }
    )


def write_raw(folder: Path, records: Records, arrived: pa.Table, read: ReadItems) -> int | None:
    """Write the bytes of new and changed items to a part of the raw store; return its number, or None without any."""
    numbers = read.numbers("is_changed")
    if not len(numbers):
        return None
    pages = [records.pages[records.page_of[n]] for n in numbers]
    listed = arrived.take(pa.array(numbers))
    return write_part(
        folder,
        pa.table(
            {
                "landed": listed["seq"],
                "position": listed["position"],
                "account_id": listed["account_id"],
                "surface": listed["surface"],
                "media_id": pa.array([read.media_ids[n] for n in numbers.tolist()], pa.string()),
                "seen_at": listed["received_at"],
                "run_id": pa.array([page.run_id for page in pages], pa.string()),
                "correlation_id": pa.array([page.correlation_id for page in pages], pa.string()),
                "payload": pa.array([records.raws[n] for n in numbers.tolist()], pa.binary()),
            }
        ),
    )


def write_items(db: DuckDBPyConnection, read: ReadItems, sighted: pa.Table, mapping: MediaMapping) -> None:
    """Write what became of the items: versions, counts, rows, addresses and sightings. Raises duckdb.Error."""
    flags, lists = read.flags, read.lists
    db.register("sighted", sighted)
    if (flags["is_content"] & ~flags["is_new"]).any():
        rows = run(db, "30_superseded", lists=lists).to_arrow_table().to_pylist()
        versions = superseded_versions(rows, read.columns, mapping)
        db.register(
            "versions", pa.table(dict(zip(Version._fields, map(list, zip(*versions, strict=True)), strict=True)))
        )
        run(db, "31_versions")
    if flags["is_changed"].any():
        run(db, "40_counts", lists=lists)
    if np.any(sighted["is_removed"].to_numpy()):
        run(db, "41_returned_events")
    is_unchanged = flags["is_last"] & (flags["row"] >= 0) & ~np.isin(flags["row"], read.replaced)
    if is_unchanged.any():
        db.register("unchanged", pa.table({"n": flags["n"][is_unchanged], "row": flags["row"][is_unchanged]}))
        [(differing,)] = run(db, "50_differing", lists=lists).fetchall()
        assignments = "".join(f'"{name}" = l."{name}", ' for name in differing)
        run(db, "51_addresses", lists={"assignments": assignments})
    if len(read.replaced):
        run(db, "60_replaced")
    if flags["is_changed"].any():
        run(db, "61_items", lists=lists)
    if not np.all(sighted["is_replaced"].to_numpy()):
        run(db, "70_sightings")
    if np.any(sighted["is_missed"].to_numpy()):
        run(db, "71_returned")


def find_sighted(arrived: pa.Table, read: ReadItems) -> pa.Table:
    """Return the stored rows that the batch listed, with their first and last landing in it."""
    stored = read.flags["row"] >= 0
    names = ("n", "row", "is_missed", "is_removed")
    each = {name: np.concatenate([read.known[name], read.flags[name][stored]]) for name in names}
    order = np.argsort(each["n"])
    each = {name: values[order] for name, values in each.items()}
    rows, first = np.unique(each["row"], return_index=True)
    _, last = np.unique(each["row"][::-1], return_index=True)
    first_listed = arrived.take(pa.array(each["n"][first]))
    last_listed = arrived.take(pa.array(each["n"][::-1][last]))
    return pa.table(
        {
            "row": rows,
            "seq": last_listed["seq"],
            "received_at": last_listed["received_at"],
            "first_seq": first_listed["seq"],
            "first_at": first_listed["received_at"],
            "first_run_seq": first_listed["run_seq"],
            "is_missed": each["is_missed"][first],
            "is_removed": each["is_removed"][first],
            "is_replaced": np.isin(rows, read.replaced),
        }
    )
