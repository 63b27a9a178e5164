"""The automation files: complete, consistent with the emitted events, and referring to blocks."""

import asyncio
import runpy
from datetime import timedelta
from pathlib import Path
from socket import gethostname
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import load
from flows.orchestration import serving
from flows.orchestration.flow_run import check_tracker
from flows.orchestration.processes import local_prefect
from flows.orchestration.serving import WATCH_BEGAN, create_alerts, deployments, read_described
from flows.publish import publish
from flows.reporting.message import failure_event, list_events
from models.runs import RunState
from tests.flows.reports import fields, report, stale, tokens
from tests.http_server import http_server, send

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

AGAIN = "a crashed run is started again"
SILENT = "a run without a heartbeat"
BLOCK = UUID(int=1)
ON_CALL = "slack-webhook/on-call"
DESCRIBED = read_described("automations.yaml")
DATA = {"expired": tokens("anna"), "new_fields": fields("/mood"), **stale("ben")}
TOLD = {
    event["event"]: event
    for state in (RunState.COMPLETE, RunState.PARTIAL, RunState.FAILED)
    for event in list_events(report(DATA, state=state))
}
AUTOMATIONS: dict[str, dict[str, Any]] = {each["name"].removeprefix("gramhouse: "): each for each in DESCRIBED}


def _trigger(name: str) -> EventTrigger:
    built = AutomationCore.model_validate(AUTOMATIONS[name]).trigger
    assert isinstance(built, EventTrigger)
    return built


def test_automations_match_the_events_that_runs_emit() -> None:
    expected = {name for each in DESCRIBED for name in each["trigger"]["expect"]}
    assert expected & TOLD.keys() == {
        f"gramhouse.{name}" for name in ("tokens", "run.failed", "run.partial", "stale", "drift")
    }
    for each in DESCRIBED:
        for name in TOLD.keys() & set(each["trigger"]["expect"]):
            wanted = each["trigger"].get("match", {}).items()
            assert all(TOLD[name]["resource"][label] in (value, *value) for label, value in wanted)
    assert failure_event("no")["event"] == "gramhouse.run.failed"
    assert "match" not in AUTOMATIONS["a run failed"]["trigger"]
    # A missing run is counted from the last end of one: an event only in one of them would not restart the wait.
    missing = _trigger("no run has ended for 26 hours")
    assert (missing.posture, missing.within) == (Posture.Proactive, timedelta(hours=26))
    assert missing.after == missing.expect == {"gramhouse.run.*", WATCH_BEGAN}
    assert TOLD["gramhouse.run.partial"]["resource"]["gramhouse.scope"] == "everything"


def test_dbt_is_started_by_the_events_of_runs_that_have_published() -> None:
    recipe = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "dbt" / "after_publish.py"))
    of_runs, of_publishing = recipe["TRIGGERS"]
    assert of_runs.expect == {"gramhouse.run.complete", "gramhouse.run.partial"} <= TOLD.keys()
    assert all("prefect.resource.name" in TOLD[name]["resource"] for name in of_runs.expect)
    assert of_publishing.match_related["prefect.resource.name"] == [publish.name]


@pytest.mark.anyio
async def test_a_killed_run_of_a_deployment_is_noticed_after_six_heartbeats_and_not_started_for_ever(
    tmp_path: Path,
) -> None:
    served = await deployments(load())
    for name in ("a run crashed", AGAIN, SILENT):
        related = AUTOMATIONS[name]["trigger"]["match_related"]
        flows, *others = related if isinstance(related, list) else [related]
        assert flows["prefect.resource.role"] == "flow"
        assert set(flows["prefect.resource.name"]) == {each.flow_name for each in served}
        assert [each["prefect.resource.name"] for each in others] == [[each.name for each in served]] * (name == AGAIN)
    interval = float(local_prefect(tmp_path, 1)["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
    silent, again = _trigger(SILENT), _trigger(AGAIN)
    # A run that waits for a retry emits no heartbeat, but other events.
    assert (silent.within, silent.expect) == (timedelta(seconds=6 * interval), {"prefect.flow-run.*"})
    assert again.match["prefect.run-count"] == ["0", "1", "2", "3"]
    # A second crash within that time is not counted, so it starts nothing.
    assert (again.for_each, again.within) == ({"prefect.resource.id"}, timedelta(minutes=10))


class Server:
    """A Prefect server's automations and blocks."""

    def __init__(self) -> None:
        self.kept: list[Automation] = []
        self.blocks = {"slack-webhook/on-call": ["notify"], "secret/key": []}

    async def read_block_document_by_name(self, name: str, slug: str, *, include_secrets: bool) -> SimpleNamespace:
        assert not include_secrets
        if f"{slug}/{name}" not in self.blocks:
            raise ObjectNotFound(httpx.HTTPError("404"))
        return SimpleNamespace(id=BLOCK, block_schema=SimpleNamespace(capabilities=self.blocks[f"{slug}/{name}"]))

    async def read_automations_by_name(self, name: str) -> list[Automation]:
        return [each for each in self.kept if each.name == name]

    async def create_automation(self, automation: AutomationCore) -> None:
        self.kept.append(Automation(id=uuid4(), **automation.model_dump()))

    async def create(self, *notify: str) -> list[str]:
        return await create_alerts(cast("PrefectClient", self), notify)


@pytest.mark.anyio
async def test_only_what_is_missing_is_created_and_what_the_operator_changed_is_never_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emitted, server = Mock(), Server()
    monkeypatch.setattr(serving, "emit_event", emitted)
    unattended = [f"gramhouse: {name}" for name in (AGAIN, SILENT)]
    assert await server.create() == unattended
    mine = server.kept[0] = server.kept[0].model_copy(update={"enabled": False, "description": "mine"})
    every = [each["name"] for each in DESCRIBED]
    assert await server.create(ON_CALL, ON_CALL) == [name for name in every if name not in unattended]
    assert await server.create(ON_CALL) == await server.create() == []
    assert server.kept[0] == mine
    assert sorted(each.name for each in server.kept) == sorted(every)
    assert all(len(each.actions) == 1 for each in server.kept)
    # The wait for a missing run begins with its automation, and is not restarted.
    assert [call.kwargs["event"] for call in emitted.call_args_list] == [WATCH_BEGAN] * 2
    # Each alert names the machine, and links the run if there is one.
    sent = [each for one in server.kept for each in one.actions if isinstance(each, SendNotification)]
    assert all(each.block_document_id == BLOCK for each in sent)
    titles = {each.subject.removeprefix(f"gramhouse on {gethostname()}: "): each.body for each in sent}
    assert set(titles) <= set(AUTOMATIONS)
    assert [title for title, body in titles.items() if "flow_run|ui_url" not in body] == [
        "no run has ended for 26 hours"
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("block", ["slack-webhook/x", "secret/key"])
async def test_a_block_that_cannot_be_notified_is_reported_and_nothing_is_created(block: str) -> None:
    server = Server()
    with pytest.raises(SettingsError, match=f"^GRAMHOUSE_NOTIFY: there is no block '{block}' that can send notific"):
        await server.create(ON_CALL, block)
    assert server.kept == []


def test_a_service_that_is_not_prefects_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(lambda request: send(request, 200, b"<html>")) as address:
        url = f"{address}/api"
        monkeypatch.setenv("PREFECT_API_URL", url)
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(TrackerUnreachable) as refused:
            asyncio.run(check_tracker())
    assert str(refused.value).startswith(f"{url} does not answer as the API of a Prefect server of this version (")
