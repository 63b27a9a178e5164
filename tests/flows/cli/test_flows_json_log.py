"""`--log-format json`: each line of standard error is a JSON object."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import Action, Rule
from tests.api.server import Api

ROOT = Path(__file__).parents[3]
FIELDS = {"time", "level", "message", "run", "account", "partition", "code", "correlation_id"}
FAULTS = (
    Rule(Action("error", code="api_internal_error"), surface="posts", times=1),
    Rule(Action("error", code="api_forbidden"), surface="stories", times=1),
    Rule(Action("error", code="rate_limited", retry_after=9000), surface="posts", nth=2),
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with in_thread(Api(SandboxSettings(accounts=2, posts=60, seed=11), FAULTS)) as url:
        yield url


def run_cli(*arguments: str, code: int, **environment: str) -> list[dict[str, Any]]:
    """Run a command as a process; return the JSON objects on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == code, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(line.keys() >= FIELDS for line in lines)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    return lines


def test_a_sync_logs_its_run_and_the_context_of_each_error(address: str) -> None:
    environment = {"GRAMHOUSE_BASE_URL": address, "GRAMHOUSE_API_KEY": "sandbox-demo-key"}
    lines = run_cli("sync", "--log-format", "json", "--json", code=3, **environment)
    begun, *_, ended = lines
    assert "gramhouse sync of http://127.0.0.1" in begun["message"]
    assert (ended["level"], ended["run"] is not None) == ("warning", True)
    failure_groups = [line for line in lines if line["account"] is not None]
    assert {line["run"] for line in failure_groups} == {ended["run"]}
    found = {line["code"]: line for line in failure_groups}
    assert found.keys() == {"api_internal_error", "api_forbidden", "rate_limited"}
    for code, line in found.items():
        assert line["username"]
        assert len(line["correlation_id"]) == 26
        surface = "stories" if code == "api_forbidden" else "posts"
        assert line["partition"] == f"{surface} of account {line['account']}"
    retried, denied, deferred = (found[code] for code in ("api_internal_error", "api_forbidden", "rate_limited"))
    assert f"({retried['username']})" in retried["message"]
    # Drawn between nothing and the longest delay, and rounded.
    assert retried["retry_in"] >= 0
    assert (denied["level"], denied["http_status"]) == ("warning", 403)
    assert deferred["resume_after"]
    assert "cooldown until" in deferred["message"]


@pytest.mark.parametrize(
    ("arguments", "code"), [("sync --nonsense --log-format json", 2), ("publish --log-format=json", 1)]
)
def test_a_refusal_is_a_line_of_the_log(arguments: str, code: int) -> None:
    [line] = run_cli(*arguments.split(), code=code, GRAMHOUSE_WAREHOUSE="/dev/null")
    assert line["level"] == "error"


def test_prefect_leaves_the_lines_of_a_command(address: str) -> None:
    nowhere = {"PREFECT_API_URL": "http://127.0.0.1:9/api", "GRAMHOUSE_BASE_URL": address, "GRAMHOUSE_API_KEY": "key"}
    lines = run_cli("sync", "--log-format", "json", code=1, **nowhere)
    assert [line["level"] for line in lines] == ["info", "error"]
    assert "does not answer as the API of a Prefect server" in lines[1]["message"]
