"""Reads what landed, and decodes its items: what a merge decides in Python, before it writes to a table."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import observations, register_cells
from connectors.warehouse.ingest.decode import Decoder
from connectors.warehouse.ingest.page_columns import by_order_key, of_pages, table_of_pages
from connectors.warehouse.ingest.records import Records, read_records
from connectors.warehouse.ingest.split import Items, Page, split
from connectors.warehouse.merge.column_lists import ChildTable, of_children, of_media
from connectors.warehouse.merge.steps import Steps
from connectors.warehouse.schema.field_registry import own_names
from models.checkpoint import Checkpoint
from models.mapping import Mapping as MediaMapping
from models.page_commit import POSITION_BITS, Landing
from models.page_items import read_ids
from models.runs import Outcome
from models.schema.fields import Registry, register
from models.schema.table_schemas import TableSchema, table_schemas

# The columns of pages that their items have too.
_OF_PAGES = ["seq", "scan_id", "run_id", "account_id", "surface", "correlation_id", "received_at", "run_seq"]

_RECEIVED = "SELECT order_key, received_at FROM arrived_items"


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """A checkpoint with its landing number."""

    seq: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Landed:
    """What a batch contains, read without the warehouse.

    `checkpoints` are the last ones of their partitions. `pages` has a row for each page: `seq`, the data of its
    request, the number of its `items`, and whether it `is_unreadable`. `arrived` has a row for each media item:
    `order_key`, `payload_hash` and columns of its page.
    """

    outcomes: Sequence[Outcome]
    checkpoints: Sequence[LastCheckpoint]
    pages: pa.Table
    media_pages: pa.Table
    records: Records
    items: Items
    arrived: pa.Table


@dataclass(frozen=True, slots=True)
class Prepared:
    """Decoded items: their `cells` with columns of their pages, text and hash, and the schemas that they need.

    `payloads` are the texts by order key, also of items that could not be decoded; `lists` the lists of columns in the
    steps that read or write items, and `children` those of each child table that has lists of objects.
    """

    cells: pa.Table
    payloads: pa.Table
    registry: Registry
    schemas: tuple[TableSchema, ...]
    lists: Mapping[str, str]
    children: tuple[ChildTable, ...]


def read_landings(batch: Sequence[Landing], run_seqs: Mapping[str, int]) -> Landed:
    """Split the pages of a batch into records and items.

    `run_seqs` has the number of each run; "" is the last one, to which items that a rebuild imports are attributed.
    """
    pages = [(seq, commit.page) for seq, commit, _ in batch if commit.page is not None]
    media: list[Page] = []
    accounts: list[Page] = []
    for seq, commit, body in batch:
        if commit.page is None or not body:
            continue
        if commit.page.partition.surface:
            media.append((seq, body))
        else:
            accounts.append((seq, body))
    items, unreadable_media = split(media)
    records = read_records(pages, accounts, unreadable_media)
    numbers = Counter(order_key >> POSITION_BITS for order_key in items.order_keys)
    numbers.update(row.seq for row in records.accounts if row.status is not None)
    numbers.update(row.seq for row in records.rejected if row.resource == "accounts" and row.position is not None)
    table = table_of_pages(pages)
    seqs = [run_seqs.get(page.run_id if page.scan_id else "") for _, page in pages]
    table = table.append_column("run_seq", array_of(seqs, pa.int64()))
    table = table.append_column("items", array_of([numbers[seq] for seq, _ in pages], pa.int64()))
    table = table.append_column("is_unreadable", array_of([seq in records.unreadable for seq, _ in pages], pa.bool_()))
    media_pages = table.filter(pc.not_equal(table["surface"], "")).select(_OF_PAGES)
    arrived = of_pages(array_of(items.order_keys, pa.int64()), media_pages)
    arrived = arrived.append_column("payload_hash", array_of(items.hashes, pa.binary()))
    return Landed(
        [outcome for one in batch for outcome in one.commit.outcomes],
        _last_checkpoints(batch),
        table,
        media_pages,
        records,
        items,
        arrived,
    )


def _last_checkpoints(batch: Sequence[Landing]) -> list[LastCheckpoint]:
    """Return the last checkpoint of each partition and run kind."""
    last: dict[object, LastCheckpoint] = {}
    for seq, commit, _ in batch:
        if (checkpoint := commit.checkpoint) is not None:
            last[checkpoint.partition, checkpoint.run_kind] = LastCheckpoint(seq, checkpoint)
    return list(last.values())


def prepare(
    steps: Steps, landed: Landed, known: Collection[int], registry: Registry, mapping: MediaMapping
) -> Prepared:
    """Decode the items whose bytes are not stored (`known` are the order keys of the others). Writes to no table."""
    media_pages = landed.media_pages
    received = dict(zip(media_pages["seq"].to_pylist(), instants_of(media_pages["received_at"]), strict=True))
    own = own_names(mapping)
    decoder = Decoder(mapping, registry, own, lambda order_key: received[order_key >> POSITION_BITS])
    items = landed.items.selected([order_key not in known for order_key in landed.items.order_keys])
    decoder.add(items.order_keys, items.raw)
    payloads, identified = items.texts(), _identified(items, mapping)
    decoded = decoder.finish()
    cells = register_cells(steps.arrow, decoded)
    if known:
        steps.arrow.put("identified", identified)
        found = steps.run("listed_again").fetchall()
        if found:
            again = {order_key for (order_key,) in found}
            more = landed.items.selected([order_key in again for order_key in landed.items.order_keys])
            decoder.add(more.order_keys, more.raw)
            payloads = pa.concat_tables([payloads, more.texts()])
            identified = pa.concat_tables([identified, _identified(more, mapping)])
            decoded = decoder.finish()
            cells = register_cells(steps.arrow, decoded)
    seen = observations(steps.db, cells, mapping, _RECEIVED) if decoded.media.num_rows else ()
    registry = register(decoded.registry, seen, own)
    media, *children = table_schemas(mapping, registry)
    return Prepared(
        _with_pages(decoded.media, landed, payloads, identified),
        payloads,
        registry,
        (media, *children),
        of_media(media, mapping, cells.layout.media.cells),
        tuple(
            of_children(number, schema, mapping, cells.children_query(schema))
            for number, schema in enumerate(children)
            if schema.lists
        ),
    )


def _identified(items: Items, mapping: MediaMapping) -> pa.Table:
    order_keys, media_ids = array_of(items.order_keys, pa.int64()), array_of(read_ids(items.raw, mapping), pa.string())
    return pa.table({"order_key": order_keys, "media_id": media_ids})


def _with_pages(cells: pa.Table, landed: Landed, payloads: pa.Table, identified: pa.Table) -> pa.Table:
    order_keys = cells["order_key"].combine_chunks()
    of_page = of_pages(order_keys, landed.media_pages)
    found = {
        **{name: of_page[name] for name in of_page.column_names if name != "order_key"},
        "media_id": by_order_key(identified, "media_id", order_keys),
        "payload": by_order_key(payloads, "payload", order_keys),
        "payload_hash": by_order_key(landed.arrived, "payload_hash", order_keys),
    }
    for name, column in found.items():
        cells = cells.append_column(name, column)
    return cells
