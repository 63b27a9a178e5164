"""A short simulation: a few seeds pass, a seed is deterministic, and injected bugs are found."""

from dataclasses import replace

import pytest

from tests.api.feeds import ORDERS
from tests.simulation.injected_bugs import INJECTED_BUGS
from tests.simulation.scenario import generate_scenario
from tests.simulation.simulator import simulate


# Even seeds have only full scans; odd seeds have incremental days, too.
@pytest.mark.parametrize(
    ("seed", "days", "recent"),
    [
        # With a rebuild that is killed.
        (3, 3, 1),
        # With a compaction.
        (9, 2, 0),
        pytest.param(3, 5, 1, marks=pytest.mark.long),
        pytest.param(9, 5, 0, marks=pytest.mark.long),
        # With limits of the whole key.
        pytest.param(14, 3, 0, marks=pytest.mark.long),
        pytest.param(0, 3, 0, marks=pytest.mark.long),
        pytest.param(2, 3, 0, marks=pytest.mark.long),
        pytest.param(105, 5, 1, marks=pytest.mark.long),
    ],
)
def test_the_snapshot_is_correct_under_any_faults(seed: int, days: int, recent: int) -> None:
    result = simulate(generate_scenario(seed, days))
    assert result.violation is None, f"{result.scenario.message()}\n{result.violation}"
    assert result.days == days + 2 + seed % 2
    assert result.ended >= 2
    assert result.recent >= recent


@pytest.mark.long
def test_a_seed_is_deterministic() -> None:
    scenario = generate_scenario(0, 1)
    one, other, another = simulate(scenario), simulate(scenario), simulate(replace(scenario, seed=2, days=()))
    assert one.violation is None
    assert one.trace == other.trace
    assert one.trace != another.trace


# The bug that is found fastest is tested every time.
_BUGS = [pytest.param(name, marks=() if name == "dropped page" else (pytest.mark.long,)) for name in INJECTED_BUGS]


@pytest.mark.parametrize("name", _BUGS)
def test_an_injected_bug_is_found_within_few_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inject, first = INJECTED_BUGS[name]
    inject(monkeypatch)
    # Only odd seeds have recent scans, and not before the second day.
    assert any(simulate(generate_scenario(seed, 5 if seed % 2 else 3)).violation for seed in range(first, first + 3))


def test_every_bug_can_still_be_injected() -> None:
    for inject, _ in INJECTED_BUGS.values():
        with pytest.MonkeyPatch.context() as patch:
            inject(patch)


_FLAGS = ("day_changes", "backfill", "forgets_cursors", "account_limit", "key_limit", "upkeep_crash")


@pytest.mark.parametrize(
    ("seeds", "mode", "flags", "worlds"),
    [
        (range(200), None, (*_FLAGS, "catalogue_limit"), {}),
        (range(1, 401, 2), "incremental", (*_FLAGS, "max_requests"), {"order": set(ORDERS), "pins": set(range(6))}),
    ],
    ids=["all", "incremental"],
)
def test_scenarios_have_every_kind_of_feed_and_fault(
    seeds: range, mode: str | None, flags: tuple[str, ...], worlds: dict[str, set[object]]
) -> None:
    scenarios = [generate_scenario(seed) for seed in seeds]
    days = [day for scenario in scenarios for day in scenario.days if mode in (None, day.mode)]
    assert {day.crash.where for day in days if day.crash} == {"step", "statement", "before commit", "after commit"}
    assert {day.upkeep for day in days} == {None, "compact", "rebuild"}
    kinds = {rule.action.kind for day in days for rule in day.faults}
    assert len(kinds) >= 20
    assert kinds >= {"error", "reset", "cut", "refuse_cursor", "forget_cursors", "item_twice", "item_without_id"}
    assert all(any(getattr(day, name) for day in days) for name in flags)
    feeds = [scenario.world.feed for scenario in scenarios]
    assert all({getattr(feed, name) for feed in feeds} == values for name, values in worlds.items())
    for name in ("pins_twice", "archived", "back_dated", "post_dated", "ties"):
        assert any(getattr(feed, name) for feed in feeds)
    assert any(scenario.world.change_every for scenario in scenarios)
