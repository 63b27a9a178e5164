"""Merges a batch of what landed into rows in one transaction; rows are never Python objects.

`_merge_pages` has the steps in their order, and under which condition each is run. A step is a .sql file of this
folder, whose first lines say what it writes. A statement costs a millisecond, so steps without work are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.page_columns import by_account
from connectors.warehouse.ingest.records import AccountRow, FieldRow, RejectedRow, table_of
from connectors.warehouse.ingest.split import Items
from connectors.warehouse.merge.account_removal import mark_accounts_removed
from connectors.warehouse.merge.batches import items_table
from connectors.warehouse.merge.column_lists import ChildTable
from connectors.warehouse.merge.comparing import digest_of
from connectors.warehouse.merge.prepare import Landed, prepare, read_landings
from connectors.warehouse.merge.run_counts import MergeStats, count_changes
from connectors.warehouse.merge.schema_evolution import alter
from connectors.warehouse.merge.steps import Steps
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.runs.closed_scans import NEWEST_FIRST
from connectors.warehouse.schema.field_registry import read_mapping, read_registry, write_registry
from connectors.warehouse.storage.appending import as_json, row_types, rows_sql
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import ITEM_TABLES
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.quoting import literal
from models.checkpoint import ScanState
from models.item import read_item
from models.mapping import Mapping as MediaMapping
from models.page_commit import Landing
from models.record import REASONS, RejectedItem

_OUTCOMES = rows_sql(row_types("core.run_outcomes", outcome="kind"))

_CHECKPOINTS = rows_sql(
    {
        "seq": "BIGINT",
        "checkpoint": {
            **row_types("ops.open_scans"),
            "run_kind": "VARCHAR",
            "items": "BIGINT",
            "order_broken_by": "VARCHAR",
            "full_share": "DOUBLE",
        },
    }
)

_FACTS = "SELECT EXISTS (FROM stored_items WHERE removed_at IS NOT NULL), EXISTS (FROM ops.missing)"
_UNIDENTIFIED = "SELECT order_key FROM sightings WHERE media_id IS NULL"
_RUN_SEQS = "SELECT run_id, seq FROM core.runs WHERE run_id IN ({}) UNION ALL SELECT '', max(seq) FROM core.runs"
_HAS_NO_DIGEST = "SELECT EXISTS (FROM core.quarantine WHERE digest IS NULL)"


def merge(connection: Connection, batch: list[Landing]) -> MergeStats:
    """Merge a batch (see `next_batch`) in the open transaction; return the counts of changes.

    The resulting rows do not depend on how landings are divided into batches. Raises WarehouseUnusable if the table
    of the items is not declared.
    """
    table = items_table(batch)
    if table not in ITEM_TABLES:
        raise WarehouseUnusable(
            f"pages of a feed landed, and its table {table} is not declared. Fix: declare it in tables.sql."
        )
    landed = read_landings(batch, _run_seqs(connection, batch))
    # Frees the bodies, once the media are decoded.
    del batch
    steps = Steps(connection.db, table)
    if landed.outcomes:
        steps.run("outcomes", as_json(landed.outcomes), rows=_OUTCOMES)
    if landed.checkpoints:
        steps.run("last_checkpoints", as_json(landed.checkpoints), rows=_CHECKPOINTS)
    counts = _merge_pages(connection, steps, landed) if landed.pages.num_rows else MergeStats()
    if landed.checkpoints:
        steps.run("ended_scans")
    steps.drop()
    return counts


def _run_seqs(connection: Connection, batch: Sequence[Landing]) -> Mapping[str, int]:
    runs = {one.commit.page.run_id for one in batch if one.commit.page is not None}
    return dict(connection.db.execute(_RUN_SEQS.format(", ".join(map(literal, runs)))).fetchall()) if runs else {}


def _merge_pages(connection: Connection, steps: Steps, landed: Landed) -> MergeStats:  # noqa: C901 - all in one place
    closed = {one.checkpoint.partition.resource for one in landed.checkpoints if one.checkpoint.is_closed}
    steps.copy("pages", landed.pages)
    steps.run("pages")
    mapping = read_mapping(connection)

    # Items are decoded and compared first: this may alter tables, which DuckDB allows only before the transaction
    # writes to them.
    items = _read_items(connection, steps, landed, mapping)
    if closed:
        steps.run("scans")

    records = landed.records
    if records.unknown_fields:
        steps.copy("unknown_fields", table_of(FieldRow, records.unknown_fields))
        steps.run("unknown_fields")
    if records.accounts:
        steps.copy("account_items", table_of(AccountRow, records.accounts))
        steps.run("accounts")
    if "accounts" in closed:
        mark_accounts_removed(connection, steps)

    [(has_removed, has_missing)] = connection.db.execute(_FACTS).fetchall()
    returned = steps.run("returned").fetchall()[0][0] if has_removed else 0
    _write_items(steps, items)
    if returned:
        steps.run("returned_rows")
    if items.respelled:
        _replace_children(steps, items)

    if items.unidentified.num_rows or records.rejected:
        steps.copy("unidentified_items", items.unidentified)
        steps.copy("rejected_records", table_of(RejectedRow, records.rejected))
        digest = digest_of(mapping)
        if value(connection.db, _HAS_NO_DIGEST):
            steps.run("quarantine_digests", digest=digest)
        steps.run("quarantine", digest=digest)

    if has_missing:
        steps.run("seen_again")
    if steps.resource in closed and steps.run("unseen").fetchall()[0][0]:
        [(missed, removed)] = steps.run("missed_items").fetchall()
        if removed:
            steps.run("removals")
        if missed:
            steps.run("missing")

    counts = count_changes(steps)
    if any(one.checkpoint.state is ScanState.SCANNING for one in landed.checkpoints):
        steps.run("seen")
    if closed:
        steps.run("completed_scans", newest_first=NEWEST_FIRST)
    return counts


@dataclass(frozen=True, slots=True)
class _Items:
    """The numbers of items that are to be written, and the lists of columns in the steps that write them.

    `respelled` items did not change, but their bytes did; `new_versions` are changes of content. `unidentified` has the
    texts of items without a valid id, by order key, and the reason.
    """

    unidentified: pa.Table
    new: int = 0
    changed: int = 0
    respelled: int = 0
    new_versions: int = 0
    lists: Mapping[str, str] = field(default_factory=dict)
    children: Sequence[ChildTable] = ()


def _read_items(connection: Connection, steps: Steps, landed: Landed, of_media: MediaMapping) -> _Items:
    """Decode the items whose bytes are not stored, and find out which are new or changed.

    Alters tables for fields that were unknown, and writes the bytes of new and changed items to the raw store durably.
    """
    steps.arrow.put("arrived_items", landed.arrived)
    known = set(steps.run("stored").to_arrow_table()["order_key"].to_pylist())
    if len(known) == len(landed.items.order_keys):
        landed.items.raw.clear()
        steps.arrow.clear()
        return _Items(_with_reasons(Items([], [], []).texts(), of_media))
    mapping, registry = of_media.of(steps.resource), read_registry(connection)
    prepared = prepare(steps, landed, known, registry, mapping)
    # Frees the bodies, of which the items are views.
    landed.items.raw.clear()
    if prepared.registry != registry:
        alter(connection, mapping, prepared.schemas, registry, prepared.registry)
        write_registry(connection, prepared.registry, of_media)
        # Filling columns may have changed rowids.
        steps.run("stored")
    lists = prepared.lists
    steps.arrow.put("media_cells", prepared.cells)
    for child in prepared.children:
        steps.run("child_cells", **child.lists)
    [(compared, new, unidentified)] = steps.run("items", **lists).fetchall()
    changed = respelled = new_versions = 0
    if compared:
        steps.run("decoded", **lists)
        for child in prepared.children:
            if child.is_compared:
                steps.run("child_hashes", **child.lists)
        [(changed, respelled, new_versions)] = steps.run("compare", **lists).fetchall()
    without_id = steps.db.execute(_UNIDENTIFIED).fetchall() if unidentified else []
    wanted = array_of([order_key for (order_key,) in without_id], pa.int64())
    rejected = prepared.payloads.filter(pc.is_in(prepared.payloads["order_key"], wanted))
    rejected = _with_reasons(rejected, of_media)
    if new or changed:
        write_part(connection, steps.text("raw", **lists))
    # Frees the cells of children, which are rows of tables by now, and the texts.
    steps.arrow.clear()
    if new:
        steps.arrow.put("cells_by_account", by_account(prepared.cells))
    return _Items(rejected, new, changed, respelled, new_versions, lists, prepared.children)


def _with_reasons(rejected: pa.Table, mapping: MediaMapping) -> pa.Table:
    reasons = [_why_rejected(payload, mapping) for payload in rejected["payload"].to_pylist()]
    return rejected.append_column("reason", array_of(reasons, pa.string()))


def _why_rejected(payload: str, mapping: MediaMapping) -> str:
    try:
        read_item(payload.encode(), mapping)
    except RejectedItem as rejected:
        return str(rejected)
    # The decoder of columns counts a level more.
    return REASONS["too_deep"]


def _write_items(steps: Steps, items: _Items) -> None:
    if items.respelled:
        _update_respelled(steps, items)
    if items.new_versions:
        steps.run("versions", **items.lists)
    if items.changed:
        steps.run("metrics", **items.lists)
        for child in items.children:
            steps.run("changed_children", **child.lists)
        steps.run("changed_items", **items.lists)
    if items.new:
        steps.run("new_items", **items.lists)
        for child in items.children:
            steps.run("new_children", **child.lists)


def _update_respelled(steps: Steps, items: _Items) -> None:
    """Update only the columns whose values differ: usually these are the signed URLs."""
    for lists in (items.lists, *(child.lists for child in items.children if child.is_compared)):
        [(assignments,)] = steps.run("respelled_columns", **lists).fetchall()
        if assignments:
            steps.run("respelled", assignments=", ".join(assignments), **lists)


def _replace_children(steps: Steps, items: _Items) -> None:
    """Replace the children of respelled items that are not compared. They get the run that their item has now."""
    for child in items.children:
        if not child.is_compared:
            steps.run("respelled_children", **child.lists)
