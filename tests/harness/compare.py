"""Compares the snapshot and the raw store with the oracle, row by row."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from tests.harness.oracle import reading
from tests.harness.oracle.reading import COUNTS, TEXTS, canonical, time_of
from tests.harness.promises import Promises, Violation, require

Row = tuple[Any, ...]
Ask = Callable[[str], list[Row]]
_COLUMNS = (*TEXTS, "published_at")
_RUN = ("pages", "items", "accounts_removed", "added", "changed", "removed", "expired", "returned")
_ACCOUNT = ("ig_username", "public_id", "status")
_ACCOUNT_TIMES = ("first_seen_at", "last_seen_at", "removed_at", "token_expired_since", "missing_since")
_MEDIA = ("first_seen_at", "last_seen_at", "changed_at", "content_changed_at", "removed_at", "removal")
_KEY = ("account_id", "surface", "media_id")


def _plain(row: Row) -> Row:
    return tuple(value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for value in row)


def compare_rows(table: str, expected: Iterable[Row], found: Iterable[Row]) -> None:
    """Raise Violation unless both have the same rows."""
    left, right = Counter(map(_plain, expected)), Counter(map(_plain, found))
    if left != right:
        missing, more = (sorted(map(str, (one - other).elements())) for one, other in ((left, right), (right, left)))
        raise Violation("\n  ".join((table, "missing:", *missing[:20], "unexpected:", *more[:20])))


def _canonical(text: str) -> str:
    """Sort the keys of a JSON text; return text that is not JSON, such as a truncated page, unchanged."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def compare(promises: Promises, ask: Ask, of_runs: dict[str, int]) -> None:
    """Raise Violation for the first table that differs. `of_runs` are the processes of the runs by their id."""
    warehouse = promises.warehouse

    def check(table: str, columns: Iterable[str], expected: Iterable[Row]) -> None:
        compare_rows(table, expected, ask(f"SELECT {', '.join(columns)} FROM {table}"))

    scans = [(*where, *times, warehouse.undecided.get(where)) for where, times in warehouse.closed.items()]
    check("completed_scans", (*_KEY[:2], "complete_at", "recent_at", "removals_undecided_since"), scans)
    rows: list[Row] = [
        (
            *(one, *(row.shown[name] for name in _ACCOUNT), row.first_seen_at, row.last_seen_at, row.removed_at),
            row.content_changed_at if row.shown["status"] == "token_expired" else None,
            None if row.removed_at else row.missed_at,
        )
        for one, row in warehouse.accounts.items()
    ]
    check("accounts", ("account_id", *_ACCOUNT, *_ACCOUNT_TIMES), rows)
    check("account_status_history", ("account_id", "status", "valid_from", "valid_to"), warehouse.periods)
    columns = (*_COLUMNS, *COUNTS)
    rows = [
        (*key, *(getattr(row, name) for name in _MEDIA), *(canonical(row.shown, name) for name in columns))
        for key, row in warehouse.media.items()
    ]
    check("media", (*_KEY, *_MEDIA, *columns), rows)
    # By this, other programs find what has changed since they read the snapshot last.
    found = ask(f"SELECT {', '.join(_KEY)}, run_id FROM media JOIN runs ON seq = run_seq")
    rows = [(*key, row.changed_in) for key, row in warehouse.media.items()]
    compare_rows("media.run_seq", rows, [(*row[:3], of_runs[row[3]]) for row in found])
    # What later runs decide by.
    marks = ("missed_at", "confirmed_by IS NOT NULL")
    check(
        "core.media", (*_KEY, *marks), [(*key, row.missed_at, row.is_confirmed) for key, row in warehouse.media.items()]
    )
    rows = [(one, row.missed_at, row.is_confirmed) for one, row in warehouse.accounts.items()]
    check("core.accounts", ("account_id", *marks), rows)
    rows = [(*key, *times, *(canonical(item, name) for name in _COLUMNS)) for key, *times, item in warehouse.superseded]
    check("media_superseded", (*_KEY, "valid_from", "valid_to", *_COLUMNS), rows)
    # In a path, NUL is shown as the replacement character, which no other key has.
    path = "replace(path, chr(65533), chr(0))"
    fields = ask(f"SELECT {path}, column_name, type FROM fields WHERE resource = 'media' AND column_name IS NOT NULL")
    _compare_fields(promises, ask, fields)
    check(
        "media_metrics",
        (*_KEY, "metric", "value", "observed_at"),
        _metrics(promises, {one[0]: one[1] for one in fields}),
    )
    rows = [(process, *(count[name] for name in _RUN)) for process, count in warehouse.counts.items()]
    found = ask(f"SELECT run_id, {', '.join(_RUN)} FROM runs WHERE kind <> 'totals'")
    found = [(of_runs[row[0]], *row[1:]) for row in found]
    compare_rows("runs", *([row for row in each if any(row[1:])] for each in (rows, found)))
    # Which rejected records are of an account that was forgotten, the search of all files finds.
    if not warehouse.forgotten:
        rows = [(*where, _canonical(text), *times) for (where, _), (text, *times) in warehouse.quarantine.items()]
        found = ask("SELECT account_id, surface, payload, seen_at, last_seen_at FROM quarantine")
        compare_rows("quarantine", rows, [(*row[:2], _canonical(row[2]), *row[3:]) for row in found])


def _metrics(promises: Promises, names: dict[str, str]) -> list[Row]:
    """Return one row for each change of a count."""
    found: list[Row] = []
    last: dict[tuple[str, str, str], dict[str, int]] = {}
    for key, item, at in promises.warehouse.changes:
        before, now = last.get(key, {}), reading.counts(item)
        found += [
            (*key, names.get(metric, metric), now.get(metric), at)
            for metric in before.keys() | now.keys()
            if before.get(metric) != now.get(metric)
        ]
        last[key] = now
    return found


def _compare_fields(promises: Promises, ask: Ask, fields: list[Row]) -> None:
    """Compare every column of a field: it has what no canonical column shows."""
    own = {"media_id", "media_url", *_COLUMNS, *COUNTS}
    others = [("media_url", "media_url", "VARCHAR"), *(field for field in fields if field[1] not in own)]
    names = ", ".join(f'"{name}"' for _, name, _ in others)
    for account, surface, media_id, *stored in ask(f"SELECT {', '.join(_KEY)}, {names} FROM media"):
        row = promises.warehouse.rows[account, surface, media_id]
        versions = [row.shown, row.payload] if promises.is_rebuilt else [row.shown]
        for (path, name, type_), value in zip(others, stored, strict=True):
            said = [_said(item, path) for item in versions]
            is_right = any(_shows(value, each, type_) for each in said)
            require(is_right, f"{media_id}: {name} ({type_}) is {value!r}, and the API sent {said}")


def _said(item: reading.Item, path: str) -> object:
    """Return what the column of a field shows."""
    if path == "media_url":
        return canonical(item, path)
    said = None if path in reading.sources(item) else reading.at(item, path)
    return None if isinstance(said, dict) and path.count("/") < reading.DEEPEST else said


def _shows(stored: object, value: object, type_: str) -> bool:
    """Return whether a column of this type, which holds `stored`, shows a field's value."""
    if value is None or value in ("", [], {}):
        return stored is None
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return stored == time_of(value)
    if stored == value:
        return True
    if type_ != "VARCHAR":
        # Digits in a text may be a count.
        return stored is not None and stored == reading.count_of(value)
    # A text, as JSON, or as its column spelled it before it became one of texts.
    text = str(stored)
    if not isinstance(value, str):
        with suppress(ValueError):
            return bool(json.loads(text) == value)
        return False
    at = time_of(value)
    with suppress(ValueError):
        return at is not None and datetime.fromisoformat(text) == at
    return reading.count_of(value) is not None and reading.count_of(value) == reading.count_of(text)


def compare_raw(promises: Promises, folder: Path) -> None:
    """Raise Violation unless the raw store has every version of every item, byte for byte as it came."""
    parts = [str(path) for path in folder.rglob("raw-*.parquet")]
    query = f"SELECT DISTINCT {', '.join(_KEY)}, seen_at, payload FROM read_parquet({parts!r})"
    found = [(*row[:4], row[4].decode()) for row in (duckdb.sql(query).fetchall() if parts else [])]
    warehouse = promises.warehouse
    expected = {(*key, at, json.dumps(item, sort_keys=True)) for key, item, at in warehouse.changes}
    compare_rows("the raw store", expected, {(*row[:4], _canonical(row[4])) for row in found})
    for *key, at, payload in found:
        pages = warehouse.pages[at.astimezone(UTC)]
        sent = any(payload in body.decode(errors="replace") or b"\\ud" in body for body in pages)
        require(sent, f"{key}: the raw store has {payload!r}, which the API has not sent so")
