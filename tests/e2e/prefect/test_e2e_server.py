"""On a Prefect server of its own: deployments/prefect.yaml with a worker, and the notifications of automations.yaml."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, ROOT, TIMEOUT, Operator, killed_on_exit, wait_until
from tests.prefect_api import ask, prefect_server

pytestmark = [pytest.mark.e2e, pytest.mark.prefect, pytest.mark.long]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of a Prefect server."""
    return tmp_path_factory.mktemp("prefect") / "home"


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[str]:
    """The API of a Prefect server that runs for all tests of a module."""
    with prefect_server(home) as api:
        yield api


@pytest.fixture
def python(operator: Operator, api: str) -> Callable[..., str]:
    """Runs Python in the operator's folder, as a user of that server; returns what it wrote."""
    # PWD is the shell's, from which Prefect takes the folder.
    own = {"PREFECT_HOME": str(operator.folder / "prefect"), "PWD": str(operator.folder)}
    operator.env |= {"PREFECT_API_URL": api, "DO_NOT_TRACK": "1", **own}

    def run(*arguments: str) -> str:
        env = {"PYTHONPATH": str(ROOT), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        with killed_on_exit(operator.start_python(*arguments, env=env)) as process:
            out, err = process.communicate(timeout=2 * TIMEOUT)
        assert process.returncode == 0, out + err
        return out

    return run


def test_a_deployed_run_is_executed_by_the_pools_worker(
    api: str, home: Path, operator: Operator, python: Callable[..., str], service: Api
) -> None:
    ask(api, "work_pools/", {"name": "gramhouse", "type": "process"})
    python("-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")

    deployed = {one["name"]: one for one in ask(api, "deployments/filter")}
    assert deployed.keys() == {"nightly", "due", "backfill", "publish"}
    for one in deployed.values():
        assert (one["work_pool_name"], one["pull_steps"]) == ("gramhouse", [])
        assert bool(one["concurrency_options"]) == bool(one["schedules"])
        assert one["job_variables"]["working_dir"] == str(operator.folder)
    operator.sync()
    service.day = 1
    # Both runs are due at the same time: one waits for the other's lock.
    asked = [ask(api, f"deployments/{deployed[name]['id']}/create_flow_run") for name in ("nightly", "publish")]
    log = python("-m", "prefect", "worker", "start", "--pool", "gramhouse", "--run-once")
    runs = {one["id"]: one["state"] for one in ask(api, "flow_runs/filter")}
    for run in asked:
        assert runs[run["id"]]["type"] == "COMPLETED", f"{runs[run['id']]}\n{log}"
    assert_matches_api(operator.ask, service)
    files = [path for path in [*home.rglob("*"), *(operator.folder / "prefect").rglob("*")] if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in log


MAKE_BLOCK_AND_ALERTS = """
import asyncio, sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from flows.orchestration.serving import create_alerts

async def main():
    ops = {"name": "ops", "url": sys.argv[1], "json_data": {"subject": "{{subject}}", "body": "{{body}}"}}
    await CustomWebhookNotificationBlock(**ops).save("ops")
    async with get_client() as client:
        print(*await create_alerts(client, ["custom-webhook/ops"]), sep="\\n")

asyncio.run(main())
"""


def test_newly_expired_tokens_reach_a_webhook_by_name(operator: Operator, api: str, python: Callable[..., str]) -> None:
    told: list[dict[str, str]] = []

    async def webhook(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await Request(scope, receive).json())
        await Response(status_code=204)(scope, receive, send)

    settings = SandboxSettings(accounts=60, posts=2, stories=1, seed=11)
    served = Api(settings).serve()
    with in_thread(webhook) as url, served as service:  # type: ignore[arg-type] # any ASGI application
        operator.env["GRAMHOUSE_BASE_URL"] = service.url
        created = python("-c", MAKE_BLOCK_AND_ALERTS, url).splitlines()
        assert sorted(created) == sorted(each["name"] for each in ask(api, "automations/filter"))
        expired = {each["ig_username"] for each in service.list_accounts() if each["status"] == "token_expired"}
        assert expired
        operator.run("sync")
        wait_until(lambda: bool(told), "the webhook")
        # Reported tokens are not reported again; a failed run is reported.
        operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong")
        wait_until(lambda: len(told) > 1, "the webhook")
    begun = f"gramhouse on {gethostname()}: "
    assert [each["subject"] for each in told] == [f"{begun}tokens newly expired", f"{begun}a run failed"]
    assert f"{api.removesuffix('/api')}/runs/flow-run/" in told[0]["body"]
    assert all(name in told[0]["body"] for name in expired)
    assert "check the API key" in told[1]["body"]
    assert KEY not in json.dumps(told)
    artifacts = ask(api, "artifacts/filter", {"sort": "CREATED_DESC"})
    _, page, *_ = (found["data"] for found in artifacts if found["key"] == "gramhouse-run")
    assert all(name in page for name in expired)
