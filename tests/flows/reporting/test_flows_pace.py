"""The line of a run in progress: its phase, waits, outlook and counts."""

from datetime import timedelta

import pytest

from flows.cli.output.run import describe
from flows.reporting.progress import Progress
from tests.clocks import START

COUNTS = "0 pages · 0 records"


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress(accounts=1200, accounts_done=3), f"list · 3 of 1,200+ accounts · {COUNTS}"),
        (Progress(accounts=8, catalogue_complete=True), f"scan · 0 of 8 accounts · {COUNTS}"),
        (
            Progress(accounts=1000, accounts_done=250, catalogue_complete=True),
            f"scan · 250 of 1,000 accounts · about 3 min left · {COUNTS}",
        ),
        (
            Progress(
                accounts=8,
                accounts_done=7,
                catalogue_complete=True,
                cooldowns={"over": START, "a": START + timedelta(days=1), "b": START + timedelta(minutes=5)},
                waiting=2,
            ),
            "scan · 7 of 8 accounts · 2 cooldowns until 2026-03-02 02:15:00 UTC · 0 pages · 0 records · 2 waiting",
        ),
        (Progress(accounts=8, accounts_done=8, catalogue_complete=True, ending="publish"), f"publish · {COUNTS}"),
    ],
)
def test_what_matters_most_is_first(progress: Progress, line: str) -> None:
    """It has been running for a minute."""
    assert " · ".join(describe(progress, 60, START)) == line
