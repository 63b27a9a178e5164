"""However landed pages are divided into merges, the resulting rows are the same."""

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.merge import batches
from connectors.warehouse.merge import merge as merge_module
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import BUILT_IN, Mapping
from models.page_commit import Landing, PageCommit, landing
from models.partition import CATALOGUE, Partition
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, T0, Item, Rig, Row, Scan, account, at, emptied

# Depend on the merges: the parts of the raw store, what abandoned scans have seen, until the next publication, and when
# a field is recorded as first seen.
OF_MERGES = {"ops.raw_parts", "ops.warehouse", "ops.seen"}
TIMES_OF_FIELDS = {"first_seen_at", "last_type_change_at", "json_types"}


# Rows have the number of the run that fetched them, not of the one that merges them.
RUNS = """
INSERT INTO core.runs BY NAME
SELECT 'run-' || n AS run_id, n + 1 AS seq, 'sync' AS kind, 'complete' AS state,
    TIMESTAMPTZ '2026-01-01 00:00:00+00' AS started_at, '1' AS version
FROM range(3) AS t(n)
"""


class Step(NamedTuple):
    """A page of a partition's scan, which begins if none is open; `contents` says which of four records, and how."""

    partition: Partition
    hours: float
    contents: tuple[int, int, int, int]
    then: str = ""


def records(partition: Partition, contents: tuple[int, ...]) -> list[Item]:
    if partition == CATALOGUE:
        statuses = ("active", "token_expired")
        listed = zip((ANNA, BEN), contents, strict=False)
        return [account(one, name=f"name {how // 3}", status=statuses[how % 2]) for one, how in listed if how]
    return [item(number, how) for number, how in enumerate(contents) if how]


def item(number: int, how: int) -> Item:
    found: Item = {"id": str(number), "caption": f"caption {how % 2}", "like_count": how, "children": [{"id": "c"}]}
    if how == 2:
        # Another name of the same count, and in the next one beside it.
        found["likes"] = found.pop("like_count")
    if how == 3:
        found["likes"] = 2
    if how == 4:
        # A record without an id, and a field that occurs nowhere else.
        del found["id"]
    if how == 5:
        found |= {"children": [{"id": "c", "width": how}], "extra": "a text"}
    return found


def landings(steps: list[Step]) -> list[PageCommit]:
    scans: dict[Partition, Scan] = {}
    landed, now = [], T0
    for number, step in enumerate(steps):
        now += timedelta(hours=step.hours)
        scan = scans.get(step.partition)
        if scan is None or scan.over:
            scan = scans[step.partition] = Scan(step.partition, f"scan-{number}", now, f"run-{number % 3}")
        landed.append(scan.page(records(step.partition, step.contents), now, last=step.then == "end"))
        if step.then == "abandon":
            landed.append(scan.abandon(now))
    return landed


class Merges:
    """The landing numbers of each merge; those after the first `survives` ones fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.merged: list[list[int]] = []
        self.survives = 1000
        self._merge = merge_module.merge
        monkeypatch.setattr(merge_module, "merge", self._counted)

    def _counted(self, connection: Connection, batch: list[Landing]) -> MergeStats:
        if len(self.merged) == self.survives:
            raise WarehouseUnusable
        self.merged.append([one.seq for one in batch])
        return self._merge(connection, batch)


def test_a_merge_has_a_limited_number_of_commits_and_outcomes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    merges, posts = Merges(monkeypatch), Scan(POSTS, "p", T0)
    denied = PageCommit(outcomes=(Outcome(POSTS, "run-1", OutcomeKind.DENIED, T0, T0),) * 4)
    monkeypatch.setattr(batches, "MOST_RECORDS", 3)
    pages = [posts.page([{"id": str(number)}], at(number), last=number == 4) for number in range(5)]
    rig.land(*pages, denied, denied)
    assert rig.merge().added == 5
    assert merges.merged == [[1, 2, 3], [4, 5, 6], [7]]
    assert rig.value("SELECT count(*) FROM core.run_outcomes") == 8
    assert rig.value("SELECT merged_seq FROM ops.warehouse") == 7


def test_nothing_is_left_out_if_a_later_merge_is_smaller(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill, if the next gramhouse has another limit."""
    merges = Merges(monkeypatch)
    scans = [Scan(POSTS, name, at(hour)) for hour, name in enumerate("abc")]
    landed = [scan.page([{"id": scan.scan_id}], scan.started_at, last=True) for scan in scans]
    rig.land(*landed, Scan(STORIES, "d", T0).page([{"id": "d"}], T0, last=True))
    merges.survives = 1
    with pytest.raises(WarehouseUnusable):
        rig.merge()
    assert rig.value("SELECT merged_seq FROM ops.warehouse") == 1
    monkeypatch.setattr(batches, "MOST_RECORDS", 1)
    merges.survives = 1000
    rig.merge()
    assert merges.merged == [[1], [2], [3], [4]]
    assert rig.value("SELECT merged_seq FROM ops.warehouse") == 4
    assert rig.rows("SELECT media_id FROM core.media ORDER BY 1") == [("a",), ("b",), ("c",), ("d",)]


def test_a_batch_ends_before_the_next_scan_of_a_partition_that_was_closed_in_it() -> None:
    first, other, second = Scan(POSTS, "a", T0), Scan(STORIES, "b", T0), Scan(POSTS, "c", T0)
    commits = [first.page([], T0, last=True), other.page([], T0), PageCommit(), second.page([], T0), other.page([], T0)]
    landed = [landing(seq, commit) for seq, commit in enumerate(commits, 1)]
    assert [one.seq for one in batches.next_batch(landed)] == [1, 2, 3]
    assert [one.seq for one in batches.next_batch(landed[3:])] == [4, 5]
    assert batches.next_batch([]) == []


def rows_after(
    connection: Connection, landed: list[PageCommit], cuts: set[int], mapping: Mapping = BUILT_IN
) -> dict[str, set[Row]]:
    """Return all rows after the pages are merged, with merges before the pages of these numbers."""
    rig = emptied(connection)
    rig.do(RUNS)
    rig.call(adopt_mapping, mapping)
    for number, one in enumerate(landed):
        if number in cuts:
            rig.merge()
        rig.land(one)
    rig.merge()
    # Discovered columns are in the order of discovery.
    names = rig.rows("SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE NOT temporary")
    found = {}
    for name in {name for (name,) in names} - OF_MERGES:
        columns = {column for (column, *_) in rig.rows(f"DESCRIBE {name}")}
        columns -= TIMES_OF_FIELDS if name == "core.fields" else set()
        listed = ", ".join(f'"{column}"::VARCHAR' for column in sorted(columns))
        found[name] = set(rig.rows(f"SELECT {listed} FROM {name}"))
    return found


CONTENTS = st.tuples(*[st.integers(0, 5)] * 4)
STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from((POSTS, POSTS, STORIES, CATALOGUE)),
        st.sampled_from((0.1, 2, 13, 30)),
        CONTENTS,
        st.sampled_from(("", "", "end", "end", "abandon")),
    ),
    min_size=8,
    max_size=14,
)

ALL, SOME, NONE = (1, 1, 2, 1), (1, 3, 0, 0), (0, 0, 0, 0)
# Items are missed by two scans, and the last one returns while another scan of its partition is abandoned.
REMOVED = [
    *(Step(POSTS, 13, contents, "end") for contents in (ALL, SOME, SOME)),
    *(Step(CATALOGUE, 13, contents, "end") for contents in (ALL, (1, 0, 0, 0), (1, 0, 0, 0))),
    Step(POSTS, 2, (0, 2, 0, 0)),
    Step(STORIES, 1, ALL, "end"),
    Step(POSTS, 2, (0, 0, 3, 0), "abandon"),
    Step(POSTS, 2, (1, 4, 0, 5)),
    Step(STORIES, 30, NONE, "end"),
    Step(POSTS, 2, (1, 1, 3, 5), "end"),
]


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(steps=REMOVED, cuts=set(range(20)))
@example(steps=REMOVED, cuts={2, 8, 9})
@given(steps=STEPS, cuts=st.sets(st.integers(1, 14), min_size=1))
def test_any_division_of_landed_pages_into_merges_results_in_the_same_rows(
    opened_rig: Connection, steps: list[Step], cuts: set[int]
) -> None:
    landed = landings(steps)
    at_once = rows_after(opened_rig, landed, set())
    assert rows_after(opened_rig, landed, cuts) == at_once


def test_ignored_children_of_a_removed_item_that_returns_do_not_depend_on_the_division(opened_rig: Connection) -> None:
    def listed(viewer: int) -> list[Item]:
        return [{"id": "1", "viewers": [{"id": viewer}]}]

    landed = [
        Scan(POSTS, f"scan-{day}", at(24 * day), f"run-{day}").page(items, at(24 * day), last=True)
        for day, items in enumerate((listed(1), [], []))
    ]
    scan = Scan(POSTS, "last", at(72), "run-0")
    landed.append(scan.page(listed(1), at(72)))
    scan.run_id = "run-1"
    landed.append(scan.page(listed(2), at(73), last=True))
    mapping = replace(BUILT_IN, ignore=("/viewers",))
    at_once = rows_after(opened_rig, landed, set(), mapping)
    assert rows_after(opened_rig, landed, {4}, mapping) == at_once
    assert Rig(opened_rig).rows("SELECT id, run_seq FROM core.media_viewers") == [(2, 1)]


def test_rows_have_the_number_of_the_run_that_wrote_them(rig: Rig) -> None:
    rig.do(RUNS)
    scans: list[tuple[Partition, int, list[Item], str]] = [
        (POSTS, 0, [{"id": "1", "caption": "a", "like_count": 1, "children": [{"id": "c"}]}, {"id": "2"}], "run-0"),
        (CATALOGUE, 1, [account(ANNA)], "run-0"),
        (CATALOGUE, 2, [account(ANNA, status="token_expired")], "run-1"),
        (POSTS, 24, [{"id": "1", "caption": "b", "like_count": 2, "children": [{"id": "c"}]}], "run-1"),
        (POSTS, 48, [{"id": "1", "caption": "b", "like_count": 2, "children": [{"id": "c"}]}], "run-2"),
    ]
    for partition, hour, items, run_id in scans:
        scan = Scan(partition, f"scan-{hour}", T0 + timedelta(hours=hour), run_id)
        rig.land(scan.page(items, T0 + timedelta(hours=hour), last=True))
    rig.merge()
    # The second item was removed by the last run; the first did not change in it.
    assert rig.rows("SELECT media_id, run_seq, first_run_seq FROM core.media ORDER BY ALL") == [
        ("1", 2, 1),
        ("2", 3, 1),
    ]
    assert rig.rows("SELECT run_seq FROM core.media_superseded") == [(2,)]
    assert rig.rows("SELECT value, run_seq FROM core.media_metrics ORDER BY ALL") == [(1, 1), (2, 2)]
    assert rig.rows("SELECT run_seq FROM core.media_children") == [(2,)]
    assert rig.rows("SELECT run_seq FROM core.accounts") == [(2,)]
    assert rig.rows("SELECT status, run_seq FROM core.account_status_history ORDER BY run_seq") == [
        ("active", 1), ("token_expired", 2)
    ]  # fmt: skip
    before = rig.everything("schema_name = 'core' AND NOT temporary")
    rig.rebuild(BUILT_IN)
    assert rig.everything("schema_name = 'core' AND NOT temporary") == before


def test_items_of_a_table_that_is_not_declared_are_refused(rig: Rig) -> None:
    with pytest.raises(WarehouseUnusable, match="its table undeclared is not declared"):
        rig.scan(Partition("undeclared", ANNA, "undeclared"), "first", 0, [{"id": "1"}])
