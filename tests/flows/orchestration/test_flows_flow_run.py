"""The end of flow runs: state and message; tests/e2e/prefect shows them on a Prefect server."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from prefect import Flow

from connectors.warehouse.storage.errors import OtherService, WarehouseBusy
from flows.backfill import backfill
from flows.config.errors import SettingsError
from flows.config.options import BackfillOptions, ExpertOptions, SyncOptions
from flows.orchestration import flow_run
from flows.orchestration.credentials import ApiCredentials, load_with_credentials
from flows.orchestration.flow_run import announce, end_in_state, track
from flows.publish import PublishOptions, publish
from models.selection import NothingChosen
from tests.api.listed import ListedApi
from tests.runs import synced

pytestmark = pytest.mark.anyio


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


async def test_another_error_is_told_and_raised_and_errors_of_prefect_only_said(told: Mock, said: list[str]) -> None:
    told.side_effect = TimeoutError
    with pytest.raises(KeyError):
        await end_in_state(AsyncMock(side_effect=KeyError("x"))())
    assert told.call_args.kwargs["event"] == "gramhouse.run.failed"
    assert said == ["Prefect did not receive the failure event (TimeoutError); the run is recorded in the warehouse."]


async def test_an_error_of_prefect_is_said_and_the_run_goes_on(
    told: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    page = AsyncMock(side_effect=ConnectionError("away"))
    monkeypatch.setattr(flow_run, "acreate_markdown_artifact", page)
    monkeypatch.setattr(flow_run, "get_run_logger", Mock())
    await announce(await synced(tmp_path, ListedApi(expired=frozenset({1}))))
    # The events are sent before the page, which fails.
    assert [call.kwargs["event"] for call in told.call_args_list] == ["gramhouse.run.complete", "gramhouse.tokens"]
    assert said == ["Prefect did not receive the run's page (away); the run is recorded in the warehouse."]


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


async def test_address_and_key_may_be_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {name: ApiCredentials(base_url="http://localhost:9", api_key=key) for name, key in KEYS.items()}

    async def load_block(name: str) -> ApiCredentials:
        if name not in blocks:
            raise ValueError(f"Unable to find block document named {name}")
        return blocks[name]

    monkeypatch.setattr(ApiCredentials, "aload", load_block)
    settings = await load_with_credentials({"credentials": "gramhouse-api-credentials/production"})
    assert (settings.address(), settings.key().get_secret_value()) == ("http://localhost:9", KEYS["production"])
    for name, why in (("damaged", "the API key is empty or contains"), ("absent", "Unable to find block document")):
        begin = (
            f"^GRAMHOUSE_CREDENTIALS: the block '{name}' of the type gramhouse-api-credentials cannot be used: {why}"
        )
        with pytest.raises(SettingsError, match=begin) as refused:
            await load_with_credentials({"credentials": name})
        assert KEYS["damaged"] not in str(refused.value)


KEYS = {"production": "canary-77f0", "damaged": "two words"}


async def test_a_server_that_is_lost_during_a_run_loses_nothing(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/e2e/prefect/test_e2e_up.py tracks a command on a real server."""

    async def lose(flow: Flow[..., Any], options: object, **_: object) -> None:
        await flow.fn(options)
        raise ConnectionError("the server is gone")

    for name in ("check_tracker", "announce"):
        monkeypatch.setattr(flow_run, name, AsyncMock())
    monkeypatch.setattr(Flow, "__call__", lose)
    assert (await track(SyncOptions(), lambda: synced(tmp_path, ListedApi()))).accounts == 3
    what = "Prefect did not receive the result of the run (the server is gone); the report below is correct."
    assert said == [what]
