"""SQL that takes pages of media apart into items, each with its id and its place in the order."""

from connectors.warehouse.readings import path_list, payload_hash
from models.mapping import Mapping

# A body is bounded, and an item has two bytes or more: 64 MB hold less than 2^26 of them.
POSITION_BITS = 26


def _id(place: int) -> str:
    # An object or a list is no id, and neither is empty text.
    return f"CASE WHEN left(ids[{place}], 1) NOT IN ('', '{{', '[') THEN ids[{place}] END"


def media_id_of(mapping: Mapping) -> str:
    """Return the expression of an item's id, out of `ids`: the texts at the mapping's paths to it, in their order."""
    return f"coalesce({', '.join(_id(place) for place in range(1, len(mapping.media_id) + 1))})"


def items_sql(mapping: Mapping, pages: str) -> str:
    """Return the query of the items in `pages`, a query of staged pages of media that DuckDB can read.

    `place` orders sightings as (seq, position) does; comparing one number costs a fraction of comparing two.
    """
    return f"""
WITH pages AS (
    SELECT
        seq, walk_id, run_id, account_id, surface, page, correlation_id, received_at,
        from_json(body, '{{"items":["JSON"]}}').items AS page_items
    FROM ({pages})
),
records AS (
    SELECT
        * EXCLUDE (page_items), unnest(page_items) AS payload, unnest(range(len(page_items))) AS position
    FROM pages
),
found AS (
    SELECT *, json_extract_string(payload, {path_list(mapping.media_id)}) AS ids FROM records
)
SELECT
    * EXCLUDE (ids), {media_id_of(mapping)} AS media_id, {payload_hash("payload")} AS payload_hash,
    (seq << {POSITION_BITS}) + position AS place
FROM found
"""  # noqa: S608 - made of the mapping's paths, quoted
