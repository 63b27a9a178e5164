"""Since when findings count as new: interrupted runs have not reported theirs."""

import duckdb
import pytest

from connectors.warehouse.storage.statements import statements

REPORTED = statements("flows.reporting.reader")["reported"]
BEGUN = statements("flows.reporting.run_report")["begun"]

# run, hour of its start, state, the run that it resumes
RUNS = [
    ("a", 1, "complete", None),
    ("b", 2, "interrupted", None),
    ("c", 3, "partial", None),
    ("d", 4, "interrupted", None),
    ("e", 5, "running", None),
    # It was not published.
    ("f", 6, "complete", None),
    ("g", 7, "running", "f"),
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
        # Nor has a run that another one resumes reported its findings.
        (["g"], 4),
    ],
)
def test_events_that_were_not_reported_are_reported_by_the_next_run(runs: list[str], hour: int) -> None:
    now = next(began for name, began, *_ in RUNS if name == runs[0])
    with duckdb.connect() as db:
        columns = "seq BIGINT, run_id VARCHAR, kind VARCHAR, started_at TIMESTAMPTZ, state VARCHAR, resumes VARCHAR"
        db.execute(f"CREATE TABLE runs({columns})")
        db.executemany(
            "INSERT INTO runs VALUES (?, ?, 'sync', make_timestamptz(2026, 3, 1, ?, 0, 0, 'UTC'), ?, ?)",
            [[seq, *run] for seq, run in enumerate(RUNS, 1) if run[1] <= now],
        )
        db.execute(f"SET VARIABLE runs = {runs}")
        db.execute(REPORTED)
        db.execute(BEGUN)
        found = db.execute("SELECT date_part('hour', timezone('UTC', getvariable('begun')))").fetchone()
    assert found == (hour,)
