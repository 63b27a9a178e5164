"""Selects the accounts that a backfill scans, with the same SQL for the warehouse and the snapshot."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from connectors.warehouse.storage.quoting import quoted
from models.api import one_line
from models.partition import SURFACES
from models.selection import ChosenAccount, Selection, SelectionError

# Runs DuckDB's SQL with the values of $1, $2 ...
Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

# The message names this many unknown accounts: with a thousand, the list itself is wrong.
_MOST_NAMED = 5

# An id as it is written wins over one in another case, and that over a username.
_FIND = """
WITH typed AS (
    SELECT DISTINCT unnest(from_json($1, '["VARCHAR"]')) AS name
),
found AS (
    SELECT t.name, 1 AS rank, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}.accounts AS a ON a.account_id = t.name
    UNION ALL
    SELECT t.name, 2, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}.accounts AS a ON lower(a.account_id) = lower(t.name)
    UNION ALL
    SELECT t.name, 3, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}.accounts AS a ON lower(a.ig_username) = lower(regexp_replace(t.name, '^@', ''))
),
best AS (
    SELECT name, account_id, removed_at FROM found QUALIFY rank = min(rank) OVER (PARTITION BY name)
)
SELECT name, list(account_id) FILTER (removed_at IS NULL) AS listed FROM best GROUP BY name
"""

# By partition, not by run: a backfill of one account must not hide what the last sync left incomplete.
_INCOMPLETE = """
SELECT o.resource, o.account_id, o.surface
FROM {schema}.run_outcomes AS o JOIN {schema}.runs AS r USING (run_id)
GROUP BY o.resource, o.account_id, o.surface
HAVING arg_max(o.outcome, r.seq) IN ('deferred', 'denied', 'not_found', 'failed')
"""

_LEFT_INCOMPLETE = f"""
SELECT count(*) FILTER (resource = 'accounts') AS catalogue, count(*) FILTER (resource = 'media') AS media
FROM ({_INCOMPLETE})
"""  # noqa: S608 - our own names

_CHOOSE = """
WITH surfaces AS (
    SELECT unnest(from_json($1, '["VARCHAR"]')) AS surface
),
present AS (
    SELECT account_id, ig_username, status = 'token_expired' AS expired
    FROM {schema}.accounts WHERE removed_at IS NULL
),
whole AS (
    SELECT account_id FROM present WHERE $3::BOOLEAN
    UNION
    SELECT unnest(from_json($2, '["VARCHAR"]'))
    UNION
    SELECT account_id FROM {schema}.account_status_history
    WHERE $4::TIMESTAMPTZ IS NOT NULL AND status = 'token_expired'
      AND (valid_to IS NULL OR valid_to >= $4::TIMESTAMPTZ)
),
wanted AS (
    SELECT account_id, surface FROM whole CROSS JOIN surfaces
    UNION
    SELECT account_id, surface FROM ({incomplete}) SEMI JOIN surfaces USING (surface)
    WHERE $5::BOOLEAN AND resource = 'media'
),
known AS (
    SELECT account_id, surface, count(*) AS items
    FROM {schema}.media SEMI JOIN wanted USING (account_id, surface)
    WHERE removed_at IS NULL
    GROUP BY account_id, surface
)
SELECT
    p.account_id, p.ig_username, p.expired, list(w.surface) AS surfaces,
    sum(CASE WHEN p.expired AND NOT $7::BOOLEAN THEN 0
             ELSE greatest(1, ceil(coalesce(k.items, 0) / $6::BIGINT)) END)::BIGINT AS pages
FROM present AS p
JOIN wanted AS w USING (account_id)
LEFT JOIN known AS k USING (account_id, surface)
GROUP BY p.account_id, p.ig_username, p.expired
ORDER BY p.ig_username, p.account_id
"""


def asking(connection: Connection) -> Ask:
    """Return what asks the warehouse."""

    def ask(query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.exec_driver_sql(query, tuple(values))]

    return ask


def choose(
    ask: Ask, schema: str, selection: Selection, page_size: int, *, scan_expired: bool = False
) -> tuple[ChosenAccount, ...]:
    """Return the accounts of a selection, by name, each once; none when nothing fits it.

    `schema` is "core" where `ask` asks the warehouse and "main" where it asks the snapshot. Media of expired accounts
    are skipped, so they take no request unless `scan_expired`.

    Raises SelectionError when an account that is named is not there, and when all that the last run left incomplete is
    the list of accounts.
    """
    database = quoted(schema)
    named = _named(ask, database, selection.accounts)
    if selection.failed:
        _refuse_catalogue(ask, database)
    rows = ask(
        _CHOOSE.format(schema=database, incomplete=_INCOMPLETE.format(schema=database)),
        (
            json.dumps(selection.surfaces),
            json.dumps(named),
            selection.everything,
            selection.expired_since,
            selection.failed,
            page_size,
            scan_expired,
        ),
    )
    return tuple(
        ChosenAccount(account_id, name, expired, tuple(one for one in SURFACES if one in surfaces), int(pages))
        for account_id, name, expired, surfaces, pages in rows
    )


def chosen(
    connection: Connection, selection: Selection, page_size: int, *, scan_expired: bool = False
) -> tuple[ChosenAccount, ...]:
    """Return the accounts of a selection that the warehouse holds; raises as `choose` does."""
    return choose(asking(connection), "core", selection, page_size, scan_expired=scan_expired)


def _named(ask: Ask, schema: str, accounts: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in accounts))
    if not names:
        return []
    found: Mapping[str, list[str] | None] = dict(ask(_FIND.format(schema=schema), (json.dumps(names),)))
    if wrong := [name for name in names if len(found.get(name) or ()) != 1]:
        raise SelectionError(_message(wrong, found))
    return [account_id for listed in found.values() for account_id in listed or ()]


def _message(wrong: Sequence[str], found: Mapping[str, list[str] | None]) -> str:
    absent: list[str] = []
    several: list[str] = []
    gone: list[str] = []
    for name in wrong[:_MOST_NAMED]:
        kind = absent if name not in found else several if found[name] else gone
        kind.append(f"'{one_line(name)}'")
    parts = [
        *([f"there is no account {' or '.join(absent)} in the warehouse"] if absent else ()),
        *([f"more than one account is named {' or '.join(several)}"] if several else ()),
        *([f"{' and '.join(gone)} left the catalogue"] if gone else ()),
        *([f"and {len(wrong) - _MOST_NAMED:,} more are unknown"] if len(wrong) > _MOST_NAMED else ()),
    ]
    what = ", ".join(parts)
    return f"{what[0].upper()}{what[1:]}: `gramhouse accounts` lists them with their ids, and a sync finds new ones."


def _refuse_catalogue(ask: Ask, schema: str) -> None:
    ((catalogue, media),) = ask(_LEFT_INCOMPLETE.format(schema=schema), ())
    if catalogue and not media:
        message = "The account catalogue could not be fetched by the last run. Fix: run `gramhouse sync`."
        raise SelectionError(message)
