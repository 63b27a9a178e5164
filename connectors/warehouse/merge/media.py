"""Merging pages of media: items as last seen, rewritten only where they changed."""

from collections.abc import Sequence

import pyarrow as pa
from sqlalchemy import Connection

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.cells import decoded_children, identify, observations, read_columns, register_cells
from connectors.warehouse.ingest.columns import columns_select
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.ingest.split import POSITION_BITS, Items, Page, split
from connectors.warehouse.merge.comparing import (
    content_of,
    counts_hash,
    hashes_of_children,
    hashes_of_stored,
    overflow_of,
)
from connectors.warehouse.merge.history import merge_first_counts, merge_history
from connectors.warehouse.merge.item_parts import addresses, merge_addresses, merge_children
from connectors.warehouse.merge.schema_evolution import alter
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.schema.field_registry import own_names, read_mapping, read_registry, write_registry
from connectors.warehouse.storage.connection import raw_connection, value
from connectors.warehouse.storage.quoting import quoted
from models.schema.table_schemas import TableSchema, table_schemas

_KEY = "account_id, surface, media_id"

_ITEMS = f"""
CREATE OR REPLACE TEMP TABLE media_items AS
SELECT
    i.order_key, i.payload_hash, s.seq, s.scan_id, s.run_id, s.account_id, s.surface, s.page, s.correlation_id,
    s.received_at, i.order_key & {(1 << POSITION_BITS) - 1} AS position
FROM arrived_items AS i JOIN ops.staging AS s ON s.seq = i.order_key >> {POSITION_BITS}
"""  # noqa: S608 - our own numbers

# What is stored of the accounts that were met: the narrow columns alone.
_STORED = """
CREATE OR REPLACE TEMP TABLE media_stored AS
SELECT
    rowid AS stored, account_id, surface, media_id, payload_hash, first_seen_at, content_changed_at, removed_at
FROM core.media AS m
SEMI JOIN (SELECT DISTINCT account_id, surface FROM media_items) AS i USING (account_id, surface)
"""

# A payload that is stored byte by byte says nothing new, and need not be read.
_KNOWN = """
CREATE OR REPLACE TEMP TABLE media_known AS
SELECT i.order_key, s.media_id, s.stored
FROM media_items AS i JOIN media_stored AS s USING (account_id, surface, payload_hash)
"""

# Unless its item was met with another payload, too: then what it says is compared with that.
_KNOWN_AND_MET = """
SELECT k.order_key FROM media_known AS k JOIN media_items AS i USING (order_key)
SEMI JOIN (
    SELECT account_id, surface, media_id FROM decoded_ids JOIN media_items USING (order_key) WHERE media_id IS NOT NULL
) AS d ON d.account_id = i.account_id AND d.surface = i.surface AND d.media_id = k.media_id
ORDER BY k.order_key
"""

_RECORDS = """
CREATE OR REPLACE TEMP TABLE media_records AS
SELECT i.*, coalesce(d.media_id, k.media_id) AS media_id, coalesce(k.stored, p.stored) AS stored
FROM media_items AS i LEFT JOIN decoded_ids AS d USING (order_key) LEFT JOIN media_known AS k USING (order_key)
LEFT JOIN media_to_compare AS p USING (order_key)
"""

_DECODED = """
CREATE OR REPLACE TEMP TABLE media_decoded AS
SELECT
    i.seq AS _seq, i.order_key AS _order_key, i.received_at AS _received_at, i.account_id, i.surface, d.media_id,
    i.payload_hash, c.overflow{columns}
FROM media_cells AS c
JOIN decoded_ids AS d USING (order_key)
JOIN media_items AS i USING (order_key)
WHERE d.media_id IS NOT NULL
"""

# Items that may be unchanged: those that are stored, or were observed more than once.
_TO_COMPARE = """
CREATE OR REPLACE TEMP TABLE media_to_compare AS
WITH counted AS (
    SELECT _order_key AS order_key, account_id, surface, media_id,
        count(*) OVER (PARTITION BY account_id, surface, media_id) > 1 AS again
    FROM media_decoded
)
SELECT c.order_key, c.account_id, c.surface, c.media_id, s.stored
FROM counted AS c LEFT JOIN media_stored AS s USING (account_id, surface, media_id)
WHERE again OR s.stored IS NOT NULL
"""

_HASHES = """
CREATE OR REPLACE TEMP TABLE media_hashes AS
SELECT d._order_key AS order_key, {content} AS content, {counts} AS counts
FROM media_decoded AS d SEMI JOIN media_to_compare AS s ON s.order_key = d._order_key
LEFT JOIN ({children}) AS c ON c.order_key = d._order_key
"""

# Observations that differ from the previous one of the item. Only the first is compared with the stored row, so the
# result does not depend on how the pages were cut into merges.
_CHANGED_KEYS = """
CREATE OR REPLACE TEMP TABLE changed_keys AS
WITH observed AS (
    SELECT s.account_id, s.surface, s.media_id, s.order_key, m.content, m.counts
    FROM media_to_compare AS s JOIN media_hashes AS m USING (order_key)
    UNION ALL
    SELECT s.account_id, s.surface, s.media_id, -1, b.content, b.counts
    FROM ({stored}) AS b JOIN media_stored AS s USING (stored)
),
compared AS (
    SELECT
        order_key, row_number() OVER item = 1 OR content <> lag(content) OVER item OR counts <> lag(counts) OVER item
            AS differs
    FROM observed WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key)
)
SELECT order_key FROM compared WHERE differs AND order_key >= 0
UNION ALL
SELECT _order_key FROM media_decoded WHERE _order_key NOT IN (SELECT order_key FROM media_to_compare)
"""

_CHANGED_ITEMS = """
CREATE OR REPLACE TEMP VIEW changed_items AS
FROM media_decoded WHERE _order_key IN (SELECT order_key FROM changed_keys)
"""
_ALL_CHANGED = "CREATE OR REPLACE TEMP VIEW changed_items AS FROM media_decoded"

# Not sorted: the joins keep the order of landing for almost all rows, and a sort would copy all payloads twice.
_RAW = """
SELECT
    r.account_id, r.surface, r.media_id, r._received_at AS seen_at, i.run_id, i.correlation_id, r._order_key AS landed,
    p.payload
FROM changed_items AS r
JOIN media_items AS i ON i.order_key = r._order_key
JOIN arrived_payloads AS p ON p.order_key = r._order_key
"""

_SIGHTINGS = """
CREATE OR REPLACE TEMP VIEW media_sightings AS
SELECT * FROM media_records WHERE seq > getvariable('slice_begin') AND seq <= getvariable('slice_end')
"""

# Rows that are written: from the last observation with other content, or the old row where an item only came back. The
# first observation of an item that is not stored counts as other content. `first_order_key`: of the observation that
# adds or returns it. `last_order_key`: of the last one, which has the newest media URLs.
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
    coalesce({begun}t.content_changed_at, t.changed_at) AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM media_to_write AS t
JOIN changed_items AS r ON r._order_key = t.order_key
JOIN media_decoded AS a ON a._order_key = t.last_order_key
{line}
ORDER BY t.account_id, t.surface, r.published_at
"""
_CONTENT_CHANGES = """
LEFT JOIN (
    SELECT account_id, surface, media_id, arg_max(seen_at, order_key) FILTER (begins_version) AS content_changed_at
    FROM media_observations WHERE order_key >= 0
    GROUP BY account_id, surface, media_id
) AS l ON l.account_id = t.account_id AND l.surface = t.surface AND l.media_id = t.media_id
"""

# How many rows are written, replace stored ones, and belong to items that were observed with other content before.
_HOW_MANY = """
SELECT count(*), count(*) FILTER (NOT is_new), count(*) FILTER (changes > 1 OR (changes = 1 AND NOT is_new))
FROM media_to_write
"""


class MediaMerge:
    """The media pages of one merge: read at once, then merged slice by slice.

    Reading comes first because it may alter tables, which DuckDB allows only before they are written to.
    """

    def __init__(self, connection: Connection) -> None:
        """Begin."""
        self._connection = connection
        self._db = raw_connection(connection)
        self.mapping = read_mapping(connection)
        self._schemas: tuple[TableSchema, ...] = ()
        self._cells = ArrowTables(self._db)
        self._is_any_to_compare = False

    def read(self, pages: Sequence[Page]) -> list[Page]:
        """Split pages into items, decode those that are not stored as they came, and find what is new.

        What is new is written to the raw store, durably, before any row is.
        Returns the pages that could not be split.
        """
        items, unreadable = split(pages)
        # The items have copies of the bytes.
        del pages
        arrived = {
            "order_key": array_of(items.order_keys, pa.int64()),
            "payload_hash": array_of(items.hashes, pa.binary()),
        }
        self._db.register("arrived_items", pa.table(arrived))
        for statement in (_ITEMS, _STORED, _KNOWN):
            self._db.execute(statement)
        decoded = self._decode(items)
        # What the statements that follow need is in tables: memory is for them.
        del items
        self._find_changes(decoded)
        is_any_decoded = decoded.media.num_rows > 0
        del decoded
        self._cells.clear()
        if is_any_decoded:
            write_part(self._connection, _RAW)
        self._db.execute(_RECORDS)
        self._db.execute(_SIGHTINGS)
        return unreadable

    def _decode(self, items: Items) -> Decoded:
        """Decode the items that are not stored as they came; `arrived_payloads` then has their text."""
        known = read_registry(self._connection)
        received = dict(self._db.execute("SELECT DISTINCT seq, received_at FROM media_items").fetchall())
        decoder = Decoder(
            self.mapping, known, own_names(self.mapping), lambda order_key: received[order_key >> POSITION_BITS]
        )
        order_keys, raw = items.order_keys, items.raw
        bytes_of: dict[int, bytes] = {}
        if value(self._db, "SELECT EXISTS (FROM media_known)"):
            bytes_of = dict(zip(order_keys, raw, strict=True))
            ids = "SELECT order_key FROM media_items ANTI JOIN media_known USING (order_key) ORDER BY order_key"
            order_keys = [order_key for (order_key,) in self._db.execute(ids).fetchall()]
            raw = [bytes_of[order_key] for order_key in order_keys]
        decoder.add(order_keys, raw)
        decoded = self._checked(decoder)
        known_and_met = self._db.execute(_KNOWN_AND_MET).fetchall() if bytes_of and order_keys else []
        if again := [order_key for (order_key,) in known_and_met]:
            more = [bytes_of[order_key] for order_key in again]
            decoder.add(again, more)
            decoded = self._checked(decoder)
            order_keys, raw = order_keys + again, raw + more
        self._schemas = table_schemas(self.mapping, decoded.registry)
        if decoded.registry != known:
            alter(self._connection, self.mapping, self._schemas, known, decoded.registry)
            write_registry(self._connection, decoded.registry, self.mapping)
            # Filling a column may have moved rows, and registers the cells of other items.
            self._db.execute(_STORED)
            self._db.execute(_KNOWN)
            self._cells = ArrowTables(self._db)
            register_cells(self._cells, decoded)
        payloads = array_of(raw, pa.string())
        table = pa.table({"order_key": array_of(order_keys, pa.int64()), "payload": payloads})
        self._db.register("arrived_payloads", table)
        return decoded

    def _checked(self, decoder: Decoder) -> Decoded:
        """Return what was decoded, once nothing more is learned from it; `decoded_ids` then has each item's id."""
        while True:
            decoded = decoder.finish()
            register_cells(self._cells, decoded)
            if not decoded.media.num_rows:
                break
            met = list(
                observations(self._db, decoded.layout, self.mapping, "SELECT order_key, received_at FROM media_items")
            )
            before = decoder.registry
            decoder.learn(met)
            if decoder.registry == before:
                break
        identify(self._db, decoded.layout, self.mapping)
        return decoded

    def _find_changes(self, decoded: Decoded) -> None:
        media, *children = self._schemas
        read_columns(self._db, decoded.layout, children)
        columns = columns_select(media, decoded.layout.media.cells)
        self._db.execute(_DECODED.format(columns=columns))
        self._db.execute(_TO_COMPARE)
        self._is_any_to_compare = bool(value(self._db, "SELECT EXISTS (FROM media_to_compare)"))
        if not self._is_any_to_compare:
            self._db.execute(_ALL_CHANGED)
            return
        of_children = hashes_of_children(
            children,
            self.mapping,
            lambda schema: f"FROM {decoded_children(schema)} SEMI JOIN media_to_compare USING (order_key)",
            "order_key",
        )
        content = content_of(media, self.mapping, "d", overflow_of("d"), "coalesce(c.content, 0)")
        counts = counts_hash(media, self.mapping, "d", "coalesce(c.counts, 0)")
        self._db.execute(_HASHES.format(content=content, counts=counts, children=of_children))
        wanted = f"SELECT DISTINCT {_KEY}, stored FROM media_to_compare WHERE stored IS NOT NULL"  # noqa: S608
        self._db.execute(_CHANGED_KEYS.format(stored=hashes_of_stored(media, children, self.mapping, wanted)))
        self._db.execute(_CHANGED_ITEMS)

    def merge_slice(self, *, is_first: bool) -> None:
        """Merge the pages of the slice."""
        media, *children = self._schemas
        run = self._db.execute
        if not is_first:
            run(_STORED)
        run(_TO_WRITE)
        if self._is_any_to_compare:
            merge_addresses(self._connection, self.mapping, media, children)
        [(written, stored, revised)] = run(_HOW_MANY).fetchall()
        if not written:
            return
        if revised:
            merge_history(self._connection, self.mapping, media, children)
        else:
            merge_first_counts(self._connection, media)
        merge_children(self._connection, children, are_stored=bool(stored))
        newest = addresses(media, self.mapping)
        names = "".join(f", {'a' if each.name in newest else 'r'}.{quoted(each.name)}" for each in media.columns)
        line = {"begun": "l.content_changed_at, ", "line": _CONTENT_CHANGES} if revised else {"begun": "", "line": ""}
        returned = "INSERT INTO core.media BY NAME SELECT * FROM media_returned"
        replaced = (_RETURNED, _DELETE, returned) if stored else ()
        for statement in (*replaced, _INSERT.format(columns=names, **line)):
            run(statement)
