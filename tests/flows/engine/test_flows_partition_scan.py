"""How scans end, and that they do: settings, rejected records, a lost key, kills, backfills, syncs of a part, loops."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from connectors.source.errors import SKIP, ApiError, rule_of
from connectors.source.messages import ACCOUNTS, Memory, Response
from connectors.source.waits import Attempts, RateLimitBudget
from connectors.state.database import open_state_read_only, state_path
from connectors.state.inbox import read_cooldowns
from flows.engine.scan import MOST_EMPTY, MOST_REPEATED, Scan
from flows.reporting.message import to_message
from flows.reporting.run_report import RunReport
from models.api import Page
from models.checkpoint import Checkpoint, Post
from models.feeds import media
from models.runs import OutcomeKind, RunState
from models.selection import ChosenAccount, Selection
from tests.api.asked import Asked
from tests.api.faults import Action, change_page, refuse
from tests.api.listed import ListedApi, Records, uuid
from tests.clocks import START, StillClock
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


async def test_lists_that_cannot_be_followed_fail_alone_and_decide_nothing(tmp_path: Path) -> None:
    spoil: dict[int | None, Callable[[Any], Any]] = {
        1: lambda _: {"posts": [], "stories": [], "next_cursor": None},
        2: lambda page: {"items": [{**one, "caption": "new"} for one in page["items"]]},
    }
    service = ListedApi(accounts=3, posts=4)
    await _run(tmp_path, service)
    service.posts = 3
    service.fault = lambda asked: change_page(spoil[asked.number]) if asked.number in spoil and asked.cursor else None
    for _ in range(2):
        service.clock.days(1)
        before = len(service.post_cursors(2))
        report, outcomes = await _run(tmp_path, service)
        assert (report.state, outcomes[uuid(3), "posts"][0]) == (RunState.PARTIAL, "complete")
        assert outcomes[POSTS][:4] == ("failed", 1, 2, "malformed_page")
        assert outcomes[uuid(2), "posts"][:4] == ("failed", 2, 3, "cursor_missing")
        assert service.post_cursors(2)[before] is None
    assert Operator(tmp_path).inside("SELECT media_id FROM core.media WHERE caption = 'new'") == [("002-2",)]
    assert Operator(tmp_path).inside(_REMOVED) == [("003-3",)]
    [(reason, page, trace)] = Operator(tmp_path).inside("SELECT reason, page, correlation_id FROM core.quarantine")
    assert (reason.endswith("no list of items found."), page) == (True, 2)
    assert trace in {asked.correlation_id for asked in service.requests if asked.is_posts(1)}
    service.fault = lambda _: None
    assert (await _run(tmp_path, service))[0].state is RunState.COMPLETE


class RejectedApi(ListedApi):
    """The first `rejected(number, surface)` records of a list have no id that is known."""

    rejected: Callable[[int | None, str], int]

    def records(self, number: int | None, surface: str) -> Records:
        records, count = super().records(number, surface), self.rejected(number, surface)
        return [{**record, "uid": record["id"], "id": None} for record in records[:count]] + records[count:]


def _some_rejected(number: int | None, surface: str) -> int:
    """3 of 5 accounts, all of 4 stories, and of 4 posts 3 of account 4, which is more than half, and 2 of account 5."""
    return 3 if number is None else 4 if surface == "stories" else 7 - number


REJECTED = {("", ""), (uuid(4), "posts"), (uuid(4), "stories"), (uuid(5), "stories")}


async def test_a_scan_that_rejects_most_records_is_never_complete(tmp_path: Path) -> None:
    service = RejectedApi(accounts=5, posts=4, stories=4)
    service.rejected = _some_rejected
    for selection in (None, None, Selection(everything=True)):
        service.clock.days(1)
        report = await synced(tmp_path, service, sync_mode="incremental", selection=selection)
        rows = Operator(tmp_path).inside(_OUTCOMES.format(run_id=report.run_id))
        failed = {row[:2]: row[2:] for row in rows if row[2] == "failed"}
        assert (report.state, {*failed}) == (RunState.PARTIAL, REJECTED if selection is None else REJECTED - {("", "")})
        for where, (_, _, items, code, _, correlation_id, detail) in failed.items():
            assert code == ("items_rejected" if where[0] else "accounts_rejected")
            assert correlation_id == [one for one in service.requests if one.partition == where][-1].correlation_id
            assert f" of {items} " in detail
            assert "gramhouse quarantine" in rule_of(code).hint
    ask = Operator(tmp_path).ask
    assert REJECTED.isdisjoint(ask("SELECT account_id, surface FROM freshness WHERE complete_at IS NOT NULL"))
    assert ask("SELECT count(*) FROM media WHERE surface = 'posts'") == [(1 + 2,)]


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
    report = await synced(
        tmp_path, service, selection=Selection((uuid(2),), surfaces=("posts",)), reason="an edited post"
    )
    assert service.post_cursors(2) == [None, "c2", "c4"] == [one.cursor for one in service.take_requests()]
    assert Operator(tmp_path).inside(items) == before
    assert (report.accounts, report.outcomes) == (1, {OutcomeKind.COMPLETE: 1})
    entered = "SELECT kind, selection, reason, state FROM core.runs ORDER BY seq DESC LIMIT 1"
    said = ("backfill", f"{uuid(2)} (posts)", "an edited post", "complete")
    assert Operator(tmp_path).inside(entered) == [said]
    report = await synced(tmp_path, service)
    assert (report.state, len(report.resumed_runs)) == (RunState.COMPLETE, 1)
    assert service.post_cursors(2) == ["c4"]


async def test_a_sync_continues_after_a_backfill_that_saw_the_rest_of_its_list(tmp_path: Path) -> None:
    service = ListedApi(accounts=1, posts=60)
    service.fault = lambda asked: RuntimeError("killed") if asked.is_posts(1) and asked.cursor == "c10" else None
    with pytest.raises(RuntimeError, match="killed"):
        await synced(tmp_path, service)
    service.fault = lambda _: None
    service.clock.passed += 600
    await synced(tmp_path, service, selection=Selection((uuid(1),), surfaces=("posts",)))
    service.clock.passed += 600
    report, _ = await _run(tmp_path, service)
    assert report.state is RunState.COMPLETE


async def test_a_backfill_does_not_take_a_page_that_lost_its_cursor_for_the_last_one(tmp_path: Path) -> None:
    service = ListedApi(accounts=1, posts=8)
    await _run(tmp_path, service)
    lost = change_page(lambda page: {"items": page["items"]})
    service.fault = lambda asked: lost if asked.is_posts(1) else None
    await _run(tmp_path, service)
    report = await synced(tmp_path, service, selection=Selection(failed=True))
    assert [group.error_code for group in report.failure_groups] == ["cursor_missing"]


@pytest.mark.parametrize("kind", ["deferred", "failed"])
async def test_what_ended_the_run_leaves_the_pages_that_a_scan_has_landed(tmp_path: Path, kind: str) -> None:
    service = ListedApi(accounts=1, posts=8)
    if kind == "failed":
        service.fault = lambda asked: refuse("api_unauthorized") if asked.cursor == "c4" else None
    _, outcomes = await _run(tmp_path, service, **({"max_requests": 4} if kind == "deferred" else {}))
    assert outcomes[POSTS][:3] == (kind, 2, 4)
    assert Operator(tmp_path).ask("SELECT observed FROM observed WHERE surface = 'posts'") == [("partly",)]


async def test_a_backfill_that_skips_all_is_partial(tmp_path: Path) -> None:
    service = ListedApi(expired=frozenset({2}))
    await synced(tmp_path, service)
    for chosen, state in (({2}, RunState.PARTIAL), ({1, 2}, RunState.COMPLETE)):
        service.take_requests()
        report = await synced(tmp_path, service, selection=Selection(tuple(map(uuid, chosen))))
        assert (report.state, {one.number for one in service.requests}) == (state, chosen - {2})
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


Listed = tuple[str | None, Sequence[str]]
FRESH = Checkpoint(media("anna", "stories"), "scan", "run", START, START)


def begin(cursor: str | None = None, **progress: Any) -> Scan:  # noqa: ANN401 - fields of a checkpoint
    scan = Scan(ChosenAccount("anna"), FRESH, FRESH, Attempts(50), RateLimitBudget("anna", 0.0))
    scan.continue_at(replace(FRESH, cursor=cursor, **progress))
    return scan


def follow(scan: Scan, pages: Iterable[Listed]) -> tuple[int, str]:
    """Follow pages, each a next cursor and the ids of its items; return how many were accepted, and the error."""
    number = 0
    for number, (cursor, ids) in enumerate(pages):
        try:
            page = Page([each.encode() for each in ids], cursor, frozenset())
            posts = [Post(each, None) for each in ids]
            scan.follow(Response(ACCOUNTS, page, "C"), posts, at=START)
        except ApiError as error:
            about, rule = (error.operation, error.correlation_id), error.rule
            assert (about, rule.disposition, rule.outcome) == ((ACCOUNTS, "C"), SKIP, "failed")
            return number, error.code
    return number + 1, ""


@pytest.mark.parametrize(
    ("start", "cursors", "accepted"),
    [(None, "aa", 1), (None, "aba", 2), (None, "abcdb", 4), ("a", "ba", 1), ("a", "a", 0)],
)
def test_a_page_with_a_repeated_cursor_fails_immediately(start: str | None, cursors: str, accepted: int) -> None:
    pages = [(cursor, [str(number)]) for number, cursor in enumerate(cursors)]
    assert follow(begin(start), pages) == (accepted, "cursor_loop")


def test_cursors_are_compared_exactly() -> None:
    scan = begin()
    assert follow(scan, [(cursor, ()) for cursor in ("A", "a", " a", "ä", "a" * 1024)]) == (5, "")
    assert {len(digest) for digest in scan.cursors} == {16}
    assert follow(scan, [("ä", ())]) == (0, "cursor_loop")


ENDLESS = "cursor_no_progress"


@pytest.mark.parametrize(
    ("scan", "ids", "accepted", "code"),
    [
        (begin(), repeat(("1", "2")), MOST_REPEATED, ENDLESS),
        (begin(), chain([("1",), ("2",), ("3",)], repeat(("3", "1"))), 2 + MOST_REPEATED, ENDLESS),
        (begin(), repeat(()), MOST_EMPTY - 1, ENDLESS),
        (begin(), chain([("1",)], ((), ("1",)) * 9, repeat(("1",))), 19, ENDLESS),
        # Pages that an earlier process saw in vain count.
        (begin("before", repeated_pages=6), repeat(()), MOST_EMPTY - 1, ENDLESS),
        (begin("before", empty_pages=MOST_EMPTY - 2), repeat(()), 1, ENDLESS),
        (begin(), [*[("1",)] * MOST_REPEATED, ("2",), *[("1", "2")] * (MOST_REPEATED - 1)], 2 * MOST_REPEATED, ""),
        (begin(), [("1",), *[()] * (MOST_EMPTY - 1), ("2",), *[()] * (MOST_EMPTY - 1)], 2 * MOST_EMPTY, ""),
    ],
    ids=["the same page", "some of the same items", "empty pages", "empty pages between", "resumed", "resumed, empty",
         "new in time", "not empty in time"],
)  # fmt: skip
def test_a_listing_without_an_end_fails(scan: Scan, ids: Iterable[Sequence[str]], accepted: int, code: str) -> None:
    assert follow(scan, ((f"c{number}", each) for number, each in enumerate(ids))) == (accepted, code)


def test_the_last_page_may_have_nothing_new() -> None:
    scan = begin(repeated_pages=MOST_REPEATED - 1)
    scan.seen.remember("1")
    assert follow(scan, [(None, ["1"])]) == (1, "")


def test_a_memory_is_bounded_and_holds_a_thousand_full_pages() -> None:
    memory = Memory()
    assert all(memory.remember(str(number)) for number in range(250_000))
    assert not any(memory.remember(str(number)) for number in range(200_000, 250_000))
    assert len(memory.recent) + len(memory.older) <= 100_000
