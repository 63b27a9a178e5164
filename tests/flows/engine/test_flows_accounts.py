"""Missing accounts, ids in another case, unknown statuses, and warehouses of another API."""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import ApiError
from connectors.state.identity import mark_forgotten, unmark_forgotten
from flows.reporting.run_report import RunReport
from models.errors import OtherService
from models.runs import RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, Records, account, uuid
from tests.operator import Operator
from tests.runs import open_run_resources, synced
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

    def asked(self) -> list[Asked]:
        """Return what was asked for since the last look."""
        asked = [*self.requests]
        self.requests.clear()
        return asked


async def on_day(folder: Path, service: ListedApi, *, day: float, url: str = HERE, **asked: Any) -> RunReport:  # noqa: ANN401
    service.clock.passed = max(service.clock.passed, day * DAY)
    return await synced(folder, service, page_size=50, base_url=url, **asked)


async def forget(folder: Path, service: ListedApi) -> None:
    async with open_run_resources(folder, service) as resources:
        resources.warehouse.files.state.write(mark_forgotten, uuid(2), "a salt", at=service.clock.now())


UNKNOWN = "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it."


async def test_accounts_of_unknown_status_fail_and_malformed_known_ones_have_their_last(tmp_path: Path) -> None:
    service = Catalogue(posts=1, listed=range(1, 6))
    service.statuses = {5: "token_expired"}
    await on_day(tmp_path, service, day=0)
    service.listed, service.statuses, service.malformed = range(1, 8), {2: "paused", 6: "paused"}, (4, 5, 7)
    service.asked()
    report = await on_day(tmp_path, service, day=1)
    assert (report.state, report.accounts) == (RunState.PARTIAL, 6)
    assert {request.number for request in service.asked()} == {None, 1, 3, 4}
    outcomes = f"SELECT account_id, outcome, detail FROM core.run_outcomes WHERE run_id = '{report.run_id}'"
    found = set(Operator(tmp_path).inside(f"{outcomes} AND outcome <> 'complete' AND account_id <> ''"))
    skipped = "Its access token must be renewed; the next sync after that scans it again."
    assert found == {(uuid(2), "failed", UNKNOWN), (uuid(6), "failed", UNKNOWN), (uuid(5), "skipped", skipped)}
    assert Operator(tmp_path).inside("SELECT count(*) FROM core.accounts WHERE removed_at IS NOT NULL") == [(0,)]


async def test_ids_in_another_case_are_the_same_accounts(tmp_path: Path) -> None:
    # Numbers whose ids contain letters.
    one, two = 0xA0001, 0xA0002
    service = Catalogue(posts=2, listed=[one, two])

    def lower(account_id: str) -> str:
        return account_id.replace("4000", "4abc").replace("8000", "8def")

    service.spell = lower
    first = await on_day(tmp_path, service, day=0)
    service.spell = lambda account_id: lower(account_id).upper()
    service.listed = [one, two, one]
    service.asked()
    report = await on_day(tmp_path, service, day=1)
    assert (report.state, report.accounts, report.accounts_removed) == (RunState.COMPLETE, 2, 0)
    assert (first.media["added"], any(report.media.values())) == (4, False)
    assert {*Operator(tmp_path).inside("SELECT account_id FROM core.media")} == {
        (lower(uuid(each)),) for each in (one, two)
    }
    # Requests use the API's spelling, because it may compare ids as text.
    assert ["4ABC" in request.account_id for request in service.asked() if request.account_id] == [True] * 4
    chosen = Selection(accounts=(lower(uuid(one)).upper(),), surfaces=("posts",))
    backfilled = await on_day(tmp_path, service, day=1.1, selection=chosen)
    assert (backfilled.state, any(backfilled.media.values())) == (RunState.COMPLETE, False)
    assert ["4ABC" in (request.account_id or "") for request in service.asked()] == [True]


@pytest.mark.parametrize(("spell", "malformed"), [(str, ()), (str.upper, (2,))])
async def test_a_forgotten_account_that_is_listed_leaves_no_trace(
    tmp_path: Path, spell: Callable[[str], str], malformed: Collection[int]
) -> None:
    service = Catalogue(posts=1, listed=range(1, 4))
    service.malformed, service.spell = malformed, spell
    await forget(tmp_path, service)
    report = await on_day(tmp_path, service, day=0)
    assert (report.state, report.accounts, report.outcomes.total()) == (RunState.COMPLETE, 2, 5)
    assert {request.number for request in service.asked()} == {None, 1, 3}
    assert not holding(tmp_path, uuid(2)) | holding(tmp_path, uuid(2)[-12:]) | holding(tmp_path, "user_2")
    async with open_run_resources(tmp_path, service) as resources:
        assert resources.warehouse.files.state.write(unmark_forgotten, uuid(2).upper())
        assert not resources.warehouse.files.state.write(unmark_forgotten, uuid(2))
    service.malformed = ()
    assert (await on_day(tmp_path, service, day=1)).media["added"] == 1


async def test_a_malformed_page_that_lists_a_forgotten_account_is_not_kept(tmp_path: Path) -> None:
    def answer(request: Asked) -> ApiError | None:
        body = f'[{{"id": "{uuid(2)}"}}'.encode()
        return None if request.number else ApiError(request.operation, "malformed_page", "no page", body=body)

    service = ListedApi(fault=answer)
    await forget(tmp_path, service)
    assert (await on_day(tmp_path, service, day=0)).state is RunState.FAILED
    assert Operator(tmp_path).inside("FROM core.quarantine") == []
    assert not holding(tmp_path, uuid(2))


def cut_short(request: Asked) -> RuntimeError | None:
    return RuntimeError("cut short") if request.number == 2 else None


# A first run that landed nothing binds to nothing; one that was cut short does.
BOUND: dict[str, tuple[Callable[[Asked], Action | BaseException | None], bool, str]] = {
    "nothing landed": (lambda _: refuse("api_unauthorized"), False, THERE),
    "cut short": (cut_short, False, HERE),
    "accepted": (cut_short, True, THERE),
}


@pytest.mark.parametrize("case", BOUND)
async def test_what_has_landed_binds_to_its_service_until_a_person_accepts_another(tmp_path: Path, case: str) -> None:
    fault, rebind, bound = BOUND[case]
    service = Catalogue(posts=5, listed=range(1, 4), fault=fault)
    with pytest.raises(RuntimeError) if fault is cut_short else nullcontext():
        await on_day(tmp_path, service, day=0)
    service.fault = lambda _: None
    with pytest.raises(OtherService) if bound == HERE else nullcontext():
        report = await on_day(tmp_path, service, day=0.01, url=THERE, rebind=rebind)
        assert (report.state, report.resumed_runs) == (RunState.COMPLETE, ())
    assert Operator(tmp_path).in_state("SELECT base_url FROM identity") == [(bound,)]
    with pytest.raises(OtherService) if bound == THERE else nullcontext():
        await on_day(tmp_path, service, day=0.02, url=HERE)


async def test_accounts_of_a_catalogue_that_is_never_listed_in_one_run_are_scanned(tmp_path: Path) -> None:
    """The service allows three of its four pages in a run, and the scan of the day before is too old to count."""
    left, scanned = [0], set[int | None]()

    def limited(each: Asked) -> Action | None:
        scanned.add(each.number)
        left[0] -= each.number is None
        return refuse("rate_limited", retry_after=9000) if each.number is None and left[0] < 0 else None

    service = ListedApi(accounts=8, posts=1, fault=limited)
    for _ in range(2):
        left[0] = 3
        await synced(tmp_path, service)
        service.clock.days(1)
    assert scanned == {None, *range(1, 9)}


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
    assert Operator(tmp_path).inside("SELECT count(*) FROM core.account_periods WHERE value = 'removed'") == [(0,)]
