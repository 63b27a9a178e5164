"""Backfills from the command line."""

import pytest

from tests.api.server import Api
from tests.operator import Operator

pytestmark = pytest.mark.e2e


def test_a_backfill_from_the_command_line(operator: Operator, service: Api) -> None:
    operator.sync()
    names = sorted(a["ig_username"] for a in service.list_accounts() if a["status"] == "active")
    message = operator.run("backfill", "--account", names[0], "--dry-run", "--json").json()
    assert {scan["ig_username"] for scan in message["scans"]} == {names[0]}
    service.requests.clear()
    shown = operator.run("backfill", "--account", names[0], "--surface", "posts", "--dry-run").stdout
    assert f"1 scan would run, about {message['requests'] - 1} request" in shown
    assert len(service.requests) == 0

    typed = ("backfill", "--account", f"@{names[0].upper()}", "--surface", "posts", "--reason", "a test", "--json")
    report = operator.run(*typed).json()
    assert (report["kind"], report["reason"], report["outcomes"]["complete"]) == ("backfill", "a test", 1)
    assert {request.surface for request in service.requests} == {"posts"}
    assert operator.ask("SELECT kind, reason FROM runs ORDER BY started_at DESC LIMIT 1") == [("backfill", "a test")]

    refused = operator.run("backfill", "--account", "nobody", code=2)
    assert "There is no account 'nobody' in the warehouse" in refused.stderr
    assert "Nothing to backfill: no unfinished scans." in operator.run("backfill", "--failed").stdout
    assert len(operator.ask("SELECT * FROM runs")) == 2
