"""The division of accounts into batches."""

from pathlib import Path

import pytest

from flows.engine.batches import AccountBatcher, Batch
from flows.reporting.progress import Progress
from models.selection import ChosenAccount
from tests.api.listed import ListedApi
from tests.runs import synced


def _formed(batcher: AccountBatcher) -> list[Batch]:
    return list(filter(None, (batcher.batches.get_nowait() for _ in range(batcher.batches.qsize()))))


@pytest.mark.long
@pytest.mark.parametrize("page", [1, 50])
def test_a_million_accounts_make_fewer_than_a_thousand_batches(page: int) -> None:
    batcher = AccountBatcher(Progress())
    for begin in range(0, 1_000_000, page):
        batcher.add(ChosenAccount(str(number)) for number in range(begin, begin + page))
    batcher.close()
    batches = _formed(batcher)
    assert len(batches) < 1_000
    assert max(len(batch.accounts) for batch in batches) <= 1_000_000 / 80 + page
    numbers = [int(account.account_id) for batch in batches for account in batch.accounts]
    assert numbers == list(range(1_000_000))
    assert all(int(batch.accounts[0].account_id) == batch.first - 1 for batch in batches)


def test_an_account_listed_twice_is_scanned_once() -> None:
    batcher = AccountBatcher(Progress())
    one, two = ChosenAccount("a"), ChosenAccount("b", status="token_expired")
    batcher.add([one, two, one])
    batcher.add([two, one])
    batcher.close()
    [batch] = _formed(batcher)
    assert batch.accounts == (one, two)
    assert str(batch) == "stories and posts, accounts 1 to 2"
    assert batcher.listed == 2


@pytest.mark.anyio
async def test_accounts_of_all_batches_are_scanned_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    # Pages of two accounts make 15 batches, which wait for four slots.
    service = ListedApi(accounts=30, posts=5)
    await synced(tmp_path, service)
    begun = dict.fromkeys(number for one in service.requests if (number := one.number) is not None)
    assert list(begun) == list(range(1, 31))
