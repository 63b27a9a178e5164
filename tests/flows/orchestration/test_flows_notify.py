"""Errors of Prefect do not affect the run."""

from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from flows.orchestration import notify as telling
from flows.orchestration.notify import notify, notify_failure
from tests.api.listed import ListedApi
from tests.runs import synced


@pytest.mark.anyio
async def test_an_error_of_prefect_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    page, event = AsyncMock(side_effect=ConnectionError("away")), Mock()
    monkeypatch.setattr(telling, "acreate_markdown_artifact", page)
    monkeypatch.setattr(telling, "emit_event", event)
    await notify(await synced(tmp_path, ListedApi(expired=frozenset({1}))))
    # The events are sent before the page, which fails.
    assert [call.kwargs["event"] for call in event.call_args_list] == ["gramhouse.run.complete", "gramhouse.tokens"]
    assert page.call_args.kwargs["key"] == "gramhouse-run"
    event.side_effect = TimeoutError
    await notify_failure("the warehouse is no file")
    assert event.call_args.kwargs["event"] == "gramhouse.run.failed"
    assert said == [
        "Prefect did not receive the run's page (away); the run is recorded in the warehouse.",
        "Prefect did not receive the failure event (TimeoutError); the run is recorded in the warehouse.",
    ]
