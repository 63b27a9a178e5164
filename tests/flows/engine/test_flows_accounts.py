"""Missing accounts, ids in another case, unknown statuses, and warehouses of another API."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.http.replies import PageRequest
from connectors.state.forgotten import mark_forgotten, unmark_forgotten
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.storage.errors import OtherService
from flows.reporting.run_report import RunReport
from models.forgotten import mark_of
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, Records, account, uuid
from tests.runs import open_run_resources, stored, stored_state, synced
from tests.security.canary import holding

pytestmark = pytest.mark.anyio

HERE = "https://api.example.com"
THERE = "https://other.example.com"
DAY = 86_400.0


class Catalogue(ListedApi):
    """An API whose catalogue lists the accounts `listed`, with any spelling and status."""

    spell: Callable[[str], str] = str
    malformed: Collection[int] = ()

    def __init__(self, listed: Collection[int], **more: Any) -> None:  # noqa: ANN401 - as ListedApi
        super().__init__(**more)
        self.listed = listed
        self.statuses: dict[int, str] = {}

    def records(self, number: int | None, surface: str) -> Records:
        if number is not None:
            return super().records(number, surface)
        return [
            account(
                each,
                self.statuses.get(each, "active"),
                id=self.spell(uuid(each)),
                ig_username=None if each in self.malformed else f"user_{each}",
            )
            for each in self.listed
        ]


def hexed(number: int) -> int:
    """Return a number whose id contains letters."""
    return 0xA0000 + number


async def on_day(folder: Path, service: ListedApi, *, day: float, url: str = HERE, **asked: Any) -> RunReport:  # noqa: ANN401
    service.clock.passed = max(service.clock.passed, day * DAY)
    return await synced(folder, service, page_size=50, base_url=url, **asked)


async def cut_short(folder: Path, service: ListedApi, *, day: float, at: int, **asked: Any) -> None:  # noqa: ANN401
    """Run a sync that dies at the first request of an account."""
    service.fault = lambda request: RuntimeError("cut short") if request.number == at else None
    with pytest.raises(RuntimeError, match="cut short"):
        await on_day(folder, service, day=day, **asked)
    service.fault = lambda _: None


async def test_accounts_with_an_unknown_status_fail_and_make_the_run_partial(tmp_path: Path) -> None:
    service = Catalogue(posts=1, listed=range(1, 4))
    await on_day(tmp_path, service, day=0)
    service.listed, service.statuses = range(1, 5), {2: "paused", 4: "paused"}
    asked = len(service.requests)
    report = await on_day(tmp_path, service, day=1)
    assert (report.state, report.accounts) == (RunState.PARTIAL, 4)
    assert {request.number for request in service.requests[asked:]} == {None, 1, 3}
    outcomes = f"SELECT account_id, outcome, error_code, detail FROM core.run_outcomes WHERE run_id = '{report.run_id}'"
    assert stored(tmp_path, f"{outcomes} AND outcome <> 'complete' ORDER BY account_id") == [
        (
            uuid(number),
            "failed",
            "unknown_status",
            "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it.",
        )
        for number in (2, 2, 4, 4)
    ]
    assert stored(tmp_path, "SELECT count(*) FROM core.accounts WHERE removed_at IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("is_resumed", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_known_accounts_whose_records_are_malformed_are_scanned_with_their_last_status(
    tmp_path: Path, *, is_resumed: bool
) -> None:
    service = Catalogue(posts=1, listed=range(1, 4))
    service.statuses = {3: "token_expired"}
    await on_day(tmp_path, service, day=0)
    service.listed, service.malformed = range(1, 5), (2, 3, 4)
    if is_resumed:
        await cut_short(tmp_path, service, day=1, at=1)
    asked = len(service.requests)
    report = await on_day(tmp_path, service, day=1.01)
    assert bool(report.resumed_runs) is is_resumed
    # Most records of the catalogue are rejected.
    assert (report.state, report.accounts) == (RunState.PARTIAL, 3)
    assert {request.number for request in service.requests[asked:]} - {None} == {1, 2}
    outcomes = (
        f"SELECT account_id, outcome FROM core.run_outcomes WHERE run_id = '{report.run_id}' AND account_id <> ''"
    )
    assert sorted(stored(tmp_path, outcomes)) == [
        *[(uuid(number), "complete") for number in (1, 1, 2, 2)],
        *[(uuid(3), "skipped")] * 2,
    ]


async def test_ids_in_another_case_are_the_same_accounts(tmp_path: Path) -> None:
    service = Catalogue(posts=2, listed=[hexed(1), hexed(2)])
    service.spell = lambda account_id: account_id.replace("4000", "4abc").replace("8000", "8def")
    first = await on_day(tmp_path, service, day=0)
    lower = service.spell
    service.spell = lambda account_id: lower(account_id).upper()
    service.listed = [hexed(1), hexed(2), hexed(1)]
    asked = len(service.requests)
    report = await on_day(tmp_path, service, day=1)
    assert (report.state, report.accounts, report.accounts_removed) == (RunState.COMPLETE, 2, 0)
    assert (first.media.added, report.media) == (4, MergeStats())
    assert stored(tmp_path, "SELECT DISTINCT account_id FROM core.media ORDER BY 1") == [
        (lower(uuid(hexed(number))),) for number in (1, 2)
    ]
    # Requests use the API's spelling, because it may compare ids as text.
    media = [request.account_id for request in service.requests[asked:] if request.account_id]
    assert len(media) == 4
    assert all("4ABC" in account_id for account_id in media)
    asked = len(service.requests)
    chosen = Selection(accounts=(lower(uuid(hexed(1))).upper(),), surfaces=("posts",))
    backfilled = await on_day(tmp_path, service, day=1.1, selection=chosen)
    assert (backfilled.state, backfilled.media) == (RunState.COMPLETE, MergeStats())
    assert ["4ABC" in (request.account_id or "") for request in service.requests[asked:]] == [True]


@pytest.mark.parametrize(("spell", "malformed"), [(str, ()), (str.upper, (2,))])
async def test_a_forgotten_account_that_is_listed_is_skipped_and_leaves_no_trace(
    tmp_path: Path, spell: Callable[[str], str], malformed: Collection[int]
) -> None:
    service = Catalogue(posts=1, listed=range(1, 4))
    service.malformed, service.spell = malformed, spell
    async with open_run_resources(tmp_path, service) as resources:
        await resources.warehouse.write_state(mark_forgotten, uuid(2), "a salt", at=service.clock.now())
    mark = mark_of(uuid(2), "a salt")
    report = await on_day(tmp_path, service, day=0)
    assert (report.state, report.accounts, report.outcomes.kinds[OutcomeKind.SKIPPED]) == (RunState.COMPLETE, 3, 2)
    assert {request.number for request in service.requests} == {None, 1, 3}
    skipped = "SELECT account_id, surface, detail FROM core.run_outcomes WHERE outcome = 'skipped' ORDER BY surface"
    assert stored(tmp_path, skipped) == [(mark, each, "forgotten") for each in ("posts", "stories")]
    assert not holding(tmp_path, uuid(2)) | holding(tmp_path, uuid(2)[-12:]) | holding(tmp_path, "user_2")
    async with open_run_resources(tmp_path, service) as resources:
        assert await resources.warehouse.write_state(unmark_forgotten, uuid(2).upper())
        assert not await resources.warehouse.write_state(unmark_forgotten, uuid(2))
    service.malformed = ()
    assert (await on_day(tmp_path, service, day=1)).media.added == 1


async def test_a_malformed_page_that_lists_a_forgotten_account_is_not_kept(tmp_path: Path) -> None:
    body = f'[{{"id": "{uuid(2)}"}}'.encode()
    service = ListedApi(fault=lambda asked: None if asked.number else Action("raw", body=body))
    async with open_run_resources(tmp_path, service) as resources:
        await resources.warehouse.write_state(mark_forgotten, uuid(2), "a salt", at=service.clock.now())
    report = await on_day(tmp_path, service, day=0)
    assert [(group.error_code, group.scans) for group in report.failure_groups] == [("malformed_page", 1)]
    assert stored(tmp_path, "FROM core.quarantine") == []
    assert not holding(tmp_path, uuid(2))


async def test_what_has_landed_binds_the_warehouse_to_an_address_until_a_person_accepts_another(tmp_path: Path) -> None:
    service = Catalogue(posts=5, listed=range(1, 4))
    service.fault = lambda _: refuse("api_unauthorized")
    assert (await on_day(tmp_path, service, day=0, url=HERE)).state is RunState.FAILED
    # Nothing has landed.
    await cut_short(tmp_path, service, day=0.01, at=2, url=THERE)
    with pytest.raises(OtherService):
        await on_day(tmp_path, service, day=0.02, url=HERE)
    report = await on_day(tmp_path, service, day=0.03, url=HERE, rebind=True)
    assert (report.state, report.resumed_runs) == (RunState.COMPLETE, ())
    assert stored_state(tmp_path, "SELECT base_url FROM identity") == [(HERE,)]
    with pytest.raises(OtherService):
        await on_day(tmp_path, service, day=1, url=THERE)


async def test_accounts_of_a_catalogue_that_is_never_listed_in_one_run_are_scanned(tmp_path: Path) -> None:
    """The service allows three of its four pages in a run, and the scan of the day before is too old to count."""
    allowed, scanned = 0, set[int]()

    def failure(each: Asked) -> Action | None:
        nonlocal allowed
        if (account := each.number) is not None:
            scanned.add(account)
            return None
        allowed -= 1
        return refuse("rate_limited", retry_after=9000) if allowed < 0 else None

    service = ListedApi(accounts=8, posts=1, fault=failure)
    for _ in range(2):
        allowed = 3
        await synced(tmp_path, service)
        service.clock.days(1)
    assert scanned == set(range(1, 9))


@pytest.mark.parametrize("hours", [1, 24])
async def test_accepted_removals_are_those_of_a_catalogue_that_is_listed_now(tmp_path: Path, hours: int) -> None:
    service = ListedApi(accounts=6, posts=1)
    await synced(tmp_path, service)
    service.clock.days(1)
    service.fault = lambda each: refuse("api_internal_error") if each.cursor == "c4" else None
    await synced(tmp_path, service)
    service.fault = lambda _: None
    service.clock.days(hours / 24)
    # The account of the last page moves to the first one, which was received before.
    service.change_accounts = lambda accounts: [accounts[-1], *accounts[:-1]]
    report = await synced(tmp_path, service, accept_removals=True)
    assert (report.accounts, report.accounts_removed) == (6, 0)
    assert stored(tmp_path, "SELECT count(*) FROM core.account_periods WHERE value = 'removed'") == [(0,)]


class EndlessCatalogue(Catalogue):
    """An API whose last page of the catalogue has the cursor `after_last`, or else that of its request."""

    after_last: str | None = None

    def render(self, request: PageRequest) -> bytes:
        page = json.loads(super().render(request))
        if request.account is None:
            page["next_cursor"] = page["next_cursor"] or self.after_last or request.cursor
        return json.dumps(page).encode()


async def test_a_circular_catalogue_of_ids_in_capitals_ends_although_each_run_gets_a_part_of_it(tmp_path: Path) -> None:
    left = 0

    def failure(request: Asked) -> Action | None:
        nonlocal left
        if request.number is not None:
            return None
        left -= 1
        return refuse("rate_limited", retry_after=200) if left < 0 else None

    service = EndlessCatalogue(posts=0, listed=range(1, 7), fault=failure)
    service.after_last = "c0"
    service.spell = lambda account_id: account_id.replace("4000", "4ABC")
    for _ in range(5):
        left = 4
        await synced(tmp_path, service, page_size=1)
        service.clock.passed += 300
    codes = stored(tmp_path, "SELECT error_code FROM core.run_outcomes WHERE account_id = ''")
    assert ("cursor_no_progress",) in codes


async def test_accounts_of_a_last_page_that_repeats_its_cursor_land_and_are_scanned(tmp_path: Path) -> None:
    service = EndlessCatalogue(posts=1, listed=range(1, 5))
    await synced(tmp_path, service, page_size=2)
    service.listed = (1, 2, 3)
    for _ in range(2):
        service.clock.passed += DAY
        service.requests.clear()
        report = await synced(tmp_path, service, page_size=2)
        assert (report.state, report.accounts) == (RunState.PARTIAL, 3)
        assert sum(request.operation == "accounts.list" for request in service.requests) == 2
        assert {request.number for request in service.requests} == {None, 1, 2, 3}
    assert stored(tmp_path, "SELECT count(*), count(removed_at) FROM core.accounts") == [(4, 0)]
    codes = stored(tmp_path, "SELECT DISTINCT outcome, error_code FROM core.run_outcomes WHERE account_id = ''")
    assert codes == [("failed", "cursor_loop")]
