"""What the report of a run says about the data, read from real snapshots."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.queries.outcomes import FailureGroup
from connectors.warehouse.queries.reader import Record
from connectors.warehouse.storage.sql import statements
from flows.reporting.run_report import Data, RunReport, read_data
from models.runs import OutcomeKind
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, uuid
from tests.clocks import START
from tests.runs import synced

pytestmark = pytest.mark.anyio

DAY = 86_400.0


async def _syncs(folder: Path, service: ListedApi, *changes: Callable[[], None]) -> list[RunReport]:
    """Make each change and run a sync after it, 24 hours apart."""
    reports = []
    for day, change in enumerate(changes):
        service.clock.passed = max(service.clock.passed, day * DAY)
        change()
        reports.append(await synced(folder, service, page_size=50))
    return reports


def _read(report: RunReport, *, hours: float = 0.0, resumed: tuple[str, ...] | None = None) -> Data:
    runs = [report.run_id, *(report.resumed_runs if resumed is None else resumed)]
    return read_data(report.snapshot, runs, now=report.started_at + timedelta(hours=hours))


def _names(rows: Sequence[Record], **where: object) -> list[str]:
    return [row["ig_username"] for row in rows if row.items() >= where.items()]


def _nothing() -> None: ...


async def test_tokens_expire_stay_expired_and_recover(tmp_path: Path) -> None:
    service = ListedApi(accounts=4)

    def expire(*numbers: int) -> Callable[[], None]:
        return lambda: setattr(service, "expired", frozenset(numbers))

    reports = await _syncs(tmp_path, service, expire(1), expire(1, 3), expire(1, 4), expire(1, 4))
    assert [len(report.data["expired"]) for report in reports] == [1, 2, 2, 2]
    found = reports[3].data
    assert _names(found["expired"], is_new=True) == _names(found["renewed"]) == []
    assert _names(found["expired"]) == ["user_4", "user_1"]

    # The report of the third day's run does not contain later changes.
    found = reports[2].data
    assert _names(found["expired"], is_new=True) == ["user_4"]
    assert _names(found["expired"], is_new=False) == ["user_1"]
    [recovered] = found["renewed"]
    assert (recovered["ig_username"], recovered["since"]) == ("user_3", START + timedelta(days=2))
    assert found["expired"][0]["media_as_of"] == START + timedelta(days=1)

    # An interrupted run reports nothing: the run that resumes it does.
    found = _read(reports[2], resumed=(reports[1].run_id, reports[0].run_id))
    assert _names(found["expired"]) == _names(found["expired"], is_new=True) == ["user_4", "user_1"]


def _trouble(request: Asked) -> Action | None:
    if request.is_posts(1) or request.is_posts(2):
        return refuse("api_forbidden")
    if request.is_posts(3):
        return refuse("rate_limited", retry_after=7200)
    return None


async def test_failures_are_grouped_with_examples_and_make_media_stale(tmp_path: Path) -> None:
    service = ListedApi(accounts=3)
    _, report = await _syncs(tmp_path, service, _nothing, lambda: setattr(service, "fault", _trouble))
    traces = {number: asked.correlation_id for asked in service.requests for number in (1, 2) if asked.is_posts(number)}
    denied, deferred = report.failure_groups
    text = "This credential is not authorized for the request."
    examples = [
        {"ig_username": f"user_{n}", "surface": "posts", "correlation_id": traces[n], "account_id": uuid(n)}
        for n in (1, 2)
    ]
    cause = (OutcomeKind.DENIED, "api_forbidden", 2, 2, None, text)
    assert denied == FailureGroup(*cause, examples, ["user_1", "user_2"])
    assert (deferred.outcome, deferred.usernames) == (OutcomeKind.DEFERRED, ["user_3"])
    assert deferred.resume_after is not None
    assert timedelta(hours=2) <= deferred.resume_after - START - timedelta(days=1) < timedelta(hours=3)
    found = _read(report, hours=13)
    counts = [(f["surface"], f["fresh"], f["stale"], f["never"]) for f in found["freshness"]]
    assert counts == [("posts", 0, 3, 0), ("stories", 3, 0, 0)]
    assert _names(found["stale"], surface="posts") == ["user_1", "user_2", "user_3"]
    assert _read(report, hours=11)["stale"] == []


async def test_drift_consists_of_fields_first_seen_in_this_run(tmp_path: Path) -> None:
    more: dict[str, object] = {"level": 1}
    service = ListedApi(accounts=2, change_posts=lambda items: [item | more for item in items])
    reports = await _syncs(tmp_path, service, _nothing, lambda: more.update(level="high", mood="calm"), _nothing)
    assert reports[1].data["new_fields"] == [{"resource": "media", "path": "/mood", "type": "VARCHAR"}]
    assert [change["path"] for change in reports[1].data["retyped_fields"]] == ["/level"]
    assert reports[2].data["new_fields"] == reports[2].data["retyped_fields"] == []


# run, hour of its start, state, the run that it resumes. The findings of f are not reported: g resumes it.
RUNS = [
    ("a", 1, "complete", None), ("b", 2, "interrupted", None), ("c", 3, "partial", None), ("d", 4, "interrupted", None),
    ("e", 5, "running", None), ("f", 6, "complete", None), ("g", 7, "running", "f"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "hour"),
    [
        pytest.param(["c", "b"], 2, id="c resumes b"),
        pytest.param(["c"], 2, id="no other run has reported the findings of b"),
        pytest.param(["e"], 4, id="nor those of d"),
        pytest.param(["e", "d"], 4, id="the run before d has reported its own"),
        pytest.param(["g"], 4, id="a run that another one resumes has not"),
    ],
)
def test_what_was_not_reported_is_reported_by_the_next_run(runs: list[str], hour: int) -> None:
    now = next(began for name, began, *_ in RUNS if name == runs[0])
    with duckdb.connect() as db:
        columns = "seq BIGINT, run_id VARCHAR, kind VARCHAR, started_at TIMESTAMPTZ, state VARCHAR, resumes VARCHAR"
        db.execute(f"CREATE TABLE runs({columns})")
        db.executemany(
            "INSERT INTO runs VALUES (?, ?, 'sync', make_timestamptz(2026, 3, 1, ?, 0, 0, 'UTC'), ?, ?)",
            [[seq, *run] for seq, run in enumerate(RUNS, 1) if run[1] <= now],
        )
        db.execute(f"SET VARIABLE runs = {runs}")
        db.execute(statements("flows.reporting.run_report")["reported"])
        db.execute(statements("flows.reporting.run_report")["begun"])
        found = db.execute("SELECT date_part('hour', timezone('UTC', getvariable('begun')))").fetchone()
    assert found == (hour,)
