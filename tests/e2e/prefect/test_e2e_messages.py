"""Notifications: a run's events reach a local webhook through the automations of deployments/automations.yaml."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socket import gethostname

import pytest

from tests.api.server import Api
from tests.http_server import http_server, send
from tests.operator import KEY, Operator, wait_until
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

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


@pytest.fixture
def service(serve: Callable[..., Api]) -> Api:
    return serve(accounts=60, posts=2, stories=1, seed=11)


@pytest.mark.long
def test_newly_expired_tokens_reach_a_webhook_by_name(
    operator: Operator, service: Api, api: str, python: Callable[..., str]
) -> None:
    result: list[dict[str, str]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        result.append(json.loads(request.rfile.read(int(request.headers["content-length"]))))
        send(request, 204)

    with http_server(answer) as url:
        created = python("-c", MAKE_BLOCK_AND_ALERTS, url).splitlines()
        assert sorted(created) == sorted(each["name"] for each in ask(api, "automations/filter"))
        expired = {each["ig_username"] for each in service.list_accounts() if each["status"] == "token_expired"}
        assert expired
        operator.run("sync")
        wait_until(lambda: bool(result), "the webhook")
        [message] = result
        assert message["subject"] == f"gramhouse on {gethostname()}: tokens newly expired"
        assert f"{api.removesuffix('/api')}/runs/flow-run/" in message["body"]
        assert all(name in message["body"] for name in expired)

        # Reported tokens are not reported again; a failed run is reported.
        operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong")
        wait_until(lambda: len(result) > 1, "the webhook")
        assert [each["subject"] for each in result[1:]] == [f"gramhouse on {gethostname()}: a run failed"]
        assert "check the API key" in result[1]["body"]
        assert KEY not in json.dumps(result)

        artifacts = ask(api, "artifacts/filter", {"sort": "CREATED_DESC"})
        _, page = (found["data"] for found in artifacts if found["key"] == "gramhouse-run")
        assert all(name in page for name in expired)
