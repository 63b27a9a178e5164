"""Times that a clock stored while it was ahead are moved to now, wherever they are; those of the service stay."""

from datetime import timedelta

from connectors.warehouse.maintenance.clock import find_ahead, lift_waits, repair_clock, repair_raw
from connectors.warehouse.storage.connection import transaction
from models.feeds import CATALOGUE
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import POSTS, START, Rig, account, item

YEAR = 365 * 24.0

TIMES = (
    "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'core' AND data_type LIKE 'TIMESTAMP%'"
)


def later(rig: Rig) -> set[str]:
    """Return the columns with a time after now."""
    found = set()
    for table, column in rig.db.execute(TIMES).fetchall():
        if rig.db.execute(f"FROM core.{table} WHERE {column} > ? LIMIT 1", [rig.now]).fetchall():
            found.add(f"{table}.{column}")
    return found


def test_every_time_after_now_is_moved_to_now_and_those_of_the_service_stay(rig: Rig) -> None:
    late = (START + timedelta(days=500)).isoformat()
    rig.full_scan(account(), partition=CATALOGUE)
    rig.full_scan(item("1", like_count=1, timestamp=late, edited=late), item("2"))
    rig.wait(YEAR)
    rig.full_scan(account(name="renamed"), partition=CATALOGUE)
    for day in range(3):
        rig.full_scan(item("1", like_count=2 + day, timestamp=late, edited=late, odd=1), {"caption": "no id"})
        rig.wait(24)
    deferred = Outcome(POSTS, "late", OutcomeKind.DEFERRED, rig.now, rig.now, resume_after=rig.now + timedelta(hours=3))
    rig.run("late", YEAR, {POSTS: deferred})
    rig.now = START + timedelta(days=1)
    assert "media_counts.observed_at" in later(rig)
    found = find_ahead(rig.db, now=rig.now)
    assert found is not None
    assert found.last == START + timedelta(days=368)
    repair_raw(rig.folder / "raw", now=rig.now)
    with transaction(rig.db):
        assert repair_clock(rig.db, seq=rig.seq + 1, now=rig.now) == found
    assert later(rig) == {"media.published_at", "media.edited", "run_outcomes.resume_after"}
    # A wait keeps its length.
    assert rig.values("resume_after", "run_outcomes") == [rig.now + timedelta(hours=3)]
    assert find_ahead(rig.db, now=rig.now) is None
    assert rig.values("merged_seq", "warehouse") == [rig.seq + 1]
    times = [row["seen_at"] for row in rig.raw()]
    assert (min(times), max(times)) == (START, rig.now)
    with transaction(rig.db):
        lift_waits(rig.db, after=rig.now + timedelta(hours=4), now=rig.now)
        assert rig.values("resume_after", "run_outcomes") == [rig.now + timedelta(hours=3)]
        lift_waits(rig.db, after=rig.now + timedelta(hours=2), now=rig.now)
        assert rig.values("resume_after", "run_outcomes") == [rig.now]
    before = {path.name: path.stat().st_mtime_ns for path in (rig.folder / "raw").iterdir()}
    repair_raw(rig.folder / "raw", now=rig.now)
    assert {path.name: path.stat().st_mtime_ns for path in (rig.folder / "raw").iterdir()} == before
