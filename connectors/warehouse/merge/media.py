"""Merges pages of media: new items are appended, stored ones are rewritten only if they changed."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import decoded_children, observations, read_columns, register_cells
from connectors.warehouse.ingest.columns import columns_select, media_id_of
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.landing.page_commit import POSITION_BITS, TypedPart
from connectors.warehouse.ingest.page_columns import by_account, by_order_key, of_pages
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.ingest.split import Items, Page, split
from connectors.warehouse.ingest.typed_part import TypedItems, read_items
from connectors.warehouse.merge.comparing import (
    content_of,
    counts_hash,
    hashes_of_children,
    hashes_of_stored,
    overflow_of,
)
from connectors.warehouse.merge.history import merge_history
from connectors.warehouse.merge.item_parts import addresses, merge_addresses, merge_children
from connectors.warehouse.merge.new_items import insert_new
from connectors.warehouse.merge.schema_evolution import alter
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.schema.field_registry import own_names, read_mapping, read_registry, write_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import quoted
from models.schema.table_schemas import TableSchema, table_schemas

if TYPE_CHECKING:
    from connectors.warehouse.ingest.layout import Layout

_log = logging.getLogger(__name__)

_KEY = "account_id, surface, media_id"

_PAGES = """
SELECT seq, scan_id, run_id, account_id, surface, correlation_id, received_at
FROM ops.staging WHERE resource = 'media' ORDER BY seq
"""

# The stored items of all partitions in the merge, with narrow columns only.
_STORED = """
CREATE OR REPLACE TEMP TABLE media_stored AS
SELECT
    rowid AS stored, account_id, surface, media_id, payload_hash, first_seen_at, content_changed_at, removed_at
FROM core.media AS m
SEMI JOIN (SELECT DISTINCT account_id, surface FROM ops.staging WHERE resource = 'media') AS s
    USING (account_id, surface)
"""

# Items whose bytes are stored already; they need not be decoded.
_KNOWN = """
CREATE OR REPLACE TEMP TABLE media_known AS
SELECT i.order_key, i.seq, i.scan_id, i.received_at, i.account_id, i.surface, s.media_id, s.stored
FROM arrived_items AS i JOIN media_stored AS s USING (account_id, surface, payload_hash)
"""

# Known payloads of items that this merge received with other payloads too: they are decoded, to be compared with these.
_KNOWN_AND_MET = """
SELECT order_key FROM media_known
SEMI JOIN (
    SELECT account_id, surface, {media_id} AS media_id FROM media_cells JOIN arrived_items USING (order_key)
) USING (account_id, surface, media_id)
ORDER BY order_key
"""
_NOT_KNOWN = "DELETE FROM media_known WHERE order_key IN (SELECT order_key FROM media_cells)"

# All decoded items; `media_id` is NULL if an item has no valid id.
_FOUND = """
CREATE OR REPLACE TEMP TABLE media_found AS
SELECT i.*, s.stored
FROM (SELECT order_key, seq, scan_id, received_at, account_id, surface, {media_id} AS media_id FROM media_cells) AS i
LEFT JOIN media_stored AS s USING (account_id, surface, media_id)
"""

# Items that could not be decoded have no id either, nor have those that a worker did not send because they were stored
# at the time, if they were deleted since.
_NOT_DECODED = """
INSERT INTO media_found BY NAME
SELECT order_key, seq, scan_id, received_at, account_id, surface FROM arrived_items
WHERE order_key NOT IN (SELECT order_key FROM media_known)
  AND order_key NOT IN (SELECT order_key FROM media_cells)
"""

_SIGHTINGS = """
CREATE OR REPLACE TEMP VIEW media_sightings AS
FROM (FROM media_known UNION ALL BY NAME FROM media_found)
WHERE seq > getvariable('slice_begin') AND seq <= getvariable('slice_end')
"""

# Items that may be unchanged: stored ones, and those observed more than once. The others are new.
_TO_COMPARE = """
CREATE OR REPLACE TEMP TABLE media_to_compare AS
WITH observed AS (FROM media_found WHERE media_id IS NOT NULL),
again AS (
    SELECT account_id, surface, media_id FROM observed GROUP BY account_id, surface, media_id HAVING count(*) > 1
)
SELECT order_key, account_id, surface, media_id, stored FROM observed
WHERE stored IS NOT NULL OR (account_id, surface, media_id) IN (FROM again)
"""

_HOW_MANY_FOUND = """
SELECT (SELECT count(*) FROM media_to_compare), count(media_id), count(*) FROM media_found
"""

# New items with their cells: in the order of landing, and sorted by account.
_NEW = """
CREATE OR REPLACE TEMP VIEW {view} AS
FROM (SELECT *, {media_id} AS media_id FROM {cells}) WHERE media_id IS NOT NULL
"""
_NOT_COMPARED = " AND order_key NOT IN (SELECT order_key FROM media_to_compare)"
_IN_SLICE = " AND seq > getvariable('slice_begin') AND seq <= getvariable('slice_end')"

_DECODED = """
CREATE OR REPLACE TEMP TABLE media_decoded AS
SELECT
    seq AS _seq, order_key AS _order_key, received_at AS _received_at, account_id, surface, {media_id} AS media_id,
    payload_hash, overflow{columns}
FROM media_cells
WHERE order_key IN (SELECT order_key FROM media_to_compare)
"""

_HASHES = """
CREATE OR REPLACE TEMP TABLE media_hashes AS
SELECT d._order_key AS order_key, {content} AS content, {counts} AS counts
FROM media_decoded AS d
LEFT JOIN ({children}) AS c ON c._order_key = d._order_key
"""

# Observations that differ from the item's previous one. Only the first is compared with the stored row, so the result
# does not depend on how the pages were divided into merges.
_CHANGED_KEYS = """
CREATE OR REPLACE TEMP TABLE changed_keys AS
WITH observed AS (
    SELECT s.account_id, s.surface, s.media_id, s.order_key, m.content, m.counts
    FROM media_to_compare AS s JOIN media_hashes AS m USING (order_key)
    UNION ALL
    SELECT s.account_id, s.surface, s.media_id, -1, b.content, b.counts
    FROM media_stored_hashes AS b JOIN media_stored AS s USING (stored)
),
compared AS (
    SELECT
        order_key, row_number() OVER item = 1 OR content <> lag(content) OVER item OR counts <> lag(counts) OVER item
            AS differs
    FROM observed WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key)
)
SELECT order_key FROM compared WHERE differs AND order_key >= 0
"""

_CHANGED_ITEMS = """
CREATE OR REPLACE TEMP VIEW changed_items AS
FROM media_decoded WHERE _order_key IN (SELECT order_key FROM changed_keys)
"""

# Not sorted: the rows are almost in the order of landing already, and sorting would copy all payloads twice.
_RAW = """
SELECT
    account_id, surface, media_id, received_at AS seen_at, run_id, correlation_id, order_key AS landed, payload
FROM new_items
UNION ALL
SELECT
    d.account_id, d.surface, d.media_id, d._received_at, c.run_id, c.correlation_id, d._order_key, c.payload
FROM changed_items AS d JOIN media_cells AS c ON c.order_key = d._order_key
"""

# The rows to write: those of changed items from the last changed observation, and the old rows of items that only
# returned. The first observation of an item that is not stored counts as changed. `first_order_key` is the observation
# that adds or returns the item, `last_order_key` the last one, which has the newest media URLs.
_TO_WRITE = """
CREATE OR REPLACE TEMP TABLE media_to_write AS
WITH changes AS (
    SELECT
        account_id, surface, media_id, count(*) AS changes, arg_min(_received_at, _order_key) AS first_received_at,
        min(_order_key) AS first_order_key, arg_max(_received_at, _order_key) AS changed_at,
        max(_order_key) AS order_key
    FROM changed_items WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
),
last AS (
    SELECT account_id, surface, media_id, max(_order_key) AS last_order_key FROM media_decoded
    WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
),
back AS (
    SELECT
        s.stored, arg_min(r.received_at, r.order_key) AS returned_at, min(r.order_key) AS first_order_key,
        min(r.seq) AS first_seq
    FROM media_sightings AS r
    JOIN (FROM media_stored WHERE removed_at IS NOT NULL) AS s USING (account_id, surface, media_id)
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
LEFT JOIN media_stored AS s USING (account_id, surface, media_id)
LEFT JOIN back AS b ON b.stored = s.stored
UNION ALL
SELECT
    s.account_id, s.surface, s.media_id, s.stored, false, true, s.first_seen_at, b.returned_at, s.content_changed_at,
    0, NULL, NULL, b.first_order_key, b.first_seq, NULL
FROM back AS b JOIN media_stored AS s USING (stored) ANTI JOIN changes USING (account_id, surface, media_id)
"""

_RETURNED = """
CREATE OR REPLACE TEMP TABLE media_returned AS
SELECT m.* REPLACE (
    t.returned_at AS written_at, t.returned_seq AS written_seq, NULL::TIMESTAMPTZ AS removed_at,
    NULL::VARCHAR AS removal
)
FROM core.media AS m JOIN media_to_write AS t ON m.rowid = t.stored
WHERE t.changes = 0
"""

_DELETE = "DELETE FROM core.media WHERE rowid IN (SELECT stored FROM media_to_write WHERE NOT is_new)"

_INSERT = """
INSERT INTO core.media BY NAME
SELECT
    t.account_id, t.surface, t.media_id{columns}, a.payload_hash, r._order_key AS raw_landed, r.overflow,
    t.first_seen_at, r._received_at AS written_at, r._seq AS written_seq, t.changed_at,
    coalesce(l.content_changed_at, t.content_changed_at, t.changed_at) AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM media_to_write AS t
JOIN changed_items AS r ON r._order_key = t.order_key
JOIN media_decoded AS a ON a._order_key = t.last_order_key
LEFT JOIN (
    SELECT account_id, surface, media_id, arg_max(seen_at, order_key) FILTER (begins_version) AS content_changed_at
    FROM media_observations WHERE order_key >= 0
    GROUP BY account_id, surface, media_id
) AS l ON l.account_id = t.account_id AND l.surface = t.surface AND l.media_id = t.media_id
ORDER BY t.account_id, t.surface, r.published_at
"""

_CHANGED_AND_STORED = f"SELECT {_KEY}, stored FROM media_to_write WHERE changes > 0 AND stored IS NOT NULL"  # noqa: S608

# The number of rows to write: of changed items, of items that only returned, and of both that are stored.
_HOW_MANY = """
SELECT count(*) FILTER (changes > 0), count(*) FILTER (changes = 0), count(stored) FROM media_to_write
"""

# Empty tables with the columns that later statements read: if the bytes of all items are stored, if no item was
# compared, and if none was compared or returned.
_NOTHING_FOUND = (
    """
CREATE OR REPLACE TEMP TABLE media_found (
    order_key BIGINT, seq BIGINT, scan_id VARCHAR, received_at TIMESTAMPTZ, account_id VARCHAR, surface VARCHAR,
    media_id VARCHAR, stored BIGINT
)
""",
    "CREATE OR REPLACE TEMP TABLE media_to_compare (order_key BIGINT)",
)
_NOTHING_TO_COMPARE = """
CREATE OR REPLACE TEMP TABLE media_decoded (
    _seq BIGINT, _order_key BIGINT, _received_at TIMESTAMPTZ, account_id VARCHAR, surface VARCHAR, media_id VARCHAR
)
"""
_NOTHING_CHANGED = (
    "CREATE OR REPLACE TEMP TABLE changed_keys (order_key BIGINT)",
    "CREATE OR REPLACE TEMP VIEW changed_items AS FROM media_decoded",
)
_NOTHING_TO_WRITE = "CREATE OR REPLACE TEMP TABLE media_to_write (first_order_key BIGINT, is_new BOOLEAN)"


class MediaMerge:
    """The media pages of one merge: all of them are decoded first, then merged slice by slice.

    Decoding comes first because it may alter tables, which DuckDB allows only before the transaction writes to them.
    """

    def __init__(self, connection: Connection) -> None:
        """Begin a merge in the open transaction."""
        self._connection = connection
        self._db = connection.db
        self.mapping = read_mapping(connection)
        self._schemas: tuple[TableSchema, ...] = ()
        self._layout: Layout | None = None
        self._cells = ArrowTables(self._db)
        self._is_any_to_compare = False
        self._is_any_new = False
        self.is_any_rejected = False

    def read(self, pages: Sequence[Page], parts: Sequence[TypedPart] = ()) -> list[Page]:
        """Split pages into items, decode those whose bytes are not stored, and find new and changed items.

        `parts` are the items of other pages. Writes the bytes of new and changed items to the raw store durably, before
        any row is written. Returns the pages that could not be split.
        """
        of_pages_here, unreadable = split(pages)
        blocks: list[Items | TypedItems] = [of_pages_here, *(read_items(part, self.mapping) for part in parts)]
        staged = self._db.execute(_PAGES).to_arrow_table()
        hashes = pa.concat_tables([items.hashes_by_key() for items in blocks]).combine_chunks()
        order_keys = hashes["order_key"].combine_chunks()
        arrived = of_pages(order_keys, staged).append_column("payload_hash", hashes["payload_hash"])
        self._db.register("arrived_items", arrived)
        self._read_stored()
        decoded, payloads = self._decode(blocks, staged)
        # Frees the bodies, of which the items are views.
        del pages, of_pages_here, blocks
        self._register(decoded, arrived, payloads, staged)
        missing = arrived.num_rows - payloads.num_rows - value(self._db, "SELECT count(*) FROM media_known")
        if missing:
            _log.warning("%d items of workers are not stored any more. Fix: gramhouse sync --full", missing)
        self._find_changes(decoded, payloads, missing)
        self._register_rejected(payloads)
        # Frees the cells of children, which are rows of tables by now.
        layout, is_any_decoded = decoded.layout, decoded.media.num_rows > 0
        del decoded, payloads
        if is_any_decoded:
            self._layout = layout
            write_part(self._connection, _RAW)
        cells = self._cells.get("media_cells")
        self._cells.clear()
        if self._is_any_new:
            self._cells.put("media_cells_by_account", by_account(cells))
            new = _NEW.format(view="new_in_slice", cells="media_cells_by_account", media_id=self._media_id(layout))
            self._db.execute(new + self._not_compared + _IN_SLICE)
        return unreadable

    def _read_stored(self) -> None:
        """Find the stored items of the merge's partitions, and the received items whose bytes are stored."""
        for statement in (_STORED, _KNOWN):
            self._db.execute(statement)

    def _decode(self, blocks: Sequence[Items | TypedItems], staged: pa.Table) -> tuple[Decoded, pa.Table]:
        """Decode the items whose bytes are not stored; return the cells, and the items' text by order key."""
        known = read_registry(self._connection)
        received = dict(zip(staged["seq"].to_pylist(), instants_of(staged["received_at"]), strict=True))
        decoder = Decoder(
            self.mapping, known, own_names(self.mapping), lambda order_key: received[order_key >> POSITION_BITS]
        )
        stored = set(self._db.execute("SELECT order_key FROM media_known").to_arrow_table()["order_key"].to_pylist())
        texts = pa.concat_tables([items.decode(decoder, stored=stored) for items in blocks])
        decoded = self._checked(decoder)
        again = texts.slice(0, 0)
        if stored and texts.num_rows:
            query = _KNOWN_AND_MET.format(media_id=self._media_id(decoded.layout))
            met = {order_key for (order_key,) in self._db.execute(query).fetchall()}
            if met:
                again = pa.concat_tables([items.texts_of(met) for items in blocks])
        if again.num_rows:
            decoder.add(again["order_key"].to_pylist(), again["payload"].cast(pa.binary()).to_pylist())
            decoded = self._checked(decoder)
        self._schemas = table_schemas(self.mapping, decoded.registry)
        if decoded.registry != known:
            alter(self._connection, self.mapping, self._schemas, known, decoded.registry)
            write_registry(self._connection, decoded.registry, self.mapping)
            # Filling columns may have changed rowids, and has registered the cells of other items.
            self._read_stored()
            self._cells.clear()
            self._cells = ArrowTables(self._db)
            register_cells(self._cells, decoded)
        if again.num_rows:
            self._db.execute(_NOT_KNOWN)
        return decoded, pa.concat_tables([texts, again])

    def _register(self, decoded: Decoded, arrived: pa.Table, payloads: pa.Table, staged: pa.Table) -> None:
        """Register the items' cells with DuckDB, together with their text, its hash, and columns of their pages."""
        cells = decoded.media
        order_keys = cells["order_key"].combine_chunks()
        of_page = of_pages(order_keys, staged)
        found = {
            **{name: of_page[name] for name in of_page.column_names if name != "order_key"},
            "payload": by_order_key(payloads, "payload", order_keys),
            "payload_hash": by_order_key(arrived, "payload_hash", order_keys),
        }
        for name, column in found.items():
            cells = cells.append_column(name, column)
        self._cells.put("media_cells", cells)

    def _register_rejected(self, payloads: pa.Table) -> None:
        """Register the text of items without a valid id with DuckDB as `rejected_payloads`, by order key."""
        found = self._db.execute("SELECT order_key FROM media_found WHERE media_id IS NULL").fetchall()
        wanted = array_of([order_key for (order_key,) in found], pa.int64())
        self._db.register("rejected_payloads", payloads.filter(pc.is_in(payloads["order_key"], wanted)))

    def _checked(self, decoder: Decoder) -> Decoded:
        """Return the decoded cells, registered with DuckDB, after repeating until no new types are found in them."""
        received = "SELECT order_key, received_at FROM arrived_items"
        while True:
            decoded = decoder.finish()
            register_cells(self._cells, decoded)
            if not decoded.media.num_rows:
                return decoded
            before = decoder.registry
            decoder.learn(list(observations(self._db, decoded.layout, self.mapping, received)))
            if decoder.registry == before:
                return decoded

    def _media_id(self, layout: "Layout") -> str:
        return media_id_of(self.mapping.media_id, layout.media.cells)

    @property
    def _not_compared(self) -> str:
        return _NOT_COMPARED if self._is_any_to_compare else ""

    def _find_changes(self, decoded: Decoded, payloads: pa.Table, missing: int) -> None:
        if not payloads.num_rows and not missing:
            for statement in (*_NOTHING_FOUND, _SIGHTINGS, _NOTHING_TO_COMPARE, *_NOTHING_CHANGED):
                self._db.execute(statement)
            return
        media, *children = self._schemas
        media_id = self._media_id(decoded.layout)
        read_columns(self._db, decoded.layout, children)
        self._db.execute(_FOUND.format(media_id=media_id))
        if decoded.media.num_rows < payloads.num_rows + missing:
            self._db.execute(_NOT_DECODED)
        for statement in (_SIGHTINGS, _TO_COMPARE):
            self._db.execute(statement)
        [(to_compare, valid, found)] = self._db.execute(_HOW_MANY_FOUND).fetchall()
        self._is_any_to_compare, self._is_any_new = to_compare > 0, valid > to_compare
        self.is_any_rejected = found > valid
        self._db.execute(_NEW.format(view="new_items", cells="media_cells", media_id=media_id) + self._not_compared)
        if not self._is_any_to_compare:
            for statement in (_NOTHING_TO_COMPARE, *_NOTHING_CHANGED):
                self._db.execute(statement)
            return
        columns = columns_select(media, decoded.layout.media.cells)
        self._db.execute(_DECODED.format(media_id=media_id, columns=columns))
        of_children = hashes_of_children(
            children,
            self.mapping,
            lambda schema: f"FROM {decoded_children(schema)} SEMI JOIN media_to_compare ON _order_key = order_key",
            "_order_key",
        )
        content = content_of(media, self.mapping, "d", overflow_of("d"), "coalesce(c.content, 0)")
        counts = counts_hash(media, self.mapping, "d", "coalesce(c.counts, 0)")
        self._db.execute(_HASHES.format(content=content, counts=counts, children=of_children))
        wanted = f"SELECT DISTINCT {_KEY}, stored FROM media_to_compare WHERE stored IS NOT NULL"  # noqa: S608
        self._hash_stored(wanted)
        for statement in (_CHANGED_KEYS, _CHANGED_ITEMS):
            self._db.execute(statement)

    def _hash_stored(self, wanted: str) -> None:
        """Create `media_stored_hashes` for the stored items of a query with their keys and `stored`."""
        media, *children = self._schemas
        query = hashes_of_stored(media, children, self.mapping, wanted)
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE media_stored_hashes AS {query}")

    def merge_slice(self, *, is_first: bool) -> None:
        """Merge the items of the current slice."""
        if not is_first:
            self._db.execute(_STORED)
        self._rewrite(is_first=is_first)
        if self._layout is not None and self._is_any_new:
            insert_new(self._db, self._schemas, self._layout)

    def _rewrite(self, *, is_first: bool) -> None:
        """Rewrite the rows of compared items that changed or returned."""
        media, *children = self._schemas
        run = self._db.execute
        if not (self._is_any_to_compare or value(self._db, "SELECT count(removed_at) > 0 FROM media_stored")):
            run(_NOTHING_TO_WRITE)
            return
        run(_TO_WRITE)
        if self._is_any_to_compare:
            merge_addresses(self._connection, self.mapping, media, children)
        [(changed, returned, stored)] = run(_HOW_MANY).fetchall()
        if changed:
            if not is_first:
                # Earlier slices changed rowids, so the hashes of stored rows are out of date.
                self._hash_stored(_CHANGED_AND_STORED)
            merge_history(self._connection, self.mapping, media)
            merge_children(self._connection, children, are_stored=bool(stored))
        if returned:
            run(_RETURNED)
        if stored:
            run(_DELETE)
        if returned:
            run("INSERT INTO core.media BY NAME SELECT * FROM media_returned")
        if changed:
            newest = addresses(media, self.mapping)
            names = "".join(f", {'a' if each.name in newest else 'r'}.{quoted(each.name)}" for each in media.columns)
            run(_INSERT.format(columns=names))

    def release(self) -> None:
        """Release the memory of the decoded cells. Call it after the last slice."""
        self._cells.clear()
