"""Runs against the fake API with the real client, a virtual clock and a warehouse file; reads their results."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.warehouse.snapshot.reader import open_snapshot
from flows.engine.concurrency import Slots
from flows.engine.run import RunResources
from flows.engine.warehouse import Warehouse, open_warehouse
from flows.pipeline import run_sync
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.run_report import RunReport
from tests import raw
from tests.clocks import START, VirtualClock
from tests.faults.model import Model
from tests.faults.world import CATALOGUE, Where
from tests.flows.fake_api import request

MAX_BODY = 1 << 20
HOUR = 3600.0


@dataclass(frozen=True)
class Outcome:
    kind: str
    pages: int
    items: int
    code: str | None
    status: int | None
    trace: str | None
    resume_after: float | None


@dataclass(frozen=True)
class RunResult:
    """The result of a run: its report, its outcomes, and the snapshot in the form of the model."""

    report: RunReport
    outcomes: dict[Where, Outcome]
    media: dict[tuple[str, str, str], Any]
    gone: set[tuple[str, str, str]]
    superseded: list[tuple[tuple[str, str, str], str]]
    accounts: dict[str, tuple[str, str]]
    unlisted: set[str]
    quarantined: set[tuple[Where, str]]

    @property
    def exit_code(self) -> int:
        return int(EXIT_OF[self.report.state])

    def assert_agrees(self, model: Model) -> None:
        media, accounts = model.media.rows, model.accounts.rows
        assert self.media == {key: row.payload for key, row in media.items()}
        assert self.gone == {key for key, row in media.items() if row.removed_at is not None}
        versions = ((row[:3], _sorted(json.dumps(row[-1]))) for row in model.media.superseded)
        assert self.superseded == sorted(versions)
        assert self.accounts == {one: (row.ig_username, row.status) for one, row in accounts.items()}
        assert self.unlisted == {one for one, row in accounts.items() if row.removed_at is not None}
        assert self.quarantined == model.quarantined
        there = {where: (outcome.pages, outcome.items) for where, outcome in self.outcomes.items() if outcome.pages}
        assert there == {where: (pages, model.items[where]) for where, pages in model.pages.items()}
        assert {where for where, outcome in self.outcomes.items() if outcome.kind == "complete"} == model.complete


def open_test_warehouse(folder: Path) -> AbstractAsyncContextManager[Warehouse]:
    """Open the warehouse in a folder."""
    return open_warehouse(folder / "warehouse.duckdb", "a test", now=START)


async def sync(
    warehouse: Warehouse, folder: Path, clock: VirtualClock, transport: httpx.AsyncBaseTransport
) -> RunResult:
    """Run a sync and read its result from the snapshot."""
    ids, began = count(1), clock.passed
    async with ApiClient(
        "http://127.0.0.1",
        SecretStr("a-key"),
        clock=clock,
        transport=transport,
        max_body_bytes=MAX_BODY,
    ) as client:
        resources = RunResources(
            send=client.send,
            warehouse=warehouse,
            clock=clock,
            random=lambda: 0.5,
            new_id=lambda: f"{began:.0f}-{next(ids)}",
            slots=Slots(4),
        )
        report = await run_sync(request(folder), resources)
    return await asyncio.to_thread(read, folder, report)


def read(folder: Path, report: RunReport) -> RunResult:
    with open_snapshot(folder / "analytics.duckdb", with_raw=True) as snapshot:
        outcomes = snapshot.query(
            "SELECT account_id, surface, outcome, pages, items, error_code, http_status, correlation_id,"
            " epoch(resume_after) FROM run_outcomes WHERE run_id = ?",
            [report.run_id],
        ).rows
        items, versions = (find(lambda query: snapshot.query(query).rows) for find in (raw.media, raw.versions))
        media = snapshot.query(
            f"SELECT account_id, surface, media_id, gh_payload, removed_at IS NULL FROM {items}"
        ).rows
        history = snapshot.query(f"SELECT account_id, surface, media_id, gh_payload FROM {versions}").rows
        accounts = snapshot.query("SELECT account_id, ig_username, status, removed_at IS NULL FROM accounts").rows
        whole = "starts_with(reason, 'The page cannot be read: ')"
        quarantined = snapshot.query(f"SELECT account_id, surface, payload FROM quarantine WHERE NOT {whole}").rows
        kept = snapshot.query(f"SELECT account_id, surface FROM quarantine WHERE {whole}").rows
    keys = [(one, surface) for one, surface, *_ in outcomes]
    # An unreadable page is in quarantine as a whole.
    unread = {(one, surface) for one, surface, _, _, _, code, *_ in outcomes if code == "malformed_page"}
    assert unread <= {(one or "", surface or "") for one, surface in kept}
    # Exactly one outcome for each partition.
    assert len(keys) == len(set(keys))
    assert len(media) == len({row[:3] for row in media})
    return RunResult(
        report,
        {CATALOGUE if not row[0] else (row[0], row[1]): Outcome(*row[2:]) for row in outcomes},
        {(one, surface, name): json.loads(payload) for one, surface, name, payload, _ in media},
        {(one, surface, name) for one, surface, name, _, there in media if not there},
        sorted(((one, surface, name), _sorted(payload)) for one, surface, name, payload in history),
        {one: (name, status) for one, name, status, _ in accounts},
        {one for one, _, _, there in accounts if not there},
        {((one or "", surface or ""), _sorted(payload)) for one, surface, payload in quarantined},
    )


def _sorted(payload: str) -> str:
    try:
        return json.dumps(json.loads(payload, parse_constant=lambda _: 1 / 0), sort_keys=True)
    except (ValueError, ZeroDivisionError, RecursionError):
        return json.dumps(payload)
