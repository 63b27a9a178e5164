"""Backfills: selected scans from the first page, with progress separate from that of syncs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors.warehouse.queries.reader import open_snapshot
from flows.config.options import BackfillOptions, refusals
from flows.engine.run import RunResources
from flows.pipeline import run_sync
from flows.reporting.findings import list_findings
from flows.reporting.message import to_message
from flows.reporting.run_report import RunReport
from models.runs import OutcomeKind, RunState
from models.selection import Selection, SelectionError
from tests.api.asked import Asked
from tests.api.listed import ListedApi, uuid
from tests.runs import open_run_resources, request, rows

pytestmark = pytest.mark.anyio

POSTS = ("posts",)


class Killed(Exception):  # noqa: N818
    """The process was killed."""


async def sync(folder: Path, resources: RunResources) -> RunReport:
    await resources.clock.sleep(600)
    return await run_sync(request(folder), resources)


async def backfill(folder: Path, resources: RunResources, selection: Selection, reason: str | None = None) -> RunReport:
    await resources.clock.sleep(600)
    return await run_sync(request(folder, selection=selection, reason=reason), resources)


def pages_asked(service: ListedApi, since: int) -> list[tuple[int | None, str, str | None]]:
    return [(request.number, request.surface or "", request.cursor) for request in service.requests[since:]]


def dies_at(account: int, cursor: str) -> Callable[[Asked], BaseException | None]:
    return lambda request: Killed() if request.is_posts(account) and request.cursor == cursor else None


async def test_a_backfill_requests_only_the_selection_from_the_first_page(tmp_path: Path) -> None:
    service = ListedApi()
    async with open_run_resources(tmp_path, service) as resources:
        await sync(tmp_path, resources)
        items = "SELECT * EXCLUDE (seen_seq, last_seen_at) FROM core.media ORDER BY account_id, media_id"
        before = await rows(resources, items)
        since = len(service.requests)
        report = await backfill(tmp_path, resources, Selection((uuid(2),), surfaces=POSTS), "an edited post")
        assert pages_asked(service, since) == [(2, "posts", None), (2, "posts", "c2")]
        assert await rows(resources, items) == before
        assert (report.kind, report.selected, report.reason) == ("backfill", f"{uuid(2)} (posts)", "an edited post")
        assert (report.accounts, report.outcomes.kinds) == (1, {OutcomeKind.COMPLETE: 1})
        entered = await rows(resources, "SELECT kind, selection, reason, state FROM core.runs ORDER BY started_at")
        assert entered == [
            ("sync", None, None, "complete"),
            ("backfill", f"{uuid(2)} (posts)", "an edited post", "complete"),
        ]


async def test_a_backfill_does_not_affect_resuming_an_interrupted_sync(tmp_path: Path) -> None:
    service = ListedApi(posts=6)
    async with open_run_resources(tmp_path, service) as resources:
        await sync(tmp_path, resources)
        service.fault = dies_at(1, "c4")
        with pytest.raises(Killed):
            await sync(tmp_path, resources)
        service.fault = lambda _: None
        since = len(service.requests)
        await backfill(tmp_path, resources, Selection((uuid(1),), surfaces=POSTS))
        assert [cursor for *_, cursor in pages_asked(service, since)] == [None, "c2", "c4"]
        since = len(service.requests)
        report = await sync(tmp_path, resources)
        assert report.state is RunState.COMPLETE
        assert len(report.resumed_runs) == 1
        assert [page for page in pages_asked(service, since) if page[:2] == (1, "posts")] == [(1, "posts", "c4")]
        assert await rows(resources, "SELECT count(*), count(removed_at) FROM core.media") == [(18, 0)]


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_backfill_cut_short_is_resumed_only_by_one_of_the_same_selection(
    tmp_path: Path, said: list[str], *, is_same: bool
) -> None:
    service, everything = ListedApi(posts=6), Selection(everything=True, surfaces=POSTS)
    async with open_run_resources(tmp_path, service) as resources:
        await sync(tmp_path, resources)
        service.fault = dies_at(2, "c4")
        with pytest.raises(Killed):
            await backfill(tmp_path, resources, everything)
        service.fault = lambda _: None
        since = len(service.requests)
        selection = everything if is_same else Selection((uuid(2),), surfaces=POSTS)
        report = await run_sync(request(tmp_path, selection=selection), resources)
        assert len(report.resumed_runs) == is_same
        assert any("Resuming interrupted run" in line for line in said) is is_same
        requested = [cursor for account, _, cursor in pages_asked(service, since) if account == 2]
        assert requested == (["c4"] if is_same else [None, "c2", "c4"])


@pytest.mark.parametrize(("chosen", "state"), [((2,), RunState.PARTIAL), ((1, 2), RunState.COMPLETE)])
async def test_a_backfill_that_skips_all_accounts_says_so_first_and_is_partial(
    tmp_path: Path, chosen: tuple[int, ...], state: RunState
) -> None:
    service = ListedApi(expired=frozenset({2}))
    async with open_run_resources(tmp_path, service) as resources:
        await sync(tmp_path, resources)
        since = len(service.requests)
        report = await backfill(tmp_path, resources, Selection(tuple(map(uuid, chosen))))
    assert (report.state, {account for account, *_ in pages_asked(service, since)}) == (state, {*chosen} - {2})
    nothing = "Nothing was scanned: the token of the account has expired. Fix: the owner must renew it first"
    assert to_message(report).startswith(nothing) is (state is RunState.PARTIAL)
    assert list_findings(report)[0].text.startswith("Nothing was scanned") is (state is RunState.PARTIAL)


async def test_a_sync_of_stories_requests_no_posts_and_is_not_a_full_run(tmp_path: Path) -> None:
    service = ListedApi()
    stories = request(tmp_path, surfaces=("stories",))
    async with open_run_resources(tmp_path, service) as resources:
        service.fault = lambda request: Killed() if request.number == 3 else None
        with pytest.raises(Killed):
            await run_sync(stories, resources)
        service.fault = lambda _: None
        full = await sync(tmp_path, resources)
        assert full.resumed_runs == ()
        since = len(service.requests)
        report = await run_sync(stories, resources)
        assert (report.selected, report.outcomes.total) == ("stories", 4)
        assert {surface for _, surface, _ in pages_asked(service, since)} == {"", "stories"}
        assert await rows(resources, "SELECT count(*) FROM core.media WHERE removed_at IS NOT NULL") == [(0,)]
        with open_snapshot(report.snapshot) as snapshot:
            outcomes = snapshot.query("SELECT surface, outcome, count(*) FROM freshness GROUP BY ALL ORDER BY ALL").rows
        assert outcomes == [("posts", "complete", 3), ("stories", "complete", 3)]


@pytest.mark.parametrize(
    ("text", "scanned"),
    [
        ({"accounts": [" a ", ""]}, Selection(("a",))),
        ({"everything": True, "surfaces": ["posts", "stories"]}, Selection(everything=True)),
        ({"failed": True, "surfaces": ["posts"] * 3}, Selection(failed=True, surfaces=POSTS)),
        ({"expired_since": "2026-03-01"}, Selection(expired_since=datetime(2026, 3, 1, tzinfo=UTC))),
        # Digits alone are no Unix time.
        ({"expired_since": "20260301"}, Selection(expired_since=datetime(2026, 3, 1, tzinfo=UTC))),
        ({"expired_since": 20260301}, Selection(expired_since=datetime(2026, 3, 1, tzinfo=UTC))),
        ({"expired_since": "2026-03-01T00:00:00Z"}, Selection(expired_since=datetime(2026, 3, 1, tzinfo=UTC))),
    ],
)
def test_a_selection_from_the_command_line(text: dict[str, Any], scanned: Selection) -> None:
    assert BackfillOptions.model_validate(text).selection() == scanned


@pytest.mark.parametrize("text", [{}, {"accounts": [" "]}, {"surfaces": ["posts"]}])
def test_a_backfill_without_a_selection_names_the_options(text: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match="--account"):
        BackfillOptions.model_validate(text).selection()


@pytest.mark.parametrize("text", ["1772323200", "soon", "", "0001-01-01T00:00:00+05:00", []])
def test_what_is_not_a_time_is_refused_in_one_line(text: object) -> None:
    with pytest.raises(ValidationError) as refused:
        BackfillOptions.model_validate({"expired_since": text})
    assert refusals(refused.value) == ["--expired-since: it is not a time. Fix: use a date such as 2026-03-01."]


def test_each_invalid_option_is_reported_in_its_own_line() -> None:
    with pytest.raises(ValidationError) as refused:
        BackfillOptions.model_validate({"reason": "x" * 501, "expert": {"page_size": 80}})
    assert refusals(refused.value) == [
        "--reason: string should have at most 500 characters. Fix: change it, or remove it.",
        "--page-size: it must be less than or equal to 50. Fix: change it, or remove it.",
    ]
