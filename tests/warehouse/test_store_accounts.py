"""Status and names of accounts, as catalogues list them."""

from models.feeds import CATALOGUE
from tests.warehouse.rig import ACCOUNT, Rig, account

HISTORY = "value, valid_from, valid_to, run_seq"
STATUS, NAMES = (f"account_periods WHERE attribute = '{name}'" for name in ("status", "ig_username"))


def test_every_change_of_status_and_name_is_a_period(rig: Rig) -> None:
    times = []
    for status, name in zip(("active", "token_expired", "token_expired", "new", "active"), "aabbb", strict=True):
        rig.full_scan(account(1, status, name), partition=CATALOGUE)
        times.append(rig.now)
        rig.end_run()
        rig.wait(24)
    assert rig.rows(HISTORY, STATUS, "seq") == [
        ("active", times[0], times[1], 1),
        ("token_expired", times[1], times[3], 2),
        ("new", times[3], times[4], 4),
        ("active", times[4], None, 5),
    ]
    assert rig.rows(HISTORY, NAMES, "seq") == [("a", times[0], times[2], 1), ("b", times[2], None, 3)]
    assert rig.rows("status, status_since, first_seen_at, last_seen_at", "accounts") == [
        ("active", times[4], times[0], times[4])
    ]


def test_of_two_records_in_one_catalogue_the_first_counts(rig: Rig) -> None:
    for is_divided in (False, True, True):
        scan = rig.scan(CATALOGUE)
        scan.page(account(1, "active"), account(2))
        if is_divided:
            rig.merge()
        scan.close(account(1, "token_expired"))
        rig.merge()
        rig.wait(24)
    assert [(value, run) for value, _, _, run in rig.rows(HISTORY, f"{STATUS} AND account_id = '{ACCOUNT}'")] == [
        ("active", 1)
    ]
    assert rig.rows("finding, record_id, seq", "scan_findings") == [("listed_twice", ACCOUNT, 6)]


def test_a_malformed_record_of_an_unknown_account_is_no_account(rig: Rig) -> None:
    rig.full_scan({**account(1), "public_id": ""}, partition=CATALOGUE)
    assert rig.rows("*", "accounts") == []
    assert rig.values("quarantined", "run_counts") == [1]
