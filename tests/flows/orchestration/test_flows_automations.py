"""The automation files: complete, consistent with the emitted events, and referring to blocks."""

import asyncio
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import load
from flows.orchestration import automations
from flows.orchestration.automations import WATCH_BEGAN, addressed, apply, described
from flows.orchestration.flow_run import check_tracker
from flows.orchestration.processes import local_prefect
from flows.orchestration.serving import deployments
from flows.publish import publish
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.for_prefect import DRIFT, FAILED, STALE, TOKENS, events, failure_event
from tests.flows.reports import fields, report, stale, tokens
from tests.http_server import http_server, send

PARTIAL = "gramhouse.run.partial"
AGAIN = "a crashed run is started again"
SILENT = "a run without a heartbeat"
UNATTENDED = [f"gramhouse: {name}" for name in (AGAIN, SILENT)]
BLOCKS = (UUID(int=1), UUID(int=2))
TOLD = {
    event.name: event
    for state in EXIT_OF
    for event in events(report({"expired": tokens("anna"), "new_fields": fields("/mood"), **stale("ben")}, state=state))
}


def _by_name() -> dict[str, dict[str, Any]]:
    return {automation["name"].removeprefix("gramhouse: "): automation for automation in described()}


def _trigger(automation: dict[str, Any]) -> EventTrigger:
    built = addressed(automation, BLOCKS)
    assert built is not None
    assert isinstance(built.trigger, EventTrigger)
    return built.trigger


def test_automations_match_the_events_that_runs_emit() -> None:
    awaited = {
        name: event
        for automation in described()
        for name in automation["trigger"]["expect"]
        if (event := TOLD.get(name))
    }
    assert set(awaited) == {TOKENS, FAILED, PARTIAL, STALE, DRIFT}
    for automation in described():
        for name in automation["trigger"]["expect"]:
            if name in awaited:
                for label, value in automation["trigger"].get("match", {}).items():
                    assert awaited[name].labels[label] == value
    assert failure_event("no").name == FAILED
    assert "match" not in _by_name()["a run failed"]["trigger"]


def test_dbt_is_started_by_the_events_of_runs_that_have_published() -> None:
    recipe = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "dbt" / "after_publish.py"))
    of_runs, of_publishing = recipe["TRIGGERS"]
    assert of_runs.expect == {"gramhouse.run.complete", PARTIAL} <= TOLD.keys()
    assert "prefect.resource.name" in TOLD[PARTIAL].labels
    assert of_publishing.match_related["prefect.resource.name"] == [publish.name]


def test_a_missing_run_is_counted_from_the_last_end_of_one() -> None:
    trigger = _trigger(_by_name()["no run has ended for 26 hours"])
    assert (trigger.posture, trigger.within) == (Posture.Proactive, timedelta(hours=26))
    # If an event were only in one of them, it would not restart the wait.
    assert trigger.after == trigger.expect == {"gramhouse.run.*", WATCH_BEGAN}
    assert TOLD[PARTIAL].labels["gramhouse.scope"] == "everything"


def _flows(automation: dict[str, Any]) -> set[str]:
    related = automation["trigger"]["match_related"]
    first = related[0] if isinstance(related, list) else related
    assert first["prefect.resource.role"] == "flow"
    return set(first["prefect.resource.name"])


@pytest.mark.anyio
async def test_runs_are_known_by_the_names_of_our_flows_and_deployments() -> None:
    served = await deployments(load())
    for name in ("a run crashed", AGAIN, SILENT):
        assert _flows(_by_name()[name]) == {each.flow_name for each in served}
    _, deployment = _by_name()[AGAIN]["trigger"]["match_related"]
    assert deployment["prefect.resource.name"] == [each.name for each in served]


def test_a_run_is_not_started_again_for_ever() -> None:
    trigger = _trigger(_by_name()[AGAIN])
    assert trigger.match["prefect.run-count"] == ["0", "1", "2", "3"]
    # A second crash within that time is not counted, so it starts nothing.
    assert (trigger.for_each, trigger.within) == ({"prefect.resource.id"}, timedelta(minutes=10))
    [action] = _by_name()[AGAIN]["actions"]
    assert (action["type"], action["state"]) == ("change-flow-run-state", "SCHEDULED")


def test_a_run_that_waits_for_a_retry_is_not_reported_as_crashed() -> None:
    assert _trigger(_by_name()[SILENT]).expect == {"prefect.flow-run.*", "gramhouse.flow-run.left"}


def test_no_run_is_declared_dead_between_two_heartbeats(tmp_path: Path) -> None:
    interval = float(local_prefect(tmp_path, 1)["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
    assert _trigger(_by_name()[SILENT]).within == timedelta(seconds=6 * interval)


def test_notifying_automations_use_every_block_and_need_at_least_one() -> None:
    for automation in described():
        built = addressed(automation, BLOCKS)
        assert built is not None
        if automation["actions"][0]["type"] == "send-notification":
            assert [action.block_document_id for action in built.actions if isinstance(action, SendNotification)] == [
                *BLOCKS
            ]
            assert addressed(automation, ()) is None
        else:
            [action] = built.actions
            assert isinstance(action, ChangeFlowRunState)
            assert addressed(automation, ()) == built
    unattended = [automation["name"] for automation in described() if addressed(automation, ())]
    assert unattended == UNATTENDED


class Server:
    """A Prefect server's automations and blocks, and the names of the events it was sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[Automation] = []
        self.emitted: list[str] = []
        self.blocks = {"slack-webhook/on-call": ["notify"], "secret/key": []}
        monkeypatch.setattr(automations, "get_client", self._client)
        monkeypatch.setattr(automations, "emit_event", lambda *, event, **_: self.emitted.append(event))

    @asynccontextmanager
    async def _client(self) -> AsyncIterator["Server"]:
        yield self

    async def read_block_document_by_name(self, name: str, slug: str, *, include_secrets: bool) -> SimpleNamespace:
        assert not include_secrets
        if f"{slug}/{name}" not in self.blocks:
            raise ObjectNotFound(httpx.HTTPError("404"))
        return SimpleNamespace(id=BLOCKS[0], block_schema=SimpleNamespace(capabilities=self.blocks[f"{slug}/{name}"]))

    async def read_automations_by_name(self, name: str) -> list[Automation]:
        return [each for each in self.kept if each.name == name]

    async def create_automation(self, automation: AutomationCore) -> None:
        self.kept.append(Automation(id=uuid4(), **automation.model_dump()))

    async def delete_automation(self, automation_id: UUID) -> None:
        self.kept = [each for each in self.kept if each.id != automation_id]

    def change(self, name: str, **changes: object) -> None:
        self.kept = [each.model_copy(update=changes) if each.name == name else each for each in self.kept]

    @property
    def names(self) -> list[str]:
        return sorted(each.name for each in self.kept)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


ALL = sorted(automation["name"] for automation in described())
FAILED_RUN = "gramhouse: a run failed"


@pytest.mark.anyio
async def test_applying_again_changes_nothing_and_restarts_no_wait(server: Server) -> None:
    settings = load(notify=("slack-webhook/on-call", "slack-webhook/on-call"))
    assert sorted(await apply(settings)) == sorted(f"{name}: created" for name in ALL)
    assert all(len(each.actions) == 1 for each in server.kept)
    assert server.emitted == [WATCH_BEGAN]
    kept = list(server.kept)
    assert await apply(settings) == []
    assert server.kept == kept
    assert server.emitted == [WATCH_BEGAN]


@pytest.mark.anyio
async def test_a_disabled_automation_stays_disabled_and_an_edited_one_is_restored(server: Server) -> None:
    settings = load(notify=("slack-webhook/on-call",))
    await apply(settings)
    server.change(FAILED_RUN, enabled=False)
    assert await apply(settings) == []
    server.change(FAILED_RUN, description="mine")
    assert await apply(settings) == [f"{FAILED_RUN}: updated"]
    [kept] = await server.read_automations_by_name(FAILED_RUN)
    assert (kept.enabled, kept.description) == (False, "Nothing could be scanned, or a run ended without a report.")


@pytest.mark.anyio
async def test_without_a_block_only_automations_without_notifications_are_kept(server: Server) -> None:
    assert await apply(load()) == [f"{name}: created" for name in UNATTENDED]
    assert server.emitted == []
    await apply(load(notify=("slack-webhook/on-call",)))
    assert server.names == ALL
    assert len(await apply(load())) == 7
    assert server.names == sorted(UNATTENDED)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("block", "text"),
    [
        ("on-call", "'on-call' is not a block. Fix: write its type and name, such as slack-webhook/on-call."),
        (
            "slack-webhook/x",
            "there is no block slack-webhook/x. Fix: create it in the Prefect UI (Blocks), or with `prefect block",
        ),
        ("secret/key", "secret/key cannot send notifications. Fix: use a block of a type such as slack-webhook."),
    ],
)
async def test_a_block_that_cannot_be_notified_is_reported_and_changes_nothing(
    server: Server, block: str, text: str
) -> None:
    await apply(load(notify=("slack-webhook/on-call",)))
    with pytest.raises(SettingsError) as refused:
        await apply(load(notify=("slack-webhook/on-call", block)))
    assert str(refused.value).startswith(f"GRAMHOUSE_NOTIFY: {text}")
    assert server.names == ALL


@pytest.mark.parametrize("answer", [b'{"items": [], "next_cursor": null}', b"<html>"])
def test_a_service_that_is_not_prefects_is_recognized(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    with http_server(lambda request: send(request, 200, answer)) as address:
        url = f"{address}/api"
        monkeypatch.setenv("PREFECT_API_URL", url)
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(TrackerUnreachable) as refused:
            asyncio.run(check_tracker())
    what = "does not answer" if answer == b"<html>" else "is not the API of a Prefect server of this version"
    assert str(refused.value).startswith(f"{url} {what}. Fix: start the server")
