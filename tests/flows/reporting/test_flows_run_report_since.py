"""Since when findings count as new: interrupted runs have not reported theirs."""

import duckdb
import pytest

from connectors.warehouse.storage.statements import statements

BEGUN = statements("flows.reporting.run_report")["begun"]

# run, hour of its start, state
RUNS = [
    ("a", 1, "complete"),
    ("b", 2, "interrupted"),
    ("c", 3, "partial"),
    ("d", 4, "interrupted"),
    ("e", 5, "running"),
]


@pytest.mark.parametrize(
    ("runs", "hour"),
    [
        # The first run.
        (["a"], 1),
        # c resumes b.
        (["c", "b"], 2),
        # c does not resume b, but no other run has reported the findings of b.
        (["c"], 2),
        (["e"], 4),
        # The run that ended before d has reported its own findings.
        (["e", "d"], 4),
    ],
)
def test_events_that_were_not_reported_are_reported_by_the_next_run(runs: list[str], hour: int) -> None:
    now = next(began for name, began, _ in RUNS if name == runs[0])
    with duckdb.connect() as db:
        db.execute("CREATE TABLE runs(seq BIGINT, run_id VARCHAR, kind VARCHAR, started_at TIMESTAMPTZ, state VARCHAR)")
        db.executemany(
            "INSERT INTO runs VALUES (?, ?, 'sync', make_timestamptz(2026, 3, 1, ?, 0, 0, 'UTC'), ?)",
            [[seq, *run] for seq, run in enumerate(RUNS, 1) if run[1] <= now],
        )
        db.execute(f"SET VARIABLE runs = {runs}")
        db.execute(BEGUN)
        found = db.execute("SELECT date_part('hour', timezone('UTC', getvariable('begun')))").fetchone()
    assert found == (hour,)
