"""`gramhouse sync` against a server in another process."""

import subprocess
import sys
import time

import pytest

from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import Operator, killed_on_exit

pytestmark = pytest.mark.e2e


ANALYST = """
import duckdb, sys
db = duckdb.connect(sys.argv[1], read_only=True)
for line in sys.stdin:
    print(db.execute("SELECT count(*), max(started_at) FROM media, runs").fetchone(), flush=True)
"""


def test_the_snapshot_matches_the_api(shell: Operator, operator: Operator, service: Api) -> None:
    report = shell.sync()
    accounts = len(service.list_accounts())
    assert (report["state"], sum(report["outcomes"].values())) == ("complete", 1 + 2 * accounts)
    assert_matches_api(shell.ask, service)
    rows = shell.ask("SELECT resource, account_id, surface, count(*) FROM run_outcomes GROUP BY ALL")
    assert [row[-1] for row in rows] == [1] * (1 + 2 * accounts)
    answer = operator.run("query", "--json", "-- How many are there?\nSELECT count(*) AS accounts FROM accounts;")
    assert answer.json()["rows"] == [{"accounts": accounts}]
    again = operator.run("sync")
    assert again.stderr.endswith(f"gramhouse sync of {operator.env['GRAMHOUSE_BASE_URL']}.\n")
    assert "nothing changed" in again.stdout
    assert operator.sync()["media"] == dict.fromkeys(report["media"], 0)
    assert_matches_api(shell.ask, service)
    # Without the libraries that a process of the tests has.
    shell.run("publish", GRAMHOUSE_HIDE="caption:hash,ig_username")
    hidden = "SELECT DISTINCT length(caption), ig_username = account_id FROM media WHERE caption IS NOT NULL"
    assert shell.ask(hidden) == [(32, True)]


def test_an_analyst_with_the_snapshot_open_neither_blocks_nor_is_blocked(operator: Operator, service: Api) -> None:
    operator.sync()
    command, pipe = [sys.executable, "-c", ANALYST, str(operator.snapshot)], subprocess.PIPE
    with killed_on_exit(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)) as reader:

        def look() -> str:
            assert reader.stdin
            assert reader.stdout
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


def test_another_address_and_a_wrong_key_are_refused_in_one_line_and_lose_nothing(
    operator: Operator, service: Api
) -> None:
    operator.run("sync", "--base-url", f"{service.url}/api/v1/")
    rows = "SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL"
    before = operator.ask(rows)
    other = service.url.replace("127.0.0.1", "localhost")
    for command in (["sync"], ["backfill", "--all"]):
        service.requests.clear()
        text = operator.run(*command, code=2, GRAMHOUSE_BASE_URL=other).stderr
        assert f"This warehouse was filled from {service.url}, but the configured address is {other}." in text
        assert ("--rebind" in text, service.requests) == (True, [])
    [line] = operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong").stdout.strip().splitlines()
    assert (line.count("api_unauthorized"), "check the API key" in line) == (1, True)
    assert operator.ask(rows) == before
    operator.run("sync", "--rebind", GRAMHOUSE_BASE_URL=other)
    runs = [(service.url, "complete", None), (service.url, "failed", "api_unauthorized"), (other, "complete", None)]
    assert operator.ask("SELECT base_url, state, error_code FROM runs ORDER BY seq") == runs
    operator.run("sync", code=2)
