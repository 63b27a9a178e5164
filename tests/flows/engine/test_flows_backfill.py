"""Backfills: selected scans from the first page, with progress separate from that of syncs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.message import to_message
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.listed import ListedApi, uuid
from tests.operator import Operator
from tests.runs import synced

pytestmark = pytest.mark.anyio

POSTS = ("posts",)
ALL = Selection(everything=True, surfaces=POSTS)
SECOND = Selection((uuid(2),), surfaces=POSTS)


class Killed(Exception):  # noqa: N818
    """The process was killed."""


class Service(ListedApi):
    """An API that knows what was asked for since the last look."""

    seen = 0

    def asked(self) -> list[tuple[int | None, str, str | None]]:
        new, self.seen = self.requests[self.seen :], len(self.requests)
        return [(request.number, request.surface or "", request.cursor) for request in new]

    async def killed(self, folder: Path, fault: Callable[[Asked], bool], **asked: Any) -> None:  # noqa: ANN401 - as `synced`
        self.fault = lambda request: Killed() if fault(request) else None
        with pytest.raises(Killed):
            await synced(folder, self, **asked)
        self.fault = lambda _: None
        self.asked()
        self.clock.passed += 600


async def test_a_backfill_scans_its_selection_again_and_a_sync_keeps_its_progress(tmp_path: Path) -> None:
    service = Service(posts=6)
    await synced(tmp_path, service)
    items = "SELECT * EXCLUDE (seen_seq, last_seen_at) FROM core.media ORDER BY account_id, media_id"
    before = Operator(tmp_path).inside(items)
    await service.killed(tmp_path, lambda request: request.is_posts(2) and request.cursor == "c4")
    report = await synced(tmp_path, service, selection=SECOND, reason="an edited post")
    assert service.asked() == [(2, "posts", cursor) for cursor in (None, "c2", "c4")]
    assert Operator(tmp_path).inside(items) == before
    assert (report.accounts, report.outcomes) == (1, {OutcomeKind.COMPLETE: 1})
    entered = Operator(tmp_path).inside(
        "SELECT kind, selection, reason, state FROM core.runs ORDER BY seq DESC LIMIT 1"
    )
    assert entered == [("backfill", f"{uuid(2)} (posts)", "an edited post", "complete")]
    report = await synced(tmp_path, service)
    assert (report.state, len(report.resumed_runs)) == (RunState.COMPLETE, 1)
    assert [page for page in service.asked() if page[:2] == (2, "posts")] == [(2, "posts", "c4")]


@pytest.mark.parametrize(("chosen", "state"), [((2,), RunState.PARTIAL), ((1, 2), RunState.COMPLETE)])
async def test_a_backfill_that_skips_all_is_partial(tmp_path: Path, chosen: tuple[int, ...], state: RunState) -> None:
    service = Service(expired=frozenset({2}))
    await synced(tmp_path, service)
    service.asked()
    report = await synced(tmp_path, service, selection=Selection(tuple(map(uuid, chosen))))
    assert (report.state, {account for account, *_ in service.asked()}) == (state, {*chosen} - {2})
    nothing = "Nothing was scanned: the token of the account has expired. Fix: the owner must renew it first"
    assert to_message(report).startswith(nothing) is (state is RunState.PARTIAL)


async def test_a_sync_of_stories_requests_no_posts_and_is_not_a_full_run(tmp_path: Path) -> None:
    service = Service()
    await service.killed(tmp_path, lambda request: request.number == 3, surfaces=("stories",))
    assert (await synced(tmp_path, service)).resumed_runs == ()
    service.asked()
    report = await synced(tmp_path, service, surfaces=("stories",))
    assert (report.selection, report.outcomes.total()) == ("stories", 4)
    assert {surface for _, surface, _ in service.asked()} == {"", "stories"}
    assert Operator(tmp_path).inside("SELECT count(*) FROM core.media WHERE removed_at IS NOT NULL") == [(0,)]
    with open_snapshot(report.snapshot) as snapshot:
        fresh = "SELECT surface, outcome, count(*) FROM freshness GROUP BY ALL ORDER BY ALL"
        outcomes = snapshot.db.execute(fresh).fetchall()
    assert outcomes == [("posts", "complete", 3), ("stories", "complete", 3)]
