import json

import pytest

from models.api import read_account_page
from models.page_commit import RejectedRecord
from models.partition import CATALOGUE
from tests.warehouse.rig import ANNA, BEN, POSTS, T0, Rig, Row, Scan, account, at, minute

HISTORY = "SELECT status, valid_from, valid_to FROM core.account_status_history ORDER BY valid_from, valid_to"
STATE = "SELECT status, status_since, first_seen_at, last_seen_at, removed_at FROM core.accounts"


def names(rig: Rig) -> list[Row]:
    return rig.rows("SELECT account_id, ig_username, removed_at IS NOT NULL FROM core.accounts ORDER BY account_id")


@pytest.mark.parametrize("pages", [[[0, 1]], [[0], [1]]], ids=["one page", "two pages"])
def test_the_last_occurrence_of_a_duplicate_account_is_used(rig: Rig, pages: list[list[int]]) -> None:
    versions = [account(name="old"), account(name="new", status="token_expired")]
    rig.catalogue("c1", 0, *([versions[i] for i in page] for page in pages))
    assert names(rig) == [(ANNA, "new", False)]
    assert rig.value("SELECT count(*) FROM core.account_status_history WHERE valid_to IS NULL") == 1


def test_rejected_records_go_to_quarantine_once_and_make_no_row(rig: Rig) -> None:
    broken = account(BEN, status="asleep")
    aside = RejectedRecord(1, "status: unknown", json.dumps(broken))
    for day in range(2):
        scan = Scan(CATALOGUE, f"c{day}", at(day), run_id=f"run-{day}")
        items = [account(), broken, account("c", name="carl")]
        rig.land(scan.page(items, at(day), last=True, rejected=(aside,)))
        assert rig.merge().quarantined == (1 if day == 0 else 0)
    assert names(rig) == [(ANNA, "anna", False), ("c", "carl", False)]
    assert rig.row("SELECT * EXCLUDE (last_seen_at, digest) FROM core.quarantine") == (
        "status: unknown", "accounts", "", "", 1, 1, json.dumps(broken), "run-0", "c0-1", T0,
    )  # fmt: skip


def test_the_same_record_rejected_twice_in_one_merge_is_quarantined_at_its_first_place(rig: Rig) -> None:
    scan = Scan(CATALOGUE, "c", T0)
    asides = tuple(RejectedRecord(position, "broken", "7") for position in (2, 0))
    rig.land(scan.page([7, account(), 7], at(1), rejected=asides), scan.page([7], at(1), rejected=asides[1:]))
    assert rig.merge().quarantined == 1
    assert rig.row("SELECT page, position FROM core.quarantine") == (1, 0)


def test_unknown_fields_are_recorded_once_with_their_first_sight(rig: Rig) -> None:
    for day in range(2):
        scan = Scan(CATALOGUE, f"c{day}", at(day))
        rig.land(scan.page([account()], at(day), unknown_fields=("items[].tier", "items[].a'b", "total")))
        media_scan = Scan(POSTS, f"p{day}", at(day))
        rig.record(media_scan.page([], at(day), unknown_fields=("total",)), media_scan.page([], at(9)))
    assert rig.rows("SELECT resource, path, first_seen_at FROM core.fields ORDER BY ALL") == [
        ("account", "a'b", T0),
        ("account", "tier", T0),
        ("account_page", "total", T0),
        ("media_page", "total", T0),
    ]


def test_items_that_are_not_accounts_go_to_quarantine_and_the_others_land(rig: Rig) -> None:
    odd = ['{"id":"x"}', "null", "7", '{"id":1,"ig_username":"a","public_id":"k","status":"active"}']
    text = f'{{"items":[{",".join([*odd, json.dumps(account())])}],"next_cursor":null}}'
    rig.land(Scan(CATALOGUE, "c", T0).page([{}] * 5, at(1), last=True, text=text))
    assert rig.merge().quarantined == 4
    assert names(rig) == [(ANNA, "anna", False)]
    found = rig.rows("SELECT position, payload, reason FROM core.quarantine ORDER BY position")
    assert found == [(position, payload, "It is no account.") for position, payload in enumerate(odd)]


@pytest.mark.parametrize("fault", [rb'"x":NaN', rb'"x":"\ud800"'])
def test_an_id_that_is_no_text_lists_no_account(rig: Rig, fault: bytes) -> None:
    record = rb'{"id":"\ud800",' + fault + b"}"
    page = read_account_page(b'{"items":[' + record + b"," + json.dumps(account()).encode() + b'],"next_cursor":null}')
    rig.record(Scan(CATALOGUE, "c", T0).page([{}] * 2, at(1), last=True, text=page.body, rejected=page.rejected))
    assert names(rig) == [(ANNA, "anna", False)]
    assert rig.value("SELECT count(*) FROM core.quarantine") == 1


@pytest.mark.parametrize("value", ["1e400", "[-1e400]", "9" * 5_000, '{"a":' * 150 + "1" + "}" * 150])
def test_a_field_that_the_contract_does_not_know_has_any_value(rig: Rig, value: str) -> None:
    first, again = '"status":"gone","id":7', json.dumps(account(name="anna.bakes"))[1:-1]
    text = f'{{"items":[{{{first},"quota":{value},{again}}}],"next_cursor":null}}'
    rig.land(Scan(CATALOGUE, "c", T0).page([{}], at(1), last=True, text=text))
    assert rig.merge().quarantined == 0
    assert names(rig) == [(ANNA, "anna.bakes", False)]


def test_a_malformed_record_of_a_known_account_lists_it(rig: Rig) -> None:
    rig.catalogue("c1", 0, [account(), account(BEN, name="ben")])
    for hour in (24, 48):
        scan = Scan(CATALOGUE, f"c{hour}", at(hour))
        rig.record(scan.page([account(BEN, name="ben"), {"id": ANNA}, {"id": "unknown"}], at(hour), last=True))
    assert names(rig) == [(ANNA, "anna", False), (BEN, "ben", False)]
    assert rig.rows("FROM ops.missing_accounts") == []
    assert rig.row(f"{STATE} WHERE account_id = '{ANNA}'") == ("active", minute(0), minute(0), at(48), None)


def rejected(record: dict[str, object]) -> RejectedRecord:
    return RejectedRecord(0, "status: of no known kind", json.dumps(record))


def test_a_record_rejected_in_the_second_catalogue_of_a_merge_is_listed_and_counted(rig: Rig) -> None:
    rig.catalogue("c1", 0, [account(), account(BEN, name="ben")])
    odd = account(status="paused")
    first, second = Scan(CATALOGUE, "c2", at(24), run_id="run-2"), Scan(CATALOGUE, "c3", at(48), run_id="run-3")
    rig.land(
        first.page([account(), account(BEN, name="ben")], at(24), last=True),
        second.page([odd], at(48), last=True, rejected=(rejected(odd),), unknown_fields=("items[].tier",)),
    )
    assert rig.merge().quarantined == 1
    assert rig.row(f"{STATE} WHERE account_id = '{ANNA}'") == ("active", minute(0), minute(0), at(48), None)
    assert rig.rows("SELECT account_id, missing_since FROM ops.missing_accounts") == [(BEN, at(48))]
    assert rig.rows("SELECT path, first_seen_at FROM core.fields") == [("tier", at(48))]
    counts = "SELECT run_id, pages, items, quarantined FROM core.run_counts ORDER BY run_id"
    assert rig.rows(counts) == [("run-1", 1, 2, 0), ("run-2", 1, 2, 0), ("run-3", 1, 1, 1)]


def test_of_a_page_that_is_not_json_nothing_else_is_recorded(rig: Rig) -> None:
    odd = account(status="paused")
    for partition in (CATALOGUE, POSTS):
        scan = Scan(partition, f"of {partition}", at(0))
        rig.land(scan.page([], at(0), text="{", rejected=(rejected(odd),), unknown_fields=("total",)))
    assert rig.merge().quarantined == 2
    assert rig.rows("SELECT DISTINCT reason, payload FROM core.quarantine") == [("The page is not JSON.", "{")]
    assert rig.value("SELECT count(*) FROM core.fields") == 0
    assert rig.value("SELECT items FROM core.run_counts") == 0


def test_an_account_is_the_same_in_either_case_of_its_id(rig: Rig) -> None:
    rig.catalogue("c1", 0, [account(), account(BEN, name="ben")])
    rig.catalogue("c2", 24, [account(ANNA.upper(), name="anna.bakes")], [account(ANNA, name="anna.sings")])
    rig.catalogue("c3", 48, [account(ANNA.upper(), name="anna.bakes"), account(BEN, name="ben")])
    assert names(rig) == [(ANNA, "anna.bakes", False), (BEN, "ben", False)]
    assert rig.rows(f"{HISTORY[: HISTORY.index(' ORDER')]} WHERE account_id = '{ANNA}'") == [
        ("active", minute(0), None)
    ]
    assert rig.rows("SELECT account_id, listed_as FROM core.accounts ORDER BY 1") == [
        (ANNA, ANNA.upper()), (BEN, None)
    ]  # fmt: skip


def test_an_unknown_status_is_kept_until_a_known_one_follows(rig: Rig) -> None:
    rig.catalogue("c1", 0, [account()])
    paused = account(ANNA.upper(), status="paused")
    aside = RejectedRecord(0, "status: of no known kind", json.dumps(paused), unknown_status="paused")
    rig.record(Scan(CATALOGUE, "c2", at(24)).page([paused], at(25), last=True, rejected=(aside,)))
    known = "SELECT account_id, status, unknown_status FROM core.accounts"
    assert rig.row(known) == (ANNA, "active", "paused")
    rig.catalogue("c3", 48, [account()])
    assert rig.row(known) == (ANNA, "active", None)
