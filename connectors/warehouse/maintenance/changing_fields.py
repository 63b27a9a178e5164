"""Finds a field that alone changes most items in every sync, such as the time of the response."""

import json
from bisect import bisect_right
from collections import Counter

from connectors.warehouse.raw.parts import live_parts, sources
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import of_all_items
from models.pointer import to_pointer
from models.runs import RunWarning
from models.schema.any_json import parse
from models.schema.differences import differing_fields

CODE = "items_changed_by_one_field"

_SYNCS = 3
_FEWEST_ITEMS = 3
_MOST_ITEMS = 200

# Syncs of the same surfaces: those of others, such as stories every six hours, receive other items.
_STARTS = f"""
SELECT started_at FROM core.runs WHERE kind = 'sync' AND state IN ('running', 'complete', 'partial')
AND selection IS NOT DISTINCT FROM (SELECT selection FROM core.runs WHERE run_id = $run_id)
ORDER BY seq DESC LIMIT {_SYNCS}
"""  # noqa: S608 - a constant

_CHANGED = f"""
SELECT
    count(*) FILTER (content_changed_at >= $now AND first_seen_at < $now),
    (SELECT items FROM core.run_counts WHERE run_id = $run_id)
FROM ({of_all_items("content_changed_at, first_seen_at")})
"""  # noqa: S608 - declared names

_OF_ITEM = "account_id, surface, media_id, raw_landed, first_seen_at, content_changed_at"

# The versions of some items that began in these syncs, each with the one before it.
_VERSIONS = f"""
WITH examined AS (
    SELECT account_id, surface, media_id, raw_landed, content_changed_at FROM ({of_all_items(_OF_ITEM)})
    WHERE content_changed_at >= $now AND first_seen_at < $first
    ORDER BY hash(account_id, surface, media_id) LIMIT {_MOST_ITEMS}
)
SELECT
    (SELECT count(*) FROM examined), valid_from, raw_landed,
    lag(raw_landed) OVER (PARTITION BY account_id, surface, media_id ORDER BY valid_from) AS before
FROM (
    SELECT account_id, surface, media_id, raw_landed, content_changed_at AS valid_from FROM examined
    UNION ALL
    SELECT account_id, surface, media_id, s.raw_landed, valid_from
    FROM ({of_all_items("account_id, surface, media_id, raw_landed, valid_from, valid_to", "_superseded")}) AS s
    SEMI JOIN examined USING (account_id, surface, media_id) WHERE valid_to >= $first
)
WHERE raw_landed IS NOT NULL
QUALIFY before IS NOT NULL AND valid_from >= $first
"""  # noqa: S608 - a constant


def one_field_changes_most(connection: Connection, run_id: str, *, accounts: int) -> RunWarning | None:
    """Return a warning that names a field that alone changed most items in the last three syncs of these surfaces.

    `accounts` is the number of accounts that the run listed. At most 200 of the changed items are examined, and none
    unless the content of most received items changed. Raises WarehouseUnusable if a part of the raw store is damaged.
    """
    starts = sorted(at for (at,) in connection.db.execute(_STARTS, {"run_id": run_id}).fetchall())
    if len(starts) < _SYNCS:
        return None
    times = {"first": starts[0], "now": starts[-1]}
    [(changed, received)] = connection.db.execute(_CHANGED, {"now": starts[-1], "run_id": run_id}).fetchall()
    if received is None or changed < _FEWEST_ITEMS or 2 * changed <= received - accounts:
        return None
    versions = connection.db.execute(_VERSIONS, times).fetchall()
    payloads = _payloads(connection, {landed for _, _, *both in versions for landed in both})
    mapping = read_mapping(connection)
    alone: list[Counter[tuple[str, ...]]] = [Counter() for _ in starts]
    for _, began, after, before in versions:
        try:
            fields = differing_fields(parse(payloads[before]), parse(payloads[after]), mapping)
        except (KeyError, RecursionError):
            # Forgotten by the retention, or nested too deep.
            continue
        if len(fields) == 1:
            alone[bisect_right(starts, began) - 1].update(fields)
    examined = versions[0][0] if versions else 0
    most = {keys for keys, items in alone[-1].items() if all(2 * run[keys] > examined for run in alone)}
    for keys in most:
        name = ".".join(keys) if not any({".", "*"} & set(key) for key in keys) else to_pointer(keys)
        return RunWarning(
            CODE,
            alone[-1][keys],
            f"In each of the last {_SYNCS} syncs, {name} alone changed most items, and each of them got a new version.",
            hint=f"if this is no change of an item, set ignore = {json.dumps([name], ensure_ascii=False)} under"
            " [mapping] in gramhouse.toml; if it is a signed URL, add its parameter to volatile_parameters there",
        )
    return None


def _payloads(connection: Connection, landed: set[int]) -> dict[int, str]:
    parts = [
        part
        for part in live_parts(connection)
        if any(part.first_landed <= number <= part.last_landed for number in landed)
    ]
    if not parts:
        return {}
    query = f"SELECT landed, payload FROM {sources(connection, parts)} WHERE list_contains(?, landed)"  # noqa: S608
    return dict(connection.db.execute(query, [sorted(landed)]).fetchall())
