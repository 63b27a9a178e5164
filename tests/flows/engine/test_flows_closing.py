"""The end of a run: what it warns of, what is deleted because it is old, and whether and when it is made again."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from connectors.source.errors import ApiError
from connectors.state.runs import begin_run, end_run, mark_published, read_runs
from connectors.warehouse.queries.outcomes import FailureGroup
from connectors.warehouse.queries.reader import open_snapshot
from flows.engine.closing import delete_old
from flows.engine.retrying import DELAYS, Retry, next_retry, repeat
from flows.orchestration.flow_run import final_state
from flows.reporting.run_report import RunReport
from models.runs import Finding, OutcomeKind, RunState, Severity
from models.selection import NothingChosen
from tests.api.listed import ListedApi, Records
from tests.clocks import START
from tests.flows import reports
from tests.runs import open_run_resources, synced

pytestmark = pytest.mark.anyio


async def test_values_that_were_lost_are_reported_at_every_runs_end(tmp_path: Path) -> None:
    unreadable = ListedApi(accounts=2, change_posts=lambda items: [{**item, "timestamp": "soon"} for item in items])
    for _ in range(2):
        report = await synced(tmp_path, unreadable)
        (warning,) = report.warnings
        assert (warning.code, warning.count, report.state) == ("values_not_cast", 6, RunState.COMPLETE)
        assert "published_at (6)" in warning.text
    with open_snapshot(tmp_path / "analytics.duckdb") as snapshot:
        kept = "SELECT count(*) FROM run_warnings WHERE code = 'values_not_cast'"
        assert snapshot.db.execute(kept).fetchall() == [(2,)]


def _ran(state: Connection, at: datetime) -> None:
    begin_run(state, f"{at}", "sync", pid=1, now=at, within=timedelta(), version="1")
    end_run(state, f"{at}", RunState.COMPLETE, now=at)
    mark_published(state, now=at)


@pytest.mark.parametrize(
    ("runs", "keep", "left"),
    [
        # The age counts from the earliest of the ten runs before the last one.
        (range(15), 2, 13),
        (range(5), 2, 5),
        ((*range(10), *range(365, 375)), 90, 20),
        # The ten runs before the last one agree that a year has passed.
        ((*range(10), *range(365, 376)), 90, 11),
    ],
)
async def test_old_runs_go_once_ten_agree_on_time(tmp_path: Path, runs: Collection[int], keep: int, left: int) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        for day in runs:
            resources.warehouse.files.state.write(_ran, START + timedelta(days=day))
        delete_old(resources.warehouse.files, timedelta(days=keep), now=START + timedelta(days=730))
        assert len(resources.warehouse.files.state.read(read_runs)) == left
        assert resources.warehouse.files.db.execute("SELECT count(*) FROM core.runs").fetchall() == [(left,)]


Varies = Callable[[int, int], dict[str, Any]]
EVERYTHING: tuple[str, ...] = ()

# Fields of day `d` and post `p` of 4, what each day's sync scans, its warnings, and the name in them.
VARIES: dict[str, tuple[Varies, list[tuple[str, ...]], list[int], str]] = {
    # Syncs of stories neither prevent the warning nor hide it.
    "most items": (
        *(lambda d, p: {"at": {"of": d * (p < 3)}, "likes": d}, [EVERYTHING, ("stories",)] * 4),
        *([0, 0, 0, 0, 0, 0, 1, 0], "/at/of"),
    ),
    "half of the items": (lambda d, p: {"at": d * (p < 2)}, [EVERYTHING] * 4, [0] * 4, ""),
}


@pytest.mark.parametrize("case", VARIES)
async def test_a_field_that_alone_changes_most_items_three_times_is_named(tmp_path: Path, case: str) -> None:
    varies, syncs, warned, name = VARIES[case]
    service, found = ListedApi(accounts=2, posts=4), list[int]()

    def change(items: Records) -> Records:
        return [item | varies(len(found), number) for number, item in enumerate(items)]

    service.change_posts = change
    for surfaces in syncs:
        report = await synced(tmp_path, service, surfaces=surfaces)
        texts = [f"{one.text} {one.fix}" for one in report.warnings if one.code == "items_changed_by_one_field"]
        assert all(f"{name} alone changed most items" in text and f'ignore = ["{name}"]' in text for text in texts)
        found.append(len(texts))
        service.clock.days(1)
    assert found == warned


STOP = ApiError("accounts.list", "api_unauthorized", "No.", status=401)
FAILED = reports.report(state=RunState.FAILED, outcomes=Counter({OutcomeKind.FAILED: 1}))
GOOD = replace(FAILED, state=RunState.COMPLETE, outcomes=Counter({OutcomeKind.COMPLETE: 9}))


def group(code: str, scans: int = 1, kind: OutcomeKind = OutcomeKind.FAILED, surface: str = "posts") -> FailureGroup:
    return FailureGroup(kind, code, scans, scans, None, "No.", (reports.example("anna", surface),))


def ended(*groups: FailureGroup, complete: int = 0, skipped: int = 0, stopped_by: ApiError | None = None) -> RunReport:
    """Return the report of a run with these failures and numbers of complete and skipped scans."""
    tally = {OutcomeKind.COMPLETE: complete, OutcomeKind.SKIPPED: skipped}
    for each in groups:
        tally[each.outcome] = tally.get(each.outcome, 0) + each.scans
    state = RunState.PARTIAL if complete else RunState.FAILED
    return replace(FAILED, failure_groups=groups, outcomes=Counter(tally), state=state, stopped_by=stopped_by)


CATALOGUE = group("connection_failed", surface="")


def test_a_run_is_retried_only_if_it_failed_as_a_whole_in_passing() -> None:
    for report, retryable in (
        (ended(CATALOGUE), True),
        (ended(group("http_502", surface="")), True),
        # Without the catalogue, accounts that it did not list were never requested.
        (ended(CATALOGUE, complete=9), True),
        (ended(group("timeout", 51), complete=49), True),
        (ended(group("timeout", 49), complete=51), False),
        (ended(group("timeout", 26), group("http_503", 26), complete=48), True),
        (ended(group("api_forbidden", 100, OutcomeKind.DENIED)), False),
        (ended(group("cursor_loop", 100)), False),
        # The cooldown is longer than the retry delays, and the next run honours it.
        (ended(group("rate_limited", 100, OutcomeKind.DEFERRED)), False),
        (ended(group("api_unauthorized", surface=""), stopped_by=STOP), False),
        (ended(group("timeout", 51), complete=49, stopped_by=STOP), False),
        (GOOD, False),
    ):
        assert (next_retry(report, 0, 3, lambda: 0.0) is not None) == retryable


async def test_a_run_is_repeated_after_delays_that_grow_and_the_last_report_counts() -> None:
    happened = list[float]()
    left: list[RunReport | NothingChosen] = [
        *[ended(CATALOGUE)] * 2, NothingChosen("Nothing is due."), ended(CATALOGUE), GOOD,
    ]  # fmt: skip

    async def make() -> RunReport:
        if isinstance(made := left.pop(0), NothingChosen):
            raise made
        return made

    async def sleep(seconds: float) -> None:
        happened.append(seconds)

    async def announce(_: RunReport, retry: Retry | None) -> None:
        happened.extend([retry.number, retry.limit] if retry else [])

    chance = cycle([0.0, 1.0])
    assert await repeat(make, 5, sleep=sleep, random=lambda: next(chance), announce=announce) is GOOD
    # The jitter only adds.
    assert happened == pytest.approx([1, 5, 300, 2, 5, 990, 3, 5, 3600, 4, 5, 3960])
    assert DELAYS == (300, 900, 3600)
    assert next_retry(ended(CATALOGUE), 5, 5, lambda: 0.0) is None


def test_the_state_of_a_partial_run_follows_outcomes_with_a_reason() -> None:
    missing = Finding("accounts_missing", Severity.ACTION, "30 are missing", "check", count=30)
    for report, state, reason in (
        (ended(group("rate_limited", 102, OutcomeKind.DEFERRED), complete=20), "FAILED", "102 scans deferred"),
        (ended(group("timeout", 51), complete=49), "FAILED", "51 scans failed"),
        (ended(group("timeout", 50), complete=50, skipped=100), "COMPLETED", "50 scans failed"),
        (replace(GOOD, state=RunState.PARTIAL, warnings=(missing,)), "COMPLETED", "30 are missing. Fix: check"),
    ):
        found = final_state(report)
        assert (found.type.value, found.name) == (state, state.capitalize())
        assert str(found.message).startswith(reason)
