"""Counts belong to the run that landed the page, whichever run merges it, and are never lost."""

from typing import Any

from connectors.warehouse.maintenance.housekeeping import delete_old_runs
from connectors.warehouse.merge.run_counts import NAMES
from connectors.warehouse.storage.declared import TABLES
from models.views import views
from tests.warehouse.rig import POSTS, Rig, Scan, at

_NAMED = ", ".join(NAMES)
LISTED = views()["runs"].select


def counted(rig: Rig) -> dict[str, dict[str, int]]:
    """Each run's counts, without the zeros."""
    rows = rig.rows(f"SELECT run_id, {_NAMED} FROM core.run_counts")
    return {row[0]: {name: n for name, n in zip(NAMES, row[1:], strict=True) if n} for row in rows}


def listed(rig: Rig) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in rig.rows(f"SELECT run_id, kind, state, pages, added FROM ({LISTED})")}


def test_every_count_is_a_column() -> None:
    assert {"run_id", *NAMES} == TABLES["core.run_counts"].types.keys()


def items(*ids: object, **more: object) -> list[dict[str, object]]:
    return [{"id": str(one), **more} for one in ids]


def test_a_removal_belongs_to_the_run_that_confirmed_it(rig: Rig) -> None:
    rig.scan(POSTS, "w", 0, items(1, 2, 3))
    scan = Scan(POSTS, "x", at(24), run_id="cut short")
    rig.land(scan.page(items(1), at(24)))
    scan.run_id = "completes"
    rig.record(scan.page(items(2), at(25), last=True))
    assert counted(rig)["cut short"] == {"pages": 1, "items": 1}
    assert counted(rig)["completes"] == {"pages": 1, "items": 1}
    confirms = Scan(POSTS, "y", at(48), run_id="confirms")
    rig.record(confirms.page(items(1, 2), at(48), last=True))
    assert counted(rig)["confirms"] == {"pages": 1, "items": 2, "removed": 1}


def test_runs_removed_by_retention_leave_their_totals(rig: Rig) -> None:
    for number in range(3):
        rig.run(f"run-{number}", 24 * number)
        scan = Scan(POSTS, f"w{number}", at(24 * number), run_id=f"run-{number}")
        rig.record(scan.page(items(*range(number + 1)), at(24 * number), last=True))
    before = rig.row(f"SELECT {', '.join(f'sum({name})' for name in NAMES)} FROM ({LISTED})")
    assert len(rig.call(delete_old_runs, before=at(100))) == 2
    assert rig.row(f"SELECT {', '.join(f'sum({name})' for name in NAMES)} FROM ({LISTED})") == before
    assert listed(rig) == {"run-2": ("sync", "complete", 1, 1), "totals": ("totals", "totals", 2, 2)}
    assert counted(rig) == {
        "": {"pages": 2, "items": 3, "added": 2},
        "run-2": {"pages": 1, "items": 3, "added": 1},
    }
