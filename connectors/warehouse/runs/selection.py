"""Selects the accounts that a backfill scans, with the same SQL for the warehouse and the snapshot."""

import json
from collections.abc import Mapping, Sequence

from connectors.warehouse.runs.account_names import NAMES, as_name
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.feed_items import Ask, feed_items
from connectors.warehouse.storage.statements import statements
from models.feeds import SURFACES
from models.selection import ChosenAccount, Selection, SelectionError
from models.text import one_line

_SQL = statements(__name__)

# The most unknown accounts that the message names, to keep it readable.
_MOST_NAMED = 5

# By partition, not by run: a backfill of one account must not hide what the last sync left incomplete.
_INCOMPLETE = """
SELECT o.resource, o.account_id, o.surface
FROM {schema}run_outcomes AS o JOIN {schema}runs AS r USING (run_id)
GROUP BY o.resource, o.account_id, o.surface
HAVING arg_max(o.outcome, r.seq) IN ('deferred', 'denied', 'not_found', 'failed')
"""

_LEFT_INCOMPLETE = f"""
SELECT count(*) FILTER (resource = 'accounts') AS catalogue, count(*) FILTER (surface <> '') AS media
FROM ({_INCOMPLETE})
"""  # noqa: S608 - constant names


def asking(connection: Connection) -> Ask:
    """Return a function that queries the warehouse."""
    return lambda query, values: connection.db.execute(query, values).fetchall()


def choose(
    ask: Ask, schema: str, selection: Selection, page_size: int, *, scan_expired: bool = False
) -> tuple[ChosenAccount, ...]:
    """Return the accounts of a selection, ordered by name, each once; empty if none matches.

    `schema` is "core." if `ask` queries the warehouse, "" if it queries the snapshot. Accounts with an expired token
    are skipped by a run, so no requests are estimated for them unless `scan_expired`.

    Raises SelectionError if a named account does not exist, is ambiguous or was removed, or, for `selection.failed`, if
    only the account catalogue is incomplete.
    """
    named = _named(ask, schema, selection.accounts)
    if selection.failed:
        _refuse_catalogue(ask, schema)
    rows = ask(
        _SQL["choose"].format(
            schema=schema,
            incomplete=_INCOMPLETE.format(schema=schema),
            items=feed_items(ask, "account_id, surface, removed_at"),
        ),
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


def chosen(connection: Connection, selection: Selection, page_size: int) -> tuple[ChosenAccount, ...]:
    """Return the accounts of a selection in the warehouse; raises as `choose` does."""
    return choose(asking(connection), "core.", selection, page_size)


def _named(ask: Ask, schema: str, accounts: Sequence[str]) -> list[str]:
    typed = {as_name(text): text for text in accounts}
    if not typed:
        return []
    query = _SQL["find"].format(schema=schema, names=NAMES)
    found: Mapping[str, list[str]] = dict(ask(query, (json.dumps([*typed]),)))
    if wrong := {text: found.get(name) for name, text in typed.items() if len(found.get(name, ())) != 1}:
        raise SelectionError(_message(wrong))
    return [account_id for (account_id,) in found.values()]


def _message(wrong: Mapping[str, list[str] | None]) -> str:
    shown = [(f"'{one_line(text)}'", found) for text, found in wrong.items()][:_MOST_NAMED]
    absent = [text for text, found in shown if found is None]
    several = [text for text, found in shown if found]
    gone = [text for text, found in shown if found == []]
    parts = [
        *([f"there is no account {' or '.join(absent)} in the warehouse"] if absent else ()),
        *([f"more than one account is named {' or '.join(several)}"] if several else ()),
        *([f"{' and '.join(gone)} left the catalogue"] if gone else ()),
        *([f"and {len(wrong) - _MOST_NAMED:,} more are unknown"] if len(wrong) > _MOST_NAMED else ()),
    ]
    what = ", ".join(parts)
    return (
        f"{what[0].upper()}{what[1:]}. Fix: `gramhouse accounts` lists all with their ids, and a sync finds new ones."
    )


def _refuse_catalogue(ask: Ask, schema: str) -> None:
    ((catalogue, media),) = ask(_LEFT_INCOMPLETE.format(schema=schema), ())
    if catalogue and not media:
        raise SelectionError("The account catalogue could not be fetched by the last run. Fix: run `gramhouse sync`.")
