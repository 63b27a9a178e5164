"""What runs under Prefect: the start of `up`, its settings and alerts, and the end of flow runs.

tests/e2e/prefect shows them on a Prefect server.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock
from uuid import UUID, uuid4

import httpx
import pytest
from prefect import Flow
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, Settings, temporary_settings
from pydantic import SecretStr
from starlette.responses import Response

from connectors.sandbox.http.serve import in_thread
from connectors.warehouse.storage.holder import hold
from flows.backfill import backfill
from flows.cli.commands.serving import describe_environment
from flows.config.environment import HISTORY
from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.options import BackfillOptions, ExpertOptions, SyncOptions
from flows.config.setting_types import fires
from flows.config.settings import load
from flows.orchestration import flow_run, serving
from flows.orchestration.credentials import ApiCredentials, load_with_credentials
from flows.orchestration.flow_run import announce, check_tracker, end_in_state, track
from flows.orchestration.processes import local_prefect
from flows.orchestration.serving import WATCH_BEGAN, create_alerts, deployments, read_described
from flows.publish import PublishOptions, publish
from flows.reporting.message import failure_event, list_events
from models.files import OtherService, WarehouseBusy
from models.runs import RunState
from models.selection import NothingChosen
from tests.api.listed import ListedApi
from tests.flows.reports import fields, report, stale, tokens
from tests.operator import Cli
from tests.prefect_api import free_port
from tests.runs import synced

pytestmark = pytest.mark.anyio


def refused(run_cli: Cli, *arguments: str, code: int = 2) -> str:
    """Return the line with which `gramhouse up` ends."""
    found, out, err = run_cli("up", *arguments)
    [line] = err.splitlines()
    assert (found, out) == (code, "")
    return line


def test_up_says_in_one_line_why_it_does_not_start(monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> None:
    for name, value in (("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9"), ("GRAMHOUSE_API_KEY", "a-key")):
        assert f"set {name}" in refused(run_cli)
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        message = refused(run_cli, "--port", port)
    assert f"Port {port} is in use. Fix: choose another port with --port" in message
    home = load().prefect_home
    assert home.stat().st_mode & 0o777 == 0o700, "it has secrets, and the key to them"
    what, since = "gramhouse up at http://127.0.0.1:4200", "2026-03-01T02:00:00+00:00"
    with hold(home / "up", what, since=since, pause=lambda _: None):
        assert f"{what} (process {os.getpid()}, since {since})" in refused(run_cli, code=4)
    for number in (signal.SIGINT, signal.SIGTERM):
        stop = Mock(side_effect=lambda _, number=number: os.kill(os.getpid(), number))
        monkeypatch.setattr("flows.cli.commands.serving._check_key", stop)
        assert refused(run_cli, "--port", str(free_port()), code=0).endswith("Stopped.")


def test_runs_of_up_wait_six_hours_for_the_lock_unless_set_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_environment(load(), None)["GRAMHOUSE_BUSY_WAIT"] == str(6 * 3600)
    monkeypatch.setenv("GRAMHOUSE_BUSY_WAIT", "0")
    assert "GRAMHOUSE_BUSY_WAIT" not in describe_environment(load(), None)


def test_log_lines_of_runs_are_objects_if_wanted() -> None:
    # As Prefect does in the process of a flow run.
    program = """
from prefect.logging.configuration import setup_logging
from prefect.logging.loggers import get_logger
setup_logging()
get_logger("flow_runs").warning("a line")
"""
    env = {**os.environ, **describe_environment(load(), None, as_json=True)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True, text=True)
    # Prefect says that there is no server, too.
    [line] = [line for line in done.stderr.splitlines() if "a line" in line]
    assert (json.loads(line)["msg"], json.loads(line)["levelname"]) == ("a line", "WARNING")


@pytest.mark.parametrize("expression", ["15 2 * * *", "0 3 * * MON-FRI"])
@pytest.mark.parametrize("begin", [datetime(2026, 3, 28, 1, tzinfo=UTC), datetime(2026, 10, 24, 1, tzinfo=UTC)])
async def test_our_times_equal_those_of_prefect_except_in_a_skipped_hour(expression: str, begin: datetime) -> None:
    theirs = await CronSchedule(cron=expression, timezone="Europe/Berlin").get_dates(8, begin)
    ours = islice(fires(expression, "Europe/Berlin", begin), 8)
    apart = [abs(at.timestamp() - other.timestamp()) for at, other in zip(ours, theirs, strict=True)]
    assert max(apart) <= 3600
    assert sum(map(bool, apart)) <= 1


def test_prefect_accepts_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    env = {**HISTORY, **local_prefect(tmp_path, 4321)}
    assert (env["PREFECT_SERVER_ANALYTICS_ENABLED"], env["DO_NOT_TRACK"]) == ("false", "1")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    prefect, month = Settings(), timedelta(days=30)
    events, vacuum = prefect.server.events, prefect.server.services.db_vacuum
    assert (prefect.home, prefect.server.ephemeral.enabled) == (tmp_path, False)
    assert prefect.server.ui.api_url == prefect.api.url == "http://127.0.0.1:4321/api"
    assert (events.retention_period, vacuum.retention_period) == (month, month)
    assert vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}


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
    told = ("tokens", "run.failed", "run.partial", "stale", "drift")
    assert expected & TOLD.keys() == {f"gramhouse.{name}" for name in told}
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


async def test_a_killed_run_is_noticed_after_six_heartbeats_and_not_started_for_ever(tmp_path: Path) -> None:
    served = await deployments(load())
    for name in ("a run crashed", AGAIN, SILENT):
        related = AUTOMATIONS[name]["trigger"]["match_related"]
        flow, *others = related if isinstance(related, list) else [related]
        assert (flow["prefect.resource.role"], set(flow["prefect.resource.name"])) == (
            *("flow", {each.flow_name for each in served}),
        )
        assert [each["prefect.resource.name"] for each in others] == [[each.name for each in served]] * (name == AGAIN)
    interval = float(local_prefect(tmp_path, 1)["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
    silent, again = _trigger(SILENT), _trigger(AGAIN)
    # A run that waits for a retry emits no heartbeat, but other events.
    assert (silent.within, silent.expect) == (timedelta(seconds=6 * interval), {"prefect.flow-run.*"})
    # A second crash within that time is not counted, so it starts nothing.
    assert (again.for_each, again.within) == ({"prefect.resource.id"}, timedelta(minutes=10))
    assert again.match["prefect.run-count"] == ["0", "1", "2", "3"]


class Server:
    """A Prefect server's automations and blocks."""

    def __init__(self) -> None:
        self.kept: list[Automation] = []

    async def read_block_document_by_name(self, name: str, slug: str, *, include_secrets: bool) -> SimpleNamespace:
        blocks = {ON_CALL: ["notify"], "secret/key": []}
        if include_secrets or f"{slug}/{name}" not in blocks:
            raise ObjectNotFound(httpx.HTTPError("404"))
        return SimpleNamespace(id=BLOCK, block_schema=SimpleNamespace(capabilities=blocks[f"{slug}/{name}"]))

    async def read_automations_by_name(self, name: str) -> list[Automation]:
        return [each for each in self.kept if each.name == name]

    async def create_automation(self, automation: AutomationCore) -> None:
        self.kept.append(Automation(id=uuid4(), **automation.model_dump()))

    async def create(self, *notify: str) -> list[str]:
        return await create_alerts(cast("Any", self), notify)


async def test_only_what_is_missing_is_created_and_changes_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    emitted, server = Mock(), Server()
    monkeypatch.setattr(serving, "emit_event", emitted)
    for block in ("slack-webhook/x", "secret/key"):
        refused = f"^GRAMHOUSE_NOTIFY: there is no block '{block}' that can send notific"
        with pytest.raises(SettingsError, match=refused):
            await server.create(ON_CALL, block)
    assert server.kept == []
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
    titles = {each.subject.removeprefix(f"gramhouse on {socket.gethostname()}: "): each.body for each in sent}
    assert set(titles) <= set(AUTOMATIONS)
    assert [each for each, body in titles.items() if "flow_run|ui_url" not in body] == ["no run has ended for 26 hours"]


async def test_a_service_that_is_not_prefects_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_thread(Response("<html>")) as address:  # type: ignore[arg-type] # any ASGI application
        url = f"{address}/api"
        monkeypatch.setenv("PREFECT_API_URL", url)
        refused = f"^{url} does not answer as the API of a Prefect server of this version \\("
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(TrackerUnreachable, match=refused):
            await check_tracker()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Called with the events that are sent to Prefect."""
    emit = Mock()
    monkeypatch.setattr(flow_run, "emit_event", emit)
    return emit


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (NothingChosen("Nothing to backfill."), "COMPLETED", "Nothing to backfill."),
        (WarehouseBusy("it is held"), "CANCELLED", "it is held"),
        (OtherService("another address"), "FAILED", "another address"),
        (OSError(28, "No space left", "x"), "FAILED", "x: No space left. Fix: check path, permissions and disk."),
    ],
)
async def test_an_error_that_a_user_can_fix_is_a_state(told: Mock, error: Exception, state: str, message: str) -> None:
    found: Any = await end_in_state(AsyncMock(side_effect=error)())
    assert (found.type.value, found.name, found.message) == (state, state.capitalize(), message)
    assert told.call_count == (state == "FAILED")


async def test_another_error_is_raised_and_none_of_prefect_fails_a_run(
    told: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(flow_run, "acreate_markdown_artifact", AsyncMock(side_effect=ConnectionError("away")))
    # Outside of a flow run nothing can be logged there: only a retry is, because Prefect logs the message of the end.
    await announce(await synced(tmp_path, ListedApi(expired=frozenset({1}))))
    told.side_effect = TimeoutError
    with pytest.raises(KeyError):
        await end_in_state(AsyncMock(side_effect=KeyError("x"))())
    # The events are sent before the page, which fails.
    events = [call.kwargs["event"] for call in told.call_args_list]
    assert events == ["gramhouse.run.complete", "gramhouse.tokens", "gramhouse.run.failed"]
    lost = ("the run's page (away)", "the failure event (TimeoutError)")
    assert said == [f"Prefect did not receive {what}; the run is recorded in the warehouse." for what in lost]


async def test_publish_and_the_plan_of_a_backfill_say_what_they_did(told: Mock, tmp_path: Path) -> None:
    places: dict[str, Any] = {"warehouse": f"{tmp_path}/warehouse.duckdb", "snapshot": f"{tmp_path}/analytics.duckdb"}

    async def message(made: Any) -> str:  # noqa: ANN401 - a flow's coroutine
        state = await made
        return f"{state.type.value} {state.message}"

    await synced(tmp_path, ListedApi())
    assert (await message(publish.fn(PublishOptions(**places)))).startswith("COMPLETED Published ")
    options = BackfillOptions(everything=True, dry_run=True, expert=ExpertOptions(**places))
    assert (await message(backfill.fn(options))).startswith("COMPLETED 6 scans ")
    nobody = options.model_copy(update={"accounts": ["nobody"], "everything": False})
    assert (await message(backfill.fn(nobody))).startswith("FAILED There is no account 'nobody' in the warehouse")
    assert (await message(publish.fn())).startswith("FAILED There is no warehouse at data/warehouse.duckdb yet. Fix: ")
    assert told.call_count == 2


KEYS = {"production": "canary-77f0", "damaged": "two words"}


async def test_address_and_key_may_be_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load_block(name: str) -> ApiCredentials:
        if name not in KEYS:
            raise ValueError(f"Unable to find block document named {name}")
        return ApiCredentials(base_url="http://localhost:9", api_key=SecretStr(KEYS[name]))

    monkeypatch.setattr(ApiCredentials, "aload", load_block)
    settings = await load_with_credentials({"credentials": "gramhouse-api-credentials/production"})
    assert (settings.address(), settings.key().get_secret_value()) == ("http://localhost:9", KEYS["production"])
    for name, why in (("damaged", "the API key is empty or contains"), ("absent", "Unable to find block document")):
        of_block = f"the block '{name}' of the type gramhouse-api-credentials cannot be used"
        with pytest.raises(SettingsError, match=f"^GRAMHOUSE_CREDENTIALS: {of_block}: {why}") as refused:
            await load_with_credentials({"credentials": name})
        assert KEYS["damaged"] not in str(refused.value)


async def test_a_lost_server_loses_nothing(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(flow: Flow[..., Any], options: object, **_: object) -> None:
        await flow.fn(options)
        raise ConnectionError("the server is gone")

    for name in ("check_tracker", "announce"):
        monkeypatch.setattr(flow_run, name, AsyncMock())
    monkeypatch.setattr(Flow, "__call__", lose)
    assert (await track(SyncOptions(), lambda: synced(tmp_path, ListedApi()))).accounts == 3
    assert said == ["Prefect did not receive the result of the run (the server is gone); the report below is correct."]
