"""How scans end: settings, rejected records, a lost key, kills, backfills and syncs of a part; on a real warehouse."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import rule_of
from connectors.state.database import open_state_read_only, state_path
from connectors.state.inbox import read_cooldowns
from flows.reporting.message import to_message
from flows.reporting.run_report import RunReport
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, change_page, refuse
from tests.api.listed import ListedApi, Records, uuid
from tests.clocks import StillClock
from tests.operator import Operator
from tests.runs import synced

pytestmark = [pytest.mark.anyio]

_OUTCOMES = """
SELECT account_id, surface, outcome, pages, items, error_code, http_status, correlation_id, detail
FROM core.run_outcomes WHERE run_id = '{run_id}'
ORDER BY resource, account_id, surface
"""
_REMOVED = "SELECT media_id FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"
POSTS = uuid(1), "posts"


Outcomes = dict[tuple[str, str], tuple[Any, ...]]


async def _run(folder: Path, service: ListedApi, **changes: Any) -> tuple[RunReport, Outcomes]:  # noqa: ANN401 - as synced
    report = await synced(folder, service, **changes)
    outcomes = {row[:2]: row[2:] for row in Operator(folder).inside(_OUTCOMES.format(run_id=report.run_id))}
    assert Operator(folder).inside("FROM core.runs WHERE state = 'running'") == []
    assert report.outcomes.total() == 1 + 2 * report.accounts == len(outcomes)
    return report, outcomes


async def test_a_setting_lets_expired_accounts_be_scanned_and_nothing_of_them_is_removed(tmp_path: Path) -> None:
    service = ListedApi(accounts=2, posts=3, expired=frozenset({2}))
    for posts in (3, 2, 2):
        service.posts = posts
        report, _ = await _run(tmp_path, service, scan_expired=True)
        assert report.outcomes == {OutcomeKind.COMPLETE: 5}
        service.clock.days(1)
    assert Operator(tmp_path).inside(_REMOVED) == [("001-2",)]


# What a page becomes, the pages, items and code of the scan that it ends, how many new items landed from it, and the
# reason for which it is kept. The list has 3 posts, 2 of them on a page, and had 4.
LISTS: dict[str, tuple[Callable[[Any], Any], tuple[int, int, str], int, str | None]] = {
    "two lists": (
        *(lambda _: {"posts": [], "stories": [], "next_cursor": None}, (1, 2, "malformed_page"), 0),
        "no list of items found.",
    ),
    "no cursor": (
        *(lambda page: {"items": [{**one, "caption": "new"} for one in page["items"]]}, (2, 3, "cursor_missing"), 1),
        None,
    ),
}


@pytest.mark.parametrize("case", LISTS)
async def test_a_list_that_cannot_be_followed_fails_alone_and_decides_nothing(tmp_path: Path, case: str) -> None:
    spoil, outcome, new, kept = LISTS[case]
    service = ListedApi(accounts=2, posts=4)
    await _run(tmp_path, service)
    service.posts = 3
    service.fault = lambda asked: change_page(spoil) if asked.is_posts(1) and asked.cursor == "c2" else None
    for _ in range(2):
        service.clock.days(1)
        before = len(service.post_cursors())
        report, outcomes = await _run(tmp_path, service)
        assert (report.state, outcomes[uuid(2), "posts"][0]) == (RunState.PARTIAL, "complete")
        assert outcomes[POSTS][:4] == ("failed", *outcome)
        assert service.post_cursors()[before] is None or kept
    captions = Operator(tmp_path).inside("SELECT media_id FROM core.media WHERE caption = 'new'")
    assert (len(captions), Operator(tmp_path).inside(_REMOVED)) == (new, [("002-3",)])
    found = Operator(tmp_path).inside("SELECT reason, page, correlation_id FROM core.quarantine")
    assert [(reason.endswith(f"{kept}"), page) for reason, page, _ in found] == [(True, outcome[0] + 1)] * bool(kept)
    assert {trace for *_, trace in found} <= {asked.correlation_id for asked in service.requests if asked.is_posts(1)}
    service.fault = lambda _: None
    report, outcomes = await _run(tmp_path, service)
    assert (report.state, outcomes[POSTS][0]) == (RunState.COMPLETE, "complete")


class RejectedApi(ListedApi):
    """The first `rejected(number, surface)` records of a list have no id that is known."""

    rejected: Callable[[int | None, str], int]

    def records(self, number: int | None, surface: str) -> Records:
        records, count = super().records(number, surface), self.rejected(number, surface)
        return [{**record, "uid": record["id"], "id": None} for record in records[:count]] + records[count:]


def _some_rejected(number: int | None, surface: str) -> int:
    """All of 4 stories, and of the posts 3 of one account, which is more than half, and 2 of the other."""
    return 4 if surface == "stories" else (4 - (number or 0)) * (surface == "posts")


# Which records are rejected, the partitions that fail because of it, and the posts that can be read.
@pytest.mark.parametrize(
    ("rejected", "failed", "readable"),
    [
        (_some_rejected, {POSTS, (uuid(1), "stories"), (uuid(2), "stories")}, 1 + 2),
        (lambda number, _: 2 * (number is None), {("", "")}, 0),
    ],
    ids=["items", "accounts"],
)
async def test_a_scan_that_rejects_most_records_is_never_complete(
    tmp_path: Path, rejected: Callable[[int | None, str], int], failed: set[tuple[str, str]], readable: int
) -> None:
    service = RejectedApi(accounts=2, posts=4, stories=4)
    service.rejected = rejected
    for selection in [None, None] if ("", "") in failed else [None, None, Selection(everything=True)]:
        service.clock.days(1)
        report = await synced(tmp_path, service, sync_mode="incremental", selection=selection)
        outcomes = {row[:2]: row[2:] for row in Operator(tmp_path).inside(_OUTCOMES.format(run_id=report.run_id))}
        assert report.state is RunState.PARTIAL
        assert {where for where, (kind, *_) in outcomes.items() if kind == "failed"} == failed
        for where in failed:
            _, _, items, code, _, correlation_id, detail = outcomes[where]
            assert code == ("items_rejected" if where[0] else "accounts_rejected")
            last = [asked for asked in service.requests if (asked.account_id or "", asked.surface or "") == where][-1]
            assert correlation_id == last.correlation_id
            assert f" of {items} " in detail
            assert "gramhouse quarantine" in rule_of(code).hint
    ask = Operator(tmp_path).ask
    assert failed.isdisjoint(ask("SELECT account_id, surface FROM freshness WHERE complete_at IS NOT NULL"))
    assert ask("SELECT count(*) FROM media WHERE surface = 'posts'") == [(readable,)]


async def test_a_mapping_set_after_a_run_without_a_row_applies_to_the_next_run(tmp_path: Path) -> None:
    service = RejectedApi(accounts=1, posts=4, stories=4)
    service.rejected = lambda number, _: 4 * (number is not None)
    assert (await _run(tmp_path, service))[0].state is RunState.PARTIAL
    mapping = {"media_id": ["/uid"], "columns": {"own_id": {"paths": ["/uid"]}}}
    report, _ = await _run(tmp_path, service, mapping=mapping)
    assert (report.state, report.mapping_pending, report.media["added"]) == (RunState.COMPLETE, False, 8)
    assert Operator(tmp_path).inside("SELECT count(own_id) FROM core.media") == [(8,)]


async def test_a_key_revoked_during_the_run_wakes_waiting_scans_and_stops_the_catalogue(tmp_path: Path) -> None:
    def failure(asked: Asked) -> Action | None:
        if asked.number is not None and asked.number <= 30:
            # Not a limit: if all accounts are limited, the run sends fewer requests.
            return refuse("api_internal_error", retry_after=50)
        return refuse("api_unauthorized") if asked.number == 31 else None

    service = ListedApi(accounts=200, fault=failure, clock=StillClock())
    async with asyncio.timeout(30):
        report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.FAILED
    assert report.stopped_by is not None
    assert report.stopped_by.code == "api_unauthorized"
    assert {row[3] for key, row in outcomes.items() if key[1] and row[0] == "failed"} == {"api_unauthorized"}
    assert outcomes["", ""][0] == "failed"
    assert report.accounts < 200
    # They landed before anything waited.
    with open_state_read_only(state_path(tmp_path / "warehouse.duckdb")) as state:
        assert state is not None
        assert state.read(read_cooldowns, now=report.started_at)


async def test_a_denied_scope_ends_the_scans_of_media_and_all_accounts_are_listed(tmp_path: Path) -> None:
    service = ListedApi(accounts=60, fault=lambda asked: refuse("api_scope_denied") if asked.number else None)
    report, outcomes = await _run(tmp_path, service)
    assert (report.state, report.accounts, outcomes.pop(("", ""))[0]) == (RunState.FAILED, 60, "complete")
    assert {row[3:5] for row in outcomes.values()} == {("api_scope_denied", 403)}
    assert sum(asked.number is not None for asked in service.requests) < 60


SECOND = Selection((uuid(2),), surfaces=("posts",))


async def killed(folder: Path, service: ListedApi, fault: Callable[[Asked], bool], **asked: Any) -> None:  # noqa: ANN401 - as synced
    """Run a sync that is killed at a request, and forget what was asked for."""
    service.fault = lambda request: RuntimeError("killed") if fault(request) else None
    with pytest.raises(RuntimeError, match="killed"):
        await synced(folder, service, **asked)
    service.fault = lambda _: None
    service.take_requests()
    service.clock.passed += 600


# Also if its cursor is refused, whatever the reason; and the pages and items of both scans.
@pytest.mark.parametrize(("code", "pages", "items"), [(None, 3, 4), ("api_validation_error", 2, 3)])
async def test_an_old_scan_is_continued_and_then_begins_again(
    tmp_path: Path, code: str | None, pages: int, items: int
) -> None:
    service = ListedApi(accounts=1, posts=3)
    await killed(tmp_path, service, lambda asked: asked.cursor == "c2")
    service.clock.days(2)
    service.fault = lambda _: refuse(code) if code and service.post_cursors() == ["c2"] else None
    _, outcomes = await _run(tmp_path, service)
    assert (outcomes[POSTS][:3], service.post_cursors()) == (("complete", pages, items), ["c2", None, "c2"])
    service.clock.days(1)
    service.take_requests()
    assert (await _run(tmp_path, service))[0].state is RunState.COMPLETE
    assert service.post_cursors() == [None, "c2"]


async def test_a_backfill_scans_its_selection_again_and_a_sync_keeps_its_progress(tmp_path: Path) -> None:
    service = ListedApi(posts=6)
    await synced(tmp_path, service)
    items = "SELECT * EXCLUDE (seen_seq, last_seen_at) FROM core.media ORDER BY account_id, media_id"
    before = Operator(tmp_path).inside(items)
    await killed(tmp_path, service, lambda request: request.is_posts(2) and request.cursor == "c4")
    report = await synced(tmp_path, service, selection=SECOND, reason="an edited post")
    assert service.post_cursors(2) == [None, "c2", "c4"] == [one.cursor for one in service.take_requests()]
    assert Operator(tmp_path).inside(items) == before
    assert (report.accounts, report.outcomes) == (1, {OutcomeKind.COMPLETE: 1})
    entered = "SELECT kind, selection, reason, state FROM core.runs ORDER BY seq DESC LIMIT 1"
    said = ("backfill", f"{uuid(2)} (posts)", "an edited post", "complete")
    assert Operator(tmp_path).inside(entered) == [said]
    report = await synced(tmp_path, service)
    assert (report.state, len(report.resumed_runs)) == (RunState.COMPLETE, 1)
    assert service.post_cursors(2) == ["c4"]


@pytest.mark.parametrize(("chosen", "state"), [((2,), RunState.PARTIAL), ((1, 2), RunState.COMPLETE)])
async def test_a_backfill_that_skips_all_is_partial(tmp_path: Path, chosen: tuple[int, ...], state: RunState) -> None:
    service = ListedApi(expired=frozenset({2}))
    await synced(tmp_path, service)
    service.take_requests()
    report = await synced(tmp_path, service, selection=Selection(tuple(map(uuid, chosen))))
    assert (report.state, {one.number for one in service.requests}) == (state, {*chosen} - {2})
    nothing = "Nothing was scanned: the token of the account has expired. Fix: the owner must renew it first"
    assert to_message(report).startswith(nothing) is (state is RunState.PARTIAL)


async def test_a_sync_of_stories_requests_no_posts_and_is_not_a_full_run(tmp_path: Path) -> None:
    service = ListedApi()
    await killed(tmp_path, service, lambda request: request.number == 3, surfaces=("stories",))
    assert (await synced(tmp_path, service)).resumed_runs == ()
    service.take_requests()
    report = await synced(tmp_path, service, surfaces=("stories",))
    assert (report.selection, report.outcomes.total()) == ("stories", 4)
    assert {one.surface for one in service.requests} == {None, "stories"}
    assert Operator(tmp_path).inside(_REMOVED) == []
    fresh = "SELECT surface, outcome, count(*) FROM freshness GROUP BY ALL ORDER BY ALL"
    assert Operator(tmp_path).ask(fresh) == [("posts", "complete", 3), ("stories", "complete", 3)]
