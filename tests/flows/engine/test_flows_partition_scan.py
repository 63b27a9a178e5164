"""The outcomes of a partition: every way a scan can end, with a real warehouse."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.sandbox.http.replies import PageRequest
from connectors.source.errors import hint_for
from connectors.source.retry import TRIES
from connectors.state.inbox import count_landings
from connectors.warehouse.maintenance.rebuild import rebuild
from flows.config.mapping import MappingSettings
from flows.engine.warehouse import Warehouse
from flows.pipeline import run_sync
from flows.reporting.progress import Progress
from flows.reporting.run_report import RunReport
from models.page_commit import PageCommit
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, RejectedApi, uuid
from tests.clocks import StillClock
from tests.runs import open_run_resources, request, stored, stored_state, synced

pytestmark = [pytest.mark.anyio]

FailureGroup = Callable[[Asked], Action | BaseException | None]

_OUTCOMES = """
SELECT account_id, surface, outcome, pages, items, error_code, http_status, correlation_id, detail
FROM core.run_outcomes WHERE run_id = '{run_id}'
ORDER BY resource, account_id, surface
"""


async def _run(
    folder: Path,
    service: ListedApi,
    **changes: Any,  # noqa: ANN401 - fields of RunRequest
) -> tuple[RunReport, dict[tuple[str, str], tuple[Any, ...]]]:
    report = await synced(folder, service, **changes)
    outcomes = {row[:2]: row[2:] for row in stored(folder, _OUTCOMES.format(run_id=report.run_id))}
    assert stored(folder, "FROM core.runs WHERE state = 'running'") == []
    assert report.outcomes.total == 1 + 2 * report.accounts == len(outcomes)
    return report, outcomes


def _posts(service: ListedApi, account: int) -> list[str | None]:
    return [request.cursor for request in service.requests if request.is_posts(account)]


async def test_no_page_is_asked_for_before_the_one_before_it_has_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str | None] = []
    land = Warehouse.land

    async def landing(self: Warehouse, commit: PageCommit) -> None:
        await land(self, commit)
        if commit.checkpoint is not None and commit.checkpoint.partition.surface == "posts":
            happened.append(f"landed {commit.checkpoint.pages}")

    monkeypatch.setattr(Warehouse, "land", landing)
    service = ListedApi(accounts=1, posts=5)

    def asked(request: Asked) -> None:
        if request.is_posts(1):
            happened.append(request.cursor)

    service.fault = asked
    await _run(tmp_path, service)
    assert happened == [None, "landed 1", "c2", "landed 2", "c4", "landed 3"]


async def test_a_setting_lets_expired_accounts_be_scanned(tmp_path: Path) -> None:
    service = ListedApi(accounts=2, expired=frozenset({2}))
    report, _ = await _run(tmp_path, service, scan_expired=True)
    assert report.outcomes.kinds == {OutcomeKind.COMPLETE: 5}


async def test_items_of_an_expired_account_are_not_removed_while_it_is_scanned(tmp_path: Path) -> None:
    service = ListedApi(accounts=2, posts=3, expired=frozenset({2}))
    gone = "SELECT media_id FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"
    for posts in (3, 2, 2):
        service.posts = posts
        await _run(tmp_path, service, scan_expired=True)
        service.clock.passed += 86_400
    assert stored(tmp_path, gone) == [("001-2",)]
    # Two scans decide after the token was renewed.
    service.expired = frozenset()
    removed = []
    for _ in range(2):
        await _run(tmp_path, service)
        removed.append([media_id for (media_id,) in stored(tmp_path, gone)])
        service.clock.passed += 86_400
    assert removed == [["001-2"], ["001-2", "002-2"]]


TWO_LISTS = b'{"posts": [], "stories": [], "next_cursor": null}'


class _Spoiling(ListedApi):
    """An API that changes a page of the first account's posts, by default the second one."""

    spoil: Callable[[bytes], bytes] = bytes
    cursor: str | None = "c2"

    def render(self, request: PageRequest) -> bytes:
        page = super().render(request)
        return self.spoil(page) if Asked.of(request).is_posts(1) and request.cursor == self.cursor else page


async def test_an_unreadable_page_is_kept_and_its_scan_continues_in_the_next_run(tmp_path: Path) -> None:
    service = _Spoiling(accounts=2, posts=3)
    service.spoil = lambda _: TWO_LISTS
    report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.PARTIAL
    assert outcomes[uuid(1), "posts"][:4] == ("failed", 1, 2, "malformed_page")
    kept = "SELECT reason, account_id, surface, page, position, payload, correlation_id FROM core.quarantine"
    [(reason, *found)] = stored(tmp_path, kept)
    assert stored(tmp_path, "SELECT sum(pages) FROM core.run_counts") == [(6,)]
    assert reason.endswith("no list of items found.")
    *found, trace = found
    assert found == [uuid(1), "posts", 2, None, TWO_LISTS.decode()]
    assert trace in [
        asked.correlation_id for asked in service.requests if asked.is_posts(1) and asked.cursor is not None
    ]

    service.spoil = bytes
    report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.COMPLETE
    assert stored(tmp_path, "SELECT count(*) FROM core.media") == [(6,)]


@pytest.mark.parametrize(
    "more",
    [
        '"items":[]',
        *(pytest.param(one, marks=pytest.mark.long) for one in ('"next_cursor":null', '"data":[{"id":"9"}]')),
    ],
)
async def test_a_page_with_a_duplicate_key_fails_its_scan_alone_and_removes_nothing(tmp_path: Path, more: str) -> None:
    service = _Spoiling(accounts=2, posts=3)
    service.cursor = None
    await _run(tmp_path, service)
    items = b'"data"' if "data" in more else b'"items"'
    service.spoil = lambda page: page.replace(b'"items"', items, 1)[:-1] + f", {more}}}".encode()
    for _ in range(2):
        service.clock.passed += 86_400
        report, outcomes = await _run(tmp_path, service)
        assert report.state is RunState.PARTIAL
        assert outcomes[uuid(1), "posts"][:4] == ("failed", 0, 0, "malformed_page")
        assert outcomes[uuid(2), "posts"][0] == "complete"
    assert stored(tmp_path, "SELECT count(*), count(removed_at) FROM core.media") == [(6, 0)]
    [(reason,)] = stored(tmp_path, "SELECT reason FROM core.quarantine")
    assert reason.endswith("it contains a duplicate key.")


_QUARANTINE = "SELECT reason, page, position, payload FROM core.quarantine"
_STORED = "SELECT media_id, caption, removed_at IS NULL FROM core.media ORDER BY media_id"


async def test_a_scan_goes_on_after_an_item_that_is_not_utf_8_and_removes_nothing(tmp_path: Path) -> None:
    service = _Spoiling(accounts=1, posts=6)
    service.cursor = None
    await _run(tmp_path, service)
    # Item 1 is not UTF-8, item 0 changes, and item 5 is not listed.
    service.posts = 5
    service.spoil = lambda page: page.replace(b"a post", b"a\\nb", 1).replace(b"a post", b"caf\xe9")
    for _ in range(2):
        service.clock.passed += 86_400
        report, outcomes = await _run(tmp_path, service)
        assert (report.state, report.items) == (RunState.COMPLETE, 6)
        assert outcomes[uuid(1), "posts"][:3] == ("complete", 3, 5)
        broken = '{"id": "001-1", "caption": "caf\\xe9"}'
        assert stored(tmp_path, _QUARANTINE) == [("The item is not JSON.", 1, 1, broken)]
    captions = ["a\nb", *["a post"] * 5]
    assert stored(tmp_path, _STORED) == [(f"001-{n}", caption, True) for n, caption in enumerate(captions)]

    service.spoil = bytes
    for _ in range(2):
        service.clock.passed += 86_400
        await _run(tmp_path, service)
    assert [is_there for _, _, is_there in stored(tmp_path, _STORED)] == [*[True] * 5, False]


@pytest.mark.parametrize("media_id", [[], ["/code"]], ids=["built-in", "mapped"])
async def test_an_item_that_parsers_refuse_lands_or_is_rejected_and_the_scan_goes_on(
    tmp_path: Path, media_id: list[str]
) -> None:
    long, deep = "9" * 5_000, "[" * 250 + "]" * 250
    service = _Spoiling(accounts=1, posts=4)
    service.cursor = None
    service.spoil = lambda page: page.replace(b'"a post"', f'"a", "timestamp": {long}'.encode(), 1).replace(
        b'"a post"', f'"b", "n": {deep}'.encode()
    )
    for quarantined in (1, 1):
        report, outcomes = await _run(tmp_path, service, mapping={"media_id": media_id})
        assert report.state is RunState.COMPLETE
        assert outcomes[uuid(1), "posts"][:3] == ("complete", 2, 4)
        assert len(stored(tmp_path, _QUARANTINE)) == quarantined
        service.clock.passed += 86_400
    assert [row[0] for row in stored(tmp_path, _STORED)] == ["001-0", "001-2", "001-3"]


@pytest.mark.parametrize(
    ("written", "code"),
    [
        pytest.param(b"", "cursor_missing", id="missing"),
        pytest.param(b', "next_cursor": ""', "cursor_empty", id="empty", marks=pytest.mark.long),
    ],
)
async def test_a_page_without_a_cursor_after_pages_with_one_lands_and_ends_nothing(
    tmp_path: Path, written: bytes, code: str
) -> None:
    service = _Spoiling(accounts=1, posts=4)
    await _run(tmp_path, service)
    # A scan whose end is uncertain removes nothing: on the second page or, because the list had two, on the first.
    service.spoil = lambda page: page.replace(b', "next_cursor": null', written).replace(b"a post", b"new")
    for cursor, pages, posts, requested in (("c2", 2, 4, [None, "c2"]), (None, 1, 2, [None])):
        service.cursor, service.posts = cursor, posts
        service.clock.passed += 86_400
        service.requests.clear()
        report, outcomes = await _run(tmp_path, service)
        assert report.state is RunState.PARTIAL
        assert outcomes[uuid(1), "posts"][:4] == ("failed", pages, posts, code)
        assert _posts(service, 1) == requested
    captions = ["new"] * 4
    assert stored(tmp_path, _STORED) == [(f"001-{n}", caption, True) for n, caption in enumerate(captions)]

    service.spoil = bytes
    for _ in range(2):
        service.clock.passed += 86_400
        report, _ = await _run(tmp_path, service)
        assert report.state is RunState.COMPLETE
    assert [is_there for _, _, is_there in stored(tmp_path, _STORED)] == [True, True, False, False]


async def test_a_last_page_that_repeats_its_cursor_lands_and_ends_nothing(tmp_path: Path) -> None:
    service = _Spoiling(accounts=1, posts=4)
    await _run(tmp_path, service)
    service.spoil = lambda page: page.replace(b"null", b'"c2"').replace(b"a post", b"new")
    service.posts = 3
    for _ in range(2):
        service.clock.passed += 86_400
        service.requests.clear()
        report, outcomes = await _run(tmp_path, service)
        assert report.state is RunState.PARTIAL
        assert outcomes[uuid(1), "posts"][:4] == ("failed", 2, 3, "cursor_loop")
        assert _posts(service, 1) == [None, "c2"]
    captions = ["a post", "a post", "new", "a post"]
    assert stored(tmp_path, _STORED) == [(f"001-{n}", caption, True) for n, caption in enumerate(captions)]


def _some_rejected(number: int | None, surface: str) -> int:
    """All of 4 stories, and of the posts 3 of one account, which is more than half, and 2 of the other."""
    return 4 if surface == "stories" else (4 - (number or 0)) * (surface == "posts")


# Which records are rejected, the partitions that fail because of it, and the posts that can be read.
@pytest.mark.parametrize(
    ("rejected", "failed", "readable"),
    [
        (_some_rejected, {(uuid(1), "posts"), (uuid(1), "stories"), (uuid(2), "stories")}, 1 + 2),
        (lambda number, _: 2 * (number is None), {("", "")}, 0),
    ],
    ids=["items", "accounts"],
)
async def test_a_scan_that_rejects_most_records_is_never_complete(
    tmp_path: Path, rejected: Callable[[int | None, str], int], failed: set[tuple[str, str]], readable: int
) -> None:
    service = RejectedApi(accounts=2, posts=4, rejected=rejected)
    selections = [None, None] if ("", "") in failed else [None, None, Selection(everything=True)]
    for selection in selections:
        service.clock.days(1)
        report = await synced(tmp_path, service, mode="incremental", selection=selection)
        outcomes = {row[:2]: row[2:] for row in stored(tmp_path, _OUTCOMES.format(run_id=report.run_id))}
        assert report.state is RunState.PARTIAL
        assert {where for where, (kind, *_) in outcomes.items() if kind == "failed"} == failed
        for where in failed:
            _, _, items, code, _, correlation_id, detail = outcomes[where]
            assert code == ("items_rejected" if where[0] else "accounts_rejected")
            last = [asked for asked in service.requests if (asked.account_id or "", asked.surface or "") == where][-1]
            assert correlation_id == last.correlation_id
            assert f" of {items} " in detail
            assert "gramhouse quarantine" in hint_for(code)
    with duckdb.connect(tmp_path / "analytics.duckdb", read_only=True) as snapshot:
        fresh = snapshot.execute("SELECT account_id, surface FROM freshness WHERE complete_at IS NOT NULL").fetchall()
        posts = snapshot.execute("SELECT count(*) FROM media WHERE surface = 'posts'").fetchall()
    assert failed.isdisjoint(fresh)
    assert posts == [(readable,)]


async def test_records_rejected_before_a_kill_count_after_it(tmp_path: Path) -> None:
    service = RejectedApi(accounts=1, posts=5, rejected=lambda _, surface: 3 * (surface == "posts"))
    service.fault = lambda request: RuntimeError("killed") if request.cursor == "c4" else None
    with pytest.raises(RuntimeError, match="killed"):
        await _run(tmp_path, service)
    service.fault = lambda _: None
    report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.PARTIAL
    assert outcomes[uuid(1), "posts"][:4] == ("failed", 1, 1, "items_rejected")
    assert outcomes[uuid(1), "posts"][-1] == "3 of 5 items have no id that gramhouse knows, or are not JSON"


async def test_a_mapping_with_the_path_of_the_id_makes_the_scan_complete(tmp_path: Path) -> None:
    service = RejectedApi(accounts=1, posts=4, rejected=lambda _, surface: 4 * (surface == "posts"))
    assert (await _run(tmp_path, service))[0].state is RunState.PARTIAL
    mapping = {"media_id": ["/uid"]}
    report, _ = await _run(tmp_path, service, mapping=mapping)
    # Stories were stored with the earlier mapping, which applies until a rebuild.
    assert (report.state, report.mapping_pending) == (RunState.PARTIAL, True)
    async with open_run_resources(tmp_path, service) as resources:
        files, wanted = resources.warehouse.files, MappingSettings(**mapping).mapping()
        await resources.warehouse.write(
            rebuild, files.raw, wanted, take=lambda number: files.state.write(count_landings, number), force=False
        )
    assert stored(tmp_path, "SELECT count(*) FROM core.media WHERE surface = 'posts'") == [(4,)]
    report, _ = await _run(tmp_path, service, mapping=mapping)
    assert (report.state, report.media.added) == (RunState.COMPLETE, 0)


async def test_a_mapping_set_after_a_run_without_a_row_applies_to_the_next_run(tmp_path: Path) -> None:
    service = RejectedApi(accounts=1, posts=4, rejected=lambda number, _: 4 * (number is not None))
    assert (await _run(tmp_path, service))[0].state is RunState.PARTIAL
    mapping = {"media_id": ["/uid"], "columns": {"own_id": {"paths": ["/uid"]}}}
    report, _ = await _run(tmp_path, service, mapping=mapping)
    assert (report.state, report.mapping_pending, report.media.added) == (RunState.COMPLETE, False, 8)
    assert stored(tmp_path, "SELECT count(own_id) FROM core.media") == [(8,)]


class Endless(ListedApi):
    """An API that serves one account's posts, or the catalogue, repeatedly with new cursors and signatures."""

    endless_of: int | None = 1

    def render(self, request: PageRequest) -> bytes:
        asked = Asked.of(request)
        if asked.number != self.endless_of or asked.surface == "stories":
            return super().render(request)
        number = len(self.requests)
        items = self.records(self.endless_of, "posts")[:2]
        if self.endless_of is not None:
            items = [{"key": {"id": item["id"]}, **item, "url": f"https://x/?oe={number}"} for item in items]
        page = {"items": items, "next_cursor": f"c{number}"}
        return json.dumps(page).encode()


async def test_a_listing_that_never_ends_fails_and_the_next_run_starts_from_its_first_page(tmp_path: Path) -> None:
    service = Endless(posts=5)
    report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.PARTIAL
    assert outcomes[uuid(1), "posts"][:4] == ("failed", 11, 22, "cursor_no_progress")
    assert len(_posts(service, 1)) == 11
    healed = ListedApi(posts=5, clock=service.clock)
    await _run(tmp_path, healed)
    assert _posts(healed, 1)[0] is None


@pytest.mark.parametrize(
    "mapping",
    [
        pytest.param({}, id="built in", marks=pytest.mark.long),
        pytest.param({"media_id": ["/key/id"]}, id="another"),
    ],
)
async def test_pages_without_progress_are_counted_across_interrupted_runs(
    tmp_path: Path, mapping: dict[str, Any]
) -> None:
    """Killed every five pages: without the stored counts, each process would treat its first page as new."""
    service = Endless(accounts=1, posts=2)
    for _ in range(2):
        left = [5]

        def killed(request: Asked, left: list[int] = left) -> BaseException | None:
            left[0] -= request.is_posts(1)
            return RuntimeError("killed") if left[0] < 0 else None

        service.fault = killed
        with pytest.raises(RuntimeError, match="killed"):
            await _run(tmp_path, service, mapping=mapping)
    service.fault = lambda _: None
    _, outcomes = await _run(tmp_path, service, mapping=mapping)
    assert outcomes[uuid(1), "posts"][3] == "cursor_no_progress"
    # Ten pages landed, two requests were repeated after the kills, and the eleventh page exceeded the limit.
    assert len(_posts(service, 1)) == 13


class Circular(ListedApi):
    """An API whose listing of posts begins again after 30 pages, with the same cursors."""

    def render(self, request: PageRequest) -> bytes:
        if not Asked.of(request).is_posts(1):
            return super().render(request)
        page = int((request.cursor or "c0")[1:])
        items = [{"id": f"{page}-{number}"} for number in range(2)]
        return json.dumps({"items": items, "next_cursor": f"c{(page + 1) % 30}"}).encode()


async def test_a_circular_listing_ends_although_each_run_gets_fewer_pages_than_it_has(tmp_path: Path) -> None:
    service = Circular(accounts=1)
    codes = [(await _run(tmp_path, service, max_requests=15))[1][uuid(1), "posts"][3] for _ in range(4)]
    assert "cursor_no_progress" in codes


async def test_a_key_revoked_during_the_run_wakes_waiting_scans_and_stops_the_catalogue(tmp_path: Path) -> None:
    def failure(request: Asked) -> Action | None:
        account = request.number
        if account is not None and account <= 30:
            # Not a limit: if all accounts are limited, the run sends fewer requests.
            return refuse("api_internal_error", retry_after=50)
        return refuse("api_unauthorized") if account == 31 else None

    service = ListedApi(accounts=200, fault=failure, clock=StillClock())
    async with asyncio.timeout(30):
        report, outcomes = await _run(tmp_path, service)
    assert report.state is RunState.FAILED
    assert report.stopped_by is not None
    assert report.stopped_by.code == "api_unauthorized"
    assert {row[3] for key, row in outcomes.items() if key[1] and row[0] == "failed"} == {"api_unauthorized"}
    assert outcomes["", ""][0] == "failed"
    assert report.accounts < 200


async def test_an_old_scan_whose_repetition_fails_has_one_outcome(tmp_path: Path) -> None:
    down = refuse("rate_limiter_unavailable")
    service = ListedApi(posts=5, fault=lambda r: down if r.is_posts(1) and r.cursor == "c4" else None)
    await _run(tmp_path, service)
    service.clock.passed += 24 * 3600
    ended = ListedApi(posts=5, clock=service.clock)
    ended.fault = lambda r: down if len(_posts(ended, 1)) > 1 and r.is_posts(1) else None
    report, outcomes = await _run(tmp_path, ended)
    assert report.state is RunState.PARTIAL
    assert outcomes[uuid(1), "posts"][:4] == ("failed", 1, 1, "rate_limiter_unavailable")


async def _killed_two_days_ago(folder: Path, service: ListedApi) -> None:
    """Run a sync that dies after the first page of the posts."""
    service.fault = lambda request: RuntimeError("killed") if request.cursor == "c2" else None
    with pytest.raises(RuntimeError, match="killed"):
        await _run(folder, service)
    service.fault = lambda _: None
    service.clock.days(2)


async def test_the_failure_of_an_old_scan_is_kept_although_it_begins_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = _Spoiling(accounts=1, posts=3)
    await _killed_two_days_ago(tmp_path, service)
    unreadable = [TWO_LISTS] * TRIES
    service.spoil = lambda page: unreadable.pop() if unreadable else page
    with caplog.at_level(logging.WARNING, "flows.engine.pages"):
        report, _ = await _run(tmp_path, service)
    assert (report.state, unreadable) == (RunState.COMPLETE, [])
    [(_, *found)] = stored(tmp_path, _QUARANTINE)
    assert found == [2, None, TWO_LISTS.decode()]
    [line] = [message for message in caplog.messages if "malformed_page" in message]
    assert any(str(asked.correlation_id) in line for asked in service.requests if asked.is_posts(1))


async def test_a_cursor_that_failed_is_not_asked_again_after_the_list_cannot_be_followed_either(
    tmp_path: Path,
) -> None:
    service = _Spoiling(accounts=1, posts=3)
    service.cursor = None
    await _killed_two_days_ago(tmp_path, service)
    service.spoil = lambda page: page.replace(b', "next_cursor": "c2"', b"")
    service.fault = lambda request: refuse("api_validation_error") if request.cursor == "c2" else None
    _, outcomes = await _run(tmp_path, service)
    assert outcomes[uuid(1), "posts"][3] == "cursor_missing"
    assert stored_state(tmp_path, "SELECT state FROM checkpoints WHERE surface = 'posts'") == [("abandoned",)]
    service.requests.clear()
    await _run(tmp_path, service)
    assert _posts(service, 1) == [None]


async def test_cancelled_while_all_wait_it_ends_at_once(tmp_path: Path) -> None:
    # Not a limit: if all accounts are limited, the run sends fewer requests.
    limited = refuse("api_internal_error", retry_after=50)
    service = ListedApi(accounts=30, fault=lambda r: limited if r.number is not None else None, clock=StillClock())
    async with (
        asyncio.timeout(30),
        open_run_resources(tmp_path, service, progress=(progress := Progress())) as resources,
    ):
        run = asyncio.create_task(run_sync(request(tmp_path), resources))
        while progress.waiting < 25:  # noqa: ASYNC110 - a turn of the loop, no time
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert stored_state(tmp_path, "SELECT state FROM runs") == [("interrupted",)]
        # Every cooldown is durable.
        assert stored_state(tmp_path, "SELECT count(*) >= 25 FROM cooldowns") == [(1,)]
