"""Stores rejected records in quarantine: one row for each, however often it is received."""

from connectors.warehouse.ingest.landing.frames import POSITION_BITS
from connectors.warehouse.merge.merge_batch import MediaItems, MergeBatch
from connectors.warehouse.merge.signed_urls import unsigned
from connectors.warehouse.storage.quoting import literal
from models.schema.mapping import Mapping

_MET = """
SELECT
    r.reason, f.resource, f.account_id, f.surface, f.page, r.position, r.payload, f.run_id, f.correlation_id,
    f.received_at AS seen_at, f.seq
FROM rejected_records AS r JOIN pages AS f USING (seq)
UNION ALL
SELECT
    'The page is not JSON.', resource, account_id, surface, page, NULL, u.body, run_id, correlation_id, received_at, seq
FROM pages JOIN unreadable AS u USING (seq)
"""
_MET_ITEMS = f"""
UNION ALL
SELECT
    'The item has no id that gramhouse knows.', 'media', s.account_id, s.surface, f.page,
    order_key & {(1 << POSITION_BITS) - 1}, payload, f.run_id, f.correlation_id, s.received_at, seq
FROM {{sightings}} AS s JOIN {{payloads}} USING (order_key) JOIN pages AS f USING (seq)
WHERE s.media_id IS NULL
  AND (seq, order_key & {(1 << POSITION_BITS) - 1}) NOT IN (
      SELECT (seq, position) FROM rejected_records WHERE position IS NOT NULL
  )
"""  # noqa: S608 - constants

_SAME = "reason, resource, account_id, surface, digest"


def _matches(one: str) -> str:
    return " AND ".join(f"{one}.{name} = q.{name}" for name in _SAME.split(", "))


# Rows without a digest, of another mapping; they may contain the same record several times.
_UNIDENTIFIED = "SELECT EXISTS (FROM core.quarantine WHERE digest IS NULL)"
_TWICE = f"""
SELECT {_SAME}, arg_min(rowid, (seen_at, page, position)) AS first, max(last_seen_at) AS last_seen_at
FROM core.quarantine GROUP BY {_SAME} HAVING count(*) > 1
"""  # noqa: S608 - constant names
_MERGE = (
    f"DELETE FROM core.quarantine AS q USING {{twice}} AS t WHERE {_matches('t')} AND q.rowid <> t.first",  # noqa: S608
    f"UPDATE core.quarantine AS q SET last_seen_at = t.last_seen_at FROM {{twice}} AS t WHERE {_matches('t')}",  # noqa: S608
)

_REJECTED_RECORDS = f"""
WITH identified AS (SELECT *, {{digest}} AS digest FROM {{met}})
SELECT * EXCLUDE (seq), max(seen_at) OVER (PARTITION BY {_SAME}) AS last_seen_at FROM identified
QUALIFY row_number() OVER (PARTITION BY {_SAME} ORDER BY seq, position) = 1
"""  # noqa: S608
_STORE = (
    f"""
UPDATE core.quarantine AS q SET last_seen_at = greatest(q.last_seen_at, s.last_seen_at)
FROM {{new}} AS s WHERE {_matches("s")}
""",  # noqa: S608
    f"DELETE FROM {{new}} AS s WHERE EXISTS (FROM core.quarantine AS q WHERE {_matches('s')})",  # noqa: S608
    "INSERT INTO core.quarantine BY NAME SELECT * FROM {new}",
)


def _content_text(mapping: Mapping) -> str:
    """Return the expression of a payload's text without counts and the queries of signed URLs.

    Quotes within JSON strings are escaped, so a match of a key with a number is never inside of a string.
    """
    key, count = f'"{mapping.count_key_pattern}":', "-?[0-9]+(?:\\.0+)?"
    pair = f'{key}(?:{count}|"{count}"|null)'
    # Numbers with a fraction are not counts: the first alternative keeps them.
    fraction = f"(,?{key}-?[0-9]+(?:\\.[0-9]*[1-9]|(?:\\.[0-9]+)?[eE]))"
    text = unsigned("payload::VARCHAR", mapping)
    return f"regexp_replace({text}, {literal(f'{fraction}|,{pair}|{pair},?')}, '\\1', 'g')"


def _digest(text: str) -> str:
    """Return the expression of a text's digest, a BIGINT."""
    return f"(md5_number_lower({text}) >> 1)::BIGINT"


def collect_rejected(batch: MergeBatch, mapping: Mapping, items: MediaItems | None) -> str:
    """Store the rejected records of the batch in quarantine; return a relation with the new ones (`run_id`).

    They are rejected records, unreadable pages, and items without an id.

    Records are the same if their account, surface, reason and content are equal; the position on the page does not
    matter. The content does not include counts and the queries of signed URLs, because with these an item without an id
    would be a new record in every sync. A record that is in quarantine already only gets a later `last_seen_at`;
    payload, page, position, run and correlation id are those of the first time.
    """
    if items is None or items.rejected_payloads is None:
        met = batch.table("quarantine_met", _MET)
    else:
        met = batch.table(
            "quarantine_met", _MET + _MET_ITEMS, sightings=items.sightings, payloads=items.rejected_payloads
        )
    same = _digest(_content_text(mapping))
    if batch.is_any(met) and batch.value(_UNIDENTIFIED):
        batch.run("UPDATE core.quarantine SET digest = {same} WHERE digest IS NULL", same=same)
        batch.run(*_MERGE, twice=batch.table("quarantine_twice", _TWICE))
    rejected = batch.table("rejected", _REJECTED_RECORDS, digest=same, met=met)
    batch.run(*_STORE, new=rejected)
    return rejected
