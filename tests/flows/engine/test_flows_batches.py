"""The division of accounts into batches."""

import pytest

from flows.config.settings import Settings
from flows.engine.choosing import AccountBatcher, Batch, Choice
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress
from models.selection import ChosenAccount
from tests.clocks import START


def _batcher() -> AccountBatcher:
    return AccountBatcher(
        RunRequest(Settings()), Choice((), {}, lists_catalogue=True, limit=None), Progress(), now=START
    )


def _formed(batcher: AccountBatcher) -> list[Batch]:
    return list(filter(None, (batcher.batches.get_nowait() for _ in range(batcher.batches.qsize()))))


@pytest.mark.long
@pytest.mark.parametrize("page", [1, 50])
def test_a_million_accounts_make_fewer_than_a_thousand_batches(page: int) -> None:
    batcher = _batcher()
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
    batcher = _batcher()
    one, two = ChosenAccount("a"), ChosenAccount("b", status="token_expired")
    batcher.add([one, two, one])
    batcher.add([two, one])
    batcher.close()
    [batch] = _formed(batcher)
    assert batch.accounts == (one, two)
    assert str(batch) == "stories and posts, accounts 1 to 2"
    assert batcher.listed == 2
