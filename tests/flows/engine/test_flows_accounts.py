"""Ids in another case, unknown statuses, malformed accounts, and forgotten ones that are listed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import ApiError
from connectors.state.identity import mark_forgotten, unmark_forgotten
from models.runs import RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, account, uuid
from tests.operator import Operator
from tests.runs import open_run_resources, synced
from tests.security.canary import holding

pytestmark = pytest.mark.anyio


async def forget(folder: Path, service: ListedApi) -> None:
    async with open_run_resources(folder, service) as resources:
        state, now = resources.warehouse.files.state, service.clock.now()
        for number in (2, 3):
            state.write(mark_forgotten, uuid(number), f"salt {number}", at=now)


UNKNOWN = "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it."
PAUSED, MALFORMED = {"status": "paused"}, {"ig_username": None}


def change(service: ListedApi, changes: Mapping[int, dict[str, Any]]) -> None:
    """Let the catalogue list these accounts with other fields."""
    service.change_accounts = lambda listed: [{**one, **changes.get(n, {})} for n, one in enumerate(listed, 1)]


async def test_accounts_of_unknown_status_fail_and_malformed_known_ones_have_their_last(tmp_path: Path) -> None:
    service = ListedApi(accounts=5, posts=1, expired={5})
    await synced(tmp_path, service)
    service.clock.days(1)
    service.accounts, service.expired = 7, ()
    change(service, {2: PAUSED, 6: PAUSED, 4: MALFORMED, 5: MALFORMED, 7: MALFORMED})
    service.take_requests()
    report = await synced(tmp_path, service)
    assert (report.state, report.accounts) == (RunState.PARTIAL, 6)
    assert {request.number for request in service.take_requests()} == {None, 1, 3, 4}
    outcomes = f"SELECT account_id, outcome, detail FROM core.run_outcomes WHERE run_id = '{report.run_id}'"
    found = set(Operator(tmp_path).inside(f"{outcomes} AND outcome <> 'complete' AND account_id <> ''"))
    skipped = "Its access token must be renewed; the next sync after that scans it again."
    assert found == {(uuid(2), "failed", UNKNOWN), (uuid(6), "failed", UNKNOWN), (uuid(5), "skipped", skipped)}
    assert Operator(tmp_path).inside("SELECT count(*) FROM core.accounts WHERE removed_at IS NOT NULL") == [(0,)]


async def test_ids_in_another_case_are_the_same_accounts(tmp_path: Path) -> None:
    ids = [uuid(number).replace("4000", "4abc") for number in (1, 2)]
    service = ListedApi(accounts=2, posts=2)
    service.change_accounts = lambda _: [account(1, id=ids[0]), account(2, id=ids[1])]
    first = await synced(tmp_path, service)
    service.clock.days(1)
    service.change_accounts = lambda _: [account(n, id=ids[n - 1].upper()) for n in (1, 2, 1)]
    service.take_requests()
    report = await synced(tmp_path, service)
    assert (report.state, report.accounts, report.accounts_removed) == (RunState.COMPLETE, 2, 0)
    assert (first.media["added"], any(report.media.values())) == (4, False)
    assert {*Operator(tmp_path).inside("SELECT account_id FROM core.media")} == {(each,) for each in ids}
    # Requests use the API's spelling, because it may compare ids as text.
    assert ["4ABC" in one.account_id for one in service.take_requests() if one.account_id] == [True] * 4
    chosen = Selection(accounts=(ids[0].upper(),), surfaces=("posts",))
    backfilled = await synced(tmp_path, service, selection=chosen)
    assert (backfilled.state, any(backfilled.media.values())) == (RunState.COMPLETE, False)
    assert ["4ABC" in (one.account_id or "") for one in service.take_requests()] == [True]


async def test_a_forgotten_account_that_is_listed_leaves_no_trace(tmp_path: Path) -> None:
    service = ListedApi(accounts=4, posts=1)
    change(service, {3: MALFORMED})
    await forget(tmp_path, service)
    report = await synced(tmp_path, service)
    assert (report.state, report.accounts, report.outcomes.total()) == (RunState.COMPLETE, 2, 5)
    assert {request.number for request in service.take_requests()} == {None, 1, 4}
    assert not [n for n in (2, 3) for text in (uuid(n), uuid(n)[-12:], f"user_{n}") if holding(tmp_path, text)]
    async with open_run_resources(tmp_path, service) as resources:
        assert resources.warehouse.files.state.write(unmark_forgotten, uuid(2).upper())
        assert not resources.warehouse.files.state.write(unmark_forgotten, uuid(2))
    change(service, {})
    service.clock.days(1)
    assert (await synced(tmp_path, service)).media["added"] == 1


async def test_a_malformed_page_that_lists_a_forgotten_account_is_not_kept(tmp_path: Path) -> None:
    def answer(request: Asked) -> ApiError | None:
        body = f'[{{"id": "{uuid(2)}"}}'.encode()
        return None if request.number else ApiError(request.operation, "malformed_page", "no page", body=body)

    service = ListedApi(fault=answer)
    await forget(tmp_path, service)
    assert (await synced(tmp_path, service)).state is RunState.FAILED
    assert Operator(tmp_path).inside("FROM core.quarantine") == []
    assert not holding(tmp_path, uuid(2))


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
