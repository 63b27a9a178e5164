"""A few seeds pass, a seed gives the same events, and the harness itself finds what is wrong, and shrinks it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.api.feeds import ORDERS
from tests.harness.oracle import tables
from tests.harness.scenario import Day, Scenario, generate
from tests.harness.shrink import command, shrink, without
from tests.harness.simulation import simulate


# Even seeds have only full scans; odd seeds have incremental days, too.
@pytest.mark.parametrize(("seed", "days"), [(0, 2), (2, 2), (1, 2)])
def test_what_users_see_is_right_under_any_faults(seed: int, days: int) -> None:
    result = simulate(generate(seed, days))
    assert result.violation is None, f"{result.scenario}\n{result.violation}\n{command(result.scenario, days, ())}"
    assert result.days == days + 3 + seed % 2
    assert result.ended >= 3


@pytest.mark.long
def test_a_seed_gives_the_same_events() -> None:
    scenario = generate(6, 2)
    one, other, another = simulate(scenario), simulate(scenario), simulate(replace(scenario, seed=8))
    assert one.violation is None
    assert one.trace == other.trace
    assert one.trace != another.trace


@pytest.mark.long
def test_a_warehouse_that_breaks_a_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The oracle expects the first scan that misses an account to remove it.
    monkeypatch.setattr(tables, "_CONFIRM_ACCOUNT", timedelta(days=30))
    assert any(simulate(generate(seed, 4)).violation for seed in range(0, 12, 2))


def test_a_failing_scenario_is_reduced_to_what_it_needs() -> None:
    scenario = generate(7, 6)
    crashing = [day for day in scenario.days if day.crash]

    def fails(tried: Scenario) -> bool:
        return any(day.crash == crashing[0].crash for day in tried.days)

    left = shrink(scenario, fails, most=1000)
    [day] = without(scenario, left).days
    assert day == Day(crashing[0].number, crash=crashing[0].crash)
    assert command(scenario, 6, left).startswith("python -m tests.harness --seeds 1 --first 7 --days 6 --without ")


def test_scenarios_have_every_kind_of_fault_command_and_feed() -> None:
    scenarios = [generate(seed) for seed in range(400)]
    days = [day for scenario in scenarios for day in scenario.days]
    crashes = [day.crash for day in days if day.crash]
    assert {(crash.steps, crash.dies) for crash in crashes} == {(True, True), (False, True), (False, False)}
    commands = {(each.command, bool(each.crash)) for day in days for each in day.upkeep}
    assert commands == {
        (name, killed) for name in ("compact", "rebuild", "publish", "forget") for killed in (True, False)
    }
    assert {day.restores for day in days} == {None, "together", "warehouse", "raw"}
    kinds = {rule.action.kind for day in days for rule in day.faults}
    assert len(kinds) >= 22
    assert kinds >= {
        "raw",
        "page",
        "error",
        "reset",
        "cut",
        "refuse_cursor",
        "forget_cursors",
        "item_twice",
        "item_without_id",
    }
    flags = ("day_changes", "backfill", "forgets_cursors", "account_limit", "key_limit", "catalogue_limit", "hides")
    assert all(any(getattr(day, name) for day in days) for name in (*flags, "max_requests"))
    feeds = [scenario.world.feed for scenario in scenarios]
    assert {feed.order for feed in feeds} == set(ORDERS)
    assert {feed.pins for feed in feeds} == set(range(6))
    for name in ("pins_twice", "archived", "back_dated", "post_dated", "ties"):
        assert any(getattr(feed, name) for feed in feeds)
