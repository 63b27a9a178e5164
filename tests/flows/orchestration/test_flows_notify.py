"""The page and the events sent to Prefect; errors of Prefect do not affect the run."""

import logging
from pathlib import Path
from typing import Any

import pytest

from flows.orchestration import notify as telling
from flows.orchestration.notify import notify, notify_failure
from tests.flows.fake_api import FakeApi, synced

pytestmark = pytest.mark.anyio


class Server:
    """Records the messages sent to Prefect; the first `ails` of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ails: int = 0) -> None:
        self.ails = ails
        self.emitted: list[str] = []
        self.pages: list[str] = []
        for name, door in {
            "acreate_markdown_artifact": self._page,
            "emit_event": self._emit,
        }.items():
            monkeypatch.setattr(telling, name, door)

    def _answer(self) -> None:
        if self.ails:
            self.ails -= 1
            message = "away"
            raise ConnectionError(message)

    async def _page(self, markdown: str, *, key: str, description: str) -> None:
        self._answer()
        assert key == "gramhouse-run"
        assert description
        self.pages.append(markdown)

    def _emit(self, *, event: str, resource: dict[str, str], payload: dict[str, Any]) -> None:
        assert resource["prefect.resource.id"].startswith("gramhouse.run.")
        assert payload["sentence"]
        self.emitted.append(event)


async def test_a_run_is_reported_with_its_page_and_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    await notify(await synced(tmp_path, FakeApi(expired=frozenset({1}))))
    assert server.emitted[:2] == ["gramhouse.run.complete", "gramhouse.tokens"]
    [page] = server.pages
    assert "`user_1`" in page


async def test_an_error_of_reporting_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(monkeypatch, 1)
    report = await synced(tmp_path, FakeApi())
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        await notify(report)
    [away] = caplog.messages
    assert away == "Prefect did not receive the run's page (away); the run is recorded in the warehouse."
    # The events of the first run were sent before its artifact failed.
    assert server.emitted[0] == "gramhouse.run.complete"


async def test_a_failure_is_reported_and_an_error_of_the_report_is_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(monkeypatch)
    await notify_failure("the warehouse is no file")
    assert server.emitted == ["gramhouse.run.failed"]

    def broken(**_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(telling, "emit_event", broken)
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        await notify_failure("the warehouse is no file")
    assert caplog.messages == [
        "Prefect did not receive the failure event (TimeoutError); the run is recorded in the warehouse."
    ]
