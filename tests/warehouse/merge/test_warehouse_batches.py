"""Merging after every page, now and then, or once at the end produces the same rows, which are those of the oracle."""

import random

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from connectors.warehouse.storage.connection import Connection
from tests.warehouse.oracle import Oracle
from tests.warehouse.rig import Rig, Row, emptied
from tests.warehouse.scenarios import CODES, PARTITIONS, Story, check_against_the_oracle, contents, tell


def merged(connection: Connection, story: Story, cuts: set[int]) -> Rig:
    """Land a scenario in a warehouse, merging after the landings numbered in `cuts` and at the end."""
    rig = emptied(connection)
    done = 0
    for cut in (*sorted(cuts), len(story)):
        rig.land(*(landing for landing, _ in story[done:cut]))
        rig.merge()
        done = max(done, cut)
    return rig


# Scans that overtake each other are rare; this scenario has some.
SEEDS = (17,)

CODE = st.integers(0, CODES - 1)
ROUNDS = st.lists(
    st.tuples(st.integers(1, 30), st.lists(CODE, min_size=len(PARTITIONS), max_size=len(PARTITIONS))),
    min_size=4,
    max_size=8,
)


ABANDONED_AT_THE_END = [(9, [0, 0, 0, 0, 0, 3 << 12, 0])]
ABANDONED_BY_THE_LAST_LANDING = [(9, [0, 0, 0, 0, 0, 0, 3 << 12])]


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(rounds=ABANDONED_AT_THE_END, now_and_then={39})
@example(rounds=ABANDONED_BY_THE_LAST_LANDING, now_and_then=set())
@given(rounds=ROUNDS, now_and_then=st.sets(st.integers(1, 60), max_size=8))
def test_any_sequence_of_pages_merges_to_the_same_rows_in_any_batches(
    opened_rig: Connection, rounds: list[tuple[int, list[int]]], now_and_then: set[int]
) -> None:
    check(opened_rig, list(tell(rounds)), now_and_then)


@pytest.mark.parametrize("seed", SEEDS)
def test_overtaking_scans_merge_to_the_same_rows_in_any_batches(opened_rig: Connection, seed: int) -> None:
    draw = random.Random(seed)
    story = list(tell([(draw.randint(1, 30), [draw.randrange(CODES) for _ in PARTITIONS]) for _ in range(10)]))
    assert overtaken(story) > 2
    check(opened_rig, story, {draw.randrange(len(story)) for _ in range(6)})


@pytest.mark.long
@pytest.mark.parametrize("seed", [3])
def test_scans_with_clock_jumps_merge_to_the_same_rows_in_any_batches(opened_rig: Connection, seed: int) -> None:
    draw = random.Random(seed)
    story = list(tell([(draw.randint(-60, 60), [draw.randrange(CODES) for _ in PARTITIONS]) for _ in range(8)]))
    # A field's first_seen_at depends on the times of merges, so it is not compared.
    check(opened_rig, story, {draw.randrange(len(story)) for _ in range(6)}, fields=False)


def check(connection: Connection, story: Story, now_and_then: set[int], *, fields: bool = True) -> None:
    def compared(rig: Rig) -> dict[str, list[Row]]:
        return {name: rows for name, rows in contents(rig).items() if fields or name != "core.fields"}

    oracle = Oracle()
    for _, event in story:
        oracle.apply(event)
    once = merged(connection, story, set())
    check_against_the_oracle(once, oracle, fields=fields)
    expected = compared(once)
    assert compared(merged(connection, story, now_and_then)) == expected
    assert compared(merged(connection, story, each_page(story))) == expected


def overtaken(story: Story) -> int:
    """Count the scans that ended after another scan of their partition that had started or continued during them."""
    ends: dict[object, float] = {}
    found = 0
    for _, event in story:
        if event.last:
            found += event.where in ends and ends[event.where] > event.started_at.timestamp()
            ends[event.where] = event.at.timestamp()
    return found


def each_page(story: Story) -> set[int]:
    """Merge before a partition lands a second page, so that no merge has two pages of one scan."""
    cuts: set[int] = set()
    held: set[object] = set()
    for number, (_, event) in enumerate(story):
        if event.where in held:
            cuts.add(number)
            held.clear()
        held.add(event.where)
    return cuts
