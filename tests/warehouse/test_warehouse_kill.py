"""kill -9 at any moment: reported commits are there, checkpoints and rows agree, and resuming gives the same result."""

import subprocess
import sys
from pathlib import Path

from connectors.warehouse.ingest.landing.page_commit import last_seq
from connectors.warehouse.storage.connection import connect
from tests.warehouse.landing_process import the_story
from tests.warehouse.oracle import Oracle
from tests.warehouse.rig import Rig, emptied
from tests.warehouse.scenarios import Story, check_against_the_oracle, contents

ROOT = Path(__file__).parents[2]


def run(path: Path, *, kill_after: int | None) -> int:
    """Let a child process land until it has reported a number of commits, then kill it; return the last one."""
    command = [sys.executable, "-m", "tests.warehouse.landing_process", str(path)]
    message = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout, 1):
            message = int(line)
            if number == kill_after:
                child.kill()
                break
    assert child.returncode == (0 if kill_after is None else -9)
    return message


def oracle_of(story: Story) -> Oracle:
    oracle = Oracle()
    for _, event in story:
        oracle.apply(event)
    return oracle


def check_progress(rig: Rig, story: Story) -> None:
    """Assert that checkpoints are the last ones landed, and that every page they count is staged or merged."""
    checkpoints = [landing.checkpoint for landing, _ in story if landing.checkpoint]
    last = {(checkpoint.partition, checkpoint.run_kind): checkpoint for checkpoint in checkpoints}
    query = """
SELECT resource, account_id, surface, run_kind, scan_id, cursor, pages, items, state FROM ops.checkpoints
QUALIFY row_number() OVER (PARTITION BY resource, account_id, surface, run_kind ORDER BY seq DESC) = 1 ORDER BY ALL
"""
    assert rig.rows(query) == sorted(
        (
            where.resource,
            where.account_id,
            where.surface,
            run_kind,
            c.scan_id,
            c.cursor,
            c.pages,
            c.items,
            c.state.value,
        )
        for (where, run_kind), c in last.items()
    )
    staged = [seq for (seq,) in rig.rows("SELECT seq FROM ops.staging ORDER BY seq")]
    unmerged = [n for n, (landing, _) in enumerate(story, 1) if landing.page and staged and n >= staged[0]]
    assert staged == unmerged


def test_a_warehouse_survives_kill_9_at_any_instant(path: Path) -> None:
    story = the_story()
    for kill_after in (1, 4, 7, 8):
        message = run(path, kill_after=kill_after)
        with connect(path) as connection:
            rig = Rig(connection)
            with connection.begin():
                landed = last_seq(connection)
            assert message <= landed < len(story)
            check_progress(rig, story[:landed])
            if kill_after % 2 == 0:
                rig.merge()
                check_against_the_oracle(rig, oracle_of(story[:landed]))
    assert run(path, kill_after=None) == len(story)
    with connect(path) as connection:
        rig = Rig(connection)
        rig.merge()
        check_against_the_oracle(rig, oracle_of(story))
        left = contents(rig)
        undisturbed = emptied(connection)
        undisturbed.land(*(landing for landing, _ in story))
        undisturbed.merge()
        assert contents(undisturbed) == left
