"""Folding pages of media: items as last seen, rewritten only where they changed."""

from sqlalchemy import Connection

from connectors.warehouse.alterations import alter
from connectors.warehouse.connection import duck, value
from connectors.warehouse.discovery import discover
from connectors.warehouse.field_registry import own_names, read_mapping, read_registry, write_registry
from connectors.warehouse.fold_children import fold_children
from connectors.warehouse.fold_history import fold_history
from connectors.warehouse.quoting import quoted
from connectors.warehouse.readings import (
    Found,
    counts_read,
    digest,
    sheet_select,
    stable_text,
)
from connectors.warehouse.taking_apart import items_sql
from models.mapping import Mapping
from models.sheets import Sheet, sheets

_MEDIA_PAGES = "FROM ops.staging WHERE resource = 'media' AND seq NOT IN (SELECT seq FROM unreadable)"

# What is stored of the items that were met: the narrow columns alone, for payloads are read only where they are needed.
_STORED = """
CREATE OR REPLACE TEMP TABLE media_stored AS
SELECT
    rowid AS stored, account_id, surface, media_id, digest, payload_hash, content_digest, first_seen_at,
    content_changed_at, removed_at
FROM core.media AS m
SEMI JOIN (FROM media_records WHERE media_id IS NOT NULL) AS r USING (account_id, surface, media_id)
"""


def suspects_sql(mapping: Mapping) -> str:
    """Return the statement that finds the sightings that may be news, each with its digest.

    A payload that is stored byte by byte is none, and need not be read, unless its item was met twice.
    """
    return f"""
CREATE OR REPLACE TEMP TABLE media_suspects AS
WITH repeated AS (
    SELECT hash(account_id, surface, media_id) AS item FROM media_records WHERE media_id IS NOT NULL
    GROUP BY item HAVING count(*) > 1
)
SELECT
    r.place, r.account_id, r.surface, r.media_id, {digest(stable_text(mapping))} AS digest,
    s.digest AS stored_digest, x.item IS NOT NULL AS again
FROM media_records AS r
LEFT JOIN media_stored AS s USING (account_id, surface, media_id)
LEFT JOIN repeated AS x ON x.item = hash(r.account_id, r.surface, r.media_id)
WHERE r.media_id IS NOT NULL AND (again OR s.payload_hash IS DISTINCT FROM r.payload_hash)
"""  # noqa: S608 - made of the mapping's parameters


# Sightings that say something else than the one before them. Only the first is compared with what is stored: so the
# result does not depend on how the pages were cut into folds. A statement of its own, or DuckDB would compute every
# item's digest to choose the suspects by it.
_NEWS = """
CREATE OR REPLACE TEMP TABLE media_news AS
SELECT place, digest FROM media_suspects WHERE NOT again AND digest IS DISTINCT FROM stored_digest
UNION ALL
SELECT place, digest
FROM (
    SELECT
        *, coalesce(
            lag(digest) OVER (PARTITION BY account_id, surface, media_id ORDER BY place), stored_digest
        ) AS before
    FROM media_suspects WHERE again
)
WHERE digest IS DISTINCT FROM before
"""

# Payloads stand in one table only: what is dropped in a transaction stays in memory until it ends.
_NEW_PAYLOADS = "SELECT payload, received_at, place FROM media_records SEMI JOIN media_news USING (place)"

# Beside the columns of `media` stand the fold's own, with names that no discovered field is given.
_READ = """
CREATE OR REPLACE TEMP TABLE media_read AS
SELECT
    seq AS _seq, place AS _place, received_at AS _received_at, {counts} AS _counts, account_id, surface, media_id,
    payload, digest, payload_hash{columns}
FROM (SELECT *, {lookup} FROM media_records JOIN media_news USING (place))
"""

_SIGHTINGS = """
CREATE OR REPLACE TEMP VIEW media_sightings AS
SELECT * FROM media_records WHERE seq > getvariable('slice_begin') AND seq <= getvariable('slice_end')
"""

# Rows that are written: from the last sighting that said something else, or the old one where an item only came back.
# The first sighting of an item that is not stored says something else than nothing. `first_place`: of the sighting that
# adds or returns it.
_TOUCHED = """
CREATE OR REPLACE TEMP TABLE media_touched AS
WITH news AS (
    SELECT
        account_id, surface, media_id, count(*) AS news, arg_min(_received_at, _place) AS first_received_at,
        min(_place) AS first_place, arg_max(_received_at, _place) AS changed_at, max(_place) AS place
    FROM media_read WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
),
back AS (
    SELECT
        s.stored, arg_min(r.received_at, r.place) AS returned_at, min(r.place) AS first_place, min(r.seq) AS first_seq
    FROM media_sightings AS r
    JOIN (FROM media_stored WHERE removed_at IS NOT NULL) AS s USING (account_id, surface, media_id)
    GROUP BY s.stored
)
SELECT
    n.account_id, n.surface, n.media_id, s.stored, s.stored IS NULL AS is_new, s.removed_at IS NOT NULL AS was_removed,
    coalesce(s.first_seen_at, n.first_received_at) AS first_seen_at, NULL::TIMESTAMPTZ AS returned_at,
    s.content_changed_at, s.content_digest, n.news, n.changed_at, n.place,
    if(s.stored IS NULL, n.first_place, b.first_place) AS first_place, NULL::BIGINT AS returned_seq
FROM news AS n
LEFT JOIN media_stored AS s USING (account_id, surface, media_id)
LEFT JOIN back AS b ON b.stored = s.stored
UNION ALL
SELECT
    s.account_id, s.surface, s.media_id, s.stored, false, true, s.first_seen_at, b.returned_at, s.content_changed_at,
    s.content_digest, 0, NULL, NULL, b.first_place, b.first_seq
FROM back AS b JOIN media_stored AS s USING (stored) ANTI JOIN news USING (account_id, surface, media_id)
"""

_RETURNED = """
CREATE OR REPLACE TEMP TABLE media_returned AS
SELECT m.* REPLACE (
    t.returned_at AS written_at, t.returned_seq AS written_seq, NULL::TIMESTAMPTZ AS removed_at,
    NULL::VARCHAR AS removal
)
FROM core.media AS m JOIN media_touched AS t ON m.rowid = t.stored
WHERE t.news = 0
"""

_DELETE = "DELETE FROM core.media WHERE rowid IN (SELECT stored FROM media_touched WHERE NOT is_new)"

_INSERT = """
INSERT INTO core.media BY NAME
SELECT
    t.account_id, t.surface, t.media_id{columns}, r.payload, r.digest, r.payload_hash, l.content_digest,
    t.first_seen_at, r._received_at AS written_at, r._seq AS written_seq, t.changed_at,
    coalesce(l.content_changed_at, t.content_changed_at, t.changed_at) AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM media_touched AS t
JOIN media_read AS r ON r._place = t.place
LEFT JOIN (
    SELECT
        account_id, surface, media_id, arg_max(seen_at, place) FILTER (begins) AS content_changed_at,
        arg_max(content_digest, place) AS content_digest
    FROM media_line WHERE place >= 0
    GROUP BY account_id, surface, media_id
) AS l ON l.account_id = t.account_id AND l.surface = t.surface AND l.media_id = t.media_id
ORDER BY t.account_id, t.surface, r.published_at
"""


class MediaFold:
    """The media pages of one fold: read at once, then folded slice by slice.

    Reading comes first because it may alter tables, which DuckDB allows only before they are written to.
    """

    def __init__(self, connection: Connection, items: str | None = None) -> None:
        """Begin; `items` is a table of what `items_sql` would make of the staged pages, if there is one already."""
        self._connection = connection
        self._items = items
        self.mapping = read_mapping(connection)
        self._sheets: tuple[Sheet, ...] = ()

    def read(self) -> None:
        """Take the staged pages apart, discover what their items carry, and read those that say something new."""
        db = duck(self._connection)
        run = db.execute
        if self._items is None:
            records = f"TABLE media_records AS {items_sql(self.mapping, _MEDIA_PAGES)}"
        else:
            records = f"VIEW media_records AS FROM {self._items}"
        run(f"CREATE OR REPLACE TEMP {records}")
        for statement in (_STORED, suspects_sql(self.mapping), _NEWS, _SIGHTINGS):
            run(statement)
        known = read_registry(self._connection)
        registry = known
        if value(db, "SELECT EXISTS (FROM media_news)"):
            own = own_names(self.mapping)
            registry = discover(self._connection, _NEW_PAYLOADS, self.mapping, known, own)
        self._sheets = sheets(self.mapping, registry)
        if registry != known:
            alter(self._connection, self._sheets, known, registry)
            write_registry(self._connection, registry, self.mapping)
            # Filling a column may have moved rows.
            run(_STORED)
        found = Found()
        media = self._sheets[0]
        columns = sheet_select(media, found)
        counts = counts_read(media.metrics, found)
        run(_READ.format(counts=counts, columns=columns, lookup=found.lookup()))

    def fold_slice(self, *, is_first: bool) -> None:
        """Fold the pages of the slice."""
        media, *children = self._sheets
        run = duck(self._connection).execute
        if not is_first:
            run(_STORED)
        run(_TOUCHED)
        if not run("SELECT EXISTS (FROM media_touched)").fetchall()[0][0]:
            return
        fold_history(self._connection, self.mapping, media.metrics)
        fold_children(self._connection, children)
        names = "".join(f", r.{quoted(column.name)}" for column in media.columns)
        for statement in (
            _RETURNED,
            _DELETE,
            _INSERT.format(columns=names),
            "INSERT INTO core.media BY NAME SELECT * FROM media_returned",
        ):
            run(statement)
