"""Merges pages of media: new items are appended, stored ones are rewritten only if they changed."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import RegisteredCells, observations, register_cells
from connectors.warehouse.ingest.columns import columns_select, media_id_of
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.landing.frames import POSITION_BITS
from connectors.warehouse.ingest.page_columns import by_account, by_order_key, of_pages
from connectors.warehouse.ingest.split import Items, Page, split
from connectors.warehouse.merge.comparing import (
    content_of,
    counts_hash,
    hashes_of_children,
    hashes_of_stored,
)
from connectors.warehouse.merge.history import merge_history
from connectors.warehouse.merge.item_rows import insert_new, merge_children, merge_newest
from connectors.warehouse.merge.merge_batch import ComparedItems, MediaItems, MergeBatch
from connectors.warehouse.merge.schema_evolution import alter
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.schema.field_registry import own_names, read_mapping, read_registry, write_registry
from connectors.warehouse.storage.quoting import quoted
from models.schema.fields import MEDIA
from models.schema.table_schemas import TableSchema, table_schemas

_KEY = "account_id, surface, media_id"

# The columns of pages that their items have too.
_OF_PAGES = ["seq", "scan_id", "run_id", "account_id", "surface", "correlation_id", "received_at"]

# The stored items of all partitions in the batch, with narrow columns only.
_STORED = """
SELECT
    rowid AS stored, account_id, surface, media_id, payload_hash, first_seen_at, content_changed_at, removed_at
FROM core.media AS m
SEMI JOIN (SELECT DISTINCT account_id, surface FROM pages WHERE resource = 'media') AS s USING (account_id, surface)
"""

# Items whose bytes are stored already; they need not be decoded.
_KNOWN = """
SELECT i.order_key, i.seq, i.scan_id, i.received_at, i.account_id, i.surface, s.media_id, s.stored
FROM {arrived} AS i JOIN {stored} AS s USING (account_id, surface, payload_hash)
"""

# Known payloads of items that this merge received with other payloads too: they are decoded, to be compared with these.
_KNOWN_AND_MET = """
SELECT order_key FROM {known}
SEMI JOIN (
    SELECT account_id, surface, {media_id} AS media_id FROM {cells} JOIN {arrived} USING (order_key)
) USING (account_id, surface, media_id)
ORDER BY order_key
"""
_NOT_KNOWN = "DELETE FROM {known} WHERE order_key IN (SELECT order_key FROM {cells})"

# All decoded items; `media_id` is NULL if an item has no valid id.
_FOUND = """
SELECT i.*, s.stored
FROM (SELECT order_key, seq, scan_id, received_at, account_id, surface, {media_id} AS media_id FROM {cells}) AS i
LEFT JOIN {stored} AS s USING (account_id, surface, media_id)
"""

# Items that could not be decoded have no id either, nor have those that a worker did not send because they were stored
# at the time, if they were deleted since.
_NOT_DECODED = """
INSERT INTO {found} BY NAME
SELECT order_key, seq, scan_id, received_at, account_id, surface FROM {arrived}
WHERE order_key NOT IN (SELECT order_key FROM {known}) AND order_key NOT IN (SELECT order_key FROM {cells})
"""

_SIGHTINGS = "FROM {known} UNION ALL BY NAME FROM {found}"

# Items that may be unchanged: stored ones, and those observed more than once. The others are new.
_TO_COMPARE = """
WITH observed AS (FROM {found} WHERE media_id IS NOT NULL),
again AS (
    SELECT account_id, surface, media_id FROM observed GROUP BY account_id, surface, media_id HAVING count(*) > 1
)
SELECT order_key, account_id, surface, media_id, stored FROM observed
WHERE stored IS NOT NULL OR (account_id, surface, media_id) IN (FROM again)
"""

_HOW_MANY_FOUND = """
SELECT (SELECT count(*) FROM {to_compare}), count(media_id), count(*) FROM {found}
"""

# New items with their cells: in the order of landing, and sorted by account.
_NEW = """
FROM (SELECT *, {media_id} AS media_id FROM {cells}) WHERE media_id IS NOT NULL
"""
_NOT_COMPARED = " AND order_key NOT IN (SELECT order_key FROM {to_compare})"

_DECODED = """
SELECT
    seq AS _seq, order_key AS _order_key, received_at AS _received_at, account_id, surface, {media_id} AS media_id,
    payload_hash, overflow{columns}
FROM {cells}
WHERE order_key IN (SELECT order_key FROM {to_compare})
"""

_HASHES = """
SELECT d._order_key AS order_key, {content} AS content, {counts} AS counts
FROM {decoded} AS d
LEFT JOIN ({children}) AS c ON c._order_key = d._order_key
"""

# Observations that differ from the item's previous one. Only the first is compared with the stored row, so the result
# does not depend on how the pages were divided into merges.
_CHANGED_KEYS = """
WITH observed AS (
    SELECT s.account_id, s.surface, s.media_id, s.order_key, m.content, m.counts
    FROM {to_compare} AS s JOIN {hashes} AS m USING (order_key)
    UNION ALL
    SELECT s.account_id, s.surface, s.media_id, -1, b.content, b.counts
    FROM {stored_hashes} AS b JOIN {stored} AS s USING (stored)
),
compared AS (
    SELECT
        order_key, row_number() OVER item = 1 OR content <> lag(content) OVER item OR counts <> lag(counts) OVER item
            AS differs
    FROM observed WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key)
)
SELECT order_key FROM compared WHERE differs AND order_key >= 0
"""

_CHANGED_ITEMS = "FROM {decoded} WHERE _order_key IN (SELECT order_key FROM {changed_keys})"

# Not sorted: the rows are almost in the order of landing already, and sorting would copy all payloads twice.
_RAW_NEW = """
SELECT
    account_id, surface, media_id, received_at AS seen_at, run_id, correlation_id, order_key AS landed, payload
FROM {new_items}
"""
_RAW_CHANGED = """
SELECT
    d.account_id, d.surface, d.media_id, d._received_at AS seen_at, c.run_id, c.correlation_id,
    d._order_key AS landed, c.payload
FROM {changed_items} AS d JOIN {cells} AS c ON c.order_key = d._order_key
"""

# The rows to write: those of changed items from the last changed observation, and the old rows of items that only
# returned. The first observation of an item that is not stored counts as changed. `first_order_key` is the observation
# that adds or returns the item, `last_order_key` the last one, whose values are equal but may be spelled differently.
_TO_WRITE = """
WITH changes AS (
    SELECT
        account_id, surface, media_id, count(*) AS changes, arg_min(_received_at, _order_key) AS first_received_at,
        min(_order_key) AS first_order_key, arg_max(_received_at, _order_key) AS changed_at,
        max(_order_key) AS order_key
    FROM {changed_items} GROUP BY account_id, surface, media_id
),
last AS (
    SELECT account_id, surface, media_id, max(_order_key) AS last_order_key FROM {decoded}
    GROUP BY account_id, surface, media_id
),
back AS (
    SELECT
        s.stored, arg_min(r.received_at, r.order_key) AS returned_at, min(r.order_key) AS first_order_key,
        min(r.seq) AS first_seq
    FROM {sightings} AS r
    JOIN (FROM {stored} WHERE removed_at IS NOT NULL) AS s USING (account_id, surface, media_id)
    GROUP BY s.stored
)
SELECT
    n.account_id, n.surface, n.media_id, s.stored, s.stored IS NULL AS is_new, s.removed_at IS NOT NULL AS was_removed,
    coalesce(s.first_seen_at, n.first_received_at) AS first_seen_at, NULL::TIMESTAMPTZ AS returned_at,
    s.content_changed_at, n.changes, n.changed_at, n.order_key,
    if(s.stored IS NULL, n.first_order_key, b.first_order_key) AS first_order_key, NULL::BIGINT AS returned_seq,
    l.last_order_key
FROM changes AS n
JOIN last AS l USING (account_id, surface, media_id)
LEFT JOIN {stored} AS s USING (account_id, surface, media_id)
LEFT JOIN back AS b ON b.stored = s.stored
UNION ALL
SELECT
    s.account_id, s.surface, s.media_id, s.stored, false, true, s.first_seen_at, b.returned_at, s.content_changed_at,
    0, NULL, NULL, b.first_order_key, b.first_seq, NULL
FROM back AS b JOIN {stored} AS s USING (stored) ANTI JOIN changes USING (account_id, surface, media_id)
"""

_RETURNED = """
SELECT m.* REPLACE (
    t.returned_at AS written_at, t.returned_seq AS written_seq, NULL::TIMESTAMPTZ AS removed_at,
    NULL::VARCHAR AS removal
)
FROM core.media AS m JOIN {to_write} AS t ON m.rowid = t.stored
WHERE t.changes = 0
"""

_IS_ANY_REMOVED = "SELECT count(removed_at) > 0 FROM {stored}"

_DELETE = "DELETE FROM core.media WHERE rowid IN (SELECT stored FROM {to_write} WHERE NOT is_new)"

_INSERT = """
INSERT INTO core.media BY NAME
SELECT
    t.account_id, t.surface, t.media_id{columns}, a.payload_hash, r._order_key AS raw_landed, a.overflow,
    t.first_seen_at, r._received_at AS written_at, r._seq AS written_seq, t.changed_at,
    coalesce(l.content_changed_at, t.content_changed_at, t.changed_at) AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM {to_write} AS t
JOIN {changed_items} AS r ON r._order_key = t.order_key
JOIN {decoded} AS a ON a._order_key = t.last_order_key
LEFT JOIN (
    SELECT account_id, surface, media_id, arg_max(seen_at, order_key) FILTER (begins_version) AS content_changed_at
    FROM media_observations WHERE order_key >= 0
    GROUP BY account_id, surface, media_id
) AS l ON l.account_id = t.account_id AND l.surface = t.surface AND l.media_id = t.media_id
ORDER BY t.account_id, t.surface, r.published_at
"""

_TO_HASH = f"SELECT DISTINCT {_KEY}, stored FROM {{relation}} WHERE stored IS NOT NULL"  # noqa: S608

# The number of rows to write: of changed items, of items that only returned, and of both that are stored.
_HOW_MANY = """
SELECT count(*) FILTER (changes > 0), count(*) FILTER (changes = 0), count(stored) FROM {to_write}
"""

# The columns that statements read of the decoded items if there are none, and only stored items returned.
_DECODED_COLUMNS = """
_order_key BIGINT, _received_at TIMESTAMPTZ, account_id VARCHAR, surface VARCHAR, media_id VARCHAR
"""


class MediaMerge:
    """The media pages of a batch: their items are decoded first, then written.

    Decoding comes first because it may alter tables, which DuckDB allows only before the transaction writes to them.
    """

    def __init__(self, batch: MergeBatch, pages: pa.Table) -> None:
        """Begin in the open transaction; `pages` are those of the batch."""
        self._batch = batch
        self._pages = pages.filter(pc.equal(pages["resource"], "media")).select(_OF_PAGES)
        self.mapping = read_mapping(batch.connection)
        self._schemas: tuple[TableSchema, ...] = ()
        self._is_any_new = False
        self.is_any_rejected = False
        self._compared: ComparedItems | None = None
        self._children: dict[str, str] = {}
        self.items: MediaItems | None = None
        # `read` creates what has no value here.
        self._arrived: str
        self._stored: str
        self._known: str
        self._cells: RegisteredCells
        self._media_cells: str
        self._cells_by_account: str

    def read(self, pages: Sequence[Page]) -> list[Page]:
        """Split pages into items, decode those whose bytes are not stored, and find new and changed items.

        Writes the bytes of new and changed items to the raw store durably, before any row is written. Returns the pages
        that could not be split.
        """
        batch = self._batch
        if not self._pages.num_rows:
            return []
        items, unreadable = split(pages)
        del pages
        hashes = items.hashes_by_key()
        order_keys = hashes["order_key"].combine_chunks()
        arrived = of_pages(order_keys, self._pages).append_column("payload_hash", hashes["payload_hash"])
        self._arrived = batch.arrow.put("arrived_items", arrived)
        self._read_stored()
        keys_of_known = batch.db.execute(f"SELECT order_key FROM {self._known}").to_arrow_table()  # noqa: S608 - a constant
        known = set(keys_of_known["order_key"].to_pylist())
        if len(known) == len(items.order_keys):
            self.items = MediaItems(self._known, self._stored)
            batch.arrow.clear()
        else:
            self.items = self._read_unknown(items, arrived, known)
        return unreadable

    def _read_unknown(self, items: Items, arrived: pa.Table, known: set[int]) -> MediaItems:
        batch = self._batch
        decoded, payloads = self._decode(items, known)
        # Frees the bodies, of which the items are views.
        items.raw.clear()
        cells = self._with_pages(decoded, arrived, payloads)
        self._media_cells = batch.arrow.put("media_cells", cells)
        merged = self._find_changes(decoded.media.num_rows, payloads.num_rows)
        rejected = self._rejected(payloads) if self.is_any_rejected else None
        # Frees the texts. The cells of children, which are rows of tables by now, are freed with `batch.arrow`.
        is_any_decoded = decoded.media.num_rows > 0
        del decoded, payloads
        if is_any_decoded:
            self._write_raw(merged)
        batch.arrow.clear()
        if self._is_any_new:
            self._cells_by_account = batch.arrow.put("cells_by_account", by_account(cells))
        if rejected is None:
            return merged
        return replace(merged, rejected_payloads=batch.arrow.put("rejected_payloads", rejected))

    def _read_stored(self) -> None:
        """Find the stored items of the batch's partitions, and the received items whose bytes are stored."""
        self._stored = self._batch.table("media_stored", _STORED)
        self._known = self._batch.table("media_known", _KNOWN, arrived=self._arrived, stored=self._stored)

    def _decode(self, items: Items, known: set[int]) -> tuple[Decoded, pa.Table]:
        """Decode the items whose bytes are not stored; return the cells, and the items' text by order key."""
        batch = self._batch
        registry = read_registry(batch.connection)
        pages = self._pages
        received = dict(zip(pages["seq"].to_pylist(), instants_of(pages["received_at"]), strict=True))
        decoder = Decoder(
            self.mapping, registry, own_names(self.mapping), lambda order_key: received[order_key >> POSITION_BITS]
        )
        texts = items.decode(decoder, stored=known)
        decoded = self._checked(decoder)
        again = texts.slice(0, 0)
        if known:
            keys = batch.rows(
                _KNOWN_AND_MET,
                media_id=self._media_id,
                known=self._known,
                cells=self._cells.media,
                arrived=self._arrived,
            )
            if keys:
                again = items.texts_of({order_key for (order_key,) in keys})
        if again.num_rows:
            decoder.add(again["order_key"].to_pylist(), again["payload"].cast(pa.binary()).to_pylist())
            decoded = self._checked(decoder)
        self._schemas = table_schemas(self.mapping, decoded.registry)
        if decoded.registry != registry:
            alter(batch.connection, self.mapping, self._schemas, registry, decoded.registry)
            write_registry(batch.connection, decoded.registry, self.mapping)
            # Filling columns may have changed rowids.
            self._read_stored()
        if again.num_rows:
            batch.run(_NOT_KNOWN, known=self._known, cells=self._cells.media)
        return decoded, pa.concat_tables([texts, again])

    def _with_pages(self, decoded: Decoded, arrived: pa.Table, payloads: pa.Table) -> pa.Table:
        """Return the items' cells together with their text, its hash, and columns of their pages."""
        cells = decoded.media
        order_keys = cells["order_key"].combine_chunks()
        of_page = of_pages(order_keys, self._pages)
        found = {
            **{name: of_page[name] for name in of_page.column_names if name != "order_key"},
            "payload": by_order_key(payloads, "payload", order_keys),
            "payload_hash": by_order_key(arrived, "payload_hash", order_keys),
        }
        for name, column in found.items():
            cells = cells.append_column(name, column)
        return cells

    def _rejected(self, payloads: pa.Table) -> pa.Table:
        """Return the text of items without a valid id, by order key."""
        found = self._batch.rows("SELECT order_key FROM media_found WHERE media_id IS NULL")
        wanted = array_of([order_key for (order_key,) in found], pa.int64())
        return payloads.filter(pc.is_in(payloads["order_key"], wanted))

    def _checked(self, decoder: Decoder) -> Decoded:
        """Return the decoded cells, registered with DuckDB, after repeating until no new types are found in them."""
        received = f"SELECT order_key, received_at FROM {self._arrived}"  # noqa: S608 - a constant
        while True:
            decoded = decoder.finish()
            self._cells = register_cells(self._batch.arrow, decoded)
            if not decoded.media.num_rows:
                return decoded
            before = decoder.registry
            decoder.learn(list(observations(self._batch.db, self._cells, self.mapping, received)))
            if decoder.registry == before:
                return decoded

    @property
    def _media_id(self) -> str:
        return media_id_of(self.mapping.media_id, self._cells.layout.media.cells)

    def _find_changes(self, decoded: int, received: int) -> MediaItems:
        """Find new items, and the changes of others; the arguments are numbers of items that are not known."""
        batch, cells = self._batch, self._media_cells
        media, *children = self._schemas
        for schema in children:
            name = quoted(f"decoded_{schema.table}")
            self._children[schema.table] = batch.table(name, "{query}", query=self._cells.children_query(schema))
        found = batch.table("media_found", _FOUND, media_id=self._media_id, cells=cells, stored=self._stored)
        if decoded < received:
            batch.run(_NOT_DECODED, found=found, arrived=self._arrived, known=self._known, cells=cells)
        sightings = batch.view("media_sightings", _SIGHTINGS, known=self._known, found=found)
        to_compare = batch.table("media_to_compare", _TO_COMPARE, found=found)
        [(compared, valid, all_found)] = batch.rows(_HOW_MANY_FOUND, to_compare=to_compare, found=found)
        self._is_any_new, self.is_any_rejected = valid > compared, all_found > valid
        if not compared:
            return MediaItems(sightings, self._stored, found)
        self._compared = self._compare(to_compare, media, children)
        return MediaItems(sightings, self._stored, found, to_compare, self._compared.changed_keys)

    def _compare(self, to_compare: str, media: TableSchema, children: Sequence[TableSchema]) -> ComparedItems:
        batch = self._batch
        decoded = batch.table(
            "media_decoded",
            _DECODED,
            media_id=self._media_id,
            columns=columns_select(media, self._cells.layout.media.cells),
            cells=self._media_cells,
            to_compare=to_compare,
        )
        of_children = hashes_of_children(
            children,
            self.mapping,
            lambda schema: f"FROM {self._children[schema.table]} SEMI JOIN {to_compare} ON _order_key = order_key",
            "_order_key",
        )
        hashes = batch.table(
            "media_hashes",
            _HASHES,
            content=content_of(media, self.mapping, "d", "coalesce(c.content, 0)"),
            counts=counts_hash(media, self.mapping, "d", "coalesce(c.counts, 0)"),
            decoded=decoded,
            children=of_children,
        )
        stored = hashes_of_stored(media, children, self.mapping, _TO_HASH.format(relation=to_compare))
        stored_hashes = batch.table("media_stored_hashes", "{query}", query=stored)
        changed_keys = batch.table(
            "changed_keys",
            _CHANGED_KEYS,
            to_compare=to_compare,
            hashes=hashes,
            stored_hashes=stored_hashes,
            stored=self._stored,
        )
        changed_items = batch.view("changed_items", _CHANGED_ITEMS, decoded=decoded, changed_keys=changed_keys)
        return ComparedItems(decoded, hashes, stored_hashes, changed_keys, changed_items)

    def _new(self, items: MediaItems, cells: str) -> str:
        """Create a view of the items that are not stored and occur once; `cells` is a relation with those of all."""
        not_compared = _NOT_COMPARED if items.to_compare is not None else ""
        return self._batch.view(
            "new_items", _NEW + not_compared, cells=cells, media_id=self._media_id, to_compare=items.to_compare
        )

    def _write_raw(self, items: MediaItems) -> None:
        queries = []
        if self._is_any_new:
            queries.append(_RAW_NEW.format(new_items=self._new(items, self._media_cells)))
        if self._compared is not None:
            changed_items = self._compared.changed_items
            queries.append(_RAW_CHANGED.format(changed_items=changed_items, cells=self._media_cells))
        if queries:
            write_part(self._batch.connection, " UNION ALL ".join(queries))

    def write(self) -> str | None:
        """Write the rows of the batch's items; return a relation with the rewritten ones, None if there are none.

        It has the order key of the first observation, and whether the row `is_new`. New items that were not compared
        are not in it.
        """
        if self.items is None:
            return None
        to_write = self._rewrite(self.items)
        if self._is_any_new:
            new = self._new(self.items, self._cells_by_account)
            insert_new(self._batch, self._schemas, self._cells.layout, new, self._children)
        return to_write

    def _rewrite(self, items: MediaItems) -> str | None:
        """Rewrite the rows of compared items that changed or returned."""
        batch = self._batch
        if self._compared is None and not batch.value(_IS_ANY_REMOVED, stored=self._stored):
            return None
        compared = self._nothing_compared() if self._compared is None else self._compared
        to_write = batch.table(
            "media_to_write",
            _TO_WRITE,
            changed_items=compared.changed_items,
            decoded=compared.decoded,
            sightings=items.sightings,
            stored=self._stored,
        )
        if self._compared is not None:
            decoded = {MEDIA: compared.decoded, **self._children}
            merge_newest(batch, self._schemas, decoded, self._stored, to_write)
        [(changed, returned, stored)] = batch.rows(_HOW_MANY, to_write=to_write)
        if changed:
            media, *children = self._schemas
            merge_history(batch, self.mapping, media, compared, to_write)
            merge_children(batch, children, self._children, to_write, are_stored=bool(stored))
        if returned:
            batch.table("media_returned", _RETURNED, to_write=to_write)
        if stored:
            batch.run(_DELETE, to_write=to_write)
        if returned:
            batch.run("INSERT INTO core.media BY NAME SELECT * FROM media_returned")
        if changed:
            media, *_ = self._schemas
            batch.run(
                _INSERT,
                columns="".join(f", a.{quoted(column.name)}" for column in media.columns),
                to_write=to_write,
                changed_items=compared.changed_items,
                decoded=compared.decoded,
            )
        return to_write

    def _nothing_compared(self) -> ComparedItems:
        decoded = self._batch.empty("media_decoded", _DECODED_COLUMNS)
        return ComparedItems(decoded, "", "", "", decoded)
