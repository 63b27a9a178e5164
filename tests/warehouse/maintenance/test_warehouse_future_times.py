"""What was stored while the clock was ahead is moved back: in its order, and never so that a wait gets shorter."""

import json
from datetime import datetime, timedelta

from connectors.warehouse.maintenance.future_times import Repair, find, repair, repair_future_times
from connectors.warehouse.runs import ledger, progress
from connectors.warehouse.storage.connection import raw_connection
from models.page_commit import PageCommit, ScopeCooldown
from models.runs import Outcome, OutcomeKind, RunState
from tests.warehouse.house import ANNA, POSTS, T0, House, Scan, account, at

YEAR = 365 * 24.0
DAY = timedelta(days=1)
UNKNOWN = at(-100)


def repaired(house: House, hour: float, *, insist: bool = False) -> Repair:
    with house.connection.begin():
        return repair(house.connection, now=at(hour), unknown=UNKNOWN, insist=insist)


def ahead(house: House, hour: float) -> list[str]:
    with house.connection.begin():
        return [one.column for one in find(raw_connection(house.connection), at(hour))]


def ran(house: House, run_id: str, hour: float, state: RunState = RunState.COMPLETE) -> None:
    with house.connection.begin():
        ledger.begin(house.connection, run_id, "sync", now=at(hour), within=DAY, version="1")
        repair_future_times(house.connection, run_id, now=at(hour), within=DAY)
        ledger.end(house.connection, run_id, state, now=at(hour + 1))
        ledger.mark_published(house.connection, now=at(hour + 1))


def warned(house: House, run_id: str) -> list[tuple[str, bool]]:
    with house.connection.begin():
        return [(one.code, one.makes_partial) for one in ledger.warnings(house.connection, run_id)]


def test_nothing_happens_to_times_of_the_past(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1"}])
    assert repaired(house, 1) == Repair()
    assert house.value("SELECT first_seen_at FROM core.media") == at(0) + timedelta(minutes=1)


def test_what_was_stored_ahead_follows_what_is_trusted_in_its_order_and_distances(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1", "like_count": 1}])
    house.scan(POSTS, "b", YEAR, [{"id": "1", "like_count": 2}])
    house.scan(POSTS, "c", YEAR + 5, [{"id": "1", "like_count": 3}])
    trusted = at(0) + timedelta(minutes=1)
    assert repaired(house, 24).last() == at(YEAR + 5) + timedelta(minutes=1)
    after = trusted + timedelta(microseconds=1)
    assert house.rows("SELECT value, observed_at FROM core.media_metrics ORDER BY 2") == [
        (1, trusted),
        (2, after),
        (3, after + timedelta(hours=5)),
    ]
    assert ahead(house, 24) == []
    assert repaired(house, 24) == Repair()


def test_what_does_not_fit_keeps_its_order(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1", "like_count": 1}])
    for number in range(2, 6):
        house.scan(POSTS, f"w{number}", number * YEAR, [{"id": "1", "like_count": number}])
    repaired(house, 24)
    values = house.rows("SELECT value, observed_at FROM core.media_metrics ORDER BY observed_at")
    assert [value for value, _ in values] == [1, 2, 3, 4, 5]
    assert len({when for _, when in values}) == 5
    assert values[-1][1] <= at(24)


def test_a_cooldown_begins_now_in_its_full_length_and_not_in_a_year(house: House) -> None:
    house.land(PageCommit(cooldown=ScopeCooldown("selected_account:a", at(YEAR + 2), at(YEAR))))
    house.land(PageCommit(cooldown=ScopeCooldown("selected_account:b", at(YEAR), at(0))))
    repaired(house, 24)
    with house.connection.begin():
        held = progress.cooldowns(house.connection, now=at(24))
    # The other was asked for while the clock was right, and is kept however long it is.
    assert held == {"selected_account:a": at(26), "selected_account:b": at(YEAR)}


def test_a_deferral_that_people_read_is_no_earlier_than_its_cooldown(house: House) -> None:
    late = at(YEAR + 3)
    outcome = Outcome(POSTS, "r", OutcomeKind.DEFERRED, at(YEAR), at(YEAR), resume_after=late)
    house.land(PageCommit(outcomes=(outcome,)))
    repaired(house, 24)
    assert house.value("SELECT resume_after FROM core.run_outcomes") == at(27)


def test_a_mass_disappearance_missed_ahead_is_confirmed_an_hour_from_now_at_the_earliest(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1"}, {"id": "2"}])
    house.scan(POSTS, "b", YEAR, [])
    repaired(house, 24)
    assert house.rows("SELECT DISTINCT since FROM ops.missing") == [(at(24),)]
    assert house.scan(POSTS, "c", 24.5, []).untouched
    assert house.scan(POSTS, "d", 25.1, []).removed == 2


def test_nobody_knows_when_an_unfinished_scan_began(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1"}])
    house.land(Scan(POSTS, "b", at(YEAR)).page([{"id": "1"}], at(YEAR)))
    house.merge()
    repaired(house, 1)
    assert house.value("SELECT started_at FROM ops.checkpoints WHERE scan_id = 'b'") == UNKNOWN


def test_what_the_service_says_of_its_posts_stays(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1", "timestamp": at(YEAR).isoformat()}])
    assert repaired(house, 24) == Repair()
    assert house.value("SELECT published_at FROM core.media") == at(YEAR)


def test_the_registry_of_fields_stays_in_step_with_its_kinds(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": "1"}])
    house.scan(POSTS, "b", YEAR, [{"id": "1", "odd": 1}])
    repaired(house, 24)
    first, kinds = house.row("SELECT first_seen_at, json_types FROM core.fields WHERE path = '/odd'")
    assert first <= at(24)
    assert [datetime.fromisoformat(when) for when in json.loads(kinds).values()] == [first]


def test_accounts_and_their_history_are_moved_too(house: House) -> None:
    house.catalogue("a", 0, [account(ANNA)])
    house.catalogue("b", YEAR, [account(ANNA, status="token_expired")])
    repaired(house, 24)
    assert house.rows("SELECT status, valid_to IS NULL FROM core.account_status_history ORDER BY valid_from, 2") == [
        ("active", False),
        ("token_expired", True),
    ]


def test_a_clock_that_is_behind_changes_nothing_unless_a_person_insists(house: House) -> None:
    for day in range(3):
        ran(house, f"r{day}", day * 24)
    before = house.rows("SELECT started_at FROM core.runs ORDER BY seq")
    ran(house, "behind", -YEAR)
    assert house.rows("SELECT started_at FROM core.runs WHERE run_id <> 'behind' ORDER BY seq") == before
    assert warned(house, "behind") == [("clock_behind", True)]
    assert not repaired(house, -YEAR + 1, insist=True).behind
    assert ahead(house, -YEAR + 1) == []


def test_posts_from_after_now_say_that_it_is_now_that_is_wrong(house: House) -> None:
    house.scan(POSTS, "a", 0, [{"id": str(n), "timestamp": T0.isoformat()} for n in range(3)])
    ran(house, "r", 0)
    ran(house, "behind", -YEAR)
    assert warned(house, "behind") == [("clock_behind", True)]


def test_a_run_says_once_that_a_clock_was_ahead(house: House) -> None:
    ran(house, "a", 0)
    ran(house, "ahead", YEAR)
    ran(house, "b", 24)
    ran(house, "c", 48)
    assert [warned(house, run_id) for run_id in ("ahead", "b", "c")] == [[], [("times_in_future", True)], []]
    detail = house.value("SELECT detail FROM core.run_warnings")
    assert detail.startswith(
        "3 stored times lie after 2026-03-02 02:00 UTC, up to 2027-03-01 03:00. The clock was ahead"
    )


def test_the_first_run_of_all_may_have_been_ahead(house: House) -> None:
    ran(house, "ahead", YEAR)
    ran(house, "b", 24)
    assert warned(house, "b") == [("times_in_future", True)]
    assert house.value("SELECT started_at < '2026-03-02 02:00:00+00' FROM core.runs WHERE run_id = 'ahead'")


def test_a_step_of_a_minute_is_put_right_without_a_word(house: House) -> None:
    ran(house, "a", 0)
    ran(house, "b", 1 - 1 / 60)
    assert warned(house, "b") == []
    assert ahead(house, 1 - 1 / 60) == ["core.runs.ended_at", "core.runs.published_at"]


def test_what_a_run_cut_short_ahead_completed_does_not_count(house: House) -> None:
    ran(house, "a", 0)
    with house.connection.begin():
        ledger.begin(house.connection, "ahead", "sync", now=at(72), within=DAY, version="1")
    with house.connection.begin():
        assert ledger.begin(house.connection, "b", "sync", now=at(1), within=DAY, version="1") == ()
