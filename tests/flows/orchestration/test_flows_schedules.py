"""Plans and missed runs, computed without a clock."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from flows.config.cron import check_cron
from flows.config.settings import load
from flows.orchestration.interruptions import Due, RunEnd, Verdict, catch_up
from flows.orchestration.schedules import PLANS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_each_plan_names_an_existing_setting_and_existing_plans() -> None:
    settings = load()
    names = [plan.name for plan in PLANS]
    assert names == ["nightly", "stories", "backfill", "publish"]
    for plan in PLANS:
        assert plan.covers <= set(names)
        assert plan.when is None or check_cron(getattr(settings, plan.when))


def due(*message: str) -> list[Due]:
    return [
        Due(plan, UUID(int=number), NOW + timedelta(hours=int(hour)), RunEnd[fate])
        for number, (plan, hour, fate) in enumerate(line.split() for line in message)
    ]


@pytest.mark.parametrize(
    ("message", "verdicts"),
    [
        ((), ""),
        (("nightly 1 OVER",), ""),
        (("nightly 1 MISSED",), "0 RUN"),
        (("nightly 1 MISSED", "nightly 3 MISSED", "nightly 2 MISSED"), "0 DROP, 1 RUN, 2 DROP"),
        (("nightly 1 MISSED", "nightly 2 OVER"), "0 DROP"),
        (("nightly 1 INTERRUPTED",), "0 AGAIN"),
        (("nightly 1 INTERRUPTED", "nightly 2 OVER"), ""),
        (("nightly 1 INTERRUPTED", "nightly 2 MISSED"), "1 RUN"),
        (("nightly 2 INTERRUPTED", "nightly 1 MISSED"), "0 AGAIN, 1 DROP"),
        (("stories 1 MISSED", "stories 2 MISSED"), "0 DROP, 1 RUN"),
        (("stories 1 INTERRUPTED", "nightly 1 OVER"), "0 AGAIN"),
        (("nightly 1 MISSED", "stories 2 MISSED"), "0 RUN, 1 DROP"),
        (("nightly 1 INTERRUPTED", "stories 2 MISSED"), "0 AGAIN, 1 DROP"),
        (("nightly 1 MISSED", "stories 2 INTERRUPTED"), "0 RUN"),
        (("nightly 1 OVER", "stories 2 MISSED"), "1 RUN"),
    ],
)
def test_one_missed_run_of_each_plan_is_made_up_for(message: Sequence[str], verdicts: str) -> None:
    decided = catch_up(due(*message), PLANS)
    assert ", ".join(f"{run.int} {decided[run].name}" for run in sorted(decided)) == verdicts
    assert set(decided.values()) <= set(Verdict)
