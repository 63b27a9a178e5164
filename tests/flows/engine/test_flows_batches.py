"""The division of accounts into batches."""

from pathlib import Path

import pytest

from flows.engine.batches import AccountBatcher
from flows.reporting.progress import Progress
from models.selection import ChosenAccount
from tests.api.listed import ListedApi
from tests.runs import synced


def _gather(accounts: int, page: int) -> list[int]:
    batcher, sizes, expected = AccountBatcher(Progress()), [], 1
    for begin in range(0, accounts, page):
        batcher.add([ChosenAccount(str(n)) for n in range(begin, min(begin + page, accounts))])
        if begin + page >= accounts:
            batcher.close()
        while (batch := batcher.take()) is not None:
            assert batch.first == expected
            expected = batch.last + 1
            sizes.append(len(batch.accounts))
    assert expected == accounts + 1
    assert batcher.take() is None
    return sizes


@pytest.mark.long
@pytest.mark.parametrize("page", [1, 50])
def test_a_million_accounts_make_fewer_than_a_thousand_batches(page: int) -> None:
    sizes = _gather(1_000_000, page)
    assert sum(sizes) == 1_000_000
    assert len(sizes) < 1_000
    assert max(sizes) <= 1_000_000 / 80 + page


def test_an_account_listed_twice_is_scanned_once() -> None:
    batcher = AccountBatcher(Progress())
    one, two = ChosenAccount("a"), ChosenAccount("b", expired=True)
    batcher.add([one, two, one])
    first = batcher.take()
    batcher.add([two, one])
    assert first is not None
    assert first.accounts == (one, two)
    assert str(first) == "stories and posts, accounts 1 to 2"
    batcher.close()
    assert batcher.take() is None
    assert batcher.listed == 2


@pytest.mark.anyio
async def test_accounts_of_all_batches_are_scanned_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    # Pages of two accounts make 15 batches, which wait for four slots.
    service = ListedApi(accounts=30, posts=5)
    await synced(tmp_path, service)
    begun = dict.fromkeys(number for one in service.requests if (number := one.number) is not None)
    assert list(begun) == list(range(1, 31))
