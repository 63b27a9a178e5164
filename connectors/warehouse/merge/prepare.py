"""Reads what landed, and decodes its items: everything that a merge decides before it writes to a table."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import RegisteredCells, observations, register_cells
from connectors.warehouse.ingest.columns import media_id_of
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.landing.frames import POSITION_BITS, Frame
from connectors.warehouse.ingest.page_columns import by_order_key, of_pages, table_of_pages
from connectors.warehouse.ingest.records import (
    AccountRow,
    FieldRow,
    RejectedRow,
    UnreadableRow,
    read_records,
    table_of,
)
from connectors.warehouse.ingest.split import Items, Page, split
from connectors.warehouse.merge.steps import Steps
from connectors.warehouse.schema.field_registry import own_names
from models.schema.fields import Registry
from models.schema.mapping import Mapping
from models.schema.table_schemas import TableSchema, table_schemas

# The columns of pages that their items have too.
_OF_PAGES = ["seq", "scan_id", "run_id", "account_id", "surface", "correlation_id", "received_at"]


@dataclass(frozen=True, slots=True)
class Landed:
    """The pages of a batch, read without the warehouse.

    `pages` has a row for each: `seq`, the data of its request, the number of its `items`, and whether it
    `is_unreadable`. `arrived` has a row for each media item: `order_key`, `payload_hash` and columns of its page.
    """

    pages: pa.Table
    media_pages: pa.Table
    accounts: pa.Table
    rejected: pa.Table
    unreadable: pa.Table
    unknown_fields: pa.Table
    items: Items
    arrived: pa.Table


@dataclass(frozen=True, slots=True)
class Prepared:
    """Decoded items: their `cells` with columns of their pages, text and hash, and the schemas that they need.

    `payloads` are the texts by order key, also of items that could not be decoded; `registered` are the cells as DuckDB
    tables, with those of child tables; `media_id` is the expression of an item's id.
    """

    cells: pa.Table
    payloads: pa.Table
    registered: RegisteredCells
    registry: Registry
    schemas: tuple[TableSchema, ...]
    media_id: str


def read_frames(frames: Sequence[Frame]) -> Landed:
    """Split the pages of frames into records and items."""
    pages = [(seq, commit.page) for seq, commit, _ in frames if commit.page is not None]
    media: list[Page] = []
    accounts: list[Page] = []
    for seq, commit, body in frames:
        if commit.page is None or not body:
            continue
        if commit.page.partition.resource == "media":
            media.append((seq, body))
        else:
            # A view would keep the whole segment in memory until the end of the merge.
            accounts.append((seq, bytes(body)))
    items, unreadable_media = split(media)
    records = read_records(pages, accounts, unreadable_media)
    unreadable = {row.seq for row in records.unreadable}
    numbers = Counter(order_key >> POSITION_BITS for order_key in items.order_keys)
    numbers.update(row.seq for row in records.accounts if row.status is not None)
    numbers.update(row.seq for row in records.rejected if row.resource == "accounts" and row.position is not None)
    table = table_of_pages(pages)
    table = table.append_column("items", array_of([numbers[seq] for seq, _ in pages], pa.int64()))
    table = table.append_column("is_unreadable", array_of([seq in unreadable for seq, _ in pages], pa.bool_()))
    media_pages = table.filter(pc.equal(table["resource"], "media")).select(_OF_PAGES)
    hashes = items.hashes_by_key()
    arrived = of_pages(hashes["order_key"].combine_chunks(), media_pages)
    arrived = arrived.append_column("payload_hash", hashes["payload_hash"])
    return Landed(
        table,
        media_pages,
        table_of(AccountRow, records.accounts),
        table_of(RejectedRow, records.rejected),
        table_of(UnreadableRow, records.unreadable),
        table_of(FieldRow, records.unknown_fields),
        items,
        arrived,
    )


def prepare(steps: Steps, landed: Landed, known: Collection[int], registry: Registry, mapping: Mapping) -> Prepared:
    """Decode the items whose bytes are not stored (`known` are the order keys of the others). Writes to no table."""
    media_pages = landed.media_pages
    received = dict(zip(media_pages["seq"].to_pylist(), instants_of(media_pages["received_at"]), strict=True))
    decoder = Decoder(mapping, registry, own_names(mapping), lambda order_key: received[order_key >> POSITION_BITS])
    payloads = landed.items.decode(decoder, stored=known)
    decoded, cells = _decoded(steps, decoder, mapping)
    if known:
        found = steps.run("listed_again", media_id=_media_id(mapping, cells), cells=cells.media).fetchall()
        if found:
            again = landed.items.texts_of({order_key for (order_key,) in found})
            decoder.add(again["order_key"].to_pylist(), again["payload"].cast(pa.binary()).to_pylist())
            payloads = pa.concat_tables([payloads, again])
            decoded, cells = _decoded(steps, decoder, mapping)
    return Prepared(
        _with_pages(decoded.media, landed, payloads),
        payloads,
        cells,
        decoded.registry,
        table_schemas(mapping, decoded.registry),
        _media_id(mapping, cells),
    )


def _decoded(steps: Steps, decoder: Decoder, mapping: Mapping) -> tuple[Decoded, RegisteredCells]:
    """Return the decoded cells, registered with DuckDB, after repeating until no new types are found in them."""
    while True:
        decoded = decoder.finish()
        cells = register_cells(steps.arrow, decoded)
        if not decoded.media.num_rows:
            return decoded, cells
        before = decoder.registry
        received = "SELECT order_key, received_at FROM arrived_items"
        decoder.learn(list(observations(steps.db, cells, mapping, received)))
        if decoder.registry == before:
            return decoded, cells


def _media_id(mapping: Mapping, cells: RegisteredCells) -> str:
    return media_id_of(mapping.media_id, cells.layout.media.cells)


def _with_pages(cells: pa.Table, landed: Landed, payloads: pa.Table) -> pa.Table:
    order_keys = cells["order_key"].combine_chunks()
    of_page = of_pages(order_keys, landed.media_pages)
    found = {
        **{name: of_page[name] for name in of_page.column_names if name != "order_key"},
        "payload": by_order_key(payloads, "payload", order_keys),
        "payload_hash": by_order_key(landed.arrived, "payload_hash", order_keys),
    }
    for name, column in found.items():
        cells = cells.append_column(name, column)
    return cells
