"""The outcomes of a partition: every way a scan can end, with a real warehouse."""

import asyncio
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.sandbox.http.requests import PageRequest
from connectors.source.errors import rule_of
from flows.reporting.run_report import RunReport
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
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


async def _killed(folder: Path, service: ListedApi, fault: Callable[[Asked], BaseException | None]) -> None:
    """Run a sync that dies at a request."""
    service.fault = fault
    with pytest.raises(RuntimeError, match="killed"):
        await _run(folder, service)
    service.fault = lambda _: None


async def test_a_setting_lets_expired_accounts_be_scanned_and_nothing_of_them_is_removed(tmp_path: Path) -> None:
    service = ListedApi(accounts=2, posts=3, expired=frozenset({2}))
    for posts in (3, 2, 2):
        service.posts = posts
        report, _ = await _run(tmp_path, service, scan_expired=True)
        assert report.outcomes == {OutcomeKind.COMPLETE: 5}
        service.clock.days(1)
    assert Operator(tmp_path).inside(_REMOVED) == [("001-2",)]


Spoil = Callable[[str | None, bytes], bytes]


class SpoiledApi(ListedApi):
    """An API that changes the pages of the first account's posts; `spoil` gets the cursor and the page."""

    spoil: Spoil = staticmethod(lambda _, page: page)

    def render(self, request: PageRequest) -> bytes:
        page = super().render(request)
        return self.spoil(request.cursor, page) if Asked.of(request).is_posts(1) else page


def at(cursor: str | None, *changes: tuple[bytes, bytes]) -> Spoil:
    """Replace texts of the page at a cursor."""

    def spoil(asked: str | None, page: bytes) -> bytes:
        for old, new in changes if asked == cursor else ():
            page = re.sub(old, new, page, count=1)
        return page

    return spoil


TWO_LISTS = '{"posts": [], "stories": [], "next_cursor": null}'
_NEW = (rb"a post", b"new")
_ALL = rb"(?s).*"
_END, _CURSOR = rb"}$", rb', "next_cursor": [^}]*'

# What is wrong with a page, the pages, items and code of the scan that it ends, how many new items landed from it, and
# the reason for which the page is kept. The list has 3 posts, 2 of them on a page, and had 4.
LISTS: dict[str, tuple[Spoil, tuple[int, int, str], int, str | None]] = {
    "two lists": (at("c2", (_ALL, TWO_LISTS.encode())), (1, 2, "malformed_page"), 0, "no list of items found."),
    "no cursor": (at("c2", _NEW, (_CURSOR, b"")), (2, 3, "cursor_missing"), 1, None),
}


@pytest.mark.parametrize("case", LISTS)
async def test_a_list_that_cannot_be_followed_fails_alone_and_decides_nothing(tmp_path: Path, case: str) -> None:
    spoil, outcome, new, kept = LISTS[case]
    service = SpoiledApi(accounts=2, posts=4)
    await _run(tmp_path, service)
    service.spoil, service.posts = spoil, 3
    for _ in range(2):
        service.clock.days(1)
        before = len(service.post_cursors())
        report, outcomes = await _run(tmp_path, service)
        assert report.state is RunState.PARTIAL
        assert outcomes[POSTS][:4] == ("failed", *outcome)
        assert outcomes[uuid(2), "posts"][0] == "complete"
        assert service.post_cursors()[before] is None or kept
    captions = Operator(tmp_path).inside("SELECT media_id FROM core.media WHERE caption = 'new'")
    assert (len(captions), Operator(tmp_path).inside(_REMOVED)) == (new, [("002-3",)])
    found = Operator(tmp_path).inside("SELECT reason, page, position, correlation_id FROM core.quarantine")
    if kept is not None:
        [(reason, page, position, trace)] = found
        assert (reason.endswith(kept), page, position) == (True, outcome[0] + 1, None)
        assert trace in [asked.correlation_id for asked in service.requests if asked.is_posts(1)]
    else:
        assert found == []

    del service.spoil
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
        report = await synced(tmp_path, service, mode="incremental", selection=selection)
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
    with duckdb.connect(tmp_path / "analytics.duckdb", read_only=True) as snapshot:
        fresh = snapshot.execute("SELECT account_id, surface FROM freshness WHERE complete_at IS NOT NULL").fetchall()
        posts = snapshot.execute("SELECT count(*) FROM media WHERE surface = 'posts'").fetchall()
    assert failed.isdisjoint(fresh)
    assert posts == [(readable,)]


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


async def test_a_denied_scope_ends_the_scans_of_media_and_all_accounts_are_listed(tmp_path: Path) -> None:
    service = ListedApi(accounts=60, fault=lambda asked: refuse("api_scope_denied") if asked.number else None)
    report, outcomes = await _run(tmp_path, service)
    assert (report.state, report.accounts, outcomes.pop(("", ""))[0]) == (RunState.FAILED, 60, "complete")
    assert {row[3] for row in outcomes.values()} == {"api_scope_denied"}
    assert sum(asked.number is not None for asked in service.requests) < 60


# How the scan of two days ago goes on: which cursors are asked for, its outcome, and where the next run begins.
OLD: dict[str, tuple[Spoil, Callable[[Asked], Action | None], list[str | None], tuple[Any, ...], list[str | None]]] = {
    "it ends": (at("c9"), lambda _: None, ["c2", None, "c2"], ("complete", 3, 4, None), [None, "c2"]),
    "neither its cursor nor the list can be followed": (
        at(None, (_CURSOR, b"")),
        lambda asked: refuse("api_validation_error") if asked.cursor == "c2" else None,
        ["c2", None],
        ("failed", 1, 2, "cursor_missing"),
        [None, "c2"],
    ),
}


@pytest.mark.parametrize("case", OLD)
async def test_an_old_scan_is_continued_and_then_begins_again(tmp_path: Path, case: str) -> None:
    spoil, fault, asked, outcome, next_asked = OLD[case]
    service = SpoiledApi(accounts=1, posts=3)
    await _killed(tmp_path, service, lambda each: RuntimeError("killed") if each.cursor == "c2" else None)
    service.clock.days(2)
    service.requests.clear()
    service.spoil, service.fault = spoil, fault
    _, outcomes = await _run(tmp_path, service)
    assert outcomes[POSTS][:4] == outcome
    assert [cursor for cursor, _ in groupby(service.post_cursors())] == asked
    del service.spoil
    service.fault = lambda _: None
    service.requests.clear()
    service.clock.days(1)
    assert (await _run(tmp_path, service))[0].state is RunState.COMPLETE
    assert service.post_cursors() == next_asked
