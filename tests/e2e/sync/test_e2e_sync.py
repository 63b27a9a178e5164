"""`gramhouse sync` against a server in another process."""

import json
import subprocess
import sys
import time

import pytest

from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import Operator, killed_on_exit, wait_until

pytestmark = pytest.mark.e2e

ANALYST = """
import duckdb, sys
db = duckdb.connect(sys.argv[1], read_only=True)
for line in sys.stdin:
    print(db.execute("SELECT count(*), max(started_at) FROM media, runs").fetchone(), flush=True)
"""


def test_the_snapshot_matches_the_api(shell: Operator, operator: Operator, service: Api) -> None:
    report = shell.sync()
    assert report["state"] == "complete"
    assert_matches_api(shell.ask, service)
    accounts = len(service.list_accounts())
    assert sum(report["outcomes"].values()) == 1 + 2 * accounts
    rows = shell.ask("SELECT resource, account_id, surface, count(*) FROM run_outcomes GROUP BY ALL")
    assert len(rows) == 1 + 2 * accounts
    assert {row[-1] for row in rows} == {1}
    answer = operator.run("query", "--json", "-- How many are there?\nSELECT count(*) AS accounts FROM accounts;")
    assert json.loads(answer.stdout)["rows"] == [{"accounts": accounts}]
    again = operator.run("sync")
    assert again.stderr.endswith(f"gramhouse sync of {operator.env['GRAMHOUSE_BASE_URL']}.\n")
    assert "nothing changed" in again.stdout
    assert operator.sync()["media"] == dict.fromkeys(report["media"], 0)
    assert_matches_api(shell.ask, service)


def test_expired_accounts_are_flagged_skipped_and_resumed(operator: Operator, service: Api) -> None:
    while not service.ids("token_expired"):
        service.day += 1
    operator.sync()
    listed = json.loads(operator.run("accounts", "--expired", "--json").stdout)["accounts"]
    assert {account["account_id"] for account in listed} == set(service.ids("token_expired"))
    assert all(account["token_expired_since"] for account in listed)
    skipped = operator.ask(
        "SELECT DISTINCT account_id, outcome, error_code FROM run_outcomes WHERE outcome = 'skipped'"
    )
    assert {row[0] for row in skipped} == set(service.ids("token_expired"))
    one = service.ids("token_expired")[0]
    while one in service.ids("token_expired"):
        service.day += 1
    # Other accounts may have left the catalogue on these days.
    operator.run("sync", "--accept-removals")
    assert_matches_api(operator.ask, service)
    (count,) = operator.ask("SELECT count(*) FROM media WHERE account_id = ? AND removed_at IS NULL", [one])[0]
    assert count > 0 or one not in {account["id"] for account in service.list_accounts()}
    periods = operator.ask(
        "SELECT status, valid_from, valid_to FROM account_status_history WHERE account_id = ? ORDER BY valid_from",
        [one],
    )
    assert periods[0][0] == "token_expired"
    assert periods[0][2] is not None or one not in {account["id"] for account in service.list_accounts()}


def test_an_analyst_with_the_snapshot_open_neither_blocks_nor_is_blocked(operator: Operator, service: Api) -> None:
    operator.sync()
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            ANALYST,
            str(operator.snapshot),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with killed_on_exit(reader):
        assert reader.stdin is not None
        assert reader.stdout is not None

        def look() -> str:
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdin.write("\n")
            reader.stdin.flush()
            return reader.stdout.readline()

        before = look()
        service.day = 1
        service.script.replace([Rule(Action("delay", seconds=0.02))])
        with killed_on_exit(operator.start("sync")) as writing:
            while writing.poll() is None:
                assert look() == before
                time.sleep(0.05)
            assert writing.returncode == 0
        assert look() == before
    assert_matches_api(operator.ask, service)


def test_a_second_sync_names_the_holder_and_exits_with_4(operator: Operator, service: Api) -> None:
    service.script.replace([Rule(Action("delay", seconds=30))])
    with killed_on_exit(operator.start("sync")) as first:
        wait_until(lambda: len(service.requests) > 0, "the first request")
        second = operator.run("sync", code=4)
        assert len(second.stderr.strip().splitlines()) == 2
        assert f"gramhouse sync (process {first.pid}" in second.stderr
        status = operator.run("status")
        assert "is running" in status.stdout


def test_another_program_on_the_file_is_named(operator: Operator) -> None:
    operator.sync()
    program = "import duckdb, sys, time; db = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep(999)"
    with killed_on_exit(operator.start_python("-c", program, str(operator.warehouse), env={})) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert f"process {holder.pid}" in operator.run("sync", code=4).stderr
