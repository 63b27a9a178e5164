"""Compares the snapshot with the model, row by row."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from models.mapping import BUILT_IN
from tests import raw
from tests.model import reading
from tests.model.contents import counts
from tests.model.recent import Key
from tests.simulation.events import CATALOGUE, Partition
from tests.simulation.model import Model
from tests.simulation.protocol_checker import Violation, require

Row = tuple[Any, ...]
_COLUMNS = [column for column in BUILT_IN.columns if column.column != "media_url"]
_MEDIA = (
    "account_id, surface, media_id, gh_payload, first_seen_at, last_seen_at, changed_at, content_changed_at,"
    " removed_at, removal, " + ", ".join(column.column for column in _COLUMNS)
)

_COUNTS = ("pages", "items", "accounts_removed", "added", "changed", "removed", "expired", "returned")
_CLOSED = (
    "resource, account_id, surface, complete_at, removals_undecided_since, recent_at, covered_from, pages, items,"
    " item_order, order_broken_by, full_share, items_missing"
)
_GAPS = "SELECT account_id, surface, cursor, pages, read_down_to FROM gaps"


class Snapshot:
    """An open snapshot."""

    def __init__(self, path: Path) -> None:
        self._db = duckdb.connect(str(path), read_only=True, config={"threads": "1"})
        self._db.execute("SET TimeZone = 'UTC'")

    def rows(self, query: str) -> list[Row]:
        return self._db.execute(query).fetchall()

    def close(self) -> None:
        self._db.close()


def _plain(row: Row) -> Row:
    return tuple(value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for value in row)


def compare_rows(table: str, expected: list[Row], found: list[Row]) -> None:
    """Raise Violation unless both have the same rows."""
    expected_rows, found_rows = Counter(map(_plain, expected)), Counter(map(_plain, found))
    if expected_rows != found_rows:
        missing, unexpected = (
            list(map(str, (one - other).elements()))
            for one, other in ((expected_rows, found_rows), (found_rows, expected_rows))
        )
        message = "\n  ".join((table, "missing:", *sorted(missing), "unexpected:", *sorted(unexpected)))
        raise Violation(message)


def _canonical(text: str) -> str:
    """Sort the keys of a JSON text; return text that is not JSON, such as a truncated page, unchanged."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def _closed(model: Model, where: Partition) -> Row:
    one = model.media.closed[where]
    return (
        "accounts" if where == CATALOGUE else "media",
        *where,
        *(one.complete_at, model.media.undecided.get(where), one.recent_at, one.covered_from, one.pages, one.items),
        *("newest_first" if one.is_ordered else None, one.broken_by, one.share),
        model.media.items_missing(where),
    )


def compare(model: Model, gaps: list[Row], snapshot: Snapshot) -> None:
    """Raise Violation for the first table that differs."""
    compare_rows("gaps", gaps, snapshot.rows(_GAPS))
    compare_rows(
        "completed_scans",
        [_closed(model, where) for where in model.media.closed],
        snapshot.rows(f"SELECT {_CLOSED} FROM completed_scans"),
    )
    names = ("ig_username", "public_id", "status", "token_expired_since", "first_seen_at", "last_seen_at", "removed_at")
    compare_rows(
        "missing accounts",
        [*model.accounts.missing.items()],
        snapshot.rows("SELECT account_id, missing_since FROM accounts WHERE missing_since IS NOT NULL"),
    )
    compare_rows(
        "accounts",
        [(account_id, *(getattr(row, name) for name in names)) for account_id, row in model.accounts.rows.items()],
        snapshot.rows(f"SELECT account_id, {', '.join(names)} FROM accounts"),
    )
    compare_rows(
        "account_status_history",
        [tuple(period) for period in model.accounts.periods],
        snapshot.rows("SELECT account_id, status, valid_from, valid_to FROM account_status_history"),
    )
    _compare_media(model, snapshot)
    compare_rows(
        "media_superseded",
        [(*row[:-1], json.dumps(row[-1], sort_keys=True)) for row in model.media.superseded],
        [
            (*row[:-1], _canonical(row[-1]))
            for row in snapshot.rows(
                "SELECT account_id, surface, media_id, valid_from, valid_to, gh_payload"
                f" FROM {raw.versions(snapshot.rows)}"
            )
        ],
    )
    # A process has at most one run, and a run's id begins with the number of its process.
    found = snapshot.rows(f"SELECT split_part(run_id, '-', 1)::INTEGER, {', '.join(_COUNTS)} FROM runs")
    compare_rows(
        "runs",
        [(day, *(count[name] for name in _COUNTS)) for day, count in model.counts.items()],
        [row for row in found if any(row[1:])],
    )
    of_items = ", ".join(f"count(*) FILTER (change = '{each}')" for each in ("new", "removed", "expired", "returned"))
    compare_rows(
        "changes",
        snapshot.rows("SELECT run_id, added, removed, expired, returned FROM runs WHERE kind <> 'totals'"),
        snapshot.rows(f"SELECT r.run_id, {of_items} FROM runs AS r LEFT JOIN changes USING (run_id) GROUP BY 1"),
    )
    found = snapshot.rows("SELECT account_id, surface, payload FROM quarantine")
    compare_rows(
        "quarantine",
        [(*where, _canonical(text)) for (where, _), text in model.quarantine.items()],
        [(account, surface, _canonical(payload)) for account, surface, payload in found],
    )


def _compare_media(model: Model, snapshot: Snapshot) -> None:
    expected: list[Row] = []
    for key, row in model.media.rows.items():
        item = row.payload
        output = (row.first_seen_at, model.media.last_seen(key), row.changed_at, row.content_changed_at)
        canonical = (reading.canonical(item, column) for column in _COLUMNS)
        payload = json.dumps(item, sort_keys=True)
        expected.append((*key, payload, *output, row.removed_at, row.removal, *canonical))
        stated, seen = model.media.last_seen(key), model.last_returned[key]
        require(stated <= seen, f"{key}: last_seen_at is {stated}, but the API last returned it at {seen}")
    found = [
        (*row[:3], _canonical(row[3]), *row[4:])
        for row in snapshot.rows(f"SELECT {_MEDIA} FROM {raw.media(snapshot.rows)}")
    ]
    compare_rows("media", expected, found)
    names: dict[str, str] = dict(snapshot.rows("SELECT path, column_name FROM fields WHERE resource = 'media'"))
    compare_rows(
        "media_metrics",
        [(*key, *row) for key in model.sightings for row in _metrics(model, key, names)],
        snapshot.rows("SELECT account_id, surface, media_id, metric, value, observed_at FROM media_metrics"),
    )


def _metrics(model: Model, key: Key, names: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    output: dict[str, int | None] = {}
    for item, at in model.sightings[key]:
        now: dict[str, int | None] = dict(counts(item, names))
        differ = (metric for metric in sorted(output.keys() | now.keys()) if output.get(metric) != now.get(metric))
        rows += [(metric, now.get(metric), at) for metric in differ]
        output = now
    return rows
