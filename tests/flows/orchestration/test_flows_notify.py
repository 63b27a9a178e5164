"""The page and the events sent to Prefect; errors of Prefect do not affect the run."""

import logging
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from flows.orchestration import notify as telling
from flows.orchestration.notify import notify, notify_failure
from tests.api.listed import ListedApi
from tests.runs import synced

pytestmark = pytest.mark.anyio


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    page = AsyncMock()
    monkeypatch.setattr(telling, "acreate_markdown_artifact", page)
    return page


@pytest.fixture
def event(monkeypatch: pytest.MonkeyPatch) -> Mock:
    event = Mock()
    monkeypatch.setattr(telling, "emit_event", event)
    return event


async def test_a_run_is_reported_with_its_page_and_its_events(tmp_path: Path, page: AsyncMock, event: Mock) -> None:
    await notify(await synced(tmp_path, ListedApi(expired=frozenset({1}))))
    sent = [call.kwargs for call in event.call_args_list]
    assert [each["event"] for each in sent][:2] == ["gramhouse.run.complete", "gramhouse.tokens"]
    assert all(each["resource"]["prefect.resource.id"].startswith("gramhouse.run.") for each in sent)
    assert all(each["payload"]["sentence"] for each in sent)
    [written] = page.call_args_list
    assert (written.kwargs["key"], bool(written.kwargs["description"])) == ("gramhouse-run", True)
    assert "`user_1`" in str(written)


async def test_an_error_of_reporting_is_logged(
    tmp_path: Path, page: AsyncMock, event: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    page.side_effect = ConnectionError("away")
    report = await synced(tmp_path, ListedApi())
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        await notify(report)
    assert caplog.messages == [
        "Prefect did not receive the run's page (away); the run is recorded in the warehouse."
    ]  # fmt: skip
    # The events are sent before the page, which fails.
    assert event.call_args_list[0].kwargs["event"] == "gramhouse.run.complete"


async def test_a_failure_is_reported_and_an_error_of_the_report_is_ignored(
    event: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    event.side_effect = [None, TimeoutError]
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        for _ in range(2):
            await notify_failure("the warehouse is no file")
    assert {call.kwargs["event"] for call in event.call_args_list} == {"gramhouse.run.failed"}
    assert caplog.messages == [
        "Prefect did not receive the failure event (TimeoutError); the run is recorded in the warehouse."
    ]
