"""Accounts that the catalogue no longer lists: they are removed once a second catalogue, or a person, confirms it."""

from collections.abc import Sequence

import pytest

from connectors.warehouse.merge.account_removal import missing_accounts
from connectors.warehouse.runs import ledger
from models.partition import CATALOGUE
from models.runs import RunWarning
from tests.api.listed import uuid
from tests.warehouse.rig import Item, Rig, Row, Scan, account, at, minute

HISTORY = (
    "SELECT status, valid_from, valid_to FROM core.account_status_history WHERE account_id = '{}' ORDER BY valid_from"
)


def accounts(*numbers: int) -> list[Item]:
    return [account(uuid(number), name=f"user_{number}") for number in numbers]


def merged(rig: Rig) -> int:
    """Merge; return how many accounts were marked removed, by the counts of runs."""
    counted = "SELECT coalesce(sum(accounts_removed), 0) FROM core.run_counts"
    before = int(rig.value(counted))
    rig.merge()
    return int(rig.value(counted)) - before


def listed(rig: Rig, hour: float, numbers: Sequence[int], *, run_id: str = "run-1") -> int:
    scan = Scan(CATALOGUE, f"c{hour}", at(hour), run_id)
    rig.land(scan.page(accounts(*numbers), minute(hour), last=True))
    return merged(rig)


def removed(rig: Rig) -> int:
    return int(rig.value("SELECT count(*) FROM core.accounts WHERE removed_at IS NOT NULL"))


def missing(rig: Rig) -> int:
    return int(rig.value("SELECT count(*) FROM ops.missing_accounts"))


def warnings(rig: Rig, run_id: str = "run-1") -> tuple[RunWarning, ...]:
    return rig.call(ledger.warnings, run_id)


def test_a_catalogue_twelve_hours_later_confirms_accounts_missing_in_both(rig: Rig) -> None:
    listed(rig, 0, range(60))
    assert listed(rig, 24, range(30)) == 0
    assert listed(rig, 36, [*range(30), 30]) == 0
    assert missing(rig) == 29
    assert listed(rig, 36.1, range(31), run_id="late") == 29
    assert rig.rows("SELECT DISTINCT removed_at FROM core.accounts WHERE removed_at IS NOT NULL") == [(minute(24),)]
    (message,) = warnings(rig, "late")
    assert (message.code, message.count, message.makes_partial) == ("accounts_removed", 29, False)
    assert "at least 12 hours apart, the first of 2026-03-02 02:01 UTC" in message.detail
    assert warnings(rig) == ()


def test_a_catalogue_right_behind_one_that_was_resumed_after_days_confirms_nothing(rig: Rig) -> None:
    listed(rig, 0, range(60))
    resumed = Scan(CATALOGUE, "resumed", at(24))
    rig.land(resumed.page(accounts(*range(30)), at(24)))
    merged(rig)
    rig.land(resumed.page([], at(96), last=True))
    assert merged(rig) == 0
    assert listed(rig, 96.1, range(30)) == 0
    assert missing(rig) == 30
    assert listed(rig, 107, range(30)) == 0
    assert listed(rig, 109, range(30)) == 30


def test_an_empty_catalogue_confirms_nothing_and_nothing_is_confirmed_by_it(rig: Rig) -> None:
    listed(rig, 0, range(4))
    for day in (1, 2, 3):
        assert listed(rig, 24 * day, []) == 0
    assert missing(rig) == 0
    assert listed(rig, 96, [0]) == 0
    assert listed(rig, 120, []) == 0
    assert missing(rig) == 3
    assert listed(rig, 144, [0]) == 3
    assert rig.rows("SELECT DISTINCT removed_at FROM core.accounts WHERE removed_at IS NOT NULL") == [(minute(96),)]


def test_a_time_in_the_future_delays_a_confirmation_by_twelve_hours_at_most(rig: Rig) -> None:
    listed(rig, 0, range(4))
    listed(rig, 24, [0])
    rig.do("UPDATE ops.missing_accounts SET missing_since = missing_since + INTERVAL 1 YEAR")
    assert listed(rig, 48, [0]) == 0
    assert listed(rig, 61, [0]) == 3


@pytest.mark.parametrize(("left", "makes_partial"), [(59, False), (54, False), (53, True), (1, True)])
def test_the_warning_has_both_numbers_and_the_fix(rig: Rig, left: int, *, makes_partial: bool) -> None:
    """More than a tenth of the accounts make the run partial."""
    assert rig.call(missing_accounts) is None
    listed(rig, 0, range(60))
    listed(rig, 24, range(left))
    message = rig.call(missing_accounts)
    assert message is not None
    count = 60 - left
    assert (message.code, message.count, message.makes_partial) == ("accounts_missing", count, makes_partial)
    are = "is" if count == 1 else "are"
    expected = f"{count} of 60 known accounts {are} missing from the catalogue, and not marked as removed yet."
    assert message.detail == expected
    assert message.hint is not None
    assert "--accept-removals" in message.hint
    assert "12 hours later" in message.hint


def test_an_unfinished_catalogue_that_lists_accounts_is_not_empty(rig: Rig) -> None:
    listed(rig, 0, range(2))
    listed(rig, 24, [])
    rig.catalogue("broken off", 25, accounts(0), last=False)
    assert rig.call(missing_accounts) is None


def history(rig: Rig, number: int) -> list[Row]:
    return rig.rows(HISTORY.format(uuid(number)))


def test_an_account_that_leaves_and_returns_keeps_the_gap_in_its_history(rig: Rig) -> None:
    for hour, count in ((0, 20), (24, 19), (48, 19)):
        listed(rig, hour, range(count))
    assert history(rig, 19) == [("active", minute(0), minute(24)), ("removed", minute(24), None)]
    listed(rig, 72, range(20))
    assert history(rig, 19) == [
        ("active", minute(0), minute(24)),
        ("removed", minute(24), minute(72)),
        ("active", minute(72), None),
    ]
    assert rig.row(f"SELECT status, status_since, removed_at FROM core.accounts WHERE account_id = '{uuid(19)}'") == (
        "active", minute(72), None,
    )  # fmt: skip
