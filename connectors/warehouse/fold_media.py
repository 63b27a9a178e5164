"""Folding pages of media: items as last seen, rewritten only where they changed."""

from collections.abc import Sequence

from sqlalchemy import Connection

from models.mapping import MEDIA_COLUMNS, MEDIA_ID_PATHS, VOLATILE_URL_PATTERN, ColumnMapping, Reading

_READINGS = {
    Reading.TEXT: "{0}",
    # A count may come as a number, or as a string that holds one.
    Reading.COUNT: "TRY_CAST({0} AS BIGINT)",
    # ISO 8601 with Z, +00:00 or +0000; seconds or milliseconds since 1970. What Python's years 1 to 9999 do not
    # hold is none: DuckDB knows infinity and years before Christ, and cannot compute with the one.
    Reading.TIMESTAMP: (
        "CASE WHEN regexp_full_match({0}, '-?[0-9]{{1,10}}(\\.[0-9]+)?') THEN to_timestamp(TRY_CAST({0} AS DOUBLE))"
        " WHEN regexp_full_match({0}, '[0-9]{{12,14}}') THEN to_timestamp(TRY_CAST({0} AS DOUBLE) / 1000)"
        " WHEN TRY_CAST({0} AS TIMESTAMPTZ) BETWEEN TIMESTAMPTZ '0001-01-02 00:00:00+00'"
        " AND TIMESTAMPTZ '9999-12-30 00:00:00+00' THEN TRY_CAST({0} AS TIMESTAMPTZ) END"
    ),
}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _column(mapping: ColumnMapping, first: int) -> str:
    reading = _READINGS[mapping.reading]
    candidates = [reading.format(f"found[{first + offset}]") for offset in range(len(mapping.paths))]
    return f"coalesce({', '.join(candidates)}) AS {mapping.column}"


def _id(place: int) -> str:
    # An object or a list is no id, and neither is empty text.
    return f"CASE WHEN left(found[{place}], 1) NOT IN ('', '{{', '[') THEN found[{place}] END"


def sightings_sql(columns: Sequence[ColumnMapping] = MEDIA_COLUMNS) -> str:
    """Return the statement that reads the staged items into columns; all paths of an item in one parse."""
    paths = list(MEDIA_ID_PATHS)
    readings: list[str] = []
    for mapping in columns:
        readings.append(_column(mapping, len(paths) + 1))
        paths.extend(mapping.paths)
    path_list = "[" + ", ".join(_quoted(path) for path in paths) + "]"
    stable = f"regexp_replace(payload::VARCHAR, {_quoted(VOLATILE_URL_PATTERN)}, '\\1', 'g')"
    ids = ", ".join(_id(place) for place in range(1, len(MEDIA_ID_PATHS) + 1))
    return f"""
CREATE OR REPLACE TEMP TABLE media_sightings AS
WITH pages AS (
    SELECT *, from_json(body, '{{"items":["JSON"]}}').items AS page_items FROM folding WHERE resource = 'media'
),
records AS (
    SELECT
        seq, walk_id, run_id, account_id, surface, page, correlation_id, received_at,
        unnest(page_items) AS payload, generate_subscripts(page_items, 1) - 1 AS position
    FROM pages
),
found AS (
    SELECT *, json_extract_string(payload, {path_list}) AS found FROM records
)
SELECT
    seq, position, walk_id, run_id, account_id, surface, page, correlation_id, received_at, payload,
    coalesce({ids}) AS media_id,
    (md5_number_lower({stable}) >> 1)::BIGINT AS digest,
    {", ".join(readings)}
FROM found
"""  # noqa: S608 - made of the mapping's paths, quoted


_NAMES = ", ".join(mapping.column for mapping in MEDIA_COLUMNS)

# What a sighting is compared with is the sighting before it, and only the first with what is stored: so the
# result does not depend on how the pages were cut into folds.
_VERSIONS = """
CREATE OR REPLACE TEMP TABLE media_versions AS
SELECT
    s.seq, s.position, s.account_id, s.surface, s.media_id, s.received_at,
    m.digest IS NULL AS is_new, m.removed_at IS NOT NULL AS was_removed,
    m.first_seen_at, m.changed_at,
    s.digest IS DISTINCT FROM coalesce(lag(s.digest) OVER item, m.digest) AS differs
FROM media_sightings AS s
LEFT JOIN core.media AS m USING (account_id, surface, media_id)
WHERE s.media_id IS NOT NULL
WINDOW item AS (PARTITION BY s.account_id, s.surface, s.media_id ORDER BY s.seq, s.position)
"""

# The row is written from the last sighting that said something else; from the first one where it only came back.
_TOUCHED = """
CREATE OR REPLACE TEMP TABLE media_touched AS
SELECT
    account_id, surface, media_id,
    bool_or(is_new) AS is_new, bool_or(was_removed) AS was_removed,
    coalesce(any_value(first_seen_at), arg_min(received_at, (seq, position))) AS first_seen_at,
    coalesce(arg_max(received_at, (seq, position)) FILTER (differs), any_value(changed_at)) AS changed_at,
    coalesce(arg_max(seq, (seq, position)) FILTER (differs), min(seq)) AS seq,
    coalesce(
        arg_max(position, (seq, position)) FILTER (differs), arg_min(position, (seq, position))
    ) AS position
FROM media_versions
GROUP BY account_id, surface, media_id
HAVING bool_or(differs) OR bool_or(was_removed)
"""

_DELETE = """
DELETE FROM core.media USING media_touched AS t
WHERE NOT t.is_new
  AND media.account_id = t.account_id AND media.surface = t.surface AND media.media_id = t.media_id
"""

_INSERT = f"""
INSERT INTO core.media BY NAME
SELECT
    s.account_id, s.surface, s.media_id, {_NAMES}, s.payload, s.digest,
    t.first_seen_at, s.received_at AS written_at, t.changed_at, t.changed_at AS content_changed_at,
    NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal
FROM media_touched AS t
JOIN media_sightings AS s ON s.seq = t.seq AND s.position = t.position
ORDER BY s.account_id, s.surface, s.published_at
"""  # noqa: S608

_COUNT = """
SELECT
    count(*) FILTER (is_new) AS added,
    count(*) FILTER (was_removed) AS returned,
    count(*) FILTER (NOT is_new AND NOT was_removed) AS changed
FROM media_touched
"""


def fold_media(connection: Connection) -> dict[str, int]:
    """Fold the media pages among `folding`; return how many items were added, changed and returned."""
    for statement in (sightings_sql(), _VERSIONS, _TOUCHED, _DELETE, _INSERT):
        connection.exec_driver_sql(statement)
    return {name: int(value) for name, value in connection.exec_driver_sql(_COUNT).mappings().one().items()}
