"""Compares a warehouse or a snapshot with the model, table by table."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from connectors.warehouse.ingest.landing.frames import Frame
from tests import raw
from tests.model import reading
from tests.simulation.snapshot_check import compare_rows
from tests.stateful.model import COUNTS, Model, Row, Tables, text_of

Ask = Callable[[str], list[Row]]

_LIFE = "first_seen_at, last_seen_at, removed_at"
_ITEM = "gh_payload, caption, like_count, first_seen_at, {seen}, changed_at, content_changed_at, removed_at, removal"
_KEY = "account_id, surface, media_id"
_QUERIES = {
    "accounts": f"SELECT account_id, ig_username, status, {_LIFE} FROM {{core}}accounts",
    "account_status_history": "SELECT account_id, status, valid_from, valid_to FROM {core}account_status_history",
    "media": f"SELECT {_KEY}, {_ITEM} FROM {{media}}",
    "media_history": f"SELECT {_KEY}, valid_from, valid_to, caption FROM {{history}}",
    "media_metrics": f"SELECT {_KEY}, metric, value, observed_at FROM {{core}}media_metrics",
    "completed_scans": "SELECT resource, account_id, surface, complete_at, removals_undecided_since, recent_at,"
    " covered_from, pages, item_order, order_broken_by, full_share FROM {core}completed_scans",
    "missing_accounts": "SELECT account_id, missing_since FROM ops.missing_accounts",
    "missing": f"SELECT {_KEY}, missing_since, last_seen_at FROM ops.missing",
    "run_counts": f"SELECT run_id, {', '.join(COUNTS)} FROM {{runs}}",
    "quarantine": "SELECT resource, account_id, surface, payload::VARCHAR FROM {core}quarantine",
}
_HISTORY = """(
    SELECT account_id, surface, media_id, valid_from, valid_to, caption FROM core.media_superseded
    UNION ALL SELECT account_id, surface, media_id, content_changed_at, NULL, caption FROM core.media
)"""
_PAYLOAD = {"media": 3, "quarantine": 3}

_PROGRESS = "SELECT resource, account_id, surface, run_kind, scan_id, cursor, pages, items, state FROM ops.checkpoints"
_OUTCOMES = "SELECT run_id, resource, account_id, surface, outcome FROM {core}run_outcomes"


def landed(frames: Iterable[Frame]) -> list[Row]:
    """Return the pages of frames."""
    pages = ((frame.commit.page, frame.body) for frame in frames)
    return [(page.scan_id, page.page, bytes(body).decode()) for page, body in pages if page is not None]


def progress(ask: Ask, frames: Iterable[Frame]) -> dict[Row, Row]:
    """Return the last checkpoint of each partition and run kind: scan, cursor, pages, items, state.

    `frames` are not merged.
    """
    found = {row[:4]: row[4:] for row in ask(_PROGRESS)}
    for frame in frames:
        if (one := frame.commit.checkpoint) is not None:
            of = one.partition
            key = (of.resource, of.account_id, of.surface, one.run_kind)
            found[key] = (one.scan_id, one.cursor, one.pages, one.items, one.state.value)
    return found


def outcomes(ask: Ask, frames: Iterable[Frame] = (), *, inside: bool) -> list[Row]:
    """Return the outcomes of all runs; `frames` are not merged."""
    found = ask(_OUTCOMES.format(core="core." if inside else ""))
    for one in (outcome for frame in frames for outcome in frame.commit.outcomes):
        of = one.partition
        found.append((one.run_id, of.resource, of.account_id, of.surface, one.kind.value))
    return sorted(found)


def _found(ask: Ask, table: str, *, inside: bool) -> list[Row]:
    if inside:
        text = {"core": "core.", "history": _HISTORY, "seen": "written_at", "runs": "core.run_counts"}
    else:
        text = {"core": "", "history": "media_history", "seen": "last_seen_at", "runs": "runs"}
    source = raw.media(ask, inside=inside) if table == "media" else ""
    rows = ask(_QUERIES[table].format(media=source, **text))
    index = _PAYLOAD.get(table)
    if index is None:
        return rows
    return [(*row[:index], text_of(json.loads(row[index])), *row[index + 1 :]) for row in rows]


def assert_equal(expected: Tables, ask: Ask, *, inside: bool) -> None:
    """Raise Violation for the first table that differs."""
    for table, rows in expected.items():
        compare_rows(table, rows, _found(ask, table, inside=inside))


def assert_drifting_column(model: Model, ask: Ask, *, inside: bool) -> None:
    """Raise AssertionError if the column of a field whose type changes has lost a value."""
    type_ = reading.column_type(model.kinds)
    if type_ is None:
        return
    found: dict[Row, Any] = {row[:3]: row[3] for row in ask(f"SELECT {_KEY}, extra FROM {'core.' * inside}media")}
    for key, row in model.media.rows.items():
        value = row.payload.get("extra")
        kind = reading.kind(value, 1)
        held = kind not in (None, "object", "rows") or type_ == "VARCHAR"
        if value in (None, []):
            # An empty list equals no value, so the one that came first stays.
            assert found[key] in (None, [], "[]"), (key, value, found[key])
        elif not held:
            assert found[key] is None, (key, value, found[key])
        else:
            assert reading.same(found[key], value, type_), (key, value, found[key], type_)
