"""The end of flow runs on a Prefect server: state name and message, and artifacts."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from prefect import Flow

from connectors.sandbox.http.access import DEMO_KEY
from connectors.state.database import open_state_read_only, state_path
from connectors.state.runs import last_command
from flows.backfill import backfill
from flows.config.errors import SettingsError
from flows.config.options import BackfillOptions, SyncOptions
from flows.orchestration.credentials import ApiCredentials
from flows.orchestration.flow_run import track
from flows.publish import publish
from flows.reporting.run_report import RunReport
from flows.sync import sync
from tests.api.listed import ListedApi
from tests.prefect_api import ask
from tests.runs import synced
from tests.security.canary import holding

# Prefect's client leaves connections to the garbage collector.
LEFT_OPEN = [f"ignore:{kind}" for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning")]
# tests/e2e/prefect/test_e2e_up.py is quicker: a server for these tests alone takes longer than they do.
pytestmark = [pytest.mark.anyio, pytest.mark.prefect, pytest.mark.long, *map(pytest.mark.filterwarnings, LEFT_OPEN)]

ONE_ACCOUNT = "sandbox-one-account-key"
WAREHOUSE = Path("data/warehouse.duckdb")


def shown(api: str) -> tuple[str, str, str]:
    """The type, the name and the message of the newest flow run's state."""
    state = newest(api)["state"]
    return state["type"], state["name"], state["message"] or ""


def newest(api: str) -> Any:  # noqa: ANN401 - any JSON
    return max(ask(api, "flow_runs/filter"), key=lambda run: run["created"])


async def run(flow: Any, options: Any = None) -> None:  # noqa: ANN401 - any flow of ours
    await flow(options, return_state=True)


async def test_the_state_of_the_flow_run_shows_problems_that_need_a_person(
    tracker: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(sync)
    monkeypatch.setenv("GRAMHOUSE_API_KEY", ONE_ACCOUNT)
    await run(sync)
    kind, name, message = shown(tracker)
    assert (kind, name) == ("COMPLETED", "Completed")
    assert re.search(r"7 of 8 known accounts \(.*\) are missing", message)

    elsewhere = service.replace("127.0.0.1", "localhost")
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", elsewhere)
    await run(sync)
    kind, name, message = shown(tracker)
    assert (kind, name) == ("FAILED", "Failed")
    assert service in message

    await run(sync, SyncOptions(rebind=True, accept_removals=True))
    assert shown(tracker)[0] == "COMPLETED"
    (page,) = [found["data"] for found in ask(tracker, "artifacts/filter") if "(7 removed)" in str(found["data"])]
    assert "7 accounts marked as removed" in page

    monkeypatch.setenv("GRAMHOUSE_API_KEY", "wrong-canary-8c1")
    await run(sync)
    kind, name, message = shown(tracker)
    assert (kind, name) == ("FAILED", "Failed")
    cause, _, rest = message.partition(" Fix: ")
    assert "api_unauthorized" in cause
    assert rest
    assert not re.search(r"(?<![.\d])0 ", message)


async def test_an_invalid_query_is_a_one_line_error(
    tracker: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(publish)
    kind, _, message = shown(tracker)
    assert kind == "FAILED"
    assert message.startswith("There is no warehouse at data/warehouse.duckdb yet. Fix: ")
    await run(sync)
    await run(backfill, BackfillOptions(accounts=["nobody"]))
    kind, name, message = shown(tracker)
    assert (kind, name) == ("FAILED", "Failed")
    assert message.startswith("There is no account 'nobody' in the warehouse")
    await run(backfill, BackfillOptions(failed=True))
    assert shown(tracker)[:2] == ("COMPLETED", "Completed")
    await run(backfill, BackfillOptions(everything=True, dry_run=True))
    kind, name, message = shown(tracker)
    assert (kind, name) == ("COMPLETED", "Completed")
    assert re.match(r"\d+ scans of \d accounts would run", message)
    assert service
    await run(publish)
    assert shown(tracker)[0] == "COMPLETED"
    assert shown(tracker)[2].startswith("Published ")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", "other.duckdb")
    duckdb.connect("other.duckdb").close()
    await run(backfill, BackfillOptions(everything=True, dry_run=True))
    assert shown(tracker)[:2] == ("FAILED", "Failed")


async def test_address_and_key_may_be_a_block(
    tracker: str, service: str, prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAMHOUSE_BASE_URL")
    monkeypatch.delenv("GRAMHOUSE_API_KEY")
    await ApiCredentials(base_url=service, api_key=DEMO_KEY).save("production")
    await ApiCredentials(base_url=service, api_key="two words").save("damaged")
    monkeypatch.setenv("GRAMHOUSE_CREDENTIALS", "production")
    await run(sync)
    assert shown(tracker)[0] == "COMPLETED"
    monkeypatch.setenv("GRAMHOUSE_CREDENTIALS", "damaged")
    await run(sync)
    assert shown(tracker)[2].startswith("GRAMHOUSE_CREDENTIALS: the block 'damaged': the API key is empty or contains")
    monkeypatch.setenv("GRAMHOUSE_CREDENTIALS", "absent")
    await run(sync)
    kind, name, message = shown(tracker)
    assert (kind, name) == ("FAILED", "Failed")
    assert "there is no block 'absent' of the type gramhouse-api-credentials" in message
    with open_state_read_only(state_path(WAREHOUSE)) as state:
        assert state is not None
        started = state.read(last_command)
    assert started is not None
    assert (started["run_id"], started["kind"], started["detail"]) == (None, "sync", message.removesuffix("."))
    assert not holding(prefect_home, DEMO_KEY)


async def test_a_tracked_command_returns_the_report_of_its_run(
    tracker: str, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> RunReport:
        return await synced(tmp_path, ListedApi())

    async def refuse() -> RunReport:
        raise SettingsError("no key")

    assert (await track(SyncOptions(), work)).accounts == 3
    assert (newest(tracker)["name"][:5], shown(tracker)[0]) == ("sync ", "COMPLETED")
    with pytest.raises(SettingsError):
        await track(BackfillOptions(everything=True), refuse)
    assert (newest(tracker)["name"][:9], shown(tracker)[1:]) == ("backfill ", ("Failed", "no key"))

    call = Flow.__call__

    async def lose(flow: Flow[..., Any], *options: Any, **how: Any) -> None:  # noqa: ANN401
        await call(flow, *options, **how)
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(Flow, "__call__", lose)
    assert (await track(SyncOptions(), work)).accounts == 3
    assert (
        said[-1] == "Prefect did not receive the result of the run (the server is gone); the report below is correct."
    )
