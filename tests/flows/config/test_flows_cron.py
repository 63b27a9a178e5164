"""Cron expressions, computed without a clock: and their times."""

from datetime import UTC, datetime
from itertools import islice

import pytest
from prefect.server.schemas.schedules import CronSchedule

from flows.config.setting_types import check_cron, fires

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


RIGHT = ("15 */6 * * *", "0 3 * * mon-FRI", "0 0 29 2 *", "*/15 1,2 * JUL 7", "1-11,11 10-20/3 */2 * 1-5/2")
INVALID = ("", "every day", "* * * * * *", "60 * * * *", "0 0 30 2 *", "@daily")


def test_a_cron_expression_is_kept_as_it_came_or_refused() -> None:
    assert tuple(map(check_cron, RIGHT)) == RIGHT
    for expression in INVALID:
        with pytest.raises(ValueError, match="it is not a valid cron expression; use five fields, such as 15 2 "):
            check_cron(expression)


@pytest.mark.anyio
@pytest.mark.parametrize("expression", ["15 2 * * *", "0 3 * * MON-FRI"])
@pytest.mark.parametrize("begin", [datetime(2026, 3, 28, 1, tzinfo=UTC), datetime(2026, 10, 24, 1, tzinfo=UTC)])
async def test_our_times_equal_those_of_prefect_except_in_a_skipped_hour(expression: str, begin: datetime) -> None:
    theirs = await CronSchedule(cron=expression, timezone=BERLIN).get_dates(8, begin)
    ours = islice(fires(expression, BERLIN, begin), 8)
    apart = [abs(at.timestamp() - other.timestamp()) for at, other in zip(ours, theirs, strict=True)]
    assert max(apart) <= 3600
    assert sum(map(bool, apart)) <= 1
