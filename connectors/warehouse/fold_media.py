"""Folding pages of media: items as last seen, rewritten only where they changed."""

from sqlalchemy import Connection

from connectors.warehouse.alterations import alter
from connectors.warehouse.discovery import discover
from connectors.warehouse.field_registry import own_names, read_mapping, read_registry, write_registry
from connectors.warehouse.fold_children import fold_children
from connectors.warehouse.fold_history import fold_history
from connectors.warehouse.quoting import quoted
from connectors.warehouse.readings import (
    Found,
    content_text,
    counts_read,
    digest,
    path_list,
    sheet_select,
    stable_text,
)
from models.mapping import Mapping
from models.sheets import Sheet, sheets


def _id(place: int) -> str:
    # An object or a list is no id, and neither is empty text.
    return f"CASE WHEN left(ids[{place}], 1) NOT IN ('', '{{', '[') THEN ids[{place}] END"


def media_id_of(mapping: Mapping) -> str:
    """Return the expression of an item's id, out of `ids`: the texts at the mapping's paths to it, in their order."""
    return f"coalesce({', '.join(_id(place) for place in range(1, len(mapping.media_id) + 1))})"


def records_sql(mapping: Mapping) -> str:
    """Return the statement that takes the staged pages apart into items, each with its id and its digest."""
    return f"""
CREATE OR REPLACE TEMP TABLE media_records AS
WITH pages AS (
    SELECT *, from_json(body, '{{"items":["JSON"]}}').items AS page_items
    FROM ops.staging WHERE resource = 'media' AND json_valid(body)
),
records AS (
    SELECT
        seq, walk_id, run_id, account_id, surface, page, correlation_id, received_at,
        unnest(page_items) AS payload, generate_subscripts(page_items, 1) - 1 AS position
    FROM pages
),
found AS (
    SELECT *, json_extract_string(payload, {path_list(mapping.media_id)}) AS ids FROM records
)
SELECT * EXCLUDE (ids), {media_id_of(mapping)} AS media_id, {digest(stable_text(mapping))} AS digest FROM found
"""  # noqa: S608 - made of the mapping's paths, quoted


# What a sighting is compared with is the sighting before it, and only the first with what is stored: so the
# result does not depend on how the pages were cut into folds.
_NEWS = """
CREATE OR REPLACE TEMP TABLE media_news AS
WITH compared AS (
    SELECT s.seq, s.position, s.digest, coalesce(lag(s.digest) OVER item, m.digest) AS before
    FROM media_records AS s
    LEFT JOIN core.media AS m USING (account_id, surface, media_id)
    WHERE s.media_id IS NOT NULL
    WINDOW item AS (PARTITION BY s.account_id, s.surface, s.media_id ORDER BY s.seq, s.position)
)
SELECT r.seq, r.position, r.account_id, r.surface, r.media_id, r.received_at, r.payload, r.digest
FROM compared AS c JOIN media_records AS r USING (seq, position)
WHERE c.digest IS DISTINCT FROM c.before
"""

# Beside the columns of `media` stand the fold's own, with names that no discovered field is given.
_READ = """
CREATE OR REPLACE TEMP TABLE media_read AS
SELECT
    seq AS _seq, position AS _position, received_at AS _received_at, {counts} AS _counts, account_id, surface, media_id,
    payload, digest, {content} AS content_digest{columns}
FROM (SELECT *, {lookup} FROM media_news)
"""

_SIGHTINGS = """
CREATE OR REPLACE TEMP VIEW media_sightings AS
SELECT * FROM media_records WHERE seq > getvariable('slice_begin') AND seq <= getvariable('slice_end')
"""

# Rows that are written: from the last sighting that said something else, or the old one where an item only came back.
_TOUCHED = """
CREATE OR REPLACE TEMP TABLE media_touched AS
WITH seen AS (
    SELECT account_id, surface, media_id, arg_min(received_at, (seq, position)) AS first_received_at
    FROM media_sightings WHERE media_id IS NOT NULL
    GROUP BY account_id, surface, media_id
),
news AS (
    SELECT
        account_id, surface, media_id, count(*) AS news, arg_max(_received_at, (_seq, _position)) AS changed_at,
        arg_max(_seq, (_seq, _position)) AS seq, arg_max(_position, (_seq, _position)) AS position
    FROM media_read WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
)
SELECT
    s.account_id, s.surface, s.media_id,
    m.media_id IS NULL AS is_new, m.removed_at IS NOT NULL AS was_removed,
    coalesce(m.first_seen_at, s.first_received_at) AS first_seen_at, s.first_received_at AS returned_at,
    m.content_changed_at, m.content_digest, coalesce(n.news, 0) AS news, n.changed_at, n.seq, n.position
FROM seen AS s
LEFT JOIN news AS n USING (account_id, surface, media_id)
LEFT JOIN core.media AS m USING (account_id, surface, media_id)
WHERE n.news IS NOT NULL OR m.removed_at IS NOT NULL
"""

_RETURNED = """
CREATE OR REPLACE TEMP TABLE media_returned AS
SELECT m.* REPLACE (
    t.returned_at AS written_at, NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
)
FROM core.media AS m JOIN media_touched AS t USING (account_id, surface, media_id)
WHERE t.news = 0
"""

_DELETE = """
DELETE FROM core.media USING media_touched AS t
WHERE NOT t.is_new
  AND media.account_id = t.account_id AND media.surface = t.surface AND media.media_id = t.media_id
"""

_INSERT = """
INSERT INTO core.media BY NAME
SELECT
    t.account_id, t.surface, t.media_id{columns}, r.payload, r.digest, r.content_digest,
    t.first_seen_at, r._received_at AS written_at, t.changed_at,
    coalesce(l.content_changed_at, t.content_changed_at) AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM media_touched AS t
JOIN media_read AS r ON r._seq = t.seq AND r._position = t.position
LEFT JOIN (
    SELECT account_id, surface, media_id, max(seen_at) AS content_changed_at
    FROM media_line WHERE begins AND seq >= 0
    GROUP BY account_id, surface, media_id
) AS l ON l.account_id = t.account_id AND l.surface = t.surface AND l.media_id = t.media_id
ORDER BY t.account_id, t.surface, r.published_at
"""

_COUNT = """
SELECT
    count(*) FILTER (is_new) AS added,
    count(*) FILTER (was_removed) AS returned,
    count(*) FILTER (NOT is_new AND NOT was_removed) AS changed
FROM media_touched
"""


class MediaFold:
    """The media pages of one fold: read at once, then folded slice by slice.

    Reading comes first because it may alter tables, which DuckDB allows only before they are written to.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mapping = read_mapping(connection)
        self._sheets: tuple[Sheet, ...] = ()

    def read(self) -> None:
        """Take the staged pages apart, discover what their items carry, and read those that say something new."""
        run = self._connection.exec_driver_sql
        run(records_sql(self._mapping))
        run(_NEWS)
        run(_SIGHTINGS)
        known = read_registry(self._connection)
        registry = known
        if run("SELECT count(*) FROM media_news").scalar_one():
            own = own_names(self._mapping)
            registry = discover(self._connection, "SELECT * FROM media_news", self._mapping, known, own)
        self._sheets = sheets(self._mapping, registry)
        if registry != known:
            alter(self._connection, self._sheets, known, registry)
            write_registry(self._connection, registry, self._mapping)
        found = Found()
        media = self._sheets[0]
        columns = sheet_select(media, found)
        counts = counts_read(media.metrics, found)
        content = digest(content_text(self._mapping))
        run(_READ.format(content=content, counts=counts, columns=columns, lookup=found.lookup()))

    def fold_slice(self) -> dict[str, int]:
        """Fold the pages of the slice; return how many items were added, changed and returned."""
        media, *children = self._sheets
        run = self._connection.exec_driver_sql
        run(_TOUCHED)
        counts = {name: int(value) for name, value in run(_COUNT).mappings().one().items()}
        if not any(counts.values()):
            return counts
        fold_history(self._connection, self._mapping, media.metrics)
        fold_children(self._connection, children)
        names = "".join(f", r.{quoted(column.name)}" for column in media.columns)
        for statement in (
            _RETURNED,
            _DELETE,
            _INSERT.format(columns=names),
            "INSERT INTO core.media BY NAME SELECT * FROM media_returned",
        ):
            run(statement)
        return counts
